"""Measures that a benchmark has because of the way in which its questions were asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from medvqa import metrics
from medvqa.items import Benchmark, Metric
from medvqa.protocols.protocol import Protocol


def under(
    benchmark: Benchmark, protocols: Collection[Protocol], techniques: Iterable[str], costs: Iterable[float | None]
) -> Benchmark:
    """Return the benchmark with the measures that answers by these techniques have in runs with these protocols.

    If any of the runs offers to abstain, they are coverage and the accuracy of what was answered; and the effective
    reliability, if all runs that name the cost of a wrong answer (`costs`) name the same. If all runs have confidences
    from one source, they are the measures of these. Measures that the user has asked for are headline measures.
    Measures that the benchmark has by these names are kept.
    """
    asked, others = list[Metric](), list[Metric]()
    if any(protocol.abstain for protocol in protocols):
        named = {cost for cost in costs if cost is not None}
        reliability = [metrics.effective_reliability(cost) for cost in named] if len(named) == 1 else []
        asked += [metrics.coverage, metrics.answered_accuracy, *reliability]
    for technique in techniques:
        sources = {protocol.confidence_source(technique) for protocol in protocols}
        if len(sources) == 1 and (source := sources.pop()) is not None:
            (asked if source == "stated" else others).extend(metrics.confidences.of_source(source))
    added = {metric.name: metric for metric in (*others, *asked)}
    for metric in benchmark.metrics:
        added.pop(metric.name, None)
    headline = dict.fromkeys((*benchmark.headline, *(metric.name for metric in asked)))
    if not added:
        return benchmark
    return replace(benchmark, metrics=(*benchmark.metrics, *added.values()), headline=tuple(headline))
