"""A baseline file: a run as one file to compare others with.

Gzip over JSON lines. The first line is the header, `{"medvqa_baseline": 1, "responses": true, "results": N,
"run": {...}}`, with the run's run.json. Each other line is a result as in results.jsonl, sorted by key, with images as
name, extent and digest. Without responses, each response is replaced by its digest (`response_digest`), which still
shows whether two are equal; log-probabilities, reasons and judges' replies are left out, and only letters of options
stay of the extraction. If data are not declared public, ids and texts are keyed hashes too (`records.keyed`), and
run.json has a field `keyed` that names the key and these benchmarks.

A file may come from anywhere: sizes are limited, and nothing in it is evaluated.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from medvqa import files
from medvqa.items import Answer, DataError, MedVQAError, Result, UsageError
from medvqa.records.keyed import BaselineKey, keyed, keyed_run
from medvqa.records.run_folder import MAX_LINE, decode, encode, write_atomic
from medvqa.records.run_record import RecordError, RunRecord, read_run, record_of

VERSION = 1
MAX_BYTES = 2**30
"""Limit of the unpacked file: a few compressed bytes may unpack to terabytes."""
MAX_RESULTS = 2**20

DIGESTS = "digests"
"""Value of the run's field `responses` in a baseline file without responses."""

_MAGIC = b"\x1f\x8b"
_encoder = msgspec.json.Encoder()


class _BaselineHeader(msgspec.Struct, forbid_unknown_fields=True):
    medvqa_baseline: int
    responses: bool
    results: int
    run: dict[str, Any]


_header = msgspec.json.Decoder(_BaselineHeader)


def response_digest(answer: Answer | None) -> str:
    """SHA-256 (hex) of a response: text, log-probabilities, and a confidence if there is one; "" for no answer."""
    if answer is None:
        return ""
    logprobs = sorted((answer.option_logprobs or {}).items())
    # The confidence of a vote, whose answer has no end, follows from its samples; earlier digests do not cover it.
    stated = (answer.confidence,) if answer.confidence is not None and answer.finish else ()
    return hashlib.sha256(_encoder.encode((answer.text, logprobs, *stated))).hexdigest()


def said(run: RunRecord, result: Result) -> str:
    """The digest of a result's response, in a run folder or a baseline file: equal for equal answers."""
    if run.responses == DIGESTS and result.answer is not None:
        return result.answer.text
    return response_digest(result.answer)


def write_baseline(
    path: Path,
    run: RunRecord,
    results: Sequence[Result],
    *,
    responses: bool = True,
    hidden: Collection[str] = (),
    key: BaselineKey | None = None,
) -> None:
    """Write a baseline file; the same run gives the same bytes. UsageError if it cannot be written, or not be read.

    Without responses, ids and texts of the benchmarks in `hidden` are hashes by the key.
    """
    if run.responses == DIGESTS:
        responses = True  # they are digests already, and stay
    record = run if responses else msgspec.structs.replace(run, responses=DIGESTS)
    kept = [result if responses else without_response(result) for result in results]
    if not responses and hidden and key is not None:
        record = keyed_run(record, key, hidden)
        kept = [keyed(result, key) if result.item.benchmark in hidden else result for result in kept]
    kept.sort(key=lambda result: result.key)
    written = {"responses": record.responses is None, "results": len(kept), "run": record.as_json()}
    header = {"medvqa_baseline": VERSION, **written}
    packed, total = io.BytesIO(), 0
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as file:
        for number, line in enumerate(chain([_encoder.encode(header)], map(encode, kept)), 1):
            line += b"\n"
            total += len(line)
            if (why := _too_large(number, line, total)) is not None:
                name = "/".join(map(str, filter(None, kept[number - 2].key))) if number > 1 else "run.json"
                raise UsageError(
                    f"baseline file {path} cannot be written: {name}: {why}. Name the run folder itself by --baseline"
                )
            file.write(line)
    with files.writing(f"baseline file {path}"):
        write_atomic(path, packed.getvalue())


def without_response(result: Result) -> Result:
    """The result with digests in place of responses, and without thoughts and the judge's replies."""
    answer, score, judgement = result.answer, result.score, result.judgement
    if answer is not None:
        response = response_digest(answer)
        answer = Answer(
            response,
            finish=answer.finish,
            served_by=answer.served_by,
            cut=answer.cut,
            confidence=answer.confidence,
        )
    extracted = tuple(option if option in result.item.options else _digest(option) for option in score.extracted)
    if judgement is not None:
        judgement = replace(judgement, replies=())
    score = replace(score, extracted=extracted, why="")
    return replace(result, answer=answer, score=score, judgement=judgement)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def is_baseline(path: Path) -> bool:
    """Whether a path is a file that begins as a baseline file does."""
    if not path.is_file():
        return False
    with files.reading(path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_record(path: Path) -> RunRecord:
    """Return the record of a run folder or a baseline file; an empty one for anything else, and for a damaged one."""
    try:
        if path.is_dir():
            return read_run(path)
        if is_baseline(path):
            with files.reading(path) as raw:
                return _read_header(path, next(_lines(path, raw), (1, b"")))[1]
    except (MedVQAError, OSError):
        pass  # whoever reads the results says why
    return RunRecord()


def read_baseline(path: Path) -> tuple[RunRecord, tuple[Result, ...]]:
    """The run's record and the results, sorted by key, of a baseline file.

    UsageError if there is none; DataError, with file and line, if it is damaged, too large, or of a later version.
    If responses were left out, the record has `responses="digests"`; compare by `said`.
    """
    try:
        with files.reading(path) as raw:
            if raw.read(len(_MAGIC)) != _MAGIC:
                raise DataError(f"{path} line 1: no baseline file; `medvqa baseline RUN -o FILE` writes one")
            raw.seek(0)
            lines = _lines(path, raw)
            header, run = _read_header(path, next(lines, (1, b"")))
            results = [_result(path, *line) for line in lines]
    except OSError as error:
        raise UsageError(f"baseline {path} cannot be read: {error.strerror or error}") from error
    keys = [result.key for result in results]
    if len(results) != header.results:
        raise DataError(f"{path} line {len(results) + 1}: {header.results} results are announced, {len(results)} there")
    if keys != sorted(set(keys)):
        twice = next(i for i in range(1, len(keys)) if keys[i - 1] >= keys[i])
        named = "/".join(map(str, filter(None, keys[twice])))
        raise DataError(f"{path} line {twice + 2}: results must be sorted and each there once, not {named}")
    return run, tuple(results)


def _too_large(number: int, line: bytes, total: int) -> str | None:
    """Return why a file with this line, its end included, is not read; None if it is. `total`: bytes up to its end."""
    if len(line) > MAX_LINE:
        return f"longer than {MAX_LINE} bytes"
    if total > MAX_BYTES:
        return f"larger than {MAX_BYTES} bytes when unpacked"
    return f"more than {MAX_RESULTS} results" if number > MAX_RESULTS + 1 else None


def _lines(path: Path, raw: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each line, unpacked on demand."""
    total = number = 0
    try:
        with gzip.GzipFile(fileobj=raw, mode="rb") as file:
            while line := file.readline(MAX_LINE + 1):
                number += 1
                total += len(line)
                if (why := _too_large(number, line, total)) is not None:
                    raise DataError(f"{path} line {number}: {why}")
                yield number, line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} line {number + 1}: the file is damaged: {error}") from error


def _read_header(path: Path, line: tuple[int, bytes]) -> tuple[_BaselineHeader, RunRecord]:
    try:
        header = _header.decode(line[1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} line 1: no header of a baseline file: {error}") from error
    if header.medvqa_baseline != VERSION:
        raise DataError(f"{path} line 1: version {header.medvqa_baseline}; this one reads version {VERSION}")
    try:
        return header, record_of(header.run)
    except RecordError as error:
        why = str(error).replace("field ", "field run.", 1)
        raise DataError(f"{path} line 1: {why}. Write the file anew: medvqa baseline RUN -o FILE") from None


def _result(path: Path, number: int, line: bytes) -> Result:
    try:
        return decode(line)
    except msgspec.DecodeError as error:
        raise DataError(f"{path} line {number}: {error}") from error
