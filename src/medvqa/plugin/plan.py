"""What was asked for, resolved to benchmarks, items and a model: the same in every process of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from math import inf
from typing import Any, get_args

import pytest

from medvqa import benchmarks, configs, engine, records, suite
from medvqa.items import (
    TECHNIQUES,
    Answer,
    AnswerError,
    Benchmark,
    Extraction,
    Item,
    Model,
    Prompt,
    Result,
    Service,
    UsageError,
)
from medvqa.plugin.known import Known, gather
from medvqa.plugin.options import Options


class Plan:
    """What was asked for, resolved: the benchmarks, their items, and the model's config.

    Making one raises UsageError for what does not exist, DataError for data that cannot be read.
    """

    def __init__(self, config: pytest.Config, options: Options) -> None:
        """Resolve names; data are loaded when they are first needed, or by `check`."""
        self.options = options
        self._may_stop_early = bool(config.getoption("maxfail"))
        self.known: Known = gather(config.pluginmanager)
        offered = {technique for benchmark in self.known.benchmarks.values() for technique in benchmark.techniques}
        self.technique = _one_of("technique", options.technique, sorted(offered, key=TECHNIQUES.index))
        self.extraction = _one_of("extraction", options.extraction, get_args(Extraction))
        if options.limit is not None and options.limit < 1:
            raise UsageError(f"--limit={options.limit}: a limit is at least 1")
        for name, value in (("batch-size", options.batch_size), ("concurrency", options.concurrency)):
            if value is not None and value < 1:
                raise UsageError(f"--{name}={value}: at least 1")
        if options.deadline is not None and not options.deadline > 0:
            raise UsageError(f"--deadline={options.deadline:g}: seconds, more than 0")
        if options.max_errors < 0:
            raise UsageError(f"--max-errors={options.max_errors}: a number of errors in a row, or 0 for no end")
        if options.data is not None and not options.data.is_dir():
            raise UsageError(f"--data={options.data}: no such folder")
        self.data = options.data or config.rootpath
        self.config = configs.resolve(
            options.model, folders=[config.rootpath / "models", suite.folder("models")], backends=self.known.backends
        )
        self._check_capability()
        self.benchmarks: Mapping[str, Benchmark] = {
            benchmark.name: self._prepared(benchmark)
            for benchmark in benchmarks.choose(options.benchmarks, self.known.benchmarks, options.data)
        }
        self._items: dict[str, tuple[Item, ...]] = {}
        # Indexing a large file for the first time shows its progress, which pytest would capture.
        capture = config.pluginmanager.get_plugin("capturemanager")
        self._uncaptured: Callable[[], AbstractContextManager[None]] = (
            capture.global_and_fixture_disabled if capture is not None else nullcontext
        )

    def _check_capability(self) -> None:
        needed = engine.NEEDS.get(self.technique)
        offered = getattr(self.known.backends[self.config.backend], "capabilities", None)
        if needed is not None and offered is not None and needed not in offered:
            raise UsageError(
                f"technique '{self.technique}' needs a model that can {needed}; '{self.options.model}' has: "
                f"{', '.join(sorted(offered)) or 'nothing'}"
            )

    def _prepared(self, benchmark: Benchmark) -> Benchmark:
        """The benchmark as this run uses it; UsageError where it lacks what was asked for."""
        if self.technique not in benchmark.techniques:
            raise UsageError(
                f"benchmark '{benchmark.name}' has no technique '{self.technique}'; it has: "
                f"{', '.join(benchmark.techniques)}"
            )
        engine.scorer(benchmark, self.extraction)
        return benchmark

    @property
    def recovers(self) -> frozenset[str]:
        """Names of the benchmarks whose answer key is recovered from another column, as was asked."""
        asked = self.options.answers_from_category
        return frozenset(name for name, b in self.benchmarks.items() if asked and b.recover is not None)

    def check(self) -> None:
        """Load what can fail before anything is collected: the data, and a backend's argument where it can tell."""
        check = getattr(self.known.backends[self.config.backend], "check", None)
        if check is not None:
            check(*configs.arguments(self.config, self.known.backends))
        self._check_cost()
        self._check_upload()
        if self.options.answers_from_category and not self.recovers:
            raise UsageError("--answers-from-category: only gmai-mmbench-test has a key to recover; add --benchmark")
        for name in self.benchmarks:
            self.items(name)

    @cached_property
    def service(self) -> Service | None:
        """What runs the model, where that is something else than this process."""
        tell = getattr(self.known.backends[self.config.backend], "service", None)
        told: Service | None = tell(*configs.arguments(self.config, self.known.backends)) if tell is not None else None
        return told

    def _check_cost(self) -> None:
        limit = self.options.max_cost
        if limit is not None and not limit > 0:
            raise UsageError(f"--max-cost={limit:g}: a sum of money is more than 0")
        if limit is not None and not (self.service is not None and self.service.priced):
            raise UsageError(
                f"--max-cost={limit:g}: '{self.options.model}' does not tell what its answers cost; give price_input "
                "and price_output in the [options] of a config of the backend openai"
            )

    def _check_upload(self) -> None:
        if self.service is None or not self.service.remote or self.options.allow_upload:
            return
        kept = [name for name, benchmark in self.benchmarks.items() if not benchmark.upload]
        if kept:
            raise UsageError(
                f"{', '.join(kept)}: released on request, and '{self.options.model}' sends images to "
                f"{self.service.origin}. Add --allow-upload if your agreement with the owners permits it, "
                "or choose others with --benchmark"
            )

    def upload_notice(self) -> str | None:
        """What leaves this machine, None when nothing does. Items that are deselected later are counted."""
        if self.service is None or not self.service.remote:
            return None
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
        fit: Callable[[Sequence[Item]], None] | None = getattr(model, "fit", None)
        if fit is not None:
            fit([item for name in self.benchmarks for item in self.items(name)])
        return model

    def limits(self, model: Model) -> engine.Limits:
        """How the model is asked (UsageError where it cannot be asked so)."""
        options = self.options
        if options.concurrency is not None and hasattr(model, "concurrency"):
            model.concurrency = options.concurrency  # a model may keep a limit of its own
        # Behind a test that may end the session, what was asked ahead is lost.
        window = {"window": 1} if self._may_stop_early else {}
        return engine.Limits.of(
            model,
            batch_size=options.batch_size,
            concurrency=options.concurrency,
            deadline=options.deadline,
            budget=inf if options.max_cost is None else options.max_cost,
            **window,
        )

    def prompt(self, item: Item) -> Prompt:
        """What a model is asked about an item."""
        return self.benchmarks[item.benchmark].prompt(item, self.technique)

    def result(self, item: Item, prompt: Prompt, answer: Answer | AnswerError, run: str) -> Result:
        """Score one answer."""
        benchmark = self.benchmarks[item.benchmark]
        return engine.result(item, prompt, answer, benchmark=benchmark, run=run, extraction=self.extraction)

    def about(self) -> dict[str, Any]:
        """What run.json says of this run, as far as it is known before the model is made."""
        return {
            "options": {
                "model": self.options.model,
                "benchmark": self.options.benchmarks,
                "limit": self.options.limit,
                "batch_size": self.options.batch_size,
                "concurrency": self.options.concurrency,
                "deadline": self.options.deadline,
                "max_errors": self.options.max_errors,
                "answers_from_category": self.options.answers_from_category,
            },
            "config": {
                "name": self.config.name,
                "backend": self.config.backend,
                "argument": self.config.argument,
                "options": self.config.options,
            },
            "technique": self.technique,
            "extraction": self.extraction,
            "benchmarks": {name: self._about(benchmark) for name, benchmark in self.benchmarks.items()},
            "versions": records.versions(),
        }

    def _about(self, benchmark: Benchmark) -> dict[str, Any]:
        items = self.items(benchmark.name)
        firsts = {item.kind: item for item in reversed(items)}.values()
        templates = sorted({benchmark.prompt(item, self.technique).template for item in firsts})
        answers = "category" if benchmark.name in self.recovers else "given"
        digest = records.data_digest(items)
        official = f"official ({benchmark.official_note})" if benchmark.official_note else "official"
        signature = {
            "data": digest[:12],
            "technique": self.technique,
            "prompt": "+".join(templates),
            "extraction": official if self.extraction == "official" else "sound",
            "answers": answers,
        }
        return {"items": len(items), "data_sha256": digest, "answers": answers, "signature": signature}


def _one_of(option: str, value: str, allowed: Iterable[Any]) -> Any:
    names = list(allowed)
    if value not in names:
        raise UsageError(f"no {option} '{value}'; there are: {', '.join(names)}")
    return value
