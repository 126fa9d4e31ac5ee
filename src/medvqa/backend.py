"""Define class Backend: the members that a way of running a model may declare, with their defaults.

A backend is a subclass with `generate` and `sends_to`. Undeclared public names are refused in class bodies and on
instances, so that a misspelt member is noticed. Helpers begin with an underscore.

The annotated class is the one declaration of the members. From it come `MEMBERS`, the checks (by the type that an
annotation names), and what a wrapper does not say: the inner model says it. `loaded` reads what is known after loading,
once, as `ModelFacts`.
"""

from __future__ import annotations

import inspect
import ipaddress
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property, wraps
from pathlib import Path
from types import FunctionType, NoneType
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar

import msgspec
from msgspec import Meta

from medvqa import answers, decode, usercode
from medvqa.items import Answer, AnswerError, Item, Prompt, TokenLimits, UsageError

BATCH_SIZE = 32
"""The engine's default number of prompts in a batch."""
JUDGE_TOKENS = 1024
"""Default limit of new tokens of a judge."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


PATHS: Mapping[str, bool] = {"paths": True}
"""Metadata of an option whose texts may be paths: a config names folders beside its own file by it."""


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


def chain(backend: Backend) -> list[Backend]:
    """Return a backend and the models that it wraps, the outermost first."""
    models = [backend]
    while models[-1].wraps:
        models.append(models[-1].inner)
    return models


def destinations(backend: Backend) -> tuple[str, ...]:
    """Return the origins on other machines that get prompts from the backend and from the models that it wraps."""
    said = (model.sends_to or () for model in chain(backend))
    origins = (origin for each in said for origin in ((each,) if isinstance(each, str) else each))
    return tuple(dict.fromkeys(filter(is_remote, origins)))


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


# --- types of members: what is expected, and a converter that raises TypeError or ValueError ------------------


def _as(kind: Any) -> Callable[[Any], Any]:
    """Return a converter to a type of msgspec; collections other than lists are taken too."""

    def convert(value: Any) -> Any:
        listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
        return msgspec.convert(list(value) if listed else value, kind)

    return convert


def _origins(value: Any) -> str | tuple[str, ...]:
    origins = _as(tuple[str, ...])([value] if isinstance(value, str) else value)
    if not origins or not all(map(_ORIGIN.fullmatch, origins)):
        # Not shown: it may hold a password.
        raise ValueError("is not like https://host:443: scheme, host and port, without a path, user or password")
    return value if isinstance(value, str) else origins


def _resources(value: Any) -> Mapping[str, float]:
    gpus = msgspec.convert(value, dict[str, Annotated[float, _NUMBER]]).get("gpus", 0)
    if gpus > 1 and gpus % 1:
        raise ValueError(f"has gpus = {gpus!r}; a copy takes a part of one GPU (below 1), or whole GPUs")
    return dict(value)


def _options(value: Any) -> Any:
    if not (isinstance(value, type) and is_dataclass(value)):
        raise TypeError
    if bare := [field.name for field in fields(value) if field.default is field.default_factory is MISSING]:
        raise ValueError(f"has fields without a default: {', '.join(bare)}")
    return value


def _json_values(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping | None):
        raise TypeError
    try:
        # Encode and decode: both xdist and run.json need plain JSON values.
        settings: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value or {}))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"gave what is no JSON value: {answers.line_of(error)}") from None
    return settings


_NUMBER = Meta(ge=0, le=sys.float_info.max)
_TEXT = _as(Annotated[str, Meta(pattern=r"\A[^\ud800-\udfff]+\Z")])
_NAME = _as(Annotated[str, Meta(pattern=r"\A[^:\ud800-\udfff]+\Z")])

Name = Annotated[str, "a text is expected; --model=NAME:ARGUMENT needs a name without a colon", _NAME]
Title = Annotated[str, "a text is expected; tables and records call the model by it", _TEXT]
Fingerprint = Annotated[str, "a text or None is expected; None says that answers are not reused across runs", _TEXT]
Abilities = Annotated[Collection[str], 'a set of texts is expected, such as {"generate"}', _as(frozenset[str])]
OptionsClass = Annotated[type[Any], "a frozen dataclass is expected", _options]
Secrets = Annotated[Collection[str], "a collection of texts is expected", _as(frozenset[str])]
Origins = Annotated[
    str | Sequence[str], "an origin such as https://host:443 is expected, or None if prompts stay here", _origins
]
Count = Annotated[int, "a whole number of 1 or more is expected", _as(Annotated[int, Meta(ge=1)])]
Seconds = Annotated[float, "seconds, 0 or more, are expected", _as(Annotated[float, _NUMBER])]
Bytes = Annotated[int, "a number of bytes or None is expected", _as(int)]
Resources = Annotated[
    Mapping[str, float], 'a mapping of names to numbers is expected, such as {"gpus": 1}: 0 or more', _resources
]
JSONValues = Annotated[Mapping[str, Any], "a mapping of texts to JSON values is expected", _json_values]


class Readers(msgspec.Struct, frozen=True, kw_only=True):
    """The people whose readings a model is. A question's sample k is the reading of the k-th of the sorted codes.

    `read`: the questions of each, as benchmark ("": any) and id of the item. The other fields are about their study, if
    one was planned: the codes of the planned readers, the number of questions that each was assigned, the
    non-inferiority margin of a model in points, and the digest of the plan.
    """

    codes: tuple[str, ...]
    read: tuple[frozenset[tuple[str, str]], ...]
    planned: tuple[str, ...] = ()
    assigned: Mapping[str, int] = {}
    margin: float | None = None
    plan: str = ""


_PLAIN: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "bool": ("True or False is expected", _as(bool)),
    "int": ("a whole number is expected, 0 for none", _as(int)),
    "str": ("a text or None is expected", _as(str)),
    "Readers": ("medvqa.backend.Readers or None is expected", _as(Readers)),
    "TokenLimits": ("medvqa.items.TokenLimits or None is expected", _as(TokenLimits)),
    "Collection[str]": ("a collection of names is expected", _as(tuple[str, ...])),
    "Sequence[str]": ("a sequence of texts or None is expected", _as(tuple[str, ...])),
    "Mapping[str, Any]": ("a mapping of names to options is expected", _as(dict[str, Any])),
}
"""What is expected of Python's own types, and converters."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a loaded model says about itself, by the members of class Backend of these names."""

    title: str
    capabilities: frozenset[str]
    fingerprint: str | None
    identified: str | None
    about: Mapping[str, Any]
    converses: bool
    recorded: bool
    batch_size: int | None
    concurrency: int | None
    patience: float

    def without(self, secrets: Collection[str]) -> ModelFacts:
        """Return the facts without keys in the texts that are recorded."""
        title, fingerprint, about = answers.redacted_value([self.title, self.fingerprint, self.about], secrets)
        return msgspec.structs.replace(self, title=title, fingerprint=fingerprint, about=about)


class Service(Protocol):
    """What `Backend.start` has started for all processes of a run, such as servers."""

    @property
    def told(self) -> Mapping[str, Any]:
        """Plain values for `Backend.join` in each process that asks, such as addresses."""

    def wait(self, say: Callable[[str], None]) -> None:
        """Return once it is ready (UsageError); `say` gets lines about the wait. Idempotent."""

    def stop(self) -> Sequence[str]:
        """Tell it to end, and return at once; a line for each part that had ended by itself. Idempotent."""

    def close(self) -> None:
        """End it, and wait for the end. Idempotent."""


class Backend:
    """A way of running a model. A subclass must write `generate` and `sends_to`; all other members have defaults.

    Write a value in the class body or as a property. A member without "class level" in its docstring may also be
    assigned to an instance. If `wraps` is True, defaults come from the inner model.
    """

    name: ClassVar[Name] = "backend"
    """Class level: the NAME in `--model=NAME:ARGUMENT`; default: the class's name in lower case."""
    Options: ClassVar[OptionsClass | None] = None
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
        kind = usable(type(self), argument)
        if options is None and kind.Options is not None:
            options = kind.Options()
        if not isinstance(options, kind.Options or NoneType):
            takes = f"takes options of type {kind.Options.__name__}" if kind.Options else "has no options"
            raise UsageError(f"backend '{kind.name}' {takes}; type {type(options).__name__} is given")
        if kind.wraps and inner is None:
            raise UsageError(f"backend '{kind.name}' wraps another model: --model={kind.name}:MODEL")
        if inner is not None and not kind.wraps:
            raise UsageError(f"backend '{kind.name}' wraps no other model: write wraps = True in the class")
        self.__dict__.update(argument=argument, options=options)
        if inner is not None:
            self.__dict__["inner"] = inner

    @cached_property
    def facts(self) -> ModelFacts:
        """Given: what the loaded model says about itself, read and checked once (UsageError): see `loaded`."""
        read = {name: getattr(self, name) for name in ModelFacts.__struct_fields__}
        if read["capabilities"] is None:
            expected = MEMBERS["capabilities"].expected
            raise UsageError(f"model '{self.title}': capabilities is of type NoneType; {expected}")
        return ModelFacts(
            **{name: value() if MEMBERS[name].kind == "method" else value for name, value in read.items()}
        )

    # --- values -------------------------------------------------------------------------------------------

    @property
    def title(self) -> Title:
        """The model's name in tables, records and messages; default: NAME:ARGUMENT, or NAME without an argument."""
        return _default_title(self)

    @property
    def capabilities(self) -> Abilities | None:
        """Its abilities: `generate` (free text), `option_logprobs` (next-token log-probabilities of option letters),
        `option_likelihood` (length-normalised log-likelihoods of option texts). None before `load()`: unknown.
        """
        return frozenset({"generate"})

    @property
    def sends_to(self) -> Origins | None:
        """The origin that gets prompts, such as https://host:443; None: they stay in this process. No default.

        A tuple of origins if each prompt goes to one of several servers.
        """
        raise NotImplementedError

    @property
    def priced(self) -> bool:
        """Whether answers hold their cost, as `usage["cost"]`."""
        return False

    @property
    def looks(self) -> bool:
        """Whether the model looks at images. If so, a run with missing images is refused."""
        return True

    @property
    def reads(self) -> bool:
        """Whether answers depend on the prompt's text. If not, the model cannot judge."""
        return True

    @property
    def converses(self) -> bool:
        """Whether `generate` sends the earlier turns of a conversation, `Prompt.turns`, before the text.

        If not, protocols with two turns are refused.
        """
        return False

    @property
    def recorded(self) -> bool:
        """Whether answers were recorded before the run. If so, `--ablate` is refused: it could change nothing."""
        return False

    @property
    def batch_size(self) -> Count | None:
        """Prompts in one call of `generate` without `--batch-size`; None: the engine's default."""
        return None

    @property
    def concurrency(self) -> Count | None:
        """Threads that may call `generate` at once, by default with one prompt each; None: one thread makes all calls.

        Unless it is None, `--concurrency` sets it.
        """
        return None

    @property
    def patience(self) -> Seconds:
        """Seconds that one prompt may take without `--deadline`, if more than the engine's default."""
        return 0.0

    @property
    def resources(self) -> Resources:
        """The resources of one copy in a cluster: `gpus`, `cpus`, `memory` in bytes, and the cluster's own names.

        The table [resources] of a config sets them. {}: the cluster's defaults.
        """
        return {}

    # --- called before load() -----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise UsageError or DataError for a bad argument or bad options. Use no network and load nothing."""

    def preflight(self) -> None:
        """Raise UsageError if the model cannot run now: no server answers, or its weights are unavailable.

        Called once, in the process that the user started. It may take a second or two.
        """

    def consent(self) -> str | None:
        """Return the action that needs --trust-remote-code, such as "runs Python code that ..."; None: no action."""
        return None

    def secrets(self) -> Secrets:
        """Return the keys that the model sends. They are removed from its answers and messages."""
        return ()

    def draws(self) -> bool:
        """Return whether an equal prompt with another `sample` may get another answer; False refuses `--samples`."""
        return True

    def unsampled(self) -> Collection[str]:
        """Return the techniques that always get the same answer though `draws()` is True; they refuse `--samples`."""
        return ()

    def samples(self) -> int:
        """Return the number of recorded samples of each answer; unless it is 0, a run needs `--samples`."""
        return 0

    def readers(self) -> Readers | None:
        """Return the people who gave the answers; None: no people did.

        A run then asks each reader those questions alone that this reader has read.
        """
        return None

    def recorded_by(self, benchmark: str) -> Collection[str]:
        """Return the techniques of the recorded answers to a benchmark; (): none, or unknown.

        A run by another technique is then refused.
        """
        return ()

    def judged(self) -> bool:
        """Return whether the answers are free-form and were recorded with a judge's scores."""
        return False

    def token_limits(self) -> TokenLimits | None:
        """Return the limit of new tokens for prompts without one; the model must then obey `Prompt.max_tokens`.

        None: prompts have no limit, and `--max-tokens` is refused.
        """
        return None

    def as_judge(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the table [options] of a config with values that suit a judge: it writes more than other models."""
        return options

    def size(self) -> Bytes | None:
        """Return the bytes of one copy's weights; None: they are not here, or there are none."""
        return None

    def places(self) -> Sequence[str] | None:
        """Return the devices that can each hold one copy, as values of CUDA_VISIBLE_DEVICES such as "0" or "0,1".

        Stay within the present value of that variable. (): too few devices; None: the model takes no GPU. Each process
        that loads the model gets one place and sees no other. This method must not use CUDA.
        """
        return None

    def memory(self, place: str) -> Bytes | None:
        """Return the bytes that a place holds, None if unknown. Places too small for `size()` are left out."""
        return None

    def start(self, folder: Path) -> Service | None:
        """Start what all processes of a run share, such as servers; its logs belong into the run's folder.

        Called once, in the process that conducts the run, before anything is asked. None: nothing is started.
        """
        return None

    def join(self, told: Mapping[str, Any]) -> None:
        """Take what the started `Service` tells, in each process that asks, before `load()`."""

    # --- called from load() on ----------------------------------------------------------------------------

    def load(self) -> None:
        """Load or connect. Called once in each process that asks, before the first prompt."""

    def fingerprint(self) -> Fingerprint | None:
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

    def about(self) -> JSONValues:
        """Return settings for run.json, after `load()`, as JSON values."""
        return {}

    def fit(self, items: Sequence[Item]) -> None:
        """Take all items of the run's benchmarks with their keys, once before the first prompt. Baselines need them."""

    def prepare(self, prompts: Sequence[Prompt]) -> None:
        """Start to prepare the prompts that `generate` will probably get next, in a separate thread; return at once."""

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Answer | AnswerError]:
        """Return an answer to each prompt (at least one), in order, or an AnswerError that says why there is none."""
        raise NotImplementedError

    def compute(self, prompts: Sequence[Prompt]) -> Callable[[], Sequence[Answer | AnswerError]]:
        """Run the device's part of `generate`, and return a function that does the rest, such as decoding text.

        Another thread may call the function while the next batch is computed; it returns the value of `generate`.
        The default calls `generate`, and so does a class that overrides `generate` alone.
        """
        replies = self.generate(prompts)
        return lambda: replies

    def status(self) -> JSONValues:
        """Return the present state of a model that runs elsewhere, as JSON values, for run.json and the progress line.

        The line shows `replicas`, the number of copies; `replicas_asked`, the number that was wanted; `rate`, the items
        a second of each; `queue`, the batches that wait. Any thread may call it at any time after `load()`.
        """
        return {}

    def close(self) -> None:
        """Release everything that `load()` started. It may be called without `load()`."""

    # --- checks of subclasses and assignments -------------------------------------------------------------

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Refuse (UsageError) undeclared and misplaced names; check the members now, and their results when called."""
        super().__init_subclass__(**keywords)
        cls._written = _line_of_class()
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()
        _refuse(cls)
        # Members of other subclasses of Backend were checked when these were defined.
        owners = [base for base in cls.__mro__ if base is cls or not issubclass(base, Backend)]
        written = set[str]().union(*map(vars, owners))
        for name in MEMBERS:
            if name in written and (owner := next(base for base in cls.__mro__ if name in vars(base))) in owners:
                setattr(cls, name, _checked(cls, name, vars(owner)[name]))
        if "generate" in written and "compute" not in written:
            # The inherited `compute` would pass over this class's `generate`.
            setattr(cls, "compute", vars(Backend)["compute"])  # noqa: B010 - mypy refuses to assign to a method

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse (UsageError) undeclared names, and values of wrong types."""
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        where = f"model '{_default_title(self)}'"
        if name not in MEMBERS:
            raise UsageError(f"{where}: {_undeclared(name)}")
        if (kind := MEMBERS[name].kind) != "value":
            why = "it is given" if kind == "given" else "it belongs to the class"
            raise UsageError(f"{where}: {name} cannot be assigned to an instance: {why}")
        try:
            object.__setattr__(self, name, _converted(lambda: where, name, value))
        except AttributeError:
            raise UsageError(f"{where}: {name} cannot be assigned: it is a property without a setter") from None

    _written: ClassVar[str] = ""
    """File and line of the class statement."""


B = TypeVar("B", bound=Backend)


def loaded(backend: B, concurrency: int | None = None) -> B:
    """Load a backend, read and check its facts (UsageError), and return it.

    `concurrency`: the user's limit, which a model with a limit of its own keeps too.
    """
    backend.load()
    if concurrency is not None and backend.concurrency is not None:
        backend.concurrency = concurrency  # type: ignore[misc]  # a subclass may declare a property
    vars(backend).pop("facts", None)
    _ = backend.facts
    return backend


# --- what a class says --------------------------------------------------------------------------------------


def says(kind: type[Backend], name: str) -> bool:
    """Return whether a class defines a member, itself or by a base other than Backend."""
    return next(base for base in kind.__mro__ if name in vars(base)) is not Backend


def said(backend: Backend, name: str) -> bool:
    """Return whether the class of a model, or of one that it wraps, defines a member."""
    return any(says(type(model), name) for model in chain(backend))


def usable(kind: object, where: str = "") -> type[Backend]:
    """Return `kind` if it is a class that can run a model; else raise UsageError that says how to write one."""
    if not (isinstance(kind, type) and issubclass(kind, Backend)):
        shown = f"class {kind.__name__}" if isinstance(kind, type) else " ".join(repr(kind).split())[:100]
        raise UsageError(f"{where or 'backends'}: {shown} is no backend; write class NAME(medvqa.Backend)")
    _refuse(kind)
    if not says(kind, "generate"):
        how = "write def generate(self, prompts), which returns one medvqa.Answer for each"
        raise UsageError(f"{_class(kind)} has no generate: {how}")
    if not says(kind, "sends_to"):
        how = 'None if they stay in this process, or the origin that gets them, sends_to = "https://host:443"'
        raise UsageError(f"{_class(kind)} does not say where prompts go: write sends_to = {how}")
    return kind


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


def _checked(kind: type[Backend], name: str, member: Any) -> Any:
    """Return a member of a class body, wrapped so that its values are checked; UsageError if misplaced."""
    where, expected = _class(kind), MEMBERS[name].kind
    if expected == "given":
        raise UsageError(f"{where}: {name} is given to each backend and not written in a class")
    if expected == "method":
        _check_method(where, name, member)
        return member if name in ("generate", "compute") else _reading(name, member)
    if isinstance(member, FunctionType | staticmethod | classmethod):
        raise UsageError(f"{where}: {name} is a method; a value is expected, or a property: @property above its def")
    if expected == "value" and isinstance(member, property) and member.fget is not None:
        return property(_reading(name, member.fget), member.fset, member.fdel, member.__doc__)
    if expected == "value" and isinstance(member, cached_property):
        cached: cached_property[Any] = cached_property(_reading(name, member.func))
        cached.__set_name__(kind, name)
        return cached
    return _converted(lambda: where, name, member)


def _check_method(where: str, name: str, member: Any) -> None:
    """Raise UsageError for a member that is no method, or cannot be called as it is declared."""
    parameters = inspect.signature(getattr(Backend, name)).parameters
    expected = f"def {name}({', '.join(parameters)})"
    if not isinstance(member, FunctionType):
        raise UsageError(f"{where}: {name} is of type {type(member).__name__}; a method is expected: {expected}")
    try:
        inspect.signature(member).bind(*parameters)
    except TypeError as error:
        raise UsageError(f"{where}: {name} cannot be called ({error}): {expected} is expected") from None


def _reading(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a user's function with its value checked, and its exceptions converted to UsageError.

    Exceptions of shipped backends keep their traceback.
    """
    shown = f"{name}()" if MEMBERS[name].kind == "method" else name

    @wraps(function)
    def read(self: Backend, *arguments: Any) -> Any:
        title = _default_title(self)
        shipped = type(self).__module__.startswith("medvqa.")
        with nullcontext() if shipped else usercode.guarded(f"model '{title}', {shown}", function=function):
            value = function(self, *arguments)
            return _converted(lambda: f"model '{title if name == 'title' else self.title}'", name, value)

    return read


def _default_title(backend: Backend) -> str:
    return f"{type(backend).name}:{backend.argument}" if backend.argument else type(backend).name


# --- values of members --------------------------------------------------------------------------------------


class Member(msgspec.Struct, frozen=True):
    """A declared member: a method, a value, a value of the class, or what is given to each instance.

    `convert` returns a value of its type, or raises TypeError, or ValueError (why not); `expected` is for errors.
    """

    kind: Literal["method", "value", "class", "given"]
    expected: str
    convert: Callable[[Any], Any]


def _member(kind: Literal["method", "value", "class", "given"], annotation: str) -> Member:
    """Return a member by its annotation, a text: to evaluate all of them would cost milliseconds at each start."""
    plain = annotation.removesuffix(" | None")
    optional = plain != annotation
    own = getattr(globals().get(plain), "__metadata__", None)
    expected, converter = own or _PLAIN.get(plain, ("", lambda value: value))
    return Member(kind, expected, lambda value: None if value is None and optional else converter(value))


def _converted(where: Callable[[], str], name: str, value: Any) -> Any:
    """Return a member's value as its declared type; else raise UsageError that begins with `where`."""
    member = MEMBERS[name]
    method = member.kind == "method"
    try:
        return member.convert(value)
    except TypeError:
        problem = f"{'gave a value' if method else 'is'} of type {type(value).__name__}"
    except ValueError as error:
        problem = _problem(str(error), value, method=method)
    raise UsageError(f"{where()}: {name}{'()' if method else ''} {problem}; {member.expected}")


def _problem(error: str, value: Any, *, method: bool) -> str:
    """Return what is wrong with a value, by the message of a converter or of msgspec."""
    match = re.match(r"Expected `(\w+)[^`]*`(?:, got `(\w+)`( - at)?)?", error)
    if match is None:
        return error
    expected, got, inside = match.groups()
    if inside:
        return f"has a value of type {got}"
    if expected in ("int", "float"):
        return f"is {value!r}"
    if got is not None or not isinstance(value, str):
        return f"{'gave a value' if method else 'is'} of type {type(value).__name__}"
    if not answers.is_unicode(value):
        return f"{'gave' if method else 'has'} half a surrogate pair, which is no Unicode text"
    return f"is {value!r}" if value else f"{'gave' if method else 'is'} an empty text"


_OWN = frozenset({"title", "sends_to", "as_judge", "fingerprint", "identified", "generate", "compute"})
"""Members of a wrapper that are not the inner model's: a wrapper may change answers."""


class _Default:
    """A member that a class does not write: the inner model's, if the class wraps one; else as class Backend has it."""

    def __init__(self, name: str, written: Any) -> None:
        self.name, self.written = name, written

    def __get__(self, backend: Backend | None, kind: type[Backend]) -> Any:
        if backend is not None and backend.wraps and self.name not in _OWN:
            return getattr(backend.inner, self.name)
        return self.written.__get__(backend, kind)


def _declared() -> Iterator[tuple[str, Member]]:
    """Yield the members that class Backend declares, and make the values and methods in it defaults."""
    for name, annotation in Backend.__annotations__.items():
        inside = annotation.removeprefix("ClassVar[").removesuffix("]")
        yield name, _member("given" if inside == annotation else "class", inside)
    for name, written in list(vars(Backend).items()):
        read = written.fget if isinstance(written, property) else written
        if isinstance(written, cached_property):
            yield name, _member("given", "ModelFacts")
        elif isinstance(read, FunctionType) and not name.startswith("_"):
            setattr(Backend, name, _Default(name, written))
            yield name, _member("method" if read is written else "value", read.__annotations__["return"])


MEMBERS: Mapping[str, Member] = {name: member for name, member in _declared() if not name.startswith("_")}
