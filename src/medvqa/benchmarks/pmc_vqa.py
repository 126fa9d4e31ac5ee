r"""PMC-VQA (Zhang et al. 2023, arXiv:2305.10415): multiple choice about figures of articles in PubMed Central.

Data: https://huggingface.co/datasets/RadGenome/PMC-VQA (before: xmcmic/PMC-VQA), CC BY-SA by its card.
Two test sets are in use, and their numbers cannot be compared: test_clean.csv of version 1 (2,000 questions, the
paper's) and test_2.csv of version 2 (33,430 questions without compound figures, MedEvalKit's). A row, made up:

    version 1: Figure_path PMC1_F1.jpg | Question What does the arrow show? | Answer (in older files Anwser) Cyst |
               Choice A  A:Mass | Choice B  B:Cyst | Choice C  C:Stone | Choice D  D:Clip | Answer_label B
    version 2: index 0 | Figure_path PMC1_Fig4_41.jpg | Caption ... | Question ... | Choice A ... | Choice D ... |
               Answer B | split test

Official code: https://github.com/xiaoman-zhang/PMC-VQA/blob/1678ec2c97f0b2bf84591ddccd2e84932630e450/src/MedVInT_TD/test.py
takes the option most similar to the last character of its model's one token; here to the whole answer
(`lettered.similar`). Traps: options carry a prefix with or without a
blank; the answer may be a text, a prefixed text or a letter; the caption holds the answer and is never read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from medvqa import metrics, scoring, tables
from medvqa.benchmarks import lettered, published
from medvqa.benchmarks.lettered import TOKENS
from medvqa.items import Benchmark, Item, OfficialRule, Origin, OriginFile, Owners, Technique
from medvqa.metrics import kits
from medvqa.protocols.prompts import Template, Templates
from medvqa.tables.image_files import ImageFolder

GROUP = "pmc-vqa"
LETTERS, FEWEST = "ABCD", 2
FOLDERS = ("images", "figures", "")
"""Folders of the images, beside the CSV files; archives and kits differ."""
CHOICES = tuple(f"choice {letter.lower()}" for letter in LETTERS)
NEEDED = [("figure_path", "question", *CHOICES, key) for key in ("answer_label", "answer", "anwser")]

CLASH = "?"
"""Stands for an answer whose letter and text belong to different options."""

_PREFIX = re.compile(r"\s*([A-D])\s*:\s*")
_ARTICLE = re.compile(r"PMC\d+")


def items(data: Path, file: str, benchmark: str) -> Iterator[Item]:
    """Yield the questions of a CSV file; those of one article share a cluster."""
    folder, counts, problems = data / GROUP, Counter[str](), list[str]()
    held = [(ImageFolder(folder / name, data), _names(folder / name)) for name in FOLDERS]
    for row in tables.read(folder / file, name=f"{GROUP}/{file}", needed=NEEDED, fold=True):
        figure = row.identifier("figure_path")
        counts[stem := Path(figure).stem] += 1
        options, odd = _options(row)
        letter, why = _key(row, options)
        if odd or not letter:
            problems.append(f"{row.where}, {odd or why}")
        holder = next((images for images, names in held if figure in names), held[0][0])
        article = _ARTICLE.match(figure)
        yield Item(
            id=f"{stem}-{counts[stem]}",
            benchmark=benchmark,
            kind="single_choice",
            question=row.text("question").strip(),
            options=options,
            answers=(letter,) if letter and not odd else (),
            images=(holder.image(figure, row.where),),
            cluster_id=article[0] if article else figure,
        )
    lettered.warn_ambiguous(benchmark, problems)


def _names(folder: Path) -> frozenset[str]:
    return frozenset(os.listdir(folder)) if folder.is_dir() else frozenset()


def _options(row: tables.TableRow) -> tuple[dict[str, str], str]:
    """The options without prefix, and the problem with them, or ""."""
    texts = {letter: row.text(column).strip() for letter, column in zip(LETTERS, CHOICES, strict=True)}
    prefixes = {letter: match[1] for letter, text in texts.items() if (match := _PREFIX.match(text))}
    odd = len(prefixes) == len(texts) and any(letter != prefix for letter, prefix in prefixes.items())
    own = {
        letter: _PREFIX.sub("", text, count=1) if prefixes.get(letter) == letter else text
        for letter, text in texts.items()
    }
    options = {letter: text for letter, text in own.items() if text}
    if len(options) < FEWEST:
        return options, f"it has fewer than {FEWEST} options"
    return options, "the prefixes are not A to D in order" if odd else ""


def _key(row: tables.TableRow, options: Mapping[str, str]) -> tuple[str, str]:
    """The right letter by the label, else by the answer's text; "" with the reason if they contradict each other."""
    label = row.text("answer_label").strip()
    answer = (row.text("answer") or row.text("anwser")).strip()
    if label and label not in options:
        return "", f"the label '{label[:20]}' is none of its options"
    named = _named(answer, options)
    if label:
        agrees = not named or label in named
        return (label, "") if agrees else ("", f"the label is {label}, and the answer is {_shown(named)}")
    if len(named) != 1:
        return "", f"the answer is {_shown(named)}"
    return min(named), ""


def _named(answer: str, options: Mapping[str, str]) -> set[str]:
    """The options that an answer names: by letter, by text, or by prefixed text, whose letter must have that text."""
    if answer in options:
        return {answer}
    prefix = _PREFIX.match(answer)
    by_text = {letter for letter, option in options.items() if _plain(option) == _plain(answer)}
    if prefix is None or by_text:
        return by_text
    text = _plain(answer[prefix.end() :])
    same = {letter for letter, option in options.items() if _plain(option) == text}
    # The letter and the text of different options: neither is preferred.
    return {prefix[1]} & options.keys() if prefix[1] in same or not same else {CLASH}


def _shown(named: set[str]) -> str:
    if CLASH in named:
        return "the letter of one option with the text of another"
    return f"that of {' and '.join(sorted(named))}" if named else "none of its options"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


OPTION = " {letter}:{text}"
"""How the owners write an option, which they compare with the answer."""
OWNERS = Template("pmc-vqa/mc", "Question: {question}Choices:{options}The Answer is:", OPTION, max_tokens=TOKENS)
"""`PMC_QA_Dataset`, to the byte, for options with a blank before their prefix. It has no line breaks. The limit is
ours: the owners' model writes one token."""

MEDEVALKIT = lettered.medevalkit("pmc-vqa/medevalkit", OPTION)
"""The prompt of the published rows, but for their limit of tokens."""

PREFIX = Template("pmc-vqa/ours-ps", "Question: {question} Answer:")
"""Ours for PS."""

_BY_TECHNIQUE: Mapping[Technique, Template] = {"mc": OWNERS, "gd": OWNERS, "ps": PREFIX}


def _origin(table: str, archive: str, release: int) -> Origin:
    return Origin(
        licence="CC BY-SA by its card; the articles are CC0 or CC BY",
        home="https://huggingface.co/datasets/RadGenome/PMC-VQA",
        hub="RadGenome/PMC-VQA",
        revision="c08340c8c3e01c5b0a549ff4849059b017bd584d",
        files=(
            OriginFile(to=f"{GROUP}/{table}", at=table),
            OriginFile(to=f"{GROUP}/{archive}", at=archive, unpack=GROUP),
        ),
        note="images.zip (version 1) has 18.9 GB, images_2.zip (version 2) 2.2 GB",
        release=release,
        group=GROUP,
    )


BENCHMARKS = tuple(
    Benchmark(
        name=name,
        title=title,
        items=partial(items, file=file, benchmark=name),
        prompt=Templates("default", _BY_TECHNIQUE),
        prompts={"medevalkit": Templates("medevalkit", {"mc": MEDEVALKIT, "gd": MEDEVALKIT})},
        score=scoring.score_single_choice,
        metrics=(metrics.accuracy, *metrics.rates),
        public=True,
        origin=_origin(file, archive, release),
        owners=Owners(
            rule=OfficialRule(
                score=lettered.scored_by(partial(lettered.similar, form=OPTION)),
                note="an answer counts as the option that it is most similar to, whatever it says",
            ),
            kits={kits.MEDEVALKIT: partial(kits.medevalkit_choices, line=OPTION)},
            published=partial(published.read, GROUP),
        ),
    )
    for name, title, file, archive, release in (
        ("pmc-vqa-test-clean", "PMC-VQA, test_clean (version 1)", "test_clean.csv", "images.zip", 2000),
        ("pmc-vqa-test-2", "PMC-VQA, test_2 (version 2)", "test_2.csv", "images_2.zip", 33430),
    )
)
