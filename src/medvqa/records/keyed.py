"""Keyed hashes in place of ids and texts, for a baseline that is passed on without them.

The hash of a text is HMAC-SHA256 by a key that stays with its owner. Without the key, guessed names cannot be checked;
with it, a run on the same data finds its questions again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from medvqa import files
from medvqa.items import Image, Item, QuestionKey, Result, UsageError
from medvqa.records.run_record import RunRecord, record_of

ENV_KEY = "MEDVQA_BASELINE_KEY"
"""Environment variable that holds a key: 64 hexadecimal digits."""
DIGITS = 32
"""Hexadecimal digits of a hash."""
KEY_MODE = 0o600
KEPT = (
    *("schema", "kind", "name", "started", "finished", "model", "options", "config", "techniques", "repeat", "judge"),
    *("extraction", "reading_rules"),
    "protocol",
    *("ablation", "benchmarks", "versions", "engine", "usage", "judge_usage", "left_out", "served_by", "responses"),
    "merged",
)
"""Fields of run.json that name no question and no file of the data."""

_IS_KEY = re.compile("[0-9a-fA-F]{64}").fullmatch
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True)
class BaselineKey:
    """A key of 32 bytes; `source`: the variable or file that holds it."""

    secret: bytes = field(repr=False)
    source: str
    _hashes: dict[tuple[str, str], str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The key's public name in a baseline, 16 hexadecimal digits; does not reveal the key."""
        return self.of("", "the name of a key")[:16]

    @property
    def texts(self) -> dict[str, str]:
        """The texts that were hashed so far, by their hashes."""
        return {digest: text for (_, text), digest in self._hashes.items()}

    def of(self, benchmark: str, text: str) -> str:
        """The hash of a text of a benchmark: equal texts of one benchmark have equal hashes."""
        if (digest := self._hashes.get((benchmark, text))) is None:
            content = _encoder.encode((benchmark, text.encode(errors="surrogatepass").hex()))
            digest = hmac.digest(self.secret, content, hashlib.sha256).hex()[:DIGITS]
            self._hashes[benchmark, text] = digest
        return digest


def key_file() -> Path:
    """The path of the user's key."""
    import platformdirs

    return platformdirs.user_data_path("pytest-medvqa") / "baseline.key"


def own_key() -> BaselineKey:
    """The key of the environment, else of the user's file, which is created if missing (UsageError)."""
    if (key := _of_environment()) is not None:
        return key
    path = key_file()
    try:
        if not path.exists():
            files.private_folder(path.parent)
            # Two processes must not create two keys: the second fails here, and reads the first one's file.
            files.write_new(path, secrets.token_hex(32).encode() + b"\n", mode=KEY_MODE)
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(
            f"the key of baselines cannot be stored in {path}: {error.strerror}. Set {ENV_KEY} to 64 hexadecimal "
            "digits of your own, such as those of `openssl rand -hex 32`, and keep them"
        ) from error
    key = _of_file(path)
    if key is None:
        raise UsageError(f"{path} is missing or unreadable; set {ENV_KEY} to the key")
    return key


def find_key(name: str, baseline: str) -> BaselineKey:
    """The key with this name. If it is missing, UsageError says how to get and pass it."""
    path = key_file()
    held = [key for key in (_of_environment(), _of_file(path)) if key is not None]
    for key in held:
        if hmac.compare_digest(key.name, name):
            return key
    held_keys = (
        ", ".join(f"{key.source} holds the key {key.name}" for key in held) or f"there is no {ENV_KEY} and no {path}"
    )
    raise UsageError(
        f"baseline {baseline} holds keyed hashes in place of ids and texts, and its key {name} is not here: "
        f"{held_keys}. Ask its author for the content of {path.name} in their data folder, and set {ENV_KEY} to it, in "
        "CI as a secret; or write the baseline anew from its run: medvqa baseline RUN -o FILE --no-responses"
    )


def _of_environment() -> BaselineKey | None:
    value = os.environ.get(ENV_KEY, "").strip()
    return _parsed(value, ENV_KEY) if value else None


def _of_file(path: Path) -> BaselineKey | None:
    try:
        return _parsed(files.read(path, 2**10).decode(errors="replace").strip(), str(path))
    except OSError:
        return None


def _parsed(value: str, source: str) -> BaselineKey:
    if not _IS_KEY(value):
        # Do not show the value: it may be most of a key.
        raise UsageError(f"{source} holds no key: 64 hexadecimal digits are expected (`openssl rand -hex 32`)")
    return BaselineKey(bytes.fromhex(value), source)


def keyed_run(run: RunRecord, key: BaselineKey, benchmarks: Iterable[str]) -> RunRecord:
    """The record for a baseline with keyed hashes, without fields that may name a question or a file."""
    written = run.as_json()
    kept = {name: written[name] for name in KEPT if name in written}
    if "engine" in kept:
        # Nodes of a pool and endpoints are machines of the owner.
        kept["engine"] = {
            name: value for name, value in kept["engine"].items() if name not in ("nodes", "problems", "endpoints")
        }
    if run.missing:
        kept["missing"] = [key.of("", name) for name in run.missing]
    if run.selection is not None:
        # Options such as -k, and ids of tests, name questions.
        how = ["options that are left out here"] if run.selection.how else []
        kept["selection"] = {**written["selection"], "how": how}
    if "benchmarks" in kept:
        # The names of the files are those of the owner's folders.
        kept["benchmarks"] = {name: _without_file(fields) for name, fields in kept["benchmarks"].items()}
    return record_of({**kept, "keyed": {"key": key.name, "benchmarks": sorted(benchmarks)}})


def _without_file(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a benchmark without the names and digests of the files that declare it."""
    if not fields.get("declared"):
        return dict(fields)
    hidden = ("file", "sha256", "table_sha256")
    return {**fields, "declared": {name: value for name, value in fields["declared"].items() if name not in hidden}}


def _changed(result: Result, text: Callable[[str], str], image: Callable[[Image], Image]) -> Result:
    """A result with other ids, texts and images. Letters of options, kinds and tags stay; other fields are left out."""
    item, answer = result.item, result.answer

    def letter_or_text(value: str) -> str:
        return value if value in item.options else text(value)

    changed = Item(
        id=text(item.id),
        benchmark=item.benchmark,
        kind=item.kind,
        question=text(item.question),
        options={letter: text(value) for letter, value in item.options.items()},
        answers=tuple(map(letter_or_text, item.answers)),
        images=tuple(map(image, item.images)),
        tags=item.tags,
        pair_id=None if item.pair_id is None else text(item.pair_id),
        cluster_id=None if item.cluster_id is None else text(item.cluster_id),
    )
    return replace(
        result,
        item=changed,
        prompt=text(result.prompt),
        answer=None if answer is None else replace(answer, text=text(answer.text)),
        score=replace(result.score, extracted=tuple(map(letter_or_text, result.score.extracted))),
    )


def keyed(result: Result, key: BaselineKey) -> Result:
    """A result without response, with hashes in place of ids and texts."""
    benchmark, judgement = result.item.benchmark, result.judgement
    hidden = _changed(
        result,
        lambda text: key.of(benchmark, text),
        lambda image: Image(key.of(benchmark, image.digest or image.name)),
    )
    return replace(
        hidden,
        score=replace(hidden.score, why=""),
        judgement=None if judgement is None else replace(judgement, replies=(), asked=()),
    )


def keyed_question(question: QuestionKey, run: RunRecord, key: BaselineKey | None) -> QuestionKey:
    """The key by which a baseline has a question."""
    if key is None or run.keyed is None or question.benchmark not in run.keyed.benchmarks:
        return question
    return question._replace(item=key.of(question.benchmark, question.item))


def reveal(run: RunRecord, results: Iterable[Result], others: Iterable[Result], key: BaselineKey) -> tuple[Result, ...]:
    """The results of a baseline, sorted by key; ids and texts that `others` have replace their hashes.

    `others`: results of runs, without responses (`without_response`).
    """
    hidden = frozenset(() if run.keyed is None else run.keyed.benchmarks)
    images: dict[str, Image] = {}
    for other in others:
        if other.item.benchmark in hidden:
            keyed(other, key)  # for the texts of the key
            images |= {key.of(other.item.benchmark, image.digest or image.name): image for image in other.item.images}
    texts = key.texts
    revealed = (
        _changed(result, lambda text: texts.get(text, text), lambda image: images.get(image.name, image))
        if result.item.benchmark in hidden
        else result
        for result in results
    )
    return tuple(sorted(revealed, key=lambda result: result.key))
