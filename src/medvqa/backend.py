"""Define class Backend: the members that a way of running a model may declare, with their defaults.

A backend is a subclass with `generate` and `sends_to`. Undeclared public names are refused in class bodies and on
instances, so that a misspelt member is noticed. Helpers begin with an underscore. The values of members are checked and
converted here, once: a reader of a member gets the declared type.
"""

from __future__ import annotations

import inspect
import ipaddress
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property, wraps
from math import inf
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from medvqa import answers, decode, usercode
from medvqa.items import Answer, AnswerError, Item, Prompt, TokenLimits, UsageError

if TYPE_CHECKING:
    _value = property
else:

    class _value:
        """A default: a value in a class body, a property, or an assignment to an instance replaces it."""

        def __init__(self, default):
            self.default = default
            self.__doc__ = default.__doc__

        def __get__(self, backend, kind=None):
            return self if backend is None else self.default(backend)


BATCH_SIZE = 32
"""The engine's default number of prompts in a batch."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


def is_remote(origin: str | None) -> bool:
    """Return whether an origin is on another machine. Names are not looked up: their addresses may change."""
    if origin is None:
        return False
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return True
    host = match[1].strip("[]").lower()
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def destinations(backend: Backend) -> tuple[str, ...]:
    """Return the origins on other machines that get prompts from the backend and from the models that it wraps."""
    chain = [backend]
    while chain[-1].wraps:
        chain.append(chain[-1].inner)
    return tuple(dict.fromkeys(origin for model in chain for origin in _listed(model.sends_to) if is_remote(origin)))


def _listed(sends_to: str | Sequence[str] | None) -> Sequence[str]:
    if sends_to is None:
        return ()
    return (sends_to,) if isinstance(sends_to, str) else sends_to


class Clock:
    """The deadline of one call of `generate`, for a backend that queues batches.

    By default, the deadline counts from the call.
    """

    def queued(self) -> None:
        """Say that the batch waits in a queue: its deadline does not count."""

    def begun(self) -> float | None:
        """Say that the batch is being computed: its deadline counts from now. Return its seconds; None: no deadline."""
        return None


_clock: ContextVar[Clock | None] = ContextVar("medvqa_clock", default=None)


def clock() -> Clock:
    """Return the clock of the call of `generate` that runs in this thread."""
    return _clock.get() or Clock()


@contextmanager
def timed(clock: Clock) -> Iterator[None]:
    """Make `clock` the clock of the calls of this thread within the block."""
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)


class Backend:
    """A way of running a model. A subclass must write `generate` and `sends_to`; all other members have defaults.

    Write a value in the class body or as a property. A member without "class level" in its docstring may also be
    assigned to an instance. If `wraps` is True, defaults come from the inner model.
    """

    name: ClassVar[str] = "backend"
    """Class level: the NAME in `--model=NAME:ARGUMENT`; default: the class's name in lower case."""
    Options: ClassVar[type[Any] | None] = None
    """Class level: a frozen dataclass for a config's table [options]; all fields need defaults. None: no options."""
    argument_is_path: ClassVar[bool] = False
    """Class level: whether the argument may be a path; a config may name a folder beside its own file."""
    wraps: ClassVar[bool] = False
    """Class level: whether the argument is the spec of another model, given as `inner`: `--model=NAME:SPEC`."""
    pools: ClassVar[bool] = False
    """Class level: whether it runs copies of the model that it wraps elsewhere, and changes none of their answers.

    Stored answers are then those of the inner model, one process feeds all copies, and `-n` is refused.
    """

    argument: str
    """Given: the ARGUMENT in `--model=NAME:ARGUMENT`, "" if there is none."""
    options: Any
    """Given: an instance of `Options`, None if the class has none."""
    inner: Backend
    """Given if `wraps` is True: the model that the argument names. `load()` loads it."""

    def __init__(self, argument: str = "", options: object = None, inner: Backend | None = None) -> None:
        """Store argument and options (None: defaults); load nothing. Subclasses must not override it (UsageError).

        `inner`: the wrapped model, if the class wraps one.
        """
        kind = type(self)
        usable(kind, argument)
        if options is None and kind.Options is not None:
            options = kind.Options()
        if kind.Options is None and options is not None:
            raise UsageError(f"backend '{kind.name}' has no options")
        if kind.Options is not None and not isinstance(options, kind.Options):
            raise UsageError(
                f"backend '{kind.name}': options are of type {_type(options)}; {kind.Options.__name__} is expected"
            )
        if kind.wraps != (inner is not None):
            raise UsageError(
                f"backend '{kind.name}' wraps another model: --model={kind.name}:MODEL"
                if kind.wraps
                else f"backend '{kind.name}' wraps no other model: write wraps = True in the class"
            )
        self.__dict__.update(argument=argument, options=options)
        if inner is not None:
            self.__dict__["inner"] = inner

    # --- values -------------------------------------------------------------------------------------------

    @_value
    def title(self) -> str:
        """The model's name in tables, records and messages; default: NAME:ARGUMENT, or NAME without an argument."""
        return _default_title(self)

    @_value
    def capabilities(self) -> Collection[str] | None:
        """Its abilities: `generate` (free text), `option_logprobs` (next-token log-probabilities of option letters),
        `option_likelihood` (length-normalised log-likelihoods of option texts). None before `load()`: unknown.
        """
        return self.inner.capabilities if self.wraps else frozenset({"generate"})

    @_value
    def sends_to(self) -> str | Sequence[str] | None:
        """The origin that gets prompts, such as https://host:443; None: they stay in this process. No default.

        A tuple of origins if each prompt goes to one of several servers.
        """
        raise UsageError(_missing(type(self), "sends_to"))

    @_value
    def priced(self) -> bool:
        """Whether answers hold their cost, as `usage["cost"]`."""
        return self.inner.priced if self.wraps else False

    @_value
    def looks(self) -> bool:
        """Whether the model looks at images. If so, a run with missing images is refused."""
        return self.inner.looks if self.wraps else True

    @_value
    def reads(self) -> bool:
        """Whether answers depend on the prompt's text. If not, the model cannot judge."""
        return self.inner.reads if self.wraps else True

    @_value
    def converses(self) -> bool:
        """Whether `generate` sends the earlier turns of a conversation, `Prompt.turns`, before the text.

        If not, protocols with two turns are refused.
        """
        return self.inner.converses if self.wraps else False

    @_value
    def recorded(self) -> bool:
        """Whether answers were recorded before the run. If so, `--ablate` is refused: it could change nothing."""
        return self.inner.recorded if self.wraps else False

    @_value
    def batch_size(self) -> int | None:
        """Prompts in one call of `generate` without `--batch-size`; None: the engine's default."""
        return self.inner.batch_size if self.wraps else None

    @_value
    def concurrency(self) -> int | None:
        """Threads that may call `generate` at once, by default with one prompt each; None: one thread makes all calls.

        Unless it is None, `--concurrency` sets it.
        """
        return self.inner.concurrency if self.wraps else None

    @_value
    def patience(self) -> float:
        """Seconds that one prompt may take without `--deadline`, if more than the engine's default."""
        return self.inner.patience if self.wraps else 0.0

    @_value
    def resources(self) -> Mapping[str, float]:
        """The resources of one copy in a cluster: `gpus`, `cpus`, `memory` in bytes, and the cluster's own names.

        The table [resources] of a config sets them. {}: the cluster's defaults.
        """
        return self.inner.resources if self.wraps else {}

    # --- called before load() -----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise UsageError or DataError for a bad argument or bad options. Use no network and load nothing."""
        if self.wraps:
            self.inner.check()

    def preflight(self) -> None:
        """Raise UsageError if the model cannot run now: no server answers, or its weights are unavailable.

        Called once, in the process that the user started. It may take a second or two.
        """
        if self.wraps:
            self.inner.preflight()

    def consent(self) -> str | None:
        """Return the action that needs --trust-remote-code, such as "runs Python code that ..."; None: no action."""
        return self.inner.consent() if self.wraps else None

    def secrets(self) -> Collection[str]:
        """Return the keys that the model sends. They are removed from its answers and messages."""
        return self.inner.secrets() if self.wraps else ()

    def draws(self) -> bool:
        """Return whether an equal prompt with another `sample` may get another answer; False refuses `--samples`."""
        return self.inner.draws() if self.wraps else True

    def unsampled(self) -> Collection[str]:
        """Return the techniques that always get the same answer though `draws()` is True; they refuse `--samples`."""
        return self.inner.unsampled() if self.wraps else ()

    def samples(self) -> int:
        """Return the number of recorded samples of each answer; unless it is 0, a run needs `--samples`."""
        return self.inner.samples() if self.wraps else 0

    def recorded_by(self, benchmark: str) -> Collection[str]:
        """Return the techniques of the recorded answers to a benchmark; (): none, or unknown.

        A run by another technique is then refused.
        """
        return self.inner.recorded_by(benchmark) if self.wraps else ()

    def judged(self) -> bool:
        """Return whether the answers are free-form and were recorded with a judge's scores."""
        return self.inner.judged() if self.wraps else False

    def token_limits(self) -> TokenLimits | None:
        """Return the limit of new tokens for prompts without one; the model must then obey `Prompt.max_tokens`.

        None: prompts have no limit, and `--max-tokens` is refused.
        """
        return self.inner.token_limits() if self.wraps else None

    def as_judge(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the table [options] of a config with values that suit a judge: it writes more than other models."""
        return options

    def size(self) -> int | None:
        """Return the bytes of one copy's weights; None: they are not here, or there are none."""
        return self.inner.size() if self.wraps else None

    def places(self) -> Sequence[str] | None:
        """Return the devices that can each hold one copy, as values of CUDA_VISIBLE_DEVICES such as "0" or "0,1".

        Stay within the present value of that variable. (): too few devices; None: the model takes no GPU. Each process
        that loads the model gets one place and sees no other. This method must not use CUDA.
        """
        return self.inner.places() if self.wraps else None

    def memory(self, place: str) -> int | None:
        """Return the bytes that a place holds, None if unknown. Places too small for `size()` are left out."""
        return self.inner.memory(place) if self.wraps else None

    # --- called from load() on ----------------------------------------------------------------------------

    def load(self) -> None:
        """Load or connect. Called once in each process that asks, before the first prompt."""
        if self.wraps:
            self.inner.load()

    def fingerprint(self) -> str | None:
        """Return an id of the answers, after `load()`: digests of weights, revision, settings that change answers.

        None: answers are not reused across runs. Wrappers have this default too, as they may change answers.
        """
        return None

    def identified(self) -> str | None:
        """Return the proof, after `load()`, that this very model gave the stored answers; None: there is none.

        A phrase, such as "digests of its weights". The default is "its fingerprint" if there is one. Return None for a
        server that may change behind its name: some stored questions are then asked anew before a verdict.
        """
        if self.fingerprint() is None:
            return None
        return self.inner.identified() if self.wraps else "its fingerprint"

    def about(self) -> Mapping[str, Any]:
        """Return settings for run.json, after `load()`, as JSON values."""
        return self.inner.about() if self.wraps else {}

    def fit(self, items: Sequence[Item]) -> None:
        """Take all items of the run's benchmarks with their keys, once before the first prompt. Baselines need them."""
        if self.wraps:
            self.inner.fit(items)

    def prepare(self, prompts: Sequence[Prompt]) -> None:
        """Start to prepare the prompts that `generate` will probably get next, in a separate thread; return at once."""
        if self.wraps:
            self.inner.prepare(prompts)

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Answer | AnswerError]:
        """Return an answer to each prompt (at least one), in order, or an AnswerError that says why there is none."""
        raise UsageError(_missing(type(self), "generate"))

    def status(self) -> Mapping[str, Any]:
        """Return the present state of a model that runs elsewhere, as JSON values, for run.json and the progress line.

        The line shows `replicas`, the number of copies; `replicas_asked`, the number that was wanted; `rate`, the items
        a second of each; `queue`, the batches that wait. Any thread may call it at any time after `load()`.
        """
        return self.inner.status() if self.wraps else {}

    def close(self) -> None:
        """Release everything that `load()` started. It may be called without `load()`."""
        if self.wraps:
            self.inner.close()

    # --- checks of subclasses and assignments -------------------------------------------------------------

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Refuse (UsageError) undeclared and misplaced names; check the members now, and their results when called."""
        super().__init_subclass__(**keywords)
        cls._written = _line_of_class()
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()
        _refuse(cls)
        for name in MEMBERS:
            owner = next(base for base in cls.__mro__ if name in vars(base) or base is Backend)
            # Members of other subclasses of Backend were checked when these were defined.
            if owner is cls or not issubclass(owner, Backend):
                setattr(cls, name, _guarded(cls, name, vars(owner)[name]))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse (UsageError) undeclared names, and values of wrong types."""
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        kind = MEMBERS.get(name)
        where = f"model '{_default_title(self)}'"
        if kind is None:
            raise UsageError(f"{where}: {_undeclared(name)}")
        if kind != "value":
            raise UsageError(f"{where}: {name} cannot be assigned to an instance: {_WHERE[kind]}")
        try:
            object.__setattr__(self, name, _converted(where, name, value))
        except AttributeError:
            raise UsageError(f"{where}: {name} cannot be assigned: it is a property without a setter") from None

    _written: ClassVar[str] = ""
    """File and line of the class statement."""


B = TypeVar("B", bound=Backend)

MEMBERS: Mapping[str, str] = {
    **{
        name: "method" if isinstance(value, FunctionType) else "value" if isinstance(value, _value) else "class"
        for name, value in vars(Backend).items()
        if not name.startswith("_")
    },
    **dict.fromkeys(("argument", "options", "inner"), "given"),
}
"""The declared names: each a "method", a "value", a value at "class" level, or "given" to each instance."""

_WHERE = {
    "method": "it is a method of the class",
    "class": "it belongs to the class",
    "given": "it is given",
}


def loaded(backend: B) -> B:
    """Load a backend and return it; UsageError if its capabilities are still unknown."""
    backend.load()
    if backend.capabilities is None:
        raise UsageError(
            f"model '{backend.title}': capabilities is of type NoneType; a set of texts is expected, such as "
            '{"generate"}'
        )
    return backend


def says(kind: type[Backend], name: str) -> bool:
    """Return whether a class defines a member, itself or by a base other than Backend."""
    return next(base for base in kind.__mro__ if name in vars(base)) is not Backend


def usable(kind: object, where: str = "") -> type[Backend]:
    """Return `kind` if it is a class that can run a model; else raise UsageError that says how to write one."""
    if not (isinstance(kind, type) and issubclass(kind, Backend)):
        shown = f"class {kind.__name__}" if isinstance(kind, type) else " ".join(repr(kind).split())[:100]
        raise UsageError(f"{where or 'backends'}: {shown} is no backend; write class NAME(medvqa.Backend)")
    _refuse(kind)
    for name in ("generate", "sends_to"):
        if not says(kind, name):
            raise UsageError(_missing(kind, name))
    return kind


def _missing(kind: type[Backend], name: str) -> str:
    problems = {
        "generate": "has no generate: write def generate(self, prompts), which returns one medvqa.Answer for each",
        "sends_to": "does not say where prompts go: write sends_to = None if they stay in this process, or the origin "
        'that gets them, sends_to = "https://host:443"',
    }
    return f"{_class(kind)} {problems[name]}"


def _class(kind: type[Backend]) -> str:
    return f"{kind._written}: class {kind.__name__}".removeprefix(": ")


def _line_of_class() -> str:
    """Return file and line of the running class statement, three frames above. Frames of ABCMeta do not count."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "abc":
        frame = frame.f_back
    path = frame.f_code.co_filename
    inside = os.path.relpath(path) if path.startswith(os.getcwd() + os.sep) else path
    return f"{inside}:{frame.f_lineno}"


def _refuse(kind: type[Backend]) -> None:
    """Raise UsageError for forbidden names in a class or in its bases that are not subclasses of Backend."""
    for owner in kind.__mro__:
        if owner is not kind and (issubclass(owner, Backend) or owner is object):
            continue
        if "__init__" in vars(owner):
            raise UsageError(
                f"{_class(kind)}: __init__ is not overridden: argument and options are self.argument and self.options; "
                "write def load(self) for what is done once before the first prompt"
            )
        for name in vars(owner):
            if not name.startswith("_") and name not in MEMBERS:
                raise UsageError(f"{_class(kind)}: {_undeclared(name)}")


def _undeclared(name: str) -> str:
    return f"{name}: no member of Backend{decode.did_you_mean(name, MEMBERS)} Helpers begin with an underscore: _{name}"


def _guarded(kind: type[Backend], name: str, member: Any) -> Any:
    """Return a member of a class body, wrapped so that its values are checked; UsageError if misplaced."""
    where, expected = _class(kind), MEMBERS[name]
    if expected == "given":
        raise UsageError(f"{where}: {name} is given to each backend and not written in a class")
    if expected == "method":
        if isinstance(member, staticmethod | classmethod):
            raise UsageError(f"{where}: {name} is a {_type(member)}; a plain method is expected: {_signature(name)}")
        if not isinstance(member, FunctionType):
            raise UsageError(f"{where}: {name} is of type {_type(member)}; a method is expected: {_signature(name)}")
        _check_parameters(where, name, member)
        return member if name == "generate" else _returning(name, member)
    if isinstance(member, FunctionType | staticmethod | classmethod):
        raise UsageError(f"{where}: {name} is a method; a value is expected, or a property: @property above its def")
    if expected == "value" and isinstance(member, property) and member.fget is not None:
        return property(_holding(name, member.fget), member.fset, member.fdel, member.__doc__)
    if expected == "value" and isinstance(member, cached_property):
        cached: cached_property[Any] = cached_property(_holding(name, member.func))
        cached.__set_name__(kind, name)
        return cached
    return _converted(where, name, member)


def _signature(name: str) -> str:
    return f"def {name}({', '.join(inspect.signature(getattr(Backend, name)).parameters)})"


def _check_parameters(where: str, name: str, function: FunctionType) -> None:
    """Raise UsageError for a method that cannot be called as it is declared."""
    declared = inspect.signature(getattr(Backend, name)).parameters
    try:
        inspect.signature(function).bind(*declared)
    except TypeError as error:
        raise UsageError(f"{where}: {name} cannot be called ({error}): {_signature(name)} is expected") from None


def _returning(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: Backend, *arguments: Any) -> Any:
        with _user_code(self, f"{name}()", function):
            value = function(self, *arguments)
            return _converted(lambda: f"model '{self.title}'", name, value) if name in _EXPECTED else value

    return method


def _holding(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(function)
    def getter(self: Backend) -> Any:
        with _user_code(self, name, function):
            value = function(self)
            where = f"model '{_default_title(self) if name == 'title' else self.title}'"
            return _converted(where, name, value)

    return getter


def _user_code(backend: Backend, member: str, function: Callable[..., Any]) -> AbstractContextManager[None]:
    """Convert exceptions of a user's member to UsageError. Exceptions of shipped backends keep their traceback."""
    if type(backend).__module__.startswith("medvqa."):
        return nullcontext()
    return usercode.guarded(f"model '{_default_title(backend)}', {member}", function=function)


def _default_title(backend: Backend) -> str:
    return f"{type(backend).name}:{backend.argument}" if backend.argument else type(backend).name


# --- types of members ---------------------------------------------------------------------------------------


def _converted(where: str | Callable[[], str], name: str, value: Any) -> Any:
    """Return a member's value as its declared type; else raise UsageError that begins with `where`."""
    try:
        return _EXPECTED[name](value)
    except TypeError as error:
        is_a = "gave a value of type" if MEMBERS[name] == "method" else "is of type"
        why = f"{is_a} {_type(value)}; {error}"
    except ValueError as error:
        why = str(error)
    shown = f"{name}()" if MEMBERS[name] == "method" else name
    raise UsageError(f"{where if isinstance(where, str) else where()}: {shown} {why}")


def _type(value: object) -> str:
    return type(value).__name__


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    if not value:
        raise ValueError("is an empty text; tables and records call the model by it")
    if not answers.is_unicode(value):
        raise ValueError("has half a surrogate pair, which is no Unicode text")
    return value


def _name(value: Any) -> str:
    if ":" in _text(value):
        raise ValueError(f"is {value!r}; --model=NAME:ARGUMENT needs a name without a colon")
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("True or False is expected")
    return value


def _options(value: Any) -> type[Any] | None:
    if value is None:
        return None
    if not (isinstance(value, type) and is_dataclass(value)):
        raise TypeError("a frozen dataclass is expected")
    if bare := [field.name for field in fields(value) if field.default is field.default_factory is MISSING]:
        raise ValueError(f"has fields without a default: {', '.join(bare)}")
    return value


def _capabilities(value: Any) -> frozenset[str] | None:
    expected = 'a set of texts is expected, such as {"generate"}'
    if value is None:
        return None
    if not isinstance(value, set | frozenset | list | tuple):
        raise TypeError(expected)
    for capability in value:
        if not isinstance(capability, str):
            raise ValueError(f"has a value of type {_type(capability)}; {expected}")
    return frozenset(value)


def _origins(value: Any) -> str | tuple[str, ...] | None:
    if value is None or isinstance(value, str):
        return None if value is None else _origin(value)
    if not isinstance(value, list | tuple) or not all(isinstance(origin, str) for origin in value):
        raise TypeError("an origin such as https://host:443 is expected, or None if prompts stay in this process")
    if not value:
        raise ValueError("is an empty list of origins; None says that prompts stay in this process")
    return tuple(map(_origin, value))


def _origin(value: str) -> str:
    if not _ORIGIN.fullmatch(value):
        # Not shown: it may hold a password.
        raise ValueError("is not like https://host:443: scheme, host and port, without a path, user or password")
    return value


def _count(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise ValueError(f"is {value!r}; a whole number of 1 or more is expected")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise ValueError(f"is {value!r}; seconds, 0 or more, are expected")
    return value


def _resources(value: Any) -> Mapping[str, float]:
    if not isinstance(value, Mapping):
        raise TypeError('a mapping of names to numbers is expected, such as {"gpus": 1}')
    for name, number in value.items():
        if not isinstance(name, str) or isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError('has another form than {"gpus": 1}: names and numbers are expected')
        if not 0 <= number < inf:
            raise ValueError(f"has {name} = {number!r}; a number of 0 or more is expected")
        if name == "gpus" and number > 1 and number != int(number):
            raise ValueError(f"has gpus = {number!r}; a copy takes a part of one GPU (below 1), or whole GPUs")
    return dict(value)


def _fingerprint(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("a text or None is expected")
    if value == "":
        raise ValueError("gave an empty text; None says that answers are not reused across runs")
    if value is not None and not answers.is_unicode(value):
        raise ValueError("gave half a surrogate pair, which is no Unicode text")
    return value


def _about(value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError("a mapping of texts to JSON values is expected")
    try:
        # Encode and decode: both xdist and run.json need plain JSON values.
        settings: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value or {}))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"gave what is no JSON value: {answers.line_of(error)}") from None
    return settings


def _reason(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("a text or None is expected")
    return value


def _secrets(value: Any) -> frozenset[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError("gave no sequence of texts")
    keys = tuple(value)
    if not all(isinstance(key, str) for key in keys):
        raise ValueError("gave no sequence of texts")
    return frozenset(keys)


def _bytes(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError("a number of bytes or None is expected")
    return value


def _samples(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a whole number is expected, 0 for none")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(name, str) for name in value):
        raise TypeError("a collection of names is expected")
    return tuple(value)


def _places(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(place, str) for place in value):
        raise TypeError("a sequence of texts or None is expected")
    return tuple(value)


def _limits(value: Any) -> TokenLimits | None:
    if value is not None and not isinstance(value, TokenLimits):
        raise TypeError("medvqa.items.TokenLimits or None is expected")
    return value


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("a mapping of names to options is expected")
    return value


_EXPECTED: Mapping[str, Callable[[Any], Any]] = {
    "name": _name,
    "Options": _options,
    **dict.fromkeys(("argument_is_path", "wraps", "pools", "priced", "looks", "reads", "converses", "recorded"), _flag),
    "title": _text,
    "capabilities": _capabilities,
    "sends_to": _origins,
    **dict.fromkeys(("batch_size", "concurrency"), _count),
    "patience": _seconds,
    "resources": _resources,
    **dict.fromkeys(("consent", "identified"), _reason),
    "secrets": _secrets,
    **dict.fromkeys(("draws", "judged"), _flag),
    "samples": _samples,
    **dict.fromkeys(("unsampled", "recorded_by"), _names),
    "token_limits": _limits,
    "as_judge": _table,
    **dict.fromkeys(("size", "memory"), _bytes),
    "places": _places,
    "fingerprint": _fingerprint,
    "about": _about,
    "status": _about,
}
"""Converters of values and of methods' results. They raise TypeError (the expected type) or ValueError (the problem).
Methods that return nothing need none, nor does `generate`: the engine checks each answer."""
