"""`medvqa read`: pages of readers from a plan, what they hide, and readings that come back."""

import asyncio
import hashlib
import http.client
import json
import re
import stat
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.PngImagePlugin
import pytest

from medvqa import decode
from medvqa.cli import main
from medvqa.readings import study_plan
from medvqa.readings.study_plan import StudyRecord
from medvqa.report.html import reader_pages
from support.pages import HOSTILE, Page
from support.viewed import ADDRESS, View

HIDDEN = ("glioma", "Petermann", "PAT-77", "malignant_tag", "confusing-5", "cluster-9", "source/of", "schlüssel")
"""In the keys, ids, tags, pairs, clusters, names of files and further fields of the clinic's questions."""
CLINIC = """
from medvqa import Benchmark, Item
from medvqa.items import Image

HOSTILE = {hostile}

def items(data):
    for n in range(12):
        image = Image(f"source/of/Petermann_glioma_{{n}}.png")
        yield Item(
            f"glioma-PAT-77-{{n}}", "", "short_answer", f"What is this? {{HOSTILE[n % len(HOSTILE)]}}", {{}},
            ("glioma", "schlüssel"), (image,), tags={{"entity": ("malignant_tag",)}},
            pair_id=f"confusing-5{{n // 2}}", cluster_id="cluster-9", extra={{"report": "glioma of Petermann"}},
        )
        sides = {{"A": "left", "B": "right"}}
        yield Item(f"choice-glioma-{{n}}", "", "single_choice", f"Which side, {{n}}?", sides, ("B",))

clinic = Benchmark(name="clinic", items=items, public={public})
"""
PLAN = """
name = "Study"
benchmarks = ["clinic"]
readers = ["R1", "R2", "R3"]
overlap = 2
sitting = 6
margin = 5
"""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose data are private, with a plan."""
    (tmp_path / "source" / "of").mkdir(parents=True)
    about = PIL.PngImagePlugin.PngInfo()
    about.add_text("Patient", "Petermann, glioma")
    for n in range(12):
        name = f"Petermann_glioma_{n}.png"
        PIL.Image.effect_noise((40, 30), 50 + n).save(tmp_path / "source" / "of" / name, pnginfo=about)
    declare(tmp_path, public=False)
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declare(folder: Path, *, public: bool) -> None:
    (folder / "conftest.py").write_text(CLINIC.format(hostile=repr(HOSTILE), public=public))


def plan(folder: Path, *more: str) -> int:
    (folder / "plan.toml").write_text(PLAN + "\n".join(more))
    return main(["read", "plan.toml"])


def record_of(folder: Path) -> StudyRecord:
    record = study_plan.stored(folder / "plan")
    assert record is not None
    return record


def page_of(folder: Path, reader: str) -> Page:
    return Page((folder / "plan" / f"{reader}.html").read_text())


def export(folder: Path, reader: str, number: int | None = None, **changes: object) -> bytes:
    """The file that a reader's page exports after some questions."""
    head = page_of(folder, reader).block("head")
    lines = [head["study"]] + [
        {"reader": reader, "benchmark": task["benchmark"], "item": task["item"], "response": "B", "place": place}
        | {"sitting": task["sitting"], "seconds": 2.5, **changes}
        for place, task in enumerate(head["tasks"][:number], 1)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("beside", [False, True])
def test_readers_are_blind(clinic: Path, monkeypatch: pytest.MonkeyPatch, public: bool, beside: bool) -> None:
    """No block has a key, an id, a tag, a pair, a cluster, or the name of a file, however the data are declared."""
    declare(clinic, public=public)
    if beside:
        monkeypatch.setattr(reader_pages, "LARGEST", 0)
    assert plan(clinic) == 0
    for reader in ("R1", "R2", "R3"):
        page = page_of(clinic, reader)
        content = b"\n".join(page.bytes_of(name) for name in page.blocks)
        files = sorted((clinic / "plan" / "images").glob("*"))
        content += b"\n".join(file.name.encode() + file.read_bytes() for file in files)
        for hidden in (*HIDDEN, *map(json.dumps, HIDDEN), str(clinic), clinic.name):
            assert hidden.strip('"').casefold().encode() not in content.lower()
        head = page.block("head")
        assert not {"answers", "checked", "tags", "pair", "cluster", "extra"} & keys_of(head)
        images = [image for task in head["tasks"] for image in task["images"]]
        assert len(images) > 0
        assert {image["name"] for image in images} == {"Image 1"}
        there = {f"images/{file.name}" for file in files} if beside else page.blocks.keys()
        assert {image["source"] for image in images} <= there
        assert all((image["drawn_width"], image["exact"]) == (40, True) for image in images)


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_a_plan_makes_the_same_pages_each_time(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(clinic) == 0
    said = capsys.readouterr().out
    assert "wrote plan: 24 questions, each for 2 readers" in said
    assert "plan/R1.html: 16 questions, 3 sittings" in said
    assert "fixed before the first reading: 3 readers, a margin of 5 points" in said
    assert "not declared public (clinic): only you can read the files" in said
    written = {path.name: path.read_bytes() for path in (clinic / "plan").iterdir()}
    assert written.keys() == {"R1.html", "R2.html", "R3.html", "study.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (clinic / "plan").iterdir()} == {0o600}
    assert stat.S_IMODE((clinic / "plan").stat().st_mode) == 0o700
    assert plan(clinic) == 0
    assert written == {path.name: path.read_bytes() for path in (clinic / "plan").iterdir()}
    record = record_of(clinic)
    for reader, order in record.orders.items():
        tasks = page_of(clinic, reader).block("head")["tasks"]
        assert [(task["item"], task["sitting"]) for task in tasks] == order
        for code, _ in order:
            benchmark, id = record.questions[code]
            assert benchmark == "clinic"
            half = re.fullmatch(r"glioma-PAT-77-(\d+)", id)
            if half is not None:  # Its other half is read by the same reader.
                other = f"glioma-PAT-77-{int(half[1]) ^ 1}"
                assert other in {record.questions[each][1] for each, _ in order}


def test_the_policy_lets_a_page_speak_to_its_server_alone(clinic: Path) -> None:
    assert plan(clinic) == 0
    (policy,) = page_of(clinic, "R1").all("meta", http_equiv="Content-Security-Policy")
    assert policy.attributes["content"].startswith(
        "default-src 'none'; connect-src 'self'; img-src data:; style-src 'sha"
    )


def test_a_changed_plan_replaces_pages_only_without_readings(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(clinic) == 0
    (clinic / "plan.toml").write_text(PLAN.replace(', "R3"', ""))
    assert main(["read", "plan.toml"]) == 0
    assert sorted(path.name for path in (clinic / "plan").iterdir()) == ["R1.html", "R2.html", "study.json"]
    (clinic / "plan" / "received").mkdir()
    (clinic / "plan" / "received" / "R1.jsonl").write_bytes(export(clinic, "R1"))
    before = record_of(clinic)
    capsys.readouterr()
    assert plan(clinic, "seed = 1") == 4
    assert "received/R1.jsonl has readings of the earlier ones; name another folder with -o" in capsys.readouterr().err
    assert record_of(clinic) == before
    (clinic / "plan.toml").write_text(PLAN.replace(', "R3"', ""))
    assert main(["read", "plan.toml"]) == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (('select = "nothing_has_this"',), "plan.toml: no question is selected; change select or limit"),
        (("select = \"lexicon(organ='x')\"",), "select: no item has the dimension 'organ'"),
        (('select = "glioma and"',), "and"),
        (("limit = 1", 'select = "choice"'), "R2, R3|R1, R3|R1, R2"),
    ],
)
def test_a_plan_that_cannot_be_fulfilled_says_why(
    clinic: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    (clinic / "plan.toml").write_text(PLAN.replace("overlap = 2", "overlap = 1") + "\n".join(more))
    assert main(["read", "plan.toml"]) == 4
    assert re.search(said, capsys.readouterr().err)
    assert not (clinic / "plan").exists()


def test_limits_and_techniques(clinic: Path) -> None:
    assert (
        plan(clinic, "limit = 10", 'technique = "ff"', "confidence = false", 'arm = "with"', 'select = "choice"') == 0
    )
    head = page_of(clinic, "R1").block("head")
    assert len(record_of(clinic).questions) == 10
    assert (head["confidence"], head["arm"]) == (False, "with")
    assert all((task["kind"], task["options"]) == ("short_answer", []) for task in head["tasks"])


def test_an_image_that_cannot_be_read_stops_the_plan(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (clinic / "source" / "of" / "Petermann_glioma_3.png").write_bytes(b"damaged")
    assert plan(clinic) == 4
    error = capsys.readouterr().err
    assert "readers need every image" in error
    assert "Petermann" not in error
    assert not list((clinic / "plan").glob("*"))


def test_experts_see_keys(clinic: Path) -> None:
    assert plan(clinic, 'task = "review"') == 0
    head = page_of(clinic, "R1").block("head")
    assert head["task"] == head["study"]["task"] == "review"
    assert {tuple(task["checked"]["answers"]) for task in head["tasks"]} == {("B",), ("glioma", "schlüssel")}


def opinions(folder: Path, reader: str, study: str, *decisions: str, **more: object) -> bytes:
    """The export of an expert who decides so on the first questions of the page."""
    head = Page((folder / study / f"{reader}.html").read_text()).block("head")
    said = [
        {"reader": reader, "benchmark": "clinic", "item": task["item"], "decision": decision, "rating": 7, **more}
        for task, decision in zip(head["tasks"], decisions, strict=False)
    ]
    return "".join(json.dumps(line) + "\n" for line in [head["study"], *said]).encode()


def test_reviewers_disagree_and_one_decides(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The final page asks what is undecided, with the opinions and without codes of the reviewers."""
    two = PLAN.replace(', "R3"', "") + 'task = "review"\nselect = "choice"\n'
    (clinic / "plan.toml").write_text(two)
    assert main(["read", "plan.toml"]) == 0
    record = record_of(clinic)
    decisions = dict.fromkeys(record.questions, "accept")
    odd = sorted(decisions)[:3]
    for reader in ("R1", "R2"):
        own = decisions | (dict.fromkeys(odd, "reject") if reader == "R2" else {})
        codes = [code for code, _ in record.orders[reader]]
        reasons = {"reason": f"so says my {HOSTILE[0]}"}
        content = opinions(clinic, reader, "plan", *(own[code] for code in codes), **reasons)
        (clinic / "plan" / f"{reader}.jsonl").write_bytes(content)
    assert main(["read", "import", "plan/R1.jsonl", "plan/R2.jsonl"]) == 0
    assert "Next: medvqa read revise plan/readings.jsonl -o FOLDER\n" in capsys.readouterr().out
    (clinic / "final.toml").write_text(
        PLAN.replace('"R1", "R2", "R3"', '"Final1"').replace("overlap = 2", "")
        + 'task = "review"\nopinions = "plan/readings.jsonl"\n'
    )
    assert main(["read", "final.toml"]) == 0
    assert "wrote final: 3 questions" in capsys.readouterr().out
    final = study_plan.stored(clinic / "final")
    assert final is not None
    assert set(final.questions.values()) == {record.questions[code] for code in odd}
    for task in Page((clinic / "final" / "Final1.html").read_text()).block("head")["tasks"]:
        one, other = task["checked"]["opinions"]
        assert one.startswith("Reviewer 1: accept, 7 of 10")
        assert other.startswith("Reviewer 2: reject, 7 of 10")
        assert "so says my" in one
        assert not {"R1", "R2"} & set(re.findall(r"\w+", one + other))
    (clinic / "final" / "Final1.jsonl").write_bytes(
        opinions(clinic, "Final1", "final", "accept", "reject", "accept", final=True)
    )
    assert main(["read", "revise", "final/Final1.jsonl", "-o", "codes"]) == 4
    assert "first type medvqa read import FILE... --study FOLDER\n" in capsys.readouterr().err
    assert main(["read", "import", "final/Final1.jsonl"]) == 0
    # The decisions alone would lose what the reviewers agreed on.
    assert "Next: medvqa read revise OPINIONS final/readings.jsonl -o FOLDER\n" in capsys.readouterr().out
    assert main(["read", "revise", "plan/readings.jsonl", "final/readings.jsonl", "-o", "new"]) == 0
    assert len((clinic / "new" / "clinic.jsonl").read_text().splitlines()) == 23


def test_who_decides_sees_whole_pairs(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A correction of the question of one half needs the same in the other, and both may be undecided."""
    review = PLAN.replace("overlap = 2", 'task = "review"\nselect = "not choice"')
    (clinic / "plan.toml").write_text(review.replace(', "R3"', ""))
    assert main(["read", "plan.toml"]) == 0
    questions = record_of(clinic).questions
    halves = sorted(code for code, (_, id) in questions.items() if id in ("glioma-PAT-77-0", "glioma-PAT-77-1"))
    for reader in ("R1", "R2"):
        codes = [code for code, _ in record_of(clinic).orders[reader]]
        decisions = ["reject" if reader == "R2" and code == halves[0] else "accept" for code in codes]
        (clinic / f"{reader}.jsonl").write_bytes(opinions(clinic, reader, "plan", *decisions))
    assert main(["read", "import", "R1.jsonl", "R2.jsonl", "--study=plan"]) == 0
    final = review.replace('"R1", "R2", "R3"', '"F1"') + 'opinions = "plan/readings.jsonl"\n'
    (clinic / "final.toml").write_text(final)
    assert main(["read", "final.toml"]) == 0
    assert "wrote final: 2 questions" in capsys.readouterr().out
    same = {"final": True, "question": "What is it?"}
    (clinic / "F1.jsonl").write_bytes(opinions(clinic, "F1", "final", "correct", "correct", **same))
    assert main(["read", "import", "F1.jsonl", "--study=final"]) == 0
    assert main(["read", "revise", "plan/readings.jsonl", "final/readings.jsonl", "-o", "new"]) == 0
    assert "2 questions changed, 0 removed" in capsys.readouterr().out


def test_exports_are_joined(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(clinic) == 0
    inbox = clinic / "inbox"
    inbox.mkdir()
    (inbox / "a.jsonl").write_bytes(export(clinic, "R1"))
    (inbox / "b.jsonl").write_bytes(export(clinic, "R2", 3))
    capsys.readouterr()
    files = ["inbox/a.jsonl", "inbox/b.jsonl"]
    assert main(["read", "import", *files]) == 4
    assert "a.jsonl: name the folder of its study, which has study.json: --study FOLDER" in capsys.readouterr().err
    assert main(["read", "import", *files, "inbox/a.jsonl", "--study", "plan"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines() == [
        "wrote plan/readings.jsonl: 19 readings of 2 readers",
        "  R1: 16 of 16 questions",
        "  R2: 3 of 16 questions, 13 missing",
        "  R3: 0 of 16 questions, 16 missing",
        "Next: medvqa run --benchmark=clinic --model=human:plan/readings.jsonl",
    ]
    first, *lines = map(json.loads, (clinic / "plan" / "readings.jsonl").read_text().splitlines())
    record = record_of(clinic)
    assert (first["plan"], first["margin"], first.get("reader", "")) == (record.study.plan, 5.0, "")
    assert {line["item"] for line in lines} <= {id for _, id in record.questions.values()}
    ids = [record.questions[code][1] for code, _ in record.orders["R1"]]
    assert [line["item"] for line in lines if line["reader"] == "R1"] == ids
    assert stat.S_IMODE((clinic / "plan" / "readings.jsonl").stat().st_mode) == 0o600


def test_a_table_with_ids_is_joined_to_exports(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(clinic) == 0
    record = record_of(clinic)
    ids = [record.questions[code][1] for code, _ in record.orders["R3"]]
    (clinic / "plan" / "R1.jsonl").write_bytes(export(clinic, "R1"))
    (clinic / "r3.csv").write_text("id,reader,response\n" + "".join(f"{id},R3,A\n" for id in ids))
    assert main(["read", "import", "r3.csv", "plan/R1.jsonl", "-o", "all.jsonl"]) == 0
    assert "R3: 16 of 16 questions\n" in capsys.readouterr().out
    assert len((clinic / "all.jsonl").read_text().splitlines()) == 33
    table = "id,item,annotator,choice\n" + "".join(f"{n},{id},R3,{'AB'[n % 2]}\n" for n, id in enumerate(ids))
    (clinic / "studio.csv").write_text(table)
    assert main(["read", "revise", "all.jsonl", "-o", "new"]) == 4
    assert "no opinions: these files hold answers of readers" in capsys.readouterr().err
    assert main(["read", "import", "studio.csv", "--study", "plan", "-o", "r3.jsonl", "--set", "id=item"]) == 0
    assert "r3.jsonl: 16 readings of 1 reader\n" in capsys.readouterr().out
    assert main(["read", "import", "studio.csv", "--study", "plan", "--set", "ident=item"]) == 4
    assert "--set: no key 'ident'; there are: id, reader" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda c: export(c, "R1", 2, item="q-0000"), "bad.jsonl: the study has no question 'q-0000'"),
        (
            lambda c: export(c, "R1", 2).replace(b'"reader": "R1", "ben', b'"reader": "R9", "ben'),
            "no reader 'R9' is plan",
        ),
        (lambda c: re.sub(rb'"plan": "..', b'"plan": "zz', export(c, "R1", 2)), "are of another plan than study.json"),
        (lambda c: export(c, "R1", 2) + export(c, "R1", 1, response="A").splitlines()[1], "another answer"),
        (lambda c: export(c, "R1", 1, benchmark="else"), "the study has no question"),
        (lambda c: export(c, "R1", 1) + b"{", "bad.jsonl line 3"),
        (lambda c: b"\xff\xfe\x00", "bad.jsonl"),
        (lambda c: b"", "bad.jsonl: empty file"),
        (lambda c: export(c, "R1", 1, item="\x1b[31m"), "the study has no question"),
    ],
)
def test_wrong_readings_are_refused(clinic: Path, capsys: pytest.CaptureFixture[str], content: Any, said: str) -> None:
    assert plan(clinic) == 0
    (clinic / "plan" / "bad.jsonl").write_bytes(content(clinic))
    assert main(["read", "import", "plan/bad.jsonl"]) == 4
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert "\x1b" not in error
    assert not (clinic / "plan" / "readings.jsonl").exists()


def test_a_question_of_another_reader_is_refused(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(clinic) == 0
    record = record_of(clinic)
    (code,) = [code for code in record.questions if code not in dict(record.orders["R1"])][:1]
    (clinic / "plan" / "bad.jsonl").write_bytes(export(clinic, "R1", 1, item=code))
    assert main(["read", "import", "plan/bad.jsonl"]) == 4
    assert "is not assigned to R1" in capsys.readouterr().err
    ids = "".join(f"{id},R2,B\n" for _, id in record.questions.values())
    (clinic / "all.csv").write_text(f"id,reader,response\n{ids}none,R2,B\n")
    assert main(["read", "import", "all.csv", "--study=plan"]) == 4
    assert "all.csv: 9 of 25 readings are wrong; the first: question '" in capsys.readouterr().err


def test_readers_of_groups_have_files_and_come_back(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (clinic / "plan.toml").write_text(PLAN.replace('"R1", "R2", "R3"', '"primary/R1", "senior/R1"'))
    assert main(["read", "plan.toml"]) == 0
    assert {path.name for path in (clinic / "plan").glob("*.html")} == {"primary-R1.html", "senior-R1.html"}
    head = page_of(clinic, "senior-R1").block("head")
    assert head["study"]["reader"] == "senior/R1"
    own = {"reader": "senior/R1", "benchmark": "clinic", "item": head["tasks"][0]["item"], "response": "B"}
    content = f"{json.dumps(head['study'])}\n{json.dumps(own)}\n".encode()
    studies = pytest.importorskip("medvqa.view.studies")
    studies.save(clinic / "plan", record_of(clinic), "senior/R1", content, hashlib.sha256(b"").hexdigest()[:32])
    assert main(["read", "import", "plan"]) == 0
    assert "senior/R1: 1 of 24 questions" in capsys.readouterr().out
    assert (clinic / "plan" / "received" / "senior-R1.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.toml"], "nowhere.toml: cannot be read: No such file"),
        (["plan.toml", "more.jsonl"], "files are joined by medvqa read import FILE..."),
        (["import"], "name the files: medvqa read import FILE..."),
        (["revise", "x.jsonl"], "name the folder of the new version: medvqa read revise FILE... -o FOLDER"),
        (["plan.toml", "--study=plan"], "--study goes with medvqa read import"),
        (["plan.toml", "--benchmark=clinic"], "--benchmark goes with medvqa read import or revise"),
        (["import", "x.jsonl", "--keep-from=5"], "--keep-from goes with medvqa read revise"),
        (["import", "x.jsonl", "--study=nowhere"], "no study folder, which has study.json"),
        (["source"], "source: a folder, and no study: name the file of a plan"),
    ],
)
def test_what_is_typed_wrong_is_answered(
    clinic: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["read", *words]) == 4
    assert said in capsys.readouterr().err


def test_a_damaged_record_is_refused(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(clinic) == 0
    text = (clinic / "plan" / "study.json").read_text()
    for damaged in (text[:50], text.replace('"R1":[', '"../R1":[')):
        (clinic / "plan" / "study.json").write_text(damaged)
        assert plan(clinic) == 4
        assert "study.json" in capsys.readouterr().err


class ReaderClient:
    """A browser with a reader's cookie."""

    def __init__(self, address: str) -> None:
        self.host, self.token = re.fullmatch(r"http://([^/]+)/\?token=(.+)", address).groups()  # type: ignore[union-attr]
        self.cookie = {"Cookie": f"medvqa-view-{self.host.partition(':')[2]}={self.token}"}

    def asked(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        with closing(http.client.HTTPConnection(self.host, timeout=30)) as connection:
            sent = self.cookie | {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, sent)
            reply = connection.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()

    def saved(self, body: bytes, etag: str) -> tuple[int, str]:
        """The status and the new tag, or the reason, of saved readings."""
        status, headers, content = self.asked(
            "/api/reading", "PUT", body, Origin=f"http://{self.host}", If_Match=f'"{etag}"'
        )
        return status, headers["etag"].strip('"') if status == 200 else json.loads(content)["error"]


def test_view_serves_each_reader_one_page(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvicorn")
    monkeypatch.setattr(reader_pages, "LARGEST", 0)
    assert plan(clinic) == 0
    with View(clinic / "plan") as view:
        assert view.process.stdout is not None
        addresses = [view.address]
        for line in view.process.stdout:
            addresses += ADDRESS.findall(line)
            if len(addresses) == 3:
                break
        one, two, _ = map(ReaderClient, addresses)
        assert len({one.token, two.token}) == 2

        # An address is exchanged for a cookie, also in a browser that has that of another reader.
        status, headers, _ = one.asked(f"/?token={two.token}")
        assert (status, headers["location"]) == (303, "/")
        assert headers["set-cookie"].startswith(two.cookie["Cookie"] + "; HttpOnly; SameSite=Strict")
        assert one.asked("/?token=else")[1]["set-cookie"].startswith(one.cookie["Cookie"])

        # Each sees the own page, marked as a served one, under its policy.
        for client, reader in ((one, "R1"), (two, "R2")):
            status, headers, body = client.asked("/")
            assert status == 200
            assert (
                body.replace(b'<meta name="medvqa-view" content="1">', b"", 1)
                == (clinic / "plan" / f"{reader}.html").read_bytes()
            )
            (policy,) = Page(body.decode()).all("meta", http_equiv="Content-Security-Policy")
            assert headers["content-security-policy"] == f"{policy.attributes['content']}; frame-ancestors 'none'"
            (source, *_) = [i["source"] for t in Page(body.decode()).block("head")["tasks"] for i in t["images"]]
            assert client.asked(f"/{source}")[0::2] == (200, (clinic / "plan" / source).read_bytes())
            assert client.asked(f"/images/{64 * '0'}.png")[0] == 404
        for path in (
            "/study.json",
            "/R2.html",
            "/api/runs",
            "/runs/plan",
            "/received/R1.jsonl",
            "/images/..%2fR2.html",
        ):
            assert one.asked(path)[0] == 404
        one.cookie["Cookie"] += "x"
        assert one.asked("/")[0] == one.asked("/api/reading")[0] == 403
        one.cookie["Cookie"] = one.cookie["Cookie"][:-1]

        # Readings are kept, and are those of this reader alone.
        status, headers, body = one.asked("/api/reading")
        assert (status, body) == (200, b"")
        empty = headers["etag"].strip('"')
        first, whole = export(clinic, "R1", 2), export(clinic, "R1")
        status, etag = one.saved(first, empty)
        assert status == 200
        assert (clinic / "plan" / "received" / "R1.jsonl").read_bytes() == first
        assert stat.S_IMODE((clinic / "plan" / "received").stat().st_mode) == 0o700
        assert one.asked("/api/reading")[2] == first
        assert two.asked("/api/reading")[2] == b""
        assert one.saved(whole, empty)[0] == 412
        assert one.saved(whole, etag)[0] == 200
        assert one.asked("/api/reading", "PUT", whole, If_Match='""')[0] == 403  # no page of this server
        for wrong, said in (
            (export(clinic, "R2", 2), "no readings of R1"),
            (first.replace(b'"reader": "R1", "ben', b'"reader": "R2", "ben'), "no readings of R1"),
            (re.sub(rb'"plan": "..', b'"plan": "zz', first), "no readings of R1"),
            (export(clinic, "R1", 2, item="glioma-PAT-77-0"), "no readings of R1"),
            (first + b"{", "line 4"),
            (b"", "empty"),
        ):
            status, reason = one.saved(wrong, etag)
            assert status == 422
            assert said in reason
        assert (clinic / "plan" / "received" / "R1.jsonl").read_bytes() == whole
        assert two.asked("/api/reading")[2] == b""
    assert main(["read", "import", "plan"]) == 0
    assert len((clinic / "plan" / "readings.jsonl").read_text().splitlines()) == 17


def test_the_folder_of_a_study_is_no_plan(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(clinic) == 0
    assert main(["read", "plan"]) == 4
    assert "plan: a study; type medvqa view plan, or name the file of a plan" in capsys.readouterr().err


def test_without_a_folder_of_images_there_is_no_address_of_one(clinic: Path) -> None:
    studies = pytest.importorskip("medvqa.view.studies")
    assert plan(clinic) == 0
    status = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        status.append(message.get("status"))

    async def ask() -> None:
        scope = {"type": "http", "method": "GET", "path": "/images/1.png", "headers": [], "medvqa.holder": "R1"}
        await studies.application(clinic / "plan", record_of(clinic))(scope, receive, send)

    asyncio.run(ask())
    assert status[0] == 404


def test_a_folder_of_images_that_is_no_study_is_left_alone(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (clinic / "plan" / "images").mkdir(parents=True)
    (clinic / "plan" / "images" / "scan.png").write_bytes(b"mine")
    assert plan(clinic) == 4
    assert "plan/images is there, and of no study: name another folder with -o FOLDER" in capsys.readouterr().err
    assert [path.name for path in (clinic / "plan").rglob("*")] == ["images", "scan.png"]


def test_a_later_import_loses_no_reading_of_an_earlier_one(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(clinic) == 0
    for reader, number in (("R1", 3), ("R2", 16), ("R1b", 16)):
        (clinic / "plan" / f"{reader}.jsonl").write_bytes(export(clinic, reader[:2], number))
    joined = clinic / "plan" / "readings.jsonl"
    assert main(["read", "import", "plan/R1.jsonl"]) == 0
    assert main(["read", "import", "plan/R1b.jsonl"]) == 0  # R1 has gone on.
    before = joined.read_bytes()
    capsys.readouterr()
    assert main(["read", "import", "plan/R2.jsonl"]) == 4
    error = capsys.readouterr().err
    assert "plan/readings.jsonl has readings of R1 that the named files lack: name it too, medvqa read import " in error
    assert joined.read_bytes() == before
    assert main(["read", "import", "plan/readings.jsonl", "plan/R2.jsonl"]) == 0
    assert "wrote plan/readings.jsonl: 32 readings of 2 readers" in capsys.readouterr().out
    joined.write_text("no file of readings")
    assert main(["read", "import", "plan/R2.jsonl"]) == 4
    assert joined.read_text() == "no file of readings"


def test_a_failed_plan_leaves_the_pages_of_the_one_before(clinic: Path) -> None:
    assert plan(clinic) == 0
    before = {path.name: path.read_bytes() for path in (clinic / "plan").iterdir()}
    (clinic / "source" / "of" / "Petermann_glioma_3.png").write_bytes(b"damaged")
    assert plan(clinic, "seed = 1") == 4
    assert before == {path.name: path.read_bytes() for path in (clinic / "plan").iterdir()}


def test_exports_of_other_editors_are_read(clinic: Path) -> None:
    """A byte order mark, lines that end in CRLF, and lines that are there twice."""
    assert plan(clinic) == 0
    content = export(clinic, "R1")
    edited = (content + content.splitlines()[3]).replace(b"\n", b"\r\n")
    (clinic / "plan" / "R1.jsonl").write_bytes(b"\xef\xbb\xbf" + edited)
    assert main(["read", "import", "plan/R1.jsonl"]) == 0
    assert len((clinic / "plan" / "readings.jsonl").read_text().splitlines()) == 17


def test_nothing_was_received_yet(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(clinic) == 0
    assert main(["read", "import", "plan"]) == 4
    assert "plan: nothing was received yet in plan/received; name the files" in capsys.readouterr().err


def test_a_plan_of_a_table_is_read_from_its_own_folder(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The TOML file of a table is found beside the plan, and the next command names it from anywhere."""
    ward = clinic / "ward"
    ward.mkdir()
    rows = "".join(f"{n},Is {n} even?,{('yes', 'no')[n % 2]}\n" for n in range(8))
    (ward / "cases.csv").write_text(f"id,question,answer\n{rows}")
    assert main(["import", str(ward / "cases.csv"), f"--to={ward / 'cases.toml'}", "--yes"]) == 0
    (ward / "plan.toml").write_text(PLAN.replace('"clinic"', '"cases.toml"'))
    assert main(["read", "ward/plan.toml"]) == 0
    record = record_of(clinic)
    assert record.benchmarks == [str(ward / "cases.toml")]
    assert record.study.benchmarks.keys() == {"cases"}
    assert decode.decode(ward / "plan.toml", study_plan.ReadingPlan).overlap == 2
    (ward / "check.toml").write_text(PLAN.replace('"clinic"', '"cases.toml"') + 'task = "review"\n')
    assert main(["read", "ward/check.toml", "-o", "check"]) == 0
    head = Page((clinic / "check" / "R1.html").read_text()).block("head")
    own = {"reader": "R1", "benchmark": "cases", "item": head["tasks"][0]["item"], "decision": "accept"}
    (clinic / "check" / "R1.jsonl").write_text(f"{json.dumps(head['study'])}\n{json.dumps(own)}\n")
    capsys.readouterr()
    assert main(["read", "import", "check/R1.jsonl"]) == 0
    said = capsys.readouterr().out
    assert "1 opinion of 1 reviewer\n" in said
    assert f"revise check/readings.jsonl --benchmark={ward / 'cases.toml'} -o FOLDER\n" in said
