"""Find the kinds of a run's wrong answers, by the trees of GMAI-MMBench or MedLesionVQA, or by one of the user's own.

`trees` reads trees, `wrong_answers` selects these and writes a judge's prompts, `labels` is the file of a run folder,
`shares` counts, `corrections` lets people correct. No model is called here.
"""

from __future__ import annotations

from medvqa.judging.taxonomy.corrections import COLUMNS, corrected, corrections, kind_of_tags, write_sheet
from medvqa.judging.taxonomy.labels import (
    FILE,
    Classified,
    ErrorJudge,
    ErrorLabel,
    ErrorSample,
    KindAgreement,
    People,
    digest,
    label_of,
    read,
    write,
)
from medvqa.judging.taxonomy.shares import ErrorShare, shares
from medvqa.judging.taxonomy.trees import SHIPPED, UNCLASSIFIED, WITHIN, Taxonomy, find, main_kind, parse, shipped
from medvqa.judging.taxonomy.wrong_answers import (
    BARE,
    by_rule,
    case_of,
    dimension_of,
    drawn,
    is_bare,
    template,
    with_images,
    wrong_answers,
)

__all__ = [
    "BARE",
    "COLUMNS",
    "FILE",
    "SHIPPED",
    "UNCLASSIFIED",
    "WITHIN",
    "Classified",
    "ErrorJudge",
    "ErrorLabel",
    "ErrorSample",
    "ErrorShare",
    "KindAgreement",
    "People",
    "Taxonomy",
    "by_rule",
    "case_of",
    "corrected",
    "corrections",
    "digest",
    "dimension_of",
    "drawn",
    "find",
    "is_bare",
    "kind_of_tags",
    "label_of",
    "main_kind",
    "parse",
    "read",
    "shares",
    "shipped",
    "template",
    "with_images",
    "write",
    "write_sheet",
    "wrong_answers",
]
