"""What was asked for, resolved to benchmarks, items and a model: the same in every process of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Any

import pytest

from medvqa import answers, benchmarks, configs, engine, judging, metrics, records, scoring
from medvqa.configs import ModelConfig
from medvqa.data import folders
from medvqa.data.selection import Shard
from medvqa.items import (
    ABLATIONS,
    OPTION_TECHNIQUES,
    TECHNIQUES,
    Answer,
    AnswerError,
    Benchmark,
    Image,
    Item,
    Kind,
    Model,
    Prompt,
    Query,
    Result,
    Score,
    Service,
    Technique,
    UsageError,
)
from medvqa.protocols import ablation, prompts
from medvqa.protocols.techniques import NEEDS
from medvqa.session import judges
from medvqa.session import places as leases
from medvqa.session.options import Options
from medvqa.session.registry import Known, gather


class Plan:
    """What was asked for, resolved: the benchmarks, their items, and the model's config.

    Making one raises UsageError for what does not exist, DataError for data that cannot be read.
    """

    def __init__(self, config: pytest.Config, options: Options) -> None:
        """Resolve names; data are loaded when they are first needed, or by `check`."""
        self.options = options
        self._may_stop_early = bool(config.getoption("maxfail"))
        self.known: Known = gather(config.pluginmanager)
        if options.limit is not None and options.limit < 1:
            raise UsageError(f"--limit={options.limit}: a limit is at least 1")
        self.shard = Shard.parse(options.shard) if options.shard is not None else None
        for name, value in (("batch-size", options.batch_size), ("concurrency", options.concurrency)):
            if value is not None and value < 1:
                raise UsageError(f"--{name}={value}: at least 1")
        if options.max_tokens is not None and options.max_tokens < 0:
            raise UsageError(f"--max-tokens={options.max_tokens}: a number of tokens, or 0 for no limit")
        if options.deadline is not None and not options.deadline > 0:
            raise UsageError(f"--deadline={options.deadline:g}: seconds, more than 0")
        if options.repeat is not None and options.repeat < 2:
            raise UsageError(
                f"--repeat={options.repeat}: at least 2 samples of each answer; without it one is asked for"
            )
        if options.max_errors < 0:
            raise UsageError(f"--max-errors={options.max_errors}: a number of errors in a row, or 0 for no end")
        if options.data is not None and not options.data.is_dir():
            raise UsageError(f"--data={options.data}: no such folder")
        self.data = options.data or config.rootpath
        self.config = leases.resolve(config, options.model, self.known.backends)
        recorded = self._recorded_judge()
        self.judge = judges.resolve(
            judges.Typed(
                options.judge or recorded,
                options.ff_gap,
                options.extract_with,
                options.rules_first,
                options.judge_prompts,
            ),
            folders=[config.rootpath / "models", folders.bundled("models")],
            backends=self.known.backends,
            beside=config.invocation_params.dir,
        )
        self._workers = leases.workers_asked(config)
        self._collects_only = bool(config.option.collectonly)
        self.ablation = None if options.ablate is None else _one_of("ablation", options.ablate, ABLATIONS)
        if self.ablation and getattr(self.known.backends[self.config.backend], "recorded", False):
            raise UsageError(
                f"--ablate={self.ablation}: the answers of '{options.model}' were given to the images as they are; "
                "ablate with a model that can be asked"
            )
        self.benchmarks: Mapping[str, Benchmark] = {
            benchmark.name: benchmark
            for benchmark in benchmarks.choose(options.benchmarks, self.known.benchmarks, options.data)
        }
        self.extraction = scoring.rules.resolve(options.extraction, self.benchmarks.values())
        self.techniques = self._techniques()
        self._check_benchmarks()
        self._token_limits = configs.token_limits(self.config, self.known.backends)
        self._check_token_limits()
        self.samples = tuple(range(1, options.repeat + 1)) if options.repeat is not None else ()
        """Numbers of the samples that each question is asked for; () where it is asked once."""
        self._check_repeat()
        self._items: dict[str, tuple[Item, ...]] = {}
        self._shuffled: dict[str, Mapping[str, tuple[Image, ...]]] = {}
        # Indexing a large file for the first time shows its progress, which pytest would capture.
        capture = config.pluginmanager.get_plugin("capturemanager")
        self._uncaptured: Callable[[], AbstractContextManager[None]] = (
            capture.global_and_fixture_disabled if capture is not None else nullcontext
        )
        if not (options.typed or self._collects_only):
            try:
                self._check_backend()
            except UsageError as error:
                raise UsageError(f"{error}; or choose another model, such as --model=random") from None

    def _recorded_judge(self) -> str | None:
        """The model itself, if it replays free-form answers that were recorded with the scores of a judge.

        UsageError if it is asked by another technique.
        """
        judged = getattr(self.known.backends[self.config.backend], "judged", None)
        if judged is None or not judged(*configs.arguments(self.config, self.known.backends)):
            return None
        if set(self.options.techniques or self.config.techniques or ("mc",)) != {"ff"}:
            raise UsageError(
                f"'{self.config.argument}' holds free-form answers (ff) with the closeness scores of a judge, and no "
                "others: type --technique=ff"
            )
        return f"{self.config.backend}:{self.config.argument}"

    def _techniques(self) -> tuple[Technique, ...]:
        """Those that were typed, else the config's, else MC; UsageError for one that cannot be asked by.

        Where nothing at all was typed, and no benchmark has any of the default model's, MC is what remains.
        """
        asked = self.options.techniques or self.config.techniques or ("mc",)
        if "ff" in asked and self.judge is None:
            raise UsageError(
                "technique 'ff' needs a judge, which compares free answers with the options: add --judge=MODEL, a "
                "config of models/ or BACKEND:ARGUMENT"
            )
        offered = {technique for benchmark in self.known.benchmarks.values() for technique in benchmark.techniques}
        names = sorted(offered, key=TECHNIQUES.index)
        where = "" if self.options.techniques else f" (from the config of '{self.options.model}')"
        techniques: tuple[Technique, ...] = tuple(
            _one_of("technique", name, names, where) for name in dict.fromkeys(asked)
        )
        defined = {technique for benchmark in self.benchmarks.values() for technique in benchmark.techniques}
        if not self.options.typed and defined.isdisjoint(techniques):
            techniques = ("mc",)
        self._check_able(techniques, configs.capabilities(self.config, self.known.backends))
        return techniques

    def _check_able(self, techniques: Iterable[Technique], able: Collection[str] | None) -> None:
        """UsageError for a technique that the model is not able to be asked by; None: it is not known yet."""
        for technique in techniques:
            if able is not None and NEEDS[technique] not in able:
                raise UsageError(
                    f"technique '{technique}' needs a model that can {NEEDS[technique]}; "
                    f"'{self.options.model}' has: {', '.join(sorted(able)) or 'nothing'}"
                )

    def _check_benchmarks(self) -> None:
        """UsageError for a benchmark that was named, or for all, when none of the techniques is theirs."""
        lacking = [b for b in self.benchmarks.values() if not set(self.techniques) & set(b.techniques)]
        named = [benchmark for benchmark in lacking if benchmark.name in self.options.benchmarks]
        if lacking and (named or len(lacking) == len(self.benchmarks)):
            benchmark = (named or lacking)[0]
            why = "" if self.options.techniques else f". Name one of them: --technique={benchmark.techniques[0]}"
            raise UsageError(
                f"benchmark '{benchmark.name}' has no technique '{', '.join(self.techniques)}'; it has: "
                f"{', '.join(benchmark.techniques)}{why}"
            )

    def _check_token_limits(self) -> None:
        """UsageError for limits of tokens that would have no effect, or that the backend cannot keep."""
        configs.check_token_limits(self.config, self._token_limits, self.known.benchmarks)
        typed, backends = self.options.max_tokens, self.known.backends
        if typed is None:
            return
        if self._token_limits is None:
            able = sorted(name for name, backend in backends.items() if hasattr(backend, "token_limits"))
            raise UsageError(
                f"--max-tokens={typed}: backend '{self.config.backend}' takes no limit; those that do: "
                f"{', '.join(able)}"
            )
        if OPTION_TECHNIQUES.issuperset(self.techniques):
            raise UsageError(
                f"--max-tokens={typed}: technique '{', '.join(self.techniques)}' writes no text that could be limited"
            )
        configs.check_token_limit(typed, self._token_limits, f"--max-tokens={typed}")

    def limited(self, prompt: Prompt, benchmark: str = "") -> Prompt:
        """The prompt with the limit of tokens in force, None where it is the model's own.

        `benchmark` names the benchmark that it is of, "" for that which it names itself.

        The own limit is part of the model's fingerprint, so that stored answers that were asked for by it stay good.
        """
        limit = self._limit(prompt, benchmark or prompt.benchmark)
        own = self._token_limits is not None and limit == self._token_limits.own
        return replace(prompt, max_tokens=None if own else limit)

    def _limit(self, prompt: Prompt, benchmark: str) -> int | None:
        """The limit of tokens in force for an answer in words, 0 for none; None where the backend takes no limit."""
        limits = self._token_limits
        if limits is None or prompt.technique in OPTION_TECHNIQUES:
            return None
        known = self.benchmarks.get(benchmark)
        return configs.token_limit(self.options.max_tokens, self.config, limits, known, prompt)

    def _check_repeat(self) -> None:
        """UsageError where all samples of an answer would be the same."""
        if not self.samples:
            return
        scoring = [name for name in self.techniques if name in OPTION_TECHNIQUES]
        if scoring:
            raise UsageError(
                f"--repeat={self.options.repeat}: technique '{scoring[0]}' draws nothing, so that all samples of an "
                "answer would be the same; repeat with --technique=mc"
            )
        tell = getattr(self.known.backends[self.config.backend], "draws", None)
        if tell is not None and not tell(*configs.arguments(self.config, self.known.backends)):
            raise UsageError(
                f"--repeat={self.options.repeat}: '{self.options.model}' answers the same question always alike. "
                "Repeat a model whose config samples: temperature above 0 (openai), generation.do_sample (hf)"
            )

    def asks(self, query: Query) -> bool:
        """Whether the technique is defined for the item."""
        benchmark = self.benchmarks[query.item.benchmark]
        return query.technique in benchmark.techniques and benchmark.applies(query.item, query.technique)

    def name_of(self, query: Query) -> str:
        """What names a test case in lists of what is expected and missing."""
        return query.key.name(technique=len(self.techniques) > 1)

    @property
    def recovers(self) -> frozenset[str]:
        """Names of the benchmarks whose answer key is recovered from another column, as was asked."""
        asked = self.options.answers_from_category
        return frozenset(name for name, b in self.benchmarks.items() if asked and b.recover is not None)

    def check(self, *, answered: Callable[[ModelConfig], bool]) -> None:
        """Load what can fail before anything is collected: the data, and what a backend can tell of its model.

        `answered` says whether answers of a model may be stored.
        """
        if not self._collects_only:
            self._check_model(answered)
        if self.options.answers_from_category and not self.recovers:
            raise UsageError("--answers-from-category: only gmai-mmbench-test has a key to recover; add --benchmark")
        for name in self.benchmarks:
            self.items(name)
            if self.ablation == "shuffle":
                self._shuffle(name)
        scoring.rules.check(self.extraction, {name: self.items(name) for name in self.benchmarks}, self.benchmarks)

    def _check_model(self, answered: Callable[[ModelConfig], bool]) -> None:
        """What can be told of the model without making it."""
        self._check_consent()
        self._check_backend()
        self._check_recorded()
        if self.judge is not None:
            self.judge.check(trust_remote_code=self.options.trust_remote_code)
        self._check_cost()
        self._check_upload()
        # After consent to upload, and before `places`, for which some backends import much.
        self._preflight(answered)
        if self.places is not None and self._workers > len(self.places):
            raise leases.too_many(self._workers, self.places, self.options.model)

    def _preflight(self, answered: Callable[[ModelConfig], bool]) -> None:
        """Raise UsageError for what cannot run now.

        A model elsewhere that was `answered` before may not be needed: its answers may all be stored.
        """
        backend = self.known.backends[self.config.backend]
        if getattr(backend, "looks", False) and self.ablation != "text-only":
            self._check_images()
        look = getattr(backend, "preflight", None)
        if look is not None and not (self.service is not None and answered(self.config)):
            look(*configs.arguments(self.config, self.known.backends))
        if self.judge is not None and not (self.judge.service is not None and answered(self.judge.config)):
            self.judge.preflight()

    def _check_images(self) -> None:
        """UsageError for a benchmark of which no image is there; a few that are missing are errors of their items."""
        for name in self.benchmarks:
            shown = {image.path for item in self.items(name) for image in item.images}
            if shown and not any(map(os.path.exists, shown)):
                raise UsageError(
                    f"{name}: none of its {len(shown)} image files is there, the first: {min(shown)}. Put them there "
                    "(docs/data.md says from where), name another folder with --data=DIR, or ask without images: "
                    "--ablate=text-only"
                )

    def _check_backend(self) -> None:
        check = getattr(self.known.backends[self.config.backend], "check", None)
        if check is not None:
            check(*configs.arguments(self.config, self.known.backends))

    def _check_recorded(self) -> None:
        """UsageError where answers were recorded as samples, and are asked for without a number."""
        tell = getattr(self.known.backends[self.config.backend], "samples", None)
        if self.samples or tell is None:
            return
        if number := tell(*configs.arguments(self.config, self.known.backends)):
            raise UsageError(
                f"'{self.options.model}' was recorded with --repeat={number}, several samples of each answer; add "
                f"--repeat={number}"
            )

    @cached_property
    def places(self) -> tuple[str, ...] | None:
        """Devices that can each hold one copy of the model and the judge; None where they take none (UsageError)."""
        judge = () if self.judge is None else (self.judge.config,)
        return leases.places((self.config, *judge), self.known.backends)

    @cached_property
    def secrets(self) -> frozenset[str]:
        """The keys of the model and of the judge, which are in nothing that is kept or shown."""
        judge = frozenset[str]() if self.judge is None else configs.secrets(self.judge.config, self.known.backends)
        return configs.secrets(self.config, self.known.backends) | judge

    @cached_property
    def service(self) -> Service | None:
        """What runs the model, where that is something else than this process."""
        tell = getattr(self.known.backends[self.config.backend], "service", None)
        told: Service | None = tell(*configs.arguments(self.config, self.known.backends)) if tell is not None else None
        return told

    def _check_consent(self) -> None:
        consent = getattr(self.known.backends[self.config.backend], "consent", None)
        needed = consent(*configs.arguments(self.config, self.known.backends)) if consent is not None else None
        if needed and not self.options.trust_remote_code:
            raise UsageError(f"'{self.options.model}' {needed}. Read it; if you trust it, add --trust-remote-code")

    def _check_cost(self) -> None:
        limit = self.options.max_cost
        if limit is not None and not limit > 0:
            raise UsageError(f"--max-cost={limit:g}: a sum of money is more than 0")
        if limit is None:
            return
        asked = {self.options.model: self.service}
        if self.judge is not None:
            asked[self.judge.spec] = self.judge.service
        priced = [spec for spec, service in asked.items() if service is not None and service.priced]
        # What runs here costs no money beside what is paid for elsewhere.
        unknown = [spec for spec, service in asked.items() if spec not in priced and (service or not priced)]
        if unknown:
            raise UsageError(
                f"--max-cost={limit:g}: '{unknown[0]}' does not tell what its answers cost; give price_input "
                "and price_output in the [options] of a config of the backend openai"
            )

    def _check_upload(self) -> None:
        if self.options.allow_upload:
            return
        kept = [name for name, benchmark in self.benchmarks.items() if not benchmark.upload]
        self._refuse_upload(kept, self.options.model, self.service, "images")
        if self.judge is not None:
            kept = [name for name in kept if self._judged(name)]
            self._refuse_upload(kept, self.judge.spec, self.judge.service, "questions, references and answers")

    def _refuse_upload(self, names: Sequence[str], spec: str, service: Service | None, what: str) -> None:
        if names and service is not None and service.remote:
            raise UsageError(
                f"{', '.join(names)}: released on request, and '{spec}' sends {what} to "
                f"{service.origin}. Add --allow-upload if your agreement with the owners permits it, "
                "or choose others with --benchmark"
            )

    def _judged(self, name: str, *techniques: Technique) -> dict[str, str]:
        """What a judge is asked, or would be, about answers to a benchmark: by task the prompt's template."""
        settings = judging.Settings() if self.judge is None else self.judge.settings
        return judges.judged(self.benchmarks[name], self.items(name), techniques or self.techniques, settings)

    def judge_notice(self) -> str | None:
        """What leaves this machine for the judge, None when nothing does."""
        if self.judge is None:
            return None
        return self.judge.notice([name for name in self.benchmarks if self._judged(name)])

    def upload_notice(self) -> str | None:
        """What leaves this machine, None when nothing does. Items that are deselected later are counted."""
        if self.service is None or not self.service.remote:
            return None
        if self.ablation in ("text-only", "blank"):
            return (
                f"medvqa: questions of {', '.join(self.benchmarks)} will be sent to {self.service.origin}, "
                f"with {ablation.LABELS[self.ablation]}"
            )
        shown = {
            (item.benchmark, image.name)
            for name in self.benchmarks
            for item in self.items(name)
            for image in item.images
        }
        return (
            f"medvqa: up to {len(shown)} images of {', '.join(self.benchmarks)} will be sent to {self.service.origin}"
        )

    def items(self, name: str) -> tuple[Item, ...]:
        """All items of a chosen benchmark, sorted by id."""
        if name not in self._items:
            benchmark = self.benchmarks[name]
            with self._uncaptured():
                loaded = benchmarks.load(benchmark, self.data)
            if name in self.recovers and benchmark.recover is not None:
                loaded = tuple(map(benchmark.recover, loaded))
            self._items[name] = loaded
        return self._items[name]

    def items_of(self, name: str) -> list[Item]:
        """Items for `@pytest.mark.vqa(name)`: of that benchmark or group, as far as it was chosen."""
        wanted = benchmarks.members(name, self.known.benchmarks)
        return [item for b in wanted if b.name in self.benchmarks for item in self.items(b.name)]

    def make_model(self) -> Model:
        """The model, with baselines fitted on the answer key."""
        model = configs.build(self.config, self.known.backends)
        if configs.capabilities(self.config, self.known.backends) is None:
            self._check_able(self.techniques, model.capabilities)
        fit: Callable[[Sequence[Item]], None] | None = getattr(model, "fit", None)
        if fit is not None:
            items = [item for name in self.benchmarks for item in self.items(name)]
            # A model that must not see the images gets none here either.
            fit([replace(item, images=()) for item in items] if self.ablation else items)
        return model

    def limits(self, model: Model) -> engine.Limits:
        """How the model is asked (UsageError where it cannot be asked so)."""
        options = self.options
        if options.concurrency is not None and hasattr(model, "concurrency"):
            model.concurrency = options.concurrency  # a model may keep a limit of its own
        # Behind a test that may end the session, what was asked ahead may never be wanted.
        window = {"window": 1} if self._may_stop_early else {}
        return engine.Limits.of(
            model,
            batch_size=options.batch_size,
            concurrency=options.concurrency,
            deadline=options.deadline,
            budget=inf if options.max_cost is None else options.max_cost,
            **window,
        )

    def judge_limits(self, model: Model) -> engine.Limits:
        """How the judge is asked: in batches, or by as many calls at a time, as itself or its config says."""
        budget = inf if self.options.max_cost is None else self.options.max_cost
        return engine.Limits.of(model, deadline=self.options.deadline, budget=budget)

    def prompt(self, query: Query) -> Prompt:
        """What a model is asked."""
        item = query.item
        if self.ablation == "shuffle":
            item = replace(item, images=self._shuffle(item.benchmark).get(item.id, ()))
        prompt = self.limited(self.benchmarks[item.benchmark].prompt(item, query.technique), item.benchmark)
        if query.sample:
            prompt = replace(prompt, sample=query.sample)
        if self.ablation == "text-only":
            return ablation.withhold(prompt)
        return ablation.blank(prompt) if self.ablation == "blank" else prompt

    def _shuffle(self, name: str) -> Mapping[str, tuple[Image, ...]]:
        """Which images each item of a benchmark is shown, when they are shuffled."""
        if name not in self._shuffled:
            self._shuffled[name] = ablation.shuffled(self.items(name))
        return self._shuffled[name]

    def reads_anew(self, before: Mapping[str, Any]) -> bool:
        """Whether the answers of a run that goes on were read by another rule; `before` is its run.json."""
        names = before.get("benchmarks", self.benchmarks)
        known = [benchmark for name, benchmark in self.known.benchmarks.items() if name in names]
        return scoring.rules.recorded(before, known) != self.extraction

    def by_rule(self, query: Query, answer: Answer) -> Score:
        """The score of an answer in words without a judge."""
        benchmark = self.benchmarks[query.item.benchmark]
        return scoring.by_rule(query.item, query.technique, answer, benchmark=benchmark, extraction=self.extraction)

    def result(
        self,
        item: Item,
        prompt: Prompt,
        answer: Answer | AnswerError,
        run: str,
        digest: str = "",
        score: Score | None = None,
    ) -> Result:
        """Score one answer; `digest` is the prompt's and `score` that by rule, where they are known."""
        return scoring.result(
            Query(item, prompt.technique, prompt.sample),
            prompt,
            answer,
            benchmark=self.benchmarks[item.benchmark],
            run=run,
            extraction=self.extraction,
            digest=digest or prompts.digest(prompt),
            score=score,
        )

    def about(self) -> dict[str, Any]:
        """What run.json says of this run, as far as it is known before the model is made."""
        path = configs.path_name(self.config, self.known.backends)
        about = {
            "options": {
                "model": self.options.model,
                "benchmark": self.options.benchmarks,
                "technique": self.options.techniques,
                "judge": self.options.judge,
                "ablate": self.options.ablate,
                "limit": self.options.limit,
                "shard": self.options.shard,
                "fresh": self.options.fresh,
                "batch_size": self.options.batch_size,
                "concurrency": self.options.concurrency,
                "max_tokens": self.options.max_tokens,
                "deadline": self.options.deadline,
                "max_errors": self.options.max_errors,
                "answers_from_category": self.options.answers_from_category,
            },
            "config": {
                "name": self.config.name,
                "backend": self.config.backend,
                "argument": self.config.argument,
                "options": self.config.options,
                "max_tokens": self.config.max_tokens,
                "own_max_tokens": None if self._token_limits is None else self._token_limits.own,
                **({} if path is None else {"path": path}),
            },
            "techniques": self.techniques,
            # The number of a sample is the seed, or part of the seed, with which it is drawn.
            "repeat": self.options.repeat,
            "judge": None if self.judge is None else self.judge.about(),
            "extraction": self.extraction,
            "ablation": self.ablation,
            "benchmarks": {name: self._about(benchmark) for name, benchmark in self.benchmarks.items()},
            "versions": records.versions(),
        }
        # A config may hold a key that the environment has too.
        return {name: answers.redacted_value(each, self.secrets) for name, each in about.items()}

    def _about(self, benchmark: Benchmark) -> dict[str, Any]:
        items = self.items(benchmark.name)
        templates: dict[Technique, set[str]] = {}
        limits: dict[Technique, dict[Kind, int]] = {}
        for technique in self.techniques:
            asked = [item for item in items if self.asks(Query(item, technique))]
            firsts = {item.kind: item for item in reversed(asked)}.values()
            asks = {item.kind: benchmark.prompt(item, technique) for item in firsts}
            if asks:
                templates[technique] = {prompt.template for prompt in asks.values()}
            in_force = {kind: self._limit(asks[kind], benchmark.name) for kind in sorted(asks)}
            if told := {kind: limit for kind, limit in in_force.items() if limit is not None}:
                limits[technique] = told
        answers = "category" if benchmark.name in self.recovers else "given"
        digest = records.data_digest(items)
        judged = self._judged(benchmark.name)
        kinds = {item.kind for item in items}
        read_by = scoring.rules.read_by(benchmark, self.extraction, kinds)
        signature = {
            "data": digest[:12],
            "extraction": metrics.reading(read_by),
            "answers": answers,
            **({"ablation": self.ablation} if self.ablation else {}),
            **({"repeat": str(self.options.repeat)} if self.options.repeat is not None else {}),
            **(self.judge.settings.signature(benchmark) if self.judge is not None and judged else {}),
        }
        return {
            "items": len(items),
            "kinds": sorted(kinds),
            "data_sha256": digest,
            "answers": answers,
            "judged": judged,
            "judged_by": [each for each in self.techniques if self._judged(benchmark.name, each)],
            "signature": signature,
            **({"read_by": read_by} if scoring.rules.is_official(self.extraction) else {}),
            "prompts": {technique: "+".join(sorted(names)) for technique, names in templates.items()},
            # New tokens of an answer in words, by technique and kind of question; 0: no limit.
            "max_tokens": limits,
        }


def _one_of(option: str, value: str, allowed: Iterable[Any], where: str = "") -> Any:
    names = list(allowed)
    if value not in names:
        raise UsageError(f"no {option} '{value}'{where}; there are: {', '.join(names)}")
    return value
