"""MediConfusion's Table 8: how often a model could be right if somebody picked its right answers.

    python papers/mediconfusion_table_8.py reports/RUN

RUN holds several free-form answers to each question:
`medvqa run --technique=ff --judge=JUDGE --ff-gap=2 --samples=100 ...`. A question is right if at least so many percent
of its answers are right. The paper writes "exceeds a certain threshold"; "at least" is our reading, so that 1 % of 100
answers is one. This uses the answer key: it is an upper bound and no score.
"""

import sys

import pandas as pd

import medvqa

THRESHOLDS = (1, 2, 3, 4, 5)


def table(run: medvqa.LoadedRun) -> pd.DataFrame:
    """Return set and individual accuracy in percent, by the threshold."""
    answered = run.results[~run.results.outcome.isin(["error", "unscored"])]
    if answered.pair.isna().all():
        sys.exit("The run has no answered questions in pairs: name a run of MediConfusion.")
    right = answered.outcome.eq("correct").groupby([answered.pair, answered["item"]])
    counts = right.agg(["sum", "count"])
    rows = []
    for threshold in THRESHOLDS:
        reached = (counts["sum"] > 0) & (100 * counts["sum"] >= threshold * counts["count"])
        pairs = reached.groupby("pair").agg(["all", "size"])
        # A pair of which one question could not be asked is none.
        whole = pairs["all"][pairs["size"] == 2]
        rows.append((f"{threshold}", 100 * whole.mean(), 100 * reached.mean()))
    return pd.DataFrame(rows, columns=["row", "Set acc.", "Indiv. acc."])


def main(folder: str) -> None:
    """Print the table of a run beside the published one."""
    own = table(medvqa.load(folder)).assign(of=folder)
    published = medvqa.published("mediconfusion", 8).assign(of="GPT-4o, best of 100 (published)")
    both = pd.concat([published, own]).rename(columns={"row": "Frequency threshold (%)"})
    print(both.to_string(index=False, float_format="%.2f"))


if __name__ == "__main__":
    main(*sys.argv[1:])
