"""Reviews of the page: the file that it exports, and the commands that read it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import report
from medvqa.cli import main
from medvqa.items import Answer, DataError, Item, Judgement, Outcome, QuestionKey, Result, Score, UsageError
from medvqa.judging import agreement, reviews, taxonomy
from medvqa.judging.taxonomy import Classified, ErrorJudge, ErrorSample
from medvqa.records import run_folder
from medvqa.records.run_folder import Recorder
from medvqa.report import bundle, html
from support import pages
from support.laws import examples

GMAI, LESIONS = taxonomy.shipped("gmai-mmbench"), taxonomy.shipped("medlesionvqa")
NAME = "shapes"
DIGEST = "0" * 32
KEYS = {QuestionKey(NAME, str(n), "mc") for n in range(5)}


def result(name: str, *, value: float | None = 0.0, response: str = "It is A.", sample: int = 0) -> Result:
    """A result whose score is a judge's."""
    outcome: Outcome = {0.0: "wrong", 0.5: "partial", 1.0: "correct", None: "error"}[value]  # type: ignore[assignment]
    item = Item(name, NAME, "short_answer", "Which lesion?", {}, ("wheal",), cluster_id=f"c{name}")
    judgement = Judgement("gpt-4", "judging/score@1f2e3d4c", "score", ("<result>0</result>",))
    return Result("run", item, "", Answer(response), Score(value, outcome), "mc", judgement, sample)


def line(name: str = "0", **changes: object) -> dict[str, Any]:
    made = {
        "review": 1,
        "run": DIGEST,
        "benchmark": NAME,
        "item": name,
        "technique": "mc",
        "variant": "",
        "sample": 0,
        "tags": ["perception"],
        "comment": "",
    }
    return {**made, **changes}


def write(path: Path, lines: list[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def run_of(folder: Path, results: list[Result]) -> tuple[Path, str]:
    recorder = Recorder(folder)
    for each in results:
        recorder.append(run_folder.encode(each))
    recorder.close()
    return folder, run_folder.answers_digest(run_folder.read(folder).results)


class TestFile:
    def test_a_review_is_read(self, tmp_path: Path) -> None:
        path = write(tmp_path / "anna.jsonl", [line("1", tags=["wrong_key", "perception"], comment="é\n", score=0.5)])
        assert reviews.is_reviews(path)
        (review,) = reviews.read(path, DIGEST, KEYS)
        assert review == reviews.Review(
            QuestionKey(NAME, "1", "mc"), ("wrong_key", "perception"), "é\n", 0.5, f"{path} line 1"
        )
        assert reviews.counts([review, review]) == {"wrong_key": 2, "perception": 2}

    @pytest.mark.parametrize("text", ["", "id,score\n", '{"id": 1}\n', "{", "[1]", '{"review', "\x00"])
    def test_another_file_is_none(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "other"
        path.write_text(text)
        assert not reviews.is_reviews(path)
        assert not reviews.is_reviews(tmp_path)

    @pytest.mark.parametrize(
        ("second", "message"),
        [
            (line(run="f" * 32), "line 2: the review is of another run: its digest is 'ffff"),
            (line("9"), "line 2: the run has no result 'shapes 9 mc'"),
            (line("1"), "line 2: a second review of 'shapes 1 mc', after .*anna.jsonl line 1; keep one"),
            (line(tags=["wrong-key"]), "line 2: .*'wrong-key'; there are: .*Did you mean 'wrong_key'"),
            (
                line(tags="wrong_key"),
                r"line 2: Expected `array`, got `str` - at `\$.tags`; a file of reviews is exported",
            ),
            (line(tags=["perception"] * 7), "line 2: Expected `array` of length <= 6"),
            (line(score=0.7), "line 2: score 0.7 is not on the scale 0, 0.5, 1"),
            (line(score="1"), "line 2: Expected `float | null`, got `str`"),
            (line(comment="x" * 4001), "line 2: Expected `str` of length <= 4000"),
            (line(item="x" * 4001), "line 2: Expected `str` of length <= 4000"),
            (line(sample=-1), "line 2: Expected `int` >= 0"),
            (line(review=2), "line 2: 'review' is 2; this version reads 1"),
            (line(rater="Anna"), "line 2: no key 'rater'; there are: review, run, "),
            ([1], "line 2: Expected `object`, got `array`"),
            ({"review": 1}, "line 2: Object missing required field"),
        ],
    )
    def test_a_line_that_cannot_be_used_is_named(self, tmp_path: Path, second: Any, message: str) -> None:
        path = write(tmp_path / "anna.jsonl", [line("1"), second])
        with pytest.raises(DataError, match=message):
            reviews.read(path, DIGEST, KEYS)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"review": 1, "review": 1}', "line 1: the key 'review' occurs twice"),
            ('{"review": 1', "line 1: not JSON"),
            ('{"review": NaN}', "line 1: not JSON"),
            ('{"review": "\\ud800"}', "line 1: not JSON"),
            ('{"review": ' + "[" * 5000 + "}", "line 1: not JSON"),
            ('{"review": 1, "comment": "' + "x" * 2**20 + '"}', "line 1: longer than"),
        ],
    )  # fmt: skip
    def test_text_that_is_no_review_is_named(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "anna.jsonl"
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            reviews.read(path, DIGEST, KEYS)

    def test_files_have_limits(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "anna.jsonl", [line("1"), line("2")])
        monkeypatch.setattr(reviews, "MAX_REVIEWS", 1)
        with pytest.raises(DataError, match="line 2: more than 1 reviews"):
            reviews.read(path, DIGEST, KEYS)
        monkeypatch.setattr(reviews, "MAX_FILE", 100)
        with pytest.raises(DataError, match="larger than 100 bytes"):
            reviews.read(path, DIGEST, KEYS)

    @given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
    @examples(100)
    def test_any_bytes_are_read_or_refused(self, tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
        path = tmp_path_factory.mktemp("any") / "anna.jsonl"
        path.write_bytes(content)
        assert not reviews.is_reviews(path) or b"review" in content
        try:
            assert reviews.read(path, DIGEST, KEYS) == []
        except DataError as error:
            assert str(error).startswith(f"{path} line ")


def test_the_digest_of_a_run_is_that_of_its_answers() -> None:
    """A new score keeps it; another response, another answer and an error change it."""
    made = [result("1"), result("2")]
    digest = run_folder.answers_digest(made)
    assert run_folder.answers_digest(made[::-1]) == digest
    assert run_folder.answers_digest([result("1", value=1.0), result("2")]) == digest
    assert (
        len({digest, *(run_folder.answers_digest(other) for other in (made[:1], [made[0], result("2", response="B")]))})
        == 3
    )


class TestAgreement:
    def test_scores_of_reviews_are_compared_with_the_judge(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        made = [result(str(n), value=(0.0, 0.5, 1.0)[n % 3]) for n in range(6)]
        folder, digest = run_of(tmp_path / "run", [*made, result("failed", value=None)])
        given_scores = [1.0, *(each.score.value for each in made[1:])]
        lines = [line(str(n), run=digest, score=score) for n, score in enumerate(given_scores)]
        path = write(tmp_path / "anna.jsonl", [*lines[:5], {**lines[5], "score": None}, line("failed", run=digest)])
        assert main(["agreement", str(folder), f"--human={path}"]) == 0
        printed = capsys.readouterr().out
        (row,) = [each.split() for each in printed.splitlines() if each.startswith("gpt-4 – anna")]
        assert row[3:6] == ["5", "5", "80.00"]
        assert f"! 2 reviews in {path} have no score, and are left out" in printed

    def test_reviews_without_a_score_are_refused(self, tmp_path: Path) -> None:
        folder, digest = run_of(tmp_path / "run", [result("1")])
        path = write(tmp_path / "anna.jsonl", [line("1", run=digest)])
        with pytest.raises(UsageError, match=r"none of its 1 reviews has a score\. Choose a score on the page"):
            agreement.scores_of_people([path], agreement.judged(folder))

    def test_samples_with_one_response_have_one_score(self, tmp_path: Path) -> None:
        folder, digest = run_of(tmp_path / "run", [result("1", sample=n) for n in (1, 2)])
        judged = agreement.judged(folder)
        lines = [line("1", run=digest, sample=n, score=0.5) for n in (1, 2)]
        path = write(tmp_path / "anna.jsonl", lines)
        scores, notes = agreement.scores_of_people([path], judged)
        assert ([*scores["anna"].values()], notes) == ([0.5], [])
        write(path, [lines[0], {**lines[1], "score": 1.0}])
        with pytest.raises(DataError, match=r"line 2: anna gives this answer another score than in .*line 1"):
            agreement.scores_of_people([path], judged)

    def test_a_file_named_as_the_judge_is_refused(self, tmp_path: Path) -> None:
        folder, digest = run_of(tmp_path / "run", [result("1")])
        path = write(tmp_path / "gpt-4.jsonl", [line("1", run=digest, score=1)])
        with pytest.raises(DataError, match="line 1: the rater has the same name as the judge"):
            agreement.scores_of_people([path], agreement.judged(folder))


class TestKinds:
    RESULTS = tuple(result(str(n)) for n in range(4))
    DIGEST = run_folder.answers_digest(RESULTS)

    def made(self, tree: taxonomy.Taxonomy = GMAI) -> Classified:
        labels = tuple(taxonomy.label_of(each, "irrelevant response", "judge") for each in self.RESULTS[:3])
        return Classified(
            taxonomy.digest(self.RESULTS),
            {NAME: tree},
            {NAME: ErrorSample(4, 3, "", {})},
            labels,
            ErrorJudge("gpt-4", "gpt-4@12345678", "judging/kind@12345678", False),
        )

    def read(self, path: Path, tags: list[list[str]], said: list[str], **changes: Any) -> dict[str, dict[str, str]]:
        lines = [line(str(n), run=self.DIGEST, tags=each) for n, each in enumerate(tags)]
        write(path, lines)
        return taxonomy.corrections([path], self.made(**changes), self.RESULTS, say=said.append)

    def test_tags_name_kinds_and_others_change_none(self, tmp_path: Path) -> None:
        said: list[str] = []
        tags = [["perception", "laterality"], ["knowledge", "perception"], ["wrong_key"], ["knowledge"]]
        found = self.read(tmp_path / "anna.jsonl", tags, said)
        answers = [label.answer for label in self.made().labels]
        assert found == {"anna": {answers[0]: "perceptual error"}}
        (told,) = said
        assert told.endswith(
            "reviews: 4; tags: wrong_key 1, perception 2, knowledge 2, laterality 1; "
            "answers with a kind by their tags: 1; "
            "reviews that change no kind: 1 with tags of several kinds, 1 with tags of no kind, "
            "1 of answers that are not classified"
        )
        corrected = taxonomy.corrected(self.made(), found, self.RESULTS)
        assert [(label.kind, label.by) for label in corrected.labels[:2]] == [
            ("perceptual error", "people"),
            ("irrelevant response", "judge"),
        ]

    def test_each_tree_has_its_kinds(self) -> None:
        assert taxonomy.kind_of_tags(["knowledge"], LESIONS) == "lack of knowledge"
        assert taxonomy.kind_of_tags(["perception", "knowledge"], LESIONS) == "lack of knowledge"
        assert taxonomy.kind_of_tags(["perception"], LESIONS) == "lack of knowledge: perceptual error"
        assert taxonomy.kind_of_tags(["extraction", "knowledge"], LESIONS) is None
        assert taxonomy.kind_of_tags(["image_quality"], LESIONS) is None

    def test_kinds_of_an_earlier_version_have_the_tags_of_the_shipped_tree(self) -> None:
        before = taxonomy.Taxonomy(GMAI.name, GMAI.source, GMAI.kinds, GMAI.rules)
        assert before.label == GMAI.label
        assert taxonomy.kind_of_tags(["knowledge"], before) == "lack of knowledge"
        other = taxonomy.Taxonomy(GMAI.name, "", {"a": "b", "lack of knowledge": "d"}, {})
        assert taxonomy.kind_of_tags(["knowledge"], other) is None

    def test_a_tree_of_ones_own_names_its_tags(self) -> None:
        text = '[kinds]\nside = "Sides."\nother = "Other."\n[tags]\nlaterality = "side"\n'
        assert taxonomy.kind_of_tags(["laterality"], taxonomy.parse("mine", text.encode(), "mine")) == "side"
        with pytest.raises(UsageError, match=r"mine, line \d: \[tags\]: no key 'sides'; there are: extraction"):
            taxonomy.parse("mine", (text + 'sides = "side"\n').encode(), "mine")
        with pytest.raises(UsageError, match=r"mine: tags\.wrong_key: no kind 'key'; there are: side, other"):
            taxonomy.parse("mine", (text + 'wrong_key = "key"\n').encode(), "mine")

    def test_reviews_that_change_nothing_say_which_tags_do(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="by tags that have a kind: perception: perceptual error; laterality"):
            self.read(tmp_path / "anna.jsonl", [["wrong_key"]], [])

    def test_reviews_of_another_run_are_refused(self, tmp_path: Path) -> None:
        path = write(tmp_path / "anna.jsonl", [line("1")])
        with pytest.raises(DataError, match="line 1: the review is of another run"):
            taxonomy.corrections([path], self.made(), self.RESULTS)

    def test_sheets_and_reviews_are_several_people(self, tmp_path: Path) -> None:
        made = self.made()
        reviewed = write(tmp_path / "anna.jsonl", [line("0", run=self.DIGEST)])
        sheet = tmp_path / "ben.csv"
        sheet.write_text(f"id,correction\n{made.labels[0].answer},perceptual error\n")
        found = taxonomy.corrections([reviewed, sheet], made, self.RESULTS)
        assert list(found) == ["anna", "ben"]
        assert len({kind for kinds in found.values() for kind in kinds.values()}) == 1


def test_the_page_has_the_same_tags() -> None:
    """The page's script declares them again: a word that differs would be refused."""
    script = (Path(__file__).parents[2] / "web" / "src" / "reviews.ts").read_text()
    assert dict(re.findall(r'^  (\w+): "(.*)",$', script.partition("} as const")[0], re.M)) == reviews.TAGS
    assert [int(size) for size in re.findall(r"^(?:export )?const MAX_(?:COMMENT|NAME) = (\d+);", script, re.M)] == [
        reviews.MAX_COMMENT,
        reviews.MAX_NAME,
    ]


def test_the_page_of_a_run_has_the_digest_that_commands_expect(tmp_path: Path) -> None:
    """Parts of a report hold all results of the run, so the page and the commands digest the same answers."""
    folder = pages.write(tmp_path / "run", pages.twice())
    blocks = bundle.of_run(report.build(folder, pages.PHANTOM), html.Pictures("none", ""))
    (run,) = json.loads(blocks["head"])["runs"]
    assert run["digest"] == run_folder.answers_digest(run_folder.read(folder).results)
