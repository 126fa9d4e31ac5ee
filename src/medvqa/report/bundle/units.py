"""The large part of a comparison: all questions, the results of all runs, and the units of each headline measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from msgspec import structs

from medvqa.comparing import Scale, Study
from medvqa.items import OUTCOMES, Benchmark, Item, QuestionKey, Result
from medvqa.protocols import rotation
from medvqa.report.bundle import questions
from medvqa.report.bundle.columns import TypedArrays
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.questions import Answered, Packed, Packing

CUT = 300
"""Characters of a response in a large comparison."""
WHOLE = 8_000_000
"""If the texts of all results together have at most so many characters, none is cut."""
MOST = 300_000
"""Results whose texts a page holds; with more of them, it holds none."""
CHUNK = 512
"""Results in one block of answers: small, since one opened question reads a whole block."""


@dataclass(frozen=True, slots=True)
class PackedUnits:
    """The large part of a comparison. `cut` and `left_out` as in `ComparisonView`."""

    packed: Packed
    cut: int
    left_out: str


@dataclass(slots=True)
class _Rows:
    """Questions with the places of their benchmarks; and results as (run, question, result)."""

    items: list[tuple[int, Item]] = field(default_factory=list)
    rows: list[tuple[int, int, Result]] = field(default_factory=list)
    by_key: dict[QuestionKey, int] = field(default_factory=dict)

    def sort(self) -> None:
        """Put the results of one question beside each other, run by run: they lie in one block of answers then."""
        self.rows.sort(key=lambda row: row[1])


def pack(study: Study, benchmarks: Mapping[str, Benchmark], pictures: Pictures) -> PackedUnits:
    """Pack the questions and results of the runs that are compared with any other run."""
    names, rows = _rows(study)
    packing, columns = Packing(), TypedArrays()
    packing.add_questions(columns, rows.items, pictures)
    _add_results(packing, columns, rows)
    _add_own_techniques(packing, columns, rows, study)
    known = [benchmarks[name] for name in names]
    dimensions, by_benchmark = questions.dimensions_of_all(known, rows.items, [], columns)
    for place, scale in enumerate(study.scales):
        _add_scale(columns, place, scale, rows.by_key)
    results = [result for _, _, result in rows.rows]
    left_out = _left_out(len(results), len({run for run, _, _ in rows.rows}))
    cut = 0 if left_out or _characters(results) <= WHOLE else CUT
    answers = [] if left_out else [_answered(result, cut) for result in results]
    packed = Packed(
        questions.heads(known, by_benchmark, dimensions, rows.items, ["pytest", "--model=MODEL"]),
        dimensions,
        packing.techniques.values(),
        packing.variants.values(),
        packing.finishes.values(),
        columns,
        packing.tables,
        [answers[start : start + CHUNK] for start in range(0, len(answers), CHUNK)],
        _used(pictures, packing),
        CHUNK,
    )
    return PackedUnits(packed, cut, left_out)


def _rows(study: Study) -> tuple[list[str], _Rows]:
    """The names of the benchmarks that are compared, and their questions and results."""
    places = {side.name: place for place, side in enumerate(study.sides)}
    compared = [versus.paired for versus in study.versus if not versus.refusals]
    runs = sorted({*(places[side.name] for paired in compared for side in (paired.new, paired.baseline))})
    parts = dict.fromkeys((part.benchmark, part.technique) for paired in compared for part in paired.parts)
    parts |= dict.fromkeys((scale.benchmark, scale.technique) for scale in study.scales)
    names = list(dict.fromkeys(name for name, _ in parts))
    numbers = {name: number for number, name in enumerate(names)}
    rows = _Rows()
    # Items of one question are the same object in all runs: these are found without comparing them.
    by_item: dict[tuple[int, str], int] = {}
    by_id: dict[tuple[str, str], list[int]] = {}
    for run in runs:
        for result in study.aligned[run].results:
            item = result.item
            if (item.benchmark, result.technique) not in parts:
                continue
            place = by_item.get((id(item), result.technique))
            if place is None:
                place = by_item[id(item), result.technique] = _place(rows.items, by_id, numbers[item.benchmark], item)
                rows.by_key[result.key.question] = place
            rows.rows.append((run, place, result))
    rows.sort()
    return names, rows


def _place(items: list[tuple[int, Item]], by_id: dict[tuple[str, str], list[int]], benchmark: int, item: Item) -> int:
    """The place of a question, which is added if it is new. Groups are no part of it."""
    item = replace(item, cluster_id=None)
    known = by_id.setdefault((item.benchmark, item.id), [])
    for place in known:
        if items[place][1] == item:
            return place
    known.append(len(items))
    items.append((benchmark, item))
    return known[-1]


def _add_results(packing: Packing, columns: TypedArrays, rows: _Rows) -> None:
    """Add the columns of results, with the letters of the options as the model saw them."""
    shown = [rotation.result_shown(result) if result.variant else result for _, _, result in rows.rows]
    columns.add("results.question", "u32", (question for _, question, _ in rows.rows))
    columns.add("results.run", "u16", (run for run, _, _ in rows.rows))
    columns.add("results.technique", "u8", (packing.techniques.place(result.technique) for result in shown))
    columns.add_any("results.variant", "u16", (packing.variants.place(result.variant) for result in shown))
    columns.add_any("results.sample", "u32", (result.sample for result in shown))
    outcomes = {outcome: place for place, outcome in enumerate(OUTCOMES)}
    columns.add("results.outcome", "u8", (outcomes[result.score.outcome] for result in shown))
    # Most results share the item of their question; the texts of its options are looked up once.
    places: dict[int, tuple[int, int]] = {}
    asked = []
    for result in shown:
        found = places.get(id(result.item))
        if found is None:
            found = places[id(result.item)] = packing.offered(result.item), packing.listed(result.item.answers)
        asked.append(found)
    columns.add("results.options", "u32", (options for options, _ in asked))
    columns.add("results.answers", "u32", (answers for _, answers in asked))
    columns.add("results.extracted", "u32", (packing.listed(result.score.extracted) for result in shown))
    finishes = (packing.finishes.place(r.answer.finish or "" if r.answer else "") for r in shown)
    columns.add_any("results.finish", "u8", finishes)
    columns.add("results.seconds", "f32", map(questions.seconds_of, shown))


def _add_own_techniques(packing: Packing, columns: TypedArrays, rows: _Rows, study: Study) -> None:
    """If runs differ in the technique, add that of each run: `results.technique` has the common one."""
    own = {
        (run, name): techniques[0]
        for run, (side, aligned) in enumerate(zip(study.sides, study.aligned, strict=True))
        for name, techniques in side.asked.items()
        if techniques != aligned.asked.get(name)
    }
    if own:
        techniques = (own.get((run, result.item.benchmark), result.technique) for run, _, result in rows.rows)
        columns.add("results.own_technique", "u8", map(packing.techniques.place, techniques))


def _add_scale(columns: TypedArrays, place: int, scale: Scale, by_key: Mapping[QuestionKey, int]) -> None:
    """Add the units of a scale, with the value of each run."""
    # Keys of several techniques may name one question.
    units = (list(dict.fromkeys(by_key[key] for key in unit)) for unit in scale.units)
    columns.add_lists(f"units/{place}.questions", "u32", units)
    columns.add(f"units/{place}.values", "f64", scale.values.ravel().tolist())


def _characters(results: Iterable[Result]) -> int:
    """The number of characters of all texts of answers, also of those that are never scored."""
    return sum(
        len(result.answer.text) + len(result.answer.whole) + len(result.answer.thoughts)
        for result in results
        if result.answer is not None
    )


def _answered(result: Result, cut: int) -> Answered:
    """The texts of a result. If they are cut: the response, the judge's replies, and the reason of the score."""
    answer = result.answer
    if not cut:
        return structs.replace(questions.answered_of(rotation.result_shown(result)), why=result.score.why)
    judged = None if result.judgement is None else questions.judged_of(result.judgement)
    if judged is not None:
        judged = structs.replace(judged, replies=[_shortened(reply, cut) for reply in judged.replies])
    why = _shortened(result.score.why, cut)
    if answer is None:
        return Answered(judged=judged, why=why)
    # Without a text, probabilities are the whole answer.
    logprobs = None if answer.text else questions.answered_of(rotation.result_shown(result)).logprobs
    left_out = max(0, len(answer.text) - cut)
    return Answered(answer.text[:cut], logprobs=logprobs, judged=judged, cut=answer.cut, left_out=left_out, why=why)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _left_out(results: int, runs: int) -> str:
    """Say that responses are left out, "" if they are not."""
    if results <= MOST:
        return ""
    return (
        f"Responses are left out: {results:,} results of {runs} runs are too many for one page. "
        "`medvqa view` shows them."
    )


def _used(pictures: Pictures, packing: Packing) -> Mapping[str, bytes]:
    """The image files of the questions."""
    sources = {image.source for image in packing.images.values()}
    return {name: content for name, content in pictures.blocks.items() if name in sources}
