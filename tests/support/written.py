"""Print the blocks of a page that Python writes, and what a reader must find in them, as JSON: `python written.py`."""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from medvqa import benchmarks, report
from medvqa.items import Answer, Result
from medvqa.protocols import rotation
from medvqa.report import html
from medvqa.report.bundle import failing
from support import pages


def results() -> list[Result]:
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


def main() -> None:
    """Print."""
    known = {"strange": pages.hostile()[0], **pages.PHANTOM}
    with tempfile.TemporaryDirectory() as folder:
        made = report.build(pages.write(Path(folder) / "run", results()), known)
        pictures = html.draw(made, lambda b: benchmarks.load(b, Path()) if b.name in pages.PHANTOM else [], "inside")
        page = pages.Page(html.render(made, pictures).decode())
    own = failing.tags_of(made)
    rows = [expected(result, own(result)) for part in made.parts for result in part.results]
    print(json.dumps({"blocks": page.blocks, "results": rows}))


if __name__ == "__main__":
    main()
