"""The confidences of two runs beside each other, over the answers that have one in both."""

from __future__ import annotations

from collections.abc import Sequence

from medvqa.comparing.common import CommonPart
from medvqa.comparing.differing import TECHNIQUE, Difference
from medvqa.comparing.sides import Side
from medvqa.items import Result
from medvqa.metrics import confident
from medvqa.metrics.confidences import Source
from medvqa.metrics.confident import ConfidencesCompared


def compared(
    part: CommonPart, new: int, baseline: int, sides: Sequence[Side], difference: Difference | None
) -> ConfidencesCompared | None:
    """Return the paired differences of two runs, which are places of `sides`.

    None unless both have confidences of one kind. Runs by different techniques have none: aligned, their answers have
    the name of one technique. Of several samples, those with equal numbers are beside each other.
    """
    sources = {_source(sides[place], part.technique) for place in (new, baseline)}
    source = sources.pop()
    if sources or source is None or (difference is not None and difference.setting == TECHNIQUE):
        return None
    ours, theirs = (part.runs[part.places.index(place)] for place in (new, baseline))
    both = list[tuple[Result, Result]]()
    for question in part.measured.tolist():
        one, other = ours.latest(question), theirs.latest(question)
        if len(one) == len(other) == 1:
            both.append((one[0], other[0]))
            continue
        by_name = {(result.variant, result.sample): result for result in other}
        both += [(r, by_name[r.variant, r.sample]) for r in one if (r.variant, r.sample) in by_name]
    if not both:
        return None
    new_results, baseline_results = zip(*both, strict=True)
    return confident.compared(part.benchmark.name, source, new_results, baseline_results)


def _source(side: Side, technique: str) -> Source | None:
    """Return where the confidences of a run are from; PS has numbers to rank by."""
    protocol = side.run.protocol
    if technique == "ps" and not protocol.readers and protocol.rotations == 0:
        return "option"
    return protocol.confidence_source(technique)
