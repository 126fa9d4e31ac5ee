"""The sheet on which people correct kinds of errors, and their corrections read back: from sheets and from reviews."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medvqa import files, tables
from medvqa.items import DataError, Result, UsageError
from medvqa.judging import reviews
from medvqa.judging.agreement import answer_id, nominal
from medvqa.judging.taxonomy.labels import Classified, ErrorLabel, KindAgreement, People, with_labels
from medvqa.judging.taxonomy.trees import (
    AGREED,
    NONE,
    UNCLASSIFIED,
    WITHIN,
    Taxonomy,
    kinds_by_tag,
    main_kind,
)
from medvqa.protocols import rotation
from medvqa.records import run_folder
from medvqa.tables import sheets

COLUMNS = ("id", "question", "options", "reference", "response", "label", "correction", "remark")
"""Columns of a sheet; people fill in `correction`, and `remark` if they like."""
CONSENSUS = "consensus"
FORMATS = "corrections by people are a table (XLSX, or CSV or TSV in UTF-8) with the columns id and correction"
SPLIT = "people disagree: no kind has a majority"

Corrections = Mapping[str, Mapping[str, str]]
"""Kinds by rater and `answer_id`; "" if the rater says that no kind fits."""


def write_sheet(path: Path, classified: Classified, results: Iterable[Result]) -> int:
    """Write a row for each labelled response, and return their number; XLSX or CSV by the file's ending.

    Raises UsageError for another ending, and if the file exists: it may contain corrections.
    """
    if path.suffix.lower() not in (".csv", ".xlsx"):
        raise UsageError(f"--sheet={path}: a sheet is a .csv or an .xlsx file")
    if path.exists():
        raise UsageError(f"--sheet={path}: it exists and may contain corrections; name another file")
    labels = {label.key: label for label in classified.labels}
    rows: dict[str, tuple[str, ...]] = {}
    for result in results:
        label = labels.get(result.key)
        if label is None or result.answer is None:
            continue
        item = rotation.as_shown(result.item, result.variant)
        rows.setdefault(
            label.answer,
            (
                label.answer,
                item.question,
                "\n".join(f"{letter}. {text}" for letter, text in item.options.items()),
                " / ".join(item.answers),
                result.answer.reply,
                label.first or UNCLASSIFIED,
                "",
                "",
            ),
        )
    with files.writing(f"--sheet={path}:"):
        sheets.write(path, COLUMNS, rows.values())
    return len(rows)


def corrections(
    paths: Sequence[Path],
    classified: Classified,
    results: Iterable[Result] = (),
    *,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, str]]:
    """Return the kinds that people gave, by rater and `answer_id`.

    A file is a filled-in sheet, or `reviews` of `results`, all those of the run: the tags of a review name its kind
    (`kind_of_tags`). `say` gets a line about the tags of each file of reviews.

    A cell of `correction` holds a kind's name, `ok` (the label is right) or `none` (no kind fits). A row with an empty
    cell was not reviewed. The rater is in the column `rater`, else it is the file's name without ending. Raises
    UsageError for a missing file and if nothing was reviewed; DataError, with file and row, for an unknown id or kind,
    for an answer corrected twice by one rater, and for a review that is not of this run.
    """
    results = tuple(results)
    labels = {label.answer: label for label in classified.labels}
    stems = Counter(path.stem for path in paths)
    found: dict[str, dict[str, str]] = {}
    places: dict[tuple[str, str], str] = {}
    for path in paths:
        if not path.is_file():
            raise UsageError(f"--human={path}: no such file")
        rater_of_file = path.stem if stems[path.stem] == 1 else str(path)
        if reviews.is_reviews(path):
            if rater_of_file in (CONSENSUS, classified.judge.name):
                raise UsageError(f"--human={path}: its name stands for the rater, and is the judge's; rename the file")
            for answer, (kind, where) in _of_reviews(path, classified, results, say).items():
                if before := places.get((rater_of_file, answer)):
                    raise DataError(f"{where}: {rater_of_file} corrects this answer a second time, after {before}")
                places[rater_of_file, answer] = where
                found.setdefault(rater_of_file, {})[answer] = kind
            continue
        for row in tables.read(path, needed=[("id", "correction")], fold=True, hint=f"; {FORMATS}"):
            written = " ".join(row.text("correction").split())
            if not written:
                continue
            answer = row.identifier("id")
            if answer not in labels:
                raise row.error(f"no classified answer has the id {answer[:80]!r}: another run, or another response?")
            rater = row.text("rater").strip() if "rater" in row.values else rater_of_file
            if not rater or rater in (CONSENSUS, classified.judge.name):
                raise row.error(f"rater {rater!r}: a name is expected, other than the judge's and '{CONSENSUS}'")
            if before := places.get((rater, answer)):
                raise row.error(f"{rater} corrects this answer a second time, after {before}; keep one of them")
            places[rater, answer] = row.where
            label = labels[answer]
            found.setdefault(rater, {})[answer] = _kind_of(row, written, label, classified.trees[label.benchmark])
    if not found:
        raise UsageError(
            f"--human={paths[0]}: no row has a correction; write a kind, {AGREED} or {NONE} into the column "
            "correction. Reviews correct classified answers by tags that have a kind: "
            + "; ".join(f"{tag}: {kind}" for tag, kind in _tags_of(classified).items())
        )
    return found


def _kind_of(row: tables.TableRow, written: str, label: ErrorLabel, tree: Taxonomy) -> str:
    """Return the kind that a cell of `correction` says, "" for none of them (DataError for an unknown kind)."""
    named = written.casefold()
    if named == AGREED:
        return label.first
    if named == NONE:
        return ""
    kinds = [kind for kind in tree.kinds if kind.casefold() == named]
    if not kinds:
        raise row.error(
            f"no kind {written[:80]!r}; write {AGREED}, {NONE}, or one of: {', '.join(tree.kinds)}", "correction"
        )
    return kinds[0]


def _tags_of(classified: Classified) -> dict[str, str]:
    return {tag: kind for tree in classified.trees.values() for tag, kind in kinds_by_tag(tree).items()}


def kind_of_tags(tags: Iterable[str], tree: Taxonomy) -> str | None:
    """Return the kind that the tags of a review name; None if they name no kind, or several.

    Several kinds within one kind count as that kind.
    """
    by_tag = kinds_by_tag(tree)
    kinds = {by_tag[tag] for tag in tags if tag in by_tag}
    mains = {main_kind(kind) for kind in kinds}
    return kinds.pop() if len(kinds) == 1 else mains.pop() if len(mains) == 1 else None


def _of_reviews(
    path: Path, classified: Classified, results: Sequence[Result], say: Callable[[str], None]
) -> dict[str, tuple[str, str]]:
    """Return the kind and the place of each review that corrects an answer; `say` gets the counts.

    Equal responses of several samples are one answer: their reviews must name one kind.
    """
    labels = {label.key: label for label in classified.labels}
    given = reviews.read(path, run_folder.answers_digest(results), {result.key for result in results})
    found: dict[str, tuple[str, str]] = {}
    left_out = Counter[str]()
    for review in given:
        label = labels.get(review.key)
        if label is None:
            left_out["of answers that are not classified"] += 1
            continue
        tree = classified.trees[label.benchmark]
        kind = kind_of_tags(review.tags, tree)
        if kind is None:
            several = len({*review.tags} & kinds_by_tag(tree).keys()) > 1
            left_out["with tags of several kinds" if several else "with tags of no kind"] += 1
            continue
        before = found.setdefault(label.answer, (kind, review.where))
        if before[0] != kind:
            raise DataError(f"{review.where}: the same response has another kind in {before[1]}; tag both alike")
    tags = ", ".join(f"{tag} {count:,}" for tag, count in reviews.counts(given).items()) or "none"
    unused = ", ".join(f"{count:,} {why}" for why, count in left_out.items()) or "none"
    say(
        f"medvqa: {path}: reviews: {len(given):,}; tags: {tags}; answers with a kind by their tags: {len(found):,}; "
        f"reviews that change no kind: {unused}"
    )
    return found


def corrected(classified: Classified, given: Corrections, results: Iterable[Result]) -> Classified:
    """Return the classification with people's kinds in place of the judge's and the rules'.

    Of several people, the kind of more than half of them counts; without one, the answer is unclassified.
    """
    by_answer: dict[str, list[str]] = {}
    for kinds in given.values():
        for answer, kind in kinds.items():
            by_answer.setdefault(answer, []).append(kind)
    chosen = {answer: _majority(kinds) for answer, kinds in by_answer.items()}
    names = "+".join(given)
    labels = []
    for label in map(_uncorrected, classified.labels):
        if label.answer in chosen:
            agreed = chosen[label.answer]
            why = SPLIT if agreed is None else f"reviewed by {names}"
            label = replace(label, kind=agreed or "", by="people", why=why)
        labels.append(label)
    first = {label.answer: label.first for label in labels}
    people = People(
        tuple(given),
        reviewed=len(chosen),
        changed=sum(kind is not None and kind != first[answer] for answer, kind in chosen.items()),
        split=sum(kind is None for kind in chosen.values()),
        agreements=_agreements(classified, labels, given, chosen, results),
    )
    return with_labels(classified, labels, people)


def _uncorrected(label: ErrorLabel) -> ErrorLabel:
    if label.by != "people":
        return label
    return replace(label, kind=label.first, by=label.first_by, why="")


def _majority(kinds: Sequence[str]) -> str | None:
    """Return the kind of more than half of the people, None without one."""
    kind, count = Counter(kinds).most_common(1)[0]
    return kind if 2 * count > len(kinds) else None


def _agreements(
    classified: Classified,
    labels: Sequence[ErrorLabel],
    given: Corrections,
    chosen: Mapping[str, str | None],
    results: Iterable[Result],
) -> tuple[KindAgreement, ...]:
    """Compare the judge's kinds with each person's and with their majority, in each benchmark.

    Answers that a rule labelled, or without a kind by either side, are left out. A response counts once.
    """
    judge = {label.answer: label.first for label in labels if label.first_by == "judge" and label.first}
    sides: dict[str, Mapping[str, str]] = {}
    if len(given) > 1:
        sides[CONSENSUS] = {answer: kind for answer, kind in chosen.items() if kind}
    sides |= {rater: {answer: kind for answer, kind in kinds.items() if kind} for rater, kinds in given.items()}
    by_answer: dict[str, Result] = {}
    wanted = {label.key for label in labels}
    for result in results:
        if result.key in wanted:
            by_answer.setdefault(answer_id(result), result)
    found = []
    for name, tree in classified.trees.items():
        own = {answer: result for answer, result in by_answer.items() if result.item.benchmark == name}
        nested = any(WITHIN in kind for kind in tree.kinds)
        for rater, kinds in sides.items():
            shared = [answer for answer in own if answer in judge and answer in kinds]
            if not shared:
                continue
            rows = [own[answer] for answer in shared]
            for main in (True, False) if nested else (True,):
                pairs = [(judge[answer], kinds[answer]) for answer in shared]
                found.append(_agreement(classified, name, rater, pairs, rows, main=main))
    return tuple(found)


def _agreement(
    classified: Classified,
    name: str,
    rater: str,
    pairs: Sequence[tuple[str, str]],
    rows: Sequence[Result],
    *,
    main: bool,
) -> KindAgreement:
    import numpy as np

    from medvqa.metrics.frames import groups

    kinds = [kind for kind in classified.trees[name].kinds if not (main and WITHIN in kind)]
    number = {kind: place for place, kind in enumerate(kinds)}
    codes = np.array([[number[main_kind(kind) if main else kind] for kind in pair] for pair in pairs], dtype=np.intp)
    group = groups(rows)
    exact, kappa, table = nominal(codes[:, 0], codes[:, 1], group, len(kinds))
    raters = (classified.judge.name, rater)
    return KindAgreement(name, raters, main, tuple(kinds), len(rows), len(np.unique(group)), exact, kappa, table)
