"""Recorded answers as a model: `replay:FILE`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from medvqa.backends.answer_file import AnswerFile
from medvqa.backends.replay import forms
from medvqa.backends.replay.recording import UNKNOWN, AnswerColumns, Recording
from medvqa.items import TECHNIQUES, Answer, AnswerError, DataError, DataWarning, Item, MedVQAError, Prompt, UsageError
from medvqa.judging import RECORDED, TASKS, as_shown
from medvqa.protocols.prompts import digest

_JUDGING = frozenset(f"judging/{task}" for task in TASKS)
"""Templates of the prompts of judges, without their digests."""


class Replay(AnswerFile):
    """`replay:FILE`: the recorded answer to each item; AnswerError for an item without one."""

    capabilities = frozenset({"generate", "option_logprobs", "option_likelihood"})
    Options = AnswerColumns
    options: AnswerColumns

    @cached_property
    def _recording(self) -> Recording:
        """The file, read once. UsageError if it does not exist, DataError if it has no known format."""
        if os.path.isdir(self.argument or "file"):
            medevalkit = (self._path / "results.json").is_file()
            where = "its answers are in results.json" if medevalkit else "a run's answers are in its results.jsonl"
            raise UsageError(f"--model=replay:{self.argument}: a folder; {where}")
        return _recorded(self._path, self._digest, self.options)

    def judged(self) -> bool:
        """Whether the answers are free-form ones with a judge's scores; False if the file is unusable."""
        try:
            return bool(self._recording.closeness)
        except (MedVQAError, OSError):
            # `check` reports the error.
            return False

    def check(self) -> None:
        """Raise UsageError or DataError for a file that cannot be used."""
        _ = self._recording

    def draws(self) -> bool:
        """Whether the file holds numbered samples of a repeated run."""
        return self._recording.repeat > 0

    def samples(self) -> int:
        """The number of recorded samples per answer, 0 if some answers have no sample number.

        DataError or UsageError for a file that cannot be used.
        """
        recorded = self._recording
        return recorded.repeat if all(sample for *_, sample in recorded.keys) else 0

    def recorded_by(self, benchmark: str) -> Collection[str]:
        """The techniques of the answers to a benchmark, () if an answer is recorded without one (see `check`)."""
        techniques = {technique for name, technique, *_ in self._recording.keys if name in (benchmark, "")}
        return () if "" in techniques else sorted(techniques, key=TECHNIQUES.index)

    def about(self) -> dict[str, Any]:
        """What the file tells of the harness that wrote it; {} for the formats of this program and of MediConfusion."""
        harness = self._recording.harness
        told = {name: text for name, text in msgspec.structs.asdict(harness).items() if text}
        return {"recorded_by": told} if harness.name not in ("", "medvqa", "MediConfusion") else {}

    def fit(self, items: Iterable[Item]) -> None:
        """Find the items of answers without an id; warn (DataWarning) of answers to items that the run does not have.

        DataError if a question is not the only one with its text, an id is that of another question, or no answer is to
        a question of the run.
        """
        items = list(items)
        recording = self._recording
        self._recording = placed = recording.placed(items)
        if recording.unplaced:
            found = len(placed.answers) - len(recording.answers)
            message = (
                f"{self._path} has no ids of questions: {found:,} of {len(recording.unplaced):,} answers were found by "
                "their question and options, each of which one question of this run has"
            )
            warnings.warn(message, DataWarning, stacklevel=2)
        self._check_benchmarks(items)
        unknown = self._unknown_ids(items)
        if unknown:
            shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
            answers = "1 answer to an item" if len(unknown) == 1 else f"{len(unknown)} answers to items"
            message = f"{self._path} has {answers} not in the benchmarks of this run: {shown}"
            warnings.warn(message, DataWarning, stacklevel=2)

    def _check_benchmarks(self, items: Sequence[Item]) -> None:
        """Warn of benchmarks without an answer; DataError if the run has no other, unless a judge is replayed."""
        answers = self._recording.answers
        recorded = {(benchmark, item_id) for benchmark, _, item_id, *_ in answers}
        benchmarks = dict.fromkeys(item.benchmark for item in items)
        having = {item.benchmark for item in items if {(item.benchmark, item.id), ("", item.id)} & recorded}
        lacking = [name for name in benchmarks if name not in having]
        if not lacking or not answers:
            return
        if having:
            typed = ",".join(name for name in benchmarks if name in having)
            message = f"{self._path} has no answer to any question of {', '.join(lacking)}: type --benchmark={typed}"
            warnings.warn(message, DataWarning, stacklevel=3)
        elif self._recording.replies is None:
            raise DataError(
                f"{self._path} has {len(answers):,} answers, and none to a question of {', '.join(lacking)}; the first "
                f"is to {self._first()}. Type the benchmark that it is of, or the column of its ids: --set id=COLUMN"
            )

    def _first(self) -> str:
        """Benchmark, technique, item, variant and sample of the first answer, as far as the file says."""
        return " ".join(str(part) for part in next(iter(self._recording.answers)) if part)

    def _unknown_ids(self, items: Iterable[Item]) -> list[str]:
        """Return the ids in the file's order that none of the items has.

        Answers that the file assigns to a benchmark without items are left out: a run need not take all
        benchmarks that were recorded.
        """
        recorded = {(item.benchmark, item.id) for item in items}
        benchmarks = {benchmark for benchmark, _ in recorded}
        recorded |= {("", item_id) for _, item_id in recorded}
        benchmarks.add("")
        return [
            item_id
            for benchmark, _, item_id, *_ in self._recording.answers
            if benchmark in benchmarks and (benchmark, item_id) not in recorded
        ]

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Look up each prompt by benchmark, technique and item, if the file has them."""
        return [self._answer(prompt) for prompt in prompts]

    def _score(self, prompt: Prompt) -> Answer | AnswerError:
        """The recorded reply of a judge, if the prompt shows an answer of this file."""
        answer = self._recording.answers.get(("", "ff", prompt.item, "", 0))
        reply = self._recording.closeness.get(prompt.item)
        if reply is None or answer is None:
            return AnswerError(f"{self._path} has no scores of a judge for {prompt.item}")
        if as_shown(answer.text) not in prompt.text:
            return AnswerError(f"{self._path} has the scores of a judge for {prompt.item}, but for another answer")
        return Answer(reply)

    def _answer(self, prompt: Prompt) -> Answer | AnswerError:
        if prompt.template == f"{RECORDED}/closeness":
            return self._score(prompt)
        replies, answers = self._recording.replies, self._recording.answers
        if replies is not None and prompt.template.partition("@")[0] in _JUDGING:
            reply = replies.get((prompt.benchmark, prompt.item, digest(prompt)))
            if reply is not None:
                return Answer(reply, finish=UNKNOWN)
            return AnswerError(f"{self._path} has no reply of a judge to {prompt.template} about {prompt.item}")
        for benchmark in (prompt.benchmark, ""):
            for technique in (prompt.technique, ""):
                key = (benchmark, technique, prompt.item, prompt.variant, prompt.sample)
                if key in answers:
                    answer = answers[key]
                    if answer is None:
                        return AnswerError(f"{self._path} has no answer for {prompt.item}: none was recorded")
                    return answer
        variants = self._recording.variants
        if variants - {prompt.variant} and prompt.variant not in variants:
            which = (
                f"{prompt.item} in variant {prompt.variant}" if prompt.variant else f"{prompt.item} without a variant"
            )
            recorded = ", ".join(sorted(name or "none" for name in variants))
            return AnswerError(f"{self._path} has no answer for {which}; variants recorded: {recorded}")
        places = product((prompt.benchmark, ""), (prompt.technique, ""))
        if any((*place, prompt.item, prompt.variant, 1) in answers for place in places):
            which = f"sample {prompt.sample} of {prompt.item}" if prompt.sample else prompt.item
            repeat = self._recording.repeat
            return AnswerError(
                f"{self._path} has no answer for {which}: it was recorded with --samples={repeat}; ask so"
            )
        if not answers:
            return AnswerError(f"{self._path} has no answer for {prompt.item}: it has no ids, and `fit` found no items")
        return AnswerError(
            f"{self._path} has no answer for {prompt.item}; asked: {prompt.benchmark} {prompt.technique} "
            f"{prompt.item}, first of {len(answers)} recorded: {self._first()}"
        )


@lru_cache(maxsize=2)
def _recorded(path: Path, digest: str, columns: AnswerColumns) -> Recording:
    """The content of a file; each state of a file is read once per process."""
    return replace(forms.read(path, columns), digest=digest)
