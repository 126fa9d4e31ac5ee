"""Names of patients: which files of a run may hold them, and which must not."""

import base64
import gzip
import hashlib
import json
import os
import re
import stat
import subprocess
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from medvqa.cli import main
from medvqa.records import keyed
from medvqa.records.private import IGNORE, IGNORED, make_private
from medvqa.session.asker import Asker
from support import scans

SUITE = """
import os
import pathlib

from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, AnswerError, Benchmark, Image, Item
from medvqa.protocols.prompts import Template

ASK = Template("ward/mc", "{question}\\n{options}", "{letter}. {text}\\n")
HERE = pathlib.Path(__file__).parent


def items(data):
    for n in range(40):
        image = Image(f"scans/SMITH_JOHN_{n}.png", str(HERE / "scan.png"))
        yield Item(f"DOE-JANE-{n:02}", "ward", "single_choice", f"Is this the spleen of PETER-PAN, {n}?",
                   {"A": "liver", "B": "spleen"}, ("A",), (image,), {"organ": ("liver", "heart")[n % 2: n % 2 + 1]},
                   pair_id=f"MRN-4711-{n // 2}", cluster_id=f"ROE-RICHARD-{n // 2}",
                   extra={"PatientName": "MUSTERMANN^ERIKA"})


class Clinic(Backend):
    name = title = "clinic"
    sends_to = None

    def secrets(self):
        return [os.environ["CLINIC_KEY"]]

    def fingerprint(self):
        return os.environ.get("WEIGHTS", "weights")

    def generate(self, prompts):
        for prompt in prompts:
            for image in prompt.images:
                image.pil()
        return [self._said(prompt, prompt.item[-2:]) for prompt in prompts]

    def _said(self, prompt, number):
        key = os.environ["CLINIC_KEY"]
        if number in os.environ.get("LOST", "").split():
            return AnswerError(f"{prompt.images[0].name} of {prompt.item}: no {key}")
        return Answer("B" if number in os.environ.get("WRONG", "").split() else "A", finish=key)


def pytest_medvqa_benchmarks():
    return [Benchmark(name="ward", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates), dimensions=("organ",))]
"""
TEST = """
import pytest

@pytest.mark.vqa("ward")
def test_ward(item, evaluate):
    evaluate(item)
"""
SECRET = "sk-a-key-of-nobody-4711"
BASELINE_KEY = "7c" * 32
PLANTED = ("DOE-JANE", "SMITH_JOHN", "PETER-PAN", "MRN-4711", "ROE-RICHARD", "MUSTERMANN", SECRET, BASELINE_KEY)

# Planted words by the files of a run that may hold them. All others hold none: summary.md, stored answers,
# the journal of calls, what is printed, and a baseline without responses.
# Names of files (SMITH_JOHN), of groups (ROE-RICHARD) and of patients in further fields (MUSTERMANN) are in none.
OWN: dict[str, set[str]] = {
    "results.jsonl": {"DOE-JANE", "PETER-PAN", "MRN-4711"},
    # Prompts have the text of the question, and no id.
    "prompts.jsonl": {"PETER-PAN"},
    "index.html": {"DOE-JANE", "PETER-PAN", "MRN-4711"},
    "junit.xml": {"DOE-JANE"},
    "selected.jsonl": {"DOE-JANE"},
    # Which questions have no result.
    "run.json": {"DOE-JANE"},
    # The gate names pairs that flipped.
    "gate.json": {"DOE-JANE", "MRN-4711"},
    "metrics.json": {"DOE-JANE", "MRN-4711"},
}


@pytest.fixture
def ward(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A repository whose data name patients in ids, file names, questions, pairs, clusters and further fields."""
    for name in ("MEDVQA_DATA", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "WRONG", "LOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLINIC_KEY", SECRET)
    monkeypatch.setenv(keyed.ENV_KEY, BASELINE_KEY)
    pytester.makeconftest(SUITE)
    pytester.makepyfile(test_ward=TEST)
    pytester.makefile(".ini", pytest="[pytest]\n")
    Picture.new("RGB", (32, 32), (200, 10, 10)).save(pytester.path / "scan.png")
    return pytester


def run(ward: pytest.Pytester, *arguments: str) -> tuple[int, str]:
    typed = ("-p", "no:randomly", "--model=clinic", "--benchmark=ward", *arguments)
    result = (
        ward.runpytest_subprocess(*typed) if any(word.startswith("-n") for word in typed) else ward.runpytest(*typed)
    )
    return int(result.ret), result.stdout.str() + result.stderr.str()


def folder(ward: pytest.Pytester, name: str) -> Path:
    return ward.path / "reports" / name


def planted(content: bytes) -> set[str]:
    """The planted words in a file's content, as it stands there or packed."""
    contents = [content]
    if content[:2] == b"\x1f\x8b":
        contents.append(gzip.decompress(content))
    for text in re.findall(rb">([A-Za-z0-9+/=]{8,})<", content):
        try:
            contents.append(zlib.decompress(base64.b64decode(text)))
        except (ValueError, zlib.error):
            continue
    return {word for word in PLANTED if any(word.encode() in each for each in contents)}


def files_in(path: Path) -> Iterator[Path]:
    return (file for file in sorted(path.rglob("*")) if file.is_file())


@pytest.mark.parametrize("spread", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["serial", "n2"])
def test_names_stay_in_the_files_that_may_hold_them(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spread: tuple[str, ...]
) -> None:
    code, output = run(ward, "--run=main", *spread)
    assert code == 0, output
    assert planted(output.encode()) == set()
    baseline = ward.path / "main.medvqa"
    capsys.readouterr()
    assert main(["baseline", str(folder(ward, "main")), "-o", str(baseline), "--no-responses"]) == 0
    assert planted("".join(capsys.readouterr()).encode()) == set()
    assert planted(baseline.read_bytes()) == set()
    monkeypatch.setenv("WEIGHTS", "others")
    monkeypatch.setenv("WRONG", "03 04 05")
    code, output = run(ward, "--run=gated", f"--baseline={baseline}", *spread)
    assert (code, planted(output.encode())) == (11, set()), output
    assert "MRN-4711" in (folder(ward, "gated") / "gate.json").read_text(), "flips are found by their hashes"
    monkeypatch.setenv("WEIGHTS", "further ones")
    monkeypatch.setenv("LOST", "07 08")
    code, output = run(ward, "--run=lost", *spread)
    assert (code, planted(output.encode())) == (1, set()), output
    assert "the first: [image] of [id]: no [key] (junit.xml names it)" in output
    monkeypatch.setenv("WEIGHTS", "none")
    monkeypatch.setenv("LOST", " ".join(f"{n:02}" for n in range(40)))
    code, output = run(ward, "--run=stopped", "--max-errors=3", *spread)
    assert (code, planted(output.encode())) == (2, set()), output
    assert "3 errors in a row (--max-errors=3)" in output
    found = {
        file.relative_to(ward.path / "reports"): planted(file.read_bytes()) for file in files_in(ward.path / "reports")
    }
    assert not {str(file): words for file, words in found.items() if words - OWN.get(file.name, set())}


def test_pytest_names_rows_and_no_ids(ward: pytest.Pytester) -> None:
    """Its cache, -v, -rA, --co and its own JUnit file hold names of tests; -k knows ids nevertheless."""
    code, output = run(ward, "--run=main", "-v", "-rA", "--durations=3", "--durations-min=0", "--junitxml=own.xml")
    assert code == 0
    assert "::test_ward[question-7]" in output
    cache = ward.path / ".pytest_cache"
    assert "question-7" in (cache / "v/cache/nodeids").read_text()
    assert (cache / ".gitignore").is_file()
    kept = b"".join(file.read_bytes() for file in [*files_in(cache), ward.path / "own.xml"])
    assert planted(kept) == planted(output.encode()) == set()
    for typed in (("--co", "-q"), ("--co", "-v"), ("--co",)):
        code, output = run(ward, *typed, "-k", "DOE-JANE-05")
        assert (code, planted(output.encode())) == (0, set())
        assert "question-6" in output
        assert "question-7" not in output


def test_errors_and_a_gate_without_a_verdict_print_no_ids(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(ward, "--run=main")[0] == 0
    monkeypatch.setenv("WEIGHTS", "others")
    monkeypatch.setenv("LOST", "07 08")
    code, output = run(ward, "--run=lost", "-rA", "-v", "--tb=long", "--baseline=reports/main", "--junitxml=own.xml")
    assert (code, planted(output.encode())) == (1, set()), output
    assert planted((ward.path / "own.xml").read_bytes()) == set()
    code, output = run(ward, "--run=part", "-k", "DOE-JANE-0", "--baseline=reports/main", "--gate=required")
    told = [line for line in output.splitlines() if "-k" not in line]
    assert planted("\n".join(told).encode()) == set(), [line for line in told if "DOE" in line]


def test_messages_before_a_run_and_about_a_metric_print_no_ids(ward: pytest.Pytester) -> None:
    conftest = ward.path / "conftest.py"
    failing = "@metrics.metric\ndef bad(result):\n    raise ValueError(result.item.id + result.item.question)\n\n\n"
    text = conftest.read_text().replace("def pytest_medvqa_benchmarks", failing + "def pytest_medvqa_benchmarks")
    conftest.write_text(text.replace("(metrics.accuracy, ", "(metrics.accuracy, bad, "))
    code, output = run(ward, "--run=part", "--limit=10")
    assert ("metric 'bad': conftest.py" in output, planted(output.encode())) == (True, set()), output
    found = {file.name: planted(file.read_bytes()) for file in files_in(folder(ward, "part"))}
    assert not {file: words for file, words in found.items() if words - OWN.get(file, set())}
    conftest.write_text(text)
    (ward.path / "tags.csv").write_text("id,hard\nDOE-JANE-99,yes\n")
    for typed, told in (
        ("--baseline=reports/part", "no result for 30 of 40 questions of ward. Select what it has"),
        ("--tags=tags.csv", "tags.csv row 2: no question or pair of ward has the id [cell]"),
    ):
        code, output = run(ward, "--run=whole", typed)
        assert (code, told in output, planted(output.encode())) == (4, True, set()), output


def test_an_export_names_what_the_results_name(
    ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.setenv("LOST", "07")
    assert run(ward, "--run=main")[0] == 1
    capsys.readouterr()
    out = ward.path / "out"
    assert main(["export", str(folder(ward, "main")), "-o", str(out)]) == 0
    assert planted("".join(capsys.readouterr()).encode()) == set()
    read = {
        file.name: pandas.read_parquet(file).to_csv().encode() if file.suffix == ".parquet" else file.read_bytes()
        for file in files_in(out)
    }
    assert len(read) == 7
    found = {name: planted(content) for name, content in read.items()}
    assert found["items.csv"] == found["items.parquet"] == OWN["results.jsonl"]
    assert not {name: words for name, words in found.items() if words - OWN["results.jsonl"]}


# --- gates ---------------------------------------------------------------------------------------------------


@pytest.fixture
def gated(ward: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> tuple[pytest.Pytester, Path]:
    """A run with its keyed baseline, and a run of other weights that is wrong on a quarter."""
    assert run(ward, "--run=main")[0] == 0
    baseline = ward.path / "main.medvqa"
    assert main(["baseline", str(folder(ward, "main")), "-o", str(baseline), "--no-responses"]) == 0
    monkeypatch.setenv("WEIGHTS", "others")
    monkeypatch.setenv("WRONG", " ".join(f"{n:02}" for n in range(10)))
    return ward, baseline


def test_a_keyed_baseline_decides_as_its_run_does(gated: tuple[pytest.Pytester, Path]) -> None:
    ward, baseline = gated
    told = []
    for against in (folder(ward, "main"), baseline):
        code, output = run(ward, f"--run={against.stem}-new", f"--baseline={against}")
        assert code == 10, output
        gate = json.loads((folder(ward, f"{against.stem}-new") / "gate.json").read_text())["verdict"]
        told.append({name: gate[name] for name in ("outcome", "entries", "flips", "lost", "gained", "worst")})
    assert told[0] == told[1]


def test_a_keyed_baseline_of_a_part_names_no_question_and_lacks_the_others(ward: pytest.Pytester) -> None:
    assert run(ward, "--run=part", "-k", "DOE-JANE-0")[0] == 0
    baseline = ward.path / "part.medvqa"
    assert main(["baseline", str(folder(ward, "part")), "-o", str(baseline), "--no-responses"]) == 0
    assert planted(baseline.read_bytes()) == set()
    code, output = run(ward, "--run=whole", f"--baseline={baseline}")
    assert (code, "baseline part has no result for 30 of 40 questions of ward" in output) == (4, True), output
    assert run(ward, "--run=same", f"--baseline={baseline}", "-k", "DOE-JANE-0 and not 05")[0] in (0, 11)


def test_a_keyed_baseline_without_its_key_is_a_usage_error(
    gated: tuple[pytest.Pytester, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ward, baseline = gated
    monkeypatch.setenv(keyed.ENV_KEY, "00" * 32)
    code, output = run(ward, "--run=new", f"--baseline={baseline}")
    assert code == 4
    assert "set MEDVQA_BASELINE_KEY" in output
    assert not folder(ward, "new").exists()


def test_keyed_baselines_are_compared_with_runs_and_with_each_other(
    gated: tuple[pytest.Pytester, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ward, baseline = gated
    run(ward, "--run=new")
    plugin = f"--plugin={ward.path / 'conftest.py'}"
    new = ward.path / "new.medvqa"
    assert main(["baseline", str(folder(ward, "new")), "-o", str(new), "--no-responses"]) == 0
    tables = []
    for one, other in ((folder(ward, "main"), folder(ward, "new")), (baseline, folder(ward, "new")), (baseline, new)):
        capsys.readouterr()
        assert main(["compare", plugin, str(one), str(other)]) == 0
        out = capsys.readouterr().out
        assert planted(out.encode()) == set()
        assert "units flipped, of data that are not declared public (--json=FILE names them)" in out
        tables.append([line for line in out.splitlines() if "accuracy" in line])
    assert tables[0]
    assert tables[0] == tables[1] == tables[2]
    monkeypatch.setenv(keyed.ENV_KEY, "00" * 32)
    again = ward.path / "again.medvqa"
    assert main(["baseline", str(folder(ward, "new")), "-o", str(again), "--no-responses"]) == 0
    assert main(["compare", plugin, str(baseline), str(again)]) == 4
    assert "MEDVQA_BASELINE_KEY" in capsys.readouterr().err


# --- medical files -------------------------------------------------------------------------------------------

HOSPITAL = """
import os
import pathlib

import medvqa
from medvqa import Backend
from medvqa.items import Answer, AnswerError

HERE = pathlib.Path(__file__).parent
klinik = medvqa.table(HERE / "klinik.csv", columns={"patient": "patient"})


class Looking(Backend):
    name = title = "looking"
    sends_to = None

    def load(self):
        pass

    def fingerprint(self):
        return "looking"

    def generate(self, prompts):
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt):
        for image in prompt.images:
            image.pil()
            if b"SMITH" in image.read():
                raise ValueError("the header is there")
        if prompt.item == "q2":
            return AnswerError(f"cannot look at {prompt.images[0].path}: {prompt.images[0].name}")
        return Answer("A")


def pytest_medvqa_backends():
    return [Looking]
"""
NAMED = ("SMITH", "JOHN", "MUSTERMANN", "ERIKA", "4711", "KLINIKUM")


@pytest.fixture
def hospital(ward: pytest.Pytester) -> pytest.Pytester:
    """A table of DICOM and NIfTI files with names of patients in headers, file names, folders and a column."""
    pytest.importorskip("pydicom")
    pytest.importorskip("nibabel")
    ward.makeconftest(HOSPITAL)
    (ward.path / "test_ward.py").write_text(TEST.replace('"ward"', '"klinik"'))
    cases = ward.path / "SMITH_JOHN_4711"
    cases.mkdir()
    ct = np.arange(64 * 48, dtype=np.uint16).reshape(64, 48)
    hu = {"RescaleSlope": 1, "RescaleIntercept": -1024}
    scans.dicom(cases / "SMITH-1.dcm", ct, bits=12, **hu)
    scans.dicom(cases / "SMITH-2.dcm", ct // 2, bits=12, **hu)
    scans.dicom(cases / "SMITH-3.dcm", ct.astype(np.uint8), BurnedInAnnotation="YES", StudyDescription="JOHN")
    scans.dicom(cases / "SMITH-4.dcm", ct.astype(np.uint8), Modality="US")
    scans.dicom(cases / "SMITH-5", ct, bits=12)
    scans.nifti(cases / "SMITH-6.nii.gz", np.arange(4**3, dtype=np.uint8).reshape(4, 4, 4))
    whole = (cases / "SMITH-1.dcm").read_bytes()
    (cases / "SMITH-7.dcm").write_bytes(whole[: len(whole) // 2])
    views = ["1.dcm?window=lung", "2.dcm?window=40,400", "3.dcm", "4.dcm", "5", "6.nii.gz?axis=2&slice=1", "7.dcm"]
    rows = [f"q{n},SMITH_JOHN_4711/SMITH-{view},{n} organ?,liver,spleen,A,4711" for n, view in enumerate(views, 1)]
    text = "\n".join(["id,image,question,A,B,answer,patient", *(row.replace(",400,", ',400",') for row in rows)])
    (ward.path / "klinik.csv").write_text(text.replace("SMITH_JOHN_4711/SMITH-2", '"SMITH_JOHN_4711/SMITH-2'))
    return ward


def named(content: bytes) -> set[str]:
    """The words of patients in a file's content, as it stands there or packed."""
    contents = [content]
    for text in re.findall(rb">([A-Za-z0-9+/=]{8,})<", content):
        try:
            contents.append(zlib.decompress(base64.b64decode(text)))
        except (ValueError, zlib.error):
            continue
    return {word for word in NAMED if any(word.encode() in each for each in contents)}


def test_nothing_of_medical_headers_and_of_file_names_is_written(
    hospital: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    result = hospital.runpytest("-p", "no:randomly", "--model=looking", "--benchmark=klinik", "--run=main")
    output = result.stdout.str() + result.stderr.str()
    assert int(result.ret) == 1, output
    assert named(output.encode()) == set(), output
    assert "klinik: 1 of 7 medical files say that annotation is burnt into their pixels" in output
    assert "klinik: 1 of 7 medical files are ultrasound, secondary captures or the like" in output
    lines = (folder(hospital, "main") / "results.jsonl").read_text().splitlines()
    results = {result["item"]["id"]: result for result in map(json.loads, lines)}
    errors = {id: r["score"]["why"] for id, r in results.items() if r["score"]["outcome"] == "error"}
    assert set(errors) == {"q2", "q3", "q5", "q7"}
    assert "annotation is burnt into the pixels" in errors["q3"]
    assert "16 bits" not in errors["q5"]
    assert "12 bits a pixel" in errors["q5"]
    assert "its pixels are damaged or cut off" in errors["q7"]
    (image,) = results["q1"]["item"]["images"]
    digest = hashlib.sha256((hospital.path / "SMITH_JOHN_4711/SMITH-1.dcm").read_bytes()).hexdigest()
    assert (image["name"], image["digest"]) == (f"sha256-{digest[:12]}?window=lung", digest)
    assert (image["view"], image["window"]) == ("window=lung", [-1350.0, 149.0])
    assert {r["item"]["cluster_id"] for r in results.values()} == {"group 1"}
    assert results["q1"]["item"]["extra"] == {"patient": "source 1"}
    capsys.readouterr()
    plugin = f"--plugin={hospital.path / 'conftest.py'}"
    assert main(["report", plugin, str(folder(hospital, "main")), "--images=folder"]) == 0
    assert named("".join(capsys.readouterr()).encode()) == set()
    drawn = [*(folder(hospital, "main") / "images").iterdir()]
    assert len(drawn) == 4, "pictures are found again, though the run does not name them"
    found = {str(file): named(file.read_bytes()) for file in files_in(hospital.path / "reports")}
    assert not {file: words for file, words in found.items() if words}


def test_an_earlier_run_with_names_continues_and_is_compared(
    hospital: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ("-p", "no:randomly", "--model=looking", "--benchmark=klinik")
    with monkeypatch.context() as patch:
        patch.setattr(Asker, "_hidden", lambda self, result: result)
        hospital.runpytest(*typed, "--run=old")
    old = folder(hospital, "old") / "results.jsonl"
    before = old.read_bytes()
    assert b"SMITH_JOHN_4711/SMITH-1.dcm" in before
    result = hospital.runpytest(*typed, "--run=old")
    assert "reused" in result.stdout.str(), result.stdout.str()
    assert old.read_bytes().startswith(before)
    hospital.runpytest(*typed, "--run=new")
    capsys.readouterr()
    plugin = f"--plugin={hospital.path / 'conftest.py'}"
    assert main(["compare", plugin, str(folder(hospital, "old")), str(folder(hospital, "new"))]) == 0
    out = capsys.readouterr().out
    assert "in one run only" not in out
    assert re.search(r"accuracy.* 3 ", out), out


# --- sheets of patients, and medvqa audit --------------------------------------------------------------------

SHEET = (
    "id,image,question,A,B,answer,Name,patient\n"
    '1,SMITH_JOHN/1.dcm,Which organ is number 1?,liver,spleen,A,"Smith, John",4711-1\n'
    '2,MUSTERMANN_ERIKA/IM1,Which organ is number 2?,liver,spleen,A,"Mustermann, Erika",4711-2\n'
    '3,Mustermann_ct.nii.gz,Which organ is number 3?,liver,spleen,B,"Mustermann, Erika",4711-2\n'
    '4,4.png,Which organ is number 4?,liver,spleen,A,"Müller, Jürgen",4711-3\n'
)
OF_SHEET = ("SMITH", "JOHN", "MUSTERMANN", "ERIKA", "MÜLLER", "MUELLER", "JÜRGEN", "4711")


def people_in(content: str | bytes) -> set[str]:
    text = content.decode(errors="replace") if isinstance(content, bytes) else content
    return {word for word in OF_SHEET if word.casefold() in text.casefold()}


@pytest.fixture
def sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of patients, of whose images one alone is there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.csv").write_text(SHEET, encoding="utf-8")
    (tmp_path / "klinik.toml").write_text('file = "cases.csv"\n')
    Picture.new("RGB", (32, 32), (200, 10, 10)).save(tmp_path / "4.png")
    (tmp_path / "conftest.py").write_text(
        "import medvqa\n\n\nclass Looking(medvqa.Backend):\n"
        '    name = title = "looking"\n    sends_to = None\n\n    def generate(self, prompts):\n'
        "        for prompt in prompts:\n            [image.pil() for image in prompt.images]\n"
        '        return [medvqa.Answer("A") for prompt in prompts]\n'
    )
    return tmp_path


def test_a_run_that_misses_a_patient_s_file_names_rows(sheet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sheet / "test_sheet.py").write_text(TEST.replace('"ward"', '"klinik"'))
    for typed in (
        ["run", "--benchmark=klinik.toml", "--model=looking"],
        ["import", "cases.csv", "--yes"],
        ["run", "--benchmark=klinik.toml", "--model=looking", "--select=not nothing", "--run=all"],
    ):
        main(typed)
        out, err = capsys.readouterr()
        assert people_in(out + err) == set(), out + err
        assert "row" in out + err or typed[-1] == "--run=all", out + err
    results = (sheet / "reports/all/results.jsonl").read_text()
    assert results.count('"outcome":"error"') == 3
    assert [str(file) for file in files_in(sheet / "reports") if people_in(file.read_bytes())] == []


def test_import_shows_cells_if_it_is_asked(sheet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sheet / "cases.csv").write_text(SHEET.replace("4.png", "nowhere.png"), encoding="utf-8")
    assert main(["import", "cases.csv", "--yes"]) == 1
    assert "no image [cell]" in capsys.readouterr().out
    assert main(["import", "cases.csv", "--yes", "--show-cells"]) == 1
    assert "no image 'nowhere.png'" in capsys.readouterr().out


def test_audit_finds_names_patients_and_paths_in_every_file(sheet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--benchmark=klinik.toml", "--model=looking", "--select=not nothing", "--run=all"]) == 1
    capsys.readouterr()
    assert main(["audit", "reports/all"]) == 0
    out = capsys.readouterr().out
    assert "none with names of patients or files" in out
    planted = {
        "notes.txt": "fine\nasked Mr Müller\n",
        "escaped.json": json.dumps({"who": "M\u00fcller"}),
        "page.html": f"<p>{base64.b64encode(zlib.compress(b'x' * 99 + b' Mustermann ' + os.urandom(99))).decode()}</p>",
        "more/upper.csv": "1,2\nMUSTERMANNERIKA,3\n",
        "numbers.log": "patient=4711-2\n",
        "path.log": "cannot open /data/SMITH_JOHN/1.dcm!\n",
        "url.txt": "M%C3%BCller",
        "url-in-url.txt": "M%25C3%25BCller",
        "json-in-json.txt": json.dumps(json.dumps("M\u00fcller")),
        "python.txt": ascii("M\u00fcller"),
        "soft.txt": "Muster\u00admann",
        "SMITH.txt": "",
    }
    for name, text in planted.items():
        (sheet / "reports/all" / name).parent.mkdir(exist_ok=True)
        (sheet / "reports/all" / name).write_text(text, encoding="utf-8")
    packed = {
        "old.gz": gzip.compress(b"1\n2\nErika\n"),
        "excel.csv": "Müller;1".encode("cp1252"),
        "notepad.txt": "Müller".encode("utf-16"),
    }
    for name, content in packed.items():
        (sheet / "reports/all" / name).write_bytes(content)
    with zipfile.ZipFile(sheet / "reports/all/sent.xlsx", "w", zipfile.ZIP_DEFLATED) as sent:
        sent.writestr("sheet.xml", "<c>Mustermann</c>" * 9)
    assert main(["audit", "reports/all"]) == 1
    out, err = capsys.readouterr()
    lines = {line.split(":")[0].strip(): line for line in out.splitlines() if line.startswith("  ")}
    (own,) = (name for name in lines if "its name holds one" in name)
    assert lines.keys() == {*planted, *packed, "sent.xlsx", own} - {"SMITH.txt"}, out
    assert lines["notes.txt"].endswith("name, 1 time, line 2")
    assert lines["old.gz"].endswith("line 3")
    assert people_in(out + err) == set()
    assert main(["audit", "reports/all", "--table=cases.csv", "--benchmark=klinik.toml"]) == 1


def test_audit_says_what_it_needs(sheet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--benchmark=klinik.toml", "--model=random", "--run=all"]) == 0
    (sheet / "klinik.toml").unlink()
    capsys.readouterr()
    assert main(["audit", "reports/all"]) == 4
    assert "They have the names: name them by --benchmark=FILE.toml" in capsys.readouterr().err
    assert main(["audit", "reports/all", "--table=cases.csv"]) == 0
    assert main(["audit", "reports/none"]) == 4
    (sheet / "empty.csv").write_text("question,answer\nQ?,x\n")
    assert main(["audit", "reports/all", "--table=empty.csv"]) == 4
    assert "nothing to look for" in capsys.readouterr().err


# --- folders -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_folders_are_made_for_their_owner_alone(tmp_path: Path, mask: int) -> None:
    old = os.umask(mask)
    try:
        make_private(tmp_path / "reports/run")
        make_private(tmp_path / "reports/run")
    finally:
        os.umask(old)
    for path in (tmp_path / "reports", tmp_path / "reports/run"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert (tmp_path / "reports" / IGNORE).read_bytes() == IGNORED
    assert IGNORED.startswith(b"*")


def test_folders_and_files_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir(mode=0o755)
    (tmp_path / "reports" / IGNORE).write_text("mine")
    make_private(tmp_path / "reports/run")
    assert stat.S_IMODE((tmp_path / "reports").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "reports/run").stat().st_mode) == 0o700
    assert (tmp_path / "reports" / IGNORE).read_text() == "mine"
    make_private(tmp_path / "answers")
    assert not (tmp_path / IGNORE).exists(), "a folder that is no folder of runs gets no file"


def test_reports_may_be_a_link_and_its_gitignore_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "reports").symlink_to(tmp_path / "large")
    (tmp_path / "large" / IGNORE).symlink_to(tmp_path / "elsewhere")
    make_private(tmp_path / "reports/run")
    assert (tmp_path / "large/run").is_dir()
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match="File exists"):
        make_private(tmp_path / "broken/run")


def test_reports_that_cannot_be_written_are_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "reports/run").mkdir(parents=True)
    (tmp_path / "reports").chmod(0o500)
    try:
        make_private(tmp_path / "reports/run")
    finally:
        (tmp_path / "reports").chmod(0o700)


def test_the_ignored_folder_is_ignored_by_git(tmp_path: Path) -> None:
    make_private(tmp_path / "reports/run")
    (tmp_path / "reports/run/results.jsonl").write_text("{}")
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    done = subprocess.run([*git, "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["..", "../escape", "/tmp/escape", "a/b", ".hidden", "", "x" * 200])
def test_a_run_cannot_leave_the_folder_of_runs(ward: pytest.Pytester, name: str) -> None:
    code, output = run(ward, f"--run={name}")
    assert (code == 4 and "a run's name is" in output) or name == ""
    assert not (ward.path / "escape").exists()
