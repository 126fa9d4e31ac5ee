"""The sheet on which people correct kinds of errors, and their corrections read back: from sheets and from reviews."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medvqa import tables
from medvqa.items import Result, UsageError
from medvqa.judging import handed_in, reviews
from medvqa.judging.coefficients import nominal
from medvqa.judging.handed_in import CONSENSUS, answer_id
from medvqa.judging.replies import NO_KIND
from medvqa.judging.taxonomy.labels import Classified, ErrorLabel, KindAgreement, People
from medvqa.judging.taxonomy.trees import AGREED, UNCLASSIFIED, WITHIN, Taxonomy, kinds_by_tag, main_kind
from medvqa.metrics.frames import groups
from medvqa.protocols import rotation
from medvqa.records import run_folder

COLUMNS = ("id", "question", "options", "reference", "response", "label", "correction", "remark")
"""Columns of a sheet; people fill in `correction`, and `remark` if they like."""
SPLIT = "people disagree: no kind has a majority"

Corrections = Mapping[str, Mapping[str, str]]
"""Kinds by rater and `answer_id`; "" if the rater says that no kind fits."""


def write_sheet(path: Path, classified: Classified, results: Iterable[Result]) -> int:
    """Write a row for each labelled response, and return their number (UsageError as by `handed_in.write_sheet`)."""
    labels = {label.key: label for label in classified.labels}
    rows: dict[str, tuple[str, ...]] = {}
    for result in results:
        label = labels.get(result.key)
        if label is None or result.answer is None:
            continue
        item = rotation.as_shown(result.item, result.variant)
        options = "\n".join(f"{letter}. {text}" for letter, text in item.options.items())
        given = (item.question, options, " / ".join(item.answers), result.answer.reply, label.first or UNCLASSIFIED)
        rows.setdefault(label.answer, (label.answer, *given, "", ""))
    handed_in.write_sheet(path, COLUMNS, rows.values(), option="--sheet", filled_in="corrections")
    return len(rows)


def corrections(
    paths: Sequence[Path],
    classified: Classified,
    results: Iterable[Result] = (),
    *,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, str]]:
    """Return the kinds that people gave, by rater and `answer_id`, from what they hand in (`handed_in.read`).

    A cell of `correction` holds a kind's name, `ok` (the label is right) or `none` (no kind fits). A row with an empty
    cell was not reviewed. `reviews` are of `results`, all those of the run: the tags of a review name its kind
    (`kind_of_tags`). `say` gets a line about the tags of each file of reviews. Raises UsageError if nothing was
    reviewed; DataError, with file and row, for an unknown id or kind.
    """
    results = tuple(results)
    labels = {label.answer: label for label in classified.labels}

    def of_row(row: tables.TableRow) -> tuple[str, str] | None:
        written = " ".join(row.text("correction").split())
        if not written:
            return None
        answer = row.identifier("id")
        if answer not in labels:
            raise ValueError(f"no classified answer has the id {answer[:80]!r}: another run, or another response?")
        return answer, _kind_of(row, written, labels[answer], classified.trees[labels[answer].benchmark])

    found = handed_in.read(
        paths,
        classified.judge.name,
        "correction",
        of_row=of_row,
        of_reviews=lambda path: _of_reviews(path, classified, results, say),
    )
    if not found:
        raise UsageError(
            f"--human={paths[0]}: no row has a correction; write a kind, {AGREED} or {NO_KIND} into the column "
            "correction. Reviews correct classified answers by tags that have a kind: "
            + "; ".join(f"{tag}: {kind}" for tag, kind in _tags_of(classified).items())
        )
    return found


def _kind_of(row: tables.TableRow, written: str, label: ErrorLabel, tree: Taxonomy) -> str:
    """Return the kind that a cell of `correction` says, "" for none of them (DataError for an unknown kind)."""
    named = written.casefold()
    if named == AGREED:
        return label.first
    if named == NO_KIND:
        return ""
    kinds = [kind for kind in tree.kinds if kind.casefold() == named]
    if not kinds:
        raise row.error(
            f"no kind {written[:80]!r}; write {AGREED}, {NO_KIND}, or one of: {', '.join(tree.kinds)}", "correction"
        )
    return kinds[0]


def _tags_of(classified: Classified) -> dict[reviews.Tag, str]:
    return {tag: kind for tree in classified.trees.values() for tag, kind in kinds_by_tag(tree).items()}


def kind_of_tags(tags: Iterable[reviews.Tag], tree: Taxonomy) -> str | None:
    """Return the kind that the tags of a review name; None if they name no kind, or several.

    Several kinds within one kind count as that kind.
    """
    by_tag = kinds_by_tag(tree)
    kinds = {by_tag[tag] for tag in tags if tag in by_tag}
    mains = {main_kind(kind) for kind in kinds}
    return kinds.pop() if len(kinds) == 1 else mains.pop() if len(mains) == 1 else None


def _of_reviews(
    path: Path, classified: Classified, results: Sequence[Result], say: Callable[[str], None]
) -> list[tuple[str, str, str]]:
    """Return answer, kind and place of each review that corrects an answer; `say` gets the counts."""
    labels = {label.key: label for label in classified.labels}
    given = reviews.read(path, run_folder.answers_digest(results), {result.key for result in results})
    found: list[tuple[str, str, str]] = []
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
        found.append((label.answer, kind, review.where))
    tags = ", ".join(f"{tag} {count:,}" for tag, count in reviews.counts(given).items()) or "none"
    unused = ", ".join(f"{count:,} {why}" for why, count in left_out.items()) or "none"
    answers = len({answer for answer, *_ in found})
    say(
        f"medvqa: {path}: reviews: {len(given):,}; tags: {tags}; answers with a kind by their tags: {answers:,}; "
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
    review = People(
        tuple(given),
        reviewed=len(chosen),
        changed=sum(kind is not None and kind != first[answer] for answer, kind in chosen.items()),
        split=sum(kind is None for kind in chosen.values()),
        agreements=_agreements(classified, labels, given, chosen, results),
    )
    return replace(classified, labels=tuple(labels), people=review)


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

    kinds = [kind for kind in classified.trees[name].kinds if not (main and WITHIN in kind)]
    number = {kind: place for place, kind in enumerate(kinds)}
    codes = np.array([[number[main_kind(kind) if main else kind] for kind in pair] for pair in pairs], dtype=np.intp)
    group = groups(rows)
    exact, kappa, table = nominal(codes[:, 0], codes[:, 1], group, len(kinds))
    raters = (classified.judge.name, rater)
    return KindAgreement(name, raters, main, tuple(kinds), len(rows), len(np.unique(group)), exact, kappa, table)
