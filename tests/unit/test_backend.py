"""class Backend: what it declares, what it refuses, and four backends written against it."""

import ast
import csv
import inspect
import ipaddress
import keyword
import pydoc
import re
import subprocess
import sys
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import medvqa
from medvqa import backend as room
from medvqa import configs, engine
from medvqa.backend import MEMBERS, Backend, Readers, is_remote, loaded, usable
from medvqa.backends import pytest_medvqa_backends
from medvqa.configs import ModelConfig
from medvqa.items import Answer, AnswerError, Item, Prompt, TokenLimits, UsageError
from support.servers import Reply, Server, completion
from support.sessions import folder, outcomes, run, text
from support.strangers import CONFTEST, TEST

SHIPPED = {kind.name: kind for kind in pytest_medvqa_backends()}
PAGE = Path(__file__).parents[2] / "docs/models.md"


class Least(Backend):
    sends_to = None

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        return [Answer("A") for _ in prompts]


def made(**members: Any) -> type[Backend]:
    """A class called Made, with what a class must have and these members."""
    given = {"sends_to": None, "generate": lambda self, prompts: [Answer("A")] * len(prompts), **members}
    return type("Made", (Backend,), given)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as raised:
        act()
    assert "\n" not in str(raised.value)
    return str(raised.value)


# --- what is declared -------------------------------------------------------------------------------------

DEFAULTS: dict[str, Any] = {
    "name": "least",
    "title": "least",
    "Options": None,
    "argument_is_path": False,
    "wraps": False,
    "pools": False,
    "argument": "",
    "options": None,
    "capabilities": {"generate"},
    "priced": False,
    "looks": True,
    "reads": True,
    "recorded": False,
    "converses": False,
    "batch_size": None,
    "concurrency": None,
    "patience": 0.0,
    "resources": {},
}
GIVES: dict[str, Any] = {
    **dict.fromkeys(
        ("check", "preflight", "load", "close", "consent", "token_limits", "size", "places", "fingerprint"),
        None,
    ),
    "identified": None,
    "secrets": (),
    "draws": True,
    "unsampled": (),
    "samples": 0,
    "readers": None,
    "judged": False,
    "about": {},
    "status": {},
}
ASKED: dict[str, tuple[Any, Any]] = {
    "fit": ([Item("1", "b", "judgment", "?")], None),
    "prepare": ([Prompt("?")], None),
    "memory": ("0", None),
    "start": (Path("reports/run"), None),
    "join": ({}, None),
    "recorded_by": ("b", ()),
    "as_judge": ({"a": 1}, {"a": 1}),
}


def test_every_member_has_its_default() -> None:
    assert MEMBERS.keys() == DEFAULTS.keys() | GIVES.keys() | ASKED.keys() | {
        *("sends_to", "generate", "compute", "inner", "facts")
    }
    model = Least()
    assert {name: getattr(model, name) for name in DEFAULTS} == DEFAULTS
    assert {name: getattr(model, name)() for name in GIVES} == GIVES
    assert {name: getattr(model, name)(given) for name, (given, _) in ASKED.items()} == {
        name: told for name, (_, told) in ASKED.items()
    }


def test_a_class_that_overrides_generate_alone_is_asked_by_its_generate() -> None:
    class Staged(Least):
        def compute(self, prompts: Sequence[Prompt]) -> Callable[[], list[Answer]]:
            return lambda: [Answer("B")] * len(prompts)

    class Changed(Staged):
        def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
            return [Answer("C")] * len(prompts)

    asked = [Prompt("?")]
    replies = [kind().compute(asked)() for kind in (Least, Staged, Changed)]
    assert [[answer.text for answer in each if isinstance(answer, Answer)] for each in replies] == [["A"], ["B"], ["C"]]


def sentences() -> dict[str, str]:
    """The docstring of each member, those of plain values as they stand below them."""
    (kind,) = ast.parse(inspect.getsource(Backend)).body
    assert isinstance(kind, ast.ClassDef)
    found = {}
    for node, following in zip(kind.body, [*kind.body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef):
            found[node.name] = ast.get_docstring(node) or ""
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            assert isinstance(following, ast.Expr)
            found[node.target.id] = ast.literal_eval(following.value)
    return {name: said for name, said in found.items() if not name.startswith("_")}


def test_every_member_has_its_sentence() -> None:
    said = sentences()
    assert said.keys() == MEMBERS.keys()
    assert {name for name, sentence in said.items() if not re.match(r"[A-Z].{20,}[.)]", sentence, re.DOTALL)} == set()


def test_the_page_about_models_leads_to_a_help_that_tells_every_member() -> None:
    section = PAGE.read_text().partition("## A backend of your own")[2]
    assert "help(medvqa.Backend)" in section
    told = pydoc.plain(pydoc.render_doc(Backend))
    untold = {name for name in MEMBERS if not re.search(rf"^ \|  {name}\b", told, re.MULTILINE)}
    assert untold == {"argument", "options", "inner"}
    assert {name for name in untold if f"self.{name}" not in section} == set()


def test_the_page_about_models_names_members_that_there_are() -> None:
    section = PAGE.read_text().partition("## A backend of your own")[2]
    called = set(re.findall(r"`(\w+)\(\)`", section))
    assert len(called) >= 5
    assert called <= MEMBERS.keys()


def test_a_class_is_called_by_its_name_and_a_model_by_its_argument() -> None:
    class Mine(Least):
        pass

    assert (Mine.name, Mine().title, Mine("a:b").title) == ("mine", "mine", "mine:a:b")
    assert (made(name="other").name, made(title="Mine 7B")("x").title) == ("other", "Mine 7B")


def test_values_may_be_properties_and_may_be_assigned() -> None:
    class Mine(Least):
        @property
        def capabilities(self) -> list[str]:
            return ["generate"]

        @cached_property
        def patience(self) -> float:
            return 3

        def load(self) -> None:
            self.batch_size = 7

    model = loaded(Mine())
    assert (model.capabilities, model.patience, model.patience, model.batch_size) == ({"generate"}, 3, 3, 7)
    assert Mine().batch_size is None


def test_what_is_not_known_before_loading() -> None:
    class Late(Least):
        _able: tuple[str, ...] | None = None

        @property
        def capabilities(self) -> tuple[str, ...] | None:
            return self._able

        def load(self) -> None:
            self._able = ("generate", "option_logprobs")

    model = Late()
    assert model.capabilities is None
    assert loaded(model).capabilities == {"generate", "option_logprobs"}
    never = made(capabilities=None)
    assert refusal(lambda: loaded(never())).startswith("model 'made': capabilities is of type NoneType; a set of texts")


def test_what_a_loaded_model_says_is_read_once() -> None:
    class Counting(Least):
        _loads = _reads = 0
        concurrency = 4

        def load(self) -> None:
            self._loads += 1

        def fingerprint(self) -> str:
            self._reads += 1
            return f"weights {self._loads}, key sk-nobody"

        def about(self) -> Any:
            return {"url": ["https://host?key=sk-nobody"]}

    model = loaded(Counting("x"), concurrency=2)
    facts = model.facts
    reads = model._reads
    assert (facts, model.facts.fingerprint, model._reads) == (model.facts, "weights 1, key sk-nobody", reads)
    assert (facts.title, facts.capabilities, facts.identified) == ("counting:x", {"generate"}, "its fingerprint")
    assert (facts.concurrency, facts.batch_size, facts.patience) == (2, None, 0)
    assert (facts.converses, facts.recorded) == (False, False)
    bare = facts.without({"sk-nobody"})
    assert "sk-nobody" not in f"{bare}"
    assert (bare.title, bare.concurrency) == ("counting:x", 2)
    assert loaded(model).facts.fingerprint == "weights 2, key sk-nobody", "a model that is loaded again is asked again"
    assert loaded(Least(), concurrency=2).facts.concurrency is None, "a model without a limit gets none"
    odd = made(fingerprint=lambda self: 5)
    assert refusal(lambda: loaded(odd())).startswith("model 'made': fingerprint() gave a value of type int; ")


def test_an_exit_while_loading_is_an_error_of_one_line() -> None:
    """A script's `sys.exit("no weights")` must not end a session."""

    class Exits(Least):
        def load(self) -> None:
            sys.exit("no weights")

    assert re.fullmatch(r"model 'exits', load\(\): .*:\d+: SystemExit: no weights", refusal(lambda: loaded(Exits())))


def test_a_parent_and_a_mixin() -> None:
    class Priced:
        @property
        def priced(self) -> bool:
            return True

    class Both(Priced, Least, ABC):
        looks = True

        def fingerprint(self) -> str:
            return f"{super().fingerprint()} and more"

    assert (Both().priced, Both().looks, Both().fingerprint(), Both.name) == (True, True, "None and more", "both")


def test_importing_it_is_light() -> None:
    code = "import sys, medvqa; print(*sys.modules); medvqa.Backend, medvqa.Answer, medvqa.Item; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    before, after = (set(line.split()) for line in said.splitlines())
    assert not {"medvqa.items", "medvqa.backend", "msgspec"} & before
    assert not {"pandas", "numpy", "PIL", "torch", "pytest", "scipy"} & after
    assert {"Answer", "Backend", "Item"} <= set(dir(medvqa))
    with pytest.raises(AttributeError, match=r"^module 'medvqa' has no attribute 'Backnd'$"):
        medvqa.Backnd  # noqa: B018


# --- what is refused --------------------------------------------------------------------------------------

MISSPELT = {
    "servce": "",
    "send_to": "sends_to",
    "sends_too": "sends_to",
    "fingerprnt": "fingerprint",
    "generates": "generate",
    "batchsize": "batch_size",
    "look": "looks",
}


@pytest.mark.parametrize(("name", "meant"), MISSPELT.items())
def test_a_misspelt_member_is_refused_in_a_class_and_on_an_instance(name: str, meant: str) -> None:
    told = refusal(lambda: made(**{name: None}))
    assert re.match(rf"\S*test_backend\.py:\d+: class Made: {name}: no member of Backend. Did", told)
    on_instance = refusal(lambda: setattr(Least(), name, None))
    assert on_instance.startswith(f"model 'least': {name}: no member of Backend. Did")
    for said in (told, on_instance):
        assert said.endswith(f"Helpers begin with an underscore: _{name}")
        assert f"Did you mean '{meant}" in said


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,20}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name)))
def test_a_public_name_is_declared_or_refused_and_a_helper_is_not(name: str) -> None:
    model = Least()
    setattr(model, f"_{name}", 3)
    assert getattr(made(**{f"_{name}": 3}), f"_{name}") == 3
    if name not in MEMBERS:
        assert re.search(rf": {name}: no member of Backend[.;] ", refusal(lambda: made(**{name: 3})))
        assert re.search(rf": {name}: no member of Backend[.;] ", refusal(lambda: setattr(model, name, 3)))


def test_a_name_of_a_mixin_is_refused_too() -> None:
    class Mixin:
        def helper(self) -> None:
            pass

    assert "class Mine: helper: no member" in refusal(lambda: type("Mine", (Mixin, Least), {}))


def test_a_class_must_say_how_it_answers_and_where_prompts_go() -> None:
    class Mute(Backend):
        sends_to = None

    class Silent(Backend):
        def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
            return []

    mute, silent = refusal(lambda: usable(Mute)), refusal(lambda: usable(Silent))
    assert refusal(Mute) == mute
    assert refusal(Silent) == silent
    assert re.fullmatch(
        r"\S*test_backend\.py:\d+: class Mute has no generate: write def generate\(self, prompts\), which returns one "
        "medvqa.Answer for each",
        mute,
    )
    assert re.fullmatch(
        r"\S*test_backend\.py:\d+: class Silent does not say where prompts go: write sends_to = None if they stay in "
        'this process, or the origin that gets them, sends_to = "https://host:443"',
        silent,
    )
    for kind, told in (
        (int, "x: class int is no backend; "),
        ("a", "x: 'a' is no backend; "),
        (None, "x: None is no "),
    ):
        assert refusal(lambda kind=kind: usable(kind, "x")).startswith(told)


def test_making_one_is_not_ones_own() -> None:
    def init(self: Any, argument: str = "") -> None:
        pass

    assert "class Made: __init__ is not overridden: argument and options are" in refusal(lambda: made(__init__=init))
    late = made()
    late.__init__ = init  # type: ignore[method-assign]
    assert "__init__ is not overridden" in refusal(lambda: usable(late))
    assert refusal(lambda: Least("", 3)) == "backend 'least' has no options; type int is given"


MISPLACED: dict[str, tuple[dict[str, Any], str]] = {
    "a method for a value": (
        {"capabilities": lambda self: {"generate"}},
        "capabilities is a method; a value is expected",
    ),
    "a static method for a value": ({"priced": staticmethod(lambda: True)}, "priced is a method; a value is expected"),
    "a value for a method": (
        {"fingerprint": "weights"},
        "fingerprint is of type str; a method is expected: def fingerprint(self)",
    ),
    "a property for a method": ({"draws": property(lambda self: True)}, "draws is of type property; a method is exp"),
    "a static method": (
        {"check": staticmethod(lambda argument: None)},
        "check is of type staticmethod; a method is exp",
    ),
    "a class method": (
        {"size": classmethod(lambda cls: 3)},
        "size is of type classmethod; a method is expected: def s",
    ),
    "other parameters": (
        {"check": lambda self, argument: None},
        "check cannot be called (missing a required argument: 'argument'): def check(self) is expected",
    ),
    "too few parameters": (
        {"fit": lambda self: None},
        "fit cannot be called (too many positional arguments): def fit(",
    ),
    "what is given": ({"argument": "A"}, "argument is given to each backend and not written in a class"),
    "a property of the class": ({"name": property(lambda self: "x")}, "name is of type property; a text is expected"),
}


@pytest.mark.parametrize(("members", "why"), MISPLACED.values(), ids=MISPLACED)
def test_a_member_of_the_wrong_kind_is_refused(members: dict[str, Any], why: str) -> None:
    assert f": class Made: {why}" in refusal(lambda: made(**members))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("generate", "generate cannot be assigned to an instance: it belongs to the class"),
        ("name", "name cannot be assigned to an instance: it belongs to the class"),
        ("argument", "argument cannot be assigned to an instance: it is given"),
        ("looks", "looks is of type str; True or False is expected"),
        ("patience", "patience cannot be assigned: it is a property without a setter"),
    ],
)
def test_what_an_instance_refuses(name: str, why: str) -> None:
    model = made(patience=property(lambda self: 3.0))("x")
    assert refusal(lambda: setattr(model, name, 5.0 if name == "patience" else "x")) == f"model 'made:x': {why}"


@dataclass
class Bare:
    word: str


A_TEXT = "a text or None is expected"
WRONG_VALUES: dict[str, list[tuple[Any, str]]] = {
    "name": [
        (7, "is of type int; a text is"),
        ("", "is an empty text"),
        ("a:b", "is 'a:b'; a text is expected; --model=NAME:ARGUMENT needs"),
    ],
    "title": [(7, "is of type int; a text is"), ("", "is an empty text"), ("\ud800", "has half a surrogate pair")],
    "Options": [({}, "is of type dict; a frozen dataclass is"), (Bare, "has fields without a default: word")],
    "capabilities": [("generate", "is of type str; a set of texts"), ({1}, "has a value of type int; a set of texts")],
    "sends_to": [
        (True, "is of type bool; an origin such as"),
        ("example.org", "is not like https://host:443"),
        ("https://host/v1", "is not like https://host:443"),
        ("https://user:geheim@host", "is not like https://host:443"),
        ("https://host\n", "is not like https://host:443"),
        ((), "is not like https://host:443"),
        (("https://host", None), "has a value of type null; an origin such as"),
        (("https://host", "https://user:geheim@host"), "is not like https://host:443"),
    ],
    **{
        name: [(1, "is of type int; True or False")]
        for name in ("priced", "looks", "reads", "converses", "recorded", "argument_is_path", "pools")
    },
    **{
        name: [("8", "is '8'; a whole number of 1"), (0, "is 0; a"), (1.5, "is 1.5; a"), (True, "is True; a whole")]
        for name in ("batch_size", "concurrency")
    },
    "patience": [
        (nan, "is nan; seconds, 0 or more"),
        (inf, "is inf; seconds"),
        (-1, "is -1; seconds"),
        ("9", "is '9'"),
    ],
    "resources": [
        (1, "is of type int; a mapping of names to numbers is expected"),
        ({"gpus": "1"}, "has a value of type str; a mapping of names"),
        ({"gpus": True}, "has a value of type bool; a mapping of names"),
        ({1: 1}, "has a value of type int; a mapping of names"),
        ({"memory": -1}, "is {'memory': -1}; a mapping of names to numbers"),
        ({"cpus": nan}, "is {'cpus': nan}; a mapping of names"),
        ({"gpus": 1.5}, "has gpus = 1.5; a copy takes a part of one GPU (below 1), or whole GPUs"),
    ],
}


@pytest.mark.parametrize(
    ("name", "value", "why"), [(name, *each) for name, wrong in WRONG_VALUES.items() for each in wrong]
)
def test_a_value_of_a_wrong_type_is_refused_wherever_it_stands(name: str, value: Any, why: str) -> None:
    in_class = refusal(lambda: made(**{name: value}))
    assert f": class Made: {name} {why}" in in_class
    assert "geheim" not in in_class, "what may be a password is not shown"
    if MEMBERS[name].kind == "value":
        owner = "made:x"
        assert refusal(lambda: setattr(made()("x"), name, value)).startswith(f"model '{owner}': {name} {why}")
        read = made(**{name: property(lambda self: value)})("x")
        assert refusal(lambda: getattr(read, name)).startswith(f"model '{owner}': {name} {why}")


WRONG_RESULTS: dict[str, list[tuple[Any, str]]] = {
    "consent": [(True, f"gave a value of type bool; {A_TEXT}")],
    "secrets": [
        ("key", "gave a value of type str; a collection of texts"),
        (None, "gave a value of type NoneType; a collection of texts"),
        ([1], "has a value of type int; a collection of texts"),
    ],
    "draws": [(None, "gave a value of type NoneType; True or False")],
    "judged": [(1, "gave a value of type int; True or False")],
    "samples": [(None, "is None; a whole number")],
    "readers": [(("R1",), "gave a value of type tuple; medvqa.backend.Readers or None")],
    "unsampled": [("mc", "gave a value of type str; a collection of names")],
    "recorded_by": [
        ("mc", "gave a value of type str; a collection of names"),
        ([1], "has a value of type int; a coll"),
    ],
    "token_limits": [(32, "gave a value of type int; medvqa.items.TokenLimits or None")],
    "as_judge": [(None, "gave a value of type NoneType; a mapping")],
    "size": [("2", "is '2'; a number of bytes or None")],
    "memory": [(2.5, "is 2.5; a number of bytes or None")],
    "places": [
        ("0", "gave a value of type str; a sequence of texts or None"),
        ([0], "has a value of type int; a seq"),
    ],
    "fingerprint": [
        (5, f"gave a value of type int; {A_TEXT}"),
        ("", f"gave an empty text; {A_TEXT}; None says that answers are not reused"),
        ("\ud800", "gave half a surrogate pair"),
    ],
    "identified": [(5, f"gave a value of type int; {A_TEXT}")],
    "about": [
        ([1], "gave a value of type list; a mapping of texts"),
        ({"x": {object()}}, "gave what is no JSON value"),
    ],
    "status": [([1], "gave a value of type list; a mapping of texts")],
}


@pytest.mark.parametrize(
    ("name", "value", "why"), [(name, *each) for name, wrong in WRONG_RESULTS.items() for each in wrong]
)
def test_a_result_of_a_wrong_type_is_refused_when_it_is_read(name: str, value: Any, why: str) -> None:
    taken = (("0",) if name == "memory" else ({},)) if name in ASKED else ()
    function = (lambda self, given: value) if taken else (lambda self: value)
    model = made(**{name: function})("x")
    assert refusal(lambda: getattr(model, name)(*taken)).startswith(f"model 'made:x': {name}() {why}")


def test_everything_that_can_be_of_a_wrong_type_is_looked_at() -> None:
    nothing = {"check", "preflight", "start", "join", "load", "fit", "prepare", "close"}
    # What is given is the house's own; the engine looks at each answer of `generate`.
    left = nothing | {"argument", "options", "inner", "facts", "generate", "compute", "wraps"}
    assert MEMBERS.keys() == WRONG_VALUES.keys() | WRONG_RESULTS.keys() | left


def test_results_are_what_is_declared() -> None:
    class Loose(Least):
        def secrets(self) -> list[str]:
            return ["b", "a", "b"]

        def places(self) -> list[str]:
            return ["0", "1"]

        def about(self) -> Any:
            return {"a": (1, 2)}

    model = Loose()
    assert (model.secrets(), model.places(), model.about()) == ({"a", "b"}, ("0", "1"), {"a": [1, 2]})
    assert made(about=lambda self: None)().about() == {}


# --- what is remote ---------------------------------------------------------------------------------------


@given(st.ip_addresses(), st.sampled_from(["", ":443"]))
def test_an_address_is_remote_unless_it_is_loopback(address: Any, port: str) -> None:
    host = f"[{address}]" if isinstance(address, ipaddress.IPv6Address) else str(address)
    assert is_remote(f"http://{host}{port}") == (not address.is_loopback)


@given(st.from_regex(r"[a-z]([a-z0-9-]{0,9}\.)?[a-z]{1,9}", fullmatch=True))
def test_a_name_is_remote_unless_it_is_localhost(host: str) -> None:
    assert is_remote(f"https://{host}") == (host != "localhost")


@pytest.mark.parametrize(
    ("origin", "remote"),
    [
        (None, False),
        ("http://LOCALHOST:8000", False),
        ("http://127.9.9.9", False),
        ("ray://[::1]:10001", False),
        ("http://0.0.0.0", True),
        ("https://localhost.example.org", True),
        ("https://127.0.0.1.example.org", True),
        ("http://[1234]", True),
    ],
)
def test_what_leaves_this_machine(origin: str | None, remote: bool) -> None:
    assert is_remote(origin) == remote


# --- four backends ----------------------------------------------------------------------------------------


def test_openai_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("TINY_KEY", "sk-a-key-of-nobody")
    options = {"key_env": "TINY_KEY", "max_tokens": 7, "price_input": 1.0, "price_output": 2.0}
    with Server(lambda *_: Reply(completion("B"))) as server:
        config = ModelConfig("tiny", "openai", "m", options={"base_url": server.url, **options})
        model = configs.make(config, SHIPPED)
        assert (model.title, model.sends_to, model.priced) == ("openai:m", server.url.removesuffix("/v1"), True)
        assert (model.secrets(), model.token_limits()) == ({"sk-a-key-of-nobody"}, TokenLimits(7, configured=True))
        assert not is_remote(model.sends_to)
        model.check()
        model.preflight()
        model.close()  # before load() there is nothing to end
        try:
            (answer,) = engine.ask(loaded(model), [Prompt("?")])
            assert (model.facts.title, model.facts.fingerprint) == ("openai:m", None)
        finally:
            model.close()
    assert isinstance(answer, Answer)
    assert (answer.text, answer.usage) == ("B", {"input": 1000.0, "output": 10.0, "cost": 0.00102})
    assert server.requests[0].body["max_tokens"] == 7


class Wrapped(Backend):
    """Counts its calls and hands batches on."""

    wraps = True
    _calls = 0

    @property
    def sends_to(self) -> str | None:
        return self.inner.sends_to

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Answer | AnswerError]:
        self._calls += 1
        return self.inner.generate(prompts)


def test_a_wrapping_backend() -> None:
    backends = {**SHIPPED, "wrapped": Wrapped}
    config = configs.resolve("wrapped:random:7", folders=[], backends=backends)
    assert config.inner == ModelConfig("random:7", "random", "7")
    model = configs.make(config, backends)
    assert isinstance(model, Wrapped)
    assert (model.title, model.inner.title, model.reads, model.fingerprint()) == (
        *("wrapped:random:7", "random:7"),
        *(False, None),
    )
    asked = [Prompt("?", options={"A": "x", "B": "y"}, item=str(number)) for number in range(8)]
    assert engine.ask(loaded(model), asked) is not None
    assert [a.text for a in engine.ask(model, asked) if isinstance(a, Answer)] == [
        a.text for a in SHIPPED["random"]("7").generate(asked) if isinstance(a, Answer)
    ]
    assert model._calls == 2
    wrong = configs.make(configs.resolve("wrapped:random:x", folders=[], backends=backends), backends)
    assert "the seed must be a whole number" in refusal(wrong.check)


def test_what_a_wrapper_does_not_say_its_inner_model_says() -> None:
    seen: list[str] = []

    def noting(name: str) -> Callable[..., Any]:
        def method(self: Backend, *given: Any) -> None:
            seen.append(name)

        # The parameters are looked at when the class is made.
        method.__signature__ = inspect.signature(getattr(Backend, name))  # type: ignore[attr-defined]
        return method

    acts = ("check", "preflight", "start", "join", "load", "fit", "prepare", "close")
    limits = TokenLimits(9)
    says: dict[str, Any] = {
        "consent": "runs code",
        "secrets": {"key"},
        "draws": False,
        "unsampled": ("mc",),
        "samples": 3,
        "readers": Readers(codes=("R1",), read=(frozenset({("", "1")}),)),
        "judged": True,
        "token_limits": limits,
        "size": 5,
        "places": ("0",),
        "about": {"a": 1},
        "status": {"replicas": 2},
    }
    values: dict[str, Any] = {
        "capabilities": {"option_logprobs"},
        "priced": True,
        "looks": False,
        "reads": False,
        "recorded": True,
        "converses": True,
        "batch_size": 3,
        "concurrency": 4,
        "patience": 5.0,
        "resources": {"gpus": 0.5},
    }
    inner = made(
        sends_to="https://host",
        memory=lambda self, place: 8,
        recorded_by=lambda self, benchmark: [benchmark],
        fingerprint=lambda self: "weights",
        **{name: lambda self, told=told: told for name, told in says.items()},
        **{name: noting(name) for name in acts},
        **values,
    )("x")
    model = Wrapped("made:x", inner=inner)
    assert {name: getattr(model, name) for name in values} == values
    assert {name: getattr(model, name)() for name in says} == says
    for name in acts:
        getattr(model, name)(*([[]] if name in ASKED else []))
    assert seen == list(acts)
    assert (model.memory("0"), model.sends_to, model.fingerprint()) == (8, "https://host", None)
    assert model.recorded_by("b") == ("b",)
    # No member was forgotten: what is left is the wrapper's own, or asked of the inner config.
    own = {"title", "sends_to", "fingerprint", "identified", "generate", "compute", "memory", "recorded_by", "as_judge"}
    declared = {name for name, member in MEMBERS.items() if member.kind in ("value", "method")}
    assert declared == says.keys() | values.keys() | set(acts) | own


def test_a_wrapper_may_add_to_what_its_inner_model_says() -> None:
    class Careful(Wrapped):
        def secrets(self) -> set[str]:
            return {"own", *super().secrets()}

        @property
        def patience(self) -> float:
            return 2 * super().patience

    inner = made(secrets=lambda self: ["key"], patience=3, fingerprint=lambda self: "weights")("x")
    model = loaded(Careful("made:x", inner=Careful("made:x", inner=inner)))
    assert (model.secrets(), model.patience) == ({"own", "key"}, 12)
    assert (model.facts.fingerprint, model.facts.patience) == (None, 12)
    assert inner.facts.fingerprint == "weights"


def test_a_wrapper_needs_a_model_and_another_backend_takes_none() -> None:
    assert refusal(lambda: Wrapped("random")) == "backend 'wrapped' wraps another model: --model=wrapped:MODEL"
    assert refusal(lambda: Least("x", inner=Least())).startswith("backend 'least' wraps no other model")
    backends = {**SHIPPED, "wrapped": Wrapped}
    for spec, told in (
        ("wrapped", "wrapped: 'wrapped' wraps another model: --model=wrapped:MODEL"),
        ("wrapped:", "wrapped:: 'wrapped' wraps another model: --model=wrapped:MODEL"),
        ("wrapped:randm", "no model 'randm'; there are: "),
    ):
        assert refusal(lambda spec=spec: configs.resolve(spec, folders=[], backends=backends)).startswith(told)


def test_a_wrapper_of_a_config_and_one_that_wraps_itself(tmp_path: Path) -> None:
    backends = {**SHIPPED, "wrapped": Wrapped}
    (tmp_path / "letter.toml").write_text('backend = "echo"\nargument = "B"\ntechniques = ["ff"]\n')
    (tmp_path / "both.toml").write_text('backend = "wrapped"\nargument = "letter"\n')
    (tmp_path / "gpt.toml").write_text('backend = "openai"\nargument = "m"\n')
    (found,) = (each for each in configs.available([tmp_path], backends) if each.name == "both")
    assert found == configs.resolve("both", folders=[tmp_path], backends=backends)
    assert found.inner is not None
    assert (found.inner.name, found.inner.backend, found.techniques) == ("letter", "echo", ("ff",))
    assert engine.ask(configs.make(found, backends), [Prompt("?")])[0].text == "B"  # type: ignore[union-attr]
    judge = configs.as_judge(configs.resolve("wrapped:gpt", folders=[tmp_path], backends=backends), backends)
    assert judge.inner is not None
    assert (judge.options, judge.inner.options) == ({}, {"max_tokens": 1024})
    (tmp_path / "snake.toml").write_text('backend = "wrapped"\nargument = "wrapped:snake"\n')
    told = refusal(lambda: configs.resolve("snake", folders=[tmp_path], backends=backends))
    assert told == "--model=snake: 'snake' wraps itself"


class Human(Backend):
    """`human:FILE`: what a person answered, a CSV with the columns item and answer."""

    sends_to = None
    recorded = True
    argument_is_path = True

    @cached_property
    def _answers(self) -> Mapping[str, str]:
        with open(self.argument, newline="") as file:
            return {row["item"]: row["answer"] for row in csv.DictReader(file)}

    def check(self) -> None:
        if not Path(self.argument).is_file():
            raise UsageError(f"--model=human:{self.argument}: no such file")

    def draws(self) -> bool:
        return False

    def fingerprint(self) -> str:
        return repr(sorted(self._answers.items()))

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        given = [self._answers.get(prompt.item) for prompt in prompts]
        return [AnswerError("not answered") if each is None else Answer(each, finish="") for each in given]


def test_a_file_of_human_answers(tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text("item,answer\n1,B\n2,\n")
    (tmp_path / "reader.toml").write_text('backend = "human"\nargument = "answers.csv"\n')
    backends = {**SHIPPED, "human": Human}
    model = configs.make(ModelConfig("r", "human", str(tmp_path / "answers.csv")), backends)
    model.check()
    answers = engine.ask(loaded(model), [Prompt("?", item=item) for item in "123"])
    assert [each.text if isinstance(each, Answer) else str(each) for each in answers] == ["B", "", "not answered"]
    assert model.facts.fingerprint == "[('1', 'B'), ('2', '')]"
    wrong = configs.make(configs.resolve("reader", folders=[tmp_path], backends=backends), backends)
    assert refusal(wrong.check) == "--model=human:answers.csv: no such file"


MINE = """
import medvqa
from medvqa import Answer

def ask(text, images):
    return "A"

class Mine(medvqa.Backend):
    capabilities = {"generate"}
    sends_to = None
    def generate(self, prompts):
        return [Answer(ask(p.text, [image.pil() for image in p.images])) for p in prompts]
"""
HOOK = """
def pytest_medvqa_backends():
    return [Mine]
"""


@pytest.fixture
def slake(pytester: pytest.Pytester) -> Callable[[str], pytest.Pytester]:
    """A repository whose backends are those of a text."""

    def repository(backends: str) -> pytest.Pytester:
        pytester.makeconftest(CONFTEST.replace("def pytest_medvqa_backends", "def _none") + backends)
        pytester.makepyfile(test_slake=TEST)
        return pytester

    return repository


@pytest.mark.parametrize("hook", ["", HOOK], ids=["found", "offered"])
def test_eight_lines_are_a_model(slake: Callable[[str], pytest.Pytester], hook: str) -> None:
    repository = slake(MINE + hook)
    result = run(repository, "--model=mine", "--run=first")
    assert result.ret == 0, text(result)
    assert outcomes(folder(repository)) == {"correct": 8, "wrong": 16}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (("    sends_to = None\n", ""), r"conftest\.py:\d+: class Mine does not say where prompts go: write sends_to"),
        (
            ("sends_to", "send_to"),
            r"conftest\.py:\d+: class Mine: send_to: no member of Backend\. Did you mean 'sends_to'",
        ),
        (("def generate", "def _generate"), r"conftest\.py:\d+: class Mine has no generate: write def generate"),
        (
            ("[Mine]", '{"mine": Mine}'),
            r"pytest_medvqa_backends: 'mine' is no backend; write class NAME\(medvqa\.Backend",
        ),
        (
            ("def generate", "def load(self):\n        self.modle = 3\n\n    def generate"),
            "model 'mine': modle: no member of",
        ),
    ],
)
def test_what_is_wrong_with_a_class_is_told_before_anything_is_asked(
    slake: Callable[[str], pytest.Pytester], changed: tuple[str, str], told: str
) -> None:
    repository = slake((MINE + HOOK).replace(*changed))
    result = repository.runpytest_inprocess("-p", "no:randomly", "-p", "no:benchmark", "--model=mine", "--run=first")
    assert result.ret != 0
    printed = " ".join(text(result).split())
    assert re.search(told, printed), printed
    assert "INTERNALERROR" not in printed
    assert "Traceback" not in printed


def test_a_model_of_anothers_room_is_still_only_read() -> None:
    """Members are declared in one place: nobody reads one that may be missing."""
    source = Path(room.__file__).parent
    optional = {name for name in MEMBERS if len(name) > 4}
    found = [
        f"{path.relative_to(source)}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        for name in re.findall(r"""(?:get|has)attr\([^()]*["'](\w+)["']""", line)
        if name in optional
    ]
    assert found == []
