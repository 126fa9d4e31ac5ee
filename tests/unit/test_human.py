"""The tables of readers, and the agreement of their choices."""

from __future__ import annotations

import warnings
from pathlib import Path

import krippendorff
import msgspec
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from medvqa import report
from medvqa.backend import Readers
from medvqa.backends.human import Human
from medvqa.benchmarks import pytest_medvqa_benchmarks as shipped
from medvqa.cli import main
from medvqa.figures import Table
from medvqa.items import Answer, AnswerError, DataError, Item, Prompt, ReaderNote, Result, Score, UsageError, replace
from medvqa.judging import coefficients
from medvqa.readings import reading_file
from medvqa.readings.reading_file import ReaderAnswer, ReaderStudy
from medvqa.records import run_folder
from medvqa.report import reader_tables
from medvqa.scoring import of_people
from medvqa.statistics import readers as statistics
from medvqa.tables import sheets

PAIRS = "phantom-mediconfusion"


def asked(item: str, sample: int, benchmark: str = "bench") -> Prompt:
    return Prompt("?", benchmark=benchmark, item=item, sample=sample)


@pytest.fixture
def human(tmp_path: Path) -> Human:
    path = tmp_path / "r.csv"
    rows = [["1", "R2", "A", "", "4"], ["1", "R10", "B", "sure?", ""], ["2", "R10", "", "", ""]]
    sheets.write(path, ["id", "reader", "response", "comment", "seconds"], rows)
    return Human(str(path))


def test_samples_are_readers_by_their_sorted_codes(human: Human) -> None:
    read = (frozenset({("", "1")}), frozenset({("", "1")}))
    assert human.readers() == Readers(codes=("R10", "R2"), read=read)
    assert human.samples() == 2
    noted = ReaderNote(comment="sure?")
    second = Answer("A", seconds=4.0, noted=ReaderNote())
    assert human.generate([asked("1", 1), asked("1", 2)]) == [Answer("B", noted=noted), second]
    for none in (asked("2", 1), asked("1", 3), asked("1", 0)):
        (answer,) = human.generate([none])
        assert isinstance(answer, AnswerError)


def test_the_export_of_a_page_is_imported_first(tmp_path: Path) -> None:
    """It has codes in place of ids, which no benchmark knows."""
    study = reading_file.ReaderStudy(name="night", plan="ab" * 32, readers=("R1",), reader="R1")
    export = tmp_path / "R1.jsonl"
    lines = [reading_file.ReaderAnswer("R1", "bench", "q-1", response="A")]
    export.write_bytes(reading_file.encode(study, lines))
    with pytest.raises(DataError, match=r"codes in place of ids: type medvqa read import FILE\.\.\. --study FOLDER"):
        Human(str(export)).check()
    export.write_bytes(reading_file.encode(msgspec.structs.replace(study, reader=""), lines))
    told = Readers(codes=("R1",), read=(frozenset({("bench", "q-1")}),), planned=("R1",), plan="ab" * 32)
    assert Human(str(export)).readers() == told


def test_what_it_says_of_itself(human: Human, tmp_path: Path) -> None:
    assert human.title == "human:r.csv"
    assert human.sends_to is None
    digest = human.fingerprint()
    typed = Human(human.argument, type(human.options)(reader="reader"))
    assert (len(digest), typed.fingerprint()[: len(digest) + 1]) == (64, f"{digest}-")
    for argument, said in (
        ("", "needs a file"),
        (str(tmp_path), "a folder"),
        (str(tmp_path / "no.csv"), "no such file"),
    ):
        with pytest.raises(UsageError, match=said):
            Human(argument).check()


@pytest.mark.parametrize(
    ("answers", "said"), [(["1", "2", ""], True), (["1", "A"], False), (["12"], False), (["A", "B"], False)]
)
def test_codes_of_options_without_their_meaning_are_warned_of(tmp_path: Path, answers: list[str], said: bool) -> None:
    """An option may be a number itself."""
    sheets.write(tmp_path / "r.csv", ["id", "reader", "response"], [[str(n), "R1", a] for n, a in enumerate(answers)])
    options = {"A": "one", "B": "12"}
    items = [Item(str(n), "bench", "single_choice", "?", options, ("A",)) for n in range(len(answers))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Human(str(tmp_path / "r.csv")).fit(iter(items))
    assert ["export labels, not codes" in str(each.message) for each in caught] == [True] * said


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        (ReaderNote(), None),
        (ReaderNote(confidence=3, comment="x"), None),
        (ReaderNote(score=1), (1, "correct")),
        (ReaderNote(score=0.25), (0.25, "partial")),
        (ReaderNote(score=0), (0, "wrong")),
        (ReaderNote(cannot_tell=True), (0, "abstained")),
    ],
)
def test_scores_of_people(noted: ReaderNote, expected: tuple[float, str] | None) -> None:
    score = of_people(noted)
    assert (None if score is None else (score.value, score.outcome)) == expected


def random_codes(seed: int, raters: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of 200 answers in groups of two; with more than two raters, some are missing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, 200)
    codes = np.where(rng.random((200, raters)) < 0.6, truth[:, None], rng.integers(0, 4, (200, raters)))
    if raters > 2:
        codes[rng.random(codes.shape) < 0.3] = -1
    kept = (codes >= 0).sum(1) > 1
    return codes[kept], np.repeat(np.arange(100), 2)[kept]


@pytest.mark.parametrize("seed", range(3))
def test_kappa_and_alpha_are_those_of_other_libraries(seed: int) -> None:
    codes, group = random_codes(seed, 2)
    kappa = coefficients.nominal_agreement(codes, group)
    assert kappa.value == pytest.approx(cohen_kappa_score(codes[:, 0], codes[:, 1]))
    old = coefficients.nominal(codes[:, 0], codes[:, 1], group, 4)[1]
    assert (kappa.low, kappa.high) == pytest.approx((old.low, old.high))
    codes, group = random_codes(seed, 5)
    alpha = coefficients.nominal_agreement(codes, group)
    expected = krippendorff.alpha(np.where(codes < 0, np.nan, codes).T, level_of_measurement="nominal")
    assert alpha.value == pytest.approx(expected)
    assert alpha.low is not None
    assert alpha.high is not None
    assert alpha.low < expected < alpha.high


def test_agreement_is_undefined_if_all_say_the_same() -> None:
    assert coefficients.nominal_agreement(np.zeros((20, 3), int), np.arange(20)).value is None
    assert coefficients.nominal_agreement(np.empty((0, 2), int), np.arange(0)).value is None
    two = coefficients.nominal_agreement(np.array([[0, 0], [1, 1], [0, 1]]), np.arange(3))
    assert (two.low, two.high) == (None, None)


def test_alpha_covers() -> None:
    """95 % intervals hold the alpha of 200,000 answers in nine of ten samples or more."""
    rng = np.random.default_rng(0)

    def drawn(answers: int) -> np.ndarray:
        truth = rng.integers(0, 3, answers)
        return np.where(rng.random((answers, 3)) < 0.7, truth[:, None], rng.integers(0, 3, (answers, 3)))

    true = coefficients.nominal_agreement(drawn(200_000), np.arange(200_000)).value
    assert true is not None
    found = [coefficients.nominal_agreement(drawn(60), np.arange(60)) for _ in range(200)]
    assert sum(one.low <= true <= one.high for one in found if one.low is not None and one.high is not None) >= 180


def cells(table: Table) -> dict[str, list[str]]:
    """The cells of each row behind the benchmark, by the first of them."""
    return {row[1]: row[2:] for row in table.texts}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> report.Report:
    """A run of four readers in two groups: each reads every question, and is wrong in every k-th."""
    monkeypatch.chdir(tmp_path)
    benchmark = next(one for one in shipped() if one.name == PAIRS)
    from medvqa import benchmarks

    items = benchmarks.load(benchmark, None)
    other = {"A": "B", "B": "A"}
    rows = [
        [item.id, code, other[item.answers[0]] if place % every == 0 else item.answers[0], str(place + 1)]
        for code, every in (("primary/P1", 2), ("primary/P2", 3), ("senior/S1", 6), ("senior/S2", 36))
        for place, item in enumerate(items)
    ]
    sheets.write(tmp_path / "r.csv", ["id", "reader", "response", "seconds"], rows)
    assert main(["run", "--model=human:r.csv", f"--benchmark={PAIRS}", "--run=h"]) == 0
    return report.build(tmp_path / "reports" / "h", {benchmark.name: benchmark})


def test_the_tables_of_readers(built: report.Report) -> None:
    (readers,) = reader_tables.of_people(built)
    shown = cells(readers)
    assert list(shown) == [
        *("primary/P1", "primary/P2", "senior/S1", "senior/S2"),
        *("mean of primary", "mean of primary, these alone", "mean of senior", "mean of senior, these alone"),
        *("mean of readers", "mean of readers, these alone", "panel majority"),
    ]
    assert {name: row[:2] for name, row in shown.items()} == {
        "primary/P1": ["72", "50.00"],
        "primary/P2": ["72", "66.67"],
        "senior/S1": ["72", "83.33"],
        "senior/S2": ["72", "97.22"],
        "mean of primary": ["72", "58.33"],
        "mean of primary, these alone": ["72", "58.33"],
        "mean of senior": ["72", "90.28"],
        "mean of senior, these alone": ["72", "90.28"],
        "mean of readers": ["72", "74.31"],
        "mean of readers, these alone": ["72", "74.31"],
        "panel majority": ["72", "83.33"],
    }
    assert [row[4] for row in shown.values()][:4] == ["36.5"] * 4
    # Readers and cases are random: the interval is that of `statistics.readers`, and wider than of these alone.
    assert built.run.readers is not None
    from medvqa.metrics.by_reader import by_reader

    scored = by_reader(built.parts[0].results)
    found = statistics.mean_of_readers(scored.scores, scored.groups)
    row = next(row for row in readers.rows if row[1] == "mean of readers")
    assert (row[3].low, row[3].high) == (found.low, found.high)  # type: ignore[attr-defined]
    alone = next(row for row in readers.rows if row[1] == "mean of readers, these alone")
    assert row[3].high - row[3].low > alone[3].high - alone[3].low  # type: ignore[attr-defined]
    assert any("Obuchowski-Rockette" in note for note in readers.notes)
    (agreement,) = [note for note in readers.notes if "Krippendorff's alpha" in note]
    assert agreement.startswith(f"Agreement on the options of 72 questions of {PAIRS}: ")


def test_codes_of_strangers_are_texts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = ["<script>alert(1)</script>", "a|b\n# c", "\x1b[31mred", "=1+1", "[x](javascript:1)", "\u202eevil"]
    readings = [ReaderAnswer(code, PAIRS, "1/1", response="A", comment=f"comment {code}") for code in hostile]
    (tmp_path / "r.jsonl").write_bytes(reading_file.encode(ReaderStudy(), readings))
    assert main(["run", "--model=human:r.jsonl", f"--benchmark={PAIRS}", "--run=h"]) == 0
    folder = tmp_path / "reports" / "h"
    page, summary = (folder / "index.html").read_text(), (folder / "summary.md").read_text()
    assert "<script>alert" not in page + summary
    assert "\x1b" not in summary
    assert "\u202e" not in summary
    assert "\n# c" not in summary
    assert "](javascript" not in summary
    assert main(["run", "--model=echo:A", f"--benchmark={PAIRS}", "--run=m"]) == 0
    assert main(["compare", "reports/h", "reports/m", "--markdown=c.md"]) == 0
    assert "<script>" not in (tmp_path / "c.md").read_text()


def test_they_stand_on_every_report(built: report.Report) -> None:
    shown = (built.folder / "summary.md").read_text()
    for text in ("| senior/S2 | 72 | 97.22 |", "| panel majority | 72 | 83.33 |", "Krippendorff", "for these readers"):
        assert text in shown
    assert "mean of senior" in report.terminal.summary(built, width=200)
    assert "sd over samples" not in shown


def test_the_digest_of_results_covers_what_readers_said() -> None:
    """Digests of models' runs are those of earlier versions, whose answers had no such field."""
    item = Item("1", "bench", "single_choice", "?", {"A": "a"}, ("A",), extra={"noted": None, "score": 1})
    plain = Result("r", item, "p", Answer('A,"noted":null},"score":'), Score(1.0, "correct", ("A",)))
    noted = replace(plain, answer=Answer("A", noted=ReaderNote(comment="x")))
    other = replace(plain, answer=Answer("A", noted=ReaderNote(comment="y")))
    line = run_folder.encode(plain)
    assert b'"noted":null},"prompt"' not in line.partition(b'"answer":')[2]
    digests = {run_folder.decisive_digest([result])[0] for result in (plain, noted, other)}
    assert len(digests) == 3
    assert run_folder.decode(run_folder.encode(noted)) == noted
    with pytest.raises(ValueError, match="score"):
        run_folder.decode(run_folder.encode(noted).replace(b'"score":null', b'"score":7'))
