"""The evaluation record of a run: what its folder holds, what people state in a form, and what is not known.

Its numbers are those of the run's own tables. It holds no time of its own: the same folder gives the same record.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from medvqa.figures import Table, counted, numbers, texts
from medvqa.protocols import rotation
from medvqa.records.coverage import Basis
from medvqa.records.sent_prompts import PROMPTS, KeptPrompt, KeptPrompts
from medvqa.report import comparison, errors, gate
from medvqa.report.build import Part, Report
from medvqa.report.bundle.method import leaves, method_section
from medvqa.report.bundle.page_blocks import TextBlock
from medvqa.report.bundle.prompts import pieces_of
from medvqa.report.bundle.texts import label
from medvqa.report.notes import fixed_slices, noted
from medvqa.report.record_form import RecordForm, asked
from medvqa.report.reporting_items import guidelines
from medvqa.report.sentences import limits, meaning_of, sentences
from medvqa.report.tables import adds, components, headline, image_gain, outcomes, sliced_tables, spread

NO_CLAIM = (
    "This is a record of an evaluation, drawn from the files of a run folder. It claims no conformity with any law, "
    "standard or guideline, and is no approval of a model."
)
ITEMS = (
    "Subjects are in our words. A place is named if it has something for the item; whether that suffices is for the "
    "reader to judge."
)
NOT_STATED, NOT_KNOWN, NOT_COVERED = "not stated", "not recorded", "not covered"
PEOPLE = "human"
"""The backend of runs in which people answered."""
MOST_SENT, MOST_TEXT = 5, 4000
"""Forms of a part's prompts of which the first is shown, and characters of each."""


Block = str | tuple[str, ...] | Table
"""A sentence, a list of sentences, or a table with its title."""


@dataclass(frozen=True, slots=True)
class RecordSection:
    """A section of a record; `key` is the place by which reporting items name it."""

    key: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """A record: the lines that come before anything else, and its sections."""

    title: str
    first: tuple[str, ...]
    sections: tuple[RecordSection, ...]


def of_run(
    report: Report,
    form: RecordForm,
    drawn: Basis | None,
    others: Sequence[Report] = (),
    compared: Sequence[comparison.Section] = (),
) -> EvaluationRecord:
    """Return the record of a run.

    `drawn`: the results that the other reports of the folder were drawn from, None if there are none. `others`: runs
    that are named beside it; `compared`: the comparisons with them.
    """
    # Notes name the folder: its place on this machine is nobody's business.
    named = replace(report, folder=Path(report.folder.resolve().name))
    page = [block for block in method_section(named, ()).blocks if isinstance(block, TextBlock) and block.facts]
    facts = {block.title: _table(block.title, ((fact.name, fact.value) for fact in block.facts)) for block in page}
    people = [other for other in (named, *others) if other.run.config.backend == PEOPLE]
    made: list[tuple[str, str, Iterable[Block]]] = [
        ("form", "Purpose and responsibility", [_form(form)]),
        ("basis", "Basis of this record", [_basis(named)]),
        ("model", "Model", _model(named, facts)),
        ("data", "Data", _data(named, facts)),
        ("prompts", "Prompts", _prompts(report, facts)),
        ("rules", "Rules fixed before the first answer", _rules(named, facts)),
        ("results", "Results", _results(named)),
        ("comparison", "Comparison", _comparison(named, compared)),
        ("readers", "Readers", [replace(headline(each), title=f"{each.title}: people") for each in people]),
        ("errors", "Errors", _errors(named)),
        ("versions", "Versions and machines", _versions(named, facts)),
        ("limits", "Limits", [tuple(_limits(named, people))]),
    ]
    sections = [RecordSection(key, title, tuple(filter(_has_content, blocks))) for key, title, blocks in made]
    outdated = drawn is not None and (drawn.digest, drawn.number) != (report.basis.digest, report.basis.number)
    first = (
        *limits(named),
        *(["The other reports of the folder are of other results: type medvqa report."] if outdated else []),
        f"{len(form.missing)} of {counted(len(form.stated), 'fields')} of the form are {NOT_STATED}.",
        NO_CLAIM,
    )
    return EvaluationRecord(
        f"Evaluation record: {named.title}", first, _with_items([each for each in sections if each.blocks], form)
    )


def _has_content(block: Block) -> bool:
    return bool(block.rows if isinstance(block, Table) else block)


def _table(title: str, facts: Iterable[tuple[str, str]]) -> Table:
    return Table(title, texts("what", "as recorded"), tuple((name, value or NOT_KNOWN) for name, value in facts))


def _starting(facts: Mapping[str, Table], *starts: str) -> list[Table]:
    return [table for title, table in facts.items() if title.startswith(starts)]


def _form(form: RecordForm) -> Table:
    asks = asked()
    rows = tuple((label(name).capitalize(), asks[name], text or NOT_STATED) for name, text in form.stated.items())
    return Table("Stated by the people who are responsible", texts("field", "asked for", "stated"), rows)


def _basis(report: Report) -> Table:
    basis, run = report.basis, report.run
    facts = {
        "Run": f"{run.name or report.folder.name} ({run.kind})",
        "Started": run.started,
        "Finished": run.finished,
        "Results": f"{basis.number:,}",
        "SHA-256 of the results": f"{basis.digest} (results.digest of metrics.json)",
        "Every selected question has a result": "yes" if basis.finished else "no",
    }
    return _table("", facts.items())


def _model(report: Report, facts: Mapping[str, Table]) -> Iterator[Block]:
    run = report.run
    sent = ", ".join((*run.engine.endpoints, *(f"{name} (as it called itself)" for name in run.served_by)))
    yield _table("", (("Config", run.config.name), ("Backend", run.config.backend), ("Sent to", sent)))
    yield from _starting(facts, "Model", "Settings of", "Options of", "Files of")


def _data(report: Report, facts: Mapping[str, Table]) -> Iterator[Block]:
    for name, benchmark in {part.benchmark.name: part.benchmark for part in report.parts}.items():
        recorded, origin = report.run.benchmark(name), benchmark.origin
        results = [result for part in report.parts if part.benchmark.name == name for result in part.results]
        digests = [image.digest for result in results for image in result.item.images]
        known = sorted(set(digests) - {""})
        images = f"{len(known):,}, {digests.count('')} without a digest; SHA-256 of the sorted digests "
        portions = report.selection.benchmarks.get(name, {})
        rows = {
            "Declared public": "yes" if benchmark.public else "no",
            "Owners": "" if origin is None else origin.home,
            "Revision": "" if origin is None else f"{origin.hub} {origin.revision}".strip(),
            "Images are drawn by a program": "yes" if origin is not None and origin.synthetic else "no",
            "SHA-256 of the questions": recorded.data_sha256,
            "SHA-256 of the table": "" if recorded.declared is None else recorded.declared.table_sha256,
            "Different images": images + hashlib.sha256("\n".join(known).encode()).hexdigest() if known else "",
            "Selected": "; ".join(f"{technique}: {portion}" for technique, portion in portions.items()),
            "Selected by": " ".join(report.selection.how) or "the whole, or not recorded",
            "Signature": ", ".join(f"{part} {value}" for part, value in recorded.signature.items()),
        }
        yield _table(benchmark.title or name, rows.items())
        yield from _starting(facts, f"Benchmark {name}")


def _prompts(report: Report, facts: Mapping[str, Table]) -> Iterator[Block]:
    names = tuple(
        (name, technique, prompt)
        for name, recorded in report.run.benchmarks.items()
        for technique, prompts in recorded.prompts.items()
        for prompt in (recorded.asked_by or prompts.split("+"))
    )
    yield Table("Templates by name and digest", texts("benchmark", "technique", "template"), names)
    yield from _starting(facts, "Template ")
    rows = list[tuple[str, int, str, str]]()
    with closing(KeptPrompts(report.folder)) as kept:
        for part in report.parts:
            for digests in _forms(part, kept)[:MOST_SENT]:
                first = kept.get(digests[0]) if part.benchmark.public else None
                text = "" if first is None else "\n\n".join(filter(None, (first.system, first.text)))
                rows.append((part.name, len(digests), digests[0], text[:MOST_TEXT].replace("\n", " \u23ce ")))
    columns = (*texts("part"), *numbers("answers"), *texts("SHA-256 of the first prompt", "its text"))
    yield Table(f"Prompts as they were sent: at most {MOST_SENT} forms of each part", columns, tuple(rows))
    if not all(part.benchmark.public for part in report.parts):
        yield f"Texts sent about data that are not declared public are not shown; {PROMPTS} of the run has them."


def _forms(part: Part, kept: KeptPrompts) -> list[list[str]]:
    """Group the digests of a part's prompts by form: they differ by question and options alone. The largest first.

    Prompts that are not kept, or that nobody may read here, are one form.
    """
    forms = defaultdict[object, list[str]](list)
    for result in part.results:
        prompt: KeptPrompt | None = kept.get(result.prompt) if part.benchmark.public else None
        item = rotation.as_shown(result.item, result.variant)
        pieces = pieces_of("" if prompt is None else prompt.text, item.question, [*item.options.values()])
        forms[pieces, "" if prompt is None else prompt.system].append(result.prompt)
    return sorted(forms.values(), key=len, reverse=True)


def _rules(report: Report, facts: Mapping[str, Table]) -> Iterator[Block]:
    run, stored = report.run, report.run.gate
    yield f"As run.json has them. The run started at {run.started or NOT_KNOWN}."
    yield from _starting(facts, "Asking", "Judge")
    measures = tuple(
        (part.name, measure.name, meaning_of(part, measure.name), "yes" if measure in part.headline else "")
        for part in report.parts
        for measure in part.measures
        if not measure.slice
    )
    yield Table("Measures", texts("part", "measure", "definition", "headline"), measures)
    yield tuple(
        f"{name}: {fixed_slices(run, name) or 'no slice was fixed before the run: all are exploratory'}."
        for name in run.benchmarks
    )
    if stored is not None:
        against = [(f"Baseline {baseline.name}", f"digest {baseline.digest}") for baseline in stored.baselines]
        given = [(fact.name, fact.value) for fact in leaves(stored.rules) if fact.value]
        yield _table("Gate, stored before the first answer", [("Digest of the rules", stored.digest), *given, *against])


def _results(report: Report) -> Iterator[Block]:
    yield tuple(sentence.text for sentence in sentences(report))
    tables = [headline(report), image_gain(report), *([spread(report)] if adds(report) else []), components(report)]
    yield from (*tables, *sliced_tables(report))


def _comparison(report: Report, compared: Sequence[comparison.Section]) -> Iterator[Block]:
    if report.gate is not None:
        verdict, stored = report.gate.verdict, report.run.gate
        yield f"Gate: {gate.headline(report.gate, exits=False)}"
        if stored is None or stored.digest != verdict.rules:
            yield f"These rules (digest {verdict.rules}) are not the ones that were stored before the first answer."
        yield (*verdict.blockers, *gate.quiet(verdict), *gate.remarks(report.gate))
        yield gate.table(gate.ranked(verdict), f"Rules of the gate, digest {verdict.rules}")
    for section in compared:
        yield f"{section.title}."
        yield section.notes
        yield from section.tables


def _errors(report: Report) -> Iterator[Block]:
    yield outcomes(report)
    yield tuple(errors.lines(report))
    if report.errors is not None:
        yield from (errors.table(report), errors.agreement(report.errors), *errors.dimension_tables(report))


def _versions(report: Report, facts: Mapping[str, Table]) -> Iterator[Block]:
    yield from _starting(facts, "Machine", "Versions")
    rows = tuple(
        (
            *(session.session, session.started, session.finished or "did not end", session.asked, session.reused),
            *(session.commit or NOT_KNOWN, session.hardware or NOT_KNOWN, "" if session.rescored is None else "yes"),
        )
        for session in report.run.sessions
    )
    columns = (*texts("session", "started", "finished"), *numbers("asked", "reused"))
    yield Table("Sessions", (*columns, *texts("commit", "hardware", "scored again")), rows)


def _limits(report: Report, people: Sequence[Report]) -> Iterator[str]:
    """Yield the limits of the numbers, each from a fact of the folder."""
    run, public = report.run, dict[str, bool]()
    yield from (note.text for note in noted(report) if note.warns)
    for part in report.parts:
        synthetic = part.benchmark.origin is not None and part.benchmark.origin.synthetic
        public[part.benchmark.name] = part.benchmark.public and not synthetic
    if public:
        yield f"The folder records no search for these questions in training data (medvqa leaks): {', '.join(public)}."
    if known := [name for name, is_public in public.items() if is_public]:
        yield f"Declared public, so that the model may have been trained on them: {', '.join(known)}."
    judged = any(result.judgement is not None for part in report.parts for result in part.results)
    again = ", ".join(session.session for session in run.sessions if session.rescored is not None)
    facts = {
        "Each question was asked once: how much the answers vary is not measured.": run.protocol.samples is None,
        "Each question was asked in one wording: how much prompts matter is not measured.": not run.prompts,
        "A judge scored answers; the folder records no agreement with people (medvqa agreement).": judged,
        f"The answers were scored again after they were given (session {again}).": bool(again),
        "The model has no fingerprint: its weights are not identified.": run.model.fingerprint is None,
        "No digests of the model's files are recorded.": not run.model.unknown.get("digests"),
        "Answers were replayed: only the recording tells which model gave them, and how it was asked.": run.replays,
        "It is not recorded to which machines questions were sent.": not (run.engine.endpoints or run.served_by),
        "No margin and no floor was stored before the first answer.": run.gate is None,
        "A session ran with changes that its commit does not have.": any(
            session.commit.endswith("-dirty") for session in run.sessions
        ),
        "No people's answers to these questions are in this record.": not people,
    }
    yield from (line for line, holds in facts.items() if holds)


def _with_items(sections: Sequence[RecordSection], form: RecordForm) -> tuple[RecordSection, ...]:
    """Return sections that end with the reporting items that they serve, and a section with all items."""
    places = {section.key: section.title for section in sections}
    places |= {f"form.{name}": f"form: {label(name)}" for name, text in form.stated.items() if text}
    serving, tables = {section.key: list[str]() for section in sections}, list[Table]()
    for guideline in guidelines():
        rows = []
        for number, subject, *named in guideline.items:
            found = [place for place in named if place in places]
            absent = "nothing in this record" if named else NOT_COVERED
            rows.append((number, subject, "; ".join(map(places.__getitem__, found)) or absent))
            for key in dict.fromkeys(place.partition(".")[0] for place in found):
                serving[key].append(f"{guideline.name} {number}")
        title = f"{guideline.name}: {guideline.source}"
        tables.append(Table(title, texts("item", "subject", "in this record"), tuple(rows)))
    ended = (
        replace(section, blocks=(*section.blocks, f"Has something for {', '.join(items)}."))
        if (items := serving[section.key])
        else section
        for section in sections
    )
    return (*ended, RecordSection("items", "Reporting items", (ITEMS, *tables)))
