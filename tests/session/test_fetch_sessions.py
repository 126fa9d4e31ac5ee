"""`medvqa fetch`, typed: benchmarks arrive from servers on this machine, and a killed call is continued."""

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import gmai_mmbench, mediconfusion
from medvqa.cli import main
from medvqa.fetching import fetch
from medvqa.fetching.web import Manners
from medvqa.items import Benchmark, Origin
from support import processes
from support.stores import Asked, FileServer, Sent, ranged

QUICK = Manners(timeout=2, attempts=2, first_wait=0.01, longest_wait=0.1, pause=0, jobs=4)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setattr(fetch, "MANNERS", QUICK)


def image_of(file: str) -> bytes:
    """The bytes of an article's file."""
    return b"\xff\xd8\xff" + file.encode()


class Publisher:
    """The hub and the store of articles on one server; each misbehaves the first times it is asked for a file."""

    def __init__(self) -> None:
        self.missing = {"PMC5034018"}
        self.files = {f"{one.article}.2/{one.file}": image_of(one.file) for one in mediconfusion.released()}
        self.hub: dict[str, bytes] = {}
        self.gated = False
        self.seen: set[str] = set()

    def __call__(self, n: int, asked: Asked) -> Sent:
        parts = urlsplit(asked.path)
        path = unquote(parts.path)
        if path.startswith("/hub/"):
            if self.gated:
                return Sent(b"", 403, {"X-Error-Code": "GatedRepo"})
            content = self.hub[path.rpartition("/")[2]]
            tag = {"X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"'}
            sent = ranged(content, asked)
            return replace(sent, headers=sent.headers | tag)
        if parts.query:
            prefix = parse_qs(parts.query)["prefix"][0]
            return Sent(self.listing(prefix))
        key = path.removeprefix("/pmc/")
        if key not in self.seen and hash(key) % 7 == 0:
            self.seen.add(key)
            return replace(ranged(self.files[key], asked), cut=3)
        return ranged(self.files[key], asked)

    def listing(self, prefix: str) -> bytes:
        entries = "".join(
            f"<Contents><Key>{key}</Key><ETag>&quot;{hashlib.md5(content).hexdigest()}&quot;</ETag>"
            f"<Size>{len(content)}</Size></Contents>"
            for key, content in self.files.items()
            if key.startswith(prefix) and prefix.rstrip(".") not in self.missing
        )
        return f"<ListBucketResult>{entries}</ListBucketResult>".encode()


@pytest.fixture
def publisher() -> Iterator[tuple[Publisher, FileServer, list[str]]]:
    """The publisher, its server, and the options that name it."""
    script = Publisher()
    with FileServer(script) as server:
        mirrors = [f"--mirror={server.url}/hub", f"--mirror=pmc-oa-opendata.s3.amazonaws.com={server.url}/pmc"]
        yield script, server, mirrors


def dataset() -> bytes:
    """One pair in the released format."""
    first, second = mediconfusion.released()[:2]
    pair = {
        **{"im_1": first.roco, "im_1_local": int(first.image), "im_1_correct": "A", "category_1": ["Spinal"]},
        **{"im_2": second.roco, "im_2_local": int(second.image), "im_2_correct": "B", "category_2": ["Spinal"]},
        **{"question": "Which?", "option_A": "a", "option_B": "b", "BiomedCLIP_sim": 0.9, "DINO_sim": 0.5},
    }
    return json.dumps({"10001": pair}).encode()


def with_digest(benchmark: Benchmark, content: bytes) -> Benchmark:
    """Return the benchmark with other contents of its files from the hub."""
    assert benchmark.origin is not None
    files = tuple(
        replace(file, size=0, digest=f"md5:{hashlib.md5(content).hexdigest()}", also=()) if file.digest else file
        for file in benchmark.origin.files
    )
    return replace(benchmark, origin=replace(benchmark.origin, files=files))


def test_mediconfusion_arrives_from_the_hub_and_the_store_of_articles(
    publisher: tuple[Publisher, FileServer, list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    script, server, mirrors = publisher
    script.hub["dataset.json"] = dataset()
    monkeypatch.setattr(mediconfusion, "BENCHMARKS", (with_digest(mediconfusion.BENCHMARKS[0], dataset()),))
    assert main(["fetch", "mediconfusion", "--data=DATA", *mirrors]) == 1
    said = capsys.readouterr()
    assert "medvqa: mediconfusion: MIT; each image has the licence of its article; https://github.com/" in said.err
    assert "; the images come from the publisher's open-data store; no digests of them are published; " in said.err
    assert "mediconfusion: incomplete, 228 of 229 files in " in said.out
    assert "227 files have no published digest: SHA-256 recorded in " in said.out
    listed = said.out.partition("Could not be had:\n")[2].splitlines()
    assert listed == [
        "  mediconfusion/images/20000.jpg: PMC5034018 is not in the store https://pmc-oa-opendata.s3.amazonaws.com; "
        "look at https://pmc.ncbi.nlm.nih.gov/articles/PMC5034018/"
    ]
    (loaded,) = {item.pair_id for item in benchmarks.load(mediconfusion.BENCHMARKS[0], tmp_path / "DATA")}
    assert loaded == "10001"
    for one in mediconfusion.released()[1:]:
        assert (tmp_path / "DATA/mediconfusion/images" / f"{one.image}.jpg").read_bytes() == image_of(one.file)
    # The second source: a folder of ROCO.
    roco = tmp_path / "roco" / mediconfusion.released()[0].roco
    roco.parent.mkdir(parents=True)
    roco.write_bytes(image_of("from ROCO"))
    before = len(server.asked)
    assert main(["fetch", "mediconfusion", "--data=DATA", "--from=roco", *mirrors]) == 0
    assert "mediconfusion: complete, 229 files, " in capsys.readouterr().out
    assert len(server.asked) == before
    # An image that changes later is noticed, without a digest that its owners publish.
    (tmp_path / "DATA/mediconfusion/images/20007.jpg").write_bytes(image_of("other"))
    assert main(["fetch", "mediconfusion", "--data=DATA", "--offline"]) == 1
    assert "20007.jpg has changed since 20" in capsys.readouterr().out


def test_gmai_mmbench_says_what_to_accept_and_then_arrives(
    publisher: tuple[Publisher, FileServer, list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, server, mirrors = publisher
    content = b"index\timage\n" * 1000
    released = tuple(with_digest(benchmark, content) for benchmark in gmai_mmbench.BENCHMARKS)
    monkeypatch.setattr(gmai_mmbench, "BENCHMARKS", released)
    script.hub = {file.at: content for one in released for file in (one.origin or Origin(licence="", home="")).files}
    script.gated = True
    assert main(["fetch", "gmai-mmbench", "--data=DATA", *mirrors]) == 1
    said = capsys.readouterr().out
    assert "gmai-mmbench-test: incomplete, 0 of 11 files" in said
    assert "Open https://huggingface.co/datasets/OpenGVLab/GMAI-MMBench, and agree there to share your contact" in said
    assert said.count("the hub gives OpenGVLab/GMAI-MMBench only to accounts") == 1
    script.gated = False
    assert main(["fetch", "gmai-mmbench", "--data=DATA", *mirrors]) == 0
    said = capsys.readouterr().out
    assert "gmai-mmbench-val: complete, 1 file, 12.0 kB" in said
    assert "gmai-mmbench-test: complete, 11 files, 132 kB" in said
    assert all(asked.headers["Authorization"] is None for asked in server.asked), "a mirror gets no token"


def test_benchmarks_without_a_download(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "phantom", "--data=DATA"]) == 0
    assert "needs no files from elsewhere; nothing to fetch" in capsys.readouterr().out
    assert main(["fetch", "medlesionvqa-val", "phantom", "--data=DATA"]) == 1
    assert "Its owners give it on request: write to the authors" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["phantom"], "name the data folder: medvqa fetch NAME --data=DIR, or set MEDVQA_DATA"),
        (["phantm", "--data=DATA"], "no benchmark 'phantm'. Did you mean 'phantom'?"),
        (["phantom", "--data="], "--data: a value is empty"),
        (["phantom", "--data=DATA", "--from=nowhere"], "--from=nowhere: no such folder"),
        (["phantom", "--data=DATA", "--mirror=hub"], "--mirror=hub: write --mirror=URL"),
    ],
)
def test_options_that_cannot_be_used(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", *arguments]) == 4
    assert words in capsys.readouterr().err


PROVIDED = """
from pathlib import Path

from medvqa.items import Benchmark, Origin, OriginFile

stars = Benchmark(
    name="stars",
    items=lambda data: [],
    origin=Origin(
        reads=("stars/*.bin",),
        licence="CC0 1.0",
        home="https://example.org",
        files=tuple(
            OriginFile(to=f"stars/{n}.bin", at=f"URL/{n}.bin", digest="md5:DIGEST") for n in range(3)
        ),
    ),
)
"""


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_call_is_continued_where_it_ended(tmp_path: Path, ended_by: signal.Signals) -> None:
    content = os.urandom(2**20)
    slow = True

    def script(n: int, asked: Asked) -> Sent:
        return ranged(content, asked, **({"drip": 0.05, "piece": 2**15} if slow else {}))

    data = tmp_path / "DATA" / "stars"
    with FileServer(script) as server:
        digest = hashlib.md5(content).hexdigest()
        (tmp_path / "conftest.py").write_text(PROVIDED.replace("URL", server.url).replace("DIGEST", digest))
        command = [sys.executable, "-m", "medvqa.cli", "fetch", "stars", "--data=DATA"]
        begun = processes.Popen(command, cwd=tmp_path)
        until = time.monotonic() + 30
        while time.monotonic() < until and len([path for path in data.glob("*.part") if path.stat().st_size]) < 3:
            time.sleep(0.01)
        begun.send_signal(ended_by)
        assert begun.wait(30) in (2, -signal.SIGKILL)
        held = {path.name.removesuffix(".part"): path.stat().st_size for path in data.glob("*.part")}
        assert set(held) == {"0.bin", "1.bin", "2.bin"}
        assert all(0 < size < len(content) for size in held.values())
        slow, before = False, len(server.asked)
        done = processes.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {asked.path.strip("/"): asked.start for asked in server.asked[before:]} == held
    assert {path.name for path in data.iterdir()} == {*held, ".medvqa-fetch.jsonl"}
    assert all((data / name).read_bytes() == content for name in held)
