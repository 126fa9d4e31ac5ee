"""Print the blocks of a page that Python writes, and what a reader must find in them, as JSON: `python written.py`."""

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from medvqa import benchmarks, report
from medvqa.benchmarks import folders
from medvqa.items import Answer, Benchmark, Result
from medvqa.protocols import rotation
from medvqa.report import bundle, html
from medvqa.report.bundle import failing, packing
from medvqa.report.bundle.pictures import Pictures
from support import pages


def made_results() -> list[Result]:
    """Hostile texts; questions of the phantom by two techniques, one in three samples, one with rotated options."""
    hostile = pages.hostile()[1]
    phantom = [result for result in pages.twice() if result.item.options][::9]
    one = phantom[0]
    return [
        *hostile,
        *phantom,
        replace(one, sample=2, answer=Answer("again " + 3000 * "long ", seconds=1.5, usage={"input": 7.0})),
        replace(one, sample=3, answer=None, score=replace(one.score, outcome="error", value=None, extracted=())),
        replace(phantom[1], variant="r2"),
    ]


def expected(result: Result, own: Mapping[str, Sequence[str]] | None = None) -> dict[str, object]:
    """A result as the page must have it; `own`: tags of its own, beside its item's."""
    shown, item, answer = rotation.result_shown(result), result.item, result.answer
    row = {
        "key": {
            "benchmark": item.benchmark,
            "item": item.id,
            "technique": result.technique,
            "variant": result.variant,
            "sample": result.sample,
        },
        "kind": item.kind,
        "text": item.question,
        "pair": item.pair_id,
        "answers": item.answers,
        "options": list(item.options.items()),
        "shown": list(shown.item.options.items()),
        "right": shown.item.answers,
        "extracted": shown.score.extracted,
        "outcome": shown.score.outcome,
        "why": shown.score.why,
        "finish": (answer.finish or "") if answer else "",
    }
    return {
        "row": row,
        "tags": {name: list(values) for name, values in {"kind": (item.kind,), **item.tags, **(own or {})}.items()},
        "images": [image.name for image in item.images],
        "seconds": None if answer is None else answer.seconds,
        "response": None if answer is None else answer.text,
        "usage": dict(answer.usage) if answer and answer.usage else None,
    }


def blocks_of(benchmark: Benchmark, results: Iterable[Result], **about: Any) -> bundle.Blocks:
    """The blocks of these results alone; `about` are the arguments of `Packing.packed`."""
    packed = packing.Packing([benchmark], Pictures("none", ""))
    counted = packing.ScoreTerms(benchmark)
    for result in results:
        packed.add(packed.question(0, result.item), result, counted)
    return bundle.blocks(packed.packed(**about), kind="run", title="", about="", runs=[])


def main() -> None:
    """Print."""
    known = {"strange": pages.hostile()[0], **pages.PHANTOM}
    with tempfile.TemporaryDirectory() as folder:
        made = report.build(pages.write(Path(folder) / "run", made_results()), known)
        pictures = html.draw(made, lambda b: benchmarks.load(b, Path()) if b.name in pages.PHANTOM else [], "inside")
        page = pages.Page(html.render(made, pictures).decode())
    own = failing.tags_of(made)
    # The page has the questions of a benchmark by their ids, numbers by value.
    results_of = {part.benchmark.name: [] for part in made.parts}
    for part in made.parts:
        results_of[part.benchmark.name] += part.results
    ordered = [sorted(each, key=lambda result: folders.natural(result.item.id)) for each in results_of.values()]
    rows = [expected(result, own(result)) for result in chain(*ordered)]
    print(json.dumps({"blocks": page.blocks, "results": rows}))


if __name__ == "__main__":
    main()
