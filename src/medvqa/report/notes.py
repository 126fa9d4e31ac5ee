"""Notes beside the numbers, in sentences."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from medvqa import metrics, printing, scoring, statistics
from medvqa.figures import Figure, counted
from medvqa.items import Measure, Metric, QuestionKey, Result, Variant
from medvqa.judging import correcting
from medvqa.protocols import position, rotation
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RunRecord
from medvqa.records.selected import SELECTED
from medvqa.report.build import Part, Report
from medvqa.report.raters import KEPT_AS_JUDGED
from medvqa.tags import lexicon

RECOVERED = "recovered from the column 'category', not given by its owners"
"""What is said of such an answer key."""
SOME = 5
"""Names in a note before the others are counted."""

FACTOR, LEAST, ROOM = 4, 256, 4096
"""The proposed token limit if answers were cut off: FACTOR times the old one, but at least LEAST.
ROOM, if a server's own limit is unknown."""


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence beside the numbers.

    `warns`: it limits what the numbers say, and belongs in the first screen. `selects`: it says which questions were
    selected, as the first screen does without it.
    """

    text: str
    warns: bool = False
    selects: bool = False


def notes_of(report: Report) -> list[str]:
    """The sentences of `noted`."""
    return [note.text for note in noted(report)]


def noted(report: Report) -> list[Note]:
    """Notes for the reader of a report, one sentence each; none if there is nothing to note.

    Missing results are no note: every report shows `report.covered.lines` before its numbers.
    """
    notes = [Note(line, warns=True, selects=True) for line in _selected(report)]
    notes += _warnings(less_than_released(report))
    notes += [Note(line) for line in left_out(report.run.left_out)]
    recorded = report.run.replays
    notes += [
        Note(f"{name}: {line}.")
        for name in dict.fromkeys(part.benchmark.name for part in report.parts)
        if (line := fixed_slices(report.run, name))
    ]
    if report.agreement_stale:
        line = f"{correcting.FILE} belongs to other scores than the judge's now: repeat medvqa agreement --keep."
        notes.append(Note(line, warns=True))
    if report.run.rescoring:
        notes.append(Note("scoring this run again was stopped: run medvqa rescore again.", warns=True))
    for part in report.parts:
        if part.results:
            notes += _of_part(report, part, recorded=recorded)
    if ours := _read_by_ours(report):
        notes.append(Note(f"scored by this project's rule, as their owners published none: {ours}."))
    served = sorted({r.answer.served_by for part in report.parts for r in part.results if r.answer} - {""})
    if len(served) > 1:
        notes.append(Note(f"the server reported several models: {printing.some(served, SOME)}.", warns=True))
    if missing := report.covered.missing:
        shown = [name for name in missing if name.partition("/")[0] in report.public][:SOME]
        others = f" and {len(missing) - len(shown):,} more" if len(missing) > len(shown) else ""
        some = f": {', '.join(shown)}{others}" if shown else f" ({SELECTED} and {RESULTS} tell which)"
        have = "has" if len(missing) == 1 else "have"
        notes.append(Note(f"{counted(len(missing), report.counted)} of this run {have} no result{some}.", warns=True))
    one = " It holds the first sample of each answer." if report.counted == "answers" else ""
    if any(part.votes is not None for part in report.parts):
        one = " It holds the vote on each question."
    if more := report.covered.more:
        notes.append(Note(f"{more}.", warns=True))
    notes += [Note(f"{sheet.name} is the sheet to send to the benchmark's owners.{one}") for sheet in report.sheets]
    notes += _warnings(f"not read: {line}" for line in report.unread)
    if report.stale:
        notes.append(
            Note(
                "the stored gate verdict is about other results and is not shown. Decide again: medvqa gate "
                f"{report.folder}.",
                warns=True,
            )
        )
    notes += _warnings(_blank(report))
    if unread := report.run.unread_answers:
        notes.append(Note(f"{len(unread)} lines of stored answers cannot be read, the first: {unread[0]}."))
    if unshared := report.run.unshared_answers:
        notes.append(Note(f"{unshared:,} answers were in no named place when the run ended.", warns=True))
    return notes


def _warnings(lines: Iterable[str]) -> list[Note]:
    return [Note(line, warns=True) for line in lines]


def _blank(report: Report) -> list[str]:
    """Lines about the stored gap to a run without the images: other results, or remarks on the comparison."""
    if report.blank_stale:
        return [
            "the stored gap to a run without the images is about other results and is not shown. Compare again: medvqa "
            f"report {report.folder} --blank=RUN."
        ]
    return (
        [] if report.blank is None else [f"compared with {report.blank.name}: {note}." for note in report.blank.notes]
    )


def _without_dimension(part: Part) -> list[str]:
    """Lines about metrics that are means over a dimension which no question has: they have no value."""
    over = [(metric.name, metric.mean_over) for metric in part.benchmark.metrics if metric.mean_over is not None]
    dimensions = sorted({name for result in part.results for name in result.item.tags}) if over else []
    there = printing.some(dimensions, SOME) or "none"
    return [
        f"no value of '{metric}', a mean over '{dimension}': no question has this dimension; there are: {there}."
        for metric, dimension in over
        if not set(dimension.split("+")) <= set(dimensions)
    ]


def _small_slices(part: Part) -> list[str]:
    """Lines about macro averages over slices with few independent groups, which widen their intervals."""
    lines = []
    for metric in part.benchmark.metrics:
        slices = _averaged(part, metric)
        few = [each for each in slices if (each.groups or 0) < statistics.LEAST_GROUPS_OF_SLICE]
        if few:
            named = [f"{lexicon.display(*next(iter(each.slice.items())))} ({each.groups})" for each in few]
            lines.append(
                f"{len(few)} of the {len(slices)} slices of '{metric.name}' have fewer than "
                f"{statistics.LEAST_GROUPS_OF_SLICE} independent groups, which widens its interval: "
                f"{printing.some(named, SOME)}."
            )
    return lines


def _averaged(part: Part, metric: Metric) -> list[Measure]:
    """Return the slices of a macro average, as the metric with the same terms measures them; [] for other metrics."""
    if metric.mean_over is None:
        return []
    same = [
        other.name
        for other in part.benchmark.metrics
        if other.mean_over is None
        and (other.terms, other.unit, other.kinds) == (metric.terms, metric.unit, metric.kinds)
    ]
    weighed = dict(metric.weights)
    return [
        measure
        for measure in part.measures
        if measure.name in same[:1]
        and list(measure.slice) == [metric.mean_over]
        and (not weighed or measure.slice[metric.mean_over] in weighed)
    ]


def _of_part(report: Report, part: Part, *, recorded: bool) -> list[Note]:
    """Notes about one part with results. `recorded`: its answers were replayed."""
    notes = list[Note]()
    name, number = _short(report, part), len(part.results)

    def say(*lines: str) -> None:
        notes.extend(Note(f"{name}: {line}") for line in lines)

    def warn(*lines: str) -> None:
        notes.extend(Note(f"{name}: {line}", warns=True) for line in lines)

    if part.votes is not None:
        say(f"{part.votes.line(len({result.key.question for result in part.results}))}.")
    warn(*(f"{line}." for line in (_incomplete(part), *_alike(report, part)) if line))
    say(*(f"{line}." for line in _rotated(report, part)))
    say(*advice_of(part))
    warn(*(f"{_redacted(report, part, failed.why)}." for failed in part.failed))
    warn(*_without_dimension(part), *_small_slices(part))
    recorded_part = report.run.benchmark(part.benchmark.name)
    if kits := sorted({like for metric in part.benchmark.metrics if (like := dict(metric.signs).get("like"))}):
        say(
            f"measures named after another kit count as {' and '.join(kits)} would, with its flaws: read "
            "them beside numbers of that kit alone. No gate reads them."
        )
    say(*_judged(part))
    warn(*_corrected(report, part))
    if line := _unscored(report, part):
        warn(line)
    if part.outcomes["error"]:
        warn(_errors(report, part))
        kept = sum(result.score.outcome == "error" and result.answer is not None for result in part.results)
        if kept and (judge := report.run.judge) is not None:
            say(
                f"the answers to {kept} of these are stored: medvqa rescore {report.folder} "
                f"--judge={judge.typed} judges them without asking the model."
            )
    empty = sum(_is_empty(result) for result in part.results)
    if empty and 2 * empty >= number:
        warn(f"{empty} of {number} answers are empty.")
    answers = [result.answer for result in part.results if result.answer is not None]
    if lacking := sum(bool(answer.whole) and not answer.text for answer in answers):
        warn(f"{lacking} of {len(answers)} replies have no line that holds the answer.")
    if report.run.protocol.confidence:
        terms = [metrics.confidence_unread_rate.terms([result]) for result in part.results]
        unread, read = (int(sum(numbers)) for numbers in zip(*terms, strict=True))
        if unread:
            warn(f"{unread} of {read} answers that were read state no confidence that can be read; none is guessed.")
    if part.truncated:
        limits = (recorded_part.max_tokens or {}).get(part.technique)
        warn(_truncation(part, limits, recorded=recorded))
    if part.broken_pairs:
        warn(_broken_pairs(part))
    if recorded_part.answers == "category":
        warn(f"the answer key was {RECOVERED}.")
    extraction = scoring.rules.recorded(report.run.extraction, [part.benchmark])
    if scoring.rules.is_official(extraction) and (note := scoring.rules.note_of(part.benchmark)):
        version = scoring.rules.version_of(part.benchmark, extraction)
        say(note + (f" (version {version})" if version else ""))
    return notes


def _judged(part: Part) -> Iterator[str]:
    """Yield a sentence on the answers that went to a judge."""
    if judged := [result.judgement.judge for result in part.results if result.judgement is not None]:
        judges = printing.some(sorted({repr(judge) for judge in judged}), SOME)
        yield f"{len(judged)} of {len(part.results)} answers went to the judge {judges}."


def _corrected(report: Report, part: Part) -> Iterator[str]:
    """Yield a sentence on the mean of judged answers, by the judge and corrected by people."""
    for judged in report.agreement.means if report.agreement else ():
        if (judged.benchmark, judged.technique) == (part.benchmark.name, part.technique):
            mean, corrected = judged.mean, Figure(*judged.mean.corrected, groups=judged.mean.groups)
            how = "corrected by people"
            if mean.tuning is None:
                how = (
                    f"by people alone, as they differ from it in {mean.disagreements:,} of {mean.groups:,} groups only"
                )
            yield (
                f"the mean score of {mean.n:,} judged answers is {Figure(*mean.judge).stated} by the judge and "
                f"{corrected.stated} ({corrected.interval}) {how}; people scored {mean.labelled:,} of them; "
                f"{KEPT_AS_JUDGED}."
            )


def _unscored(report: Report, part: Part) -> str:
    """Return a sentence on answers without a score, and on those that wait for a judge; "" for none."""
    unscored = [result for result in part.results if result.score.outcome == "unscored"]
    if not unscored:
        return ""
    count = f"{len(unscored)} of {len(part.results)} answers are stored and unscored"
    waiting = sum(bool(result.item.answers) for result in unscored)
    recorded_part = report.run.benchmark(part.benchmark.name)
    if not (waiting and report.run.judge is None and recorded_part.judged):
        return f"{count}: no answer key, or an open answer without a judge."
    others = ", the others have no answer key." if waiting < len(unscored) else "."
    return (
        f"{count}: {waiting} wait for a judge (medvqa rescore {report.folder} "
        f"--judge=MODEL; the model is not asked again){others}"
    )


def _errors(report: Report, part: Part) -> str:
    first = next(result for result in part.results if result.score.outcome == "error")
    return (
        f"{counted(part.outcomes['error'], report.counted)} ended in error, without a score; "
        f"the first: {_first(report, part, first)}"
    )


def _broken_pairs(part: Part) -> str:
    broken = len(part.broken_pairs)
    have = "1 pair has" if broken == 1 else f"{broken} pairs have"
    some = f": {printing.some(part.broken_pairs, SOME)}" if part.benchmark.public else ""
    return f"{have} only one question in this run, left out of pair measures{some}."


def fixed_slices(run: RunRecord, benchmark: str) -> str:
    """Say which slices of a benchmark were fixed before the run, with the number of their values; "" for none."""
    fixed = run.benchmark(benchmark).fixed_slices
    if not fixed:
        return ""
    counts = ", ".join(f"{name} ({values} values)" for name, values in fixed.items())
    were = "1 slice was" if len(fixed) == 1 else f"{len(fixed)} slices were"
    return f"{were} fixed before the run: {counts}; all others are exploratory"


def _incomplete(part: Part) -> str:
    """Say how many questions the measures leave out because answers are missing; "" if none."""
    if part.combined == part.results:
        return ""
    asked, counted = ({result.key.question for result in some} for some in (part.results, part.combined))
    if not (lacking := len(asked - counted)):
        return ""
    return (
        f"{lacking:,} of {len(asked):,} questions lack some of their answers (samples, prompts or orders of options), "
        "and are left out of measures over all of them"
    )


def _alike(report: Report, part: Part) -> list[str]:
    """Name the prompts that ask in the same words, one line for each group of them."""
    order = report.run.benchmark(part.benchmark.name).asked_by
    if len(order) < 2:
        return []
    senders: defaultdict[tuple[str, QuestionKey], set[str]] = defaultdict(set)
    for result in part.results:
        variant = Variant.parse(result.variant)
        if result.prompt:
            senders[result.prompt, result.key._replace(variant=Variant("", variant.rotation).name)].add(variant.prompt)
    questions: defaultdict[tuple[str, ...], set[QuestionKey]] = defaultdict(set)
    for (_, key), names in senders.items():
        if len(names) > 1:
            questions[tuple(name for name in order if name in names)].add(key.question)
    asked = len({result.key.question for result in part.results})
    return [
        f"the prompts {', '.join(names)} ask {len(keys):,} of {asked:,} questions in the same words. They count as "
        f"{len(names)} prompts, so that the deviation between prompts is too small"
        for names, keys in sorted(questions.items())
    ]


def _rotated(report: Report, part: Part) -> list[str]:
    """Notes about the rotations of a part's questions."""
    rotations = report.run.protocol.rotations
    if rotations == 0:
        return []
    whole, once, _ = rotation.grouped(part.results, rotations)
    lines = []
    if questions := {group.results[0].key.question for group in whole}:
        orders = sorted({len(group.results) for group in whole})
        counts = f"{orders[0]} to {orders[-1]}" if len(orders) > 1 else str(orders[0])
        lines.append(
            f"{len(questions)} questions were asked in {counts} orders of their options, and are right only if every "
            f"answer is right; {position.MEAN}... are the plain means over the orders"
        )
    if asked_once := {result.key.question for result in once}:
        lines.append(f"{len(asked_once)} questions were asked once, because they show no options under letters")
    return lines


def advice_of(part: Part) -> list[str]:
    """By how much more samples, prompts or questions would narrow the first headline measure's interval, as a line."""
    for spread in part.headline_spreads[:1]:
        if spread.components is not None and (advice := statistics.advice(spread.components, spread.unit)):
            of = "" if part.votes is None else " of single answers"
            return [f"{spread.name}{of}: {advice}"]
    return []


def _short(report: Report, part: Part) -> str:
    """The name of a part without the report's label, which the tables show."""
    return part.name.removesuffix(f" ({report.label})") if report.label else part.name


def _is_empty(result: Result) -> bool:
    """Whether an answer in words is empty; a refusal counts as refused, not as empty."""
    answer = result.answer
    if answer is None or answer.option_logprobs is not None or result.score.outcome == "refused":
        return False
    return not (answer.text.strip() or answer.whole)


def _first(report: Report, part: Part, result: Result) -> str:
    """The first error of a part with its reason; without names if the data are not declared public."""
    item, why = result.item, result.score.why
    if part.benchmark.public:
        return f"{item.id}: {why}"
    if report.run.replays:
        # The rest of the reason quotes the recording, which may name questions outside this run.
        why = why.partition("; asked: ")[0]
    return f"{_redacted(report, part, why, item.id)} (junit.xml names it)"


def _redacted(report: Report, part: Part, why: str, item: str = "") -> str:
    """A reason without names of items and images of data that are not declared public; `item` is the id it is about."""
    if part.benchmark.public:
        return why
    names: dict[str, str] = {}
    for other in (result.item for one in report.parts if not one.benchmark.public for result in one.results):
        images = [name for image in other.images for name in (image.name, PurePath(image.name).name)]
        names.update((name, "[image]") for name in images if name and name in why)
        # A short number identifies no other question, and may belong to the message: HTTP 429.
        if other.id in why and (other.id == item or len(other.id) > 3 or not other.id.isdecimal()):
            names[other.id] = "[id]"
    if names:
        pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        why = re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda match: names[match[0]], why)
    return why


def _selected(report: Report) -> list[str]:
    """Lines about partly selected benchmarks."""
    selection = report.selection
    names = {(part.benchmark.name, part.technique): _short(report, part) for part in report.parts}
    lines = [
        f"{names.get((name, technique), name)}: selected {line}."
        for name, techniques in selection.benchmarks.items()
        for technique in techniques
        if (line := selection.line(name, technique))
    ]
    if report.selection.ranked_by_outcome:
        lines.append(
            "these questions were chosen by an earlier outcome (--lf), so there are no measures: a number over them "
            "would say nothing about the model. Type the command without --lf for numbers."
        )
    return lines


def less_than_released(report: Report) -> list[str]:
    """Lines about benchmarks with fewer questions than their owners released."""
    return [
        f"{name}: the data hold {present:,} of the release's {release:,} questions."
        for name in dict.fromkeys(part.benchmark.name for part in report.parts)
        if (release := report.run.benchmark(name).release) and (present := report.run.benchmark(name).items) < release
    ]


def _truncation(part: Part, limits: Mapping[str, int] | None, *, recorded: bool) -> str:
    """The number of truncated answers of a part, their limits, and a remedy.

    `limits`: token limits by kind. `recorded`: the answers were replayed, so no option of this run changes them.
    """
    complete = sum(metrics.is_complete(result) is not None for result in part.results)
    count = f"{len(part.truncated)} of {complete} answers were cut off"
    if recorded:
        return f"{count} (finish=length) before they were recorded. Record them again with a higher limit of tokens."
    kinds = {result.item.kind for result in part.truncated}
    if limits is None or not kinds <= limits.keys():
        return (
            f"{count} (finish=length), at a limit that is not recorded. Ask again with a higher one: --max-tokens=N, "
            "or in the model's config."
        )
    numbers = sorted({limits[kind] for kind in kinds} - {0})
    if not numbers:
        return (
            f"{count} at the server's own limit (finish=length). Set one that suffices: --max-tokens={ROOM}, or in the "
            "model's config."
        )
    return (
        f"{count} at {' or '.join(map(str, numbers))} tokens (finish=length). Raise the limit: "
        f"--max-tokens={max(LEAST, FACTOR * numbers[-1])}, or in the model's config."
    )


def _read_by_ours(report: Report) -> str:
    """Benchmarks and kinds of questions without a published rule, in a run with official extraction."""
    rules = {name: about.read_by for name, about in report.run.benchmarks.items()}
    kinds = {
        name: sorted(kind for kind, rule in by.items() if rule == scoring.rules.SOUND) for name, by in rules.items()
    }
    return ", ".join(f"{name} ({', '.join(some)})" for name, some in kinds.items() if some)


def left_out(counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """Lines about questions whose technique is not defined; `counts`: benchmark -> technique -> kind -> number."""
    return [
        f"{benchmark}: {counted(sum(kinds.values()), 'items')} left out: technique '{technique}' is not defined for "
        f"{', '.join(kinds)} here."
        for benchmark, techniques in counts.items()
        for technique, kinds in techniques.items()
    ]


def usage_of(report: Report) -> str | None:
    """Usage of the model and of the judge as one line; None if it is not recorded."""
    kinds = (("Used", report.run.usage), ("Judging used", report.run.judge_usage))
    return " ".join(f"{what}: {text}." for what, usage in kinds if (text := used(usage))) or None


def used(usage: Mapping[str, float]) -> str:
    """Tokens and cost in words; "" if none are recorded."""
    tokens = [f"{usage[name]:,.0f} tokens {name}" for name in ("input", "output") if name in usage]
    cost = [f"cost {usage['cost']:,.4g} by the prices of the config"] if "cost" in usage else []
    return ", ".join(tokens + cost)


def answers_of(report: Report) -> str | None:
    """The numbers of reused and new answers, and judge's replies, of the last session, as one line.

    None if nothing was reused.
    """
    last = report.run.last_session
    kinds = (("Answers", last.reused, last.asked), ("Judge's replies", last.judge_reused, last.judge_asked))
    lines = [
        f"{what}: {reused:,} stored ones reused, {asked or 0:,} asked for." for what, reused, asked in kinds if reused
    ]
    return " ".join(lines) or None
