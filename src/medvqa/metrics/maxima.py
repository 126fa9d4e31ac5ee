"""Compute a model's best accuracy over techniques.

MediConfusion (Sepehri et al. 2024) represents a model "by their best performance across all evaluation techniques"
(section 3.1): the columns "Best" of Table 1, and of Table 2 by category. Each measure and category has its own maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medvqa.items import Measure, Metric
from medvqa.metrics import definitions
from medvqa.metrics.measuring import signed

MAXIMA: Mapping[str, str] = {
    "set_accuracy": "best_set_accuracy",
    "individual_accuracy": "best_individual_accuracy",
}
"""Names of measures that have a maximum -> name of the maximum."""

_METRICS: Mapping[str, Metric] = {
    metric.name: replace(
        metric,
        name=MAXIMA[metric.name],
        definition=f"The largest {metric.name} over techniques: optimistic, since the same answers choose and judge.",
    )
    for metric in (definitions.set_accuracy, definitions.individual_accuracy)
}


def maxima(measures: Sequence[Measure], *, signature: Mapping[str, str]) -> list[Measure]:
    """Return the largest value of each measure in MAXIMA over one benchmark's techniques, over everything and by slice.

    [] with fewer than two techniques. `count` and `n` are those of the best technique (the first of equals). There is
    no interval and no reference: the maximum of several random models lies above each of them. `signature` holds the
    parts of the answers' signature without the technique.
    """
    techniques = sorted({measure.technique for measure in measures if measure.name in MAXIMA})
    if len(techniques) < 2:
        return []
    label = f"max({','.join(techniques)})"
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Measure]] = {}
    for measure in measures:
        if measure.name in MAXIMA and measure.value is not None:
            groups.setdefault((measure.name, tuple(measure.slice.items())), []).append(measure)
    best_measures = []
    for (name, _), group in groups.items():
        best = max(group, key=lambda measure: measure.value or 0.0)
        best_signature = signed(_METRICS[name], {**signature, "technique": label})
        bare = replace(best, low=None, high=None, references={})
        best_measures.append(replace(bare, name=MAXIMA[name], signature=best_signature, technique=label))
    return best_measures
