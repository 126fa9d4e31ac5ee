"""Metrics, hooks, commands and backends of a user, from an empty folder and the installed wheel."""

import json
import re
from pathlib import Path

import pytest

from support.installed import ROOT, Door
from support.pages import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

METRIC = """\
    import medvqa

    @medvqa.metric
    def long_answer(result):
        return len(result.answer.text) > 0

    @medvqa.metric
    def length(result):
        return 100 * len(result.answer.text)

    @medvqa.metric
    def broken(result):
        return result.answer.letters

    def pytest_medvqa_finished(run, verdict):
        (run.folder / "ended.txt").write_text(f"{len(run.measures)} {verdict.outcome}")
"""
GATE = """
    [[tool.medvqa.gate.floor]]
    benchmark = "phantom-gmai-mmbench"
    measure = "{measure}"
    at_least = 0.5
"""
ASK = "pytest --pyargs medvqa.suite.benchmark_tests --benchmark=phantom-gmai-mmbench --limit=40"
BROKEN = (
    "conftest.py:13: AttributeError: 'Answer' object has no attribute 'letters'; expected: a function of one result"
)


def test_a_metric_is_shown_as_any_other(door: Door) -> None:
    """A share, a mean of numbers and a metric that fails; a gate names each of them."""
    door.write("conftest.py", METRIC)
    door.write("pyproject.toml", GATE.format(measure="long_answer"))
    done = door.run(f"{ASK} --require=shared --model=echo:B --run=one")
    assert done.code == 0, done.output
    assert re.search(r"^phantom-gmai-mmbench +long_answer +100\.00 % +\S+ +40 items", done.output, re.M)
    assert re.search(r"^phantom-gmai-mmbench +length +100\.00 +100\.00–100\.00 +40 items", done.output, re.M)
    assert re.search(r"^phantom-gmai-mmbench +broken +failed$", done.output, re.M)
    assert f"metric 'broken': {BROKEN}" in done.output
    assert "gate: PASS" in done.output
    assert "Traceback" not in done.output
    run = door.folder / "reports/one"
    summary = (run / "summary.md").read_text()
    assert "| phantom-gmai-mmbench | length | 100.00 |" in summary
    assert "| phantom-gmai-mmbench | broken | failed |" in summary
    metrics = json.loads((run / "metrics.json").read_text())
    assert {"long_answer", "length"} < {measure["name"] for measure in metrics["measures"]}
    assert [failed["name"] for failed in metrics["failed_metrics"]] == ["broken"]
    table = (run / "measures.csv").read_text()
    assert "phantom-gmai-mmbench,mc,length,,,100.0,100.0,100.0,40.0,items" in table
    assert "phantom-gmai-mmbench,mc,broken,," in table
    page = Page((run / "index.html").read_text()).told
    assert all(f'"{name}"' in page for name in ("long_answer", "length", "broken"))
    assert (run / "ended.txt").read_text().endswith(" PASS")
    again = door.run("medvqa report reports/one")
    assert "long_answer" in again.output, "commands read conftest.py"


def test_a_gate_on_a_metric_that_fails_or_is_no_percentage_gives_the_reason(door: Door) -> None:
    door.write("conftest.py", METRIC.replace("verdict.outcome", "verdict"))
    for measure, reason in (
        ("broken", BROKEN),
        ("length", "metric 'length' is a mean of numbers, and the gate decides"),
    ):
        door.write("pyproject.toml", GATE.format(measure=measure))
        done = door.run(f"{ASK} --require=shared --model=echo:B --run={measure}")
        assert done.code == 1, done.output
        assert "gate: no verdict" in done.output
        assert reason in done.output


def test_a_backend_that_raises_is_one_line(door: Door) -> None:
    door.write(
        "conftest.py",
        """
        import medvqa

        class Mine(medvqa.Backend):
            sends_to = None
            def generate(self, prompts):
                return [medvqa.Answer(ask(prompt)) for prompt in prompts]

        def pytest_medvqa_finished(run):
            raise OSError("no network")
        """,
    )
    done = door.run(f"{ASK} --model=mine --run=one --max-errors=3")
    assert "model 'mine': conftest.py:6: NameError: name 'ask' is not defined" in done.output
    assert "! pytest_medvqa_finished: conftest.py:9: OSError: no network" in done.output
    assert "Traceback" not in done.output
    done = door.run(f"{ASK} --model=mine --run=two --max-errors=3 --tb=long")
    assert "Traceback (most recent call last):" in done.output


def package(environment: Path, name: str, text: str, *entry_points: str) -> None:
    """Install a package of one module into the environment."""
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / f"{name}.py").write_text(text)
    info = packages / f"{name}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(entry_points) + "\n")


HELLO = """
def add(commands, common):
    hello = commands.add_parser("hello", parents=[common], help="greet")
    hello.add_argument("name")
    hello.set_defaults(command=run)

def run(options):
    return f"hello {options.name}", len(options.name) // (len(options.name) - 1)
"""


def test_a_data_set_with_its_paper_is_one_file(door: Door) -> None:
    """The example of docs/python.md: questions, prompts, the owners' rule and published rows in 60 lines."""
    (text,) = re.findall(r"```python\n(\"\"\"Signs.*?)```", (ROOT / "docs/python.md").read_text(), re.S)
    assert len([line for line in text.splitlines() if "Template(" not in line]) <= 60
    door.write("conftest.py", text)
    row = "{n},images/{n}.png,Which sign is shown?,bronchogram,none,A\n"
    for n in range(4):
        door.picture(f"data/signs/images/{n}.png", (n, n, n))
    missing = door.run("medvqa run --model=echo:x --benchmark=signs --data=data")
    assert missing.code == 4
    assert "data/signs/signs.csv; it holds signs/. Fetch it: medvqa fetch signs --data=DATA" in missing.output
    door.write("data/signs/signs.csv", "id,image,question,A,B,answer\n" + "".join(row.format(n=n) for n in range(4)))
    done = door.run("medvqa run '--model=echo:B or A' --benchmark=signs --data=data --extraction=official --run=one")
    assert done.code == 0, done.output
    assert re.search(r"^signs +accuracy +4/4 ", done.output, re.M), done.output
    assert "the last letter of a response counts" in done.output
    assert "signs: the data hold 4 of the release's 300 questions." in done.output
    paper = door.run("medvqa paper signs reports/one")
    assert re.search(r"Doe-VL +61\.3", paper.output), paper.output
    assert "published figures: Doe et al., Table 2" in paper.output
    assert re.search(r"^signs +incomplete +4 of 300 +4 ", door.run("medvqa data --data=data").output, re.M)


def test_a_package_adds_a_command_and_a_broken_one_is_named(door: Door) -> None:
    package(door.environment, "hello_board", HELLO, "[medvqa.commands]", "hello = hello_board", "gone = no_such_module")
    try:
        done = door.run("medvqa hello you")
        assert (done.code, done.output.splitlines()[-1]) == (1, "hello you")
        broken = "package hello_board, entry point medvqa.commands: gone = no_such_module: ModuleNotFoundError"
        assert broken in done.output
        done = door.run("medvqa hello x")
        assert done.code == 4
        assert "hello_board.py:8: ZeroDivisionError: " in done.output
        assert "Traceback" not in done.output
        assert "Traceback" in door.run("medvqa hello x --traceback").output
        assert "hello_board" not in door.run("medvqa models echo:A").output, "shipped commands load no package"
    finally:
        (info,) = door.environment.glob("lib/python*/site-packages/hello_board-1.0.dist-info")
        (info / "entry_points.txt").unlink()
