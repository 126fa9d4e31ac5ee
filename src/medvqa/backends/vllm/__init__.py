"""Checkpoints that vLLM's engine runs in this process (`vllm:FOLDER`), for many prompts at once.

Needs the extra `vllm`, whose torch and transformers are pinned: give it an environment of its own. Prompts are written
as backend `hf` writes them. Many threads call `generate`; one steps the engine, which is thus never short of requests.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from medvqa.backends.hf import adapting, checkpoint
from medvqa.backends.hf.checkpoint_backend import CheckpointBackend
from medvqa.backends.vllm.engine_options import VLLMOptions
from medvqa.backends.vllm.orphans import Watcher
from medvqa.backends.vllm.stepping import CLOSED, EngineThread
from medvqa.items import Answer, AnswerError, DataError, Prompt, UsageError

__all__ = ["VLLM", "VLLMOptions"]

MAX_SCORED = 128
"""Most tokens whose log-probabilities one request can ask for (vLLM 0.32)."""
ENVIRONMENT: Mapping[str, str] = {
    # The engine in this process: no other process is left when this one is killed.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CONFIGURE_LOGGING": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
"""Environment variables that vLLM reads at import and when it makes an engine."""


_Scores = dict[tuple[int, ...], float]
"""Log-probabilities of token `t` after the prompt and tokens `s`, at `(*s, t)`."""


@dataclass(frozen=True, slots=True)
class _EnginePrompt:
    """A written prompt: its text and tokens, and its decoded images."""

    text: str
    ids: list[int]
    images: list[Any]

    def after(self, tokens: Sequence[int] = ()) -> dict[str, Any]:
        """The prompt, followed by tokens, as the engine takes it."""
        prompt: dict[str, Any] = {"prompt_token_ids": [*self.ids, *tokens]}
        return {**prompt, "multi_modal_data": {"image": self.images}} if self.images else prompt


class VLLM(CheckpointBackend):
    """`vllm:FOLDER` or `vllm:ORG/NAME`: a checkpoint in vLLM's engine, or a LoRA adapter with its base."""

    Options = VLLMOptions
    options: VLLMOptions
    _thread: EngineThread | None = None
    _watcher: Watcher | None = None
    _callers: ThreadPoolExecutor | None = None

    @cached_property
    def concurrency(self) -> int:
        """Prompts in the engine at once."""
        return self.options.concurrency

    def check(self) -> None:
        """Raise UsageError for problems visible without loading: the package, folder, pickles, remote code."""
        flag = f"--model=vllm:{self.argument}".removesuffix(":")
        if not self.argument:
            raise UsageError(
                f"{flag}: vLLM's engine in this process needs a folder with a checkpoint, or ORG/NAME on the hub: "
                "--model=vllm:FOLDER. A vLLM server on this machine is --model=vllm-server"
            )
        if find_spec("vllm") is None:
            raise UsageError(
                f"{flag} needs vLLM, which pins its own torch and transformers: in an environment of its own, type "
                "pip install 'pytest-medvqa[vllm]'. A vLLM server elsewhere needs none of it: --model=vllm-server"
            )
        with _named():
            adapting.check(self.argument, self.options.of_prompts)

    def preflight(self) -> None:
        """Raise UsageError for a repository whose weights are neither cached nor available from the hub."""
        with _named():
            adapting.preflight(self.argument, self.options.of_prompts)

    def draws(self) -> bool:
        """Whether the config samples."""
        return any(map(self.options.samples, ("mc", "ff")))

    def unsampled(self) -> Collection[str]:
        """Techniques whose settings do not sample."""
        return [name for name in ("mc", "ff") if not self.options.samples(name)]

    def places(self) -> tuple[str, ...] | None:
        """The GPUs of each copy, as values of CUDA_VISIBLE_DEVICES; None without a GPU, () if there are too few."""
        from medvqa.backends.hf import loading

        gpus = loading.visible()
        return checkpoint.in_groups(gpus, self.options.gpus) if gpus else None

    def load(self) -> None:
        """Load the checkpoint into an engine. UsageError as for `check`, and if vLLM cannot load it."""
        self.check()
        options = self.options
        os.environ.update(ENVIRONMENT)
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        if options.batch_invariant:
            os.environ["VLLM_BATCH_INVARIANT"] = "1"
        with _named():
            self._adapted = adapting.obtain(self.argument, options.of_prompts)
        if len(self._adapted.adapters) > 1:
            raise UsageError(
                f"--model=vllm:{self.argument}: an adapter, and `adapters` names another: vLLM applies one"
            )
        from medvqa.backends.hf import prompting
        from medvqa.backends.vllm import starting

        with ThreadPoolExecutor(1) as digesting:
            digests = digesting.submit(self._adapted.digests, code=options.trust_remote_code)
            self._watcher = Watcher()
            try:
                self._processor = starting.processor(self._adapted, options)
                self._writer = prompting.PromptWriter(self._processor, options.of_prompts)
                self._sampling("mc", Prompt("")), self._sampling("ff", Prompt(""))
                self._thread = EngineThread(lambda: starting.engine(self._adapted, options), starting.refusals())
                self._lora = starting.lora(self._adapted)
                self._facts = starting.facts(self._thread.engine)
                self._digests = digests.result()
            except BaseException:
                self.close()
                raise
        # Two threads cannot share a tokenizer.
        self._writing = threading.Lock()
        self._callers = ThreadPoolExecutor(self.concurrency, thread_name_prefix="medvqa-vllm-prompts")

    def about(self) -> dict[str, Any]:
        """The model's entry in run.json."""
        return {
            "checkpoint": str(self._adapted.base.folder),
            "revision": self._adapted.base.revision,
            **({"adapters": [str(one.folder) for one in self._adapted.adapters]} if self._adapted.adapters else {}),
            "digests": self._digests,
            "settings": self._settings(),
            "options": asdict(self.options),
        }

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt by its technique; AnswerError if it cannot be written, shown or scored."""
        if len(prompts) == 1 or self._callers is None:
            return [self._answer(prompt) for prompt in prompts]
        return list(self._callers.map(self._answer, prompts))

    def close(self) -> None:
        """End the engine with its threads and processes."""
        if self._callers is not None:
            self._callers.shutdown(wait=False, cancel_futures=True)
        if self._thread is not None:
            self._thread.close()
            self._thread = None
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None

    def _answer(self, prompt: Prompt) -> Answer | AnswerError:
        try:
            draft = self._draft(prompt)
            if prompt.technique in ("gd", "ps"):
                return self._scored(prompt, draft)
            (output,) = self._ask([(draft.after(), self._sampling(prompt.technique, prompt))])
        except (AnswerError, DataError) as error:
            return AnswerError(str(error))
        (written,) = output.outputs
        usage = {"input": len(output.prompt_token_ids), "output": len(written.token_ids)}
        return Answer(written.text, finish=written.finish_reason or "", usage=usage)

    def _draft(self, prompt: Prompt) -> _EnginePrompt:
        """Write a prompt and decode its images."""
        if prompt.max_tokens == 0:
            raise AnswerError("a checkpoint needs a limit of tokens, lest it writes for ever")
        with self._writing:
            written = self._writer.write(prompt)
            text = self._writer.open(written.text) if prompt.technique in ("gd", "ps") else written.text
            tokenizer = self._processor.tokenizer
            ids = tokenizer(text, add_special_tokens=self._writer.special(text))["input_ids"]
        token = self._writer.image_token
        # The engine takes a placeholder without an image for text.
        if token and text.count(token) != len(written.images):
            places = text.count(token)
            raise AnswerError(f"the written prompt has {len(written.images)} images and {places} places for them")
        return _EnginePrompt(text, ids, [image.pil() for image in written.images])

    def _sampling(self, technique: str, prompt: Prompt) -> Any:
        """The sampling parameters of a prompt that is answered in words."""
        from vllm import SamplingParams

        options = self.options
        settings = options.sampling(technique)
        if options.samples(technique):
            settings["seed"] = _seed(options.seed, prompt)
        try:
            return SamplingParams(max_tokens=prompt.max_tokens or options.own_tokens, **settings)
        except (TypeError, ValueError) as error:
            raise UsageError(f"`generation` in the options: {error}") from None

    def _scored(self, prompt: Prompt, draft: _EnginePrompt) -> Answer | AnswerError:
        options, count, scores = self._scores(prompt, draft)
        values: dict[str, float] = {}
        for key, tokens in zip(prompt.options, options, strict=True):
            steps = [scores.get((*tokens[:place], token)) for place, token in enumerate(tokens)]
            if None not in steps:
                values[key] = math.fsum(step for step in steps if step is not None) / len(tokens)
        if prompt.technique == "ps" and len(values) < len(prompt.options):
            return AnswerError("vLLM told no log-probabilities of some tokens of the options")
        if not all(map(math.isfinite, values.values())):
            return AnswerError(f"the model gave log-probabilities that are no numbers: {list(values.values())}")
        return Answer("", values, usage={"input": count, "output": sum(map(len, options))})

    def _scores(self, prompt: Prompt, draft: _EnginePrompt) -> tuple[list[list[int]], int, _Scores]:
        """The tokens of each option, the number of the prompt's tokens, and the options' scores."""
        with self._writing:
            options = self._writer.options(prompt, draft.text, draft.ids)
        scores, read = self._next(draft, {(): {tokens[0] for tokens in options}})
        with self._writing:
            # The engine may have added to the prompt's end, as the model's processor does.
            known = self._writer.options(prompt, draft.text, read)
        if known != options:
            options = known
            scores, read = self._next(draft, {(): {tokens[0] for tokens in options}})
        following: dict[tuple[int, ...], set[int]] = {}
        for tokens in options:
            for place in range(1, len(tokens)):
                following.setdefault(tuple(tokens[:place]), set()).add(tokens[place])
        if following:
            scores |= self._next(draft, following)[0]
        return options, len(read), scores

    def _next(
        self, draft: _EnginePrompt, following: Mapping[tuple[int, ...], Collection[int]]
    ) -> tuple[_Scores, Sequence[int]]:
        """Log-probabilities of next tokens by the tokens before them, and the tokens of the first prompt that was read.

        The next tokens are asked for by name: the likeliest twenty seldom hold all.
        """
        from vllm import SamplingParams

        parts = [
            (before, named[start : start + MAX_SCORED])
            for before, named in ((before, sorted(tokens)) for before, tokens in following.items())
            for start in range(0, len(named), MAX_SCORED)
        ]
        outputs = self._ask(
            [
                (draft.after(before), SamplingParams(temperature=0.0, max_tokens=1, logprob_token_ids=named))
                for before, named in parts
            ]
        )
        scores: _Scores = {}
        for (before, named), output in zip(parts, outputs, strict=True):
            if before and tuple(output.prompt_token_ids[-len(before) :]) != before:
                raise AnswerError("vLLM adds to the prompt's end, so that it cannot score texts after it")
            told = (output.outputs[0].logprobs or [{}])[0]
            scores |= {(*before, token): told[token].logprob for token in named if token in told}
        return scores, outputs[0].prompt_token_ids

    def _ask(self, asked: Sequence[tuple[Any, Any]]) -> list[Any]:
        if self._thread is None:
            raise AnswerError(CLOSED)
        return self._thread.ask(asked, self._lora)

    def _settings(self) -> dict[str, Any]:
        """The effective settings, besides files, that can change an answer."""
        options = self.options
        return {
            **self._facts,
            "form": self._writer.form,
            "raw": options.raw if self._writer.form == "raw" else None,
            "system": options.system,
            "lead": options.lead,
            "image_token": options.image_token,
            "generation": options.sampling("mc"),
            "ff_generation": options.sampling("ff"),
            "max_new_tokens": options.own_tokens,
            "gpus": options.gpus,
            "mm_processor_kwargs": options.mm_processor_kwargs,
            "enable_prefix_caching": options.enable_prefix_caching,
            "batch_invariant": options.batch_invariant,
            "engine": options.engine,
            "seed": options.seed,
        }


def _seed(seed: int, prompt: Prompt) -> int:
    """The seed of a prompt, by its question and sample number alone, so that no order of prompts changes an answer."""
    names = [seed, prompt.benchmark, prompt.item, prompt.sample]
    return int.from_bytes(hashlib.sha256(json.dumps(names).encode()).digest()[:4], "big")


@contextmanager
def _named() -> Iterator[None]:
    """Let messages about a checkpoint name the model as it was typed."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error).replace("--model=hf:", "--model=vllm:")) from None
