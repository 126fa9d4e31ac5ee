"""The evaluation record of a run: what its folder holds, what people state in a form, and what is not known.

Its numbers are those of the run's own tables. It holds no time of its own: the same folder gives the same record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from importlib import resources
from itertools import chain
from pathlib import Path

import msgspec

from medvqa import __version__, decode, printing
from medvqa.benchmarks.recorded import RecordedFile
from medvqa.figures import Table, numbers, texts
from medvqa.items import Origin, Variant
from medvqa.records.private import DIGITS
from medvqa.records.sent_prompts import PROMPTS, KeptPrompts
from medvqa.report import errors, gate, reader_tables
from medvqa.report.build import Report
from medvqa.report.bundle.method import leaves, method_section
from medvqa.report.bundle.page_blocks import NamedFact, TextBlock
from medvqa.report.bundle.texts import label
from medvqa.report.comparison import Section
from medvqa.report.notes import fixed_slices, noted
from medvqa.report.sentences import limits, meaning_of, sentences
from medvqa.report.tables import adds, components, headline, image_gain, outcomes, sliced_tables, spread

NO_CLAIM = (
    "This is a record of an evaluation, drawn from the files of a run folder. It claims no conformity with any law, "
    "standard or guideline, and is no approval of a model."
)
WITHHELD = f"Texts sent about data that are not declared public are not shown; {PROMPTS} of the run has them."
NOT_STATED, NOT_KNOWN, HIDDEN = "not stated", "not recorded", "withheld"
MOST_TEXT = 4000
"""Characters of a prompt."""


class Guideline(msgspec.Struct, frozen=True):
    """A reporting guideline. An item: its number, its subject, and the places that serve it, SECTION or form.FIELD."""

    name: str
    source: str
    items: list[list[str]]


def template() -> str:
    """Return an empty form, a comment above each field."""
    return resources.files(__package__).joinpath("record_form.toml").read_text("utf-8")


def read_form(path: Path | None) -> dict[str, str]:
    """Return the fields of a form, "" where nothing is stated (UsageError for another key, or no text)."""
    fields = decode.decode_bytes(template().encode(), dict[str, str], "record_form.toml")
    kind = msgspec.defstruct("Form", [(name, str, "") for name in fields])
    form = kind() if path is None else decode.decode(path, kind, where=f"--form={path}", missing=b"")
    return {name: str(text).strip() for name, text in msgspec.structs.asdict(form).items()}


def guidelines() -> list[Guideline]:
    """Return the reporting guidelines."""
    content = resources.files(__package__).joinpath("reporting_items.toml").read_bytes()
    return decode.decode_bytes(content, dict[str, list[Guideline]], "reporting_items.toml")["guideline"]


def of_run(
    report: Report, form: Mapping[str, str], others: Sequence[Report] = (), compared: Sequence[Section] = ()
) -> list[Section]:
    """Return the record of a run; its first section has the title, and what comes before anything else.

    `others`: runs that are named beside it; `compared`: the comparisons with them.
    """
    prompts = _prompts(report)
    # Notes name the folder: its place on this machine is nobody's business.
    report = replace(report, folder=Path(report.folder.resolve().name))
    blocks = [block for block in method_section(report, ()).blocks if isinstance(block, TextBlock) and block.facts]
    facts = {block.title: _table(block.title, block.facts) for block in blocks}
    people = [other for other in (report, *others) if other.run.readers is not None]
    stated = [NamedFact(label(name).capitalize(), text or NOT_STATED) for name, text in form.items()]
    verdict = [] if report.gate is None else [f"Gate: {gate.headline(report.gate, exits=False)}"]
    templates = _starting(facts, "Template ")
    shown = templates or any(row[-1] not in (NOT_KNOWN, HIDDEN) for row in prompts.rows)
    sections = [
        _section("Limits", [*_limits(report), *([] if people else ["People's answers are not in this record."])], ()),
        _section("Form: purpose and responsibility", (), [_table("Stated by the responsible people", stated)]),
        _section("Basis of this record", (), [_basis(report)]),
        _section("Model", (), [*_starting(facts, "Model", "Settings of", "Options of", "Files of")]),
        _section("Data", (), _data(report, facts)),
        _section("Prompts" if shown else "Digests of prompts", (), [*templates, prompts]),
        _section("Rules and what was fixed before the first answer", _fixed(report), _rules(report, facts)),
        _section("Results", [sentence.text for sentence in sentences(report)], _results(report)),
        _compared(report, compared),
        _section("Readers", (), [table for each in people for table in _of_people(each)]),
        _section("Errors", errors.lines(report), _errors(report)),
        _section("Versions and machines", (), [*_starting(facts, "Machine", "Versions"), _sessions(report)]),
    ]
    unstated = f"{[*form.values()].count('')} of {len(form)} fields of the form are {NOT_STATED}."
    filled = [section for section in sections if section.notes or section.tables]
    title = Section(f"Evaluation record: {report.title}", (*limits(report), *verdict, unstated, NO_CLAIM), ())
    return [title, *filled, _items(filled, form)]


def _section(title: str, notes: Iterable[str], tables: Iterable[Table]) -> Section:
    filled = tuple(table for table in tables if table.rows)
    return Section(title, (*notes, *(note for table in filled for note in table.notes)), filled)


def _table(title: str, facts: Iterable[NamedFact]) -> Table:
    return Table(title, texts("field", "content"), tuple((fact.name, fact.value or NOT_KNOWN) for fact in facts))


def _starting(facts: Mapping[str, Table], *starts: str) -> list[Table]:
    return [table for title, table in facts.items() if title.startswith(starts)]


def _basis(report: Report) -> Table:
    run = report.run
    facts = {
        "Run": f"{run.name or report.folder.name} ({run.kind})",
        "Results": f"{report.basis.number:,}",
        "SHA-256 of the results, as for metrics.json": report.basis.digest,
        "Every selected question has a result": report.basis.finished,
        "Config": f"{run.config.name} (backend {run.config.backend})",
        "Sent to": ", ".join(run.engine.endpoints),
        "Called itself": ", ".join(run.served_by),
    }
    return _table("Results that the numbers are of", leaves(facts))


def _data(report: Report, facts: Mapping[str, Table]) -> Iterator[Table]:
    """The data of each benchmark of the run, those without a result included."""
    loaded = {part.benchmark.name: part.benchmark for part in report.parts}
    for name in dict.fromkeys((*report.run.benchmarks, *loaded)):
        benchmark, declared = loaded.get(name), report.run.benchmark(name).declared or RecordedFile()
        origin = (benchmark and benchmark.origin) or Origin()
        parts = [part for part in report.parts if part.benchmark.name == name]
        asked = {result.item.id: result.item for part in parts for result in part.results}
        digests = [image.digest for item in asked.values() for image in item.images]
        portions = report.selection.benchmarks.get(name, {})
        rows = {
            "Declared public": benchmark and benchmark.public,
            "Source, as declared": " ".join(filter(None, (origin.home, origin.hub, origin.revision))),
            "Version": " ".join(filter(None, (declared.version, declared.since))),
            "SHA-256 of the table": declared.table_sha256,
            "Images of the questions": f"{len(digests):,}, {digests.count(''):,} of them without a digest",
            "Selected": "; ".join(f"{technique}: {portion}" for technique, portion in portions.items()),
        }
        own, known = _table(name, leaves(rows)), facts.get(f"Benchmark {name}")
        yield own if known is None else replace(own, rows=known.rows + own.rows)


def _prompts(report: Report) -> Table:
    """How many prompts were sent, by kind of question and name of prompt; of public data, the first of each.

    No rows if answers are recordings or people's: then the folder does not have what was asked.
    """
    forms, rows = defaultdict[tuple[str, str, str], list[str]](list), list[tuple[object, ...]]()
    public = {part.name for part in report.parts if part.benchmark.public}
    for part in [] if report.run.replays or report.run.readers is not None else report.parts:
        for result in part.results:
            form = part.name, label(result.item.kind), Variant.parse(result.variant).prompt
            forms[form].append(result.prompt)
    with closing(KeptPrompts(report.folder)) as kept:
        for form, digests in forms.items():
            sent = kept.get(digests[0]) if form[0] in public else None
            told = [] if sent is None else [sent.system, *chain.from_iterable(sent.turns), sent.text, *sent.then]
            text = printing.shortened(" \u23ce ".join("\n".join(filter(None, told)).splitlines()), MOST_TEXT)
            rows.append(
                (*form, len(digests), digests[0][:DIGITS], text or (NOT_KNOWN if form[0] in public else HIDDEN))
            )
    columns = (*texts("part", "kind", "prompt"), *numbers("answers"), *texts("first", "its text"))
    notes = (WITHHELD,) if {form[0] for form in forms} - public else ()
    return Table("Prompts as they were sent", columns, tuple(rows), notes=notes)


def _fixed(report: Report) -> Iterator[str]:
    run = report.run
    yield f"The run started at {run.started or NOT_KNOWN}. What was fixed before is recorded of a gate and of slices."
    yield f"Editions: rules that read answers {run.reading_rules}, definitions of measures pytest-medvqa {__version__}."
    for name in run.benchmarks:
        yield f"{name}: {fixed_slices(run, name) or 'no slice was fixed before the run: all are exploratory'}."


def _rules(report: Report, facts: Mapping[str, Table]) -> Iterator[Table]:
    yield from _starting(facts, "Asking", "Judge")
    measures = tuple(
        (part.name, measure.name, meaning_of(part, measure.name), "yes" if measure in part.headline else "")
        for part in report.parts
        for measure in part.measures
        if not measure.slice
    )
    yield Table("Measures", texts("part", "measure", "definition", "headline"), measures)
    if (stored := report.run.gate) is not None:
        rules = {name: value for name, value in stored.rules.items() if value not in (None, [], {})}
        rules |= {f"Digest of baseline {baseline.name}": baseline.digest for baseline in stored.baselines}
        rules["Digest of the rules"] = stored.digest
        yield _table("Gate, stored before the first answer", leaves(rules))


def _results(report: Report) -> Iterator[Table]:
    yield replace(headline(report), title="Headline measures")
    yield from (image_gain(report), *([spread(report)] if adds(report) else []), components(report))
    yield from sliced_tables(report)


def _compared(report: Report, compared: Sequence[Section]) -> Section:
    """The verdict of the run's gate, and comparisons with other runs, whose tables are named after their sections."""
    notes, tables, pair = list[str](), list[Table](), ""
    if report.gate is not None:
        verdict, stored = report.gate.verdict, report.run.gate
        if stored is None or stored.digest != verdict.rules:
            notes.append("These rules are not the ones that were stored before the first answer.")
        notes += [*verdict.blockers, *gate.quiet(verdict), *gate.remarks(report.gate)]
        tables.append(gate.table(gate.ranked(verdict), f"Rules of the gate, digest {verdict.rules}"))
    for section in compared:
        pair = pair if section.tables else section.title
        notes += [". ".join((section.title, *section.notes))] if section.notes else []
        for table in section.tables:
            title = ". ".join(dict.fromkeys(filter(None, (pair, section.title, table.title))))
            tables.append(replace(table, title=title))
    return _section("Comparison", notes, tables)


def _of_people(report: Report) -> Iterator[Table]:
    """The tables about the readers of a run, with its name, and what their plan has fixed."""
    if report.run.readers is not None:
        yield _table(f"{report.title}: plan and codes", leaves(report.run.readers.as_json()))
        yield from (replace(table, title=f"{report.title}: {table.title}") for table in reader_tables.of_people(report))


def _errors(report: Report) -> Iterator[Table]:
    yield replace(outcomes(report), title="Outcomes")
    if report.errors is not None:
        yield from (errors.table(report), errors.agreement(report.errors), *errors.dimension_tables(report))


def _sessions(report: Report) -> Table:
    rows = tuple(
        (one.session, one.started, one.finished or "did not end", one.asked, one.reused, one.commit, one.hardware)
        for one in report.run.sessions
    )
    columns = (*texts("session", "started", "finished"), *numbers("asked", "reused"), *texts("commit", "hardware"))
    return Table("Sessions", columns, rows)


def _limits(report: Report) -> Iterator[str]:
    """Yield the limits of the numbers, each from a fact of the folder."""
    run, benchmarks = report.run, {part.benchmark.name: part.benchmark for part in report.parts}
    yield from (note.text for note in noted(report) if note.warns)
    public = [name for name, each in benchmarks.items() if each.public and not (each.origin and each.origin.synthetic)]
    again = [session.session for session in run.sessions if session.rescored is not None]
    judged = any(result.judgement is not None for part in report.parts for result in part.results)
    asked, sent = run.readers is None, run.readers is None and not run.replays
    once = run.protocol.samples is None and run.protocol.rotations == 0
    facts = {
        "No search for these questions in training data is recorded.": asked,
        f"Public, so that the model may have been trained on them: {', '.join(public)}.": asked and bool(public),
        "Each question has one answer: how much answers vary is not measured.": once,
        "Each question was asked in one wording: how much prompts matter is not measured.": sent and not run.prompts,
        "A judge scored answers; no agreement of its scores with people's is recorded.": judged
        and report.agreement is None,
        f"The answers were scored again after they were given (session {', '.join(again)}).": bool(again),
        "The model has no fingerprint: its weights are not identified.": asked and run.model.fingerprint is None,
        "No digests of the model's files are recorded.": asked and not run.model.unknown.get("digests"),
        "People or a recording answered: how the questions were asked is not in this folder.": not sent,
        "No gate was stored before the first answer, so the run has no margin and no floor of its own.": run.gate
        is None,
    }
    yield from (line for line, holds in facts.items() if holds)


def _items(sections: Sequence[Section], form: Mapping[str, str]) -> Section:
    """The items of reporting guidelines, with the places of the record that serve each."""
    places = {section.title.split()[0].lower(): section.title for section in sections}
    places |= {f"form.{name}": f"Form: {label(name)}" for name, text in form.items() if text}
    note = "Subjects are in our words. Whether what a section has suffices for an item is for the reader to judge."
    tables = list[Table]()
    for guideline in guidelines():
        rows = []
        for number, subject, *named in guideline.items:
            found = "; ".join(places[place] for place in named if place in places)
            rows.append((number, subject, found or ("nothing in this record" if named else "not covered")))
        title = f"{guideline.name}: {guideline.source}"
        tables.append(Table(title, texts("item", "subject", "in this record"), tuple(rows)))
    return Section("Reporting items", (note,), tuple(tables))
