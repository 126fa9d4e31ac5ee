"""What a worker has collected, small enough to be told with a report: one bit for each item that the plan has.

Names would do as well, and of 130,000 items cost a worker 80 MB while they are sent. The controller has the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from medvqa.items import Query
from medvqa.session.plan import Plan

Collected = tuple[list[tuple[str, str, int, str]], list[str]]
"""Benchmark, technique, sample, and the places of items as hexadecimal digits; then names of what the plan lacks."""


def pack(queries: Iterable[Query], plan: Plan) -> Collected:
    """Queries in any order, as values that xdist can send."""
    places: dict[str, dict[str, int]] = {}
    bits: dict[tuple[str, str, int], bytearray] = {}
    others: list[str] = []
    for query in queries:
        benchmark = query.item.benchmark
        if benchmark not in places:
            items = plan.items(benchmark) if benchmark in plan.benchmarks else ()
            places[benchmark] = {item.id: place for place, item in enumerate(items)}
        place = places[benchmark].get(query.item.id)
        if place is None:
            # A test's own, which no benchmark has.
            others.append(plan.name_of(query))
            continue
        of = benchmark, query.technique, query.sample
        if of not in bits:
            bits[of] = bytearray(len(places[benchmark]) // 8 + 1)
        bits[of][place >> 3] |= 1 << (place & 7)
    return [(*of, bytes(places).hex()) for of, places in bits.items()], others


def names(collected: Collected, plan: Plan) -> Iterator[str]:
    """What names the queries among what is expected and missing."""
    yield from collected[1]
    yield from map(plan.name_of, queries(collected, plan))


def queries(collected: Collected, plan: Plan) -> Iterator[Query]:
    """The queries, but those that the plan lacks."""
    for benchmark, technique, sample, digits in collected[0]:
        bits = bytes.fromhex(digits)
        for place, item in enumerate(plan.items(benchmark)):
            if bits[place >> 3] >> (place & 7) & 1:
                yield Query(item, technique, sample)  # type: ignore[arg-type]
