"""Runs that share answers through real counterparts of object stores, which fail as stores do."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import processes
from support.buckets import Bucket, Proxy, azurite, moto
from support.repositories import Repository, await_calls, await_results, kill_group

obstore = pytest.importorskip("obstore")
pytestmark = [pytest.mark.slow, pytest.mark.sessions]

LEAKS = ("Authorization:", "AWS4-HMAC", "Credential=", "Signature=", "sig=", "SharedKey", "\x1b[31m")
"""What belongs to a request or its refusal, and to no file and no output."""
HASTE = """
import os
from medvqa.records import exchange

exchange.LAST = float(os.environ.get("LAST_PUTS", 3))
exchange.Exchange.__init__.__kwdefaults__.update(first=0.2, every=0.2)
"""
"""Puts answers sooner, so that a short run has several logs, and gives a dead store up sooner."""


@pytest.fixture(scope="module")
def s3() -> Iterator[Bucket]:
    with moto() as bucket:
        yield bucket


@pytest.fixture(scope="module")
def azure() -> Iterator[Bucket]:
    with azurite() as bucket:
        yield bucket


@pytest.fixture(params=["s3", "azure"])
def either(request: pytest.FixtureRequest) -> Bucket:
    return request.getfixturevalue(request.param)


class Machine(Repository):
    """A machine of its own: a repository and a home that share nothing with others but a bucket."""

    def __init__(self, path: Path, bucket: Bucket, proxy: Proxy | None, items: int) -> None:
        path.mkdir()
        reached = bucket if proxy is None else bucket.behind(proxy)
        super().__init__(path / "repository", items, dict(reached.environment))
        with (self.path / "conftest.py").open("a") as file:
            file.write(HASTE)
        self.bucket = bucket
        self.url = bucket.url

    def share(self, *arguments: str, model: str = "slow:0", run: str = "run") -> tuple[int, str]:
        return self.run(f"--model={model}", f"--run={run}", f"--answers={self.url}", *arguments)

    def begin_run(self, *, model: str) -> Any:
        """The same by the command `medvqa run`."""
        arguments = ("--plugin=conftest.py", "--benchmark=slow", f"--model={model}", "--run=run")
        return processes.Popen(
            [sys.executable, "-m", "medvqa.cli", "run", *arguments, f"--answers={self.url}"],
            cwd=self.path,
            env=os.environ | {"ITEMS": str(self.items)} | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def begin(self, *arguments: str, model: str = "slow:0", run: str = "run") -> Any:
        return self.start(f"--model={model}", f"--run={run}", f"--answers={self.url}", *arguments)


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Machine]:
    """Make machines; each is another one, and its bucket has a prefix of this test."""
    count = iter(range(9))

    def make(bucket: Bucket, proxy: Proxy | None = None, items: int = 40) -> Machine:
        return Machine(tmp_path / f"machine{next(count)}", bucket.under(tmp_path.name), proxy, items)

    return make


def check_no_leak(machine: Machine, bucket: Bucket, output: str) -> None:
    """No file of the machine and no output holds a credential, a part of a signed request, or a traceback."""
    assert not {text for text in ("Traceback", "Task was destroyed", "never awaited", "Debug source") if text in output}
    forbidden = [text.encode() for text in (*bucket.secrets, *LEAKS)]
    files = {path: path.read_bytes() for path in machine.path.parent.rglob("*") if path.is_file()}
    assert any(path.name == "run.json" for path in files) or "error" in output.lower(), "else nothing is looked at"
    for name, content in [("output", output.encode()), *files.items()]:
        assert [text for text in forbidden if text in content] == [], name


def shared_keys(bucket: Bucket) -> Counter[bytes]:
    """How often each answer stands in the logs of a bucket, by its key."""
    return Counter(
        key for content in bucket.content().values() for key in re.findall(rb" answer/([0-9a-f]{64}) ", content)
    )


def read_until(session: Any, text: str) -> str:
    """Return the output of a session up to a line that holds the text, or its end."""
    lines: list[str] = []
    while (not lines or text not in lines[-1]) and (line := session.stdout.readline()):
        lines.append(line)
    return "".join(lines)


# --- what was answered on one machine is found on another -----------------------------------------------------


def test_another_machine_reuses_every_answer(either: Bucket, machine: Callable[..., Machine]) -> None:
    one, two = machine(either), machine(either)
    code, output = one.share("-n2")
    assert code == 0, output
    assert sum(one.asked.values()) == 40
    check_no_leak(one, either, output)
    code, again = two.share()
    assert code == 0, again
    assert not two.asked
    assert "40 stored ones reused, 0 asked for" in again
    assert two.measures("run") == one.measures("run")
    check_no_leak(two, either, again)
    assert set(shared_keys(one.bucket).values()) == {1}


def test_two_preempted_halves_give_the_measures_of_a_whole_run(s3: Bucket, machine: Callable[..., Machine]) -> None:
    one, two, whole = (machine(s3, items=160) for _ in range(3))
    session = one.begin(model="slow:15")
    await_results(one, "run", 4, session)
    session.send_signal(signal.SIGTERM)
    output, _ = session.communicate(timeout=60)
    assert "to go on: pytest" in output
    shared = shared_keys(one.bucket).total()
    assert one.lines("run") <= shared < 160
    code, again = two.share("-n2", model="slow:15")
    assert code == 0, again
    assert sum(two.asked.values()) == 160 - shared
    assert whole.run("--model=slow:15", "--run=run")[0] == 0
    assert two.measures("run") == whole.measures("run")


# --- stores that fail -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "told"),
    [("unavailable", "status 503"), ("refuse", "connection refused"), ("cut", "the connection was closed")],
)
def test_an_outage_costs_no_answer(s3: Bucket, machine: Callable[..., Machine], fault: str, told: str) -> None:
    """A run goes on while puts fail, and says so; when the store is back, they are made up for."""
    with Proxy(s3) as proxy:
        one = machine(s3, proxy)
        session = one.begin(model="slow:60")
        await_calls(one, 1, session)
        proxy.fail(fault)
        output = read_until(session, "cannot be put into")
        proxy.mend()
        output += session.stdout.read()
        assert session.wait() == 0, output
        assert one.lines("run") == 40
        check_no_leak(one, s3, output)
    assert f"answers cannot be put into {one.url}: {told}" in output
    assert f"answers are put into {one.url} again" in output
    assert len(shared_keys(one.bucket)) == 40


def test_a_put_whose_answer_was_lost_is_no_second_answer(s3: Bucket, machine: Callable[..., Machine]) -> None:
    with Proxy(s3) as proxy:
        one = machine(s3, proxy)
        proxy.fail("swallow", times=2, only="PUT")
        code, output = one.share()
        assert code == 0, output
        assert proxy.puts >= 2
    assert shared_keys(one.bucket).total() == 40


@pytest.mark.parametrize("ended", ["alone", "by SIGTERM", "medvqa run by SIGTERM"])
def test_a_hung_store_holds_no_run(s3: Bucket, machine: Callable[..., Machine], ended: str) -> None:
    """The last puts are given up at their deadline; the answers stay in the local folder, and a line says so."""
    with Proxy(s3) as proxy:
        one = machine(s3, proxy)
        if ended != "alone":
            one.environment["LAST_PUTS"] = "300"
        session = one.begin(model="slow:30") if "run" not in ended else one.begin_run(model="slow:30")
        await_calls(one, 1, session)
        proxy.fail("hang")
        await_calls(one, 3, session)
        begun = time.monotonic()
        if ended != "alone":
            session.send_signal(signal.SIGTERM)
        try:
            output, _ = session.communicate(timeout=120)
        finally:
            if session.poll() is None:
                kill_group(session)
        took = time.monotonic() - begun
    print(f"ended {ended} after {took:.1f} s")
    assert session.returncode == (0 if ended == "alone" else 2), output
    check_no_leak(one, s3, output)
    assert f"are not in {one.url}. They are safe in" in output
    one.environment = dict(s3.environment)
    code, again = one.share(run="later")
    assert code == 0, again
    assert set(one.asked.values()) == {1}
    assert len(shared_keys(one.bucket)) == 40


@pytest.mark.parametrize("fault", ["unavailable", "short"])
def test_a_store_that_falters_is_read_whole(s3: Bucket, machine: Callable[..., Machine], fault: str) -> None:
    machine(s3).share()
    with Proxy(s3) as proxy:
        two = machine(s3, proxy)
        proxy.fail(fault, times=1, only=".log")
        code, output = two.share()
    assert code == 0, output
    assert not two.asked
    check_no_leak(two, s3, output)


def test_half_of_a_log_is_no_answer(s3: Bucket, machine: Callable[..., Machine]) -> None:
    one, two = machine(s3), machine(s3)
    one.share()
    under = one.bucket
    broken = s3.under(f"{one.path.parents[1].name}-broken")
    for path, content in under.content().items():
        obstore.put(broken.store(), path, content[: len(content) * 2 // 3], mode="create")
    two.url = broken.url
    code, output = two.share()
    assert code == 0, output
    assert sum(two.asked.values()) == 40
    assert two.measures("run") == one.measures("run")


# --- stores that cannot be used -------------------------------------------------------------------------------


def test_a_refused_store_ends_a_run_before_anything_is_asked(s3: Bucket, machine: Callable[..., Machine]) -> None:
    with Proxy(s3) as proxy:
        one = machine(s3, proxy)
        proxy.fail("denied")
        check_refused(one, s3, "403")


def test_a_wrong_key_ends_a_run_before_anything_is_asked(azure: Bucket, machine: Callable[..., Machine]) -> None:
    one = machine(azure)
    one.environment["AZURE_STORAGE_ACCOUNT_KEY"] = "AAAA" + azure.secrets[0][4:]
    check_refused(one, azure, "403", "AAAA" + azure.secrets[0][4:])


def test_a_missing_bucket_ends_a_run_before_anything_is_asked(either: Bucket, machine: Callable[..., Machine]) -> None:
    one = machine(either)
    one.url = one.url.replace("answers", "missing", 1)
    check_refused(one, either, "404")


def check_refused(machine: Machine, bucket: Bucket, told: str, *secrets: str) -> None:
    code, output = machine.share()
    assert code == 4, output
    assert not machine.asked
    errors = [line for line in output.splitlines() if machine.url in line]
    assert len(errors) == 1, output
    assert told in errors[0]
    assert not any(secret in output for secret in secrets)
    check_no_leak(machine, bucket, output)
