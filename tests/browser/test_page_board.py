"""The summary of a comparison of many runs in Chromium: each number is that of `medvqa compare --json`."""

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from medvqa.cli import main
from support import pages
from support.tabs import Tab, until

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.slow

GMAI, CONFUSION, LESION = "phantom-gmai-mmbench", "phantom-mediconfusion", "phantom-medlesionvqa"
FEW = 10
SIGNS = {"better": "▲", "worse": "▼", "": ""}


@pytest.fixture
def committee(compared_runs: Callable[[str], pages.ComparedRuns]) -> pages.ComparedRuns:
    """Five models, and two of them without the images."""
    return compared_runs("committee")


def measures_of(compared: pages.ComparedRuns) -> Mapping[tuple[str, ...], Mapping[str, Any]]:
    """The headline measures of `medvqa compare`: (new, baseline, benchmark, measure, slice) -> its numbers."""
    return {
        (paired["new"], paired["baseline"], m["benchmark"], m["name"], *(f"{k}={v}" for k, v in m["slice"].items())): m
        for paired in compared.said["comparisons"]
        for m in paired["measures"]
        if m["headline"] and len(m["slice"]) <= 1
    }


def way(measure: Mapping[str, Any]) -> str:
    """The sign of a difference: none if the adjusted p is above 0.05, or there are few units."""
    if measure["adjusted"] is None or measure["adjusted"] > 0.05 or measure["units"] < FEW:
        return ""
    return "better" if (measure["difference"] > 0) == (measure["better"] == "higher") else "worse"


def number(text: str | None) -> Any:
    return pytest.approx(float(text), abs=1e-12) if text else None


def test_the_first_screen_has_the_result_and_the_leaderboard(tab: Tab, committee: pages.ComparedRuns) -> None:
    tab.page.set_viewport_size({"width": 1280, "height": 800})
    page = tab.open(committee.page)
    assert page.locator(".leaderboard tbody tr").last.bounding_box()["y"] < 780
    known = measures_of(committee)
    ranked = {
        (row["name"], ranking["benchmark"], ranking["name"]): row
        for ranking in committee.said["rankings"]
        for row in ranking["runs"]
    }
    benchmarks = {benchmark for _, benchmark, _ in ranked}
    for chosen in ("", "macro_score"):
        page.locator("#ranking select").select_option(chosen)
        fields = page.locator(".placed").all()
        assert len(fields) == 5 * len(benchmarks)
        for field in fields:
            run, benchmark, measure = (field.get_attribute(f"data-{n}") for n in ("run", "benchmark", "measure"))
            row = ranked[run, benchmark, measure]
            assert row["value"] == number(field.locator("data[data-number=value]").get_attribute("value"))
            best, worst = row["best"], row["worst"]
            text = field.inner_text()
            assert f"rank {best}\n" in f"{text}\n".replace(" ", "\n", 2) or f"rank {best} to {worst}" in text
            if run == "model-a":
                assert field.locator("[data-number=difference]").count() == 0
                continue
            compared = known[run, "model-a", benchmark, measure]
            shown = field.locator("data[data-number=difference]")
            assert compared["difference"] == number(shown.get_attribute("value"))
            assert [sign for sign in "▲▼" if sign in text] == [*filter(None, [SIGNS[way(compared)]])]
    first = [ranking for ranking in committee.said["rankings"] if ranking["name"] in ("accuracy", "set_accuracy")]
    for ranking in first:
        assert ranking["runs"][0]["name"] in page.locator(".vs-said").inner_text()
    said = page.locator("[data-leaders]").inner_text()
    leading = {
        run: sum(
            ranked[run, *of]["best"] == 1
            for of in ((GMAI, "accuracy"), (CONFUSION, "set_accuracy"), (LESION, "mean_score"))
        )
        for run in (row["name"] for row in first[0]["runs"])
    }
    for run, times in leading.items():
        assert (run in said) == (times == max(leading.values()))
    assert f"the {committee.said['tests']} differences of all pairs" in page.locator("#ranking").inner_text()


def test_runs_without_the_image_stand_apart_with_their_gap(tab: Tab, committee: pages.ComparedRuns) -> None:
    page = tab.open(committee.page)
    apart = page.locator("#apart li")
    assert [text.split(":")[0] for text in apart.all_inner_texts()] == ["model-a-blank", "model-b-blank"]
    assert "the image: blank in model-a-blank, shown in" in apart.first.inner_text()
    effects = page.locator("#effects")
    assert "Does it look at the picture?" in effects.inner_text()
    known = measures_of(committee)
    rows = effects.locator("tbody tr[data-measure]").all()
    assert len(rows) == 6
    for row in rows:
        key = tuple(row.get_attribute(f"data-{n}") for n in ("new", "baseline", "benchmark", "measure"))
        for name in ("baseline", "new", "difference", "gained", "lost"):
            value = row.locator(f"data[data-number={name}]").get_attribute("value")
            assert known[key][name] == number(value), (key, name)
        assert f"{SIGNS[way(known[key])]} {way(known[key])}".strip() in row.inner_text().replace("\xa0", " ")
    lost = rows[0].locator("a:has(data[data-number=lost])")
    number_lost = int(lost.locator("data").get_attribute("value"))
    lost.click()
    assert int(page.locator("#units-count").get_attribute("data-units")) == number_lost


FIELDS = """() => [...document.querySelectorAll(".runs-by-slice td data")].map(each => ({
    ...each.dataset, value: each.value, text: each.closest("td").innerText, shade: each.closest("td").className,
}))"""


def test_slices_by_run_are_those_of_the_pairs_and_lead_to_their_questions(
    tab: Tab, committee: pages.ComparedRuns
) -> None:
    page = tab.open(committee.page)
    known = measures_of(committee)
    coloured = set()
    scales = page.locator("#slices select").first.locator("option").count()
    for scale in range(scales):
        measure, dimension = page.locator("#slices select").all()
        measure.select_option(index=scale)
        for place in range(dimension.locator("option").count()):
            dimension.select_option(index=place)
            fields = page.evaluate(FIELDS)
            assert fields
            for field in fields:
                own = field["run"] == "model-a"
                key = ("model-b" if own else field["run"], "model-a", field["benchmark"], field["measure"])
                wanted = known[*key, field["slice"]]
                assert wanted["baseline" if own else "new"] == number(field["value"]), field
                # Confusion is over pairs of questions with two scored answers that are equal: each run has its own.
                units = int(field["n"])
                assert units <= wanted["units"] if field["measure"] == "confusion" else units == wanted["units"]
                sign = "" if own or units < FEW else way(wanted)
                assert field["sure"] == sign
                assert [each for each in "▲▼" if each in field["text"]] == [*filter(None, [SIGNS[sign]])]
                assert ("w-" in field["shade"]) == (sign != "")
                if not own:
                    assert wanted["difference"] == number(field["difference"])
                    assert wanted["adjusted"] == number(field["adjusted"])
                coloured.add(sign)
    assert {"", "better"} <= coloured
    address = page.evaluate("location.hash")
    assert "dimension=" in address
    title = page.locator("#slices [role=group]").get_attribute("aria-label")
    page.goto("about:blank")
    page = tab.open(committee.page, f"#summary?b={GMAI}&measure=accuracy&dimension=modality")
    assert page.locator("#slices [role=group]").get_attribute("aria-label") != title
    field = page.locator("td:has(data[data-slice='modality=ct'][data-run=model-c]) a")
    asked = int(field.locator("data").get_attribute("data-n"))
    field.click()
    assert page.locator(".query-input").input_value() == "modality:ct"
    assert int(page.locator("#units-count").get_attribute("data-units")) >= asked
    chosen = page.get_by_label("New run").input_value(), page.get_by_label("Baseline").input_value()
    assert chosen == ("2", "0")


def test_any_two_runs_are_chosen_and_pairs_without_slices_say_how_to_get_them(
    tab: Tab, committee: pages.ComparedRuns, tmp_path: Path
) -> None:
    page = tab.open(committee.page)
    section = page.locator("#differences")
    assert section.locator("h2").inner_text() == "Differences: model-b against model-a"
    new, baseline = section.locator("select").all()
    new.select_option("3")
    assert section.locator("h2").inner_text() == "Differences: model-d against model-a"
    baseline.select_option("2")
    assert "run=model-d&against=model-c" in page.evaluate("location.hash")
    assert "medvqa report" in section.inner_text()
    until(page, "document.querySelector('#differences data[data-number=lost]') !== null")
    # All runs of the board have scored the same questions here, but for two: those that the last run lacks.
    wanted = {
        (ranking["benchmark"], ranking["name"]): (by_name["model-d"] - by_name["model-c"], adjusted)
        for ranking in committee.said["rankings"]
        for by_name in [{row["name"]: row["value"] for row in ranking["runs"]}]
        for adjusted in [next(p["adjusted"] for p in ranking["pairs"] if set(p["runs"]) == {"model-c", "model-d"})]
    }
    rows = section.locator("tbody tr").all()
    assert len(rows) == len(wanted)
    for row in rows:
        difference, adjusted = wanted[row.get_attribute("data-benchmark"), row.get_attribute("data-measure")]
        shown = row.locator("data[data-number=difference]").get_attribute("value")
        assert float(shown) == pytest.approx(difference, abs=1e-9)
        assert adjusted == number(row.locator("data[data-number=adjusted]").get_attribute("value"))
        assert (adjusted <= 0.05) == any(sign in row.inner_text() for sign in "▲▼")
    before = [
        row.locator("data[data-number=gained]").get_attribute("value") for row in rows if row.locator("a data").count()
    ]
    section.get_by_role("button", name="Swap").click()
    until(page, "document.querySelector('#differences h2').innerText === 'Differences: model-c against model-d'")
    rows = section.locator("tbody tr").all()
    assert before == [
        row.locator("data[data-number=lost]").get_attribute("value") for row in rows if row.locator("a data").count()
    ]


def printed(page: Any, folder: Path) -> list[str]:
    """The text of each printed page."""
    if not shutil.which("pdftotext"):
        pytest.skip("pdftotext is not installed: apt-get install poppler-utils")
    file = folder / "page.pdf"
    file.write_bytes(page.pdf(format="A4", print_background=True, prefer_css_page_size=True))
    text = subprocess.run(["pdftotext", "-layout", str(file), "-"], check=True, capture_output=True).stdout.decode()
    return text.split("\f")[:-1]


def test_a_committee_gets_one_to_three_pages(tab: Tab, committee: pages.ComparedRuns, tmp_path: Path) -> None:
    page = tab.open(committee.page)
    said = page.locator(".vs-said li").all_inner_texts()
    folds = page.locator("main details")
    before = folds.evaluate_all("all => all.map(each => each.open)")
    sheets = printed(page, tmp_path)
    assert 1 <= len(sheets) <= 3
    text = "".join("".join(sheets).split())

    def on_paper(words: str) -> bool:
        return "".join(words.split()) in text  # Lines break within names.

    for words in (
        "Comparison: 6 runs against model-a",
        "model-a (baseline)",
        "Runs of 2026-01-02; printed on 20",
        *said,
    ):
        assert on_paper(words)
    for section in ("Result", "Leaderboard", "Does it look at the picture?", "Slices by run", "Set-ups of 7 runs"):
        assert on_paper(section)
    assert on_paper("without an answer in model-e"), "folded notes that limit the result are printed"
    assert on_paper(f"the {committee.said['tests']} differences of all pairs")
    assert not on_paper("Differences: model-b")
    assert page.locator("main img").count() == 0
    assert folds.evaluate_all("all => all.map(each => each.open)") == before


def test_runs_that_are_not_comparable_with_the_first_are_named_with_the_reason(tab: Tab, tmp_path: Path) -> None:
    runs = pages.committee(tmp_path / "reports")[:6]
    order = [runs[5], *runs[:5]]  # The first model without the images first: nothing is on a board with it but itself.
    assert main(["report", *map(str, order), "-o", str(tmp_path / "page.html")]) == 0
    page = tab.open(tmp_path / "page.html")
    said = page.locator("#result").inner_text()
    assert "Not on the leaderboard, so not ranked: model-b, model-c, model-d, model-e" in said
    assert "each other run." not in said
    assert page.locator("#apart li").count() == 4
    # The signs of slices are those of the pair with the first run.
    assert quote("model-a") in page.locator("#differences").get_attribute("data-new")
