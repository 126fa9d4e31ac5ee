"""Plan: the model, the questions and the rules of a run, alike in every process."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, wraps
from math import inf
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from medvqa import benchmarks, configs, engine, printing, scoring
from medvqa.backend import Backend, Readers, said
from medvqa.benchmarks import own, table_files
from medvqa.benchmarks.folders import natural
from medvqa.items import (
    OPTION_TECHNIQUES,
    Ablation,
    Answer,
    AnswerError,
    Benchmark,
    DataError,
    Extraction,
    Image,
    Item,
    Prompt,
    Query,
    QuestionKey,
    Result,
    Shot,
    Technique,
    TokenLimits,
    UsageError,
    Variant,
    replace,
)
from medvqa.protocols import ablation, naming, perturbation, question_forms, rotation, shots
from medvqa.protocols.protocol import Asks, Protocol, as_shown, assembled, check_able
from medvqa.protocols.question_forms import Premises, QuestionForm
from medvqa.protocols.reasoning import Instruction
from medvqa.records.run_record import RunRecord
from medvqa.session import judging, pools
from medvqa.session.chosen import Chosen
from medvqa.session.judging import Judging
from medvqa.session.options import DEFAULT_MODEL, Options
from medvqa.session.project import Project
from medvqa.session.registry import Registry
from medvqa.tags import own_tags
from medvqa.tags.own_tags import OwnTags
from medvqa.tags.selection import Shard

P = ParamSpec("P")
V = TypeVar("V")


def beside_phantom(chosen: Iterable[Benchmark]) -> list[str]:
    """Return the names of the benchmarks whose questions the default model is not asked."""
    return [benchmark.name for benchmark in chosen if benchmark.group != benchmarks.DEFAULT_GROUP]


def once(method: Callable[Concatenate[Plan, P], V]) -> Callable[Concatenate[Plan, P], V]:
    """Compute a value of a plan once for the same arguments, such as a benchmark's name."""

    @wraps(method)
    def known(plan: Plan, /, *arguments: P.args, **named: P.kwargs) -> V:
        key = method.__name__, *arguments, *named.items()
        if key not in plan._known:
            plan._known[key] = method(plan, *arguments, **named)
        value: V = plan._known[key]
        return value

    return known


@dataclass(frozen=True)
class Plan:
    """The model, questions and rules of a run; made by `resolving.resolve`.

    Items are read from files when they are first needed. `uncaptured` is entered while files are read, so that progress
    reaches the terminal.
    """

    project: Project
    model: Chosen
    judge: Judging | None
    benchmarks: Mapping[str, Benchmark]
    techniques: tuple[Technique, ...]
    protocol: Protocol
    ablation: Ablation | None
    extraction: Extraction
    shard: Shard | None
    uncaptured: Callable[[], AbstractContextManager[None]] = nullcontext
    _known: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False)
    """Values that were computed once: method and arguments -> value."""

    @cached_property
    def options(self) -> Options:
        """The options."""
        return self.project.options

    @cached_property
    def registry(self) -> Registry:
        """The known names, with the benchmarks of files that options name."""
        return self.project.registry

    # Names and items

    @property
    def recovers(self) -> frozenset[str]:
        """Names of the benchmarks whose answer key is recovered from another column (--answers-from-category)."""
        recovers = self.options.answers_from_category
        return frozenset(name for name, b in self.benchmarks.items() if recovers and b.owners.recover is not None)

    @property
    def lacks_model(self) -> bool:
        """Whether no model was named for data other than the phantom's, so that no question may be asked."""
        return not self.options.model_typed and bool(beside_phantom(self.benchmarks.values()))

    def check_model_named(self) -> None:
        """UsageError if no model was named for data other than the phantom, whose model is the default."""
        if self.lacks_model:
            asked = printing.some(beside_phantom(self.benchmarks.values()), 3)
            raise UsageError(
                f"no model was named, and {DEFAULT_MODEL} is the default for the phantom alone; this run asks "
                f"{asked}. Type --model=NAME (`medvqa models` lists them) or --model=BACKEND:ARGUMENT, such as "
                f"--model=hf:CHECKPOINT; --model={DEFAULT_MODEL} asks the toy that ships"
            )

    @property
    def selects(self) -> bool:
        """Whether options select a part of the questions. --shard does not count: all shares together are the whole."""
        typed = [option for option in self.project.selects if not option.startswith("--shard")]
        return any(option.startswith("-") or "::" in option for option in typed)

    def folder(self, name: str) -> Path:
        """Return the data folder of a chosen benchmark; the root if there is none."""
        folder = benchmarks.folder_of(self.benchmarks[name], self.options.data)
        return folder or self.options.data or self.project.root

    @once
    def items(self, name: str) -> tuple[Item, ...]:
        """All items of a chosen benchmark, sorted by id."""
        benchmark = self.benchmarks[name]
        with self.uncaptured():
            loaded = benchmarks.load(benchmark, self.folder(name))
        if name in self.recovers and benchmark.owners.recover is not None:
            loaded = tuple(map(benchmark.owners.recover, loaded))
        return self.tags.added(loaded)

    @cached_property
    def tags(self) -> OwnTags:
        """The user's own tags (--tags), read once (DataError, UsageError)."""
        return own_tags.read(self.options.tags)

    @once
    def missing_images(self, name: str) -> tuple[int, Sequence[str]]:
        """Return the number of a benchmark's images, and the names of those without a file."""
        shown = {(image.name, image.path): image for item in self.items(name) for image in item.images}
        by_path = {image.path: image for image in shown.values()}
        existing = {path for path, image in by_path.items() if image.is_there}
        return len(shown), sorted(image for image, path in shown if path not in existing)

    def missing_path(self, name: str) -> str:
        """The path of the first image of `missing_images`."""
        first = self.missing_images(name)[1][0]
        return next(image.path for item in self.items(name) for image in item.images if image.name == first)

    @once
    def _places(self, name: str) -> Mapping[str, str]:
        source = table_files.source_of(self.benchmarks[name])
        known = source.rows() if source is not None else {}
        numbered = {one.id: f"question {number}" for number, one in enumerate(self.items(name), 1)}
        return {**numbered, **{id: row for id, row in known.items() if id in numbered}}

    def place(self, item: Item) -> str:
        """Return the row of an item in its table, such as "row 17", else its number among the benchmark's, by id."""
        # A test may have made its item itself.
        return self._places(item.benchmark).get(item.id, "question")

    def missing_places(self, name: str) -> list[str]:
        """Return the places of the items whose images `missing_images` names, in the order of the items."""
        absent = frozenset(self.missing_images(name)[1])
        items = (item for item in self.items(name) if any(image.name in absent for image in item.images))
        return sorted(map(self.place, items), key=natural)

    def items_of(self, name: str) -> list[Item]:
        """Return the items of the chosen benchmarks with that name or group."""
        wanted = benchmarks.members(name, self.registry.benchmarks)
        return [item for b in wanted if b.name in self.benchmarks for item in self.items(b.name)]

    def untested(self, marked: Iterable[str]) -> list[str]:
        """Return the chosen benchmarks that no test asks about; `marked`: the names of the tests' marks."""
        registered = self.registry.benchmarks.items()
        tested = {name for name, b in registered if name in marked or (b.group and b.group in marked)}
        return [name for name in self.benchmarks if name not in tested]

    def applies(self, query: Query) -> bool:
        """Whether the technique is defined for the item."""
        benchmark = self.benchmarks[query.item.benchmark]
        return query.technique in benchmark.techniques and benchmark.applies(query.item, query.technique)

    @property
    def samples(self) -> tuple[int, ...]:
        """The numbers of the samples of each question, from 1; () if each is asked once."""
        return () if self.protocol.samples is None else tuple(range(1, self.protocol.samples + 1))

    @once
    def prompts(self, name: str) -> tuple[str, ...]:
        """The names of the prompts that a benchmark is asked by; ("",) for its own prompt alone."""
        benchmark = self.benchmarks[name]
        typed = self.protocol.prompts or configs.prompt_of(self.model.config, benchmark)
        return naming.asked(typed, benchmark)

    @once
    def variants(self, name: str) -> tuple[Variant, ...]:
        """The variants in which the questions of a benchmark are asked.

        A question is asked in those of its own (`variants_of`).
        """
        if self.protocol.rotations == 0:
            return self._variants(name, (None,))
        asked = {self._shifts(item, technique): None for item in self.items(name) for technique in self.techniques}
        shifts = sorted({shift for own in asked for shift in own}, key=lambda shift: -1 if shift is None else shift)
        return self._variants(name, tuple(shifts))

    def variants_of(self, item: Item, technique: Technique) -> tuple[Variant, ...]:
        """The variants in which one question is asked."""
        if self.protocol.rotations == 0:
            return self.variants(item.benchmark)
        return self._variants(item.benchmark, self._shifts(item, technique))

    def rotates(self, name: str) -> bool:
        """Whether any question of a benchmark is asked in several rotations."""
        return any(self._shifts(item, t) != (None,) for item in self.items(name) for t in self.techniques)

    def _shifts(self, item: Item, technique: Technique) -> tuple[int | None, ...]:
        return rotation.shifts(item, technique, self.protocol.rotations)

    @once
    def _variants(self, benchmark: str, shifts: tuple[int | None, ...]) -> tuple[Variant, ...]:
        """The variants of a benchmark's prompts in these rotations."""
        prompts = self.prompts(benchmark)
        names = prompts if len(prompts) > 1 else ("",)
        return tuple(Variant(prompt, shift) for prompt in names for shift in shifts)

    def stages(self, names: Iterable[str] | None = None) -> list[tuple[Technique, Variant, int]]:
        """The techniques, variants and samples of the questions of these benchmarks (default: all), in their order.

        A question is asked in those of them that it `has`.
        """
        chosen = self.benchmarks if names is None else names
        variants = dict.fromkeys(variant for name in chosen for variant in self.variants(name))
        return list(itertools.product(self.techniques, variants, self.samples or (0,)))

    @cached_property
    def readers(self) -> Readers | None:
        """The people whose readings the model is, None for another model."""
        return self.model.backend.readers()

    def has(self, query: Query) -> bool:
        """Whether the question is asked in the query's variant, and --perturb is for it.

        Of people, whether the sample's reader has read it.
        """
        if not self.can_change(query.item, query.technique):
            return False
        if self.readers is None:
            return query.variant in self.variants_of(query.item, query.technique)
        read = self.readers.read[query.sample - 1]
        return (query.item.benchmark, query.item.id) in read or ("", query.item.id) in read

    @cached_property
    def chosen_by_options(self) -> tuple[str, ...]:
        """The options that leave questions out: a model of readers who have not read them, or --perturb."""
        items = [item for name in self.benchmarks for item in self.items(name)]
        if self.readers is not None and not all(self._answers_of(item, self.techniques[0]) for item in items):
            return (f"--model={self.options.model}",)
        pairs = itertools.product(self.benchmarks, self.techniques)
        if self.protocol.perturb and any(self._unchanged(name, technique) for name, technique in pairs):
            return (f"--perturb={self.protocol.perturb}",)
        return ()

    @cached_property
    def form(self) -> QuestionForm | None:
        """The form of questions that --perturb names, None without one."""
        typed = self.options.perturb or ""
        return question_forms.parse(typed, self.project.cwd) if question_forms.is_form(typed) else None

    @once
    def _premises(self, name: str) -> Premises:
        return question_forms.premises_of(self.items(name))

    def can_change(self, item: Item, technique: Technique) -> bool:
        """Whether --perturb is for a question as a technique asks it; True without the option (DataError)."""
        return not self.protocol.perturb or item.id not in self._unchanged(item.benchmark, technique)

    @once
    def _unchanged(self, name: str, technique: Technique) -> frozenset[str]:
        """The ids of a benchmark's questions that --perturb is not for (DataError)."""
        return frozenset(item.id for item in self.items(name) if not self._changes(item, technique))

    def _changes(self, item: Item, technique: Technique) -> bool:
        if self.form is not None:
            return self.form.changes(item, technique, self._premises(item.benchmark))
        try:
            return perturbation.can_change(item, self.protocol.perturb)
        except ValueError as error:
            raise DataError(f"{item.benchmark}, {self.place(item)}: {error}") from None

    def has_every_answer(self, keys: Iterable[QuestionKey]) -> bool:
        """Whether these keys hold each of their questions in all its variants and samples.

        Questions made by tests, and those of other benchmarks, do not count.
        """
        if len(self.stages()) == len(self.techniques):
            return True
        answers = Counter(key.question for key in keys)
        return all(
            answers.get(Query(item, technique).key, full) == full
            for name in self.benchmarks
            for item in self.items(name)
            for technique in self.techniques
            for full in [self._answers_of(item, technique)]
        )

    def _answers_of(self, item: Item, technique: Technique) -> int:
        """The number of answers to a question."""
        if self.readers is not None:
            return sum(self.has(Query(item, technique, sample)) for sample in self.samples)
        return len(self.variants_of(item, technique)) * max(len(self.samples), 1)

    def name_of(self, key: QuestionKey) -> str:
        """The name of a question in the list of missing ones."""
        return key.name(technique=len(self.techniques) > 1)

    # Prompts

    def prompt(self, query: Query) -> Prompt:
        """The prompt of a question: in its form, its options rotated, its images ablated, its answer limited."""
        name = query.item.benchmark
        named = query.variant.prompt or self.prompts(name)[0]
        images = self.shuffled(name).get(query.item.id, ()) if self.ablation == "shuffle" else None
        shown = self.shots(query.item, query.technique, named) if self.protocol.shots else ()
        asks = self.asks(name, named)
        if self.form is not None:
            query = replace(query, item=self.form.formed(query.item, self._premises(name)))
        return self.limited(assembled(query, asks, self.protocol, self.ablation, images=images, shots=shown), name)

    @once
    def asks(self, name: str, prompt: str) -> Asks:
        """Return the function that makes the prompts of a benchmark; `prompt` names them, "" for its own.

        A pool of solved examples with prompts of its own replaces the benchmark's.
        """
        if self.pool is not None and self.pool.forms:
            return self.pool.prompt
        benchmark = self.benchmarks[name]
        named = benchmark.prompts.get(prompt)
        return own.prompts_of(benchmark) if named is None or isinstance(named, str) else named

    def instructed(self, prompt: Prompt) -> Prompt:
        """The prompt with the instructions of the protocol, such as to reason or to state a confidence."""
        for instruction in self._instructions:
            prompt = instruction.added(prompt)
        return prompt

    @cached_property
    def _instructions(self) -> tuple[Instruction, ...]:
        return tuple(self.protocol.instructions.values())

    # Solved examples

    @cached_property
    def pool(self) -> shots.Pool | None:
        """The pool that --shot-pool names; None without one: solved examples are then of the benchmark itself."""
        if self.options.shot_pool is None:
            return None
        source = pools.find(self.options.shot_pool, self.registry.benchmarks, self.project.cwd)
        with self.uncaptured():
            return pools.load(source, self.options.data, self.project.root)

    @once
    def chooser(self, name: str) -> shots.Chooser:
        """Return the chooser of solved examples for a benchmark."""
        benchmark, items, pool = self.benchmarks[name], self.items(name), self.pool
        if pool is None or pool.name == name:
            pool = shots.Pool(name, items, public=benchmark.public)
        return shots.Chooser(pool, items, next(iter(benchmark.dimensions), None))

    def shots(self, item: Item, technique: Technique, prompt: str) -> tuple[Shot, ...]:
        """Return the solved examples of a question; `prompt` names the benchmark's prompt (DataError)."""
        chooser, count = self.chooser(item.benchmark), self.protocol.shots
        examples = chooser.exchanged(item, count) if self.ablation == "shuffle" else chooser.choose(item, count)
        if len(examples) < count:
            raise DataError(f"the pool {chooser.pool.name} has {len(examples)} of {count} solved examples for it")
        if form := chooser.pool.forms.get(technique):
            shown = shots.formed(((chooser.places[shots.node(one)], one) for one in examples), technique, form)
        else:
            shown = shots.solved(examples, technique, self.asks(item.benchmark, prompt))
        return shown if chooser.pool.public else shots.anonymous(shown)

    @cached_property
    def _pool_digest(self) -> str:
        return "" if self.pool is None else pools.digest(self.pool)

    def signed_pool(self, name: str) -> dict[str, str]:
        """Return the part of a benchmark's signature about its pool: its name and digest, and the way to choose."""
        if not self.protocol.shots:
            return {}
        pool = self.chooser(name).pool
        named = shots.OWN_POOL if pool.name == name else f"{pool.name}@{self._pool_digest[:12]}"
        dimensions = self.benchmarks[name].dimensions
        how = " in order" if pool.fixed else f" by {dimensions[0]}" if dimensions else ""
        return {"pool": f"{named}{how}"}

    @once
    def shuffled(self, name: str) -> Mapping[str, tuple[Image, ...]]:
        """Return the images of each item of a benchmark with --ablate=shuffle, by item id."""
        return ablation.shuffled(self.items(name))

    @cached_property
    def token_limits(self) -> TokenLimits | None:
        """The model's token limits of answers in words; None if it takes no limit."""
        return self.model.backend.token_limits()

    def limited(self, prompt: Prompt, benchmark: str = "") -> Prompt:
        """The prompt with the limit of tokens in force; None if that is the model's own.

        `benchmark`: the prompt's benchmark (default: `prompt.benchmark`). The model's own limit is part of its
        fingerprint, so that stored answers keep their keys.
        """
        limit = self.limit(prompt, benchmark or prompt.benchmark)
        if self.token_limits is not None and limit == self.token_limits.own:
            limit = None
        return prompt if prompt.max_tokens == limit else replace(prompt, max_tokens=limit)

    def limit(self, prompt: Prompt, benchmark: str) -> int | None:
        """The limit of new tokens for an answer in words, 0 for none; None if the model takes no limit."""
        limits = self.token_limits
        if limits is None or prompt.technique in OPTION_TECHNIQUES:
            return None
        typed, config = self.options.max_tokens, self.model.config
        added = [instruction for instruction in self._instructions if f"+{instruction.label}" in prompt.template]
        budget = next((instruction for instruction in added if instruction.tokens), None) if added else None
        if budget is not None:
            limit = configs.token_budget(typed, config, limits, budget.name, prompt)
        else:
            limit = configs.token_limit(typed, config, limits, self.benchmarks.get(benchmark), prompt)
        if not added:
            return limit
        room = sum(instruction.room for instruction in added)
        return limit + room if limit and typed is None else limit

    # Models

    @cached_property
    def secrets(self) -> frozenset[str]:
        """The keys of the model and the judge. They are never stored or shown."""
        judge = frozenset[str]() if self.judge is None else self.judge.chosen.secrets
        return self.model.secrets | judge

    def make_model(self) -> Backend:
        """The model, loaded, with baselines fitted on the answer key."""
        unknown = self.model.backend.capabilities is None
        model = self.model.load(self.options.concurrency)
        if unknown:
            check_able(self.techniques, model.facts.capabilities, self.options.model)
        if said(model, "fit"):
            items = [item for name in self.benchmarks for item in self.items(name)]
            # A model that must not see images gets none here either.
            model.fit([replace(item, images=()) for item in items] if self.ablation else items)
        return model

    def limits(self, model: Backend) -> engine.Limits:
        """Return the limits for asking the model (UsageError if it cannot keep the options)."""
        options = self.options
        # If a test may end the session, answers asked ahead may be wasted.
        window = {"window": 1} if self.project.stops_early else {}
        return engine.Limits.of(
            model.facts,
            batch_size=options.batch_size,
            concurrency=options.concurrency,
            deadline=options.deadline,
            budget=inf if options.max_cost is None else options.max_cost,
            **window,
        )

    # Scores

    def reads_anew(self, before: RunRecord) -> bool:
        """Whether a continued run used another extraction rule; `before` is its record."""
        names = before.benchmarks or self.benchmarks
        of_run = [benchmark for name, benchmark in self.registry.benchmarks.items() if name in names]
        return scoring.rules.recorded(before.extraction, of_run) != self.extraction

    def result(
        self,
        query: Query,
        prompt: Prompt,
        digest: str,
        answer: Answer | AnswerError,
        run: str,
    ) -> Result:
        """Read an answer and score it by rule: the result of the question as its variant shows it.

        `digest` is the prompt's.
        """
        item = as_shown(query, self.protocol)
        return scoring.result(
            query if item is query.item else replace(query, item=item),
            prompt,
            self.protocol.read(answer, item) if isinstance(answer, Answer) and self._instructions else answer,
            benchmark=self.benchmarks[item.benchmark],
            run=run,
            extraction=self.extraction,
            digest=digest,
        )

    def judged(self, name: str, *techniques: Technique) -> dict[str, str]:
        """Return the prompts of the judge about answers to a benchmark, as task -> template."""
        settings = None if self.judge is None else self.judge.settings
        return judging.judged(self.benchmarks[name], self.items(name), techniques or self.techniques, settings)
