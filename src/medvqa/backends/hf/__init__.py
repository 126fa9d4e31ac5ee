"""Checkpoints in the format of transformers, on a GPU or the CPU: images and text in, text out.

Needs the extra `hf`. One class runs every model that transformers' AutoProcessor and AutoModelForImageTextToText load;
their differences are data (`HFOptions`).
"""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from medvqa.backends.hf import adapting, checkpoint
from medvqa.backends.hf.checkpoint_backend import CheckpointBackend
from medvqa.backends.hf.checkpoint_options import HFOptions
from medvqa.items import Answer, AnswerError, DataError, Image, Prompt, Technique

__all__ = ["HF", "HFOptions"]

BATCH_SIZES: Mapping[str, int] = {"cpu": 8, "mps": 8, "cuda": 32}
"""Default number of prompts in a batch; the engine halves a batch that does not fit."""
PIXELS = frozenset(
    {
        "size",
        "crop_size",
        "do_resize",
        "do_center_crop",
        "do_image_splitting",
        "max_image_size",
        "min_pixels",
        "max_pixels",
        "crop_to_patches",
        "min_patches",
        "max_patches",
        "do_pan_and_scan",
        "image_grid_pinpoints",
        "max_image_tiles",
        "do_pad",
        "resample",
        "patch_size",
        "merge_size",
    }
)
"""Settings of an image processor that limit the pixels a model sees; recorded if present."""
DECODERS = 4
"""Threads that decode images."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Prompts of a batch that run together: their places in it, and the processor's tensors.

    `options`: tokens of each scored option, by prompt. `max_tokens`: the limit of all of them.
    """

    technique: Technique
    max_tokens: int | None
    places: list[int]
    prompts: list[Prompt]
    inputs: Mapping[str, Any]
    options: list[list[list[int]]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """A processed batch: parts, and errors by place for prompts that cannot be asked."""

    parts: list[_Part]
    errors: dict[int, AnswerError]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A written prompt with its decoded images."""

    place: int
    prompt: Prompt
    text: str
    images: list[Any]


class HF(CheckpointBackend):
    """`hf:FOLDER` or `hf:ORG/NAME`: a checkpoint in memory, or a LoRA adapter with its base."""

    Options = HFOptions
    options: HFOptions
    batch_size: int | None = None
    """The configured number, else one that suits the device, known after `load()`."""
    _started = False

    @property
    def resources(self) -> Mapping[str, float]:
        """The GPUs of one copy, unless it runs on the CPU or a config says otherwise."""
        return {} if self._resources is None and self.options.device in ("cpu", "mps") else super().resources

    @resources.setter
    def resources(self, value: Mapping[str, float]) -> None:
        self._resources = value

    def load(self) -> None:
        """Load the checkpoint. UsageError as for `check`, and if transformers cannot load it."""
        self.check()
        from medvqa.backends.hf import asking, loading, prompting

        options = self.options
        self._adapted = adapting.obtain(self.argument, options)
        self._checkpoint = self._adapted.base
        self._started = True
        self._decoders = ThreadPoolExecutor(DECODERS, thread_name_prefix="medvqa-images")
        # The processor runs in its own thread, so that the next batch is processed while one is answered.
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="medvqa-processor")
        self._ahead: deque[tuple[Sequence[Prompt], Future[_Batch]]] = deque(maxlen=2)
        digests = self._decoders.submit(self._adapted.digests, code=options.trust_remote_code)
        try:
            self._loaded = loading.load(self._adapted, options)
            self._writer = prompting.PromptWriter(self._loaded.processor, options)
            self._digests = digests.result()
            self._hub_names = self._checkpoint.hub_names()
        except BaseException:
            self.close()
            raise
        self._asker = asking.CheckpointAsker(self._loaded)
        self.batch_size = options.batch_size or BATCH_SIZES[self._loaded.device]

    def check(self) -> None:
        """Raise UsageError for problems visible without loading: packages, folder, pickles, remote code."""
        adapting.check(self.argument, self.options)

    def preflight(self) -> None:
        """Raise UsageError for a repository whose weights are neither cached nor available from the hub."""
        adapting.preflight(self.argument, self.options)

    def draws(self) -> bool:
        """Whether the config samples; the checkpoint's own generation config is ignored."""
        settings = self.options.generation, self.options.ff_generation
        return any(bool(of_technique.get("do_sample")) for of_technique in settings)

    def unsampled(self) -> Collection[str]:
        """Techniques whose settings do not sample."""
        mc, ff = self.options.generation, {**self.options.generation, **self.options.ff_generation}
        return [name for name, settings in (("mc", mc), ("ff", ff)) if not settings.get("do_sample")]

    def places(self) -> tuple[str, ...] | None:
        """The devices of each copy, as values of CUDA_VISIBLE_DEVICES; None without a GPU.

        () if one copy needs more GPUs than exist.
        """
        from medvqa.backends.hf import loading

        options = self.options
        gpus = loading.visible() if options.device in ("auto", "cuda", "map") else []
        return checkpoint.places(gpus, options) if gpus else None

    def size(self) -> int | None:
        """Bytes of one copy's weights once loaded; None for a repository on the hub."""
        argument, options = self.argument, self.options
        if checkpoint.local(argument) is None:
            return None
        # The precision of "auto" depends on the GPU, which only torch knows.
        torch = options.dtype == "auto" and find_spec("torch") is not None
        return adapting.size(argument, options, gpu=torch and self.places() is not None)

    def memory(self, place: str) -> int | None:
        """Total bytes on the GPUs of a place, by the driver; None if it does not say."""
        arguments = ("--query-gpu=memory.total", "--format=csv,noheader,nounits", f"--id={place}")
        try:
            process = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603, S607
            return sum(int(line) * 2**20 for line in process.stdout.split())
        except (OSError, subprocess.SubprocessError, ValueError):
            return None

    def about(self) -> dict[str, Any]:
        """The model's entry in run.json."""
        stored, devices = self._checkpoint.quantised(), self._devices()
        model, processor, adapters = self._loaded.model, self._loaded.processor, self._adapted.adapters
        return {
            "checkpoint": str(self._checkpoint.folder),
            "revision": self._checkpoint.revision,
            "digests": self._digests,
            **({"digests_by_hub": self._hub_names} if self._hub_names else {}),
            **({"adapters": [str(adapter.folder) for adapter in adapters]} if adapters else {}),
            "parameters": model.num_parameters(),
            "model": type(model).__name__,
            "processor": type(processor).__name__,
            "devices": devices,
            **({"placement": f"layers over {len(devices)} GPUs, one after another"} if len(devices) > 1 else {}),
            **({} if stored is None else {"quantised": str(stored)}),
            "settings": self._settings(),
            "options": asdict(self.options),
        }

    def prepare(self, prompts: Sequence[Prompt]) -> None:
        """Start to decode and process the next batch in the background; returns at once."""
        self._ahead.append((prompts, self._maker.submit(self._made, prompts)))

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Answer each prompt by its technique; AnswerError if it cannot be written, shown or scored."""
        return self.compute(prompts)()

    def compute(self, prompts: Sequence[Prompt]) -> Callable[[], list[Answer | AnswerError]]:
        """Run the model on prompts; the returned function decodes the texts of their answers."""
        drafted = next((ahead for ahead in self._ahead if _same(ahead[0], prompts)), None)
        if drafted is not None:
            self._ahead.remove(drafted)
        batch = (self._maker.submit(self._made, prompts) if drafted is None else drafted[1]).result()
        rests = [(part, self._asked(part)) for part in batch.parts]

        def finished() -> list[Answer | AnswerError]:
            answers: dict[int, Answer | AnswerError] = dict(batch.errors)
            for part, rest in rests:
                answers.update(zip(part.places, rest(), strict=True))
            return [answers[place] for place in range(len(prompts))]

        return finished

    def close(self) -> None:
        """End the threads."""
        if not self._started:
            return
        self._maker.shutdown(wait=False, cancel_futures=True)
        self._decoders.shutdown(wait=False, cancel_futures=True)

    def _asked(self, part: _Part) -> Callable[[], Sequence[Answer | AnswerError]]:
        """Run the model on a part of a batch; the returned function makes its answers."""
        read = part.inputs["attention_mask"].sum(dim=1).tolist()
        if part.technique in ("mc", "ff"):
            self._seed(part)
            continued = self._asker.generate(part.inputs, self._generation(part.technique), part.max_tokens)
            return lambda: [
                Answer(one.text, finish="stop" if one.ended else "length", usage={"input": count, "output": one.tokens})
                for one, count in zip(self._asker.decoded(continued), read, strict=True)
            ]
        if part.technique == "gd":
            letters = [[tokens[0] for tokens in options] for options in part.options]
            scores = self._asker.next_token(part.inputs, letters)
        else:
            scores = self._asker.likelihoods(part.inputs, part.options)
        return lambda: [
            _scored(prompt, values, {"input": count, "output": sum(map(len, options))})
            for prompt, values, count, options in zip(part.prompts, scores, read, part.options, strict=True)
        ]

    def _generation(self, technique: Technique) -> Any:
        """The generation config of a technique."""
        config = self._loaded.model.generation_config
        if technique != "ff" or not self.options.ff_generation:
            return config
        import transformers

        return transformers.GenerationConfig(**{**config.to_dict(), **self.options.ff_generation})

    def _seed(self, part: _Part) -> None:
        """Seed sampling from the config's seed, the sample numbers and the questions of the batch."""
        if any(prompt.sample for prompt in part.prompts):
            import torch

            names = [(prompt.benchmark, prompt.item, prompt.sample) for prompt in part.prompts]
            seed = hashlib.sha256(json.dumps([self.options.seed, names]).encode()).digest()
            torch.manual_seed(int.from_bytes(seed[:8], "big", signed=True))

    # --- called in the processor's thread -----------------------------------------------------------------

    def _made(self, prompts: Sequence[Prompt]) -> _Batch:
        """Write, decode and tokenize prompts; group them by technique, limit and number of images.

        Not every model masks the images that pad a prompt with fewer images.
        """
        shown = {image for prompt in prompts for image in _images(prompt)}
        decoded = dict(zip(shown, self._decoders.map(_decoded, shown), strict=True))
        errors: dict[int, AnswerError] = {}
        groups: dict[tuple[str, int | None, int, bool], list[_Draft]] = {}
        for place, prompt in enumerate(prompts):
            try:
                if prompt.max_tokens == 0:
                    raise AnswerError("a checkpoint needs a limit of tokens, lest it writes for ever")
                written = self._writer.write(prompt)
                pictures = [_usable(decoded[image]) for image in written.images]
            except AnswerError as error:
                errors[place] = error
                continue
            scored = prompt.technique in ("gd", "ps")
            text = self._writer.open(written.text) if scored else written.text
            kind = prompt.technique if scored or self.options.ff_generation else "mc"
            draft = _Draft(place, prompt, text, pictures)
            limit = None if scored else prompt.max_tokens
            groups.setdefault((kind, limit, len(pictures), self._writer.special(text)), []).append(draft)
        parts = [self._part(drafts, errors) for drafts in groups.values()]
        return _Batch([part for part in parts if part is not None], errors)

    def _part(self, drafts: list[_Draft], errors: dict[int, AnswerError]) -> _Part | None:
        inputs = self._processed(drafts)
        technique = drafts[0].prompt.technique
        if technique not in ("gd", "ps"):
            limit = drafts[0].prompt.max_tokens
            return _Part(technique, limit, [one.place for one in drafts], [one.prompt for one in drafts], inputs, [])
        options: list[list[list[int]]] = []
        kept = []
        for row, draft in enumerate(drafts):
            ids = inputs["input_ids"][row][inputs["attention_mask"][row] > 0].tolist()
            try:
                options.append(self._tokens(draft, ids))
                kept.append(draft)
            except AnswerError as error:
                errors[draft.place] = error
        if not kept:
            return None
        if len(kept) < len(drafts):
            inputs = self._processed(kept)
        return _Part(technique, None, [one.place for one in kept], [one.prompt for one in kept], inputs, options)

    def _processed(self, drafts: Sequence[_Draft]) -> Mapping[str, Any]:
        inputs: Mapping[str, Any] = self._loaded.processor(
            text=[draft.text for draft in drafts],
            images=[draft.images for draft in drafts] if drafts[0].images else None,
            padding=True,
            return_tensors="pt",
            add_special_tokens=self._writer.special(drafts[0].text),
            **self.options.processor,
        )
        return self._asker.staged(padded_left(inputs))

    def _tokens(self, draft: _Draft, ids: Sequence[int]) -> list[list[int]]:
        """The tokens of each option of a scored prompt."""
        if self._loaded.encodes:
            raise AnswerError(
                "a model with an encoder and a decoder cannot score options here; ask it by technique 'mc'"
            )
        return self._writer.options(draft.prompt, draft.text, ids)

    # --- what is recorded ---------------------------------------------------------------------------------

    def _devices(self) -> list[str]:
        import torch

        used = sorted({str(parameter.device) for parameter in self._loaded.model.parameters()})
        return [f"{name} ({torch.cuda.get_device_name(name)})" if name.startswith("cuda") else name for name in used]

    def _settings(self) -> dict[str, Any]:
        """The effective settings, besides files, that can change an answer."""
        import torch
        import transformers

        model, options = self._loaded.model, self.options
        pixels = self._loaded.processor.image_processor.to_dict()
        return {
            "torch": torch.__version__.partition("+")[0],
            "transformers": transformers.__version__,
            "device": self._loaded.device,
            "dtype": str(model.dtype).removeprefix("torch."),
            "attention": model.config._attn_implementation,
            "pixels": {
                "backend": self._loaded.backend,
                "processor": type(self._loaded.processor.image_processor).__name__,
                **{name: value for name, value in sorted(pixels.items()) if name in PIXELS and value is not None},
                **options.processor,
            },
            "form": self._writer.form,
            "raw": options.raw if self._writer.form == "raw" else None,
            "system": options.system,
            "lead": options.lead,
            "generation": model.generation_config.to_diff_dict(),
            **({"ff_generation": options.ff_generation} if options.ff_generation else {}),
            "seed": options.seed,
            **({"chat_template": options.chat_template} if options.chat_template else {}),
            **({"quantization": [options.quantization, version("bitsandbytes")]} if options.quantization else {}),
            **(adapting.settings(model, options) if self._adapted.adapters else {}),
        }


def padded_left(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with all padding of a row before its first token.

    Some processors put image tokens before the padded text. Padding between the two would shift their positions.
    """
    mask = inputs["attention_mask"]
    if not bool((mask.diff(dim=1) < 0).any()):
        return dict(inputs)
    order = mask.argsort(dim=1, stable=True)
    return {
        name: value.gather(1, order) if name in ("input_ids", "attention_mask", "token_type_ids") else value
        for name, value in inputs.items()
    }


def _images(prompt: Prompt) -> list[Image]:
    return [*(image for shot in prompt.shots for image in shot.images), *prompt.images]


def _same(prompts: Sequence[Prompt], those: Sequence[Prompt]) -> bool:
    return len(prompts) == len(those) and all(one is other for one, other in zip(prompts, those, strict=True))


def _decoded(image: Image) -> Any:
    """The picture, or its error, so that other prompts' pictures are not lost with it."""
    try:
        return image.pil()
    except DataError as error:
        return error


def _usable(picture: Any) -> Any:
    if isinstance(picture, DataError):
        raise AnswerError(str(picture))
    return picture


def _scored(prompt: Prompt, values: Sequence[float], usage: Mapping[str, float]) -> Answer | AnswerError:
    if not all(map(math.isfinite, values)):
        return AnswerError(f"the model gave log-probabilities that are no numbers: {list(values)}")
    return Answer("", dict(zip(prompt.options, values, strict=True)), usage=usage)
