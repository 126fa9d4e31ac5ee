"""Opinions of experts -> questions of a new version: who must decide, what changes, and what is refused."""

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from medvqa import benchmarks, comparing
from medvqa.benchmarks import mediconfusion, own, phantom, table_files
from medvqa.benchmarks.recorded import RecordedFile, Revision
from medvqa.commands.revising import revise
from medvqa.items import Benchmark, DataError, Item, UsageError
from medvqa.medical import views
from medvqa.readings import revision
from medvqa.readings.reading_file import Opinion, ReaderStudy
from medvqa.records import run_folder
from medvqa.records.configuration import configuration, differences, why_not_continued
from medvqa.records.run_record import RecordedBenchmark, RunRecord

STUDY = ReaderStudy(task="review", name="check", plan="a" * 64)
ITEM = Item("q1", "klinik", "single_choice", "Which organ?", {"A": "liver", "B": "spleen"}, ("A",))
TABLE = """id,question,A,B,answer,image,site,pair,box
q1,Which organ?,liver,spleen,A,1.png,abdomen,p,"0,1,2,1"
q2,Which organ?,liver,spleen,B,2.png,abdomen,p,
q3,Which lung?,left,right,A,1.png,chest,,
q4,What is shown?,,,a nodule,1.png,chest,,
q5,Which side?,left,right,B,2.png,chest,,
"""


def opinion(item: str = "q1", reader: str = "R1", decision: str = "accept", **fields: Any) -> Opinion:
    return Opinion(reader, "klinik", item, decision, **fields)  # type: ignore[arg-type]


@pytest.fixture
def klinik(tmp_path: Path) -> Benchmark:
    """A table with images, slices and a pair, in a folder of its own."""
    folder = tmp_path / "data"
    (folder / "bilder").mkdir(parents=True)
    for name in ("1", "2"):
        PIL.Image.new("RGB", (3, 3), (int(name), 0, 0)).save(folder / "bilder" / f"{name}.png")
    (folder / "klinik.csv").write_text(TABLE)
    toml = 'file = "klinik.csv"\nimages = "bilder"\ntags = ["site"]\ntitle = "Klinik"\n'
    (folder / "klinik.toml").write_text(toml)
    return table_files.read(folder / "klinik.toml", "klinik.toml")


def loaded(toml: Path) -> dict[str, Item]:
    return {item.id: item for item in benchmarks.load(own.completed(table_files.read(toml)), Path())}


@pytest.mark.parametrize(
    ("opinions", "keep_from", "why"),
    [
        ([opinion(), opinion(reader="R2")], None, ""),
        ([opinion(), opinion(reader="R2", decision="reject")], None, "want it differently"),
        ([opinion(decision="reject"), opinion(reader="R2", decision="reject", reason="blurred")], None, ""),
        ([opinion(rating=8), opinion(reader="R2", rating=4)], None, ""),
        ([opinion(rating=8), opinion(reader="R2", rating=4)], 5, "want it differently"),
        ([opinion(rating=3), opinion(reader="R2", rating=4)], 5, ""),
        ([opinion(rating=8), opinion(reader="R2")], 5, "opinion of R2: no rating"),
        ([opinion(decision="correct", answers=("B",)), opinion(reader="R2")], None, "want it differently"),
        (
            [
                opinion(decision="correct", answers=(answer,), reader=reader)
                for reader, answer in (("R1", "B"), ("R2", "B"))
            ],
            None,
            "",
        ),
        (
            [
                opinion(decision="correct", options={"B": "kidney"}),
                opinion(reader="R2", decision="correct", options={"A": "liver", "B": "kidney "}),
            ],
            None,
            "",
        ),
        (
            [
                opinion(decision="correct", options={"B": "kidney"}),
                opinion(reader="R2", decision="correct", options={"B": "colon"}),
            ],
            None,
            "want it differently",
        ),
        (
            [opinion(), opinion(reader="R2", decision="reject"), opinion(reader="A1", decision="reject", final=True)],
            None,
            "",
        ),
        (
            [opinion(final=True), opinion(reader="A1", decision="reject", final=True)],
            None,
            "want it differently",
        ),
    ],
)
def test_a_question_needs_a_final_decision_if_its_reviewers_differ(
    opinions: Sequence[Opinion], keep_from: int | None, why: str
) -> None:
    if "rating" in why:
        with pytest.raises(DataError, match=why):
            revision.undecided([ITEM], opinions, keep_from)
        return
    assert revision.undecided([ITEM, replace(ITEM, id="q2")], opinions, keep_from) == (["q1"] if why else [])


@pytest.mark.parametrize(
    ("item", "fields", "message"),
    [
        ("q1", {"answers": ("C",)}, "klinik.jsonl question q1, column 'answer': 'C' is none of its options A, B"),
        ("q1", {"options": {"D": "kidney"}}, "question q1, opinion of R1: no option 'D'; there are: A, B"),
        ("q1", {"options": {"B": "  "}}, "question q1, column 'options': one option alone"),
        ("q1", {"options": {"A": " Spleen"}}, "question q1, column 'options': options A and B are equal"),
        ("q1", {"question": " "}, "question q1, column 'question': the question is empty"),
        ("q1", {"answers": ("A", "B")}, "question q1, column 'answer': 2 right options, and the kind is single_choice"),
        ("q1", {"answers": ()}, "question q1, opinion of R1: .* the key is empty"),
        ("q1", {}, "question q1, opinion of R1: .* nothing is corrected"),
        ("q1", {"answers": ("A",)}, "question q1, opinion of R1: .* nothing is corrected"),
        ("q4", {"options": {"A": "x", "B": "y"}}, "question q4, opinion of R1: no option 'A'; there are: none"),
        ("q4", {"answers": ("TODO",)}, "question q4, column 'answer': 'TODO' stands for a missing value"),
    ],
)
def test_a_correction_is_checked_as_an_imported_row(
    klinik: Benchmark, tmp_path: Path, item: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        revise(STUDY, [opinion(item, decision="correct", **fields)], klinik, None, tmp_path / "revised")
    assert not (tmp_path / "revised").exists()


def test_a_final_decision_counts_whatever_its_rating() -> None:
    final = opinion("q1", "A1", decision="accept", rating=2, final=True)
    kept, changes = revision.revised([replace(ITEM, id="q1")], [opinion("q1", rating=9), final], 5)
    assert [item.id for item in kept] == ["q1"]
    assert changes == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"question": "Which lobe?"}, "pair x: correct the question in both, x/1 and x/2"),
        ({"answers": ("A",)}, "pair x: x/1 and x/2 would have the same key"),
    ],
)
def test_a_correction_leaves_a_pair_a_pair(fields: dict[str, Any], problem: str) -> None:
    one, two = (replace(ITEM, id=f"x/{side}", pair_id="x", answers=(key,)) for side, key in ((1, "A"), (2, "B")))
    with pytest.raises(DataError, match=problem):
        revision.revised([one, two], [opinion("x/2", decision="correct", **fields)])


def test_of_a_pair_both_questions_go_or_stay() -> None:
    """MediConfusion, section 2.3: a pair stays only if both problems have 5 or more."""
    items = [replace(ITEM, id=f"{pair}/{side}", pair_id=pair) for pair in "xy" for side in (1, 2)]
    ratings = {"x/1": 5, "x/2": 10, "y/1": 4, "y/2": 10}
    opinions = [opinion(item, rating=rating) for item, rating in ratings.items()]
    opinions[3] = opinion("y/2", decision="correct", rating=10, answers=("B",))
    kept, changes = revision.revised(items, opinions, 5)
    assert [item.id for item in kept] == ["x/1", "x/2"]
    assert [(change.id, change.what, change.reason) for change in changes] == [
        ("y/1", "removed", "rated 4 of 10"),
        ("y/2", "removed", "the other question of its pair, y/1, is removed"),
    ]


def test_the_adjudicator_reads_opinions_without_codes() -> None:
    lines = revision.said(
        [
            opinion(reader="Dr. House", rating=4, reason="blurred", decision="reject"),
            opinion(reader="R2", decision="correct", question="Which?", options={"B": "kidney"}, answers=("B",)),
        ]
    )
    assert lines == (
        "Reviewer 1: reject, 4 of 10. Reason: blurred",
        "Reviewer 2: correct. Question: Which?. Option B: kidney. Key: B",
    )


def test_a_revision_is_a_benchmark_with_its_changes_and_a_data_sheet(klinik: Benchmark, tmp_path: Path) -> None:
    opinions = [
        opinion("q1"),
        opinion("q1", "R2"),
        opinion("q3", "R1", "correct", question="Which lobe?", answers=("B",), reason="=1+1 wrong side"),
        opinion("q3", "R2", "reject"),
        opinion("q3", "A*1", "correct", question="Which lobe?", answers=("B",), final=True, reason="=2+2"),
        opinion("q4", "R1", "correct", answers=("a cyst", "a cavity")),
        opinion("q4", "R2", "correct", answers=("a cyst", "a cavity")),
        opinion("q5", "R1", "reject", rating=2),
        opinion("q5", "R2", "reject", rating=3),
    ]
    said = revise(STUDY, opinions, klinik, None, tmp_path / "revised")
    folder = tmp_path / "revised"
    assert sorted(path.name for path in folder.iterdir()) == [
        "changes.csv",
        "datasheet.md",
        "klinik.jsonl",
        "klinik.toml",
    ]
    assert "version 2, 4 questions (2 questions changed, 1 removed)" in said
    before = {item.id: item for item in benchmarks.load(own.completed(klinik), Path())}
    now = loaded(folder / "klinik.toml")
    assert list(now) == ["q1", "q2", "q3", "q4"]
    assert (now["q3"].question, now["q3"].answers, now["q4"].answers) == ("Which lobe?", ("B",), ("a cyst", "a cavity"))
    for id in ("q1", "q2"):
        for name in ("kind", "question", "options", "answers", "tags", "pair_id"):
            assert getattr(now[id], name) == getattr(before[id], name)
        assert [image.path for image in now[id].images] == [image.path for image in before[id].images]
    assert [item.extra.get("box_xywh") for item in now.values()] == [[(0, 1, 2, 1)], None, None, None]
    rows = list(csv.DictReader((folder / "changes.csv").open()))
    assert [(row["id"], row["what"], row["before"], row["after"]) for row in rows] == [
        ("q3", "question", "Which lung?", "Which lobe?"),
        ("q3", "answer", "A", "B"),
        ("q4", "answer", "a nodule", "a cyst | a cavity"),
        ("q5", "removed", "Which side?", ""),
    ]
    assert (rows[0]["reviewers"], rows[0]["final"], rows[0]["reason"]) == ("R1, R2", "A*1", "'=2+2")
    sheet = (folder / "datasheet.md").read_text()
    old, new = (run_folder.data_digest(items.values()) for items in (before, now))
    assert f"5 questions, SHA-256 {old}" in sheet
    assert f"4 questions, SHA-256 {new}" in sheet
    for line in (
        "- Reviewed: 4 of 5 questions, by R1 (4), R2 (4)",
        r"- Final decisions: A\*1 (1)",
        "- Kept as they were: 2; corrected: 2; removed: 1 (changes.csv",
        "- Agreement: Cohen's kappa 0.636, for the decisions on 4 questions",
    ):
        assert line in sheet.replace("\\(", "(").replace("\\)", ")"), sheet
    third = table_files.read(folder / "klinik.toml")
    revise(STUDY, [opinion("q4", "R1", "reject")], third, None, tmp_path / "third")
    again = table_files.declared((tmp_path / "third" / "klinik.toml").read_bytes(), "klinik.toml")
    assert (again.name, again.version) == ("klinik", "3")
    assert again.revision == Revision("klinik", "2", new, "0 questions changed, 1 removed")


def test_a_file_about_two_benchmarks_revises_each(klinik: Benchmark, tmp_path: Path) -> None:
    """A plan may have several benchmarks, whose opinions come back in one file."""
    both = [opinion("q5", "R1", "reject"), Opinion("R1", "slake", "1", "reject")]
    said = revise(STUDY, both, klinik, None, tmp_path / "revised")
    assert "4 questions (0 questions changed, 1 removed)" in said
    assert "Reviewed: 1 of 5 questions" in (tmp_path / "revised" / "datasheet.md").read_text()


def test_a_revision_needs_no_package_for_agreement(
    klinik: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    monkeypatch.setitem(sys.modules, "krippendorff", None)
    two = [opinion(id, reader, made) for id, made in (("q1", "accept"), ("q5", "reject")) for reader in ("R1", "R2")]
    revise(STUDY, two, klinik, None, tmp_path / "revised")
    assert "Agreement: Cohen's kappa 1.000" in (tmp_path / "revised" / "datasheet.md").read_text()


def test_what_is_refused_names_the_questions(klinik: Benchmark, tmp_path: Path) -> None:
    two = [opinion("q1"), opinion("q1", "R2", "reject")]
    many = [
        opinion(item, reader, decision)
        for item in ("q1", "q3")
        for reader, decision in (("R1", "accept"), ("R2", "reject"))
    ]
    cases: list[tuple[Sequence[Opinion], ReaderStudy, str]] = [
        (two, STUDY, "1 question needs a final decision, since reviewers differ: q1. "),
        (many, STUDY, "2 questions need a final decision, .*: q1, q3. "),
        ([opinion("q9")], STUDY, "klinik has no question q9"),
        ([Opinion("R1", "slake", "q1", "accept")], STUDY, "the opinions are about slake, not klinik"),
        ([opinion()], ReaderStudy(task="review", benchmarks={"klinik": "0" * 64}), "questions have changed since"),
        ([opinion(each, decision="reject") for each in ("q1", "q2", "q3", "q4", "q5")], STUDY, "every question"),
    ]
    for opinions, study, message in cases:
        with pytest.raises((UsageError, DataError), match=message):
            revise(study, opinions, klinik, None, tmp_path / "revised")
    assert not (tmp_path / "revised").exists()
    with pytest.raises(UsageError, match="exists"):
        revise(STUDY, [opinion()], klinik, None, tmp_path / "data")


def test_a_built_in_benchmark_becomes_a_table_with_its_ids_pairs_groups_and_tags(tmp_path: Path) -> None:
    pairs = [
        {
            "id": str(number),
            "question": "Is the wire in the right (A) or the left heart?",
            "option_A": "right ",
            "option_B": "left|both",
            "im_1_local": number,
            "im_2_local": number + 1,
            "im_1_correct": "A",
            "im_2_correct": "B",
            "category_1": ["Cardiac", "Vascular"],
            "category_2": ["Cardiac"],
            "BiomedCLIP_sim": 0.915,
        }
        for number in (1, 2, 7)
    ]
    folder = tmp_path / "mediconfusion"
    (folder / "images").mkdir(parents=True)
    (folder / "dataset.json").write_text(json.dumps(pairs))
    (benchmark,) = mediconfusion.BENCHMARKS
    before = {item.id: item for item in benchmarks.load(benchmark, tmp_path)}
    opinions = [Opinion("R1", "", id, "accept", rating=4 if id == "7/2" else 9) for id in before]
    said = revise(STUDY, opinions, benchmark, tmp_path, tmp_path / "new", keep_from=5)
    assert "2 removed" in said
    declared = table_files.declared((tmp_path / "new" / "mediconfusion.toml").read_bytes(), "x")
    assert (declared.name, declared.public, declared.images) == (
        "mediconfusion-revised",
        False,
        "../mediconfusion/images",
    )
    now = loaded(tmp_path / "new" / "mediconfusion.toml")
    assert list(now) == ["1/1", "1/2", "2/1", "2/2"]
    for id, item in now.items():
        was = before[id]
        assert (item.pair_id, dict(item.tags), item.answers) == (was.pair_id, dict(was.tags), was.answers)
        assert [image.path for image in item.images] == [image.path for image in was.images]
        assert (now["1/1"].cluster_id == item.cluster_id) is (before["1/1"].cluster_id == was.cluster_id)
    assert now["1/1"].options == {"A": "right", "B": "left|both"}


def test_every_kind_of_the_phantom_survives_and_windows_and_views_are_kept(tmp_path: Path) -> None:
    for benchmark in phantom.BENCHMARKS:
        before = {item.id: item for item in benchmarks.load(benchmark, Path())}
        first = next(iter(before))
        revise(STUDY, [Opinion("R1", benchmark.name, first, "accept")], benchmark, None, tmp_path / benchmark.name)
        (toml,) = (tmp_path / benchmark.name).glob("*.toml")
        now = loaded(toml)
        assert list(now) == list(before)
        for id, item in now.items():
            was = before[id]
            assert (item.kind, item.question, dict(item.options), item.answers) == (
                *(was.kind, was.question, dict(was.options), was.answers),
            )
            assert [(image.window, views.split(image.name)[1]) for image in item.images] == [
                (image.window, views.split(image.name)[1]) for image in was.images
            ]


def recorded(digest: str, declared: RecordedFile | None = None, name: str = "klinik") -> RunRecord:
    benchmark = RecordedBenchmark(items=1, data_sha256=digest, signature={"data": digest[:12]}, declared=declared)
    return RunRecord(name="run", benchmarks={name: benchmark})


OLD, NEW = "a" * 64, "b" * 64
CHANGED = "5 questions changed, 2 removed"
MADE_OF = RecordedFile(version="2", file="revised/klinik.toml", revision=Revision("klinik", "1", OLD, CHANGED))
VERSIONS = (
    "klinik: the data set is version 2 (5 questions changed, 2 removed since version 1: revised/changes.csv) in NEW "
    "and version 1 in OLD"
)


def test_two_versions_are_named_wherever_runs_are_refused() -> None:
    new, old = recorded(NEW, MADE_OF), recorded(OLD)
    found = differences(configuration(new), configuration(old), lambda setting: setting.part == "signature")
    assert [each.between("NEW", "OLD") for each in found] == [VERSIONS]
    assert why_not_continued(old, new) == [
        "klinik: the data set was version 1 and is version 2 (5 questions changed, 2 removed since version 1: "
        "revised/changes.csv)"
    ]
    # A run on other questions than those that were revised has no number.
    other = differences(
        configuration(new), configuration(recorded("c" * 64)), lambda setting: setting.part == "signature"
    )
    assert "and cccccccccccc in OLD" in other[0].between("NEW", "OLD")
    edited = recorded("d" * 64, MADE_OF)
    same = differences(configuration(new), configuration(edited), lambda setting: setting.part == "signature")
    assert "changes.csv), bbbbbbbbbbbb in NEW" in same[0].between("NEW", "OLD")


@pytest.mark.parametrize("new_is_revised", [True, False])
def test_a_revision_under_another_name_is_named_beside_the_missing_benchmark(new_is_revised: bool) -> None:
    revised, before = recorded(NEW, MADE_OF, "klinik-revised"), recorded(OLD)
    item = replace(ITEM, benchmark="klinik")
    from medvqa.items import Answer, Result, Score

    def side(name: str, run: RunRecord) -> comparing.Side:
        (benchmark,) = run.benchmarks
        result = Result("run", replace(item, benchmark=benchmark), "p", Answer("A"), Score(1.0, "correct"))
        return comparing.Side.of(name, run, [result])

    sides = side("NEW", revised if new_is_revised else before), side("OLD", before if new_is_revised else revised)
    (line,) = comparing.refusals(*sides)
    missing, has = ("klinik", "NEW") if new_is_revised else ("klinik-revised", "OLD")
    since = "version 2 (5 questions changed, 2 removed since version 1: revised/changes.csv)"
    other = "OLD" if new_is_revised else "NEW"
    assert line == f"{missing} is in OLD alone; klinik-revised in {has} is {since} of klinik in {other}"
