"""What may leave this machine: data that are declared public, or anything to hosts that the user allows."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import metrics, scoring
from medvqa.backend import Backend, destinations
from medvqa.backends import reaching
from medvqa.items import Benchmark, Prompt, UsageError
from medvqa.session import uploads
from medvqa.session.chosen import Chosen
from support.servers import Reply, Server, completion

COUNTS = {"ward": "3 questions and 2 images", "open": "5 questions"}
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def benchmark(name: str, *, public: bool) -> Benchmark:
    return Benchmark(
        name=name,
        items=lambda data: (),
        prompt=lambda item, technique: Prompt(""),
        score=scoring.score_single_choice,
        metrics=(metrics.accuracy,),
        public=public,
    )


KNOWN = {"ward": benchmark("ward", public=False), "open": benchmark("open", public=True)}


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def sending(origin: str | None) -> Backend:
    class Far(Backend):
        sends_to = origin

        def generate(self, prompts: Any) -> Any:
            return []

    return Far()


def chosen(model: Backend, role: Any = "model") -> Chosen:
    return Chosen("far", role, None, model)  # type: ignore[arg-type]  # a config is not looked at


def check(origin: str | None, root: Path, *names: str) -> None:
    counts = {name: COUNTS[name] for name in names or ("ward",)}
    uploads.check_sent(chosen(sending(origin)), counts, KNOWN, root)


def allow(root: Path, *hosts: str) -> Path:
    listed = ", ".join(f"'{host}'" for host in hosts)
    (root / "pyproject.toml").write_text(f"[tool.medvqa]\nallowed_hosts = [{listed}]\n")
    return root


def test_a_benchmark_is_not_public_unless_it_says_so() -> None:
    fields = Benchmark.__dataclass_fields__
    assert fields["public"].default is False


def test_the_error_says_what_would_go_where_and_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        check("https://far.example:443", tmp_path, "ward", "open")
    said = str(caught.value)
    assert "--model=far would send to https://far.example:443" in said
    assert "3 questions and 2 images of ward." in said
    assert "open" not in said.replace(str(tmp_path), "")
    assert "--allow-upload" in said
    assert f'{tmp_path / "pyproject.toml"}: [tool.medvqa] allowed_hosts = ["far.example:443"]' in said


@pytest.mark.parametrize("origin", [None, "http://localhost:8000", "http://127.0.0.1", "http://[::1]:8000"])
def test_this_machine_gets_all_data(tmp_path: Path, origin: str | None) -> None:
    check(origin, tmp_path)


def test_public_data_go_anywhere(tmp_path: Path) -> None:
    check("https://far.example:443", tmp_path, "open")


@pytest.mark.parametrize(
    "origin",
    [
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example",
        "http://0.0.0.0:8000",
        "http://2130706433",
        "http://0x7f000001",
        "http://127.1",
        "http://[::ffff:10.0.0.5]",
        "http://[::]",
        "http://localhost.",
        "HTTPS".lower() + "://LOCALHOST.EXAMPLE",
    ],
)
def test_what_only_looks_like_this_machine_is_another(tmp_path: Path, origin: str) -> None:
    with pytest.raises(UsageError, match="--allow-upload"):
        check(origin, tmp_path)


@pytest.mark.parametrize(
    ("entry", "origin", "allowed"),
    [
        ("gpu1.clinic.example", "http://gpu1.clinic.example:8000", True),
        ("gpu1.clinic.example", "https://GPU1.Clinic.Example", True),
        ("GPU1.clinic.example", "http://gpu1.clinic.example:8000", True),
        ("gpu1.clinic.example.", "http://gpu1.clinic.example", True),
        ("gpu1.clinic.example", "http://gpu1.clinic.example.:8000", True),
        ("gpu1.clinic.example", "http://gpu1.clinic.example.evil.example", False),
        ("gpu1.clinic.example", "http://evil-gpu1.clinic.example", False),
        ("gpu1.clinic.example", "http://gpu2.clinic.example", False),
        ("clinic.example", "http://gpu1.clinic.example", False),
        ("gpu1.clinic.example:8000", "http://gpu1.clinic.example:8000", True),
        ("gpu1.clinic.example:8000", "http://gpu1.clinic.example:8001", False),
        ("gpu1.clinic.example:443", "https://gpu1.clinic.example", True),
        ("gpu1.clinic.example:80", "http://gpu1.clinic.example", True),
        ("gpu1.clinic.example:443", "http://gpu1.clinic.example", False),
        ("gpu1.clinic.example:80", "grpc://gpu1.clinic.example", False),
        ("10.0.0.5:8000", "http://10.0.0.5:8000", True),
        ("10.0.0.5", "http://167772165", False),
        ("10.0.0.5", "http://10.0.0.5.", False),
        ("10.0.0.5", "http://[::ffff:10.0.0.5]", False),
        ("[fd00::5]:8000", "http://[FD00:0::0:5]:8000", True),
        ("[fd00::5]", "http://[fd00::6]", False),
        ("xn--bcher-kva.example", "https://XN--bcher-kva.example", True),
        ("gpu", "http://gpu:8000", True),
    ],
)
def test_a_host_is_allowed_by_its_whole_name(tmp_path: Path, entry: str, origin: str, allowed: bool) -> None:
    root = allow(tmp_path, entry)
    if allowed:
        check(origin, root)
    else:
        with pytest.raises(UsageError, match="--allow-upload"):
            check(origin, root)


@pytest.mark.parametrize(
    "entry",
    [
        "*",
        "*.clinic.example",
        ".clinic.example",
        "https://gpu1.clinic.example",
        "gpu1.clinic.example/v1",
        "somebody@gpu1.clinic.example",
        "gpu1.clinic.example:0",
        "gpu1.clinic.example:65536",
        "gpu1.clinic.example:",
        "10.0.0.0/8",
        "10.0.0",
        "167772165",
        "0x0a000005",
        "fd00::5",
        "[fd00::5",
        "[::zz]",
        "b\u00fccher.example",
        "gpu1..example",
        "",
        " gpu1",
    ],
)
def test_what_is_no_whole_host_is_refused(tmp_path: Path, entry: str) -> None:
    with pytest.raises(UsageError, match=r"allowed_hosts: .* is no host"):
        check("https://far.example", allow(tmp_path, entry))


@given(st.text(st.sampled_from("ab.:@/*[]0189x-_%"), max_size=12))
def test_an_entry_allows_nothing_that_it_does_not_spell(entry: str) -> None:
    try:
        host, _ = uploads._entry(Path("pyproject.toml"), entry)
    except UsageError:
        return
    assert host in str(entry.lower().strip("[]"))
    assert not uploads._is_allowed("http://evil.example", frozenset([(host, None)]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[tool.medvqa]\nallowed_host = []\n", "has no key 'allowed_host'; did you mean allowed_hosts"),
        ("[tool.medvqa]\nallowed_hosts = 'gpu1'\n", "a list is expected"),
        ("[tool.medvqa]\nallowed_hosts = [1]\n", "1 is no host"),
        ("[tool.medvqa\n", "not TOML"),
        ("[tool]\nmedvqa = 1\n", "tool.medvqa is not a table"),
    ],
)
def test_a_damaged_list_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(content)
    with pytest.raises(UsageError, match=message):
        check("https://far.example", tmp_path)


@pytest.mark.parametrize("content", ["tool = 1\n", "[tool.medvqa.gate]\nmargin = 1\n"])
def test_a_file_without_a_list_allows_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "pyproject.toml").write_text(content)
    assert uploads.allowed_hosts(tmp_path / "pyproject.toml") == frozenset()


def test_a_wrapper_sends_where_its_model_sends(tmp_path: Path) -> None:
    class Wrapping(Backend):
        wraps = True
        sends_to = None

        def generate(self, prompts: Any) -> Any:
            return self.inner.generate(prompts)

    inner = sending("https://far.example:443")
    model = Wrapping("other", inner=Wrapping("far", inner=inner))
    assert destinations(model) == ("https://far.example:443",)
    with pytest.raises(UsageError, match=r"https://far\.example:443"):
        uploads.check_sent(chosen(model), COUNTS, KNOWN, tmp_path)


def test_a_judge_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--judge=far would send"):
        uploads.check_sent(chosen(sending("https://far.example"), "judge"), COUNTS, KNOWN, tmp_path)


def test_a_proxy_is_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, origin = allow(tmp_path, "gpu1.clinic.example"), "http://gpu1.clinic.example:8000"
    monkeypatch.setenv("http_proxy", "http://somebody:secret@proxy.example:3128/")
    with pytest.raises(UsageError, match="NO_PROXY") as caught:
        check(origin, root)
    assert "through the proxy http://proxy.example:3128 of the environment" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert reaching.routes([origin]) == f"{origin} (through the proxy http://proxy.example:3128)"
    check(origin, allow(tmp_path, "gpu1.clinic.example", "proxy.example:3128"))
    monkeypatch.setenv("no_proxy", "gpu1.clinic.example")
    check(origin, allow(tmp_path, "gpu1.clinic.example"))
    assert reaching.routes([origin]) == origin


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("proxy.example:3128", "http://proxy.example:3128"),
        ("socks5://me:pw@proxy.example:1080", "socks5://proxy.example:1080"),
        ("http://[fd00::1]:3128", "http://[fd00::1]:3128"),
    ],
)
def test_a_proxy_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch, value: str, told: str) -> None:
    monkeypatch.setenv("all_proxy", value)
    assert reaching.proxy("https://far.example:443") == told


# --- in sessions ---------------------------------------------------------------------------------------------

CONFTEST = """
from medvqa import metrics, scoring
from medvqa.items import Benchmark, Item
from medvqa.protocols.prompts import Template

ASK = Template("ward/mc", "{question}\\n{options}", "{letter}. {text}\\n")

def pytest_medvqa_benchmarks():
    items = [Item(f"q{n}", "ward", "single_choice", f"{n}?", {"A": "liver", "B": "spleen"}, ("A",)) for n in range(3)]
    return [Benchmark(name="ward", items=lambda data: items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates))]
"""
TEST = """
import pytest

@pytest.mark.vqa("ward")
def test_ward(item, evaluate):
    evaluate(item)
"""


@pytest.fixture
def ward(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_ward=TEST)
    pytester.makefile(".ini", pytest="[pytest]\n")
    (pytester.path / "models").mkdir()
    return pytester


def config(ward: pytest.Pytester, url: str, more: str = "") -> None:
    content = f'backend = "openai"\nargument = "tiny"\n{more}[options]\nbase_url = "{url}"\n'
    (ward.path / "models/far.toml").write_text(content)


def run(ward: pytest.Pytester, *arguments: str) -> tuple[int, str]:
    result = ward.runpytest("-p", "no:randomly", "--model=far", "--benchmark=ward", *arguments)
    return int(result.ret), result.stdout.str() + result.stderr.str()


def test_an_allowed_host_is_asked_and_that_is_said(ward: pytest.Pytester) -> None:
    with Server(lambda number, request: Reply(completion("A"))) as server:
        config(ward, server.remote_url)
        code, output = run(ward)
        assert (code, server.requests) == (4, [])
        assert "3 questions of ward" in output
        allow(ward.path, f"0.0.0.0:{server.server_port}")
        code, output = run(ward)
        assert code == 0, output
        assert f"of ward will be sent to {server.remote_url.removesuffix('/v1')}" in output
        assert len(server.requests) == 3


def test_a_config_cannot_allow_its_own_host(ward: pytest.Pytester) -> None:
    with Server(lambda number, request: Reply(completion("A"))) as server:
        config(ward, server.remote_url, f'allowed_hosts = ["0.0.0.0:{server.server_port}"]\n')
        code, output = run(ward)
        assert code == 4
        assert "allowed_hosts" in output
        assert server.requests == []


def test_an_allowed_host_leads_to_no_other(ward: pytest.Pytester) -> None:
    with Server(lambda number, request: Reply(completion("A"))) as evil:
        headers = {"Location": evil.remote_url + "/chat/completions"}
        with Server(lambda number, request: Reply({}, status=307, headers=headers)) as server:
            config(ward, server.remote_url)
            allow(ward.path, f"0.0.0.0:{server.server_port}")
            code, _ = run(ward)
            assert code == 1
            assert server.requests
            assert evil.requests == []


@pytest.mark.parametrize(
    "url",
    ["https://localhost@evil.example/", "http://localhost:80@evil.example/v1", "http://localhost\\\\@evil.example"],
)
def test_a_url_with_a_user_is_refused(ward: pytest.Pytester, url: str) -> None:
    config(ward, url)
    code, output = run(ward)
    assert code == 4
    assert "base_url is not like https://host/v1" in output


def test_a_judge_is_not_sent_what_only_some_answers_would_need(ward: pytest.Pytester) -> None:
    """The first question offers "none of these", of which no judge is asked; the others do not."""
    conftest = CONFTEST.replace('{"A": "liver", "B": "spleen"}', '{"A": "liver", **({} if n else {"Z": "none"})}')
    ward.makeconftest(conftest)
    with Server(lambda number, request: Reply(completion("A"))) as server:
        config(ward, server.remote_url)
        judge = ("--judge=far", "--extract-with=judge")
        result = ward.runpytest("-p", "no:randomly", "--model=echo:what?", "--benchmark=ward", *judge)
        assert result.ret == 4
        assert "--judge=far would send" in result.stderr.str()
        assert server.requests == []
