"""The columns of the data frames of `medvqa.load` and `medvqa.compare`, and of the files of `medvqa export`.

Types are those of pandas: text is `string`, whole numbers that may be missing are `Int64`. An `object` is a dict, in
files a JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind = Literal["string", "int64", "Int64", "float64", "bool", "object"]


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its type, and what it holds."""

    kind: Kind
    meaning: str


Fields: TypeAlias = Mapping[str, Field]
"""Columns by their names, in their order."""

_QUESTION: Fields = {
    "benchmark": Field("string", "name of the benchmark"),
    "item": Field("string", "id of the question"),
}
_ASKED: Fields = {
    "technique": Field("string", "how the question was asked: mc, gd, ff or ps"),
    "variant": Field("string", "another wording or order of the question; empty for its own"),
    "sample": Field("int64", "number of the sample from 1 if the question was asked several times, else 0"),
}
_TEXT: Fields = {
    "kind": Field("string", "kind of the question, such as single_choice"),
    "question": Field("string", "text of the question"),
}
_GROUPS: Fields = {
    "pair": Field("string", "id of the pair of questions"),
    "cluster": Field("string", "group of questions that share images, patients or cases"),
}
_PART: Fields = {
    "benchmark": Field("string", "name of the benchmark"),
    "technique": Field("string", "how the questions were asked: mc, gd, ff or ps"),
}
_MEASURE: Fields = {**_PART, "measure": Field("string", "name of the measure")}
_BOUNDS: Fields = {
    "low": Field("float64", "lower end of the 95 % interval"),
    "high": Field("float64", "upper end of the 95 % interval"),
    "n": Field("float64", "denominator"),
}
_SLICE: Fields = {
    "dimension": Field("string", "dimension of the slice, such as modality; empty for the whole benchmark"),
    "slice": Field("string", "value of the dimension, such as ct; empty for the whole benchmark"),
}
_HEADLINE: Fields = {"headline": Field("bool", "whether the benchmark is known by this measure, over all questions")}
_UNITS: Fields = {
    "units": Field("Int64", "number of units: pairs or questions"),
    "groups": Field("Int64", "number of independent groups of units"),
}

ITEM: Fields = {
    **_QUESTION,
    **_TEXT,
    "options": Field("object", "letter -> text of each option"),
    "expected": Field("string", "answer key"),
    "images": Field("string", "names of the images; other names in their place if the data are not declared public"),
    **_GROUPS,
}
RESULT: Fields = {
    **_QUESTION,
    **_ASKED,
    **_TEXT,
    "expected": Field("string", "answer key"),
    "answer": Field("string", "the model's answer; missing after an error"),
    "extracted": Field("string", "options that were read from the answer"),
    "outcome": Field("string", "correct, partial, wrong, refused, abstained, unparsed, unscored or error"),
    "value": Field("float64", "score from 0 to 1; missing if unscored or error"),
    "why": Field("string", "reason of the score, or the error"),
    "confidence": Field("float64", "probability that the model gave its answer, if it was asked for it"),
    "finish": Field("string", "how the answer ended: stop, length (cut off), refusal, or the server's word"),
    "seconds": Field("float64", "wall time of the answer"),
    "input_tokens": Field("float64", "tokens of the prompt, if the model counts them"),
    "output_tokens": Field("float64", "tokens of the answer, if the model counts them"),
    "cost": Field("float64", "cost of the answer, if prices are known"),
    "judge": Field("string", "judge that gave the score"),
    "option_logprobs": Field("object", "option -> natural logarithm, of techniques that score options"),
    **_GROUPS,
}
ERROR: Fields = {
    **_QUESTION,
    **_ASKED,
    "outcome": Field("string", "outcome of the answer, such as wrong"),
    "kind_of_error": Field("string", "kind of the error; missing for an unclassified answer"),
    "by": Field("string", "model or person that named the kind"),
    "why": Field("string", "reason for the kind"),
    "first": Field("string", "kind before people corrected it"),
    "first_by": Field("string", "model that named the kind before"),
}
MEASURE: Fields = {
    **_MEASURE,
    **_HEADLINE,
    **_SLICE,
    "value": Field("float64", "value of the measure; a percentage as a fraction"),
    **_BOUNDS,
    "count": Field("float64", "numerator"),
    "unit": Field("string", "unit of the denominator, such as items or pairs"),
    **_UNITS,
    "random": Field("float64", "reference line: the value of guessing"),
    "majority": Field("float64", "reference line: the value of always giving the most frequent answer key"),
    "image_blind": Field("float64", "reference line: the value of one answer to both questions of a pair"),
    "selected": Field("Int64", "number of questions that were selected; missing if all were"),
    "of": Field("Int64", "number of questions that these were selected of"),
    "signature": Field("string", "how the number was computed"),
}
DIFFERENCE: Fields = {
    **_MEASURE,
    **_HEADLINE,
    "better": Field("string", "higher or lower: whether more of the measure is better"),
    **_SLICE,
    "baseline": Field("float64", "value of the baseline"),
    "new": Field("float64", "value of the new run"),
    "difference": Field("float64", "new minus baseline"),
    "low": Field("float64", "lower end of the two-sided 95 % interval of the difference"),
    "high": Field("float64", "upper end of the two-sided 95 % interval of the difference"),
    "p": Field("float64", "two-sided p-value of no difference"),
    "adjusted": Field("float64", "the p-value after Holm's correction"),
    **_UNITS,
    "gained": Field("Int64", "units whose value rose"),
    "lost": Field("Int64", "units whose value fell"),
    "discordant_groups": Field("Int64", "groups with a unit that changed"),
    "worse": Field("float64", 'p-value of "not worse"'),
    "deff": Field("float64", "design effect"),
    "df": Field("float64", "degrees of freedom"),
    "se": Field("float64", "standard error"),
    "detectable": Field("float64", "loss that such data would show with 80 % power"),
    "mcnemar": Field("float64", "p-value of the exact McNemar test, where it is defined"),
    "method": Field("string", "formula of the bounds"),
    "bootstrap_low": Field("float64", "lower end of the bootstrap's interval, with bootstrap=True"),
    "bootstrap_high": Field("float64", "upper end of the bootstrap's interval, with bootstrap=True"),
    "margin": Field("float64", "the difference below which runs are alike, with equivalent=POINTS"),
    "low_90": Field("float64", "lower end of the two-sided 90 % interval, with equivalent=POINTS"),
    "high_90": Field("float64", "upper end of the two-sided 90 % interval, with equivalent=POINTS"),
    "verdict": Field("string", "alike, different, open, or differs by less than the margin, with equivalent=POINTS"),
}
FLIP: Fields = {
    **_MEASURE,
    "unit": Field("string", "id of the pair if there is one, else of the question"),
    "better": Field("bool", "whether the unit became better"),
    "item": Field("string", "id of one question of the unit"),
    "question": Field("string", "text of the question"),
    "sample": _ASKED["sample"],
    "baseline_outcome": Field("string", "outcome in the baseline"),
    "new_outcome": Field("string", "outcome in the new run"),
    "baseline_value": Field("float64", "score in the baseline"),
    "new_value": Field("float64", "score in the new run"),
    "baseline_extracted": Field("string", "options that were read in the baseline"),
    "new_extracted": Field("string", "options that were read in the new run"),
    "baseline_answer": Field("string", "answer of the baseline; a digest, of a baseline file without responses"),
    "new_answer": Field("string", "answer of the new run"),
}
PART: Fields = {
    **_PART,
    "matched": Field("int64", "questions that both runs asked"),
    "scored": Field("int64", "questions with a score in both"),
    "new_alone": Field("int64", "questions that the new run has alone"),
    "baseline_alone": Field("int64", "questions that the baseline has alone"),
    "new_errors": Field("int64", "questions without an answer in the new run"),
    "baseline_errors": Field("int64", "questions without an answer in the baseline"),
    "unchanged": Field("bool", "whether responses and scores are identical"),
}
SIDE_BY_SIDE: Fields = {
    "run": Field("string", "run, published row, mean of a group of runs, or chance"),
    "runs": Field("int64", "number of runs of which the row is the mean, else 1"),
    "measure": _MEASURE["measure"],
    **_SLICE,
    "value": Field("float64", "value of the measure, a percentage as a fraction; with --gap its difference to chance"),
    **_BOUNDS,
    "column": Field("string", "heading of the column"),
    **_PART,
    "bold": Field("bool", "whether no other run of the table is shown to be better"),
    "source": Field("string", "source of a published row"),
}
"""The columns of `medvqa table` as CSV and Parquet."""

FRAMES: Mapping[str, Fields] = {
    "items": ITEM,
    "results": RESULT,
    "errors": ERROR,
    "measures": MEASURE,
    "differences": DIFFERENCE,
    "flips": FLIP,
    "parts": PART,
}
"""The columns of each data frame. Those of tags follow the columns of items and results."""
