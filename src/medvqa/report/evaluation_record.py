"""The evaluation record of a run, for a file: what its folder holds, what people state in a form, and what is not known.

It has the numbers of the run's own tables, and the time of no clock: a folder gives the same record again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from medvqa.figures import Table, counted, numbers, texts
from medvqa.records.coverage import METRICS, Basis
from medvqa.records.sent_prompts import PROMPTS, KeptPrompts
from medvqa.protocols import rotation
from medvqa.report import errors, gate
from medvqa.report.build import Part, Report
from medvqa.report.bundle.method import leaves, method_section
from medvqa.report.bundle.page_blocks import NamedFact, TextBlock
from medvqa.report.bundle.prompts import pieces_of
from medvqa.report.bundle.texts import label
from medvqa.report.comparison import Section as ComparisonSection
from medvqa.report.notes import fixed_slices, noted, usage_of
from medvqa.report.record_form import RecordForm, asked
from medvqa.report.reporting_items import GUIDELINES, Guideline, ReportingItem
from medvqa.report.sentences import limits, meaning_of, sentences
from medvqa.report.tables import adds, components, headline, image_gain, outcomes, sliced_tables, spread

NO_CLAIM = (
    "This is a record of an evaluation, drawn from the files of a run folder. It claims no conformity with any law, "
    "standard or guideline, and is no approval of a model."
)
NOT_STATED, NOT_COVERED, NOT_KNOWN = "not stated", "not covered", "not recorded"
PEOPLE = "human"
"""The backend of runs in which people answered."""
MOST_SENT, MOST_TEXT = 5, 4000
"""Templates of a part whose first prompt is shown, and characters of each."""


@dataclass(frozen=True, slots=True)
class VerbatimText:
    """A text as it was sent."""

    title: str
    text: str


Block = str | tuple[str, ...] | Table | VerbatimText
"""A sentence, a list of sentences, a table with its title, or a text as it is."""


@dataclass(frozen=True, slots=True)
class RecordSection:
    """A section of the record; reporting items name it by its `key`."""

    key: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """The record: lines that come before anything else, and its sections."""

    title: str
    first: tuple[str, ...]
    sections: tuple[RecordSection, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """What a record has beside its run: reports of other runs, the comparisons with them, tables of readers."""

    reports: tuple[Report, ...] = ()
    compared: tuple[ComparisonSection, ...] = ()
    readers: tuple[Table, ...] = ()


def of_run(report: Report, form: RecordForm, drawn: Basis | None, beside: Beside | None = None) -> EvaluationRecord:
    """Return the record of a run. `drawn`: the results that the folder's reports were drawn from, None without any."""
    # Notes name the folder: its place on this machine is nobody's business.
    named = replace(report, folder=Path(report.folder.resolve().name))
    beside = beside or Beside()
    facts = {
        block.title: block.facts
        for block in method_section(named, ()).blocks
        if isinstance(block, TextBlock) and block.facts
    }
    sections = [
        section
        for key, title, blocks in (
            ("form", "Purpose and responsibility", _form(form)),
            ("basis", "Basis of this record", _basis(named, drawn)),
            ("model", "Model", _model(named, facts)),
            ("data", "Data", [block for part in _firsts(named) for block in _data(named, part, facts)]),
            ("prompts", "Prompts", _prompts(report, facts)),
            ("rules", "Rules fixed before the first answer", _rules(named, facts)),
            ("results", "Results", _results(named)),
            ("comparison", "Comparison", _comparison(named, beside)),
            ("readers", "Readers", _readers(beside)),
            ("errors", "Errors", _errors(named)),
            ("versions", "Versions and machines", _versions(named, facts)),
            ("limits", "Limits", [tuple(_limits(named, beside)), *([form.limitations] if form.limitations else [])]),
        )
        if (section := RecordSection(key, title, tuple(block for block in blocks if block))).blocks
    ]
    sections = [_with_items(section, form) for section in sections]
    items = RecordSection("items", "Reporting items", tuple(_items(sections, form)))
    missing = f"{len(form.missing)} of {counted(len(form.stated), 'fields')} of the form are {NOT_STATED}."
    first = (*limits(named), *_outdated(named, drawn), missing, NO_CLAIM)
    return EvaluationRecord(f"Evaluation record: {named.title}", first, (*sections, items))


def _table(title: str, facts: Iterable[tuple[str, object]]) -> Table:
    rows = tuple((name, str(value) or NOT_KNOWN) for name, value in facts)
    return Table(title, texts("what", "as recorded"), rows)


def _of_facts(title: str, facts: Sequence[NamedFact]) -> Table:
    return _table(title, [(fact.name, fact.value) for fact in facts])


def _form(form: RecordForm) -> list[Block]:
    asks = asked()
    rows = tuple((label(name).capitalize(), asks[name], text or NOT_STATED) for name, text in form.stated.items())
    return [Table("Stated by the people who are responsible", texts("field", "asked for", "stated"), rows)]


def _basis(report: Report, drawn: Basis | None) -> list[Block]:
    basis, run = report.basis, report.run
    facts = {
        "Run": run.name or report.folder.name,
        "Kind": run.kind,
        "Started": run.started,
        "Finished": run.finished,
        "Results": f"{basis.number:,}",
        "SHA-256 of the results": basis.digest,
        "All selected questions have a result": "yes" if basis.finished else "no",
        "Reports of the folder": "of these results" if drawn and not _outdated(report, drawn) else "none or outdated",
    }
    return [_table("", facts.items()), f"{METRICS} of the folder names the same digest as results.digest."]


def _outdated(report: Report, drawn: Basis | None) -> list[str]:
    """A line if the reports in the folder are not of the results that this record is of."""
    same = drawn is None or (drawn.digest, drawn.number) == (report.basis.digest, report.basis.number)
    return (
        [] if same else ["The other reports of the folder are of other results: type medvqa report, then this again."]
    )


def _model(report: Report, facts: Mapping[str, Sequence[NamedFact]]) -> list[Block]:
    run = report.run
    sent = ", ".join([*run.engine.endpoints, *(f"reported: {name}" for name in run.served_by)])
    own = {"Name in reports": run.model_name, "Config": run.config.name, "Backend": run.config.backend}
    titles = ("Model", "Settings of the model", "Options of the model", "Files of the model (SHA-256)")
    tables = [_of_facts(title, facts[title]) for title in titles if title in facts]
    return [_table("", {**own, "Fingerprint": run.model.fingerprint or "", "Sent to": sent}.items()), *tables]


def _firsts(report: Report) -> list[Part]:
    """The first part of each benchmark."""
    return [*{part.benchmark.name: part for part in reversed(report.parts)}.values()][::-1]


def _data(report: Report, part: Part, facts: Mapping[str, Sequence[NamedFact]]) -> Iterator[Block]:
    benchmark, name = part.benchmark, part.benchmark.name
    recorded, origin = report.run.benchmark(name), benchmark.origin
    results = [result for each in report.parts if each.benchmark.name == name for result in each.results]
    images = [image.digest for result in results for image in result.item.images]
    known = sorted(set(filter(None, images)))
    digest = hashlib.sha256("\n".join(known).encode()).hexdigest() if known else ""
    portions = report.selection.benchmarks.get(name, {})
    selected = "; ".join(f"{key}: {portion}" for key, portion in portions.items())
    declared = recorded.declared
    rows = {
        "Declared public": "yes" if benchmark.public else "no",
        "Owners": origin.home if origin else "",
        "Revision at its hub": f"{origin.hub} {origin.revision}".strip() if origin else "",
        "Images drawn by a program": "yes" if origin and origin.synthetic else "",
        "SHA-256 of the questions": recorded.data_sha256,
        "SHA-256 of the table": declared.table_sha256 if declared else "",
        "Images of the answers": f"{len(known):,} different ones; SHA-256 of their sorted digests {digest}"
        if known
        else "",
        "Images without a digest": f"{images.count(''):,}" if "" in images else "",
        "Selected": selected,
        "By": " ".join(report.selection.how),
        "Signature": ", ".join(f"{key} {value}" for key, value in recorded.signature.items()),
    }
    shown = [*((key, value) for key, value in rows.items() if value)]
    shown += [(fact.name, fact.value) for fact in facts.get(f"Benchmark {name}", ()) if fact.name != "Data"]
    yield _table(benchmark.title or name, shown)


def _prompts(report: Report, facts: Mapping[str, Sequence[NamedFact]]) -> Iterator[Block]:
    """Yield names and digests of templates, own templates, and of public data the first prompt of each form."""
    names = tuple(
        (name, technique, prompt)
        for name, recorded in report.run.benchmarks.items()
        for technique, prompts in recorded.prompts.items()
        for prompt in (recorded.asked_by or prompts.split("+"))
    )
    if names:
        yield Table("Templates by name and digest", texts("benchmark", "technique", "template"), names)
    yield from (_of_facts(title, rows) for title, rows in facts.items() if title.startswith("Template "))
    with closing(KeptPrompts(report.folder)) as kept:
        forms = [form for part in report.parts for form in _forms(part, kept)]
    columns = (*texts("part"), *numbers("answers"), *texts("SHA-256 of the first prompt"))
    if forms:
        rows = tuple((form.part, form.answers, form.digest) for form in forms)
        yield Table("Prompts as they were sent, by their form, without images", columns, rows)
    if any(not part.benchmark.public for part in report.parts):
        yield f"The texts sent about data that are not declared public are not shown here; {PROMPTS} has them."
    yield from (VerbatimText(f"{form.part}: prompt {form.digest[:12]}", form.text) for form in forms if form.text)


@dataclass(slots=True)
class _SentForm:
    """Prompts that differ by question and options alone: the first one, and the number of answers to them."""

    part: str
    digest: str
    text: str
    answers: int = 0


def _forms(part: Part, kept: KeptPrompts) -> list[_SentForm]:
    """Return the forms of a part's prompts, most frequent first; texts of public data alone, and of MOST_SENT forms."""
    forms = dict[object, _SentForm]()
    for result in part.results:
        prompt = kept.get(result.prompt)
        text = "" if prompt is None or not part.benchmark.public else prompt.text
        item = rotation.as_shown(result.item, result.variant)
        form = pieces_of(text, item.question, [*item.options.values()])
        system = prompt.system if prompt is not None and text else ""
        whole = f"{system}\n\n{text}" if system else text
        found = forms.setdefault((system, form), _SentForm(part.name, result.prompt, whole[:MOST_TEXT]))
        found.answers += 1
    ranked = sorted(forms.values(), key=lambda form: -form.answers)
    if left := ranked[MOST_SENT:]:
        more = _SentForm(part.name, f"{len(left):,} further forms, in {PROMPTS}", "", sum(f.answers for f in left))
        return [*ranked[:MOST_SENT], more]
    return ranked


def _rules(report: Report, facts: Mapping[str, Sequence[NamedFact]]) -> Iterator[Block]:
    run, stored = report.run, report.run.gate
    rows = tuple(
        (part.name, measure.name, meaning_of(part, measure.name), "yes" if measure in part.headline else "")
        for part in report.parts
        for measure in part.measures
        if not measure.slice
    )
    yield f"Recorded by the program in run.json; the run started at {run.started or NOT_KNOWN}."
    settings = {
        "Edition of the reading rules": f"{run.reading_rules}",
        "Kinds of other kits": ", ".join(run.metric_like),
    }
    asking = [(fact.name, fact.value) for fact in facts.get("Asking", ()) if fact.name != "Truncated answers"]
    yield _table("Asking and reading", [*asking, *((name, value) for name, value in settings.items() if value)])
    if rows:
        yield Table("Measures", texts("part", "measure", "definition", "headline"), rows)
    yield tuple(
        f"{name}: {fixed_slices(run, name) or 'no slice was fixed before the run: all are exploratory'}."
        for name in run.benchmarks
    )
    if "Judge" in facts:
        yield _of_facts("Judge", facts["Judge"])
    if stored is None:
        yield "No margin and no floor was stored before the first answer."
        return
    against = [(f"Baseline {baseline.name}", f"digest {baseline.digest}") for baseline in stored.baselines]
    given = [(fact.name, fact.value) for fact in leaves(stored.rules) if fact.value]
    yield _table("Gate, stored in run.json before the first answer", [("Digest", stored.digest), *given, *against])


def _results(report: Report) -> Iterator[Block]:
    yield tuple(sentence.text for sentence in sentences(report))
    tables = [headline(report), image_gain(report), *([spread(report)] if adds(report) else []), components(report)]
    yield from (table for table in (*tables, *sliced_tables(report)) if table.rows)
    yield "Intervals are those of the program's other reports, at 95 %, by independent groups of questions."


def _comparison(report: Report, beside: Beside) -> Iterator[Block]:
    decided, stored = report.gate, report.run.gate
    if decided is not None:
        verdict = decided.verdict
        yield f"Gate: {gate.headline(decided, exits=False)}"
        yield (*verdict.blockers, *gate.quiet(verdict), *gate.remarks(decided))
        yield gate.table(gate.ranked(verdict), f"Rules, digest {verdict.rules}")
        if stored is None or stored.digest != verdict.rules:
            yield "These rules are not those that were stored before the first answer."
    for section in beside.compared:
        yield f"{section.title}:"
        yield section.notes
        yield from section.tables


def _readers(beside: Beside) -> Iterator[Block]:
    for report in beside.reports:
        if report.run.config.backend == PEOPLE:
            yield replace(headline(report), title=f"{report.title}: human readers")
    yield from beside.readers


def _errors(report: Report) -> Iterator[Block]:
    yield outcomes(report)
    yield "Answers that could not be read count as wrong, and so do refusals and abstentions, unless a measure says else."
    yield tuple(errors.lines(report))
    if report.errors is not None:
        tables = (errors.table(report), errors.agreement(report.errors), *errors.dimension_tables(report))
        yield from (table for table in tables if table.rows)


def _versions(report: Report, facts: Mapping[str, Sequence[NamedFact]]) -> Iterator[Block]:
    yield from (_of_facts(title, facts[title]) for title in ("Versions", "Machine and time") if title in facts)
    columns = (
        *texts("session", "started", "finished"),
        *numbers("asked", "reused"),
        *texts("commit", "hardware", "scored again"),
    )
    rows = tuple(
        (
            *(each.session, each.started, each.finished or "did not end", each.asked, each.reused),
            *(each.commit or NOT_KNOWN, each.hardware or NOT_KNOWN, "" if each.rescored is None else "yes"),
        )
        for each in report.run.sessions
    )
    if rows:
        yield Table("Sessions", columns, rows)


def _limits(report: Report, beside: Beside) -> Iterator[str]:
    """Yield the limits of the numbers, each from a fact of the folder."""
    run = report.run
    yield from (note.text for note in noted(report) if note.warns)
    for part in _firsts(report):
        name = part.benchmark.name
        if part.benchmark.public and not (part.benchmark.origin and part.benchmark.origin.synthetic):
            yield f"{name} is declared public: the model may have been trained on its questions, images or answers."
        yield f"{name}: the folder records no search for its questions in training data (medvqa leaks)."
    if run.protocol.samples is None and not run.merged:
        yield "Each question was asked once (no samples): how much the model's answers vary is not measured."
    if not run.prompts:
        yield "Each question was asked in one wording: how much the numbers vary with the prompt is not measured."
    if any(result.judgement is not None for part in report.parts for result in part.results):
        yield "A judge scored answers; the folder records no agreement of its scores with people's (medvqa agreement)."
    if run.model.fingerprint is None:
        yield "The model has no fingerprint: the record does not identify its weights."
    elif not run.model.unknown.get("digests"):
        yield "No digests of the model's files are recorded."
    if run.replays:
        yield "Recorded answers were replayed: which model gave them, and how it was asked, is known by the recording alone."
    elif not (run.engine.endpoints or run.served_by):
        yield "The folder does not record to which machines the questions were sent."
    if run.gate is None:
        yield "No margin, floor or sample size was fixed in the folder before the first answer."
    if again := [session.session for session in run.sessions if session.rescored is not None]:
        yield f"The answers were scored again after they were given (session {', '.join(again)})."
    if any(session.commit.endswith("-dirty") for session in run.sessions):
        yield "A session ran in a folder with changes that its commit does not have."
    if report.gate is None:
        yield "There is no verdict of a gate on these results."
    if not any(each.run.config.backend == PEOPLE for each in beside.reports):
        yield "No human readers stand beside the model in this record."


def _served(item: ReportingItem, sections: Sequence[RecordSection], form: RecordForm) -> list[str]:
    """The titles of the sections that serve an item, and the stated fields of the form."""
    titles = {section.key: section.title for section in sections}
    stated = {f"form.{name}": f"form: {label(name)}" for name, text in form.stated.items() if text}
    return [shown for place in item.places if (shown := titles.get(place) or stated.get(place))]


def _with_items(section: RecordSection, form: RecordForm) -> RecordSection:
    """Return a section that ends with the numbers of the items that it serves."""

    def serves(item: ReportingItem) -> bool:
        places = item.places if section.key != "form" else [p for p in item.places if form.stated.get(p[5:])]
        return section.key in (place.partition(".")[0] for place in places)

    served = {guideline: [item.number for item in guideline.items if serves(item)] for guideline in GUIDELINES}
    lines = [f"{guideline.name} {', '.join(found)}" for guideline, found in served.items() if found]
    if not lines:
        return section
    return replace(section, blocks=(*section.blocks, f"Has something for: {'; '.join(lines)}."))


def _items(sections: Sequence[RecordSection], form: RecordForm) -> Iterator[Block]:
    yield (
        "The wording is ours and short; read the guidelines themselves. Whether what is here suffices for an item is for "
        "its reader to judge."
    )
    for guideline in GUIDELINES:
        yield _covered(guideline, sections, form)


def _covered(guideline: Guideline, sections: Sequence[RecordSection], form: RecordForm) -> Table:
    rows = []
    for item in guideline.items:
        absent = (
            NOT_COVERED if not item.places else NOT_STATED if item.places[0].startswith("form") else "not in this run"
        )
        rows.append((item.number, item.wording, "; ".join(_served(item, sections, form)) or absent))
    return Table(f"{guideline.name}: {guideline.source}", texts("item", "subject", "in this record"), tuple(rows))
