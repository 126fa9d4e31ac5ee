"""The spread of a measure: its value for each prompt and sample of a run, their deviations, and a test of prompts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from math import fsum, nan, sqrt

from medvqa import statistics
from medvqa.items import FailedMetric, Metric, Result
from medvqa.metrics.measuring import Tabled, latest, mean, tables
from medvqa.statistics import Components


@dataclass(frozen=True, slots=True)
class Spread:
    """A measure over the whole benchmark, once for each prompt and sample; all values are in the measure's unit.

    `values` maps a prompt's name ("" if the run has one prompt) to its values, in the order of `samples`; None: the
    measure is undefined there. `samples` are the numbers of the samples, (0,) if each question was asked once.
    The deviations are those of `statistics.deviations`: None if there are too few values. `percent`: values are
    fractions, shown as percentages. `components`: the variance components of single units (`statistics.components`)
    over the units with a value for every prompt and sample, of which there are `components.items`; None if fewer than
    two have one, or for other metrics than those to decompose. `unit` is the units' singular name.

    `equal` is the p-value of equal prompts (`statistics.equal_means`), over the units with a value for each of them;
    None for one prompt, averages over slices and too few groups, and for other metrics than those to decompose.
    """

    benchmark: str
    technique: str
    name: str
    values: Mapping[str, tuple[float | None, ...]]
    samples: tuple[int, ...]
    sd_within_prompts: float | None
    sd_between_prompts: float | None
    sd_all: float | None
    percent: bool = True
    components: Components | None = None
    unit: str = "question"
    equal: float | None = None

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the prompts, in the order of the run."""
        return tuple(self.values)

    @property
    def means(self) -> Mapping[str, float | None]:
        """The mean over the samples of each prompt; None without a value."""
        return {prompt: _mean(values) for prompt, values in self.values.items()}

    @property
    def by_prompt(self) -> Mapping[str, float | None]:
        """The standard deviation over the samples of each prompt; None if it has fewer than two values."""
        import numpy as np

        arrays = {
            prompt: np.array([[nan if value is None else value for value in values]])
            for prompt, values in self.values.items()
        }
        return {prompt: statistics.deviations(array).within_prompts for prompt, array in arrays.items()}

    @property
    def sd_over_samples(self) -> float | None:
        """The standard deviation over samples, within prompts, with the divisor n - 1; None with one sample."""
        centred = [
            value - mean
            for prompt, mean in self.means.items()
            for value in self.values[prompt]
            if value is not None and mean is not None
        ]
        freedom = len(centred) - sum(mean is not None for mean in self.means.values())
        return sqrt(fsum(value**2 for value in centred) / freedom) if freedom > 0 else None

    @property
    def mean(self) -> float | None:
        """The plain mean over the prompts' means; None without a value."""
        return _mean(tuple(self.means.values()))


def spreads(
    results: Sequence[Result],
    metrics: Sequence[Metric],
    *,
    benchmark: str,
    technique: str = "",
    prompt_of: Callable[[Result], str] = lambda result: "",
    prompts: Sequence[str] = (),
    failed: MutableSequence[FailedMetric] | None = None,
    decomposed: Collection[str] = (),
) -> list[Spread]:
    """Return the spread of each metric over prompts and samples; [] if there are one prompt and one sample.

    `results`: of one benchmark and technique, one answer each: not combined over samples. `prompt_of` returns the name
    of a result's prompt, and `prompts` their order; other names follow. `failed` is as in `metrics.measures`.
    `decomposed`: names of metrics whose variance is decomposed.
    """
    if len({result.sample for result in results}) < 2 and len(set(map(prompt_of, results))) < 2:
        return []
    rows = latest(results)
    by_prompt: dict[str, dict[int, list[Result]]] = {name: {} for name in prompts}
    for result in rows:
        by_prompt.setdefault(prompt_of(result), {}).setdefault(result.sample, []).append(result)
    by_prompt = {name: of_prompt for name, of_prompt in by_prompt.items() if of_prompt}
    samples = sorted({sample for of_prompt in by_prompt.values() for sample in of_prompt})
    dimensions = [metric.mean_over for metric in metrics if metric.mean_over is not None]
    problems: list[FailedMetric] = []
    values: dict[str, dict[tuple[str, int], float]] = {}
    percent: dict[str, bool] = {}
    own: dict[str, dict[tuple[str, int], Tabled]] = {}
    for name, of_prompt in by_prompt.items():
        for sample, answered in of_prompt.items():
            for tabled in tables(answered, metrics, dimensions, None if failed is None else problems):
                percent[tabled.metric.name] = bool(tabled.metric.percent)
                if tabled.metric.name in decomposed and tabled.over is None:
                    own.setdefault(tabled.metric.name, {})[name, sample] = tabled
                if (value := _value(tabled)) is not None:
                    values.setdefault(tabled.metric.name, {})[name, sample] = value
    if failed is not None:
        failed += {problem.name: problem for problem in problems}.values()
    spread_of = [
        _spread(benchmark, technique, name, values.get(name, {}), tuple(by_prompt), tuple(samples), percent[name])
        for name in percent
    ]
    return [
        replace(
            spread,
            components=_components(own[spread.name], spread.prompts, spread.samples) if spread.name in own else None,
            unit=_unit(own[spread.name].values()) if spread.name in own else spread.unit,
            equal=_equal(own[spread.name], spread) if spread.name in own else None,
        )
        for spread in spread_of
    ]


def _equal(tabled: Mapping[tuple[str, int], Tabled], spread: Spread) -> float | None:
    """The p-value of equal means by all prompts, over the units with a value for each prompt and sample."""
    import numpy as np

    stages = [(prompt, sample) for prompt in spread.prompts for sample in spread.samples]
    if len(spread.prompts) < 2 or any(stage not in tabled for stage in stages):
        return None
    columns, weights = zip(*(_by_unit(tabled[stage]) for stage in stages), strict=True)
    common = sorted(set(columns[0]).intersection(*columns[1:]))
    if not common:
        return None
    first = tabled[stages[0]].frame
    everywhere = first.slice == 0
    groups = dict(zip(first.unit[everywhere].tolist(), first.group[first.cell[everywhere]].tolist(), strict=True))
    places = {tuple(result.item.id for result in unit): groups.get(k, k) for k, unit in enumerate(first.units)}
    values = np.array([[column[unit] for column in columns] for unit in common])
    return statistics.equal_means(
        values.reshape(len(common), len(spread.prompts), len(spread.samples)).mean(axis=2),
        np.array([weights[0][unit] for unit in common]),
        np.array([places[unit] for unit in common], dtype=np.intp),
    )


def _unit(tabled: Iterable[Tabled]) -> str:
    return "pair" if {one.metric.unit for one in tabled} == {"pair"} else "question"


def _components(
    tabled: Mapping[tuple[str, int], Tabled], prompts: Sequence[str], samples: Sequence[int]
) -> Components | None:
    """Return the components of the units that have a value for every prompt and sample."""
    import numpy as np

    stages = [(prompt, sample) for prompt in prompts for sample in samples]
    if any(stage not in tabled for stage in stages):
        return None
    columns = [_by_unit(tabled[stage])[0] for stage in stages]
    common = sorted(set(columns[0]).intersection(*columns[1:]))
    if len(common) < 2:
        return None
    scores = np.array([[column[unit] for column in columns] for unit in common])
    return statistics.components(scores.reshape(len(common), len(prompts), len(samples)))


def _by_unit(tabled: Tabled) -> tuple[dict[tuple[str, ...], float], dict[tuple[str, ...], float]]:
    """The value and the denominator of each unit that counts, by the ids of its items."""
    names = [tuple(result.item.id for result in unit) for unit in tabled.frame.units]
    terms = zip(names, *(column.tolist() for column in tabled.terms), strict=True)
    counting = [(name, numerator, denominator) for name, numerator, denominator in terms if denominator > 0]
    return {name: top / bottom for name, top, bottom in counting}, {name: bottom for name, _, bottom in counting}


def _value(tabled: Tabled) -> float | None:
    """The measure over everything; None if it is undefined."""
    numerators, denominators = tabled.terms
    if tabled.over is None:
        total = fsum(denominators)
        return fsum(numerators) / total if total else None
    count, n = (tabled.frame.sums(terms).tolist() for terms in tabled.terms)
    return mean(tabled, [of / total if total else nan for of, total in zip(count, n, strict=True)], n)


def _spread(
    benchmark: str,
    technique: str,
    name: str,
    values: Mapping[tuple[str, int], float],
    prompts: Sequence[str],
    samples: tuple[int, ...],
    percent: bool,
) -> Spread:
    import numpy as np

    array = np.array([[values.get((prompt, sample), nan) for sample in samples] for prompt in prompts])
    by_prompt = {prompt: tuple(values.get((prompt, sample)) for sample in samples) for prompt in prompts}
    return Spread(benchmark, technique, name, by_prompt, samples, *statistics.deviations(array), percent)


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return fsum(present) / len(present) if present else None
