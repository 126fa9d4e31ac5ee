"""The types that travel between rooms, and the protocols that a stranger's code fulfils.

Standard library only: this module is imported before it is known whether there is anything to do.

The one path of the data: file -> `Benchmark.items` -> `Item` -> `Prompt` -> `Backend` -> `Answer` ->
`Benchmark.score` -> `Score` -> `Result` (one JSON line) -> `Metric` -> `Measure` -> report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, get_args, runtime_checkable

from medvqa.image import AnswerError as AnswerError
from medvqa.image import DataError as DataError
from medvqa.image import DataWarning as DataWarning
from medvqa.image import Image as Image
from medvqa.image import MedVQAError as MedVQAError
from medvqa.image import UsageError as UsageError

Kind = Literal["single_choice", "multiple_response", "judgment", "fill_in_the_blank", "short_answer"]
Outcome = Literal["correct", "partial", "wrong", "refused", "abstained", "unparsed", "unscored", "error"]
Technique = Literal["mc", "gd", "ps", "ff"]
Extraction = str
"""How answers are read: "sound", "official", or a version of the latter, such as "official:2026-06"."""
Ablation = Literal["text-only", "blank", "shuffle"]

KINDS: tuple[Kind, ...] = get_args(Kind)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
TECHNIQUES: tuple[Technique, ...] = get_args(Technique)
OPTION_TECHNIQUES: frozenset[Technique] = frozenset({"gd", "ps"})
"""Techniques by which a model says how likely each option is, and no text."""
ABLATIONS: tuple[Ablation, ...] = get_args(Ablation)
CHOICE_KINDS: frozenset[Kind] = frozenset({"single_choice", "multiple_response"})
"""Kinds that are answered by option letters; the others are open."""
OPEN_KINDS: frozenset[Kind] = frozenset(KINDS) - CHOICE_KINDS
"""Kinds that are answered by a text."""
INVALID_OUTCOMES: frozenset[Outcome] = frozenset({"refused", "abstained", "unparsed"})
"""Answers that name no option: value 0, counted as wrong, shown apart."""
SCORED_OUTCOMES: frozenset[Outcome] = frozenset({"correct", "partial", "wrong", "refused", "abstained", "unparsed"})
"""Outcomes with a value; `unscored` and `error` have none and stay out of every denominator."""
UNDECLARED: Any = ""
"""The kind of an item that names none, until its benchmark is read."""


@dataclass(frozen=True, slots=True)
class Item:
    """One question of a benchmark about zero or more images.

    `id` is the data set's own and unique within `benchmark`, whose name is filled in if it is left out. `options` maps
    letters to texts in the order of the data set, empty for open kinds. `answers` holds the correct letters, or the
    accepted reference texts of an open question; () means that the key is withheld. If `kind` is left out, it follows
    from them when a benchmark is read: multiple_response with options and several answers, single_choice with options,
    else short_answer. `tags` maps a lexicon dimension to the item's values there (slugs such as `fundus_photography`).
    `pair_id` joins the two items of a confusing pair; `cluster_id` names the connected component of items that share
    images, patients or source cases (None: the data do not tell). `extra` keeps what the data set says beyond that,
    JSON values only.
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


class QuestionKey(NamedTuple):
    """The key of a question in a run; results are sorted by it.

    `item` is the item's id. `variant` names another wording or order of the same question, "" for the question as its
    benchmark asks it. `sample` counts from 1 where a question is asked several times (`--repeat`); 0: it is asked once.
    """

    benchmark: str
    item: str
    technique: str
    variant: str = ""
    sample: int = 0

    @property
    def question(self) -> QuestionKey:
        """The key without the sample: samples of one question share it."""
        return QuestionKey(self.benchmark, self.item, self.technique, self.variant)

    @property
    def stored(self) -> tuple[str | int, ...]:
        """The values that enter digests: an empty variant is left out, so that digests of old runs stay."""
        return tuple(self) if self.variant else (self.benchmark, self.item, self.technique, self.sample)

    @property
    def names(self) -> tuple[str, ...]:
        """The values as texts, less an empty variant and sample 0."""
        variant = [self.variant] if self.variant else []
        sample = [f"sample{self.sample}"] if self.sample else []
        return self.benchmark, self.item, self.technique, *variant, *sample

    def name(self, *, technique: bool) -> str:
        """What lists of expected and missing questions call it; `technique`: the run asks by several."""
        benchmark, item, asked, *others = self.names
        return "-".join([f"{benchmark}/{item}", *([asked] if technique else []), *others])


@dataclass(frozen=True, slots=True)
class Query:
    """One test case: an item, and the technique by which a model is asked about it.

    `sample` and `variant` are as in `QuestionKey`.
    """

    item: Item
    technique: Technique = "mc"
    sample: int = 0
    variant: str = ""

    @property
    def key(self) -> QuestionKey:
        """What identifies it within a run."""
        return QuestionKey(self.item.benchmark, self.item.id, self.technique, self.variant, self.sample)


@dataclass(frozen=True, slots=True)
class Shot:
    """One solved example that precedes the question."""

    text: str
    answer: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked. It never holds the answer key.

    `text` is sent after the images. `benchmark`, `item`, `kind` and `options` say what is asked, for
    techniques that score options and for baselines that answer without reading: with GD the keys of `options`
    are the letters that may come next, with PS its values are the texts that may continue `text` after a space.
    `template` names the template and its digest, for instance `mediconfusion/mc@1f2e3d4c`. `sample` tells equal
    prompts apart that are asked to be answered anew, from 1; a model that draws its answers draws with it as its seed,
    or part of it. 0: asked once. `max_tokens` is the most new tokens of an answer in words, 0 for no limit; None: the
    model's own limit.
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
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said to one prompt.

    `option_logprobs` are natural logarithms by key of `Prompt.options`, for techniques that score options: GD those
    of the letters as next token, PS the mean over the tokens of the option's text. One that is not told was too
    unlikely to be. `text` is then "", or what a server said.
    `seconds` is the wall time of this answer, for a batch its share. `finish` is "stop", "length" (cut off at a limit
    of tokens), "refusal" or what the server said, "" where nobody says how it ended. `usage` counts tokens (`input`,
    `output`) and, where prices are known, what they cost (`cost`). `served_by` is what a server says that answered (its
    model's id, system fingerprint), "" if nobody says.
    """

    text: str
    option_logprobs: Mapping[str, float] | None = None
    seconds: float | None = None
    finish: str = "stop"
    usage: Mapping[str, float] | None = None
    served_by: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """How one answer fared: `value` in [0, 1], None for `unscored` and `error`.

    `extracted` holds the letters that were read from the response (sorted), or the normalised text of an
    open answer; () when nothing was read. `why` is one line for people.
    """

    value: float | None
    outcome: Outcome
    extracted: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge said of one answer.

    `judge` is its model's name, `template` that of its prompt with its digest. `task` is what it was asked for: a
    score by a rubric, how close the answer is to each option, or which options it chooses. `replies` are in the order
    in which they came: one that cannot be read is followed by another. `seconds` and `usage` are as in `Answer`, of
    all replies together; `asked` has the digest of the prompt of each reply.
    """

    judge: str
    template: str
    task: Literal["score", "closeness", "options"]
    replies: tuple[str, ...]
    seconds: float | None = None
    usage: Mapping[str, float] | None = None
    asked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """One line of results.jsonl. `prompt` is the digest of what was asked; `answer` is None where there is none.

    `judgement` is None where the score was found by rule. `sample` and `variant` are as in `QuestionKey`.
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
        """What identifies it within a run."""
        return QuestionKey(self.item.benchmark, self.item.id, self.technique, self.variant, self.sample)


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a run. Values are fractions; None where undefined.

    `low` and `high` bound the 95 % interval, both None where there is none. `count` is the numerator and
    `n` the denominator of the ratio, in units (`unit`: items, pairs, or image slots of pairs). `slice` is {}
    for the whole benchmark, or like {"department": "ophthalmology"}. `references` holds the levels that
    need no model: `random`, `majority`, `image_blind`. Two measures may be compared when `signature` agrees.
    `technique` is that of the answers, or names those that a maximum is over: `max(gd,mc,ps)`. `units` counts the
    pairs, or the questions without a pair, that the measure is over, and `groups` those of them that are independent;
    both are None where they were not counted.
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


@dataclass(frozen=True, slots=True)
class Metric:
    """A ratio: the sum of numerators over the sum of denominators of its units.

    `terms` takes the results of one unit (one result, or the two of a pair) and returns its (numerator,
    denominator); a denominator of 0 leaves the unit out. `binary` marks units whose numerator is 0 or 1,
    so that a binomial interval applies. `mean_over` names a lexicon dimension: the metric is then the
    unweighted mean of the ratio over the values of that dimension (macro average). Kinds outside `kinds`
    are left out (None: all kinds). `better` says whether a model is better with more of it or with less.
    """

    name: str
    terms: Callable[[Sequence[Result]], tuple[float, float]]
    unit: Literal["item", "pair"] = "item"
    binary: bool = True
    mean_over: str | None = None
    kinds: frozenset[Kind] | None = None
    definition: str = ""
    better: Literal["higher", "lower"] = "higher"


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """How a backend limits answers in words that it is asked for by a prompt without `Prompt.max_tokens`.

    `own` is that limit in new tokens, 0 for none. `configured` says that the model's config names it, so that it goes
    before a benchmark's. `required` says that the backend cannot do without a limit.
    """

    own: int
    configured: bool = False
    required: bool = False


def applies(item: Item, technique: Technique) -> bool:
    """Whether a technique is defined for a question, where its benchmark says nothing else.

    MC is for all. GD and PS find the likeliest option, so that exactly one must be right by the question's kind. FF
    asks openly: questions without options, and those of pairs, whose options a judge compares the answer with.
    """
    if technique in OPTION_TECHNIQUES:
        return item.kind == "single_choice"
    return technique != "ff" or item.kind not in CHOICE_KINDS or item.pair_id is not None


@dataclass(frozen=True, slots=True)
class Extractor:
    """How a benchmark's owners let a language model read the options in an answer, for `--extract-with=judge`.

    `prompt` names a file of `medvqa.judging`. `read` takes a reply and the options, and returns the letters that the
    reply chooses, () where it says that none is chosen, None where the reply cannot be read. `kinds` are those of the
    questions that are read so.
    """

    prompt: str
    read: Callable[[str, Mapping[str, str]], tuple[str, ...] | None]
    kinds: frozenset[Kind] = frozenset({"single_choice"})


def usual(*_: object) -> NoReturn:
    """Stand for a default of `Benchmark`; `medvqa.benchmarks.completed` replaces it (TypeError)."""
    raise TypeError("a benchmark's default: medvqa.benchmarks.completed(benchmark) fills it in")


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A data set with its prompt, its scoring and its metrics; a name and `items` are enough.

    `items` takes the data folder and yields Items; it raises DataError for data that cannot be read. A path of an image
    that is not absolute starts at the data folder: the one that `--data` names, else the project's root. `files`
    returns the files that it would read, () when the data set is not there; None means that it needs none.
    `sought` says in words which files these are, relative to the data folder, for an error; where it does, folders next
    to the data folder are searched by `files` too. `elsewhere` gives a folder of another tool that may hold the files;
    it is used if the benchmark was named and no data folder was. `release` counts the questions of the data set as its
    owners gave it out: reports say so where there are fewer. None: it is not known, or there is no one number.
    `prompt` is a function, or a text with the fields {question} and {options} for MC and GD. It is only called with one
    of `techniques`, and with items that the technique `applies` to. Without a function every technique is defined.
    Where `prompt`, `score` or `metrics` is left out, the project's own is used for each kind of question
    (`medvqa.benchmarks.own`), and `judged` are then the kinds that no rule scores.
    `official` is the published rule of the benchmark's owners, for `--extraction=official`; it reads answers to
    questions of `official_kinds`, and `score` the others. If the rule has changed, `official_version` names the
    version that `official` is, and `official_earlier` holds the earlier ones by name, the oldest first; names are
    dates such as 2025-08, so that they sort by age. `extractor` is the owners' way of asking a model which option an
    answer chooses. `recover` fills in a withheld answer key from other columns, for `--answers-from-category`.
    `submission` writes
    the sheet that the owners ask for into the run folder and returns its path. `public` declares that anybody may have
    the data. Without it, sending them to another machine takes `--allow-upload` or an allowed host, pages show no
    images unless they are asked for, and a baseline without responses holds keyed hashes in place of ids and texts.
    `judged` are the open kinds whose answers a judge scores against `Item.answers`, where there is a judge; without
    one the score of `score` stands, which is `unscored` where only a judge can tell.
    """

    name: str
    items: Callable[[Path], Iterable[Item]]
    prompt: Callable[[Item, Technique], Prompt] | str = usual
    score: Callable[[Item, Answer], Score] = usual
    metrics: tuple[Metric, ...] = ()
    group: str = ""
    title: str = ""
    files: Callable[[Path], Sequence[Path]] | None = None
    sought: str = ""
    elsewhere: Callable[[], Path | None] | None = None
    release: int | None = None
    obtain: str = ""
    official: Callable[[Item, Answer], Score] | None = None
    official_note: str = ""
    official_kinds: frozenset[Kind] = frozenset(KINDS)
    official_version: str = ""
    official_earlier: Mapping[str, Callable[[Item, Answer], Score]] = field(default_factory=dict)
    extractor: Extractor | None = None
    techniques: tuple[Technique, ...] = ("mc",)
    applies: Callable[[Item, Technique], bool] = applies
    headline: tuple[str, ...] = ("accuracy",)
    dimensions: tuple[str, ...] = ()
    recover: Callable[[Item], Item] | None = None
    submission: Callable[[Sequence[Result], Path], Path] | None = None
    public: bool = False
    judged: frozenset[Kind] = frozenset()


@runtime_checkable
class Model(Protocol):
    """What the fixture `model` gives to tests; a test suite may have one of its own. `medvqa.Backend` declares more."""

    @property
    def name(self) -> str:
        """What tables and records call it."""
        ...

    @property
    def capabilities(self) -> Collection[str]:
        """What it can do, as `medvqa.Backend.capabilities`."""
        ...

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Answer | AnswerError]:
        """Answer each prompt, as `medvqa.Backend.generate`."""
        ...
