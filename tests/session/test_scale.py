"""A GMAI-MMBench file of the real size: every process stays small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
MAKE = BENCH / "make_gmai.py"
ROWS = 4550
LIMIT_MB = 400

CONFTEST = """
import atexit, os, pathlib, re

def tell():
    # Not ru_maxrss, which begins with the size of the process that started this one.
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) // 1024
    pathlib.Path(os.environ["PEAKS"], str(os.getpid())).write_text(str(peak))

atexit.register(tell)
"""
TEST = """
import pytest

@pytest.mark.vqa("gmai-mmbench-val")
def test_val(item, evaluate):
    evaluate(item)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a VAL file of 1 GB."""
    data = tmp_path_factory.mktemp("data")
    command = [sys.executable, MAKE, data, f"--rows={ROWS}", "--bytes=1e9"]
    subprocess.run([str(part) for part in command], check=True)
    (file,) = (data / "gmai-mmbench").glob("*.tsv")
    assert file.stat().st_size > 0.9e9
    return data


@pytest.mark.slow
@pytest.mark.parametrize("spread", [(), ("-n2",)], ids=["serial", "n2"])
def test_a_file_of_a_gigabyte_costs_little_memory(
    pytester: pytest.Pytester, data: Path, spread: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks = pytester.mkdir("peaks")
    monkeypatch.setenv("PEAKS", str(peaks))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_val=TEST)
    result = pytester.runpytest_subprocess(
        "--model=random", "--run=big", f"--data={data}", "-p", "no:randomly", "-p", "no:html", *spread
    )
    assert result.ret == 0
    measures = json.loads((pytester.path / "reports" / "big" / "metrics.json").read_text())["measures"]
    assert next(m["n"] for m in measures if m["name"] == "accuracy" and not m["slice"]) == ROWS
    megabytes = sorted(int(path.read_text()) for path in peaks.iterdir())
    print("peak MB of each process:", megabytes)
    assert len(megabytes) == (3 if spread else 1)
    assert max(megabytes) < LIMIT_MB


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="cProfile counts other calls in other versions of Python")
def test_a_question_costs_no_more_calls_than_its_budget() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH / "calls.py"), "--sizes", "300", "900"], capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "medvqa run" in done.stdout
