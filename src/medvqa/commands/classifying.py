"""Find the kinds of a run's wrong answers, by rule or by a judge, without asking the model.

errors.json changes once every drawn answer has been judged. Replies are stored at once, so a stopped command goes on.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medvqa import benchmarks, engine, files
from medvqa.backend import destinations
from medvqa.backends.reaching import routes
from medvqa.commands.judge_checks import check_judge
from medvqa.items import Benchmark, Item, Result, UsageError
from medvqa.judging import taxonomy
from medvqa.judging.handed_in import answer_id
from medvqa.judging.taxonomy import Classified, ErrorJudge, ErrorLabel, ErrorSample, Taxonomy
from medvqa.protocols.question_forms import as_offered
from medvqa.records import private, run_folder, run_record
from medvqa.records.run_record import RunRecord
from medvqa.session.ending import interruptible
from medvqa.session.judge_replies import Replies, in_order, judge_of
from medvqa.session.judging import Judging, resolve
from medvqa.session.options import Options
from medvqa.session.project import Project
from medvqa.session.registry import Registry

NO_FIT = "the judge finds none of the kinds"
NO_REPLY = "the judge did not answer"
UNREADABLE = "no reply of the judge can be read"
"""Reasons for answers without a kind."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options that only `medvqa classify` has; `by`: the dimension that a sample is stratified by."""

    taxonomy: str | None = None
    seed: int = 0
    by: str | None = None
    partial: bool = False
    images: bool = True


@dataclass(frozen=True)
class Classifying:
    """The wrong answers of a run folder, drawn and with their images, and the way to sort them; made by `_plan`.

    `about` is its record, `results` are all of it, `drawn` those to classify, by benchmark. `shown`: the judge gets
    the images.
    """

    folder: Path
    options: Options
    request: Request
    about: RunRecord
    results: tuple[Result, ...]
    known: Mapping[str, Benchmark]
    trees: Mapping[str, Taxonomy]
    samples: Mapping[str, ErrorSample]
    drawn: Mapping[str, Sequence[Result]]
    judging: Judging
    shown: bool
    root: Path

    @property
    def entries(self) -> list[Result]:
        """All drawn answers."""
        return [result for results in self.drawn.values() for result in results]

    def judged(self, name: str) -> list[Result]:
        """The drawn answers of a benchmark that a judge must read, each response once."""
        distinct = {answer_id(result): result for result in self.drawn[name]}
        return [result for result in distinct.values() if taxonomy.by_rule(result, self.trees[name]) is None]


def classify(
    folder: Path,
    request: Request,
    project: Project,
    *,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> str | None:
    """Label drawn wrong answers of a run, and write errors.json. Return None, or the reason why nothing was written.

    `say` gets messages, `progress` the numbers of labelled and of all drawn answers. UsageError, DataError.
    """
    planned = _plan(folder, request, project)
    for line in _check(planned):
        say(line)
    with interruptible():
        return _label(planned, say, progress)


def reviewed(
    folder: Path, registry: Registry, human: Sequence[Path], sheet: Path | None, *, say: Callable[[str], None]
) -> tuple[list[str], bool]:
    """Put people's kinds in place of the judge's, and write a sheet for people; return lines that say how it is used.

    `human`: filled-in sheets or reviews, whose corrections replace those of earlier files. The second value is whether
    the judge gave no readable reply about an answer, and people said nothing. `say` gets a line about each file of
    reviews. UsageError if there is no classification of the run's answers.
    """
    about, results = _read(folder, registry)
    classified = taxonomy.read(folder)
    if classified is None or not classified.is_of(results):
        lack = "has no" if classified is None else "has other wrong answers than its"
        raise UsageError(f"{folder} {lack} {taxonomy.FILE}: classify its answers with --judge=MODEL")
    if human:
        corrections = taxonomy.corrections(human, classified, results, say=say)
        classified = taxonomy.corrected(classified, corrections, results)
        _write(folder, classified, results, about, registry.benchmarks)
    lines = list[str]()
    if sheet is not None:
        rows = taxonomy.write_sheet(sheet, classified, results)
        kinds = dict.fromkeys(kind for tree in classified.trees.values() for kind in tree.kinds)
        lines = [
            f"wrote {sheet}: {rows:,} responses",
            "In the column correction, write ok (the label is right), none (no kind fits) or one of:",
            *(f"  {kind}" for kind in kinds),
            f"Rows without a correction count as not reviewed. Then: medvqa classify {folder} --human={sheet}",
        ]
    unread = any(label.by == "judge" and label.why in (NO_REPLY, UNREADABLE) for label in classified.labels)
    return lines, unread


def _read(folder: Path, registry: Registry) -> tuple[RunRecord, tuple[Result, ...]]:
    """Return the record and the results of a run folder (UsageError if it is none, or half scored)."""
    about, results = run_record.read_run(folder), run_folder.read(folder).results
    run_folder.check_scored(folder, about)
    benchmarks.check_known(f"{folder} holds", results, registry.benchmarks)
    return about, as_offered(results, about.protocol.perturb)


def _plan(folder: Path, request: Request, project: Project) -> Classifying:
    """Read the run folder, draw wrong answers, and resolve trees and judge (UsageError, DataError)."""
    options, registry = project.options, project.registry
    about, results = _read(folder, registry)
    if ablation := about.ablation:
        raise UsageError(
            f"{folder}: its model was asked with --ablate={ablation}; kinds of errors suppose that it saw the image "
            "of the question"
        )
    names = _names(options.benchmarks, results, folder)
    trees = {name: _tree(name, request, registry.benchmarks, project.cwd) for name in names}
    judging = resolve(project)
    if judging is None:
        raise UsageError(f"{folder} has no {taxonomy.FILE} of these answers yet: add --judge=MODEL")
    samples, drawn = {}, {}
    for name in names:
        own = [result for result in results if result.item.benchmark == name]
        wrong, left_out = taxonomy.wrong_answers(own, partial=request.partial)
        by = _dimension(name, wrong, request.by, registry.benchmarks)
        chosen = taxonomy.drawn(wrong, options.limit, by, request.seed)
        samples[name] = ErrorSample(len(wrong), len(chosen), by if options.limit is not None else "", left_out)
        drawn[name] = chosen
    if not any(sample.wrong for sample in samples.values()):
        raise UsageError(f"{folder}: no wrong answer of {', '.join(names)} can be classified{_counts(samples)}")
    known = registry.benchmarks
    planned = Classifying(
        folder, options, request, about, results, known, trees, samples, drawn, judging, False, project.root
    )
    pictured = {name: [result for result in planned.judged(name) if result.item.images] for name in names}
    if not (request.images and judging.chosen.backend.looks and any(pictured.values())):
        return planned
    items = {name: _with_images(name, pictured[name], known, options.data) for name in names}
    seen = {
        name: [taxonomy.with_images(result, items[name].get(result.item.id, result.item)) for result in own]
        for name, own in drawn.items()
    }
    return replace(planned, drawn=seen, shown=True)


def _names(typed: Sequence[str], results: Iterable[Result], folder: Path) -> list[str]:
    held = sorted({result.item.benchmark for result in results})
    if unknown := [name for name in typed if name not in held]:
        raise UsageError(f"--benchmark={unknown[0]}: {folder} has answers to {', '.join(held)}")
    return [name for name in held if not typed or name in typed]


def _tree(name: str, request: Request, known: Mapping[str, Benchmark], cwd: Path) -> Taxonomy:
    named = request.taxonomy or known[name].owners.taxonomy
    if not named:
        raise UsageError(
            f"--taxonomy: {name} has no tree of its own; choose {', '.join(taxonomy.SHIPPED)} or a file of your own "
            "(--taxonomy=FILE.toml), or other benchmarks of the run (--benchmark=NAME)"
        )
    return taxonomy.find(named, cwd)


def _dimension(name: str, wrong: Sequence[Result], typed: str | None, known: Mapping[str, Benchmark]) -> str:
    if typed is None:
        return taxonomy.dimension_of(wrong, known[name].dimensions)
    present = sorted({dimension for result in wrong for dimension in result.item.tags})
    if wrong and typed not in present:
        raise UsageError(f"--by={typed}: no wrong answer of {name} has this dimension; there are: {', '.join(present)}")
    return typed


def _counts(samples: Mapping[str, ErrorSample]) -> str:
    left_out = sum((Counter(sample.left_out) for sample in samples.values()), Counter[str]())
    return "; left out: " + ", ".join(f"{count} {why}" for why, count in left_out.items()) if left_out else ""


def _with_images(
    name: str, results: Sequence[Result], known: Mapping[str, Benchmark], data: Path | None
) -> dict[str, Item]:
    """Return the items of results by id, with images of the data folder; UsageError if any is missing or another."""
    loaded = benchmarks.load_found(known[name], data) if results else ()
    blind = "or let the judge go by the texts alone: --no-images"
    if loaded is None:
        raise UsageError(
            f"the judge looks at images, and those of {name} are not found: name their folder with --data=DIR, {blind}"
        )
    wanted = {result.item.id: result.item for result in results}
    items = {item.id: item for item in loaded if item.id in wanted}
    public = known[name].public
    if other := [id for id, item in wanted.items() if id not in items or not _same(item, items[id])]:
        raise UsageError(
            f"{name}: the data folder has other images than the run for {len(other)} questions"
            f"{f', the first: {other[0]}' if public else ''}. Name another folder with --data=DIR, {blind}"
        )
    shown = {image for item in items.values() for image in item.images}
    if missing := sorted(image.name for image in shown if not image.is_there):
        first = f", the first: {missing[0]}" if public else ""
        raise UsageError(f"{name}: {len(missing)} images are missing{first}. Put them there, {blind}")
    return items


def _same(was: Item, now: Item) -> bool:
    """Whether the images of an item are those of the run, as far as digests are known."""
    hidden = any(map(private.is_pseudonym, was.images))
    if len(was.images) != len(now.images):
        return False
    if not hidden and [image.name for image in was.images] != [image.name for image in now.images]:
        return False
    pairs = zip(was.images, (image.pinned() for image in now.images) if hidden else now.images, strict=True)
    return all(one.digest == other.digest for one, other in pairs if one.digest and other.digest)


def _check(planned: Classifying) -> list[str]:
    """Raise UsageError if the judge may not be asked; return lines about data sent and images not shown."""
    options, chosen = planned.options, planned.judging.chosen
    judged = {name: planned.judged(name) for name in planned.drawn}
    counts = {name: _sent(results, shown=planned.shown) for name, results in judged.items() if results}
    kept = check_judge(chosen, options, planned.folder, counts, planned.known, planned.root)
    lines = [kept] if kept is not None else []
    if counts and (origins := destinations(chosen.backend)):
        sent = "; ".join(f"{count} of {name}" for name, count in counts.items())
        lines.append(f"medvqa: {sent} will be sent to {routes(origins)}, where the judge is")
    if not planned.shown and any(result.item.images for results in judged.values() for result in results):
        why = "it looks at none" if planned.request.images else "--no-images"
        lines.append(f"medvqa: the judge is shown no images ({why}): it tells the kinds by the texts alone")
    return lines


def _sent(results: Sequence[Result], *, shown: bool) -> str:
    texts = f"{len(results):,} questions with references and answers"
    images = {image.name for result in results for image in result.item.images} if shown else ()
    return f"{texts}, and {len(images):,} images" if images else f"{texts}, no images"


def _label(planned: Classifying, say: Callable[[str], None], progress: Callable[[int, int], None]) -> str | None:
    entries, replies = planned.entries, Replies()
    used: Counter[str] = Counter()
    asked_about = [planned.known[name] for name in planned.drawn]
    session = secrets.token_hex(4)
    with judge_of(planned.folder, planned.options, planned.judging, session, asked_about, say) as loaded:
        judge, facts = loaded.judge, loaded.entry
        asked: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        # Samples with one response share its kind: it is asked for once.
        begun: set[str] = set()

        def begin(result: Result) -> tuple[Result, engine.Pending | None]:
            tree, answer = planned.trees[result.item.benchmark], answer_id(result)
            if taxonomy.by_rule(result, tree) is not None or answer in begun:
                return result, None
            begun.add(answer)
            case = taxonomy.case_of(result, tree, sees=planned.shown)
            return result, judge.submit(result.item, case)

        def finish(result: Result, pending: engine.Pending | None) -> tuple[ErrorLabel, str]:
            ruled = taxonomy.by_rule(result, planned.trees[result.item.benchmark])
            if ruled is not None:
                return taxonomy.label_of(result, ruled[0], "rule", ruled[1]), ""
            answer, failed = answer_id(result), ""
            if pending is not None:
                found = judge.replies(pending)
                replies.add(found.new_replies, found.reused)
                used.update(found.judgement.usage or {})
                failed = found.why or found.unread
                kind = found.reading.kind if found.reading is not None else ""
                why = NO_REPLY if found.why else UNREADABLE if found.unread else "" if kind else NO_FIT
                asked[answer] = kind, why, found.judgement.replies
            kind, why, texts = asked[answer]
            return taxonomy.label_of(result, kind, "judge", why, texts), failed

        labels = list(
            in_order(entries, begin, finish, judge.ahead, replies, planned.options, say=say, progress=progress)
        )
    if len(labels) < len(entries):
        return (
            f"stopped after {len(labels)} of {len(entries)} wrong answers: {planned.folder} is as it was. "
            f"{replies.asked} replies were asked for, which are stored; to go on, type the same again, or draw fewer "
            "with --limit=N"
        )
    classified = Classified(
        _digest(planned),
        planned.trees,
        planned.samples,
        tuple(labels),
        ErrorJudge(facts["name"], facts["identity"], taxonomy.template().label, planned.shown),
        planned.request.seed,
        planned.options.limit,
        planned.request.partial,
        usage=dict(used) or None,
    )
    _write(planned.folder, classified, planned.results, planned.about, planned.known)
    return None


def _digest(planned: Classifying) -> str:
    own = [result for result in planned.results if result.item.benchmark in planned.samples]
    return taxonomy.digest(taxonomy.wrong_answers(own, partial=planned.request.partial)[0])


def _write(
    folder: Path,
    classified: Classified,
    results: Sequence[Result],
    about: RunRecord,
    known: Mapping[str, Benchmark],
) -> None:
    """Write errors.json with its shares (MedVQAError)."""
    dimensions = {name: known[name].dimensions for name in classified.samples}
    with files.writing(str(folder)):
        taxonomy.write(folder, classified, taxonomy.shares(classified, results, about, dimensions))
