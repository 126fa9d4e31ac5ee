"""The types that travel between rooms, and the protocols that a user's code implements.

Standard library only: the plugin imports this module in every repository, most of which have no vqa tests.

The one path of the data: file -> `Benchmark.items` -> `Item` -> `Prompt` -> `Backend` -> `Answer` ->
`Benchmark.score` -> `Score` -> `Result` (one JSON line) -> `Metric` -> `Measure` -> report.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, get_args, runtime_checkable

from medvqa.figures import Figure
from medvqa.image import CELL as CELL
from medvqa.image import AnswerError as AnswerError
from medvqa.image import BatchLost as BatchLost
from medvqa.image import DataError as DataError
from medvqa.image import DataWarning as DataWarning
from medvqa.image import Image as Image
from medvqa.image import MedVQAError as MedVQAError
from medvqa.image import UsageError as UsageError
from medvqa.image import are_withheld as are_withheld
from medvqa.image import of_data as of_data
from medvqa.image import withholding as withholding

Kind = Literal["single_choice", "multiple_response", "judgment", "fill_in_the_blank", "short_answer"]
Outcome = Literal["correct", "partial", "wrong", "refused", "abstained", "unparsed", "unscored", "error"]
Technique = Literal["mc", "gd", "ps", "ff"]
Extraction = str
"""The rule that reads answers: "sound", "official", or a version of "official", such as "official:2026-06"."""
Ablation = Literal["text-only", "blank", "shuffle"]
Order = Literal["images-first", "text-first", "in-place"]

KINDS: tuple[Kind, ...] = get_args(Kind)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
TECHNIQUES: tuple[Technique, ...] = get_args(Technique)
OPTION_TECHNIQUES: frozenset[Technique] = frozenset({"gd", "ps"})
"""Techniques that take a probability of every option from the model, and no text."""
ABLATIONS: tuple[Ablation, ...] = get_args(Ablation)
ORDERS: tuple[Order, ...] = get_args(Order)
"""Orders of images and text within a message. The first is the default; `in-place`: at marks such as `<image 1>`."""
CHOICE_KINDS: frozenset[Kind] = frozenset({"single_choice", "multiple_response"})
"""Kinds answered by option letters."""
OPEN_KINDS: frozenset[Kind] = frozenset(KINDS) - CHOICE_KINDS
"""Kinds answered by a text."""
INVALID_OUTCOMES: frozenset[Outcome] = frozenset({"refused", "abstained", "unparsed"})
"""Outcomes of answers that name no option: value 0, counted as wrong, listed separately."""
SCORED_OUTCOMES: frozenset[Outcome] = frozenset({"correct", "partial", "wrong", "refused", "abstained", "unparsed"})
"""Outcomes with a value; `unscored` and `error` have none and stay out of every denominator."""
UNDECLARED: Any = ""
"""The kind of an item that names none, until its benchmark is read."""

if TYPE_CHECKING:
    from dataclasses import replace as replace

    from medvqa.paper_tables import PaperTable
else:
    _GETTERS: dict[type, tuple[tuple[str, ...], attrgetter]] = {}

    def replace(record, /, **changes):
        """As `dataclasses.replace`, in two calls in place of twenty: nine records are replaced for each question."""
        kind = type(record)
        if kind not in _GETTERS:
            names = tuple(own.name for own in fields(kind) if own.init)
            # Of one name alone, a getter returns no tuple.
            _GETTERS[kind] = names, attrgetter(*names, "__class__")
        names, getter = _GETTERS[kind]
        return kind(**{**dict(zip(names, getter(record), strict=False)), **changes})


@dataclass(frozen=True, slots=True)
class Item:
    """One question of a benchmark about zero or more images.

    `id` is the data set's own and unique within `benchmark`; a missing `benchmark` is filled in by `benchmarks.load`.
    `options` maps letters to texts in the order of the data set, empty for open kinds. `answers` holds the correct
    letters, or the accepted reference texts of an open question; () means that the key is withheld. `kind` may be left
    out: it is then multiple_response with options and several answers, single_choice with options, else short_answer.
    `tags` maps a lexicon dimension to the item's values (slugs such as `fundus_photography`). `pair_id` joins the two
    items of a confusing pair; `cluster_id` names the connected component of items that share images, patients or source
    cases (None: unknown). `extra` keeps further fields of the data set, JSON values only.
    """

    id: str
    benchmark: str = ""
    kind: Kind = UNDECLARED
    question: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pair_id: str | None = None
    cluster_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def check_system() -> None:
    """UsageError on Windows: locks of files, signals and modes of folders are those of POSIX."""
    if os.name == "nt":
        raise UsageError("Windows is not supported: install and run it in WSL (wsl --install), or on Linux or macOS")


class QuestionKey(NamedTuple):
    """The key of a question in a run; results are sorted by it.

    `item` is the item's id. `variant` names the prompt and the rotation (`Variant`) if a run asks the
    question in several ways, else "". `sample` counts from 1 if a question is asked several times (`--samples`);
    0: asked once.
    """

    benchmark: str
    item: str
    technique: str
    variant: str = ""
    sample: int = 0

    @property
    def question(self) -> QuestionKey:
        """The key without variant and sample: all answers to one question share it."""
        return QuestionKey(self.benchmark, self.item, self.technique)

    @property
    def stored(self) -> tuple[str | int, ...]:
        """The values for digests; an empty variant is left out, so that digests of old runs stay valid."""
        return tuple(self) if self.variant else (self.benchmark, self.item, self.technique, self.sample)

    @property
    def names(self) -> tuple[str, ...]:
        """The values as texts, without an empty variant and sample 0."""
        variant = [self.variant] if self.variant else []
        sample = [f"sample{self.sample}"] if self.sample else []
        return self.benchmark, self.item, self.technique, *variant, *sample

    def name(self, *, technique: bool) -> str:
        """Return the name in lists of expected and missing questions; `technique` includes the technique."""
        benchmark, item, technique_name, *suffixes = self.names
        return "-".join([f"{benchmark}/{item}", *([technique_name] if technique else []), *suffixes])


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to ask a question within a run that asks it in several ways; a plan makes each once.

    `prompt`: the prompt's name, "" if the run has one prompt. `rotation`: options are shifted by this number of places;
    None if the run rotates none. `name` is its name in keys and records: "short", "r1" (rotation 0), "short+r1"; "" for
    neither.
    """

    prompt: str = ""
    rotation: int | None = None
    name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Write the name once: each question is asked for its key several times."""
        rotation = "" if self.rotation is None else f"r{self.rotation + 1}"
        object.__setattr__(self, "name", "+".join(filter(None, (self.prompt, rotation))))

    @staticmethod
    def parse(name: str) -> Variant:
        """Return the variant of a recorded name (DataError)."""
        return _variant(name)


_ROTATION = re.compile(r"r([1-9][0-9]{0,3})")


# Every result is asked for its variant several times, and a run has few.
@lru_cache(maxsize=1024)
def _variant(name: str) -> Variant:
    # No prompt's name holds a plus.
    head, joined, last = name.rpartition("+")
    if (match := _ROTATION.fullmatch(last)) is not None:
        return Variant(head, int(match[1]) - 1)
    if joined:
        raise DataError(f"variant {name[:60]!r}: its last part is no rotation, such as r1")
    return Variant(name)


ONE_WAY = Variant()
"""The variant of questions that a run asks in one way."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question of a run: an item, and how it is asked; `sample` is as in `QuestionKey`."""

    item: Item
    technique: Technique = "mc"
    sample: int = 0
    variant: Variant = ONE_WAY

    @property
    def key(self) -> QuestionKey:
        """The key within a run."""
        return QuestionKey(self.item.benchmark, self.item.id, self.technique, self.variant.name, self.sample)


@dataclass(frozen=True, slots=True)
class Shot:
    """One solved example that precedes the question; `end` follows its answer in raw prompts (not in chats)."""

    text: str
    answer: str
    images: tuple[Image, ...] = ()
    end: str = "\n\n"


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier turn of the conversation: the user's text and the model's reply."""

    text: str
    reply: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt for a model; it never holds the answer key.

    `text` is sent after the images, unless `order` says otherwise (`protocols.placing`); a model without chat form may
    have an order of its own.
    `benchmark`, `item`, `kind` and `options` serve techniques that score options, and
    baselines that answer without reading. With GD the keys of `options` are the possible next letters; with PS its
    values are the possible continuations of `text` after a space. `template` names the template and its digest, for
    instance `mediconfusion/mc@1f2e3d4c`. `sample` numbers repetitions of the same prompt from 1, 0 if asked once;
    a model that samples uses it as its seed, or as part of it. `max_tokens` limits the new tokens of an answer in
    words; 0: no limit; None: the model's own limit. `turns` precede `text` in the same conversation; the images then
    belong to the first of them. `variant` is as in `QuestionKey`, for models that answer by the question's key. `then`
    holds the user's further texts: the engine sends each after the reply to the
    text before it, and the last reply is the answer.
    """

    text: str
    images: tuple[Image, ...] = ()
    system: str = ""
    shots: tuple[Shot, ...] = ()
    benchmark: str = ""
    item: str = ""
    kind: Kind = "single_choice"
    options: Mapping[str, str] = field(default_factory=dict)
    technique: Technique = "mc"
    template: str = ""
    sample: int = 0
    variant: str = ""
    max_tokens: int | None = None
    turns: tuple[Turn, ...] = ()
    then: tuple[str, ...] = ()
    order: Order = "images-first"


@dataclass(frozen=True, slots=True)
class ReaderNote:
    """What a person said of a question besides the text of an answer.

    `score`: by which people scored the answer, from 0 to 1. `cannot_tell`: the reader said that it cannot be
    determined. `confidence`: 1 to 5. `arm`: "with" or "without" a model's answer in view; kept, and not analysed.
    """

    score: float | None = None
    cannot_tell: bool = False
    confidence: int | None = None
    comment: str = ""
    arm: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a model to one prompt.

    `option_logprobs` are natural logarithms by key of `Prompt.options`, for techniques that score options. For GD they
    are those of the letter as next token, for PS means over the tokens of the option's text. A missing option was below
    the server's top-k. `text` is then "", or the server's text. `seconds` is the wall time, for a batch its share per
    answer. `finish` is "stop", "length" (cut off at a limit of tokens), "refusal" or the server's own word, ""
    if unknown. `usage` counts tokens (`input`, `output`) and, if prices are known, their price (`cost`). `served_by`
    is the model id or system fingerprint that the server reports, "" without one. `thoughts` is hidden reasoning, which
    is never scored. `earlier` holds the replies of earlier turns; `seconds` and `usage` are then sums over all turns.
    `whole` is the whole reply if `text` is only the line of its answer, as for `--reasoning` and `--explain`; it is
    never scored. `cut`: the reply was cut off outside of `text`, in an earlier turn or after the answer's line.
    `noted`: what a person who gave the answer said besides. `confidence`: the probability, from 0 to 1, that the model
    gave its answer when asked for it (`--confidence`); None if it was not asked, or if none could be read.
    """

    text: str
    option_logprobs: Mapping[str, float] | None = None
    seconds: float | None = None
    finish: str = "stop"
    usage: Mapping[str, float] | None = None
    served_by: str = ""
    thoughts: str = ""
    earlier: tuple[str, ...] = ()
    whole: str = ""
    cut: bool = False
    noted: ReaderNote | None = None
    confidence: float | None = None

    @property
    def reply(self) -> str:
        """All that the model wrote for people: the earlier replies and the whole last one, without thoughts."""
        return "\n\n".join((*self.earlier, self.whole or self.text))


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one answer: `value` in [0, 1], None for `unscored` and `error`.

    `extracted` holds the letters read from the response (sorted), or the normalised text of an open answer;
    () if none was read. `why` is one line for people.
    """

    value: float | None
    outcome: Outcome
    extracted: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The replies of a judge about one answer.

    `judge` names the judge's model, `template` its prompt with a digest. `task` is a score by a rubric, how close the
    answer is to each option, which options it chooses, or the kind of its error. `replies` are in order: an unreadable
    reply is followed by another. `seconds` and `usage` are as in `Answer`, summed over the replies; `asked` has the
    digest of the prompt of each reply.
    """

    judge: str
    template: str
    task: Literal["score", "closeness", "options", "kind"]
    replies: tuple[str, ...]
    seconds: float | None = None
    usage: Mapping[str, float] | None = None
    asked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """One line of results.jsonl.

    `prompt` is the digest of the prompt. `answer` is None if the item ended in error, `judgement` if a rule scored the
    answer. `sample` and `variant` are as in `QuestionKey`.
    """

    run: str
    item: Item
    prompt: str
    answer: Answer | None
    score: Score
    technique: Technique = "mc"
    judgement: Judgement | None = None
    sample: int = 0
    variant: str = ""

    @property
    def key(self) -> QuestionKey:
        """The key within a run."""
        return QuestionKey(self.item.benchmark, self.item.id, self.technique, self.variant, self.sample)


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a run. Values are fractions; None if undefined.

    `low` and `high` bound the 95 % interval, both None without one. `count` is the numerator and `n` the
    denominator of the ratio, in units (`unit`: items, pairs, or image slots of pairs). `slice` is {} for the
    whole benchmark, or like {"department": "ophthalmology"}. `references` holds levels that need no model:
    `random`, `majority`, `image_blind`. Two measures are comparable if their `signature` is equal. `technique` is the
    technique of the answers, or a maximum over several: `max(gd,mc,ps)`. `units` counts pairs and questions without a
    pair, `groups` the independent groups of them; both are None if not counted. `percent`: show it as a
    percentage; False: as the number that it is.
    """

    benchmark: str
    name: str
    value: float | None
    low: float | None
    high: float | None
    n: float
    count: float | None = None
    unit: str = "items"
    slice: Mapping[str, str] = field(default_factory=dict)
    references: Mapping[str, float] = field(default_factory=dict)
    signature: str = ""
    technique: str = ""
    units: int | None = None
    groups: int | None = None
    percent: bool = True

    @property
    def of(self) -> Mapping[str, str]:
        """Its identity in metrics.json: benchmark, technique, measure, and the dimension and value of a slice."""
        return measure_of(self.benchmark, self.technique, self.name, self.slice)

    @property
    def figure(self) -> Figure:
        """The number, to be printed and drawn."""
        return Figure(
            *(self.value, self.low, self.high, self.n, self.unit, self.count),
            units=self.units,
            groups=self.groups,
            percent=self.percent,
            levels=self.references,
            of=self.of,
        )


def measure_of(benchmark: str, technique: str, measure: str, slice: Mapping[str, str]) -> dict[str, str]:
    """Name a measure, as `Figure.of` does."""
    place = {"slice": "; ".join(f"{name}={value}" for name, value in slice.items())} if slice else {}
    return {"benchmark": benchmark, "technique": technique, "measure": measure, **place}


@dataclass(frozen=True, slots=True)
class FailedMetric:
    """A metric that could not be computed: `why` names the file, the line, the exception and what was expected."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A ratio: the sum of numerators over the sum of denominators of its units.

    `terms` takes the results of one unit (one result, or the two of a pair) and returns its (numerator,
    denominator); a denominator of 0 leaves the unit out. `binary` marks units whose numerator is 0 or 1,
    so that a binomial interval applies, as it does if all numerators are of type bool; None: a user's metric, of either
    kind. `mean_over` names a lexicon
    dimension: the metric is then the unweighted mean of the ratio over the values of that dimension (macro average).
    `weights` names values of that dimension with their weights: the metric is then the weighted mean over exactly these
    values, and undefined if one of them has no ratio. `signs` are further parts of the signature, such as
    ("tokens", "multiset"). `reads_text`: it reads the text of answers, which a baseline without responses lacks.
    Kinds outside `kinds` are left out (None: all kinds). `better` says whether a higher or a lower value is better.
    `percent`: it is a fraction and shown as a percentage; None: if it is binary. `bounds`: the least and the greatest
    value that a unit of a number may have, None if unknown. A gate decides on percentages and on numbers from 0 to 1.
    """

    name: str
    terms: Callable[[Sequence[Result]], tuple[float, float]]
    unit: Literal["item", "pair"] = "item"
    binary: bool | None = True
    mean_over: str | None = None
    kinds: frozenset[Kind] | None = None
    definition: str = ""
    better: Literal["higher", "lower"] = "higher"
    percent: bool | None = True
    weights: tuple[tuple[str, float], ...] = ()
    signs: tuple[tuple[str, str], ...] = ()
    reads_text: bool = False
    bounds: tuple[float, float] | None = None

    @property
    def needs_responses(self) -> bool:
        """Whether it has no value on a baseline without responses: it reads their text, or is a user's and may."""
        return self.reads_text or self.binary is None


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """The limit of a backend for answers in words, used if `Prompt.max_tokens` is None.

    `own` is the limit in new tokens, 0 for none. `configured`: it comes from the model's config and precedes a
    benchmark's limit. `required`: the backend cannot run without a limit.
    """

    own: int
    configured: bool = False
    required: bool = False


def applies(item: Item, technique: Technique) -> bool:
    """Return whether a technique is defined for a question; the default for any prompt.

    MC applies to all kinds. GD and PS take the likeliest option, so they need a kind with one correct option. FF asks
    an open question: of kinds without options, and of pairs, where a judge compares the answer with the options.
    """
    if technique in OPTION_TECHNIQUES:
        return item.kind == "single_choice"
    return technique != "ff" or item.kind not in CHOICE_KINDS or item.pair_id is not None


class PromptSource:
    """A prompt function that knows its techniques: `protocols.prompts.Templates`, or a `PromptFunction`."""

    __slots__ = ()

    @property
    def techniques(self) -> tuple[Technique, ...]:
        """The techniques that it is defined for."""
        raise NotImplementedError

    def applies(self, item: Item, technique: Technique) -> bool:
        """Return whether one of its techniques is defined for a question."""
        return applies(item, technique)

    def __call__(self, item: Item, technique: Technique) -> Prompt:
        """Return the prompt of a question."""
        raise NotImplementedError


@dataclass(frozen=True)
class PromptFunction(PromptSource):
    """A prompt function `ask` for several techniques; `defined` says which of them apply to a question."""

    ask: Callable[[Item, Technique], Prompt]
    techniques: tuple[Technique, ...] = ("mc",)
    defined: Callable[[Item, Technique], bool] = applies

    def applies(self, item: Item, technique: Technique) -> bool:
        """Return whether one of its techniques is defined for a question."""
        return self.defined(item, technique)

    def __call__(self, item: Item, technique: Technique) -> Prompt:
        """Return the prompt of a question."""
        return self.ask(item, technique)


@dataclass(frozen=True, slots=True)
class Extractor:
    """The owners' way of reading options from an answer with a language model, for `--extract-with=judge`.

    `prompt` names a file of `medvqa.judging`. `read` takes a reply and the options. It returns the chosen letters,
    () if the reply says that none is chosen, None if the reply is unreadable. It is used for questions of `kinds`.
    """

    prompt: str
    read: Callable[[str, Mapping[str, str]], tuple[str, ...] | None]
    kinds: frozenset[Kind] = frozenset({"single_choice"})


@dataclass(frozen=True, slots=True)
class Kit:
    """The facts beside results that metrics in `Owners.kits` depend on.

    `judged`: a judge scored the run. `training` reads the answers to open training questions, in the order of their
    files; () if they are not there.
    """

    judged: bool = False
    training: Callable[[], tuple[str, ...]] = tuple


def usual(*_: object) -> NoReturn:
    """Stand for a default of `Benchmark`; `medvqa.benchmarks.own.completed` replaces it (TypeError)."""
    raise TypeError("a benchmark's default: medvqa.benchmarks.own.completed(benchmark) fills it in")


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginFile:
    """A file of a released data set.

    `to` is its POSIX path under the data folder, `at` its path in the hub's repository, or a URL. `size` is in bytes,
    0 if unknown. `digest` is "md5:HEX" or "sha256:HEX", "" if none is published. `unpack` is the folder under the data
    folder for the content of an archive, "" for any other file. `at` may also be pmc:ARTICLE/FILE, a file of an article
    in the open-data store of PubMed Central. The last parts of `to` and of a hub path may be a pattern such as
    *.parquet, for all files of the repository that match. `also` are further places, in order: as `at`, or from:PATH,
    which lies in a folder that the user names (`medvqa fetch --from=DIR`).
    """

    to: str
    at: str
    size: int = 0
    digest: str = ""
    unpack: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a data set comes from and what lies where, for runs, `medvqa fetch` and `medvqa data`.

    `home` is the owners' page. `hub` is a data set of the Hugging Face hub, "owner/name", at `revision` ("" = newest).
    `terms` says what to accept, and where, before a download; `apply` how to get data that cannot be fetched. `note` is
    a sentence about the files. `synthetic`: a program drew the images, so they show no patients. `release` is the
    number of questions in the owners' release, None if unknown; reports note when the data have fewer.
    `reads` are the files with the questions, as paths under the data folder that may be patterns such as
    stars/*.parquet; the first of them that is there counts. By default these are `files`, without archives. `find`
    takes the data folder and returns the files, () if there are none; `reads` then only describes them. A benchmark
    with none of the three needs no files. `elsewhere` returns a folder of another tool that may hold the files, used if
    the benchmark is named and no data folder is. `group` is the name of all benchmarks of the data set. `on_request`:
    one is evaluated only if its own name is given, as for training splits, which serve as pools of solved examples.
    """

    licence: str = ""
    home: str = ""
    hub: str = ""
    revision: str = ""
    files: tuple[OriginFile, ...] = ()
    terms: str = ""
    apply: str = ""
    note: str = ""
    synthetic: bool = False
    release: int | None = None
    reads: tuple[str, ...] = ()
    find: Callable[[Path], Sequence[Path]] | None = None
    elsewhere: Callable[[], Path | None] | None = None
    group: str = ""
    on_request: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialRule:
    """The owners' published scoring rule, for `--extraction=official` and questions of `kinds`.

    `note` is a sentence about it. If the rule has changed, `version` names this one, and `earlier` maps earlier
    versions to their rules, oldest first. Versions are dates such as 2025-08, so that they sort by age.
    """

    score: Callable[[Item, Answer], Score]
    note: str = ""
    kinds: frozenset[Kind] = frozenset(KINDS)
    version: str = ""
    earlier: Mapping[str, Callable[[Item, Answer], Score]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """What the owners of a data set publish beside the questions; each data set gives what it has.

    `rule` is their scoring rule, and `extractor` their way of asking a model which option an answer chooses. `recover`
    fills in a withheld answer key from other columns, for `--answers-from-category`. `submission` writes their
    submission sheet into the run folder and returns its path. `paper_prompts` are the names in `Benchmark.prompts` that
    `--prompt=all` stands for, () for all of them. `taxonomy` names the tree of `medvqa.judging.taxonomy` by which the
    paper's authors sort wrong answers, for `medvqa classify`. `published` returns the rows of the paper's main table.
    `kits` are metrics that reproduce the counts of other evaluation kits, by the kit's name, for `--metric-like`;
    `training` is the name of the benchmark with the training questions.
    """

    rule: OfficialRule | None = None
    extractor: Extractor | None = None
    recover: Callable[[Item], Item] | None = None
    submission: Callable[[Sequence[Result], Path], Path] | None = None
    paper_prompts: tuple[str, ...] = ()
    taxonomy: str = ""
    published: Callable[[], PaperTable] | None = None
    kits: Mapping[str, Callable[[Kit], tuple[Metric, ...]]] = field(default_factory=dict)
    training: str = ""


@dataclass(frozen=True, slots=True)
class BenchmarkFile:
    """The file that declares a benchmark (`--benchmark=FILE.toml`).

    `path` is absolute. `about` takes the questions and the project's folder and returns what run.json keeps, so that
    reports need no file (`benchmarks.recorded.RecordedFile`).
    """

    path: str
    about: Callable[[Sequence[Item], Path], Any]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A data set with its prompt, its scoring and its metrics; a name and `items` are enough.

    `items` takes the data folder and yields Items; it raises DataError for bad data. A relative path of an image starts
    at the data folder: the one of `--data`, else the project's root. `prompt` is a function for MC, a `PromptSource`
    for several techniques, or a text with the fields {question} and {options}, for MC and GD. If `prompt`, `score` or
    `metrics` is left out, `medvqa.benchmarks.own` has the default for every kind of question; with its `score`,
    `judged` defaults to the kinds that it leaves to a judge. `judged` are the open kinds that a judge scores against
    `Item.answers`. If no judge is set, `score` scores them; its outcome is `unscored` if only a judge can tell.
    `dimensions` are the tags that reports show, in this order; a sample (--limit) is stratified by the first.
    "ability+question_type" crosses two. `prompts` are further prompts by name, for `--prompt`; each is a function as
    `prompt`, and raises UsageError for a technique that it does not define, or a text for MC and GD. `public` declares
    the data free for everybody. Otherwise, sending them to another machine needs `--allow-upload` or an allowed host,
    and pages show images only on request. A baseline without responses then holds keyed hashes in place of ids and
    texts. `origin` says where the data come from, and which files they are; None: `items` needs no files of a data
    folder. `owners` holds what the data set's owners publish beside it. `declared` is the file that declares the
    benchmark, None for one that is made in Python.
    """

    name: str
    items: Callable[[Path], Iterable[Item]]
    prompt: Callable[[Item, Technique], Prompt] | str = usual
    score: Callable[[Item, Answer], Score] = usual
    metrics: tuple[Metric, ...] = ()
    title: str = ""
    headline: tuple[str, ...] = ("accuracy",)
    dimensions: tuple[str, ...] = ()
    prompts: Mapping[str, Callable[[Item, Technique], Prompt] | str] = field(default_factory=dict)
    judged: frozenset[Kind] = frozenset()
    public: bool = False
    origin: Origin | None = None
    owners: Owners = Owners()
    declared: BenchmarkFile | None = None

    @cached_property
    def techniques(self) -> tuple[Technique, ...]:
        """The techniques of its prompt: MC for a plain function, all for a text."""
        if isinstance(self.prompt, PromptSource):
            return self.prompt.techniques
        return TECHNIQUES if self.prompt is usual or isinstance(self.prompt, str) else ("mc",)

    @cached_property
    def applies(self) -> Callable[[Item, Technique], bool]:
        """The function that says whether one of its techniques is defined for a question."""
        return self.prompt.applies if isinstance(self.prompt, PromptSource) else applies

    @property
    def group(self) -> str:
        """The name of all benchmarks of its data set, "" if it is the only one."""
        return self.origin.group if self.origin is not None else ""


@runtime_checkable
class Model(Protocol):
    """The value of the fixture `model`, which a test suite may override. `medvqa.Backend` declares more."""

    @property
    def name(self) -> str:
        """The name in tables and records."""
        ...

    @property
    def capabilities(self) -> Collection[str]:
        """The supported ways of asking, as in `medvqa.Backend.capabilities`."""
        ...

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Answer | AnswerError]:
        """Answer each prompt, as `medvqa.Backend.generate`."""
        ...
