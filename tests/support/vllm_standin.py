"""A stand-in of vLLM's interface, as far as the backend uses it: a module `vllm` whose engine computes by rules."""

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest


class VLLMValidationError(Exception):
    pass


class SamplingParams:
    def __init__(
        self,
        max_tokens: int,
        temperature: float = 1.0,
        seed: int | None = None,
        logprob_token_ids: Sequence[int] = (),
        top_p: float = 1.0,
    ) -> None:
        if len(logprob_token_ids) > 128:
            raise ValueError("at most 128")
        self.max_tokens, self.temperature, self.seed, self.top_p = max_tokens, temperature, seed, top_p
        self.logprob_token_ids = list(logprob_token_ids)


def logprob(prompt: Sequence[int], token: int) -> float:
    """The log-probability of a token after a prompt."""
    return -((sum(prompt) * 31 + token * 17) % 101) / 10 - 0.1


@dataclass
class Engine:
    """Computes a request in `steps` steps."""

    model_config: Any
    vllm_config: Any
    renderer: Any = None
    engine_core: Any = None
    steps: int = 2
    most: int = 0
    """The most requests in one step."""
    poison: str = ""
    """A request whose prompt's tokens are this many, as text, fails its step."""
    stubborn: bool = False
    """Whether `abort_request` fails."""
    held: threading.Event | None = None
    """Steps wait for it."""
    silent: frozenset[int] = frozenset()
    """Tokens whose log-probabilities are not told."""
    aborted: list[str] = field(default_factory=list)
    seen: list[tuple[Any, SamplingParams]] = field(default_factory=list)
    running: dict[str, list[Any]] = field(default_factory=dict)
    threads: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.renderer = SimpleNamespace(render_cmpl=self.render)
        self.engine_core = SimpleNamespace(shutdown=lambda: LLM.ended.append(self))

    def render(self, prompts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        if any(len(prompt["prompt_token_ids"]) > 900 for prompt in prompts):
            raise VLLMValidationError("This model's maximum context length is 900 tokens.\nReduce it")
        return list(prompts)

    def add_request(self, request_id: str, prompt: Any, params: Any, *, lora_request: Any = None) -> str:
        assert request_id not in self.running
        self.threads.add(threading.current_thread().name)
        self.seen.append((prompt, params))
        self.running[request_id] = [prompt, params, self.steps]
        return f"{request_id}-internal"

    def step(self) -> list[Any]:
        if self.held is not None:
            self.held.wait(10)
        self.threads.add(threading.current_thread().name)
        self.most = max(self.most, len(self.running))
        outputs = []
        for request_id, request in list(self.running.items()):
            prompt, params, left = request
            if self.poison and str(len(prompt["prompt_token_ids"])) == self.poison:
                raise OverflowError("out of range\nin the middle of a step")
            request[2] = left - 1
            finished = request[2] == 0
            if finished:
                del self.running[request_id]
            outputs.append(self.output(request_id, prompt, params, finished=finished))
        return outputs

    def output(self, request_id: str, prompt: Any, params: Any, *, finished: bool) -> Any:
        ids = prompt["prompt_token_ids"]
        told = {
            token: SimpleNamespace(logprob=logprob(ids, token))
            for token in params.logprob_token_ids
            if token not in self.silent
        }
        shown = len(prompt.get("multi_modal_data", {}).get("image", ()))
        text = f"{sum(place * token for place, token in enumerate(ids))} {shown} {params.seed}"
        reason = "length" if params.max_tokens < 5 else "stop"
        written = SimpleNamespace(text=text, token_ids=[1, 2, 3], finish_reason=reason, logprobs=[told])
        return SimpleNamespace(request_id=request_id, finished=finished, prompt_token_ids=ids, outputs=[written])

    def has_unfinished_requests(self) -> bool:
        return bool(self.running)

    def abort_request(self, request_ids: Sequence[str]) -> None:
        if self.stubborn:
            raise RuntimeError("dead")
        self.aborted += request_ids
        for request_id in request_ids:
            self.running.pop(request_id, None)

    def add_lora(self, request: Any) -> bool:
        return True

    def collective_rpc(self, function: Any) -> list[Any]:
        return [LLM.left_out]


class LLM:
    made: ClassVar[list["LLM"]] = []
    ended: ClassVar[list[Engine]] = []
    left_out: ClassVar[list[str]] = []

    def __init__(self, **arguments: Any) -> None:
        if arguments.get("quantization") == "none-such":
            raise ValueError("1 validation error\nunknown quantization")
        self.arguments = arguments
        model = SimpleNamespace(dtype="torch.float32", quantization=None, max_model_len=900)
        cache = SimpleNamespace(cache_config=SimpleNamespace(cache_dtype="auto"))
        self.llm_engine = Engine(model, cache)
        LLM.made.append(self)


def install(patch: pytest.MonkeyPatch) -> type[LLM]:
    """Make `import vllm` give the stand-in; return its class LLM, which records what it made and ended."""
    for name, members in {
        "vllm": {"LLM": LLM, "SamplingParams": SamplingParams, "__version__": "0.0.standin"},
        "vllm.exceptions": {"VLLMValidationError": VLLMValidationError},
        "vllm.platforms": {"current_platform": SimpleNamespace(device_type="cpu")},
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": lambda *arguments: arguments},
    }.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(members)
        patch.setitem(sys.modules, name, module)
    for held in (LLM.made, LLM.ended, LLM.left_out):
        held.clear()
    return LLM
