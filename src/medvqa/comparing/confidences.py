"""The confidences of two runs beside each other, over the answers that have one in both."""

from __future__ import annotations

from collections.abc import Sequence

from medvqa.comparing.common import CommonPart
from medvqa.comparing.differing import TECHNIQUE, Difference
from medvqa.comparing.sides import Side
from medvqa.metrics import confident
from medvqa.metrics.confidences import Source
from medvqa.metrics.confident import ConfidenceQuality


def compared(
    part: CommonPart, new: int, baseline: int, sides: Sequence[Side], difference: Difference | None
) -> ConfidenceQuality | None:
    """Return the paired differences of two runs, which are places of `sides`.

    None unless both have confidences of one kind. Runs by different techniques have none: aligned, their answers have
    the name of one technique. Of several samples, those with equal numbers are beside each other.
    """
    sources = {_source(sides[place], part.technique) for place in (new, baseline)}
    source = sources.pop()
    if sources or source is None or (difference is not None and difference.setting == TECHNIQUE):
        return None
    ours, theirs = (part.runs[part.places.index(place)] for place in (new, baseline))
    both = []
    for question in part.measured.tolist():
        one, other = ours.latest(question), theirs.latest(question)
        beside = {(result.variant, result.sample): result for result in other}
        if len(one) == len(other) == 1:  # Prompts of other names are compared too.
            beside = {(one[0].variant, one[0].sample): other[0]}
        both += [(r, beside[r.variant, r.sample]) for r in one if (r.variant, r.sample) in beside]
    if not both:
        return None
    return confident.compared(part.benchmark.name, source, [one for one, _ in both], [other for _, other in both])


def _source(side: Side, technique: str) -> Source | None:
    """Return where the confidences of a run are from; PS has numbers to rank by."""
    protocol = side.run.protocol
    ranked = technique == "ps" and not protocol.readers and protocol.rotations == 0
    return "option" if ranked else protocol.confidence_source(technique)
