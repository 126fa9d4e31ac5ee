"""MediConfusion's Table 9: a model selects the best of its own N free-form answers.

    python papers/mediconfusion_table_9.py MODEL JUDGE DATA [N]

Three runs: N answers to each question (a stand-in for the judge costs nothing); the model sees image, question, options
and its answers, and names the number of the best; the judge scores the selected answers. The selecting prompt is ours:
the paper prints none. A reply that selects none, or several, leaves the question without an answer.
"""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import medvqa

NAME = "mediconfusion"
PROMPT = "Below are a question about the given image, its options and {} answers to it. Select the best answer."
ENDING = "Reply with the number of the best answer and nothing else."
COLUMNS = ["set_accuracy", "individual_accuracy", "confusion", "invalid_rate"]


def read(item: medvqa.Item, answer: medvqa.Answer) -> medvqa.Score:
    """Read the number of the selected answer."""
    numbers = set(re.findall(r"\d+", answer.text)) & {*item.answers}
    return medvqa.Score(1.0, "correct", tuple(numbers)) if len(numbers) == 1 else medvqa.Score(0.0, "unparsed")


def table(model: Any, judge: Any, data: str, number: int) -> pd.DataFrame:
    """Ask, let the model select, judge, and return the row in percent."""
    named = {part: f"best-of-{number}-{part}" for part in ("answers", "selection", "judged")}
    how: dict[str, Any] = {"technique": "ff", "data": data}
    said = medvqa.evaluate(model, NAME, judge="echo:A: 0\nB: 0", samples=number, run=named["answers"], **how).results
    shown = {item: rows.set_index("sample").answer for item, rows in said.dropna(subset="answer").groupby("item")}

    def asked(item: medvqa.Item) -> medvqa.Item:
        answers = [f"Answer {n}: {text}" for n, text in shown[item.id].items()]
        options = [f"{letter}. {text}" for letter, text in item.options.items()]
        text = "\n\n".join([PROMPT.format(len(answers)), item.question, "\n".join(options), *answers, ENDING])
        return replace(item, kind="short_answer", question=text, options={}, answers=(*map(str, shown[item.id].index),))

    items = [asked(item) for item in medvqa.questions(NAME, data=data) if item.id in shown]
    selecting = medvqa.Benchmark(name="selecting", items=lambda _: items, prompt="{question}", score=read, public=True)
    chosen = medvqa.evaluate(model, selecting, data=data, run=named["selection"]).results.set_index("item").extracted
    picked = {item: "" if pd.isna(n) else shown[item][int(n)] for item, n in chosen.items()}
    lines = [json.dumps({"id": item, "response": text}) for item, text in picked.items()]
    (file := Path(f"{named['judged']}.jsonl")).write_text("\n".join(lines))
    run = medvqa.evaluate(f"replay:{file}", NAME, judge=judge, run=named["judged"], **how)
    values = run.measures[run.measures.dimension == ""].set_index("measure").value.mul(100)
    return pd.DataFrame([[f"{number}", *values[COLUMNS]]], columns=medvqa.published(NAME, 9).columns)


if __name__ == "__main__":
    own = table(*sys.argv[1:4], int(sys.argv[4]) if sys.argv[4:] else 10)
    rows = [medvqa.published(NAME, 9).assign(of="GPT-4o (published)"), own.assign(of=sys.argv[1])]
    print(pd.concat(rows).rename(columns={"row": "N"}).to_string(index=False, float_format="%.2f"))
