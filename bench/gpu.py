"""Questions a second of a real model's size: bare loops of transformers and vLLM, and this package with both.

    python bench/gpu.py --size=qwen2.5-vl-7b --questions=512 --rounds=2 --vllm-python=vllm-env/bin/python
    python bench/gpu.py --tiny

Runs on the GPUs that are there, or on the CPU. `--size` is one of SIZES: the architecture of a published checkpoint
with random weights, made on the spot with a tokenizer of 600 tokens. No answer ends before `--tokens`. Each question
has an image of its own: a synthetic photograph of `--pixels` squared, as JPEG.

Rows are timed in turn, `--rounds` times, each in a process of its own, from the moment its model is loaded (with
workers, the first) to its last answer. "ratio" is the bare loop's time over the row's, the median of the rounds. The
bare loop is what one would write: batches in the order of the questions, decode, process, generate. With the technique
`ps`, both engines alone run the prompt again for each option, while `hf:` and `vllm:` share it.

Rows of vLLM run in the environment of `--vllm-python`, which holds `pytest-medvqa[vllm]`. A row that cannot run tells
why. Memory (summed over GPUs) and utilization (of the busiest GPU) come from nvidia-smi. `--folder` keeps the weights
for the next time (15 GB for 7B).
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

OPTIONS = {"A": "a benign naevus", "B": "a melanoma with an irregular border", "C": "keratosis", "D": "none of these"}
SPECIAL = ("<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
TEST = """
import pytest

@pytest.mark.vqa
def test_it(item, evaluate):
    evaluate(item)
"""
ENGINE = """
backend = "vllm"
argument = "{}"

[options]
images = 1
enable_prefix_caching = {}
engine = {{enforce_eager = {}}}
"""
"""A config of vLLM in process; on a CPU, compiling would take minutes."""
MARKS = """
import json, os, pathlib, time
from importlib import import_module
from medvqa import Backend

HERE, moments = pathlib.Path(__file__).parent, {}

def timed(load):
    def loaded(self):
        load(self)
        moments["loaded"] = time.time()
    return loaded

for kind in vars(import_module("medvqa.backends." + os.environ["BACKEND"])).values():
    if isinstance(kind, type) and issubclass(kind, Backend) and kind is not Backend:
        kind.load = timed(kind.load)

def pytest_runtest_logfinish():
    moments["end"] = time.time()

def pytest_sessionfinish():
    (HERE / f"moments-{os.getpid()}.json").write_text(json.dumps(moments))
"""
"""A conftest that writes when each process had loaded its model, and when its last test ended."""


WHOLE = [7, 15, 23, 31]
"""Layers of Qwen2.5-VL's vision tower that see the whole image."""


@dataclass(frozen=True)
class Size:
    """The architecture of a checkpoint: transformers' name, entries of its text and vision configs, and its patch."""

    model_type: str
    text: dict[str, Any]
    vision: dict[str, Any]
    patch: int = 14
    rope: dict[str, Any] = field(default_factory=lambda: {"mrope_section": [16, 24, 24]})


def _text(hidden: int, inner: int, layers: int, heads: int, shared: int, vocabulary: int, tied: bool) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 32768,
    }


def _windowed(out: int) -> dict[str, Any]:
    heads = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}
    return {**heads, "patch_size": 14, "out_hidden_size": out, "window_size": 112, "fullatt_block_indexes": WHOLE}


SIZES = {
    "tiny": Size(
        "qwen2_5_vl",
        {**_text(64, 128, 2, 2, 1, 1024, False), "max_position_embeddings": 4096},
        {
            **_windowed(64),
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 64,
            "num_heads": 2,
            "fullatt_block_indexes": [1],
        },
        rope={"mrope_section": [4, 6, 6]},
    ),
    "qwen2-vl-2b": Size(
        "qwen2_vl",
        _text(1536, 8960, 28, 12, 2, 151936, True),
        {"depth": 32, "embed_dim": 1280, "hidden_size": 1536, "mlp_ratio": 4, "num_heads": 16, "patch_size": 14},
    ),
    "qwen2.5-vl-3b": Size("qwen2_5_vl", _text(2048, 11008, 36, 16, 2, 151936, True), _windowed(2048)),
    "qwen2.5-vl-7b": Size("qwen2_5_vl", _text(3584, 18944, 28, 28, 4, 152064, False), _windowed(3584)),
    "qwen3-vl-8b": Size(
        "qwen3_vl",
        {**_text(4096, 12288, 36, 32, 8, 151936, False), "head_dim": 128},
        {
            "depth": 27,
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_heads": 16,
            "patch_size": 16,
            "out_hidden_size": 4096,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [8, 16, 24],
        },
        patch=16,
        rope={"mrope_section": [24, 20, 20], "mrope_interleaved": True},
    ),
}


def has_gpu() -> bool:
    """Whether torch sees a GPU."""
    import torch

    return bool(torch.cuda.is_available())


# --- what is asked ---------------------------------------------------------------------------------------------


def configuration(size: Size, tokens: Any) -> Any:
    """Return transformers' config of a size, with the numbers of a tokenizer's special tokens."""
    import transformers

    number = tokens.convert_tokens_to_ids
    ends = {"bos_token_id": None, "eos_token_id": tokens.eos_token_id, "pad_token_id": tokens.pad_token_id}
    rope = {"rope_type": "default", "rope_theta": 1000000.0, **size.rope}
    return transformers.AutoConfig.for_model(
        size.model_type,
        text_config={"model_type": f"{size.model_type}_text", **size.text, **ends, "rope_parameters": rope},
        vision_config=size.vision,
        tie_word_embeddings=size.text["tie_word_embeddings"],
        image_token_id=number("<|image_pad|>"),
        video_token_id=number("<|video_pad|>"),
        vision_start_token_id=number("<|vision_start|>"),
        vision_end_token_id=number("<|vision_end|>"),
    )


def write_checkpoint(folder: Path, size: Size) -> int:
    """Write a checkpoint with random weights as a user would find it; return its number of parameters."""
    import torch
    import transformers

    from support import tinies  # `harness` finds it

    tokens = tinies.tokenizer("<|im_end|>", "<|endoftext|>", *SPECIAL)
    config = configuration(size, tokens)
    gpu = has_gpu()
    torch.manual_seed(0)
    with torch.device("cuda" if gpu else "cpu"), torch.no_grad():
        kind: Any = transformers.AutoModelForImageTextToText
        model = kind.from_config(config, dtype=torch.bfloat16 if gpu else torch.float32)
        # Tokens beyond the tokenizer's and the end are never the likeliest, so that all answers are of one length.
        scores = model.get_output_embeddings().weight
        scores[len(tokens) :] = 0
        scores[tokens.eos_token_id] = 0
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=tokens.eos_token_id, pad_token_id=tokens.pad_token_id
    )
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    kind = transformers.models.qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil
    pixels = {"shortest_edge": 3136, "longest_edge": 12845056}
    kind(patch_size=size.patch, merge_size=2, size=pixels).save_pretrained(folder)
    template = tinies.CHATML.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    (folder / "chat_template.jinja").write_text(template)
    return sum(parameter.numel() for parameter in model.parameters())


def write_photograph(path: Path, side: int, seed: int) -> None:
    """Write a JPEG with soft shapes and the noise of a sensor."""
    import numpy as np
    import PIL.Image

    random = np.random.default_rng(seed)
    coarse = PIL.Image.fromarray(random.integers(0, 255, (12, 12, 3), np.uint8))
    soft = np.asarray(coarse.resize((side, side), PIL.Image.Resampling.BICUBIC), np.float32)
    noisy = (soft + random.normal(0, 6, soft.shape)).clip(0, 255)
    PIL.Image.fromarray(noisy.astype(np.uint8)).save(path, quality=90)


@dataclass(frozen=True)
class Questions:
    """What a bare loop gets: prompts of one technique with one image and the same options each."""

    model: str
    technique: str
    texts: list[str]
    images: list[str]
    options: list[str]
    tokens: int
    batch: int


def write_questions(folder: Path, asked: Questions, count: int, side: int) -> Questions:
    """Write the suite of a session, its questions and images into a folder; return the same for the bare loops."""
    (folder / "images").mkdir(parents=True)
    stems = [f"Is the lesion in the left lung, of case {number}, benign or malignant?" for number in range(count)]
    for number in range(count):
        write_photograph(folder / "images" / f"{number}.jpg", side, number)
    with open(folder / "questions.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "image", "question", *OPTIONS, "answer"])
        rows.writerows([f"q{n}", f"{n}.jpg", stem, *OPTIONS.values(), "A"] for n, stem in enumerate(stems))
    (folder / "asked.toml").write_text('file = "questions.csv"\nimages = "images"\n')
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(TEST)
    (folder / "models").mkdir()
    for name, caching in (("cached", "true"), ("uncached", "false")):
        eager = json.dumps(not has_gpu())
        (folder / "models" / f"{name}.toml").write_text(ENGINE.format(asked.model, caching, eager))
    (folder / "conftest.py").write_text(MARKS)
    listed = "\n".join(f"{letter}. {text}" for letter, text in OPTIONS.items())
    texts = [f"{stem}\n{listed}\nAnswer with the option's letter from the given choices directly." for stem in stems]
    asked = replace(asked, texts=texts, images=[str(folder / "images" / f"{n}.jpg") for n in range(count)])
    (folder / "asked.json").write_text(json.dumps(vars(asked)))
    return asked


# --- engines alone ---------------------------------------------------------------------------------------------


def _written(processor: Any, text: str) -> str:
    turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}
    prompt: str = processor.apply_chat_template([turn], add_generation_prompt=True, tokenize=False)
    return prompt


def _opened(path: str) -> Any:
    import PIL.Image

    with PIL.Image.open(path) as image:
        return image.convert("RGB")


def transformers_alone(asked: Questions) -> Callable[[], None]:
    """Load a checkpoint; return a plain loop over transformers."""
    import torch
    import transformers

    from medvqa.backends.hf import loading

    kind: Any = transformers.AutoModelForImageTextToText
    device = "cuda" if has_gpu() else "cpu"
    model = kind.from_pretrained(asked.model, dtype="auto").to(device).eval()
    # Without torchvision, transformers alone loads no processor that also reads videos.
    with loading.without_videos():
        processor: Any = transformers.AutoProcessor.from_pretrained(asked.model)

    def processed(texts: list[str], images: list[Any]) -> Any:
        made = processor(text=texts, images=images, padding=True, padding_side="left", return_tensors="pt")
        return made.to(device, model.dtype)

    @torch.inference_mode()
    def loop() -> None:
        for start in range(0, len(asked.texts), asked.batch):
            images = [[_opened(path)] for path in asked.images[start : start + asked.batch]]
            texts = [_written(processor, text) for text in asked.texts[start : start + asked.batch]]
            if asked.technique == "mc":
                inputs = processed(texts, images)
                new = model.generate(**inputs, max_new_tokens=asked.tokens, do_sample=False)
                processor.tokenizer.batch_decode(new[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            else:
                for option in asked.options:
                    inputs = processed([text + option for text in texts], images)
                    count = len(processor.tokenizer(option)["input_ids"])
                    steps = model(**inputs, logits_to_keep=count + 1).logits[:, :-1].log_softmax(-1)
                    steps.gather(2, inputs["input_ids"][:, -count:, None]).mean(1).tolist()

    return loop


def vllm_alone(asked: Questions) -> Callable[[], None]:
    """Load a checkpoint; return one call of vLLM's engine with all requests."""
    import transformers
    import vllm

    engine = vllm.LLM(model=asked.model, limit_mm_per_prompt={"image": 1}, enforce_eager=not has_gpu())
    processor: Any = transformers.AutoTokenizer.from_pretrained(asked.model)
    mc = asked.technique == "mc"
    limits = {"max_tokens": asked.tokens} if mc else {"max_tokens": 1, "prompt_logprobs": 0}
    wanted = vllm.SamplingParams(temperature=0, **limits)

    def loop() -> None:
        requests = [
            {"prompt": _written(processor, text) + option, "multi_modal_data": {"image": _opened(path)}}
            for text, path in zip(asked.texts, asked.images, strict=True)
            for option in ([""] if mc else asked.options)
        ]
        engine.generate(requests, wanted, use_tqdm=False)

    return loop


def alone(engine: str, folder: Path) -> None:
    """Time an engine alone, and write the moments of its loop as a session does."""
    asked = Questions(**json.loads((folder / "asked.json").read_text()))
    loop = {"transformers": transformers_alone, "vllm": vllm_alone}[engine](asked)
    loaded = time.time()
    loop()
    (folder / f"moments-{os.getpid()}.json").write_text(json.dumps({"loaded": loaded, "end": time.time()}))


# --- rows ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A way to ask: its title, and the arguments of Python; `backend` of a session, None for an engine alone."""

    title: str
    python: str
    arguments: tuple[str, ...]
    backend: str | None = None


@dataclass(frozen=True)
class Took:
    """Seconds of a row, and megabytes and percent of GPUs, None without nvidia-smi."""

    seconds: float
    megabytes: float | None
    percent: float | None


def rows(folder: Path, model: Path, technique: str, tokens: int, batch: int, vllm: str) -> list[Row]:
    """All rows of a technique; the first is the bare loop."""

    def session(title: str, named: str, backend: str, *spread: str) -> Row:
        what = (f"--model={named}", "--benchmark=asked.toml", f"--technique={technique}", "--fresh")
        limits = (f"--max-tokens={tokens}",) if technique == "mc" else ()
        sizes = (f"--batch-size={batch}",) if backend == "hf" else ()
        plain = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
        python = here if backend == "hf" else vllm
        return Row(" ".join([title, *spread]), python, (*plain, *what, *limits, *sizes, *spread), backend)

    here, script = sys.executable, str(Path(__file__).resolve())
    spreads = ((), ("-n 1",), ("-n 2",))
    again = [session("`vllm:` without prefix caching", "uncached", "vllm")] if technique == "ps" else []
    return [
        Row("bare loop of transformers", here, (script, "--alone=transformers", f"--folder={folder}")),
        *(session("`hf:`", f"hf:{model}", "hf", *spread) for spread in spreads),
        Row("vLLM alone", vllm, (script, "--alone=vllm", f"--folder={folder}")),
        *(session("`vllm:`", "cached", "vllm", *spread) for spread in spreads),
        *again,
    ]


def run(row: Row, folder: Path) -> Took | str:
    """Run a row to its end; a line that tells why, if it failed or its engine is absent."""
    if "vllm" in row.title.lower():
        absent = subprocess.run([row.python, "-c", "import vllm"], capture_output=True, text=True, check=False)
        if absent.returncode:
            return (absent.stderr.strip().splitlines() or ["vllm does not import"])[-1]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    own |= {"HF_HUB_OFFLINE": "1", "BACKEND": row.backend or ""}
    own["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[1] / "src"), own.get("PYTHONPATH")]))
    command, output = [row.python, *row.arguments], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with gpus() as samples:
        ended = subprocess.run(command, cwd=folder, env=own, text=True, check=False, **output)
    written = list(folder.glob("moments-*.json"))
    moments = [json.loads(path.read_text()) for path in written]
    for path in written:
        path.unlink()
    shutil.rmtree(folder / "reports", ignore_errors=True)
    if ended.returncode:
        lines = [line for line in ended.stdout.splitlines() if line.strip()]
        return next((line for line in lines if line.startswith("ERROR")), [f"exit code {ended.returncode}", *lines][-1])
    # The controller of workers loads no model.
    start = min(moment["loaded"] for moment in moments if "loaded" in moment)
    end = max(moment["end"] for moment in moments)
    return Took(end - start, *used(samples, start, end))


@dataclass(frozen=True)
class Sample:
    """What nvidia-smi says of a GPU at a moment."""

    time: float
    gpu: str
    megabytes: float
    percent: float


@contextmanager
def gpus() -> Iterator[list[Sample]]:
    """Yield a list that grows by what nvidia-smi says, twice a second; it stays empty without nvidia-smi."""
    samples: list[Sample] = []
    if shutil.which("nvidia-smi") is None:
        yield samples
        return
    query = ("--query-gpu=index,memory.used,utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=500")
    process = subprocess.Popen(["nvidia-smi", *query], stdout=subprocess.PIPE, text=True)

    def read() -> None:
        for line in process.stdout or ():
            gpu, *numbers = line.split(", ")
            if all(number.strip().isdecimal() for number in numbers):  # "[N/A]" on parts of a GPU
                samples.append(Sample(time.time(), gpu, *map(float, numbers)))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield samples
    finally:
        process.terminate()
        process.wait()
        reader.join()


def used(samples: Sequence[Sample], start: float, end: float) -> tuple[float | None, float | None]:
    """Return the sum over GPUs of their most memory, and the mean utilization of the busiest, between two moments."""
    within: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if start <= sample.time <= end:
            within[sample.gpu].append(sample)
    if not within:
        return None, None
    memory = sum(max(sample.megabytes for sample in each) for each in within.values())
    return memory, max(statistics.fmean(sample.percent for sample in each) for each in within.values())


def line(cells: Sequence[str]) -> None:
    """Print a row of a Markdown table."""
    print("| " + " | ".join(cells) + " |", flush=True)


def table(took: Sequence[tuple[Row, Sequence[Took | str]]], technique: str, pixels: int, count: int) -> None:
    """Print the rows of a technique and a size of images."""
    bare = took[0][1]
    for row, rounds in took:
        good = [one for one in rounds if isinstance(one, Took)]
        if len(good) < len(rounds):
            reason = next(one for one in rounds if isinstance(one, str))
            line([technique, str(pixels), row.title, "", "", "", "", reason.replace("|", "/")])
            continue
        compared = [
            theirs.seconds / own.seconds for theirs, own in zip(bare, good, strict=True) if isinstance(theirs, Took)
        ]
        ratio = f"{statistics.median(compared):.2f}" if compared else ""
        speed = count / statistics.median(one.seconds for one in good)
        memory = max((one.megabytes for one in good if one.megabytes is not None), default=None)
        busy = [one.percent for one in good if one.percent is not None]
        of_gpu = ["" if memory is None else f"{memory / 1e3:.1f}", f"{statistics.fmean(busy):.0f} %" if busy else ""]
        line([technique, str(pixels), row.title, f"{speed:.2f}", ratio, *of_gpu, ""])


def main() -> None:
    """Print a table."""
    import harness

    typed = harness.options(
        __doc__,
        size="qwen2.5-vl-7b",
        techniques=["mc", "ps"],
        pixels=[512, 1024],
        questions=512,
        batch=32,
        tokens=16,
        rounds=2,
        tiny=False,
        vllm_python=sys.executable,
        folder=None,
        alone="",
    )
    if typed.alone:
        alone(typed.alone, typed.folder)
        return
    if typed.tiny:
        typed.size, typed.pixels, typed.questions, typed.batch, typed.rounds, typed.tokens = "tiny", [64], 8, 4, 1, 4
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(typed.folder or scratch, typed.size).absolute()
        if not (model / "config.json").exists():
            count = write_checkpoint(model, SIZES[typed.size])
            print(f"{typed.size}: {count / 1e9:.2f} billion parameters\n")
        print(f"{typed.questions} questions, batches of {typed.batch}, {typed.tokens} new tokens")
        print(f"the median of {typed.rounds} rounds\n")
        heads = ["technique", "pixels", "", "questions/s", "ratio", "GPU memory, GB", "utilization", "why not"]
        line(heads)
        line(["---"] * len(heads))
        for technique in typed.techniques:
            for pixels in typed.pixels:
                folder = Path(scratch, f"{technique}-{pixels}")
                asked = Questions(str(model), technique, [], [], list(OPTIONS.values()), typed.tokens, typed.batch)
                write_questions(folder, asked, typed.questions, pixels)
                ways = rows(folder, model, technique, typed.tokens, typed.batch, typed.vllm_python)
                rounds = [[run(way, folder) for way in ways] for _ in range(typed.rounds)]
                table(list(zip(ways, zip(*rounds, strict=True), strict=True)), technique, pixels, typed.questions)


if __name__ == "__main__":
    main()
