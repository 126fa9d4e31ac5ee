"""`--perturb` with forms of questions: what is sent, selected, recorded, scored again and compared."""

import json
import re
from pathlib import Path

import pytest

from medvqa import comparing, report
from medvqa.benchmarks import pytest_medvqa_benchmarks
from medvqa.cli import main
from medvqa.protocols.question_forms import OTHER, SENTENCES
from medvqa.records import run_folder
from medvqa.records.run_record import read_run
from medvqa.report import html
from medvqa.report.bundle.facts import command
from support import sessions
from support.pages import Page

MODEL = '''
import re
import medvqa
from medvqa import Answer


class Rejecting(medvqa.Backend):
    """Chooses the option that rejects the others, by its text if so asked; else A. It keeps its prompts."""

    name = title = "rejecting"
    sends_to = None
    converses = True

    def draws(self):
        return True

    def generate(self, prompts):
        with open("asked.txt", "a") as file:
            for prompt in prompts:
                file.write(repr((prompt.item, prompt.text, [shot.text for shot in prompt.shots])) + "\\n")
        return [Answer(self._letter(prompt.text)) for prompt in prompts]

    def _letter(self, text):
        found = re.search(r"^([A-Z])[.:)] None of the other answers$", text, re.M)
        return "A" if found is None else "None of the other answers" if self.argument == "text" else found[1]


def pytest_medvqa_backends():
    return [Rejecting]

'''
PAIRS = "phantom-mediconfusion"
TEST = f"""
import pytest

@pytest.mark.vqa("{PAIRS}")
def test_pairs(item, evaluate):
    evaluate(item)
"""
ITEMS = {
    item.id: item
    for benchmark in pytest_medvqa_benchmarks()
    if benchmark.name == PAIRS
    for item in benchmark.items(Path())
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    Path("conftest.py").write_text(MODEL)
    Path("test_questions.py").write_text(TEST)
    return tmp_path


def ask(perturb: str, *options: str, run: str = "first", model: str = "rejecting") -> int:
    Path("asked.txt").unlink(missing_ok=True)
    typed = [f"--benchmark={PAIRS}", f"--model={model}", f"--perturb={perturb}", f"--run={run}", *options]
    return main(["run", *typed])


def asked() -> list[tuple[str, str, list[str]]]:
    return [eval(line) for line in Path("asked.txt").read_text().splitlines()]


def accuracy(run: str) -> float | None:
    measures = sessions.written(Path("reports", run))["measures"]
    return next(m["value"] for m in measures if m["name"] == "individual_accuracy" and not m["slice"])


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("options", [(), ("--rotate=all",)])
@pytest.mark.parametrize(("perturb", "value"), [("none_of_the_above", 1), ("none_of_the_above:wrong", 0)])
def test_the_other_answers_are_rejected(perturb: str, value: int, options: tuple[str, ...]) -> None:
    assert ask(perturb, "--limit=12", *options) == 0
    folder = Path("reports/first")
    assert accuracy("first") == value
    assert all(OTHER in text for _, text, _ in asked())
    results = run_folder.read(folder).results
    # The data set's own questions are recorded, and read anew as they were shown.
    assert len({result.item.id for result in results}) == 12
    assert all(dict(result.item.options) == dict(ITEMS[result.item.id].options) for result in results)
    for rule in ("official", "sound"):
        assert main(["rescore", str(folder), f"--extraction={rule}"]) == 0
        assert accuracy("first") == value
    assert [r.score.extracted for r in run_folder.read(folder).results] == [r.score.extracted for r in results]
    known = {benchmark.name: benchmark for benchmark in pytest_medvqa_benchmarks()}
    (part,) = report.build(folder, known).parts
    for result in part.results:
        (letter,) = result.score.extracted
        assert result.item.options[letter] == OTHER
    for row in Page((folder / "index.html").read_text()).results:
        assert (dict(row["row"]["shown"])[row["row"]["extracted"][0]], row["item"] in ITEMS) == (OTHER, True)


@pytest.mark.usefixtures("here")
def test_an_answer_by_text_is_read_among_the_shown_options() -> None:
    assert ask("none_of_the_above", "--limit=12", model="rejecting:text") == 0
    assert accuracy("first") == 1
    assert main(["rescore", "reports/first", "--extraction=sound"]) == 0
    assert accuracy("first") == 1


@pytest.mark.usefixtures("here")
def test_a_page_of_two_runs_shows_the_options_of_each() -> None:
    assert ask("none_of_the_above", run="other") == 0
    assert main(["run", f"--benchmark={PAIRS}", "--model=rejecting", "--run=plain"]) == 0
    known = {benchmark.name: benchmark for benchmark in pytest_medvqa_benchmarks()}
    study = comparing.study([comparing.load(Path("reports", name)) for name in ("plain", "other")], known, anyway=True)
    shown = [row["row"]["shown"] for row in Page(html.comparison_page(study, known).decode()).results]
    assert [OTHER in dict(options).values() for options in shown].count(True) == len(shown) / 2 == 72


@pytest.mark.parametrize("spread", sessions.SPREAD_SLOWLY)
def test_a_file_selects_its_questions(here: Path, pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    pytester.makeini("[pytest]\n")
    (pytester.path / "conftest.py").write_text(MODEL)
    pytester.makepyfile(test_questions=TEST)
    (pytester.path / "words.csv").write_text("id,question\n1,Is it <b>one</b>?\n3/2,Which?\n")
    typed = ("--model=rejecting", f"--benchmark={PAIRS}", "--perturb=paraphrase:words.csv", *spread)
    result = sessions.run(pytester, *typed)
    assert result.ret == 0
    folder = sessions.folder(pytester)
    # Both questions of pair 1, and one question of pair 3.
    assert [key.item for key in sessions.keys(folder)] == ["1/1", "1/2", "3/2"]
    record = read_run(folder)
    assert record.protocol.perturb.startswith("paraphrase:words.csv@")
    told = " ".join(sessions.text(result).split())
    assert f"selected 3 of 72, by --perturb={record.protocol.perturb}" in told
    assert "paraphrased: words.csv" in told
    (measure,) = [
        m for m in sessions.written(folder)["measures"] if m["name"] == "individual_accuracy" and not m["slice"]
    ]
    assert record.protocol.perturb in measure["signature"].replace("\\", "")
    assert str(pytester.path) not in (folder / "run.json").read_text().split('"protocol"')[1].split("}")[0]
    sent = (folder / "prompts.jsonl").read_text()
    assert "Is it <b>one</b>?" in sent
    assert "<b>one</b>" not in (folder / "index.html").read_text()


@pytest.mark.usefixtures("here")
def test_a_changed_file_is_another_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    Path("words.csv").write_text("id,question\n1,Is it one?\n")
    assert ask("paraphrase:words.csv") == 0
    Path("words.csv").write_text("id,question\n1,Is it two?\n")
    assert ask("paraphrase:words.csv") == 4
    told = "".join(capsys.readouterr())
    assert "--perturb" in told
    assert ask("paraphrase:words.csv", run="second") == 0


@pytest.mark.usefixtures("here")
def test_the_command_of_the_page_names_the_folder_of_the_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    Path("forms").mkdir()
    Path("forms/words.csv").write_text("id,question\n1,Is it one?\n")
    assert ask("paraphrase:forms/words.csv") == 0
    *_, typed = command(read_run(Path("reports/first")))
    assert re.fullmatch("--perturb=paraphrase:forms/words.csv@[0-9a-f]{8}", typed)
    assert ask(typed.removeprefix("--perturb=")) == ask(f"paraphrase:{Path('forms/words.csv').absolute()}") == 0
    # A folder elsewhere stays private.
    elsewhere = tmp_path_factory.mktemp("jane") / "words.csv"
    elsewhere.write_text("id,question\n1,Is it one?\n")
    assert ask(f"paraphrase:{elsewhere}", run="second") == 0
    assert command(read_run(Path("reports/second")))[-1] == typed.replace("forms/", "")


@pytest.mark.usefixtures("here")
def test_solved_examples_stay_as_they_are_and_samples_share_a_form() -> None:
    assert ask("typos:5", "--shots=1", "--samples=2", "--limit=4") == 0
    prompts = asked()
    by_item = {item: text for item, text, _ in prompts}
    assert len(prompts) == 2 * len(by_item) == 8
    plain = {item.question for item in ITEMS.values()}
    for item, text, shots in prompts:
        assert by_item[item] == text
        assert ITEMS[item].question not in text
        assert any(question in shot for question in plain for shot in shots)


@pytest.mark.usefixtures("here")
def test_a_form_goes_with_a_named_prompt() -> None:
    Path("short.toml").write_text('text = "Say: {question}\\n{options}"\noption = "{letter}. {text}\\n"\n')
    assert ask("irrelevant_context:1", "--prompt=short.toml", "--limit=4", "--technique=mc") == 0
    assert {text.startswith(f"Say: {SENTENCES[0]} {ITEMS[item].question}\n") for item, text, _ in asked()} == {True}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("perturb", "options", "message"),
    [
        ("false_premise", {}, f"it changes no question of {PAIRS}. It needs tags such as modality"),
        ("paraphrase:words.csv", {}, "words.csv row 2: no question or pair of phantom-mediconfusion has the id 'x9'"),
        ("typos:3", {"model": "replay:answers.csv"}, "perturb with a model that can be asked"),
        ("gaussian_noise:3", {"model": "replay:answers.csv"}, "perturb with a model that can be asked"),
    ],
)
def test_a_form_that_changes_nothing_is_refused(
    perturb: str, options: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("words.csv").write_text("id,question\nx9,Is it?\n")
    Path("answers.csv").write_text("id,answer\n1/1,A\n")
    assert ask(perturb, **options) == 4
    assert message in " ".join("".join(capsys.readouterr()).split())


@pytest.mark.usefixtures("here")
def test_a_perturbed_run_is_not_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("typos:3", "--limit=4") == 0
    capsys.readouterr()
    again = ["run", f"--benchmark={PAIRS}", "--model=replay:reports/first/results.jsonl", "--run=second"]
    assert main(again) == 4
    assert "was recorded with --perturb=typos:3, which replayed answers cannot repeat" in "".join(capsys.readouterr())


@pytest.mark.usefixtures("here")
def test_the_method_tells_the_form() -> None:
    assert ask("typos:2", "--limit=4") == 0
    assert (
        "typing errors, level 2 (in 10 % of the longer words for each level)"
        in Page(Path("reports/first/index.html").read_text()).told
    )
    assert json.loads(Path("reports/first/run.json").read_text())["protocol"] == {"perturb": "typos:2"}
