"""Every command of the README and of the table of tasks, and those of the docs that name a place, a key or a GPU.

They are typed literally in a folder that has nothing to do with this project, with the installed wheel. test_docs.py
runs the other console blocks of the docs.
"""

import csv
import re
import shutil
from pathlib import Path

import pytest

from support.installed import Door
from support.neighbours import sample_of

ROOT = Path(__file__).parents[2]
IN_A_SENTENCE = re.compile(r"`((?:pytest|medvqa) [^`]+)`")
SKIPPED = re.compile(r"<!-- skip: next -->\s*(```console\n.*?```)", re.DOTALL)
"""A block that test_docs.py leaves out."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TEST = """
import pytest

@pytest.mark.vqa
def test_questions(item, evaluate):
    evaluate(item)
"""
CASES = "image,question,A,B,answer\n" + "".join(
    f"{n}.png,Which organ is number {n}?,liver {n},spleen {n},{'AB'[n % 2]}\n" for n in range(8)
)
KLINIK = """
file = "cases.csv"
title = "Klinik"
"""
SWEEP = """
[options]
model = "random"
benchmark = "phantom-mediconfusion"
limit = 12

[grid]
ablate = ["", "blank"]
"""
NOISE = SWEEP.replace("ablate", "perturb").replace("blank", "gaussian_noise:1-2")
PLAN = """
name = "Night shift"
benchmarks = ["phantom-mediconfusion"]
readers = ["R1", "R2"]
limit = 4
"""
ENDS = {
    "--benchmark=medlesionvqa --data=DATA": "is not there, under --data=DATA",
    "--benchmark=medlesionvqa-val --data=DATA": "is not there, under --data=DATA",
    "--model=ours": "no model 'ours'",
    "--benchmark=vqa-rad --data=DATA": "is not there, under --data=DATA",
    "--ray-address=HEAD:6379": "no cluster answers at HEAD:6379",
    "--answers=s3:": "the answers in s3://bucket/medvqa cannot be read",
    "--answers=/shared/": "is the shared disk mounted?",
    "--answers=noon": "is no run",
    "--answers=evening": "is no run",
    "--train=84": "--train=84: a number of pairs from 1 to 35",
    "--shard=auto": "no task of an array is known",
    "gpt-4o": "set OPENAI_API_KEY",
    "openai:NAME": "set OPENAI_API_KEY",
    "=qwen": "HF_HUB_OFFLINE",
    "=vllm-server": "Start the server",
    "=ollama": "Start the server",
    "=mediconfusion-llava": "HF_HUB_OFFLINE",
    "=hf:Qwen": "HF_HUB_OFFLINE",
    "=hf:checkpoints": "HF_HUB_OFFLINE",
    "reports/night": "is no run folder",
    "--model=mine": "no model 'mine'",
    "--model=my-model": "no model 'my-model'",
}
"""Words of the one line in which a command ends that needs a key, a server, weights or somebody's run."""
ASK_THE_DEFAULT_MODEL = {
    "pytest --ablate=blank",
    "pytest --pyargs medvqa.suite.benchmark_tests",
}
"""Commands of pytest that reach the default model in ways of their own. Others without a model (`-k`, `-n 8`, ...) ask
`random`: the default model takes eight seconds to start, in each process. `medvqa run` asks what is typed."""
OFFLINE = {"HF_HUB_OFFLINE": "1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "none"}
OFFLINE |= {"AWS_SECRET_ACCESS_KEY": "none"}
"""Neither the hub nor a bucket is asked: nobody listens at port 9."""
LACKS = {"medvqa fetch mediconfusion --data=DIR": "Could not be had:"}
"""Commands that end with a list and exit code 1 if they are typed with --offline."""

SERVER = """
set -m
BROWSER=true {command} > said 2>&1 &
until grep -qs "Ctrl-C ends it" said || ! kill -0 $!; do sleep 0.1; done
kill -INT $!
wait $! && code=$? || code=$?
cat said
exit $code
"""
"""Ends a command that serves by Ctrl-C, when it has said its address."""


def tasks() -> list[str]:
    """Commands in the README's sentences, and of the tasks with which docs/reference.md begins."""
    listed, _, _ = (ROOT / "docs/reference.md").read_text("utf-8").partition("## Exit codes")
    return list(dict.fromkeys(IN_A_SENTENCE.findall((ROOT / "README.md").read_text("utf-8") + listed)))


def elsewhere() -> list[str]:
    """Commands in blocks of the docs that test_docs.py leaves out."""
    # test_gpus_page.py types those of gpus-and-servers.md.
    names = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "gpus-and-servers.md"]
    pages = [page.read_text("utf-8") for page in names]
    skipped = [block for page in pages for block in SKIPPED.findall(page)]
    lines = [line.strip() for block in skipped for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith(("$ pytest", "$ medvqa"))]


@pytest.fixture(scope="module")
def prepared(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has all that the README's commands name."""
    folder = tmp_path_factory.mktemp("prepared")
    door = Door(folder, installed)
    door.write("test_questions.py", TEST)
    door.write("prompt.txt", "{question}\n{options}\nAnswer with the letter alone.")
    door.write("sweep.toml", SWEEP)
    door.write("noise.toml", NOISE)
    door.write("plan.toml", PLAN)
    door.write("readers.csv", "id,reader,response\n1/1,R1,A\n1/2,R2,B\n")
    judged = "--judge='echo:<result>0.5</result>'"
    for line in (
        f"medvqa run --model=random --run=RUN {judged}",
        f"medvqa run --model=majority --run=NEW {judged}",
        f"medvqa run --model=random --run=BLANK --ablate=blank {judged}",
        "medvqa run --model=random --run=part1 --shard=1/2",
        "medvqa run --model=random --run=part2 --shard=2/2",
        "medvqa run --model=random --run=main",
        "medvqa baseline reports/main -o main.medvqa",
        "medvqa agreement reports/RUN --sample=20 --output=sheet.csv",
    ):
        done = door.run(line)
        assert done.code == 0, done.output
    with open(folder / "sheet.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(folder / "scores.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "score"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row | {"score": "0.5"} for row in rows)
    for name in ("FOLDER", "checkpoint"):
        shutil.copytree(ROOT / "models/phantom-vlm", folder / name)
    mediconfusion(folder / "DIR")
    shutil.copytree(folder / "DIR", folder / "DATA")
    sample_of("slake-en-test").write(folder / "DIR")
    door.write("cases.csv", CASES)
    door.write("klinik.toml", KLINIK)
    for n in range(8):
        door.picture(f"{n}.png", (30 * n, 99, 200 - 20 * n))
    door.picture("TRAINING/1.png", (30, 99, 180))
    shutil.copy(folder / "reports/RUN/results.jsonl", folder / "FILE")
    return folder


def mediconfusion(folder: Path) -> None:
    """Write the phantom's confusing pairs as a copy of MediConfusion, which has the same form."""
    shutil.copytree(ROOT / "fixtures/phantom/mediconfusion", folder / "mediconfusion")


def check(command: str, prepared: Path, installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    shutil.copytree(prepared, folder)
    line = next((line for part, line in ENDS.items() if part in command), "")
    lacks = LACKS.get(command, "")
    typed = SERVER.format(command=command) if command.startswith("medvqa view") else command
    if "file:///shared/" in typed:
        (folder / "shared").mkdir(exist_ok=True)
        typed = typed.replace("file:///shared/", f"file://{folder}/shared/")
    # An option that is typed counts rather than one of PYTEST_ADDOPTS.
    variables = {} if command in ASK_THE_DEFAULT_MODEL else {"PYTEST_ADDOPTS": "--model=random"}
    done = Door(folder, installed).type(f"{typed} --offline" if lacks else typed, **OFFLINE, **variables)
    assert done.code == (1 if lacks else 4 if line and "|| code" not in command else 0), done.output
    assert line in done.output
    assert lacks in done.output
    assert "Traceback" not in done.output
    assert "INTERNALERROR" not in done.output
    if line:
        assert len(done.output.strip().splitlines()) <= 3, done.output


def test_the_tasks_have_the_commands_that_ask_the_default_model() -> None:
    assert set(tasks()) >= ASK_THE_DEFAULT_MODEL


@pytest.mark.parametrize("command", tasks())
def test_a_command_of_a_task(command: str, prepared: Path, installed: Path, tmp_path: Path) -> None:
    check(command, prepared, installed, tmp_path)


@pytest.mark.parametrize("command", elsewhere())
def test_a_command_of_the_docs(command: str, prepared: Path, installed: Path, tmp_path: Path) -> None:
    check(command, prepared, installed, tmp_path)
