r"""OmniMedVQA (Hu et al., CVPR 2024, arXiv:2402.09181): multiple choice from medical classification data sets.

Data: https://huggingface.co/datasets/foreverbeliever/OmniMedVQA (a zip of 10.7 GB); its README lists each data set's
licence. Only the open-access part has images and is read: 42 data sets, 88,996 questions. JSON lists, a file for each
data set; a row, made up:

    {"dataset": "X", "question_id": "X_0001", "question_type": "Modality Recognition", "question": "Which modality?",
     "gt_answer": "CT", "image_path": "Images/X/1.png", "option_A": "MRI", "option_B": "CT",
     "modality_type": "CT(Computed Tomography)"}

Official code: `MedicalEval` in
https://github.com/OpenGVLab/Multi-Modality-Arena/blob/bd2999a3be2bf4539a7e071cf2cfab5822f66417/MedicalEval/Question-answering_Score/utils/medicalqa.py
takes the option most similar to the answer (`lettered.similar`). Traps: the key is the text of an option; there are
2 to 4 options; two equal options make the key ambiguous; one row of Chest CT Scan has `modality` for `modality_type`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from medvqa import metrics, scoring, tables
from medvqa.benchmarks import lettered, origins, published
from medvqa.items import Benchmark, Item, OfficialRule, Origin, OriginFile, Owners, Prompt, Technique
from medvqa.metrics import kits
from medvqa.protocols.prompts import Template, Templates
from medvqa.tables.image_files import ImageFolder
from medvqa.tags import lexicon

NAME = "omnimedvqa"
LETTERS = "ABCD"
ORIGIN = Origin(
    licence="each data set's own (the owners' README lists them)",
    home="https://huggingface.co/datasets/foreverbeliever/OmniMedVQA",
    hub="foreverbeliever/OmniMedVQA",
    revision="1ba51c28fc0773bdf7efb8396e5bcfd4227e22da",
    files=(OriginFile(to=f"{NAME}/OmniMedVQA.zip", at="OmniMedVQA.zip", unpack=NAME),),
    note="one archive of 10.7 GB; the questions of restricted-access data sets have no images and are not read",
    release=88_996,
    # The zip has a folder of its own.
    reads=tuple(f"{root}/QA_information/Open-access/*.json" for root in (NAME, f"{NAME}/OmniMedVQA")),
)
NEEDED = [("question_id", "question", "gt_answer", "image_path", "option_A", "option_B")]


def items(data: Path) -> Iterator[Item]:
    """Yield the questions of all data sets; those about one image share a cluster."""
    problems: list[str] = []
    for path in origins.found(ORIGIN, data):
        # The folder that holds QA_information and Images.
        images = ImageFolder(path.parents[2], data)
        for row in tables.read(path, name=path.relative_to(data).as_posix(), needed=NEEDED):
            options = {letter: text for letter in LETTERS if (text := row.text(f"option_{letter}").strip())}
            key = row.text("gt_answer").strip()
            right = [letter for letter, text in options.items() if text == key]
            if len(right) != 1:
                same = f"of {' and '.join(right)}" if right else "of no option"
                problems.append(f"{row.where}, {row.identifier('question_id')}: the answer is the text {same}")
            image = images.image(row.text("image_path"), row.where)
            tags = {
                "question_type": row.text("question_type"),
                "modality": row.text("modality_type") or row.text("modality"),
                "dataset": row.text("dataset") or path.stem,
            }
            yield Item(
                id=row.identifier("question_id"),
                benchmark=NAME,
                kind="single_choice",
                question=row.text("question"),
                options=options,
                answers=tuple(right) if len(right) == 1 else (),
                images=(image,),
                tags={name: values for name, text in tags.items() if (values := lexicon.slugs(text))},
                cluster_id=image.name,
            )
    lettered.warn_ambiguous(NAME, problems)


OPTION = "{letter}. {text}"
MEDEVALKIT = lettered.medevalkit("omnimedvqa/medevalkit", OPTION)
"""The prompt of the published rows, but for their limit of tokens."""

OWNERS = Template(
    "omnimedvqa/owners",
    "{question}Here are {options} Only return what you think is the correct answer from the candidate answers, do not "
    "return any other irrelevant text!",
    max_tokens=256,
)
"""`MedicalDataset` of the official code, to the byte, with the limit of its LLaVA-Med; other models have other prompts.
That model is then asked for its answer once more, which is not done here.
It shows no letters, which GD, --reasoning and --explain need: hence it is not the default."""

PREFIX = Template("omnimedvqa/ours-ps", "Question: {question} Answer:")
"""Ours for PS, which is close to the owners' prefix-based score."""


def owners(item: Item, technique: Technique) -> Prompt:
    """Return the owners' prompt: the options are a list as Python prints it."""
    if technique != "mc":
        return Templates("owners", {"mc": OWNERS})(item, technique)
    listed = f"{len(item.options)} candidate answers:{list(item.options.values())}"
    return replace(OWNERS.prompt(item, technique), text=OWNERS.text.format(question=item.question, options=listed))


BENCHMARKS = (
    Benchmark(
        name=NAME,
        title="OmniMedVQA, open access",
        items=items,
        prompt=Templates("default", {"mc": MEDEVALKIT, "gd": MEDEVALKIT, "ps": PREFIX}),
        prompts={"owners": owners},
        score=scoring.score_single_choice,
        metrics=(metrics.accuracy, metrics.macro_accuracy("dataset"), *metrics.rates),
        headline=("accuracy",),
        dimensions=("question_type", "modality", "dataset"),
        public=True,
        origin=ORIGIN,
        owners=Owners(
            rule=OfficialRule(
                score=lettered.scored_by(lettered.similar),
                note="an answer counts as the option that it is most similar to, whatever it says",
            ),
            kits={kits.MEDEVALKIT: partial(kits.medevalkit_choices, line=OPTION, tagged=True)},
            published=partial(published.read, NAME),
        ),
    ),
)
