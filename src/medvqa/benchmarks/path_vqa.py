"""PathVQA: closed and open questions about pathology images (He et al. 2020).

Source: https://github.com/UCSD-AI4H/PathVQA (MIT for the repository; the images belong to two textbooks and the PEIR
library), in the hub's form: https://huggingface.co/datasets/flaviagiammarino/path-vqa, Parquet with image, question and
answer; train 19,654, validation 6,259, test 6,719 questions. A row, with made-up values:

    {"image": <bytes>, "question": "is there necrosis?", "answer": "yes"}

Closed: the answer is yes or no. Images have no id: questions about the same bytes are one group.

The owners' scorer computes BLEU and token F1, and calls a share of shared tokens an exact match:
https://github.com/UCSD-AI4H/PathVQA/blob/dd5180425138217ca53eb70d085761ffcb6c491c/Evaluation%20script/evaluation_script.py
There is no official prompt. Usual ones:
https://github.com/alibaba-damo-academy/MedEvalKit/blob/9b12e3b34232a8779cc1275417bf4f72f03d28e0/utils/PATH_VQA/PATH_VQA.py
https://github.com/open-compass/VLMEvalKit/blob/e8e78f05f3080fe28154f2130321f17951c3be94/vlmeval/dataset/image_shortqa.py
"""

from __future__ import annotations

from functools import partial

from medvqa import metrics
from medvqa.benchmarks import closed_open, published
from medvqa.items import Benchmark, Origin, OriginFile, Owners
from medvqa.metrics import kits

GROUP = "path-vqa"
RELEASED = {"test": 6719, "validation": 6259, "train": 19654}

_PARTS = {
    "test": "e9adadb4799f44d3 7ea98873fc919813 1628308435019820",
    "validation": "90a5518d26493b67 cbfe947a3418595c 9ec816895bd3bc20",
    "train": "f2d0e9ef9f022d38 47d8e0220bf6c933 7fb5037c4c5da7be 74b9b7b81cc55f90 77eea90af4a55dce 5332ec423be520bd "
    "637a58c700b604af",
}
"""The last part of the name of each file on the hub."""
ORIGINS = {
    split: Origin(
        licence="MIT (the repository); the images belong to their textbooks and to PEIR",
        home="https://github.com/UCSD-AI4H/PathVQA",
        hub="flaviagiammarino/path-vqa",
        revision="7568940e604f3e911441b1f6c7aedb5f1c2866bd",
        files=tuple(
            OriginFile(to=f"{GROUP}/{at}", at=at)
            for part, name in enumerate(names.split())
            for at in [f"data/{split}-{part:05}-of-{len(names.split()):05}-{name}.parquet"]
        ),
        release=RELEASED[split],
        find=partial(closed_open.hub_files, group=GROUP, split=split),
        reads=(f"{GROUP}/data/{split}-*.parquet",),
        group=GROUP,
        on_request=split != "test",
    )
    for split, names in _PARTS.items()
}

VLMEVALKIT = "Please directly provide a short answer to the question. "
"""VLMEvalKit's line for all questions, to the byte; it scores all answers by a judge."""

BENCHMARKS = tuple(
    Benchmark(
        name=f"{GROUP}-{split}",
        title=f"PathVQA, {split}",
        items=partial(closed_open.hub_items, group=GROUP, split=split),
        prompt=closed_open.templates(GROUP, "medevalkit", closed_open.YES_OR_NO, closed_open.BRIEFLY),
        prompts={"vlmevalkit": closed_open.templates(GROUP, "vlmevalkit", VLMEVALKIT, VLMEVALKIT)},
        score=closed_open.score,
        judged=closed_open.JUDGED,
        metrics=(*metrics.closed_and_open("answer"), *metrics.rates),
        headline=metrics.open_questions.HEADLINE,
        dimensions=("answer_type",),
        public=True,
        origin=ORIGINS[split],
        owners=Owners(
            kits={
                kits.LLAVA_MED: kits.llava_med,
                kits.MEDEVALKIT: partial(kits.medevalkit, closed_if_judged="lost"),
            },
            training=f"{GROUP}-train",
            published=partial(published.read, GROUP),
        ),
    )
    for split in RELEASED
)
