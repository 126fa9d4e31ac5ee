"""Measures that a benchmark has because of the way in which its questions were asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from medvqa import metrics
from medvqa.items import Benchmark, Metric
from medvqa.protocols.protocol import Protocol


def under(
    benchmark: Benchmark, protocols: Collection[Protocol], technique: str, costs: Iterable[float | None]
) -> Benchmark:
    """Return the benchmark with the measures that answers by a technique have in runs with these protocols.

    If any of the runs offers to abstain, they are coverage and the accuracy of what was answered; and the effective
    reliability, if all runs that name the cost of a wrong answer (`costs`) name the same. If all runs have confidences
    from one source, they are the measures of these. Measures that the user has asked for are headline measures.
    Measures that the benchmark has by these names are kept.
    """
    asked, others = list[Metric](), list[Metric]()
    if any(protocol.abstain for protocol in protocols):
        asked += [metrics.coverage, metrics.answered_accuracy]
        named = {cost for cost in costs if cost is not None}
        asked += [metrics.effective_reliability(cost) for cost in named] if len(named) == 1 else []
    sources = {protocol.confidence_source(technique) for protocol in protocols}
    if len(sources) == 1 and (source := sources.pop()) is not None:
        (asked if source == "stated" else others).extend(metrics.confidences.of_source(source))
    own = {metric.name for metric in benchmark.metrics}
    added = [metric for metric in (*asked, *others) if metric.name not in own]
    shown = [metric.name for metric in asked if metric.name not in benchmark.headline]
    if not added:
        return benchmark
    return replace(benchmark, metrics=(*benchmark.metrics, *added), headline=(*benchmark.headline, *shown))
