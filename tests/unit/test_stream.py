"""The stream: every prompt answered exactly once, whatever the batches, and nothing that a model does stops a test."""

import _thread
import gc
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.backend import clock
from medvqa.engine import KILLS, AnswerMemory, Limits, Recollection, Stream, Streamed, Ticket, arranging
from medvqa.engine import stream as stream_module
from medvqa.items import Answer, AnswerError, BatchLost, Image, Item, MedVQAError, Model, Prompt, Query, UsageError
from support.laws import examples
from support.streams import Ahead, item, prompt
from support.stubs import backend


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


class Recorded:
    """Answers with the prompt's text, and keeps the batches that it was given."""

    name = "recorded"
    capabilities = frozenset({"generate"})

    def __init__(self, before: Callable[[list[str]], None] = lambda texts: None) -> None:
        self.before = before
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        texts = [prompt.text for prompt in prompts]
        self.batches.append(texts)
        self.threads.add(threading.get_ident())
        self.before(texts)
        return [Answer(text) for text in texts]

    @property
    def asked(self) -> Counter[str]:
        return Counter(text for batch in self.batches for text in batch)


ITEMS = [item(number) for number in range(50)]


@contextmanager
def streaming(
    model: Model,
    ahead: Ahead | None = None,
    build: Callable[[Query], Prompt] = prompt,
    *,
    batch_size: int | None = None,
    concurrency: int | None = None,
    deadline: float | None = 60,
    window: int = 4,
    memory: AnswerMemory | None = None,
) -> Iterator[Stream]:
    made = backend(model)
    limits = Limits.of(made, batch_size=batch_size, concurrency=concurrency, deadline=deadline, window=window)
    stream = Stream(made, build, ahead or Ahead(ITEMS), limits, memory)
    try:
        yield stream
    finally:
        stream.close()


def said(stream: Stream, items: Sequence[Query], ahead: Ahead | None = None) -> list[str]:
    """What came back for each item: the text, or the error with a mark before it."""
    texts = []
    for each in items:
        reply = stream.answer(each)
        asked, answer = reply.prompt, reply.answer
        assert asked.text == each.item.question
        texts.append(answer.text if isinstance(answer, Answer) else f"! {answer}")
        if ahead is not None:
            ahead.advance()
    return texts


# --- laws ---------------------------------------------------------------------------------------------------


@examples(60)
@given(
    lengths=st.lists(st.integers(1, 60), max_size=60),
    shared=st.integers(1, 5),
    size=st.integers(1, 9),
    window=st.integers(1, 5),
    first=st.integers(2, 60),
    more=st.integers(1, 12),
)
def test_every_prompt_is_asked_once_and_gets_its_own_answer(
    lengths: list[int], shared: int, size: int, window: int, first: int, more: int
) -> None:
    items = [
        Query(Item(str(n), "slake", "short_answer", f"{n} " + "x" * length, images=(Image(f"{n // shared}.png"),)))
        for n, length in enumerate(lengths)
    ]
    ahead, model = Ahead(items, first, more), Recorded()
    with streaming(model, ahead, batch_size=size, window=window) as stream:
        assert said(stream, items, ahead) == [each.item.question for each in items]
    assert model.asked == Counter(each.item.question for each in items)
    assert max(map(len, model.batches), default=0) <= size
    assert len(model.threads) <= 1


@examples(60)
@given(
    count=st.integers(1, 40),
    size=st.integers(1, 16),
    poison=st.sets(st.integers(0, 39)),
    memory=st.booleans(),
)
def test_a_batch_that_raises_is_halved_until_the_bad_items_stand_alone(
    count: int, size: int, poison: set[int], memory: bool
) -> None:
    bad = {f"q{n}" for n in poison}

    def refuse(texts: list[str]) -> None:
        if bad & set(texts):
            raise (OutOfMemoryError if memory else ValueError)("poison")

    name = "OutOfMemoryError" if memory else "ValueError"
    with streaming(Recorded(refuse), Ahead(ITEMS[:count]), batch_size=size) as stream:
        expected = [f"{name}: poison" if text in bad else text for text in (f"q{n}" for n in range(count))]
        assert [
            text.rpartition("test_stream.py:")[2].partition(": ")[2] or text for text in said(stream, ITEMS[:count])
        ] == expected


@examples(30)
@given(size=st.integers(1, 64), fits=st.integers(1, 64))
def test_out_of_memory_again_and_again_bounds_the_batches(size: int, fits: int) -> None:
    def refuse(texts: list[str]) -> None:
        if len(texts) > fits:
            raise MemoryError

    model = Recorded(refuse)
    with streaming(model, batch_size=size) as stream:
        assert said(stream, ITEMS) == [each.item.question for each in ITEMS]
    failed = [batch for batch in model.batches if len(batch) > fits]
    assert len(failed) <= 7, "once for each halving, not once for each batch"
    assert [len(batch) for batch in failed] == sorted((len(batch) for batch in failed), reverse=True)


def test_a_prompt_that_does_not_fit_alone_does_not_shrink_the_batches_of_others() -> None:
    def refuse(texts: list[str]) -> None:
        if "q3" in texts:
            raise OutOfMemoryError("huge")

    model = Recorded(refuse)
    with streaming(model, batch_size=8, window=1) as stream:
        assert said(stream, ITEMS)[3].endswith(": OutOfMemoryError: huge")
    assert len(model.batches[-2]) == 8


def test_one_batch_out_of_memory_is_halved_and_those_after_it_are_full() -> None:
    failures = iter([True])

    def refuse(texts: list[str]) -> None:
        if len(texts) == 8 and next(failures, False):
            raise MemoryError

    model = Recorded(refuse)
    with streaming(model, Ahead(ITEMS[:40]), batch_size=8) as stream:
        assert said(stream, ITEMS[:40]) == [each.item.question for each in ITEMS[:40]]
    assert [len(batch) for batch in model.batches] == [8, 4, 4, 8, 8, 8, 8]


def test_the_limit_of_memory_is_that_of_the_load_and_grows_back() -> None:
    short, long = [(0, 100)] * 8, [(0, 10_000)] * 8
    room = arranging.Room()
    room.exceeded(arranging.load(long))
    assert room.most(long) == 8, "once is no evidence"
    room.exceeded(arranging.load(long))
    assert (room.most(long), room.most(short)) == (4, 8)
    room.exceeded(arranging.load(long[:4]))
    assert room.most(long) == 2
    for _ in range(arranging.CALM):
        assert room.most(long) == 2
        room.fitted(arranging.load(long[:2]))
        room.fitted(arranging.load(short))
    assert room.most(long) == 4
    room.exceeded(arranging.load(long[:4]))
    assert room.most(long) == 4
    room.exceeded(arranging.load(long[:4]))
    for _ in range(2 * arranging.CALM):
        assert room.most(long) == 2, "the next time takes twice as many"
        room.fitted(arranging.load(long[:2]))
    assert room.most(long) == 4


def test_a_batch_of_the_same_load_that_fits_forgives_one_that_did_not() -> None:
    room, costs = arranging.Room(), [(0, 100)] * 9
    for _ in range(5):
        room.exceeded(arranging.load(costs))
        room.fitted(arranging.load(costs))
    assert room.most(costs) == 9
    room.exceeded(arranging.load(costs))
    room.exceeded(arranging.load(costs))
    assert room.most(costs) == 3, "as many calls as 4, 4 and 1"
    room.exceeded_alone()
    assert room.most(costs) == 9


# --- batches ------------------------------------------------------------------------------------------------


def test_what_shares_an_image_and_what_is_alike_stands_together() -> None:
    images = [Image(f"{n % 4}.png") for n in range(16)]
    items = [
        Query(Item(str(n), "slake", "short_answer", "x" * (50 - n % 4) + str(n), images=(images[n],)))
        for n in range(16)
    ]
    model = Recorded()
    with streaming(model, Ahead(items), batch_size=4) as stream:
        said(stream, items)
    rests = [{len(text.rstrip("0123456789")) for text in batch} for batch in model.batches]
    assert all(len(rest) == 1 for rest in rests)
    assert len(model.batches) == 4


def test_a_batch_has_prompts_of_one_technique_limit_and_number_of_images() -> None:
    def build(query: Query) -> Prompt:
        number = int(query.item.id)
        images = (Image(f"{number}.png"),) * (number % 2)
        return Prompt(query.item.question, images=images, max_tokens=(5, 50)[number % 3 == 0])

    model = Kinds()
    with streaming(model, Ahead(ITEMS[:48]), build, batch_size=4) as stream:
        assert said(stream, ITEMS[:48]) == [each.item.question for each in ITEMS[:48]]
    assert all(len(kinds) == 1 for kinds in model.kinds)
    assert len(model.batches) < 20, "most are full"


class Kinds(Recorded):
    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[set[object]] = []

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        self.kinds.append({(prompt.technique, prompt.max_tokens, len(prompt.images)) for prompt in prompts})
        return super().generate(prompts)


def test_a_kind_that_is_rare_holds_up_no_test() -> None:
    def build(query: Query) -> Prompt:
        return Prompt(query.item.question, max_tokens=int(query.item.id) % 7)

    ahead, model = Ahead(ITEMS, first=20, more=1), Kinds()
    with streaming(model, ahead, build, batch_size=4, window=1) as stream:
        assert said(stream, ITEMS, ahead) == [each.item.question for each in ITEMS]
    assert all(len(kinds) == 1 for kinds in model.kinds)


def test_images_of_similar_size_stand_together(tmp_path: Path) -> None:
    for number in range(16):
        size = (300, 200) if number % 4 == 0 else (30, 20)
        PIL.Image.new("RGB", size).save(tmp_path / f"{number}.png")
    items = [item(n, (Image(f"{n}.png", path=str(tmp_path / f"{n}.png")),)) for n in range(16)]
    model = Recorded()
    with streaming(model, Ahead(items), batch_size=4) as stream:
        said(stream, items)
    assert sorted(map(sorted, model.batches))[0] == ["q0", "q12", "q4", "q8"]


def test_batches_are_full_although_tests_arrive_one_by_one() -> None:
    ahead, model = Ahead(ITEMS, first=20, more=1), Recorded()
    with streaming(model, ahead, batch_size=8) as stream:
        said(stream, ITEMS, ahead)
    assert [len(batch) for batch in model.batches[:2]] == [8, 8]
    assert len(model.batches) <= 9


def test_the_size_is_what_was_typed_else_what_the_model_says_else_32() -> None:
    model = Recorded()
    assert Limits.of(backend(model)).batch_size == 32
    model.batch_size = 4  # type: ignore[attr-defined]
    assert Limits.of(backend(model)).batch_size == 4
    assert Limits.of(backend(model), batch_size=7).batch_size == 7
    model.concurrency = 16  # type: ignore[attr-defined]
    assert (Limits.of(backend(model)).batch_size, Limits.of(backend(model)).concurrency) == (4, 16)
    assert Limits.of(backend(model), concurrency=2).concurrency == 2
    del model.batch_size  # type: ignore[attr-defined]
    assert Limits.of(backend(model)).batch_size == 1


def test_concurrency_is_refused_where_the_model_has_none() -> None:
    with pytest.raises(UsageError, match=r"--concurrency=2: model 'recorded' takes one batch at a time"):
        Limits.of(backend(Recorded()), concurrency=2)


def test_the_automatic_deadline_grows_with_the_batch() -> None:
    assert Limits(1, 1).seconds(1) == 660
    assert Limits(1, 1).seconds(32) == 2520
    assert Limits(1, 1, deadline=5).seconds(32) == 5
    assert Limits(1, 1, patience=900).seconds(1) == 900
    assert Limits(1, 1, patience=900).seconds(4) == 3600
    assert Limits(1, 1, patience=1).seconds(1) == 660
    assert Limits(1, 1, deadline=5, patience=900).seconds(1) == 5


def test_as_many_calls_are_in_flight_as_the_model_allows() -> None:
    meeting = threading.Barrier(5, timeout=10)
    model = Recorded(lambda texts: meeting.wait() and None)
    model.concurrency = 5  # type: ignore[attr-defined]
    with streaming(model) as stream:
        assert said(stream, ITEMS) == [each.item.question for each in ITEMS], "five at a time, or the barrier breaks"
    assert len(model.threads) == 5
    assert all(len(batch) == 1 for batch in model.batches)


def test_what_a_batch_took_is_shared_out() -> None:
    with streaming(Recorded(lambda texts: time.sleep(0.08)), Ahead(ITEMS[:4]), batch_size=4) as stream:
        answers = [stream.answer(each).answer for each in ITEMS[:4]]
    seconds = [answer.seconds for answer in answers if isinstance(answer, Answer)]
    assert seconds == [pytest.approx(0.02, abs=0.015)] * 4


# --- what is not ahead --------------------------------------------------------------------------------------


def test_an_item_that_is_not_ahead_is_asked_at_once_by_the_same_thread() -> None:
    model = Recorded()
    with streaming(model, Ahead(ITEMS[:40]), batch_size=8) as stream:
        assert said(stream, [ITEMS[0], ITEMS[45], ITEMS[1], ITEMS[1]]) == ["q0", "q45", "q1", "q1"]
    assert model.asked["q45"] == 1
    assert model.asked["q1"] == 2, "asked for twice, answered twice"
    assert len(model.threads) == 1


def test_an_answer_that_no_test_asked_for_is_forgotten() -> None:
    model = Recorded()
    with streaming(model, batch_size=8, window=1) as stream:
        for each in ITEMS:
            if each is not ITEMS[0]:
                said(stream, [each]) if int(each.item.id) % 2 else stream.forget(each)
        assert said(stream, [ITEMS[2]]) == ["q2"]
    assert model.asked["q2"] == 2
    assert model.asked["q49"] == 1, "what was forgotten does not stand in the way of what lies ahead"


def test_what_a_test_has_got_is_kept_no_longer() -> None:
    class Text(str):
        """What a weak reference can be made to."""

    said: list[weakref.ref[Text]] = []

    class Told(Recorded):
        def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
            texts = [Text(prompt.text) for prompt in prompts]
            said.extend(map(weakref.ref, texts))
            return [Answer(text) for text in texts]

    with streaming(Told(), batch_size=4, window=2) as stream:
        for each in ITEMS:
            stream.answer(each)
            stream.forget(each)
        gc.collect()
        # A lane may hold its last batch.
        assert [text() for text in said[:-8]] == [None] * (len(ITEMS) - 8)


def test_the_model_that_tests_get_asks_through_the_stream() -> None:
    model = Recorded()
    with streaming(model, batch_size=4) as stream:
        shown = Streamed(backend(model), stream)
        said(stream, ITEMS[:3])
        assert [a.text for a in shown.generate([Prompt(str(n)) for n in range(6)]) if isinstance(a, Answer)] == list(
            "012345"
        )
        assert shown.generate([]) == []
        assert (shown.name, shown.capabilities, shown.backend.batch_size) == ("recorded", {"generate"}, None)
        assert isinstance(shown, Model)
    assert len(model.threads) == 1
    assert max(map(len, model.batches)) == 4


# --- memory -------------------------------------------------------------------------------------------------


class Kept(AnswerMemory):
    """A memory in a dictionary, keyed by texts, that notes what is in flight; `bad` texts are to be asked alone."""

    def __init__(self, texts: Iterable[str] = (), bad: Iterable[str] = ()) -> None:
        self.answers = {text: Answer(f"kept {text}") for text in texts}
        self.bad = frozenset(bad)
        self.looked_up: list[str] = []
        self.calls: dict[int, Sequence[str]] = {}
        self.flying: list[set[str]] = []

    def recall(self, tickets: Sequence[Ticket]) -> list[Recollection]:
        keys = [f"{each.prompt.text}#{each.sample}" if each.sample else each.prompt.text for each in tickets]
        self.looked_up.extend(keys)
        return [
            Recollection(key, self.answers.get(key), "first" if key in self.answers else "", key in self.bad)
            for key in keys
        ]

    def begin(self, call: int, keys: Sequence[str]) -> None:
        assert call not in self.calls
        self.calls[call] = keys
        self.flying.append({key for each in list(self.calls.values()) for key in each})

    def end(self, call: int, keys: Sequence[str], answers: Sequence[Answer]) -> None:
        assert set(keys) <= set(self.calls[call])
        self.answers.update(zip(keys, answers, strict=True))
        self.calls[call] = ()


@examples(60)
@given(known=st.sets(st.integers(0, 49)), size=st.integers(1, 9), window=st.integers(1, 5), lanes=st.integers(1, 3))
def test_what_is_known_is_not_asked_and_the_rest_is_asked_in_full_batches(
    known: set[int], size: int, window: int, lanes: int
) -> None:
    model, memory = Recorded(), Kept(f"q{n}" for n in known)
    model.concurrency = lanes  # type: ignore[attr-defined]
    with streaming(model, batch_size=size, window=window, memory=memory) as stream:
        for n, each in enumerate(ITEMS):
            reply = stream.answer(each)
            assert reply.answer == memory.answers[f"q{n}"], "kept before a test has it"
            assert reply.reused == ("first" if n in known else "")
    assert model.asked == Counter(f"q{n}" for n in range(50) if n not in known)
    assert Counter(memory.looked_up) == Counter(f"q{n}" for n in range(50)), "each looked up once"
    if lanes == 1:
        windows = 50 // (size * window) + 1
        assert len(model.batches) <= (50 - len(known)) // size + windows


@examples(30)
@given(bad=st.sets(st.integers(0, 29), max_size=5), size=st.integers(1, 9), lanes=st.integers(1, 4))
def test_what_is_suspected_is_asked_when_nothing_else_is(bad: set[int], size: int, lanes: int) -> None:
    model, memory = Recorded(lambda texts: time.sleep(0.001)), Kept(bad={f"q{n}" for n in bad})
    model.concurrency = lanes  # type: ignore[attr-defined]
    with streaming(model, Ahead(ITEMS[:30]), batch_size=size, memory=memory) as stream:
        assert said(stream, ITEMS[:30]) == [f"q{n}" for n in range(30)]
    assert all(len(flying) == 1 for flying in memory.flying if flying & memory.bad)


def test_an_error_is_not_kept() -> None:
    memory = Kept()

    def refuse(texts: list[str]) -> None:
        if "q3" in texts:
            raise ValueError("bad")

    with streaming(Recorded(refuse), batch_size=8, memory=memory) as stream:
        said(stream, ITEMS)
    assert memory.answers.keys() == {f"q{n}" for n in range(50) if n != 3}
    assert not any(memory.calls.values())


def test_equal_prompts_of_one_call_are_samples_and_both_are_kept() -> None:
    model, memory = Recorded(), Kept()
    with streaming(model, Ahead([]), memory=memory) as stream:
        for _ in range(2):
            stream.generate([Prompt("x"), Prompt("y"), Prompt("x")])
    assert memory.answers.keys() == {"x", f"x#{stream_module.EQUAL}", "y"}
    assert model.asked == {"x": 2, "y": 1}


def test_numbered_prompts_of_a_test_are_the_samples_of_these_numbers() -> None:
    """In any call and any order; the second of two equal prompts is none of them."""
    model, memory = Recorded(), Kept()
    numbered = [Prompt("x", sample=number) for number in (1, 2, 3)]
    with streaming(model, Ahead([]), memory=memory) as stream:
        stream.generate([Prompt("x"), Prompt("x")])
        for each in reversed(numbered):
            stream.generate([each])
        stream.generate(numbered)
        stream.generate([numbered[0], numbered[0]])
    assert memory.answers.keys() == {"x", f"x#{2**32}", "x#1", "x#2", "x#3", f"x#{2**32 + 1}"}
    assert model.asked == {"x": 6}


@pytest.mark.parametrize("when", ["recall", "begin", "end"])
def test_a_memory_that_fails_ends_the_stream_with_what_it_said(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MedVQAError("the disk is full")

    model, memory = Recorded(), Kept()
    monkeypatch.setattr(memory, when, fail)
    with streaming(model, memory=memory) as stream:
        for each in ITEMS[:2]:
            with pytest.raises(MedVQAError, match="the disk is full"):
                stream.answer(each)
    assert len(model.batches) == (when == "end")


def test_an_answer_that_comes_after_its_deadline_is_kept() -> None:
    late, memory = threading.Event(), Kept()
    with streaming(Recorded(lambda texts: bool(late.wait(5))), deadline=0.05, memory=memory) as stream:  # type: ignore[arg-type]
        assert isinstance(stream.answer(ITEMS[0]).answer, AnswerError)
        late.set()
    assert memory.answers["q0"] == Answer("q0", seconds=memory.answers["q0"].seconds)


# --- when things go wrong -----------------------------------------------------------------------------------


def test_a_prompt_that_cannot_be_built_is_raised_in_its_own_test() -> None:
    def build(each: Query) -> Prompt:
        if each.item.id == "3":
            raise KeyError("no template")
        return prompt(each)

    with streaming(Recorded(), build=build, batch_size=4) as stream:
        assert said(stream, ITEMS[:3]) == ["q0", "q1", "q2"]
        with pytest.raises(KeyError, match="no template"):
            stream.answer(ITEMS[3])
        assert said(stream, ITEMS[4:]) == [each.item.question for each in ITEMS[4:]]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, pytest.skip.Exception])
def test_what_is_no_error_is_raised_in_the_tests_of_its_batch(stop: type[BaseException]) -> None:
    def end(texts: list[str]) -> None:
        if "q0" in texts:
            raise stop("enough")

    with streaming(Recorded(end), batch_size=4) as stream:
        with pytest.raises(stop):
            stream.answer(ITEMS[0])
        assert said(stream, ITEMS[4:8]) == ["q4", "q5", "q6", "q7"]


def test_a_model_that_exits_answers_with_errors() -> None:
    """`sys.exit(0)` in a model would let a run pass."""

    def end(texts: list[str]) -> None:
        raise SystemExit(0)

    with streaming(Recorded(end), batch_size=1) as stream:
        answer = stream.answer(ITEMS[0]).answer
    assert isinstance(answer, AnswerError)
    assert "SystemExit: 0" in str(answer)


def test_a_lane_that_breaks_tells_every_test() -> None:
    class Broken(Ahead):
        def stopped(self) -> bool:
            if threading.current_thread() is not threading.main_thread():
                raise RuntimeError("lost")
            return False

    with streaming(Recorded(), Broken(ITEMS)) as stream:
        for each in ITEMS[:2]:
            with pytest.raises(RuntimeError, match="model 'recorded' cannot be asked any more"):
                stream.answer(each)


def test_after_its_end_nothing_is_asked() -> None:
    with streaming(Recorded()) as stream:
        pass
    with pytest.raises(RuntimeError, match="model 'recorded' was closed"):
        stream.answer(ITEMS[0])


def test_when_the_session_stops_only_what_a_test_waits_for_is_asked() -> None:
    ahead = Ahead(ITEMS)
    model = Recorded(lambda texts: setattr(ahead, "ends", True))
    with streaming(model, ahead, batch_size=4) as stream:
        assert said(stream, [*ITEMS[:4], ITEMS[7], ITEMS[45]]) == ["q0", "q1", "q2", "q3", "q7", "q45"]
    assert model.batches == [["q0", "q1", "q2", "q3"], ["q7"], ["q45"]]


def test_a_batch_over_its_deadline_ends_in_errors_and_the_rest_goes_on() -> None:
    def slow(texts: list[str]) -> None:
        if "q0" in texts:
            time.sleep(0.5)

    model = Recorded(slow)
    with streaming(model, batch_size=4, deadline=0.3) as stream:
        assert said(stream, ITEMS[:4]) == ["! no answer within 0.3 s"] * 4
        assert said(stream, ITEMS[4:]) == [each.item.question for each in ITEMS[4:]]
    assert len(model.threads) == 1


def test_a_model_that_never_comes_back_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "FAREWELL", 0.1)
    released = threading.Event()
    model = Recorded(lambda texts: released.wait() and None)
    with streaming(model, batch_size=4, deadline=0.2) as stream:
        expected = ["! no answer within 0.2 s"] * 4 + ["! model 'recorded' hangs: a call never came back"] * 46
        assert said(stream, ITEMS) == expected
    assert not released.is_set()
    assert len(model.batches) == 1, "a second thread in a model that is made for one could mix up answers"
    released.set()


def test_being_interrupted_while_waiting() -> None:
    released = threading.Event()

    def interrupt(texts: list[str]) -> None:
        _thread.interrupt_main()
        released.wait(10)

    with streaming(Recorded(interrupt), Ahead(ITEMS[:4])) as stream:
        with pytest.raises(KeyboardInterrupt):
            stream.answer(ITEMS[0])
        released.set()


class Prepared(Recorded):
    """Keeps what it was told to prepare, and how many batches it had been given by then."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, list[str]]] = []

    def prepare(self, prompts: Sequence[Prompt]) -> None:
        self.told.append((len(self.batches), [prompt.text for prompt in prompts]))


def test_a_model_is_told_of_the_batch_that_comes_next() -> None:
    model = Prepared()
    with streaming(model, batch_size=4) as stream:
        said(stream, ITEMS)
    assert [texts for _, texts in model.told] == model.batches, "of each batch once"
    ahead = [told_at < number for number, (told_at, _) in enumerate(model.told)]
    assert not ahead[0]
    assert ahead[1], "of the second before the first is asked"
    assert all(told_at in (number, number - 1) for number, (told_at, _) in enumerate(model.told))


def test_the_next_window_is_planned_while_the_last_batch_of_one_is_computed() -> None:
    model = Prepared()
    with streaming(model, Ahead(ITEMS[:48]), batch_size=4, window=2) as stream:

        def await_plan(texts: list[str]) -> None:
            """Compute until the two next batches are planned, or all."""
            end = time.monotonic() + 10
            while len(stream._plan) < min(2, 12 - len(model.batches)) and time.monotonic() < end:
                time.sleep(0.001)

        model.before = await_plan
        assert said(stream, ITEMS[:48]) == [each.item.question for each in ITEMS[:48]]
    idle = [number for number, (told_at, _) in enumerate(model.told) if told_at == number]
    assert idle == [0], "no batch but the first was drafted while the model waited for it"


# --- two stages -----------------------------------------------------------------------------------------------


class Staged(Recorded):
    """Answers in two stages, and writes down what happens; `between(number)` is called in the second one."""

    def __init__(self, between: Callable[[int], None] = lambda number: None) -> None:
        super().__init__()
        self.between = between
        self.events: list[tuple[str, int]] = []
        self.seconds: set[int] = set()

    def compute(self, prompts: Sequence[Prompt]) -> Callable[[], list[Answer | AnswerError]]:
        number = len(self.batches)
        self.events.append(("computing", number))
        replies = self.generate(prompts)
        self.events.append(("computed", number))

        def rest() -> list[Answer | AnswerError]:
            self.seconds.add(threading.get_ident())
            self.between(number)
            self.events.append(("decoded", number))
            return replies

        return rest

    def await_event(self, event: tuple[str, int]) -> None:
        end = time.monotonic() + 10
        while event not in self.events:
            assert time.monotonic() < end, f"{event} never comes"
            time.sleep(0.001)


def test_a_batch_is_decoded_and_stored_while_the_next_one_is_computed() -> None:
    model = Staged(lambda number: number < 11 and model.await_event(("computing", number + 1)))
    memory = Kept()
    with streaming(model, Ahead(ITEMS[:48]), batch_size=4, memory=memory) as stream:
        for each in ITEMS[:48]:
            text = each.item.question
            assert stream.answer(each).answer == memory.answers[text], "kept before a test has it"
    assert len(model.threads) == len(model.seconds) == 1
    assert not model.threads & model.seconds
    assert not any(memory.calls.values())


def test_at_most_one_computed_batch_waits_to_be_stored() -> None:
    def hold(number: int) -> None:
        # The lane computes the next batch, and must then wait.
        if number < 10:
            model.await_event(("computed", number + 1))
            time.sleep(0.01)

    model = Staged(hold)
    with streaming(model, Ahead(ITEMS[:48]), batch_size=4) as stream:
        said(stream, ITEMS[:48])
    place = {event: n for n, event in enumerate(model.events)}
    assert all(place["decoded", n] < place["computing", n + 2] for n in range(len(model.batches) - 2))


def test_a_model_of_one_stage_has_its_answers_stored_before_its_next_call() -> None:
    memory = Kept()
    model = Recorded(lambda texts: asked_when_stored.append((len(model.batches) - 1, len(memory.answers))))
    asked_when_stored: list[tuple[int, int]] = []
    with streaming(model, Ahead(ITEMS[:48]), batch_size=4, memory=memory) as stream:
        said(stream, ITEMS[:48])
    assert asked_when_stored == [(number, 4 * number) for number in range(12)]


def test_what_an_answer_costs_is_known_before_the_next_batch() -> None:
    class Priced(Staged):
        def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
            super().generate(prompts)
            return [Answer(prompt.text, usage={"cost": 1.0}) for prompt in prompts]

    model = Priced()
    made = backend(model)
    stream = Stream(made, prompt, Ahead(ITEMS), Limits.of(made, batch_size=4, deadline=60, budget=8))
    try:
        said(stream, ITEMS[:8])
    finally:
        stream.close()
    assert len(model.batches) == 2


@pytest.mark.parametrize("error", [ValueError("bad"), MemoryError()])
def test_a_second_stage_that_raises_is_a_batch_that_raises(error: Exception) -> None:
    def fail(number: int) -> None:
        if "q5" in model.batches[number]:
            raise error

    model = Staged(fail)
    with streaming(model, batch_size=8) as stream:
        answers = said(stream, ITEMS)
    assert [number for number, text in enumerate(answers) if text.startswith("!")] == [5]
    assert ["q5"] in model.batches


def test_a_computed_batch_is_stored_although_its_session_has_ended() -> None:
    memory = Kept()
    model = Staged(lambda number: model.await_event(("closing", 0)))
    with streaming(model, batch_size=4, memory=memory) as stream:
        tickets = [stream.submit(Prompt(f"q{number}"), lambda answer, reply: None) for number in range(4)]
        model.await_event(("computed", 0))
        model.events.append(("closing", 0))
    assert memory.answers.keys() == {"q0", "q1", "q2", "q3"}
    assert not any(memory.calls.values())
    assert all(ticket.done() for ticket in tickets)


def test_what_is_suspected_is_asked_alone_of_a_model_with_two_stages_too() -> None:
    model, memory = Staged(lambda number: time.sleep(0.001)), Kept(bad={"q3", "q17"})
    with streaming(model, Ahead(ITEMS[:30]), batch_size=4, memory=memory) as stream:
        assert said(stream, ITEMS[:30]) == [f"q{n}" for n in range(30)]
    assert all(len(flying) == 1 for flying in memory.flying if flying & memory.bad)
    assert max(map(len, memory.flying)) <= 8, "two batches at most"


def test_several_lanes_finish_their_own_batches() -> None:
    model = Staged()
    model.concurrency = 3  # type: ignore[attr-defined]
    with streaming(model, batch_size=1) as stream:
        assert said(stream, ITEMS) == [each.item.question for each in ITEMS]
    assert model.seconds <= model.threads


def test_threads_switch_sooner_while_a_stream_runs() -> None:
    usual, seen = sys.getswitchinterval(), []
    with streaming(Recorded(lambda texts: seen.append(sys.getswitchinterval()))) as stream:
        stream.answer(ITEMS[0])
    assert seen[0] == pytest.approx(stream_module.SWITCH)
    assert sys.getswitchinterval() == usual


# --- lost batches ---------------------------------------------------------------------------------------------


def test_a_lost_batch_whose_questions_are_suspect_is_asked_one_by_one_and_the_killing_one_ends_in_an_error() -> None:
    def kills(texts: list[str]) -> None:
        if "q5" in texts:
            raise BatchLost("its process died", suspect=True)

    model = Recorded(kills)
    with streaming(model, batch_size=8) as stream:
        told = said(stream, ITEMS)
    assert told == [text if text != "q5" else f"! {KILLS}" for text in (each.item.question for each in ITEMS)]
    assert stream.asked_again == 2, "the batch, and the question alone"
    assert model.batches.count(["q5"]) == 1
    assert {len(batch) for batch in model.batches if {"q0", "q7"} & set(batch)} == {8, 1}
    assert max(model.asked.values()) == 2


def test_a_question_that_is_alone_from_the_start_is_asked_twice_before_it_ends_in_an_error() -> None:
    def kills(texts: list[str]) -> None:
        raise BatchLost("its process died", suspect=True)

    model = Recorded(kills)
    with streaming(model, Ahead(ITEMS[:1])) as stream:
        assert said(stream, ITEMS[:1]) == [f"! {KILLS}"]
    assert model.batches == [["q0"]] * 2


def test_a_lost_batch_that_had_not_begun_is_asked_again_as_it_is_but_not_for_ever() -> None:
    lost = iter([True, True])

    def moves(texts: list[str]) -> None:
        if next(lost, False):
            raise BatchLost("its node was lost")

    model = Recorded(moves)
    with streaming(model, Ahead(ITEMS[:8]), batch_size=8) as stream:
        assert said(stream, ITEMS[:8]) == [each.item.question for each in ITEMS[:8]]
    assert model.batches == [model.batches[0]] * 3
    assert stream.asked_again == 2

    def ends(texts: list[str]) -> None:
        raise BatchLost("its node was lost")

    with streaming(Recorded(ends), Ahead(ITEMS[:1])) as stream:
        assert said(stream, ITEMS[:1]) == ["! its node was lost; it was asked 6 times"]


def test_no_item_has_two_results_although_its_batch_is_asked_twice() -> None:
    lost = iter([True] * 3)

    def moves(texts: list[str]) -> None:
        if next(lost, False):
            raise BatchLost("a process died", suspect=True)

    heard: Counter[str] = Counter()
    made = backend(Recorded(moves))
    limits = Limits.of(made, batch_size=8, deadline=60)
    stream = Stream(
        made, prompt, Ahead(ITEMS), limits, follow=lambda query, answer, reply: heard.update([query.item.id])
    )
    try:
        assert len([stream.answer(each) for each in ITEMS]) == 50
    finally:
        stream.close()
    assert set(heard.values()) == {1}


def test_lanes_are_added_when_a_pool_grows() -> None:
    class Growing(Recorded):
        pools, concurrency, batch_size = True, 1, 1

    meeting = threading.Barrier(3, timeout=10)
    model = Growing(lambda texts: meeting.wait() and None if grown.is_set() else grown.set())
    grown = threading.Event()
    made = backend(model)
    stream = Stream(made, prompt, Ahead(ITEMS[:31]), Limits.of(made, deadline=60))
    try:
        stream.answer(ITEMS[0])
        made.concurrency = 3  # type: ignore[misc]
        assert said(stream, ITEMS[1:31]) == [each.item.question for each in ITEMS[1:31]]
    finally:
        stream.close()
    assert len(model.threads) == 3


def test_the_deadline_of_a_queued_batch_counts_from_its_begin() -> None:
    ended = threading.Event()

    def waits(texts: list[str]) -> None:
        clock().queued()
        time.sleep(0.8)
        assert clock().begun() == 0.6
        if texts == ["q1"]:
            ended.wait(20)

    with streaming(Recorded(waits), Ahead(ITEMS[:2]), batch_size=1, deadline=0.6) as stream:
        assert said(stream, ITEMS[:2]) == ["q0", "! no answer within 0.6 s"]
        ended.set()
    assert clock().begun() is None, "outside of a call there is no deadline"
