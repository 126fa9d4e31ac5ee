"""The backend `openai` against a real server on this machine, alone and in whole sessions."""

import base64
import gzip
import io
import json
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import configs
from medvqa.backend import is_remote, loaded
from medvqa.backends import openai as backend
from medvqa.backends.openai import OpenAI, OpenAIOptions, data_url, servers
from medvqa.backends.openai.addresses import ServerAddress
from medvqa.backends.openai.completions import letters
from medvqa.backends.openai.requests import MAX_RESPONSE, retry_after
from medvqa.engine import Limits
from medvqa.items import Answer, AnswerError, DataError, Image, Prompt, Shot, Turn, UsageError
from support.servers import Reply, Request, Server, completion, error, scored

KEY = "sk-test-0123456789abcdef"
WHICH = Prompt("Which?")


@pytest.fixture(autouse=True)
def _environment(outside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(servers, "BACKOFF", 0.01)


@contextmanager
def asked(script: Callable[[int, Request], Reply], **options: Any) -> Iterator[tuple[OpenAI, Server]]:
    with Server(script) as server:
        made = loaded(OpenAI("tiny", OpenAIOptions(base_url=server.url, key_env="OPENAI_API_KEY", **options)))
        try:
            yield made, server
        finally:
            made.close()


def always(reply: Reply) -> Callable[[int, Request], Reply]:
    return lambda number, request: reply


def first(*replies: Reply) -> Callable[[int, Request], Reply]:
    """These replies, one after the other, then A."""
    return lambda number, request: replies[number] if number < len(replies) else Reply(completion("A"))


def one(model: OpenAI, prompt: Prompt = WHICH) -> Answer | AnswerError:
    (answer,) = model.generate([prompt])
    return answer


def text_of(request: Request) -> str:
    return request.body["messages"][-1]["content"][-1]["text"]


def picture(folder: Path, name: str = "x.png", size: tuple[int, int] = (40, 30), seed: int = 0) -> Image:
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    PIL.Image.fromarray(noise).save(folder / name)
    return Image(name, str(folder / name))


def opened(url: str) -> PIL.Image.Image:
    kind, data = re.fullmatch(r"data:image/(png|jpeg);base64,(.*)", url).groups()  # type: ignore[union-attr]
    image = PIL.Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
    assert image.format == kind.upper()
    return image


# --- what is sent -----------------------------------------------------------------------------------------


def test_earlier_turns_precede_the_text_and_the_images_belong_to_the_first(tmp_path: Path) -> None:
    image = picture(tmp_path)
    shots = (Shot("What?", "This.", (image,)),)
    prompt = Prompt("Therefore?", (image,), shots=shots, turns=(Turn("Which?", "It is round."), Turn("And?", "Red.")))
    with asked(always(Reply(completion("B")))) as (model, server):
        assert one(model, prompt) == Answer("B", seconds=ANY, usage=ANY, served_by="tiny-2026 fp_1")
    messages = server.requests[0].body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3 + ["user"]
    kinds = [[part["type"] for part in message["content"]] for message in messages[::2]]
    assert kinds == [["image_url", "text"], ["image_url", "text"], ["text"], ["text"]]
    assert [message["content"] for message in messages[1::2]] == ["This.", "It is round.", "Red."]
    assert [message["content"][-1]["text"] for message in messages[2::2]] == ["Which?", "And?", "Therefore?"]


@pytest.mark.parametrize(
    ("message", "text", "thoughts"),
    [
        ({"content": "B", "reasoning_content": "A or B?"}, "B", "A or B?"),
        ({"content": "B", "reasoning": "A or B?"}, "B", "A or B?"),
        ({"content": "B", "reasoning_content": None, "reasoning": "A or B?"}, "B", "A or B?"),
        ({"content": None, "reasoning_content": "cut"}, "", "cut"),
        ({"content": "B", "reasoning": [{"type": "text"}], "reasoning_content": 7}, "B", ""),
    ],
)
def test_hidden_thoughts_are_kept_apart(message: dict[str, Any], text: str, thoughts: str) -> None:
    with asked(always(Reply(completion(**message)))) as (model, _):
        answer = one(model)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.thoughts) == (text, thoughts)


def test_a_request_holds_the_system_prompt_the_shots_the_images_and_then_the_text(tmp_path: Path) -> None:
    shown = (picture(tmp_path, "1.png", seed=1), picture(tmp_path, "2.png", seed=2))
    prompt = Prompt("Which?", shown, "Be brief.", (Shot("What?", "B", shown[:1]),))
    with asked(always(Reply(completion()))) as (model, server):
        assert isinstance(one(model, prompt), Answer)
    (request,) = server.requests
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    system, question, answer, last = request.body.pop("messages")
    assert request.body == {"model": "tiny", "max_tokens": 32, "temperature": 0.0}
    assert system == {"role": "system", "content": "Be brief."}
    assert [part["type"] for part in question["content"]] == ["image_url", "text"]
    assert answer == {"role": "assistant", "content": "B"}
    assert [part["type"] for part in last["content"]] == ["image_url", "image_url", "text"]
    assert last["content"][-1]["text"] == "Which?"
    for part, image in zip(last["content"][:2], shown, strict=True):
        sent = opened(part["image_url"]["url"])
        assert np.array_equal(np.asarray(sent), np.asarray(PIL.Image.open(image.path)))


def test_no_system_prompt_is_no_message() -> None:
    with asked(always(Reply(completion()))) as (model, server):
        one(model)
    assert [message["role"] for message in server.requests[0].body["messages"]] == ["user"]


def test_reasoning_models_get_their_own_parameters() -> None:
    with asked(always(Reply(completion())), reasoning=True, extra={"reasoning_effort": "low"}) as (model, server):
        one(model)
    body = server.requests[0].body
    assert body["max_completion_tokens"] == 4096
    assert body["reasoning_effort"] == "low"
    assert not {"temperature", "max_tokens"} & body.keys()


@pytest.mark.parametrize(
    ("options", "deviations"),
    [
        ({}, []),
        ({"temperature": 0, "max_tokens": 32}, []),
        ({"temperature": 0.5}, ["temperature 0.5 instead of 0"]),
        (
            {"reasoning": True, "extra": {"seed": 7}},
            ["4096 new tokens instead of 32", "temperature of the server instead of 0", "seed: 7"],
        ),
        (
            {"system": "You are a radiologist.", "max_pixels": 1000},
            ["a system prompt of the config's", "images of more than 1000 pixels scaled down"],
        ),
    ],
)
def test_deviations_from_the_published_setting_are_told(options: dict[str, Any], deviations: list[str]) -> None:
    with asked(always(Reply(completion())), **options) as (model, server):
        one(model, Prompt("?", system="Be brief."))
        assert model.about()["deviations"] == deviations
    messages = server.requests[0].body["messages"]
    assert messages[0]["content"] == options.get("system", "Be brief.")


def test_options_of_a_config() -> None:
    def made(**options: Any) -> tuple[Any, ...]:
        made = configs.make(configs.ModelConfig("x", "openai", "m", options=options), {"openai": OpenAI})
        return made.argument, made.options

    assert made(max_pixels=100) == ("m", OpenAIOptions(max_pixels=100))
    for options, message in (
        (
            {"temprature": 1},
            "x: backend 'openai': .options.: no key 'temprature'; there are: .*'temperature'?",
        ),
        (
            {"reasoning": True, "temperature": 1},
            "x: .* .options.: with `reasoning` no temperature is sent",
        ),
        ({"price_input": 1}, "`price_input` and `price_output` go together"),
        ({"extra": {"n": 2, "model": "y"}}, "`extra` has model, n, which other options set"),
        ({"max_tokens": -1}, "Expected `int` >= 0 - at `.*max_tokens`"),
        ({"timeout": 0}, "Expected `float` > 0"),
        ({"top_logprobs": 21}, "Expected `int` <= 20"),
        ({"extra": {"logprobs": True}}, "`extra` has logprobs, which other options set"),
    ):
        with pytest.raises(UsageError, match=message):
            made(**options)
    with pytest.raises(UsageError) as raised:
        made(key_env=KEY)
    assert KEY not in str(raised.value), "a key that was put into the config is not shown"


@given(st.integers(1, 120), st.integers(1, 120), st.integers(1, 20_000), st.integers(100, 40_000))
def test_an_image_fits_or_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, width: int, height: int, max_pixels: int, max_bytes: int
) -> None:
    image = picture(tmp_path_factory.getbasetemp(), "law.png", (width, height))
    try:
        url = data_url(image, max_pixels, max_bytes)
    except DataError as refused:
        assert re.match("image law.png: more than .* set max_pixels", str(refused))
        return
    sent = opened(url)
    assert len(base64.b64decode(url.partition(",")[2])) <= max_bytes
    assert sent.width * sent.height <= max(max_pixels, width, height), "a side never falls below one pixel"
    if width * height <= max_pixels:
        assert sent.size == (width, height)
    else:
        assert abs(sent.width - width * (max_pixels / (width * height)) ** 0.5) <= 1


def test_metadata_stay_here(tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x010E] = "Jane Doe 1970"
    PIL.Image.new("RGB", (8, 8)).save(tmp_path / "x.jpg", exif=exif)
    assert b"Jane Doe" in (tmp_path / "x.jpg").read_bytes()
    url = data_url(Image("x.jpg", str(tmp_path / "x.jpg")), None, 10**6)
    assert b"Jane Doe" not in base64.b64decode(url.partition(",")[2])


def test_an_image_that_cannot_be_read_is_the_error_of_its_item() -> None:
    with asked(always(Reply(completion()))) as (model, server):
        lost, found = model.generate([Prompt("1", (Image("x.png", "/nowhere/x.png"),)), Prompt("2")])
    assert isinstance(lost, AnswerError)
    assert str(lost) == "image x.png: no such file"
    assert isinstance(found, Answer)
    assert len(server.requests) == 1


# --- what comes back --------------------------------------------------------------------------------------


def test_an_answer_tells_text_finish_time_tokens_and_cost() -> None:
    reply = Reply(completion("B because", "length"), delay=0.05)
    with asked(always(reply), price_input=2.5, price_output=10) as (model, _):
        answer = one(model)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish) == ("B because", "length")
    assert answer.usage == {"input": 1000, "output": 10, "cost": pytest.approx(1000 * 2.5e-6 + 10 * 10e-6)}
    assert answer.seconds is not None
    assert answer.seconds >= 0.05


def test_a_packed_answer_is_unpacked() -> None:
    packed = gzip.compress(json.dumps(completion("B")).encode())
    with asked(always(Reply(packed, headers={"Content-Encoding": "gzip"}))) as (model, _):
        answer = one(model)
    assert isinstance(answer, Answer)
    assert answer.text == "B"


def test_a_server_may_leave_out_usage_and_finish() -> None:
    with asked(always(Reply({"choices": [{"message": {"content": "A"}}]}))) as (model, _):
        answer = one(model)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish, answer.usage) == ("A", "", None)


@pytest.mark.parametrize("finish", ["stop", "length", "tool_calls", "function_call", "repetition", "eos"])
def test_an_ending_that_is_no_failure_is_kept_with_the_answer(finish: str) -> None:
    with asked(always(Reply(completion("A", finish)))) as (model, _):
        answer = one(model)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish) == ("A", finish)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(completion("", "content_filter")), ""),
        (Reply(completion(None, refusal="I cannot help with that.")), "I cannot help with that."),
        (error(400, "The prompt triggered the policy", "content_filter"), ""),
        (error(400, "Not allowed by the safety system", "content_policy_violation"), ""),
    ],
)
def test_filtered_content_is_a_refusal_and_asked_once(reply: Reply, text: str) -> None:
    with asked(always(reply)) as (model, server):
        answer = one(model)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish) == (text, "refusal")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        error(500, "out of order"),
        error(502, "bad gateway"),
        error(408, "too slow"),
        error(429, "slow down"),
        Reply(b"<html>try later</html>", 503, {"Content-Type": "text/html"}),
        Reply(b"<html>welcome</html>", 200, {"Content-Type": "text/html"}),
        Reply(b'{"choices": ['),
        Reply(b"\xff\xfe"),
        Reply(b""),
        Reply(b"[" * 100_000),
        Reply({"error": {"message": "upstream failed", "code": 502}}),
        Reply({"choices": [{"message": {"content": 7}}]}),
        Reply(completion("", "error")),
        Reply(completion("B", "abort")),
        Reply(completion(), cut=20),
        Reply(b"no gzip", headers={"Content-Encoding": "gzip"}),
    ],
)
def test_what_may_pass_is_asked_again(reply: Reply) -> None:
    with asked(first(reply, reply)) as (model, server):
        answer = one(model)
    assert isinstance(answer, Answer), str(answer)
    assert answer.text == "A"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("reply", "message", "count"),
    [
        (error(401, "bad key"), "HTTP 401: bad key", 1),
        (error(404, "no model tiny"), "HTTP 404: no model tiny", 1),
        (error(400, "images are\n\x1b[31mnot supported"), "HTTP 400: images are \x1b[31mnot supported", 1),
        (error(429, "pay first", "insufficient_quota"), "HTTP 429: pay first", 1),
        (Reply(b"nope", 403, {"Content-Type": "text/plain"}), "HTTP 403: nope", 1),
        (Reply([], 418), "HTTP 418: []", 1),
        (error(500, "x" * 5000), "HTTP 500: " + "x" * 380, 3),
        (Reply(completion("", "error")), "the server gave the answer up (finish_reason 'error') (after 3 requests)", 3),
        (Reply(completion("A", "ABORT")), "the server gave the answer up (finish_reason 'ABORT')", 3),
        (Reply(completion("A", "insufficient_system_resource")), "the server gave the answer up (finish_reason", 3),
        (Reply({"choices": []}), "the response has 0 choices instead of 1", 1),
        (
            Reply({"choices": completion()["choices"] * 2}),
            "the response has 2 choices instead of 1",
            1,
        ),
        (Reply(b'{"choices": ['), "the response is no chat completion (Input data was truncated): ", 3),
        (Reply(b" " * (MAX_RESPONSE + 1)), "a response of more than 16777216 bytes", 1),
        (Reply(gzip.compress(b" " * 2**25), 500, {"Content-Encoding": "gzip"}), "a response of more", 1),
        (Reply(completion(), cut=20), "RemoteProtocolError: peer closed connection", 3),
        (error(429, "slow", Retry_After="999"), "HTTP 429: slow; waiting 999 s would be longer than max_wait", 1),
        (error(429, "slow", Retry_After="inf"), "HTTP 429: slow; waiting inf s would be longer than max_wait", 1),
    ],
)
def test_what_went_wrong_is_told(reply: Reply, message: str, count: int) -> None:
    with asked(always(reply), retries=2) as (model, server):
        answer = one(model)
    assert isinstance(answer, AnswerError)
    assert str(answer).startswith(f"{server.url.removesuffix('/v1')}: {message}")
    assert len(str(answer)) < 500
    assert len(server.requests) == count


@pytest.mark.parametrize("reply", [Reply(completion(), delay=60), Reply(completion(), drip=10)])
def test_a_request_has_a_deadline(reply: Reply) -> None:
    with asked(always(reply), timeout=0.3, retries=1) as (model, server):
        answer = one(model)
    assert isinstance(answer, AnswerError)
    assert str(answer).endswith("no answer within 0.3 s (after 2 requests)")
    assert len(server.requests) == 2


def test_a_server_that_is_not_there() -> None:
    with Server(always(Reply(b""))) as server:
        pass
    model = loaded(OpenAI("tiny", OpenAIOptions(base_url=server.url, retries=1)))
    answer = one(model)
    model.close()
    assert isinstance(answer, AnswerError)
    assert "ConnectError" in str(answer)
    assert str(answer).endswith("(after 2 requests)")


def test_a_redirection_is_not_followed() -> None:
    with Server(always(Reply(completion()))) as elsewhere:
        away = Reply(b"", 307, {"Location": elsewhere.url + "/chat/completions"})
        with asked(always(away)) as (model, _):
            answer = one(model)
        assert isinstance(answer, AnswerError)
        assert "HTTP 307" in str(answer)
        assert elsewhere.requests == []


def test_a_proxy_does_not_get_what_is_meant_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with asked(always(Reply(completion()))) as (model, _):
        assert isinstance(one(model), Answer)


# --- letters by their log-probabilities -------------------------------------------------------------------

OPTIONS = {"A": "liver", "B": "spleen", "C": "kidney"}
GD = Prompt("Which?", options=OPTIONS, technique="gd")


def test_letters_are_scored_by_one_token_and_its_likeliest_rivals() -> None:
    reply = scored(("B", -0.5), (" A", -1.25), ("The", -2.0), ("(A", -3.0), ("D", -3.5), ("Because", -9.0))
    with asked(always(Reply(reply))) as (model, server):
        answer = one(model, GD)
    assert isinstance(answer, Answer)
    assert answer.option_logprobs == {"A": pytest.approx(np.logaddexp(-1.25, -3.0)), "B": -0.5}
    assert (answer.text, answer.finish) == ("B", "length")
    body = server.requests[0].body
    assert body.pop("messages")
    assert body == {"model": "tiny", "max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": 20}


def test_a_server_may_allow_fewer_log_probabilities_than_twenty() -> None:
    with asked(always(Reply(scored(("A", -0.1)))), top_logprobs=5) as (model, server):
        one(model, GD)
    assert server.requests[0].body["top_logprobs"] == 5


@pytest.mark.parametrize(
    ("token", "letter"),
    [
        *(
            (token, "A")
            for token in ("A", " A", "\nA", "▁A", "ĠA", "(A", "(A)", "A)", "A.", "A:", "**A**", '"A"', "[A]")
        ),
        *((token, None) for token in ("a", "An", "AB", "A A", "A) liver", "D", "", " ", "(", "1", "_", "Ａ", ".A")),
    ],
)
def test_what_spells_a_letter(token: str, letter: str | None) -> None:
    assert letters([(token, -1.0)], OPTIONS) == ({} if letter is None else {letter: -1.0})


@given(st.lists(st.tuples(st.sampled_from(["A", " A", "B", "(B)", "C.", "x", ""]), st.floats(-1e4, 0))))
def test_the_probabilities_of_tokens_add_up(candidates: list[tuple[str, float]]) -> None:
    found = letters(candidates, OPTIONS)
    for letter in OPTIONS:
        told = [logprob for token, logprob in candidates if token.strip(" ().") == letter]
        assert (letter in found) == bool(told)
        if told:
            assert found[letter] == pytest.approx(np.logaddexp.reduce(told))


def test_no_letter_among_the_likeliest_tokens_is_an_answer_without_letters() -> None:
    with asked(always(Reply(scored(("<think>", -0.1), ("The", -3.0))))) as (model, _):
        answer = one(model, GD)
    assert isinstance(answer, Answer)
    assert answer.option_logprobs == {}
    assert answer.text == "<think>"


def silent(*, logprobs: Any) -> Reply:
    made = completion("A", "length")
    made["choices"][0]["logprobs"] = logprobs
    return Reply(made)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(completion("A")),
        silent(logprobs=None),
        silent(logprobs={}),
        silent(logprobs={"content": None}),
        silent(logprobs={"content": []}),
        silent(logprobs={"content": [{"token": "A", "logprob": -0.1, "top_logprobs": []}]}),
        silent(logprobs={"content": [{"token": "A", "logprob": -0.1}]}),
    ],
)
def test_a_server_that_tells_no_log_probabilities_is_asked_once(reply: Reply) -> None:
    with asked(always(reply), concurrency=1) as (model, server):
        answers = model.generate([GD] * 5)
        assert {str(answer) for answer in answers} == {
            f"{server.url.removesuffix('/v1')}: the server told no log-probabilities (`transformers serve`, for one, "
            "ignores that they are asked for): ask by --technique=mc"
        }
        assert all(isinstance(answer, AnswerError) for answer in answers)
        assert len(server.requests) == 1
        assert isinstance(one(model), Answer), "other techniques go on"


def test_one_answer_without_log_probabilities_is_an_error_of_its_own() -> None:
    with asked(first(Reply(scored(("A", -0.1))), silent(logprobs=None), Reply(scored(("B", -0.1))))) as (model, _):
        answers = [one(model, GD) for _ in range(3)]
    assert [type(answer) for answer in answers] == [Answer, AnswerError, Answer]


def test_log_probabilities_in_another_form_are_an_error() -> None:
    with asked(always(silent(logprobs={"content": [{"probs": [], "tok_str": "A"}]}))) as (model, _):
        answer = one(model, GD)
        assert isinstance(one(model), Answer), "they are read only where they were asked for"
    assert isinstance(answer, AnswerError)
    assert "log-probabilities in a form that is not OpenAI's (Object missing required field `token`" in str(answer)


def test_a_refusal_has_no_letters_and_silences_nothing() -> None:
    with asked(first(Reply(completion("", "content_filter")), Reply(scored(("A", -0.1))))) as (model, _):
        refused, answered = one(model, GD), one(model, GD)
    assert isinstance(refused, Answer)
    assert (refused.finish, refused.option_logprobs) == ("refusal", None)
    assert isinstance(answered, Answer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reasoning": True}, "a reasoning model's next token is no letter: technique 'gd' needs another model"),
        ({"top_logprobs": 0}, "top_logprobs is 0 in the model's options: technique 'gd' needs some"),
    ],
)
def test_where_no_letters_can_be_scored_nothing_is_sent(options: dict[str, Any], message: str) -> None:
    with asked(always(Reply(completion())), **options) as (model, server):
        assert model.capabilities == {"generate"}
        answer = one(model, GD)
        assert server.requests == []
    assert isinstance(answer, AnswerError)
    assert str(answer) == message


def test_an_answer_says_which_model_the_server_named() -> None:
    with asked(first(Reply({"choices": [{"message": {"content": "A"}}]}), Reply(completion()))) as (model, _):
        unnamed, named = one(model), one(model)
    assert isinstance(unnamed, Answer)
    assert isinstance(named, Answer)
    assert (unnamed.served_by, named.served_by) == ("", "tiny-2026 fp_1")


# --- options scored by a vLLM server --------------------------------------------------------------------------

HEAD = [1, 90, 91, 92]
"""The tokens of the chat template, the question and the beginning of the reply."""
VOCABULARY = {"A": [65], "B": [66], "C": [67], "liver": [10, 11], "spleen": [12], "kidney": [10, 13, 14]}
VLLM_PS = Prompt("Which?", options=OPTIONS, technique="ps", item="q1")


def vllm_server(number: int, request: Request) -> Reply:
    """Chat completions and tokens as vLLM gives them; the log-probability of token n is -n / 100."""
    body = request.body
    last = body["messages"][-1]
    reply = VOCABULARY[last["content"]] if last["role"] == "assistant" else []
    assert body.get("continue_final_message", False) == bool(reply)
    assert body.get("add_generation_prompt", True) != bool(reply)
    if request.path == "/tokenize":
        return Reply({"count": 4 + len(reply), "max_model_len": 99, "tokens": HEAD + reply})
    assert request.path == "/v1/chat/completions"
    assert (body["max_tokens"], body["temperature"]) == (1, 0)

    made = completion("A", "length")
    if "logprob_token_ids" in body:
        assert body["logprobs"] is body["return_tokens_as_token_ids"] is True
        told = [{"token": f"token_id:{token}", "logprob": -token / 100} for token in (7, *body["logprob_token_ids"])]
        made["choices"][0]["logprobs"] = {"content": [{**told[0], "top_logprobs": told}]}
    if "prompt_logprobs" in body:
        prompt = [1, 90, *[5] * 9, 91, 92, *reply]  # an image has more tokens than a question without one
        steps = [{str(token): {"logprob": -token / 100, "rank": 3, "decoded_token": "x"}} for token in prompt]
        made["prompt_logprobs"] = [None, *steps[1:]]
    return Reply(made)


def test_letters_are_scored_by_their_tokens_whatever_their_rank() -> None:
    with asked(vllm_server, scoring="vllm", extra={"chat_template_kwargs": {"enable_thinking": False}}) as made:
        model, server = made
        assert model.capabilities == {"generate", "option_logprobs", "option_likelihood"}
        answers = [one(model, GD) for _ in range(3)]
    for answer in answers:
        assert isinstance(answer, Answer), str(answer)
        assert answer.option_logprobs == {"A": -0.65, "B": -0.66, "C": -0.67}
    paths = [request.path for request in server.requests]
    assert paths == ["/tokenize"] * 4 + ["/v1/chat/completions"] * 3, "tokens are asked for once"
    assert all(request.body["chat_template_kwargs"] == {"enable_thinking": False} for request in server.requests)
    assert server.requests[-1].body["logprob_token_ids"] == [65, 66, 67]
    assert "top_logprobs" not in server.requests[-1].body


def test_the_texts_of_options_are_scored_as_the_end_of_the_chat(tmp_path: Path) -> None:
    prompt = replace(VLLM_PS, images=(picture(tmp_path),), system="Be brief.")
    with asked(vllm_server, scoring="vllm", price_input=1, price_output=2) as (model, server):
        answer = one(model, prompt)
    assert isinstance(answer, Answer), str(answer)
    assert answer.option_logprobs == {
        "A": pytest.approx(-(0.10 + 0.11) / 2),
        "B": -0.12,
        "C": pytest.approx(-(0.10 + 0.13 + 0.14) / 3),
    }
    assert (answer.text, answer.served_by) == ("", "tiny-2026 fp_1")
    assert answer.usage == {"input": 3000, "output": 30, "cost": pytest.approx(3060 / 1e6)}
    chats = [request.body for request in server.requests if request.path != "/tokenize"]
    assert [chat["messages"][-1] for chat in chats] == [
        {"role": "assistant", "content": option} for option in OPTIONS.values()
    ]
    for chat in chats:
        assert [message["role"] for message in chat["messages"]] == ["system", "user", "assistant"]
        assert [part["type"] for part in chat["messages"][1]["content"]] == ["image_url", "text"]
        assert chat["prompt_logprobs"] == 0
    assert all("image" not in json.dumps(request.body) for request in server.requests if request.path == "/tokenize")


NO_SCORES = 'the server told no scores of the options: scoring = "vllm" is for vLLM servers of a version that knows'


def without(*fields: str) -> Callable[[int, Request], Reply]:
    """A server that ignores fields."""

    def script(number: int, request: Request) -> Reply:
        if request.path != "/tokenize":
            for name in fields:
                request.body.pop(name, None)
            if "continue_final_message" in fields:
                request.body["messages"].append({"role": "user", "content": "?"})
        return vllm_server(number, request)

    return script


def told(change: Callable[[dict[str, Any]], object]) -> Callable[[int, Request], Reply]:
    """A server whose chat completions are changed."""

    def script(number: int, request: Request) -> Reply:
        reply = vllm_server(number, request)
        if request.path != "/tokenize":
            change(reply.body)
        return reply

    return script


@pytest.mark.parametrize(
    ("prompt", "script"),
    [
        (GD, without("logprob_token_ids")),
        (GD, told(lambda body: body["choices"][0]["logprobs"]["content"][0]["top_logprobs"].pop())),
        (GD, told(lambda body: body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1].update(token="A"))),
        (GD, told(lambda body: body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1].update(logprob=None))),
        (GD, told(lambda body: body["choices"][0].update(logprobs={"content": "A"}))),
        (VLLM_PS, without("prompt_logprobs")),
        (VLLM_PS, without("continue_final_message", "add_generation_prompt")),
        (VLLM_PS, told(lambda body: body.update(prompt_logprobs=[]))),
        (VLLM_PS, told(lambda body: body.update(prompt_logprobs=[{"10": {"logprob": -1}}]))),
        (VLLM_PS, told(lambda body: body.update(prompt_logprobs={"10": -1}))),
        (VLLM_PS, told(lambda body: body["prompt_logprobs"].append({"2": {"logprob": -1}}))),
        (VLLM_PS, told(lambda body: body["prompt_logprobs"].append(None))),
        (VLLM_PS, told(lambda body: body["prompt_logprobs"][-1].update({"2": {"logprob": -1}}))),
    ],
)
def test_a_server_that_tells_no_scores_is_asked_once_and_nothing_is_guessed(
    prompt: Prompt, script: Callable[[int, Request], Reply]
) -> None:
    with asked(script, scoring="vllm", concurrency=1) as (model, server):
        answers = model.generate([prompt] * 3)
        assert model.capabilities == {"generate"}
    for answer in answers:
        assert isinstance(answer, AnswerError)
        assert str(answer).startswith(f"{server.url.removesuffix('/v1')}: {NO_SCORES}")
    assert len([request for request in server.requests if request.path != "/tokenize"]) == 1


@pytest.mark.parametrize("prompt", [GD, VLLM_PS])
@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (error(404, "Not Found"), 'HTTP 404: Not Found (POST /tokenize; scoring = "vllm" is for vLLM servers)'),
        (Reply(b"<html>"), 'POST /tokenize told no tokens: scoring = "vllm" is for vLLM servers'),
        (Reply({"tokens": ["A"]}), 'POST /tokenize told no tokens: scoring = "vllm" is for vLLM servers'),
        (Reply({"tokens": HEAD}), "the chat template does not write "),
    ],
)
def test_a_server_without_tokens_is_no_guess(prompt: Prompt, tokens: Reply, message: str) -> None:
    with asked(always(tokens), scoring="vllm", retries=1) as (model, server):
        answer = one(model, prompt)
    assert isinstance(answer, AnswerError)
    assert str(answer).startswith(f"{server.url.removesuffix('/v1')}: {message}")
    assert all(request.path == "/tokenize" for request in server.requests), "no image was sent"


def test_a_letter_of_two_tokens_is_an_error() -> None:
    with asked(vllm_server, scoring="vllm") as (model, server):
        answer = one(model, replace(GD, options={"A": "x", "liver": "y"}))
    assert isinstance(answer, AnswerError)
    assert "the letter 'liver' is more than one; technique 'ps' scores whole texts" in str(answer)
    assert {request.path for request in server.requests} == {"/tokenize"}


def test_a_busy_server_is_asked_for_its_tokens_again() -> None:
    def script(number: int, request: Request) -> Reply:
        return error(503, "starting") if number < 2 else vllm_server(number, request)

    with asked(script, scoring="vllm", retries=3) as (model, _):
        assert isinstance(one(model, VLLM_PS), Answer)


def test_options_of_scoring() -> None:
    assert OpenAI("m", OpenAIOptions(reasoning=True)).capabilities == {"generate"}
    with pytest.raises(ValueError, match="leave `scoring` out"):
        OpenAIOptions(scoring="vllm", reasoning=True)
    with pytest.raises(ValueError, match="`extra` has prompt_logprobs, which other options set"):
        OpenAIOptions(scoring="vllm", extra={"prompt_logprobs": 1})
    OpenAIOptions(extra={"prompt_logprobs": 1})
    assert "option_likelihood" not in OpenAI("m", OpenAIOptions()).capabilities  # type: ignore[operator]
    assert "option_logprobs" in OpenAI("m", OpenAIOptions(scoring="vllm", top_logprobs=0)).capabilities  # type: ignore[operator]


# --- retries and requests in flight -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after": formatdate(1030, usegmt=True)}, 30),
        ({"retry-after": formatdate(970, usegmt=True)}, 0),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "inf"}, float("inf")),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=1000) == seconds


@given(st.text())
def test_any_retry_after_is_a_wait_or_none(value: str) -> None:
    seconds = retry_after({"retry-after": value}, now=1000)
    assert seconds is None or seconds >= 0


def test_answers_keep_the_order_of_the_prompts_with_several_in_flight() -> None:
    def script(number: int, request: Request) -> Reply:
        return Reply(completion(text_of(request)), delay=0.05 * ((number * 7) % 3))

    prompts = [Prompt(str(number)) for number in range(30)]
    with asked(script, concurrency=6) as (model, server):
        assert model.concurrency == 6
        answers = model.generate(prompts)
    assert [answer.text for answer in answers if isinstance(answer, Answer)] == [prompt.text for prompt in prompts]
    assert 1 < server.most <= 6


def test_the_engine_waits_longer_than_all_retries_take() -> None:
    with asked(always(Reply(completion())), retries=1, timeout=300, max_wait=100, concurrency=4) as (model, _):
        assert model.patience == 2 * 4 * (300 + 100)
        assert Limits.of(model).seconds(1) == 3200
        model.concurrency = 1
        assert Limits.of(model).seconds(1) == 800
        assert Limits.of(model, deadline=7).seconds(1) == 7


def test_how_many_are_in_flight_may_be_set() -> None:
    with asked(always(Reply(completion(), delay=0.05)), concurrency=2) as (model, server):
        model.concurrency = 5
        model.generate([Prompt("?")] * 20)
    assert 2 < server.most <= 5


def test_threads_share_the_limit() -> None:
    with asked(always(Reply(completion(), delay=0.05)), concurrency=3) as (model, server):
        threads = [threading.Thread(target=one, args=(model,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(server.requests) == 12
    assert 1 < server.most <= 3


def test_retry_after_is_honoured_by_all_requests() -> None:
    with asked(first(error(429, "slow down", Retry_After="1")), concurrency=2) as (model, server):
        one(model)
        answers = model.generate([Prompt("?")] * 3)
    assert all(isinstance(answer, Answer) for answer in answers)
    assert server.requests[1].at - server.requests[0].at >= 0.99


def test_fewer_are_in_flight_after_refusals_and_more_again_later() -> None:
    refusals = [error(429, "slow down", Retry_After="0")] * 4

    def script(number: int, request: Request) -> Reply:
        return refusals[number] if number < 4 else Reply(completion(), delay=0.05)

    with asked(script, concurrency=16) as (model, server):
        one(model)
        model.generate([Prompt("?")] * 180)
    after = [request.in_flight for request in server.requests[5:]]
    assert max(after[:2]) <= 2, "16 were halved four times"
    assert max(after[:20]) <= 8
    assert max(after) > 8


def test_requests_that_failed_have_their_price() -> None:
    """A server may give an answer up after it wrote some of it."""
    broken = Reply(completion("B", "abort"))
    with asked(first(broken, error(500, "out of order"), broken), price_input=2, price_output=10) as (model, _):
        answer, plain = one(model), one(model)
    assert isinstance(answer, Answer)
    assert answer.usage == {"input": 3000, "output": 30, "cost": pytest.approx(3 * (2000 + 100) / 1e6)}
    assert isinstance(plain, Answer)
    assert plain.usage == {"input": 1000, "output": 10, "cost": pytest.approx((2000 + 100) / 1e6)}


def test_growing_waits_stop_at_max_wait() -> None:
    with asked(first(*[error(500, "out of order")] * 9), retries=9, max_wait=0.02) as (model, server):
        answer = one(model)
    assert isinstance(answer, Answer), str(answer)
    assert len(server.requests) == 10


def limited(ceiling: int) -> servers.Server:
    address = ServerAddress("http://localhost:1/v1", "http://localhost:1", remote=False)
    return servers.Server(address, client=None, ceiling=ceiling, limit=ceiling)  # type: ignore[arg-type]  # none is asked


@given(st.integers(1, 64), st.lists(st.booleans()))
def test_the_limit_stays_between_one_and_the_ceiling(ceiling: int, events: list[bool]) -> None:
    gate = limited(ceiling)
    for answered in events:
        before = gate.limit
        if answered:
            gate.answered()
            assert gate.limit in (before, before + 1)
        else:
            gate.busy(started=time.monotonic(), wait=0)
            assert gate.limit == max(before // 2, 1)
        assert 1 <= gate.limit <= ceiling
    for _ in range(ceiling * ceiling + 1):
        gate.answered()
    assert gate.limit == ceiling


def test_refusals_of_one_moment_halve_the_limit_once() -> None:
    gate = limited(16)
    started = time.monotonic()
    for _ in range(10):
        gate.busy(started, wait=0)
    assert gate.limit == 8


# --- keys and hosts ---------------------------------------------------------------------------------------


def echoing(number: int, request: Request) -> Reply:
    """Sends back what it was sent, as an error or as an answer."""
    said = f"{'x' * 370} you sent {request.headers['Authorization']}, {request.headers['Authorization'] * 9}"
    return error(400, said) if number % 2 else Reply(completion(said))


def test_a_key_that_a_server_sends_back_is_not_repeated() -> None:
    with asked(echoing, concurrency=1) as (model, _):
        answer, failed = model.generate([Prompt("?")] * 2)
        about = json.dumps(model.about())
    assert isinstance(answer, Answer)
    assert isinstance(failed, AnswerError)
    for shown in (answer.text, str(failed), about, model.title, repr(model), str(model.fingerprint())):
        assert "sk-test" not in shown
    assert "you sent Bearer [key]" in answer.text
    assert "you sent Bearer" in str(failed)


def test_a_placeholder_for_a_key_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "A")
    with asked(always(Reply(completion("A")))) as (model, _):
        answer = one(model)
    assert isinstance(answer, Answer)
    assert answer.text == "A"


def test_a_config_with_a_url_sends_no_key_of_another_host() -> None:
    with Server(always(Reply(completion()))) as server:
        model = loaded(OpenAI("tiny", OpenAIOptions(base_url=server.url)))
        one(model)
        model.close()
    assert server.requests[0].headers["Authorization"] == "Bearer none"


def test_url_and_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(always(Reply(completion()))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        model = loaded(OpenAI("tiny"))
        one(model)
        model.close()
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("url", "origin", "remote"),
    [
        ("", "https://api.openai.com", True),
        ("http://localhost:8000/v1", "http://localhost:8000", False),
        ("http://LOCALHOST/v1", "http://LOCALHOST", False),
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434", False),
        ("http://127.9.9.9/v1", "http://127.9.9.9", False),
        ("http://[::1]:8000/v1", "http://[::1]:8000", False),
        ("http://[::2]:8000/v1", "http://[::2]:8000", True),
        ("http://0.0.0.0/v1", "http://0.0.0.0", True),
        ("http://10.0.0.7:8000", "http://10.0.0.7:8000", True),
        ("https://localhost.example.org/v1", "https://localhost.example.org", True),
        ("https://127.0.0.1.example.org/v1", "https://127.0.0.1.example.org", True),
    ],
)
def test_where_images_go(url: str, origin: str, remote: bool) -> None:
    model = OpenAI("x", OpenAIOptions(base_url=url))
    assert (model.sends_to, is_remote(model.sends_to), model.priced) == (origin, remote, False)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1",
        "localhost:8000",
        "https://user:secret@host/v1",
        "https://secret@host/v1",
        "https://host/v1?key=secret",
        "https://host/v1#secret",
        "http://localhost\\@evil.example/v1",
        "http:///v1",
        "https://host /v1",
    ],
)
def test_a_url_without_a_host_or_with_a_secret_is_refused_and_not_shown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"^base_url is not like https://host/v1") as raised:
        OpenAI("x", OpenAIOptions(base_url=url)).check()
    assert "secret" not in str(raised.value)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(UsageError, match=r"^OPENAI_BASE_URL is not like"):
        OpenAI("x").check()


def test_check_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="needs the model's name on the server: --model=openai:NAME"):
        OpenAI("").check()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-\u20ac")
    with pytest.raises(UsageError, match=r"OPENAI_API_KEY holds characters that no key has$"):
        OpenAI("x").check()
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(UsageError, match=r"set OPENAI_API_KEY to the key of https://api.openai.com"):
        OpenAI("x").check()
    with pytest.raises(UsageError, match=r"set OTHER_KEY to the key of https://host"):
        OpenAI("x", OpenAIOptions(base_url="https://host/v1", key_env="OTHER_KEY")).check()
    OpenAI("x", OpenAIOptions(base_url="https://host/v1")).check()
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'pytest-medvqa\[openai\]'"):
        OpenAI("x").check()


def test_a_fingerprint_changes_with_what_is_sent() -> None:
    def of(name: str = "m", **options: Any) -> str | None:
        model = loaded(OpenAI(name, OpenAIOptions(**{"base_url": "https://host/v1", **options})))
        model.close()
        return model.fingerprint()

    told = [
        of(),
        of("n"),
        of(base_url="https://other/v1"),
        of(max_tokens=64),
        of(temperature=1),
        of(system="x"),
        of(max_pixels=9),
        of(top_logprobs=5),
        of(extra={"seed": 1}),
        of(scoring="vllm"),
    ]
    assert len(set(told)) == len(told)
    assert of(extra={"a": 1, "b": 2}) == of(extra={"b": 2, "a": 1}, timeout=3, concurrency=2)
    assert of(base_url="http://localhost:8000/v1") is None, "weights may change under the name"


# --- whole sessions ---------------------------------------------------------------------------------------

SPREAD = [pytest.param((), id="serial"), pytest.param(("-n2",), id="n2")]
SPREAD_SLOWLY = [SPREAD[0], pytest.param(("-n2",), id="n2", marks=pytest.mark.slow)]
CONFIG = """
backend = "openai"
argument = "tiny"
[options]
base_url = "{url}"
key_env = "OPENAI_API_KEY"
retries = 1
price_input = 10
price_output = 100
"""
TEST = """
import pytest

@pytest.mark.vqa("phantom-mediconfusion")
@pytest.mark.vqa("phantom-medlesionvqa")
def test_it(item, evaluate):
    evaluate(item)
"""


def session(pytester: pytest.Pytester, url: str, *arguments: str) -> pytest.RunResult:
    (pytester.path / "models").mkdir(exist_ok=True)
    (pytester.path / "models/mine.toml").write_text(CONFIG.format(url=url))
    pytester.makepyfile(test_it=TEST)
    common = ("--model=mine", "--benchmark=phantom-mediconfusion", "-p", "no:randomly", "-p", "no:benchmark")
    return pytester.runpytest_subprocess(*common, *arguments)


def said(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


def results(pytester: pytest.Pytester, name: str) -> dict[str, dict[str, Any]]:
    lines = (pytester.path / "reports" / name / "results.jsonl").read_text().splitlines()
    return {line["item"]["id"]: line for line in map(json.loads, lines)}


def assert_no_key(folder: Path, output: str) -> None:
    assert "sk-test" not in output
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if b"sk-test" in path.read_bytes()] == []


def test_a_run_is_the_same_serially_and_spread(pytester: pytest.Pytester) -> None:
    slowed: set[int] = set()

    def script(number: int, request: Request) -> Reply:
        """Mostly A; by the image, whatever the order, also B, a refusal, and an error that holds the key."""
        question = zlib.crc32(json.dumps(request.body["messages"]).encode())
        kind = question % 5
        if kind == 0:
            return error(400, f"wrong key: {request.headers['Authorization']}")
        if kind == 1:
            return error(400, "filtered", "content_filter")
        if number % 7 == 3 and question not in slowed:
            slowed.add(question)  # once each, so that the second request is always answered
            return error(429, "slow down", Retry_After="0")
        return Reply(completion("B" if kind == 2 else "A"))

    with Server(script) as server:
        runs = {}
        for name, spread in (("serial", ()), ("spread", ("-n2",))):
            result = session(pytester, server.url, f"--run={name}", "--limit=24", *spread)
            assert result.ret == 1, said(result)
            assert "will be sent" not in said(result), "the server is this machine"
            assert_no_key(pytester.path, said(result))
            runs[name] = {key: line["score"] for key, line in results(pytester, name).items()}
            about = json.loads((pytester.path / "reports" / name / "run.json").read_text())
            answered = sum(
                line["answer"] is not None and bool(line["answer"]["usage"])
                for line in results(pytester, name).values()
            )
            assert about["usage"]["input"] == 1000 * answered
            assert about["usage"]["cost"] == pytest.approx(0.011 * answered)
            assert about["model"]["name"] == "openai:tiny"
            assert about["model"]["deviations"] == []
            assert about["served_by"] == ["tiny-2026 fp_1"]
            assert about["config"]["options"]["base_url"] == server.url
            shown = (
                f"Used: {1000 * answered:,} tokens input, {10 * answered} tokens output, cost {0.011 * answered:.4g} "
            )
            assert shown in said(result)
            assert "tokens input" in (pytester.path / "reports" / name / "summary.md").read_text()
    assert runs["serial"] == runs["spread"]
    outcomes = {score["outcome"] for score in runs["serial"].values()}
    assert outcomes == {"correct", "wrong", "refused", "error"}
    assert any("Bearer [key]" in score["why"] for score in runs["serial"].values())


@pytest.mark.parametrize("spread", SPREAD)
def test_a_run_stops_when_it_has_cost_enough(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    with Server(always(Reply(completion(), delay=0.05))) as server:
        result = session(pytester, server.url, "--max-cost=0.04", "--run=first", "--limit=72", *spread)
    assert result.ret == pytest.ExitCode.INTERRUPTED, said(result)
    assert "--max-cost=0.04 is reached" in said(result)
    done = len(results(pytester, "first"))
    in_flight = 8 * (2 if spread else 1)
    assert 4 <= done <= 4 + 2 * in_flight
    assert len(server.requests) <= done + 2 * in_flight, "what was in flight is paid for, and nothing is asked ahead"
    assert not (pytester.path / "reports/first/stop").exists()
    written = json.loads((pytester.path / "reports/first/metrics.json").read_text())
    assert written["measures"], "what was paid for is reported"


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_another_machine_is_named_before_the_run(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    with Server(always(Reply(completion()))) as server:
        result = session(pytester, server.remote_url, "--limit=4", "-q", *spread)
    assert result.ret == 0, said(result)
    notice = f"images of phantom-mediconfusion will be sent to http://0.0.0.0:{server.server_port}"
    (line,) = [line for line in result.outlines if notice in line]
    assert re.match(r"medvqa: up to \d+ images", line)
    assert result.outlines.index(line) < 3
    result = session(pytester, server.remote_url, "--collect-only")
    assert notice not in said(result)


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_data_that_were_handed_out_on_request_are_not_uploaded_unasked(
    pytester: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    pytester.makeconftest(
        """
        from dataclasses import replace
        from medvqa import benchmarks

        def pytest_medvqa_benchmarks():
            shipped = {b.name: b for b in benchmarks.pytest_medvqa_benchmarks()}
            return [replace(shipped["phantom-medlesionvqa"], name="kept", origin=None, public=False)]
        """
    )
    with Server(always(Reply(completion()))) as server:
        common = ("--benchmark=kept", *spread)
        result = session(pytester, server.remote_url, *common)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        where = f"http://0.0.0.0:{server.server_port}"
        told = f"--model=mine would send to {where} what is not declared public: 92 questions and 64 images of kept"
        assert told in said(result)
        assert "Add --allow-upload" in said(result)
        assert server.requests == []
        assert session(pytester, server.remote_url, "--allow-upload", "--limit=4", *common).ret == 0
        assert session(pytester, server.url, "--limit=4", *common).ret == 0, "this machine may"


def test_what_cannot_be_is_a_usage_error(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, message in (
        (("--max-cost=0",), "--max-cost=0: a sum of money is more than 0"),
        (("--max-cost=nan",), "--max-cost=nan: a sum of money is more than 0"),
        (("--max-cost=1", "--model=openai:x"), "'openai:x' does not tell what its answers cost; give price_input"),
        (("--max-cost=1", "--model=random"), "'random' does not tell what its answers cost"),
        (("--model=openai:",), "openai needs the model's name on the server"),
    ):
        result = session(pytester, "http://localhost:1/v1", *arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert message in said(result)


def test_shipped_configs_name_a_host_a_key_and_prices_that_go_together() -> None:
    shipped = Path(__file__).parents[2] / "models"
    found: Sequence[configs.ModelConfig] = [c for c in configs.available([shipped]) if c.backend == "openai"]
    assert len(found) >= 5
    for config in found:
        model = configs.make(config, {"openai": OpenAI})
        assert model.options.base_url
        assert bool(model.options.key_env) == is_remote(model.sends_to)
        comment = (shipped / f"{config.name}.toml").read_text()
        assert "# Verified" in comment


def test_the_page_about_servers_tells_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs/gpus-and-servers.md").read_text()
    assert [name.name for name in fields(OpenAIOptions) if f"`{name.name}`" not in page] == []
