"""A model's best accuracy over the techniques by which it was asked.

MediConfusion (Sepehri et al. 2024) represents a model "by their best performance across all evaluation techniques"
(section 3.1): the columns "Best" of its Table 1, by category in Table 2, each measure and each category apart.
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
"""Measures that have a maximum, and what it is called."""

_METRICS: Mapping[str, Metric] = {
    metric.name: replace(
        metric,
        name=MAXIMA[metric.name],
        definition=f"The largest {metric.name} over techniques: optimistic, since the same answers choose and judge.",
    )
    for metric in (definitions.set_accuracy, definitions.individual_accuracy)
}


def maxima(measures: Sequence[Measure], *, signature: Mapping[str, str]) -> list[Measure]:
    """The largest value of each measure in MAXIMA over the techniques of one benchmark, over everything and by slice.

    [] unless there are several techniques. `count` and `n` are those of the technique that has it (of several, the
    first); there is no interval and no reference, since the maximum of several random models lies above each.
    `signature` says how the answers were had, but for the technique.
    """
    techniques = sorted({measure.technique for measure in measures if measure.name in MAXIMA})
    if len(techniques) < 2:
        return []
    label = f"max({','.join(techniques)})"
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Measure]] = {}
    for measure in measures:
        if measure.name in MAXIMA and measure.value is not None:
            groups.setdefault((measure.name, tuple(measure.slice.items())), []).append(measure)
    found = []
    for (name, _), group in groups.items():
        best = max(group, key=lambda measure: measure.value or 0.0)
        made = signed(_METRICS[name], {**signature, "technique": label})
        bare = replace(best, low=None, high=None, references={})
        found.append(replace(bare, name=MAXIMA[name], signature=made, technique=label))
    return found
