"""The evaluation record of a run: what its folder holds, what people state in a form, and what is not known.

Its numbers are those of the run's own tables. It holds no time of its own: the same folder gives the same record.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec

from medvqa.figures import Table, numbers, texts
from medvqa.items import Result
from medvqa.protocols import rotation
from medvqa.records.coverage import Basis
from medvqa.records.sent_prompts import PROMPTS, KeptPrompts
from medvqa.report import errors, gate, reader_tables
from medvqa.report.build import Part, Report
from medvqa.report.bundle.method import method_section
from medvqa.report.bundle.page_blocks import TextBlock
from medvqa.report.bundle.prompts import pieces_of
from medvqa.report.bundle.texts import label
from medvqa.report.comparison import Section
from medvqa.report.notes import fixed_slices, noted
from medvqa.report.record_parts import parts
from medvqa.report.sentences import limits, meaning_of, sentences
from medvqa.report.tables import adds, components, headline, image_gain, outcomes, sliced_tables, spread

NO_CLAIM = (
    "This is a record of an evaluation, drawn from the files of a run folder. It claims no conformity with any law, "
    "standard or guideline, and is no approval of a model."
)
ITEMS = "Subjects are in our words. Whether what a section has suffices for an item is for the reader to judge."
OUTDATED = "The other reports of the folder are of other results: type medvqa report."
NOT_STATED, NOT_KNOWN, NOT_COVERED = "not stated", "not recorded", "not covered"
PEOPLE = "human"
"""The backend of runs in which people answered."""
MOST_SENT, MOST_TEXT = 5, 4000
"""Forms of a part's prompts of which the first is shown, and characters of each."""
Facts = Mapping[str, Table]
"""Groups of facts of the page's section on the method, by title."""


def of_run(
    report: Report,
    form: Mapping[str, str],
    drawn: Basis | None,
    others: Sequence[Report] = (),
    compared: Sequence[Section] = (),
) -> list[Section]:
    """Return the record of a run; its first section has the title, and what comes before anything else.

    `drawn`: the results that the other reports of the folder were drawn from, None if there are none. `others`: runs
    that are named beside it; `compared`: the comparisons with them.
    """
    sent = _sent(report)
    # Notes name the folder: its place on this machine is nobody's business.
    report = replace(report, folder=Path(report.folder.resolve().name))
    blocks = [block for block in method_section(report, ()).blocks if isinstance(block, TextBlock) and block.facts]
    facts = {block.title: _table(block.title, ((fact.name, fact.value) for fact in block.facts)) for block in blocks}
    people = [other for other in (report, *others) if other.run.config.backend == PEOPLE]
    private = any(not part.benchmark.public for part in report.parts)
    withheld = f"Texts sent about data that are not declared public are not shown; {PROMPTS} of the run has them."
    sections = [
        _section("Form: purpose and responsibility", (), [_form(form)]),
        _section("Basis of this record", (), [_basis(report)]),
        _section("Model", (), [_asked(report), *_starting(facts, "Model", "Settings of", "Options of", "Files of")]),
        _section("Data", (), _data(report, facts)),
        _section("Prompts", [withheld] if private else [], [*_starting(facts, "Template "), sent]),
        _section("Rules fixed before the first answer", _fixed(report), _rules(report, facts)),
        _section("Results", [sentence.text for sentence in sentences(report)], _results(report)),
        _section("Comparison", _compared(report, compared), _differences(report, compared)),
        _section("Readers", (), [table for each in people for table in reader_tables.of_people(each)]),
        _section("Errors", errors.lines(report), _errors(report)),
        _section("Versions and machines", (), [*_starting(facts, "Machine", "Versions"), _sessions(report)]),
        _section("Limits", [*_limits(report, people)], ()),
    ]
    outdated = drawn is not None and (drawn.digest, drawn.number) != (report.basis.digest, report.basis.number)
    unstated = f"{[*form.values()].count('')} of {len(form)} fields of the form are {NOT_STATED}."
    first = (*limits(report), *([OUTDATED] if outdated else []), unstated, NO_CLAIM)
    filled = [section for section in sections if section.notes or section.tables]
    return [Section(f"Evaluation record: {report.title}", first, ()), *_with_items(filled, form)]


def key(section: Section) -> str:
    """Return the place by which reporting items name a section: the first word of its title."""
    return section.title.partition(" ")[0].rstrip(":").lower()


def _section(title: str, notes: Iterable[str], tables: Iterable[Table]) -> Section:
    filled = tuple(table for table in tables if table.rows)
    return Section(title, (*notes, *(note for table in filled for note in table.notes)), filled)


def _table(title: str, facts: Iterable[tuple[str, str]]) -> Table:
    return Table(title, texts("what", "as recorded"), tuple((name, value or NOT_KNOWN) for name, value in facts))


def _starting(facts: Facts, *starts: str) -> list[Table]:
    return [table for title, table in facts.items() if title.startswith(starts)]


def _form(form: Mapping[str, str]) -> Table:
    rows = tuple((label(name).capitalize(), text or NOT_STATED) for name, text in form.items())
    return Table("Stated by the people who are responsible", texts("field", "stated"), rows)


def _basis(report: Report) -> Table:
    facts = {
        "Run": f"{report.run.name or report.folder.name} ({report.run.kind})",
        "Results": f"{report.basis.number:,}",
        "SHA-256 of the results, as in metrics.json": report.basis.digest,
        "Every selected question has a result": "yes" if report.basis.finished else "no",
    }
    return _table("Results that the numbers are of", facts.items())


def _asked(report: Report) -> Table:
    run = report.run
    sent = ", ".join((*run.engine.endpoints, *(f"{name} (as it called itself)" for name in run.served_by)))
    return _table("How it was run", (("Config", run.config.name), ("Backend", run.config.backend), ("Sent to", sent)))


def _data(report: Report, facts: Facts) -> Iterator[Table]:
    for name, benchmark in {part.benchmark.name: part.benchmark for part in report.parts}.items():
        recorded, origin = report.run.benchmark(name), benchmark.origin
        results = [result for part in report.parts if part.benchmark.name == name for result in part.results]
        portions = report.selection.benchmarks.get(name, {})
        rows = {
            "Declared public": "yes" if benchmark.public else "no",
            "Owners": "" if origin is None else origin.home,
            "Revision": "" if origin is None else f"{origin.hub} {origin.revision}".strip(),
            "SHA-256 of the table": "" if recorded.declared is None else recorded.declared.table_sha256,
            "Images": _images(results),
            "Selected": "; ".join(f"{technique}: {portion}" for technique, portion in portions.items()),
            "Signature": ", ".join(f"{part} {value}" for part, value in recorded.signature.items()),
        }
        yield _table(benchmark.title or name, rows.items())
        if (recorded_facts := facts.get(f"Benchmark {name}")) is not None:
            yield recorded_facts


def _images(results: Iterable[Result]) -> str:
    digests = [image.digest for result in results for image in result.item.images]
    known = sorted(set(digests) - {""})
    digest = hashlib.sha256("\n".join(known).encode()).hexdigest()
    told = f"{len(known):,} different ones, SHA-256 of their sorted digests {digest}; " if known else ""
    return f"{told}{digests.count('')} without a digest" if digests else "none"


def _sent(report: Report) -> Table:
    """The prompts of each part, counted by form; of public data, the first of each form as it was sent."""
    rows = list[tuple[str, int, str, str]]()
    with closing(KeptPrompts(report.folder)) as kept:
        for part in report.parts:
            for digests in _forms(part, kept)[:MOST_SENT]:
                first = kept.get(digests[0]) if part.benchmark.public else None
                text = "" if first is None else "\n\n".join(filter(None, (first.system, first.text)))
                rows.append((part.name, len(digests), digests[0], text[:MOST_TEXT].replace("\n", " \u23ce ")))
    columns = (*texts("part"), *numbers("answers"), *texts("SHA-256 of the first prompt", "its text"))
    return Table(f"Prompts as they were sent: at most {MOST_SENT} forms of each part", columns, tuple(rows))


def _forms(part: Part, kept: KeptPrompts) -> list[list[str]]:
    """Group the digests of a part's prompts by form: they differ by question and options alone. The largest first.

    Prompts that are not kept, or that nobody may read here, are one form.
    """
    forms = defaultdict[object, list[str]](list)
    for result in part.results:
        prompt = kept.get(result.prompt) if part.benchmark.public else None
        item = rotation.as_shown(result.item, result.variant)
        pieces = pieces_of("" if prompt is None else prompt.text, item.question, [*item.options.values()])
        forms[pieces, "" if prompt is None else prompt.system].append(result.prompt)
    return sorted(forms.values(), key=len, reverse=True)


def _fixed(report: Report) -> Iterator[str]:
    run = report.run
    yield f"As run.json has them, of a run that started at {run.started or NOT_KNOWN}."
    yield f"Edition of the rules that read answers: {run.reading_rules}."
    yield "A stored gate was there before the first answer; of the other rules this is not recorded."
    for name in run.benchmarks:
        yield f"{name}: {fixed_slices(run, name) or 'no slice was fixed before the run: all are exploratory'}."


def _rules(report: Report, facts: Facts) -> Iterator[Table]:
    yield from _starting(facts, "Asking", "Judge")
    measures = tuple(
        (part.name, measure.name, meaning_of(part, measure.name), "yes" if measure in part.headline else "")
        for part in report.parts
        for measure in part.measures
        if not measure.slice
    )
    yield Table("Measures", texts("part", "measure", "definition", "headline"), measures)
    if (stored := report.run.gate) is not None:
        against = [(f"Baseline {baseline.name}", f"digest {baseline.digest}") for baseline in stored.baselines]
        given = [(name, msgspec.json.encode(value).decode()[:MOST_TEXT]) for name, value in stored.rules.items()]
        yield _table("Gate, stored before the first answer", [("Digest of the rules", stored.digest), *given, *against])


def _results(report: Report) -> Iterator[Table]:
    yield replace(headline(report), title="Headline measures")
    yield from (image_gain(report), *([spread(report)] if adds(report) else []), components(report))
    yield from sliced_tables(report)


def _compared(report: Report, compared: Sequence[Section]) -> Iterator[str]:
    if report.gate is not None:
        verdict, stored = report.gate.verdict, report.run.gate
        yield f"Gate: {gate.headline(report.gate, exits=False)}"
        if stored is None or stored.digest != verdict.rules:
            yield f"These rules (digest {verdict.rules}) are not the ones that were stored before the first answer."
        yield from (*verdict.blockers, *gate.quiet(verdict), *gate.remarks(report.gate))
    yield from (". ".join((section.title, *section.notes)) for section in compared)


def _differences(report: Report, compared: Sequence[Section]) -> Iterator[Table]:
    if report.gate is not None:
        verdict = report.gate.verdict
        yield gate.table(gate.ranked(verdict), f"Rules of the gate, digest {verdict.rules}")
    pair = ""
    for section in compared:
        pair = pair if section.tables else section.title
        titles = (filter(None, (pair, section.title, table.title)) for table in section.tables)
        yield from (replace(table, title=". ".join(each)) for table, each in zip(section.tables, titles, strict=True))


def _errors(report: Report) -> Iterator[Table]:
    yield replace(outcomes(report), title="Outcomes")
    if report.errors is not None:
        yield from (errors.table(report), errors.agreement(report.errors), *errors.dimension_tables(report))


def _sessions(report: Report) -> Table:
    rows = tuple(
        (
            *(session.session, session.started, session.finished or "did not end", session.asked, session.reused),
            *(session.commit or NOT_KNOWN, session.hardware or NOT_KNOWN),
        )
        for session in report.run.sessions
    )
    columns = (*texts("session", "started", "finished"), *numbers("asked", "reused"), *texts("commit", "hardware"))
    return Table("Sessions", columns, rows)


def _limits(report: Report, people: Sequence[Report]) -> Iterator[str]:
    """Yield the limits of the numbers, each from a fact of the folder."""
    run, benchmarks = report.run, {part.benchmark.name: part.benchmark for part in report.parts}
    yield from (note.text for note in noted(report) if note.warns)
    public = [name for name, each in benchmarks.items() if each.public and not (each.origin and each.origin.synthetic)]
    again = [session.session for session in run.sessions if session.rescored is not None]
    facts = {
        f"No search for these questions in training data is recorded: {', '.join(benchmarks)}.": bool(benchmarks),
        f"Public, so that the model may have been trained on them: {', '.join(public)}.": bool(public),
        "Each question was asked once: how much the answers vary is not measured.": run.protocol.samples is None,
        "Each question was asked in one wording: how much prompts matter is not measured.": not run.prompts,
        "A judge scored answers; no agreement of its scores with people's is recorded.": any(
            result.judgement is not None for part in report.parts for result in part.results
        ),
        f"The answers were scored again after they were given (session {', '.join(again)}).": bool(again),
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


def _with_items(sections: Sequence[Section], form: Mapping[str, str]) -> Iterator[Section]:
    """Yield sections that end with the reporting items that they serve, and a section with all items."""
    places = {key(section): section.title for section in sections}
    places |= {f"form.{name}": f"Form: {label(name)}" for name, text in form.items() if text}
    serving, tables = defaultdict[str, list[str]](list), list[Table]()
    for guideline in parts().guideline:
        rows = []
        for number, subject, *named in guideline.items:
            found = [place for place in named if place in places]
            absent = "nothing in this record" if named else NOT_COVERED
            rows.append((number, subject, "; ".join(places[place] for place in found) or absent))
            for place in dict.fromkeys(place.partition(".")[0] for place in found):
                serving[place].append(f"{guideline.name} {number}")
        title = f"{guideline.name}: {guideline.source}"
        tables.append(Table(title, texts("item", "subject", "in this record"), tuple(rows)))
    for section in sections:
        served = [f"Serves {', '.join(items)}."] if (items := serving[key(section)]) else []
        yield replace(section, notes=(*section.notes, *served))
    yield Section("Reporting items", (ITEMS,), tuple(tables))
