"""Sweeps over servers and over the phantom: their gains, and sweeps that are killed and go on."""

import csv
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm, t

from medvqa.cli import main
from medvqa.records import run_folder
from support import pages, processes
from support.servers import Reply, Request, Server, completion

ITEMS = 40
CONFTEST = f"""
import struct, zlib
from pathlib import Path
from medvqa.items import Benchmark, Image, Item


def png(level):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0))
    rows = b"".join(b"\\0" + bytes([level] * 4) for _ in range(4))
    return b"\\x89PNG\\r\\n\\x1a\\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def items(data):
    for n in range({ITEMS}):
        path = Path("images") / f"{{n}}.png"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(png(6 * n))
        image = Image(path.name, str(path.absolute()))
        about = {{"extra": {{"box_xywh": [[0, 0, 1, 1]]}}}}
        yield Item(
            f"q{{n:02}}", "", "single_choice", f"Question {{n}}?", {{"A": "yes", "B": "no"}}, ("A",), (image,), **about
        )


WARD = Benchmark(name="ward", items=items, public=True)
"""
MODEL = """
backend = "openai"
argument = "tiny"
[options]
base_url = "{url}"
concurrency = 2
"""
GRID = """
[options]
benchmark = "ward"

[grid]
model = ["tiny"]
ablate = ["", "blank"]
"""


def letter(request: Request) -> str:
    """An answer that depends on the text and on the pixels."""
    return "AAB"[hashlib.sha256(json.dumps(request.body["messages"]).encode()).digest()[0] % 3]


def scripted(delay: float = 0.0) -> Server:
    return Server(lambda number, request: Reply(completion(letter(request)), delay=delay))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "models").mkdir()
    return tmp_path


def serve(project: Path, server: Server) -> None:
    (project / "models/tiny.toml").write_text(MODEL.format(url=server.url))


def values(run: Path) -> dict[str, float]:
    lines = map(json.loads, (run / "results.jsonl").read_text().splitlines())
    return {line["item"]["id"]: line["score"]["value"] for line in lines}


def tango(gained: float, lost: float, n: float, z: float, end: float) -> float:
    """A bound of Tango's score interval, by finding the root of his equation."""
    estimate = (gained - lost) / n

    def score(delta: float) -> float:
        linear = (2 * n - gained + lost) * delta - gained - lost
        q = (np.sqrt(linear**2 + 8 * n * lost * delta * (1 - delta)) - linear) / (4 * n)
        return abs(gained - lost - n * delta) - z * np.sqrt(max(n * (2 * q + delta * (1 - delta)), 0))

    return float(brentq(score, estimate, end))


def test_the_gain_of_the_image_has_the_interval_that_the_answers_give(project: Path) -> None:
    """Questions without common images: n* = (n - 1) (z / t)^2, as in docs/numbers.md, from results.jsonl alone."""
    with scripted() as server:
        serve(project, server)
        assert main(["sweep", "grid.toml"]) == 0
    shown, blank = (values(project / "reports" / name) for name in ("grid-tiny", "grid-tiny-blank"))
    assert len(shown) == len(blank) == ITEMS
    gained, lost = (sum(one[key] > other[key] for key in one) for one, other in ((shown, blank), (blank, shown)))
    n = (ITEMS - 1) * (norm.ppf(0.975) / t.ppf(0.975, ITEMS - 1)) ** 2
    counts = gained / ITEMS * n, lost / ITEMS * n, n, norm.ppf(0.975)
    (gain,) = csv.DictReader(io.StringIO((project / "reports/grid/gains.csv").read_text()))
    assert (gain["effect"], gain["new_run"], gain["measure"]) == ("the gain of the image", "grid-tiny", "accuracy")
    assert (int(gain["gained"]), int(gain["lost"]), int(gain["groups"])) == (gained, lost, ITEMS)
    assert gained + lost > 10
    assert float(gain["difference"]) == pytest.approx((gained - lost) / ITEMS)
    assert (float(gain["low"]), float(gain["high"])) == pytest.approx((tango(*counts, -1), tango(*counts, 1)), abs=1e-6)


NOISE = """
name = "noise"
[options]
benchmark = "ward"

[grid]
model = ["tiny", "other"]
perturb = ["", "gaussian_noise:4-5"]

[[include]]
ablate = "blank"
"""


def test_a_sweep_over_models_and_perturbations_has_a_table_of_each_model(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row is the paired difference between two run folders, by results.jsonl alone."""
    (project / "noise.toml").write_text(NOISE)
    with scripted() as server:
        serve(project, server)
        (project / "models/other.toml").write_text(MODEL.format(url=server.url).replace('"tiny"', '"other"'))
        assert main(["sweep", "noise.toml"]) == 0
    out, folder = capsys.readouterr().out, project / "reports/noise"
    assert "Robustness of noise-tiny\n" in out
    assert "Robustness of noise-other\n" in out
    told = json.loads((folder / "sweep.json").read_text())["robustness"]["changes"]
    assert [(row["baseline_run"], row["change"], row["level"]) for row in told] == [
        *(("noise-tiny", "gaussian_noise", level) for level in (4, 5)),
        ("noise-tiny", "blank", ""),
        *(("noise-other", "gaussian_noise", level) for level in (4, 5)),
    ]
    for row in told:
        clean, new = (values(project / "reports" / row[name]) for name in ("baseline_run", "new_run"))
        assert row["difference"] == pytest.approx(np.mean([new[key] - clean[key] for key in clean]))
        assert row["retained"] == pytest.approx(sum(new.values()) / sum(clean.values()))
    lines = list(csv.DictReader(io.StringIO((folder / "robustness.csv").read_text())))
    assert {line["new_run"] for line in lines if line["baseline_run"] == "noise-other"} == {
        "noise-other-gaussian_noise-4",
        "noise-other-gaussian_noise-5",
    }
    head = json.loads(pages.Page((folder / "index.html").read_text()).bytes_of("head"))
    assert {run["name"] for run in head["runs"]} == {
        *("noise-tiny", "noise-other", "noise-tiny-blank"),
        *(f"noise-{model}-gaussian_noise-{level}" for model in ("tiny", "other") for level in (4, 5)),
    }
    (section,) = (each for each in head["sections"] if each["id"] == "robustness")
    tabs = [block["tabs"][0] for block in section["blocks"] if block["block"] == "plot"]
    assert tabs == ["noise-tiny", "noise-other"]


def test_a_gate_compares_runs_with_the_same_perturbation(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noisy = ["run", "--model=tiny", "--benchmark=ward", "--perturb=gaussian_noise:2"]
    with scripted() as server:
        serve(project, server)
        assert main(["run", "--model=tiny", "--benchmark=ward", "--run=clean"]) == 0
        assert main([*noisy, "--run=noisy"]) == 0
        assert main([*noisy, "--run=again", "--fresh", "--baseline=reports/noisy"]) == 0
        assert json.loads((project / "reports/again/gate.json").read_text())["verdict"]["outcome"] == "PASS"
        capsys.readouterr()
        assert main([*noisy, "--run=other", "--baseline=reports/clean"]) == 4
        said = " ".join(capsys.readouterr().err.split())
        assert "no verdict can be given against baseline clean" in said
        assert "ward: the perturbation is gaussian_noise:2 in this run and none in clean" in said
        masked = ["run", "--model=tiny", "--benchmark=ward", "--perturb=mask_region:blur", "--baseline=reports/clean"]
        assert main(masked) == 4
        said = " ".join(capsys.readouterr().err.split())
    assert "--perturb=mask_region:blur: masks of regions describe a run and are never gated" in said


def test_compare_of_the_two_runs_says_the_same(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted() as server:
        serve(project, server)
        assert main(["sweep", "grid.toml"]) == 0
    (gain,) = csv.DictReader(io.StringIO((project / "reports/grid/gains.csv").read_text()))
    capsys.readouterr()
    assert main(["compare", "reports/grid-tiny-blank", "reports/grid-tiny", "--json=x.json"]) == 0
    assert "grid-tiny against grid-tiny-blank (the image: shown in grid-tiny, blank in" in capsys.readouterr().out
    (told,) = json.loads((project / "x.json").read_text())["comparisons"]
    (accuracy,) = (measure for measure in told["measures"] if measure["name"] == "accuracy" and not measure["slice"])
    assert [float(gain[name]) for name in ("low", "high", "p")] == [accuracy[name] for name in ("low", "high", "p")]


def test_a_gate_refuses_a_run_with_blank_images(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted() as server:
        serve(project, server)
        assert main(["sweep", "grid.toml"]) == 0
        capsys.readouterr()
        command = ["run", "--model=tiny", "--benchmark=ward", "--ablate=blank", "--baseline=reports/grid-tiny"]
        assert main(command) == 4
    assert "ward: the ablation is blank in this run and none in grid-tiny" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("after", [3, ITEMS + 7])
def test_a_killed_sweep_goes_on_and_asks_nothing_twice(project: Path, after: int) -> None:
    with scripted(delay=0.02) as server:
        serve(project, server)
        session = processes.Popen(
            [sys.executable, "-m", "medvqa.cli", "sweep", "grid.toml"],
            cwd=project,
            env={name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        while len(server.requests) < after and session.poll() is None:
            time.sleep(0.005)
        os.killpg(session.pid, signal.SIGKILL)
        session.communicate()
        before = len(server.requests)
        assert before < 2 * ITEMS
        done = {path.parent.name for path in project.glob("reports/grid-*/metrics.json")}
        assert done == ({"grid-tiny"} if after > ITEMS else set())
        assert main(["sweep", "grid.toml"]) == 0
    asked = Counter(json.dumps(request.body) for request in server.requests)
    assert len(server.requests) <= 2 * ITEMS + 2, "no more than was in flight is asked again"
    assert sum(asked.values()) >= 2 * ITEMS
    written = json.loads((project / "reports/grid/sweep.json").read_text())
    assert [(run["state"], run["answers"]) for run in written["runs"]] == [("finished", ITEMS)] * 2
    for run in ("grid-tiny", "grid-tiny-blank"):
        assert len({result.key for result in run_folder.read(project / "reports" / run).results}) == ITEMS


@pytest.mark.slow
def test_a_sweep_over_the_phantom_has_the_gain_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text(
        '[options]\nbenchmark = "phantom-mediconfusion"\n[grid]\nmodel = ["phantom-vlm", "random"]\n'
        'ablate = ["", "blank"]\n[[exclude]]\nmodel = "random"\nablate = "blank"\n'
    )
    assert main(["sweep", "grid.toml"]) == 0
    assert "grid: 3 of 3 runs finished" in capsys.readouterr().out
    gains = list(csv.DictReader(io.StringIO((tmp_path / "reports/grid/gains.csv").read_text())))
    (image,) = [g for g in gains if g["effect"] == "the gain of the image" and g["measure"] == "set_accuracy"]
    assert float(image["difference"]) > 0.6
    assert float(image["low"]) > 0.5
