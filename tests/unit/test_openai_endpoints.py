"""The backend `openai` over several servers on this machine: choice, death and return, and different models."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medvqa import configs
from medvqa.backend import destinations, loaded
from medvqa.backends.openai import OpenAI, OpenAIOptions, servers
from medvqa.backends.openai.serving import LONGEST, MOST, served_model
from medvqa.items import Answer, AnswerError, Benchmark, Prompt, UsageError
from medvqa.session import uploads
from medvqa.session.chosen import Chosen
from medvqa.session.endpoints import added, lines, news, since
from support.servers import Reply, Request, Server, completion, error, models

pytest.importorskip("openai")
KEY = "sk-test-0123456789abcdef"
Script = Callable[[int, Request], Reply]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(servers, "BACKOFF", 0.01)
    monkeypatch.setattr(servers, "FIRST_WAIT", 0.05)


def text_of(request: Request) -> str:
    return request.body["messages"][-1]["content"][-1]["text"]


def echo(number: int, request: Request) -> Reply:
    return Reply(completion(text_of(request)))


def slowly(seconds: float) -> Script:
    return lambda number, request: Reply(completion(text_of(request)), delay=seconds)


@contextmanager
def serving(*scripts: Script, **fields: Any) -> Iterator[list[Server]]:
    """Servers of one model: each lists `tiny`, with further `fields`."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(script)) for script in scripts]
        for server in servers:
            server.models = models("tiny", root="org/tiny", **fields)
        yield servers


@contextmanager
def asking(servers: Sequence[Server], **options: Any) -> Iterator[OpenAI]:
    urls = tuple(server.url for server in servers)
    model = loaded(OpenAI("tiny", OpenAIOptions(base_url=urls, key_env="OPENAI_API_KEY", **options)))
    try:
        yield model
    finally:
        model.close()


def prompts(number: int, first: int = 0) -> list[Prompt]:
    return [Prompt(f"question {n}") for n in range(first, first + number)]


def texts(answers: Sequence[Answer | AnswerError]) -> list[str]:
    assert [answer for answer in answers if isinstance(answer, AnswerError)] == []
    return [answer.text for answer in answers if isinstance(answer, Answer)]


def counters(model: OpenAI, server: Server) -> dict[str, Any]:
    return model.status()["endpoints"][server.url]


def waiting_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- who is asked -----------------------------------------------------------------------------------------


def test_each_server_has_its_own_limit_and_no_question_is_asked_twice() -> None:
    with serving(slowly(0.03), slowly(0.03)) as servers, asking(servers, concurrency=3) as model:
        assert model.concurrency == 6
        assert texts(model.generate(prompts(40))) == [prompt.text for prompt in prompts(40)]
        assert [server.asked_models for server in servers] == [1, 1]
        counts = [counters(model, server) for server in servers]
    assert [1 < server.most <= 3 for server in servers] == [True, True]
    assert max(Counter(text_of(r) for server in servers for r in server.requests).values()) == 1
    assert [(c["requests"], c["answers"], c["left_out"]) for c in counts] == [
        (len(server.requests), len(server.requests), 0) for server in servers
    ]
    assert sum(c["answers"] for c in counts) == 40


def test_concurrency_may_be_set_for_all_servers_together() -> None:
    with serving(slowly(0.03), slowly(0.03)) as servers, asking(servers, concurrency=8) as model:
        model.concurrency = 4
        texts(model.generate(prompts(20)))
        assert (model.concurrency, model.patience) == (4, 6 * 4 * 240)
    assert max(server.most for server in servers) <= 2


def test_a_slow_server_gets_fewer_questions() -> None:
    with serving(slowly(0.3), slowly(0.01)) as (slow, fast), asking([slow, fast], concurrency=2) as model:
        texts(model.generate(prompts(40)))
    assert len(slow.requests) < len(fast.requests) / 2


def test_a_busy_server_slows_only_itself() -> None:
    """It asks for a minute; without retries, each of its questions is answered by the other."""

    def busy(number: int, request: Request) -> Reply:
        return error(429, "slow down", Retry_After="60")

    with serving(busy, echo) as (full, free), asking([full, free], concurrency=2, retries=0) as model:
        texts(model.generate(prompts(30)))
    assert len(full.requests) <= 2
    assert len(free.requests) == 30


def test_a_single_url_is_asked_as_before() -> None:
    with serving(echo) as servers, asking(servers) as model:
        texts(model.generate(prompts(3)))
        assert model.status() == {}
    assert servers[0].asked_models == 0


# --- death and return -------------------------------------------------------------------------------------


def test_a_server_dies_and_the_other_answers_everything() -> None:
    """Without retries: its questions go to the other at once."""
    dying: list[Server] = []

    def script(number: int, request: Request) -> Reply:
        if number == 5:
            threading.Thread(target=dying[0].die).start()
        return Reply(completion(text_of(request)), delay=0.05)

    with serving(slowly(0.02), script) as (alive, dead), asking([alive, dead], concurrency=4, retries=0) as model:
        dying.append(dead)
        assert texts(model.generate(prompts(60))) == [prompt.text for prompt in prompts(60)]
        told, others = counters(model, dead), counters(model, alive)
    assert (told["left_out"], told["state"]) == (1, "left out")
    assert told["failures"] > 0
    assert told["left_out_seconds"] > 0
    assert told["answers"] + others["answers"] == 60
    assert (others["left_out"], others["failures"]) == (0, 0)


def revived(server: Server, script: Script, **fields: Any) -> Server:
    again = Server(script, server.server_port)
    again.models = models("tiny", **{"root": "org/tiny", **fields})
    return again


def test_a_server_that_returns_is_asked_which_model_it_serves_and_then_answers() -> None:
    with serving(echo, echo) as (alive, dead), asking([alive, dead], concurrency=1) as model:
        dead.die()
        texts(model.generate(prompts(4)))
        assert counters(model, dead)["state"] == "left out"
        with revived(dead, echo) as again:
            waiting_for(lambda: counters(model, dead)["state"] == "in use")
            texts(model.generate(prompts(20)))
            assert again.asked_models == 1
            assert len(again.requests) > 5


def test_a_server_that_returns_with_another_model_is_not_asked() -> None:
    with serving(echo, echo) as (alive, dead), asking([alive, dead], concurrency=1) as model:
        texts(model.generate(prompts(4)))
        dead.die()
        texts(model.generate(prompts(4)))
        with revived(dead, echo, root="org/other") as again:
            waiting_for(lambda: "org/other" in counters(model, dead)["why"])
            texts(model.generate(prompts(8)))
            assert again.requests == []
        told = counters(model, dead)
    assert told["state"] == "left out"
    assert told["why"] == f"it serves root org/other, and {alive.url} serves root org/tiny"


@pytest.mark.parametrize("status", [502, 503])
def test_a_proxy_whose_server_is_down(status: int) -> None:
    def upstream(number: int, request: Request) -> Reply:
        return error(status, "no upstream")

    with serving(echo, upstream) as (alive, down), asking([alive, down], concurrency=2, retries=0) as model:
        texts(model.generate(prompts(30)))
        assert counters(model, down)["left_out"] >= 1
    assert len(alive.requests) == 30


def test_timeouts_in_a_row() -> None:
    with serving(echo, slowly(3)) as (alive, hung), asking([alive, hung], timeout=1, retries=0) as model:
        texts(model.generate(prompts(40)))
        assert counters(model, hung)["why"] == "no answer within 1 s"
    assert len(alive.requests) == 40


def test_a_question_that_fails_everywhere_ends_in_an_error() -> None:
    """It is asked (retries + 1) times at each server, not for ever."""

    def poison(number: int, request: Request) -> Reply:
        return error(500, "boom") if text_of(request) == "question 3" else echo(number, request)

    with serving(poison, poison) as servers, asking(servers, retries=1) as model:
        answers = model.generate(prompts(6))
    assert [type(answer) for answer in answers] == [Answer] * 3 + [AnswerError] + [Answer] * 2
    assert "HTTP 500: boom (after 2 requests)" in str(answers[3])


def test_all_servers_die() -> None:
    with serving(echo, echo) as servers, asking(servers, retries=2) as model:
        texts(model.generate(prompts(2)))
        for server in servers:
            server.die()
        answers = model.generate(prompts(4))
    assert {type(answer) for answer in answers} == {AnswerError}
    assert all("after 3 requests" in str(answer) for answer in answers)


# --- which model they serve -------------------------------------------------------------------------------


def preflight(*servers: Server) -> None:
    urls = tuple(server.url for server in servers)
    OpenAI("tiny", OpenAIOptions(base_url=urls, key_env="OPENAI_API_KEY")).preflight()


INFO = "/model_info"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (models("tiny", root="org/other"), ("root org/tiny", "root org/other")),
        (models("tiny", root="org/tiny", max_model_len=512), ("max_model_len 4096", "max_model_len 512")),
        (models("large", "small"), ("the model tiny", "the models large, small")),
        (models("tiny", root="x" * 999), ("root org/tiny", f"root {'x' * LONGEST}...")),
        (models("tiny", root="\x1b[2J"), ("root org/tiny", "root \ufffd[2J")),
    ],
)
def test_different_models_are_refused_at_the_start(said: Reply, why: tuple[str, str]) -> None:
    with serving(echo, echo, max_model_len=4096) as (one, other):
        preflight(one, other)
        other.models = said
        with pytest.raises(UsageError) as caught:
            preflight(one, other)
        message = str(caught.value)
        assert f"{one.url} says {why[0]}, and {other.url} says {why[1]}. Name servers of one model" in message
        with asking([one, other]) as model:
            texts(model.generate(prompts(6)))
            assert counters(model, other)["state"] == "left out"
        assert other.requests == []


def test_weights_that_sglang_tells() -> None:
    with serving(echo, echo, owned_by="sglang") as servers:
        for server, version, path in zip(servers, "12", (INFO, "/get_model_info"), strict=True):
            server.models = Reply({"data": [{"id": "tiny", "owned_by": "sglang", "root": "org/tiny"}]})
            server.pages[path] = Reply({"model_path": "org/tiny", "weight_version": version})
        with pytest.raises(UsageError, match=r"says weight_version 1, and http\S* says weight_version 2\. Name"):
            preflight(*servers)
    assert {headers["Authorization"] for server in servers for headers in server.got} == {f"Bearer {KEY}"}


def test_of_a_long_list_of_models_only_the_shown_names_are_redacted() -> None:
    cards = {"data": [{"id": f"m{n:06}"} for n in reversed(range(50_000))]}
    seen = []

    def redact(text: str) -> str:
        seen.append(text)
        return text.replace("m000001", "[key]")

    async def lists() -> Any:
        return SimpleNamespace(content=json.dumps(cards).encode())

    client: Any = SimpleNamespace(models=SimpleNamespace(with_raw_response=SimpleNamespace(list=lists)))
    said = asyncio.run(served_model(client, "tiny", redact)).facts["models"]
    assert said.startswith("m000000, [key], m000002")
    assert said.endswith("m000019 and 49,980 more")
    assert len(seen) == MOST


def test_a_key_in_the_list_of_models_is_not_shown() -> None:
    with serving(echo, echo) as servers:
        servers[1].models = models("tiny", root=f"{'x' * (LONGEST - 8)}{KEY}")
        with pytest.raises(UsageError) as caught:
            preflight(*servers)
    assert KEY[:6] not in str(caught.value)
    assert "xx[key]" in str(caught.value)


def test_a_server_that_asks_to_wait_too_long_is_left_out() -> None:
    def full(number: int, request: Request) -> Reply:
        return error(429, "come back tomorrow", Retry_After="86400")

    with serving(full, echo) as (away, free), asking([away, free], concurrency=1, retries=0) as model:
        texts(model.generate(prompts(10)))
        assert counters(model, away)["state"] == "left out"
    assert (len(away.requests), len(free.requests)) == (1, 10)


def test_a_server_that_cannot_be_asked_is_noted() -> None:
    with serving(echo, echo) as (one, other), asking([one, other]) as model:
        other.models = None
        preflight(one, other)
        texts(model.generate(prompts(10)))
        told = model.status()["endpoints"]
    assert len(other.requests) > 0
    assert lines(told) == [f"! endpoint {other.url} does not tell which model it serves: HTTP 404: no such page"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"data": [{}]}', b'{"data": 7}', b"[" * 10_000, b"\xff"])
def test_a_list_of_models_that_cannot_be_read_says_nothing(body: bytes) -> None:
    with serving(echo, echo) as servers:
        servers[1].models = Reply(body)
        preflight(*servers)


def test_an_answer_of_another_model_is_dropped_and_its_server_left_out() -> None:
    def other_model(number: int, request: Request) -> Reply:
        return Reply({**completion("wrong"), "system_fingerprint": "fp_2"}, delay=0.1)

    with serving(echo, other_model) as (one, other), asking([one, other], concurrency=1, retries=0) as model:
        answers = model.generate(prompts(10))
        told = counters(model, other)
    assert texts(answers) == [prompt.text for prompt in prompts(10)]
    assert len(other.requests) == 1
    assert told["why"] == f"it answers as tiny-2026 fp_2, and {one.url} answered as tiny-2026 fp_1"
    assert (told["answers"], told["failures"], told["state"]) == (0, 1, "left out")


def test_a_server_of_another_model_stays_out_though_it_was_about_to_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While it is left out for its failures, a slow answer of before names another model."""
    monkeypatch.setattr(servers, "FIRST_WAIT", 0.5)

    def script(number: int, request: Request) -> Reply:
        if number:
            return error(502, "no upstream")
        return Reply({**completion("wrong"), "system_fingerprint": "fp_2"}, delay=0.3)

    with serving(slowly(0.01), script) as (one, other), asking([one, other], concurrency=4, retries=0) as model:
        assert texts(model.generate(prompts(20))) == [prompt.text for prompt in prompts(20)]
        waiting_for(lambda: other.asked_models == 2)
        time.sleep(0.1)
        asked = len(other.requests)
        texts(model.generate(prompts(20)))
        told = counters(model, other)
    assert len(other.requests) == asked
    assert told["why"] == f"it answers as tiny-2026 fp_2, and {one.url} answered as tiny-2026 fp_1"
    assert (told["state"], told["left_out"]) == ("left out", 1)


def test_a_dropped_answer_has_its_price() -> None:
    def other_model(number: int, request: Request) -> Reply:
        return Reply({**completion("wrong"), "system_fingerprint": "fp_2"}, delay=0.1)

    prices = {"price_input": 1, "price_output": 1}
    with serving(echo, other_model) as asked, asking(asked, concurrency=1, retries=0, **prices) as model:
        answers = model.generate(prompts(10))
    used = [answer.usage for answer in answers if isinstance(answer, Answer) and answer.usage]
    assert sum(each["input"] for each in used) == 11_000
    assert sum(each["cost"] for each in used) == pytest.approx(11 * 1010 / 1e6)


def test_dead_at_the_start() -> None:
    with serving(echo, echo) as (one, other):
        other.die()
        preflight(one, other)
        with asking([one, other]) as model:
            texts(model.generate(prompts(6)))
        one.die()
        with pytest.raises(UsageError) as caught:
            preflight(one, other)
    assert f"none of its 2 servers can be reached ({one.url}: ConnectError" in str(caught.value)
    assert "Start one of them, or set base_url" in str(caught.value)


def test_a_refused_key() -> None:
    with serving(echo, echo) as (one, other):
        other.models = error(401, f"wrong key {KEY}")
        with pytest.raises(UsageError) as caught:
            preflight(one, other)
    assert f"{other.url} refuses the key (HTTP 401: wrong key [key]). All servers get the same key" in str(caught.value)


# --- addresses, keys, identity ----------------------------------------------------------------------------


def test_the_key_goes_to_all_servers() -> None:
    with serving(echo, echo) as servers, asking(servers) as model:
        texts(model.generate(prompts(10)))
    asked = [headers for server in servers for headers in (*server.got, *(r.headers for r in server.requests))]
    assert {headers["Authorization"] for headers in asked} == {f"Bearer {KEY}"}


def test_no_key_of_another_host() -> None:
    with serving(echo, echo) as servers:
        model = loaded(OpenAI("tiny", OpenAIOptions(base_url=tuple(server.url for server in servers))))
        texts(model.generate(prompts(4)))
        model.close()
    asked = [headers for server in servers for headers in (*server.got, *(r.headers for r in server.requests))]
    assert {headers["Authorization"] for headers in asked} == {"Bearer none"}


@pytest.mark.parametrize("written", ["{} {}", "{},{}", " {} ,\n {} "])
def test_several_urls_in_the_environment(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", written.format("http://a:1/v1", "https://b/v1"))
    assert OpenAI("tiny").sends_to == ("http://a:1", "https://b")


def test_a_list_in_a_config(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(
        'backend = "openai"\nargument = "tiny"\n[options]\nbase_url = ["http://a:1/v1", "http://b:1/v1"]\n'
    )
    backends = {"openai": OpenAI}
    model = configs.make(configs.resolve("ours", folders=[tmp_path], backends=backends), backends)
    assert (model.sends_to, model.concurrency) == (("http://a:1", "http://b:1"), 16)


@pytest.mark.parametrize(
    ("urls", "why"),
    [
        (("http://a/v1", "http://A/v1/"), "base_url names http://A/v1/ twice: name each server once"),
        (("http://a/v1", "http://a:80/v1"), "base_url names http://a:80/v1 twice: name each server once"),
        (("http://a/v1", "http://b:99999/v1"), "base_url: http://b:99999 has no port between 1 and 65535"),
        (("http://a/v1", "http://b..c/v1"), "base_url: http://b..c names no host"),
        (("http://a/v1", "http://u:geheim@b/v1"), "base_url is not like https://host/v1"),
        (("http://a/v1", "http://b/v1?key=geheim"), "base_url is not like https://host/v1"),
    ],
)
def test_lists_that_are_refused(urls: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError) as caught:
        OpenAI("tiny", OpenAIOptions(base_url=urls)).check()
    assert str(caught.value).startswith(why)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("urls", [(), ("",), ("http://a/v1", "")])
def test_a_list_without_servers(urls: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="`base_url` is an empty list, or holds an empty text"):
        OpenAIOptions(base_url=urls)


FAR, FARTHER = "https://a.example/v1", "https://b.example/v1"


def fingerprint(*urls: str, revision: str = "") -> str | None:
    return OpenAI("m", OpenAIOptions(base_url=urls, revision=revision)).fingerprint()


def test_the_fingerprint_of_one_url_is_as_it_was() -> None:
    assert OpenAI("m", OpenAIOptions(base_url=FAR)).fingerprint() == f"m@{FAR} 85356e9f70935692"
    assert OpenAI("m", OpenAIOptions(base_url=FAR, revision="r1")).fingerprint() == f"m@{FAR} 4c31f78fc4ce033e"
    assert fingerprint(FAR) == OpenAI("m", OpenAIOptions(base_url=FAR)).fingerprint()


def test_a_revision_names_the_weights_wherever_they_are_served() -> None:
    lists = ((FAR,), (FAR, FARTHER), (FARTHER, FAR), ("http://localhost:1/v1", FAR))
    assert len({fingerprint(*urls, revision="r1") for urls in lists}) == 1
    assert fingerprint(FAR, revision="r1") != fingerprint(FAR, revision="r2")


def test_without_a_revision_the_set_of_urls_counts() -> None:
    assert fingerprint(FAR, FARTHER) == fingerprint(FARTHER, FAR)
    assert fingerprint(FAR, FARTHER) != fingerprint(FAR)
    assert fingerprint(FAR, "http://localhost:1/v1") is None


def test_private_data_are_refused_for_each_remote_server(tmp_path: Path) -> None:
    model = OpenAI("m", OpenAIOptions(base_url=("http://localhost:1/v1", FAR, FARTHER)))
    assert destinations(model) == ("https://a.example", "https://b.example")
    chosen = Chosen("ours", "model", None, model)  # type: ignore[arg-type]  # a config is not looked at
    known = {"ward": Benchmark(name="ward", items=lambda _: [], public=False)}
    (tmp_path / "pyproject.toml").write_text('[tool.medvqa]\nallowed_hosts = ["a.example"]\n')
    with pytest.raises(UsageError, match=r"would send to https://b\.example what is not declared public"):
        uploads.check_sent(chosen, {"ward": "3 questions"}, known, tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.medvqa]\nallowed_hosts = ["a.example", "b.example"]\n')
    uploads.check_sent(chosen, {"ward": "3 questions"}, known, tmp_path)


# --- numbers ----------------------------------------------------------------------------------------------


def numbers(answers: int, out: int = 0, **texts: str) -> dict[str, Any]:
    counted = {"requests": answers + out, "answers": answers, "failures": out, "left_out": out, "left_out_seconds": out}
    return {**counted, "state": "in use", "why": "", "note": "", **texts}


def test_numbers_of_processes_are_summed() -> None:
    first, later = {"a": numbers(3), "b": numbers(1)}, {"a": numbers(5, 1, why="died"), "b": numbers(1)}
    change = since(later, first)
    assert change == {"a": numbers(2, 1, why="died")}
    assert added(added({}, first), change) == later
    assert added(later, {"a": numbers(4)})["a"] == numbers(9, 1, why="died")
    assert lines(added({}, later)) == [
        "! endpoint a was left out once, 1 s in all: died (5 of 6 requests were answered)"
    ]
    assert news(later, first) == ["medvqa: endpoint a is left out, and its questions go to the others: died"]
    assert news(first, {"a": {**numbers(3), "state": "left out"}}) == ["medvqa: endpoint a is in use again"]
