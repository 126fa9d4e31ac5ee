"""Intervals, paired comparison and the gate, over arrays.

A `UnitTable` (terms of units) -> `estimate` (`Estimated`: its `ratios`, their `clustered` variance, `intervals`); two
tables -> `compare` (`Comparison`); a table and a part of it -> `part_difference` (`PartDifference`); comparisons and
floors -> `decide` (`Decision`). `readers`: scores of several people, and a model against them.
"""

from __future__ import annotations

from medvqa.statistics.betting import STAKES, e_values, log_factors
from medvqa.statistics.bootstrap import REPLICATES, percentile, resampled
from medvqa.statistics.clustered import Correction, Estimates, clustered, corrected
from medvqa.statistics.components import Components, advice, components
from medvqa.statistics.estimating import Estimated, estimate
from medvqa.statistics.gate import (
    Decision,
    Design,
    FloorRule,
    MarginRule,
    SliceGuard,
    TestedRule,
    decide,
    floor,
    gated_slice,
    level_of,
    shortfall,
    smallest_loss,
)
from medvqa.statistics.influence import (
    LEAST_GROUPS_OF_SLICE,
    Influences,
    UnitTable,
    by_unit,
    combination,
    difference,
    mean_over,
    own_values,
    ratios,
)
from medvqa.statistics.intervals import (
    METHOD,
    METHOD_OF_MACROS,
    METHOD_OF_NUMBERS,
    bounds,
    clopper_pearson,
    intervals,
    p_below,
    student,
    wilson,
    within,
)
from medvqa.statistics.multiplicity import holm
from medvqa.statistics.paired import (
    FLIP_ICC,
    Comparison,
    Prepared,
    Shared,
    compare,
    compare_prepared,
    largest_icc,
    prepared,
    tango,
)
from medvqa.statistics.part import PartDifference, part_difference
from medvqa.statistics.planning import FlipCorrelation, flip_correlation, passable_margin, units_needed
from medvqa.statistics.pooling import LEAST_SLICES, PooledRates, effective_units, pooled
from medvqa.statistics.prediction_powered import CorrectedMean, LabelledScores, corrected_mean, reliability
from medvqa.statistics.retained import retained
from medvqa.statistics.sentences import RuleVerdict
from medvqa.statistics.simulation import Simulated, UnitLayout, in_groups, simulated, units_to_pass
from medvqa.statistics.spread import Deviations, deviations, equal_means

__all__ = [
    "FLIP_ICC",
    "LEAST_GROUPS_OF_SLICE",
    "LEAST_SLICES",
    "METHOD",
    "METHOD_OF_MACROS",
    "METHOD_OF_NUMBERS",
    "REPLICATES",
    "STAKES",
    "Comparison",
    "Components",
    "CorrectedMean",
    "Correction",
    "Decision",
    "Design",
    "Deviations",
    "Estimated",
    "Estimates",
    "FlipCorrelation",
    "FloorRule",
    "Influences",
    "LabelledScores",
    "MarginRule",
    "PartDifference",
    "PooledRates",
    "Prepared",
    "RuleVerdict",
    "Shared",
    "Simulated",
    "SliceGuard",
    "TestedRule",
    "UnitLayout",
    "UnitTable",
    "advice",
    "bounds",
    "by_unit",
    "clopper_pearson",
    "clustered",
    "combination",
    "compare",
    "compare_prepared",
    "components",
    "corrected",
    "corrected_mean",
    "decide",
    "deviations",
    "difference",
    "e_values",
    "effective_units",
    "equal_means",
    "estimate",
    "flip_correlation",
    "floor",
    "gated_slice",
    "holm",
    "in_groups",
    "intervals",
    "largest_icc",
    "level_of",
    "log_factors",
    "mean_over",
    "own_values",
    "p_below",
    "part_difference",
    "passable_margin",
    "percentile",
    "pooled",
    "prepared",
    "ratios",
    "reliability",
    "resampled",
    "retained",
    "shortfall",
    "simulated",
    "smallest_loss",
    "student",
    "tango",
    "units_needed",
    "units_to_pass",
    "wilson",
    "within",
]
