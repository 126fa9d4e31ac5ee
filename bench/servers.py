"""The backend `openai` against a bare asyncio client, over the same requests to a local server.

    python bench/servers.py --requests 400 --seconds 0.5

The server (a process of its own) answers each request after `--seconds`, as many at once as are sent. The bare
client has its messages ready and keeps as many requests in flight; the backend decodes and encodes an image for
each. Both are timed in turn, `--rounds` times each; the ratio is of the medians.

Then it prints the CPU time of a question with a photograph of `--side` x `--side` pixels that is new, and with one that
an earlier question showed (medians of `--rounds` runs of 32 questions, threads included).
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
import numpy as np
import openai
import PIL.Image

from medvqa.backend import loaded
from medvqa.backends.openai import OpenAI, OpenAIOptions
from medvqa.items import Answer, Image, Prompt

PHOTOGRAPHS = 32
BODY = (
    b'{"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}], '
    b'"usage": {"prompt_tokens": 1, "completion_tokens": 1}}'
)


async def serve(seconds: float) -> None:
    """Answer on a free port, which is printed."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while header := await reader.readuntil(b"\r\n\r\n"):
            lines = header.decode().lower().split("\r\n")
            length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
            await reader.readexactly(length)
            await asyncio.sleep(seconds)
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
            writer.write(head.encode() + BODY)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def bare(url: str, messages: list[object], in_flight: int) -> float:
    """Seconds for all requests with the package's client alone."""
    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    waiting = iter(messages)

    async def work() -> None:
        for message in waiting:
            await client.chat.completions.create(model="x", messages=message, max_tokens=32, temperature=0)  # type: ignore[call-overload]

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    seconds = time.perf_counter() - start
    await client.close()
    return seconds


def backend(url: str, prompts: list[Prompt], in_flight: int) -> float:
    """Seconds for all prompts with the backend."""
    model = loaded(OpenAI("x", OpenAIOptions(base_url=url, concurrency=in_flight)))
    answers, seconds, _ = harness.timed(lambda: model.generate(prompts))
    assert all(isinstance(answer, Answer) for answer in answers)
    model.close()
    return seconds


def photograph(side: int, noise: float, seed: int) -> PIL.Image.Image:
    """Gradients, with noise as of a sensor; one without noise packs best."""
    rows, columns = np.mgrid[0:side, 0:side]
    bands = [128 + 80 * np.sin(columns / 97 + band + seed) + 40 * np.cos(rows / 61 + band * 2) for band in range(3)]
    grain = np.random.default_rng(seed).normal(0, noise, (side, side, 3))
    return PIL.Image.fromarray(np.clip(np.stack(bands, -1) + grain, 0, 255).astype(np.uint8))


def cpu_costs(url: str, images: list[Image], rounds: int) -> tuple[float, float]:
    """Milliseconds of CPU of a question with a new image, and with one that an earlier question showed."""
    prompts = [Prompt("Question?", (image,)) for image in images]
    costs: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        model = loaded(OpenAI("x", OpenAIOptions(base_url=url, concurrency=PHOTOGRAPHS)))
        model.generate([Prompt("Question?")] * PHOTOGRAPHS)  # imports, connections
        for cost in costs:
            start = time.process_time()
            answers = model.generate(prompts)
            cost.append((time.process_time() - start) / len(prompts) * 1000)
            assert all(isinstance(answer, Answer) for answer in answers)
        model.close()
    return statistics.median(costs[0]), statistics.median(costs[1])


def print_cpu_costs(url: str, side: int, rounds: int) -> None:
    """Print a row for each kind of file."""
    print(f"\nCPU of a question, photograph of {side} x {side}")
    print(f"{'file':28} {'KB':>6} {'new ms':>8} {'repeated ms':>12}")
    for noise in (0, 6, 15):
        for kind, how in (("JPEG", {"quality": 90}), ("PNG", {})):
            with tempfile.TemporaryDirectory() as folder:
                paths = [Path(folder, f"{seed}.{kind.lower()}") for seed in range(PHOTOGRAPHS)]
                for seed, path in enumerate(paths):
                    photograph(side, noise, seed).save(path, kind, **how)
                new, repeated = cpu_costs(url, [Image(path.name, str(path)).pinned() for path in paths], rounds)
                size = statistics.mean(path.stat().st_size for path in paths) / 1000
                print(f"{kind + ', noise of ' + str(noise):28} {size:6.0f} {new:8.1f} {repeated:12.2f}", flush=True)


def main() -> None:
    """Print a row for 8 and one for 64 in flight, and one for each kind of photograph."""
    options = harness.options(__doc__, requests=400, seconds=0.5, pixels=224, side=1024, rounds=3, serve=False)
    if options.serve:
        asyncio.run(serve(options.seconds))
        return
    command = [sys.executable, __file__, "--serve", "--seconds", str(options.seconds)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        # Smooth pixels, which a PNG packs about as well as a photograph.
        ramp = np.add.outer(np.arange(options.pixels), np.arange(options.pixels)) % 256
        path = Path(folder, "x.png")
        PIL.Image.fromarray(ramp.astype(np.uint8)).convert("RGB").save(path)
        prompts = [Prompt(f"Question {n}?", (Image("x.png", str(path)),)) for n in range(options.requests)]
        model = loaded(OpenAI("x", OpenAIOptions(base_url=url)))
        messages: list[object] = [model._messages(prompt) for prompt in prompts]
        model.close()
        print(f"{'in flight':>9} {'ideal s':>8} {'bare s':>8} {'backend s':>10} {'ratio':>6}")
        for in_flight in (8, 64):
            count = min(options.requests, in_flight * 12)
            times = [
                (asyncio.run(bare(url, messages[:count], in_flight)), backend(url, prompts[:count], in_flight))
                for _ in range(options.rounds)
            ]
            alone, ours = (statistics.median(column) for column in zip(*times, strict=True))
            ideal = -(-count // in_flight) * options.seconds
            print(f"{in_flight:9} {ideal:8.2f} {alone:8.2f} {ours:10.2f} {ours / alone:6.3f}", flush=True)
        print_cpu_costs(url, options.side, options.rounds)
        server.terminate()


if __name__ == "__main__":
    main()
