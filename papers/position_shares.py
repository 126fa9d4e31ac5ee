"""Shares of the shown places among the options that a model chose, in a run with --rotate.

    python papers/position_shares.py reports/RUN

In all orders each option stands once at each place, so that a model that chooses by the text has the share 1/k of k
options at each place. Questions that were asked in one order are left out, and so are invalid answers; each question
counts once.
"""

import sys

import pandas as pd

import medvqa

INVALID = ("error", "unscored", "unparsed", "refused", "abstained")


def table(run: medvqa.LoadedRun) -> pd.DataFrame:
    """Return the share of each place in percent, and the share without a preference."""
    options = run.items.set_index(["benchmark", "item"]).options
    shares = []
    for row in run.results.dropna(subset=["variant", "extracted"]).itertuples():
        order = row.variant.rpartition("+")[2]
        if row.outcome in INVALID or not order.startswith("r"):
            continue
        letters, chosen = list(options[row.benchmark, row.item]), row.extracted.split("|")
        for place in range(len(letters)):
            letter = letters[(place + int(order[1:]) - 1) % len(letters)]
            shares.append((row.benchmark, row.item, place + 1, (letter in chosen) / len(chosen), 1 / len(letters)))
    found = pd.DataFrame(shares, columns=["benchmark", "item", "place", "share", "without a preference"])
    of_questions = found.groupby(["benchmark", "item", "place"]).mean()
    return 100 * of_questions.groupby(["benchmark", "place"]).mean()


def main(folder: str) -> None:
    """Print the shares of a run."""
    print(table(medvqa.load(folder)).to_string(float_format="%.2f"))


if __name__ == "__main__":
    main(*sys.argv[1:])
