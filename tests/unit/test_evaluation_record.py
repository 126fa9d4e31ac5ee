"""The evaluation record of a run: reporting items, the form, what stands in it, and limits that follow from facts."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medvqa import report
from medvqa.items import UsageError, replace
from medvqa.protocols.prompts import digest
from medvqa.report import comparison, drawn, evaluation_record, tables
from medvqa.report.comparison import Section
from medvqa.report.evaluation_record import NO_CLAIM, guidelines, read_form, template
from support import pages

PUBLIC = {name: replace(each, origin=None) for name, each in pages.PHANTOM.items()}
PRIVATE = {name: replace(each, public=False) for name, each in PUBLIC.items()}


def record(folder: Path, known: Mapping[str, Any] = PUBLIC, **stated: str) -> list[Section]:
    return evaluation_record.of_run(report.build(folder, known), read_form(None) | stated)


def key(each: Section) -> str:
    return each.title.split()[0].lower().rstrip(":")


def section(made: list[Section], name: str) -> Section:
    return next(each for each in made[1:] if key(each) == name)


def text(made: list[Section], *names: str) -> str:
    """The Markdown of a record, or of some of its sections, without escapes."""
    shown = [made[0], *(each for each in made[1:] if not names or key(each) in names)]
    return re.sub(r"\\(.)", r"\1", comparison.as_markdown(shown))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pages.write(tmp_path_factory.mktemp("reports") / "first", pages.guesses())


# ---- reporting items -------------------------------------------------------------------------------------------------


def test_each_item_has_a_number_of_its_own_and_places_that_exist(run: Path) -> None:
    known = {key(each) for each in record(run)[1:]} | {"comparison", "readers", "prompts"}
    known |= {f"form.{name}" for name in read_form(None)}
    assert [(each.name, len(each.items)) for each in guidelines()] == [("STARD-AI", 48), ("TRIPOD-LLM", 49)]
    for guideline, main in zip(guidelines(), (40, 19), strict=True):
        numbers = [number for number, *_ in guideline.items]
        assert len(set(numbers)) == len(numbers)
        assert list(dict.fromkeys(int(re.sub(r"\D", "", number)) for number in numbers)) == [*range(1, main + 1)]
        assert all(subject for _, subject, *_ in guideline.items)
        assert {place for _, _, *places in guideline.items for place in places} <= known


def test_an_item_is_served_where_the_record_has_something_for_it(run: Path) -> None:
    empty, stated = record(run), record(run, ethics="EK 12/2026")

    def served(made: list[Section]) -> dict[str, str]:
        stard, _ = section(made, "reporting").tables
        return {number: places for number, _, places in stard.texts}

    assert (served(empty)["6"], served(stated)["6"]) == ("nothing in this record", "Form: ethics")
    assert (served(empty)["31"], served(empty)["32"]) == ("Results", "not covered")
    assert (served(empty)["15a"], served(empty)["17a"]) == ("Model", "nothing in this record"), "no prompt is kept"
    assert [served(empty)[number] for number in ("11", "13", "18")] == [*["nothing in this record"] * 2, "not covered"]


# ---- the form --------------------------------------------------------------------------------------------------------


def test_the_template_asks_for_each_field_and_states_none(tmp_path: Path) -> None:
    file = tmp_path / "form.toml"
    file.write_text(template())
    assert read_form(file) == dict.fromkeys(read_form(None), "")
    asked = re.findall(r'^# (.+)\n(\w+) = ""$', template(), re.MULTILINE)
    assert [name for _, name in asked] == [*read_form(None)]
    file.write_text("consent = ' '")
    assert read_form(file)["consent"] == ""
    file.write_text(template().replace('operator = ""', 'operator = """\nDr. A\nDr. B"""'))
    assert read_form(file)["operator"] == "Dr. A\nDr. B"


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ('intended_us = "x"', "line 1: no key 'intended_us'"),
        ('intended_us = "x"', "Did you mean 'intended_use'?"),
        ("approved_on = 2026-11-30", "line 1: Expected `str`, got `date`"),
        ("[operator]\nname = 1", "Expected `str`, got `object`"),
        ("operator = ", "not TOML"),
        ('operator = "\x1b[31m"', "not TOML"),
    ],
)
def test_a_wrong_form_is_refused_with_its_line(content: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "form.toml").write_text(content)
    with pytest.raises(UsageError, match=re.escape(wrong)) as caught:
        read_form(tmp_path / "form.toml")
    assert str(caught.value).isprintable()


def test_unfilled_fields_are_counted_and_shown_as_not_stated(run: Path) -> None:
    number = len(read_form(None))
    made = record(run, operator="Dr. A")
    assert made[0].notes[-2:] == (f"{number - 1} of {number} fields of the form are not stated.", NO_CLAIM)
    assert text(made, "form").count("| not stated |") == number - 1
    assert "| Operator | Dr. A |" in text(made, "form")


# ---- content ---------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_other_reports(run: Path) -> None:
    built = report.build(run, PUBLIC)
    made = record(run)
    first, *sliced = section(made, "results").tables
    assert first.rows == tables.headline(built).rows
    assert sliced == list(tables.sliced_tables(built))
    assert section(made, "errors").tables[0].rows == tables.outcomes(built).rows
    report.write(built)
    digest = json.loads((run / "metrics.json").read_text())["results"]["digest"]
    assert f"| SHA-256 of the results, as for metrics.json | {digest} |" in text(made, "basis")


def test_the_same_folder_gives_the_same_bytes_wherever_it_lies(run: Path, tmp_path: Path) -> None:
    moved = pages.write(tmp_path / "elsewhere" / "first", pages.guesses())
    for form in (drawn.page, comparison.as_markdown):
        assert form(record(run)) == form(record(run)) == form(record(moved))
        assert str(tmp_path) not in form(record(moved))


def test_an_unfinished_run_says_so_first(tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "killed", pages.guesses(), finished="", missing=["x/1"])
    made = record(folder)
    assert made[0].notes[0].startswith("unfinished: ")
    assert "| Every selected question has a result | no |" in text(made, "basis")
    for content in (text(made), pages.Page(drawn.page(made)).text):
        assert content.index("unfinished: ") < content.index("not stated") < content.index(NO_CLAIM[:40])


def test_data_without_a_result_are_in_the_record(tmp_path: Path) -> None:
    results = [each for each in pages.guesses() if each.item.benchmark == "phantom-gmai-mmbench"]
    about = {"phantom-gmai-mmbench": {"items": 143}, "phantom-mediconfusion": {"items": 72, "data_sha256": "ab" * 32}}
    data = section(record(pages.write(tmp_path / "killed", results, benchmarks=about)), "data")
    assert [table.title for table in data.tables] == [*about]
    assert ("Data", f"SHA-256 {'ab' * 32}") in data.tables[1].rows
    assert ("Declared public", "not recorded") in data.tables[1].rows


def test_rules_and_verdict_of_a_gate_stand_with_their_digests(tmp_path: Path) -> None:
    folder = pages.gated(tmp_path)
    made = record(folder)
    shown = text(made, "comparison")
    assert made[0].notes[0].startswith("Gate: FAIL against main")
    assert re.search(r"These rules are not the ones that were stored before", shown)
    assert "lost, " not in shown
    verdict = json.loads((folder / "gate.json").read_text())["verdict"]
    stored = {
        "digest": verdict["rules"],
        "rules": {"margin": 0.0, "slices": [], "floor": [{"at_least": 0.9}]},
        "baselines": [{"name": "main", "path": None, "digest": "f00"}],
    }
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(about | {"gate": stored}))
    kept = record(folder)
    assert "are not the ones" not in text(kept, "comparison")
    assert "| margin | 0.0 |\n| floor | {'at_least': 0.9} |\n" in text(kept, "rules")
    assert f"| Digest of the rules | {verdict['rules']} |\n" in text(kept, "rules")
    assert "| Digest of baseline main | f00 |" in text(kept, "rules")


DIGESTS = {"name": "m", "fingerprint": "f", "digests": {"weights": "00"}}
SESSION = {"session": "s1", "started": "2026-01-01"}
FACTS = [
    ("has no fingerprint", {"model": {"name": "m"}}, {"model": DIGESTS}),
    ("No digests of the model's files", {}, {"model": DIGESTS}),
    ("has one answer", {}, {"repeat": 3}),
    ("has one answer", {}, {"protocol": {"rotations": 2}}),
    ("in one wording", {}, {"benchmarks": {"phantom-gmai-mmbench": {"asked_by": ["a", "b"]}}}),
    ("scored again after they were given (session s1)", {"sessions": [SESSION | {"rescored": {}}]}, {}),
    ("People or a recording answered", {"config": {"backend": "replay"}}, {}),
    ("People's answers are not in", {}, {"readers": {"codes": ["R1"]}}),
    ("People or a recording answered", {"readers": {"codes": ["R1"]}}, {}),
    ("weights are not", {"model": {"name": "m"}}, {"model": {"name": "m"}, "readers": {"codes": ["R1"]}}),
    ("in one wording", {}, {"config": {"backend": "replay"}}),
    ("in one wording", {}, {"readers": {"codes": ["R1"]}}),
    ("No gate was stored before the first answer", {}, {"gate": {"rules": {}, "baselines": []}}),
]


@pytest.mark.parametrize(
    ("line", "holds", "not_so"), FACTS, ids=[f"{place} {line}" for place, (line, *_) in enumerate(FACTS)]
)
def test_each_limit_follows_from_a_fact_of_the_folder(
    line: str, holds: Mapping[str, Any], not_so: Mapping[str, Any], tmp_path: Path
) -> None:
    results = pages.guesses()[:20]
    shown = [
        line in text(record(pages.write(tmp_path / str(place), results, **about)), "limits")
        for place, about in enumerate((holds, not_so))
    ]
    assert shown == [True, False]


def test_limits_of_public_data_and_of_a_judge(run: Path, tmp_path: Path) -> None:
    line = "Public, so that the model may have been trained on them: phantom-gmai-mmbench"
    assert line in text(record(run), "limits")
    assert "Public, so" not in text(record(run, pages.PHANTOM), "limits"), "a program drew the images"
    assert "Public, so" not in text(record(run, PRIVATE), "limits")
    judged = text(record(pages.write(tmp_path / "judged", pages.judged())), "limits")
    assert ("A judge scored" in judged, "A judge scored" in text(record(run), "limits")) == (True, False)


def test_images_are_counted_once_for_a_question_of_several_samples(run: Path, tmp_path: Path) -> None:
    once = [each for each in pages.guesses() if each.item.images][:20]
    several = pages.write(tmp_path / "several", pages.repeated(once, 3), repeat=3)
    counted = [
        re.search(r"Images of the questions \| (.+?) \|", text(record(folder), "data"))
        for folder in (several, pages.write(tmp_path / "once", once))
    ]
    assert counted[0] is not None
    assert counted[1] is not None
    assert counted[0][1] == counted[1][1]


# ---- prompts, private and hostile ------------------------------------------------------------------------------------


ITEM_17A = "| 17a | what the index test knew of clinical information and of the reference | {} |"


def prompted(folder: Path, *, public: bool = True) -> Path:
    results = [each for each in pages.guesses() if each.item.kind == "single_choice"]
    prompts = [pages.Prompt(f"Look:\n{each.item.question}", system="Be brief.") for each in results]
    results = [replace(each, prompt=digest(prompt)) for each, prompt in zip(results, prompts, strict=True)]
    pages.keep_prompts(pages.write(folder, results), results, prompts, public=public)
    return folder


def test_sent_prompts_are_counted_by_form_and_the_first_of_each_is_shown(tmp_path: Path) -> None:
    folder = prompted(tmp_path / "first")
    shown = text(record(folder), "prompts")
    for part in report.build(folder, PUBLIC).parts:
        if part.results:
            first = part.results[0]
            question = first.item.question
            row = f"| {part.name} | single choice |  | {len(part.results)} | {first.prompt[:12]} |"
            assert f"{row} Be brief. ⏎ Look: ⏎ {question} |" in shown
    assert ITEM_17A.format("Prompts") in text(record(folder), "reporting")


@pytest.mark.parametrize("about", [{"config": {"backend": "replay"}}, {"readers": {"codes": ["R1"]}}])
def test_prompts_are_not_shown_as_sent_where_no_model_got_them(about: Mapping[str, Any], tmp_path: Path) -> None:
    folder = prompted(tmp_path / "first")
    (folder / "run.json").write_text(json.dumps(json.loads((folder / "run.json").read_text()) | about))
    made = record(folder)
    assert "as they were sent" not in text(made)
    assert ITEM_17A.format("nothing in this record") in text(made, "reporting")


def test_texts_about_private_data_are_not_shown(tmp_path: Path) -> None:
    folder = prompted(tmp_path / "first", public=False)
    made = record(folder, PRIVATE)
    told = text(made) + pages.Page(drawn.page(made)).text
    for result in report.build(folder, PRIVATE).parts[0].results:
        assert result.item.question not in told
        assert result.prompt not in told
    assert "Texts sent about data that are not declared public are not shown" in told
    assert "Declared public | no |" in told
    assert ITEM_17A.format("nothing in this record") in told


def test_hostile_text_is_text_in_both_forms(tmp_path: Path) -> None:
    benchmark, results = pages.hostile()
    about = {
        "model": {"name": pages.HOSTILE[0], "fingerprint": pages.HOSTILE[3], "digests": {pages.HOSTILE[1]: "0"}},
        "versions": {pages.HOSTILE[2]: pages.HOSTILE[4]},
        "sessions": [SESSION | {"commit": pages.HOSTILE[5], "hardware": pages.HOSTILE[9]}],
        "benchmarks": {"strange": {"prompts": {"mc": pages.HOSTILE[5]}}},
    }
    stated = dict(zip(read_form(None), pages.HOSTILE, strict=False))
    folder = pages.write(tmp_path / "strange", results, **about)
    made = record(folder, {"strange": benchmark}, **stated)
    page = pages.Page(drawn.page(made))
    names = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "ul", "li"}
    names |= {"table", "thead", "tbody", "tr", "th", "td"}
    assert {each.tag.removeprefix("/") for each in page.elements} == names
    assert {name for each in page.elements for name in each.attributes} <= {
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "align",
    }
    assert all(character.isprintable() or character == "\n" for character in drawn.page(made))
    assert pages.HOSTILE[0] in page.text
    markdown = comparison.as_markdown(made)
    assert all(character.isprintable() or character == "\n" for character in markdown)
    assert not re.search(r"<script|<img|(?<!\\)\]\(|https://", markdown)


def test_the_page_may_load_and_run_nothing(run: Path) -> None:
    page = pages.Page(drawn.page(record(run)))
    (policy,) = page.all("meta", http_equiv="Content-Security-Policy")
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]+'; base-uri 'none'; form-action 'none'",
        policy.attributes["content"],
    )
    assert not page.all("script")
    assert page.elements[0].tag == "html"
