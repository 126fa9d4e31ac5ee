"""GMAI-MMBench's Tables 5 to 7: modalities, labels and cases by task, department and granularity.

    python papers/gmai_mmbench_tables_5_to_7.py DATA

Single-choice questions of all splits that are found, together. Mask and contour level show the same cases, drawn twice:
Tables 5 and 6 count them once, as ours do. Labels are known only where the answer key is.
"""

import sys

import pandas as pd

import medvqa

TABLES = {5: "task", 6: "department", 7: "granularity"}


def table(number: int, items: tuple[medvqa.Item, ...]) -> pd.DataFrame:
    """Return the counts by the values of a dimension, beside the published ones."""
    published = medvqa.published("gmai-mmbench", number).set_index("row").astype("Int64")
    counted = [item for item in items if item.kind == "single_choice"]
    if number != 7:
        counted = [item for item in counted if "contour_level" not in item.tags["granularity"]]
    rows = {}
    for name in published.index:
        value = "_".join("".join(letter if letter.isalnum() else " " for letter in name.lower()).split())
        inside = [item for item in counted if value in item.tags[TABLES[number]]]
        distinct = [{v for item in inside for v in item.tags.get(tag, ())} for tag in ("modality", "label")]
        rows[name] = [*map(len, distinct), len(inside)]
    own = pd.DataFrame.from_dict(rows, orient="index", columns=published.columns)
    return own.join(published.add_suffix(" (published)")).rename_axis(TABLES[number])


def main(data: str) -> None:
    """Print the three tables."""
    items = medvqa.questions("gmai-mmbench", data=data)
    for number in TABLES:
        print(f"Table {number}\n{table(number, items).to_string()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
