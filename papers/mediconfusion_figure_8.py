"""MediConfusion's Figure 8: histograms of the similarity of the two images of a pair.

    python papers/mediconfusion_figure_8.py DATA

BiomedCLIP's similarities are in the data set, and so are those of DINO, which the paper selects by. Those of CLIP and
RadFM's encoder, which the figure shows too, are not published.
"""

import sys

import pandas as pd

import medvqa

COLUMNS = {"BiomedCLIP_sim": "BiomedCLIP", "DINO_sim": "DINO"}
WIDTH = 0.01


def table(data: str, name: str) -> pd.Series:
    """Return the number of pairs by the lower end of each bin of similarity."""
    of_pair = {item.pair_id: item.extra[name] for item in medvqa.questions("mediconfusion", data=data)}
    similarity = pd.Series(of_pair, dtype="float64").dropna()
    # A little is added: 0.3 / 0.01 is below 30.
    lows = similarity.div(WIDTH).add(1e-6).floordiv(1).mul(WIDTH).round(2)
    return lows.value_counts().sort_index().rename_axis(COLUMNS[name])


def main(data: str) -> None:
    """Print a histogram for each encoder."""
    for name in COLUMNS:
        pairs = table(data, name)
        print(f"{COLUMNS[name]}: {pairs.sum()} pairs")
        for low, number in pairs.items():
            print(f"{low:.2f} to {low + WIDTH:.2f}  {number:4}  {'#' * number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
