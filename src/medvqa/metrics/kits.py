"""Metrics that reproduce the counts of other evaluation kits, flaws included, for `--metric-like`.

They are read beside our measures. Only reports compute them: no comparison and no gate knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import Literal

from medvqa.items import Item, Kind, Kit, Metric, Result
from medvqa.metrics.definitions import LEFT_OUT
from medvqa.scoring import kits

CLOSED, OPEN = frozenset[Kind]({"judgment"}), frozenset[Kind]({"short_answer"})
LLAVA_MED, MEDEVALKIT = "llava-med", "medevalkit"
COMMITS = {LLAVA_MED: "ad758b687d4e", MEDEVALKIT: "9b12e3b34232"}

Count = Callable[[Item, str], float | bool | None]
"""The item and the text of its answer -> its count; None for an answer that the kit does not count."""


def _metric(
    kit: str, name: str, kinds: Collection[Kind], count: Callable[[Result], float | bool | None], definition: str,
    *signs: tuple[str, str],
) -> Metric:  # fmt: skip
    def terms(results: Sequence[Result]) -> tuple[float, float]:
        [result] = results
        if result.answer is None or not result.item.answers:
            return LEFT_OUT
        value = count(result)
        return LEFT_OUT if value is None else (float(value), 1.0)

    return Metric(
        f"{kit.replace('-', '_')}_{name}",
        terms,
        binary=False,
        kinds=frozenset(kinds),
        definition=f"As {kit} counts, with its flaws: {definition}",
        signs=(("like", f"{kit} {COMMITS[kit]}"), *signs),
        reads_text=True,
    )


def _of_texts(count: Callable[[str, str], float | bool | None]) -> Callable[[Result], float | bool | None]:
    """A count of the first reference and the text of an answer."""

    def of(result: Result) -> float | bool | None:
        return None if result.answer is None else count(result.item.answers[0], result.answer.text)

    return of


def llava_med(setting: Kit) -> tuple[Metric, ...]:
    """Return LLaVA-Med's columns: closed accuracy, open recall and, with training answers, open accuracy."""
    columns = [
        _metric(
            LLAVA_MED,
            "closed_accuracy",
            CLOSED,
            _of_texts(kits.llava_med_closed),
            "an answer that contains yes or no, but not the key, is left out; also within other words.",
        ),
        _metric(
            LLAVA_MED,
            "open_recall",
            OPEN,
            _of_texts(kits.llava_med_recall),
            "the share of the reference's words in the answer, where a repeated word of the answer counts again.",
        ),
        _metric(
            LLAVA_MED,
            "open_exact",
            OPEN,
            _of_texts(kits.llava_med_exact),
            "the share of the answer's words that the reference has, which it calls exact match.",
        ),
    ]
    if candidates := setting.training():
        nearest = kits.Nearest(candidates)
        digest = sha256("\0".join(candidates).encode(errors="surrogatepass")).hexdigest()[:8]
        columns.append(
            _metric(
                LLAVA_MED,
                "open_accuracy",
                OPEN,
                _of_texts(nearest.right),
                "the answer stands for the training answer with the most words in it, the first one on ties.",
                ("candidates", f"{len(candidates)}@{digest}"),
            )
        )
    return tuple(columns)


ClosedIfJudged = Literal["kept", "lost", "judged"]


def medevalkit(setting: Kit, *, folded: bool = True, closed_if_judged: ClosedIfJudged = "kept") -> tuple[Metric, ...]:
    """Return MedEvalKit's columns for a data set.

    `folded`: it reads keys and answers of this data set in lower case, without white space around them, as for VQA-RAD
    and PathVQA. `closed_if_judged`: with a judge it keeps the scores of closed answers; or counts none of them as
    right, as for PathVQA; or adds the judge's scores to them, as for SLAKE, where these columns are left out: our judge
    reads no closed answers.
    """
    loses_closed = setting.judged and closed_if_judged == "lost"

    def read(result: Result) -> tuple[str, str]:
        """The key and the answer as the kit compares them."""
        key = result.item.answers[0]
        text = result.answer.text if result.answer is not None else ""
        return (key.lower().strip() if folded else key), kits.medevalkit_response(text, stripped=folded)

    def closed(result: Result) -> bool:
        key, said = read(result)
        compare = kits.medevalkit_judgement if key in ("yes", "no") else kits.medevalkit_closed
        return not loses_closed and compare(key, said)

    def exact(result: Result) -> bool:
        key, said = read(result)
        return said == key.lower()

    def opened(result: Result) -> bool | None:
        if not setting.judged:
            return exact(result)
        return None if result.score.value is None else result.score.value == 1

    def right(result: Result) -> bool | None:
        return closed(result) if result.item.kind in CLOSED else opened(result)

    def overlap(place: int) -> Callable[[Result], float | None]:
        def of(result: Result) -> float | None:
            values = kits.medevalkit_overlap(*read(result))
            return None if values is None else values[place]

        return of

    lost = " No closed one is right: the kit loses them if a judge is set." if loses_closed else ""
    by = "by the judge" if setting.judged else "if the whole answer is the key"
    signs = [("judged", "yes")] if setting.judged else []
    both = (
        _metric(MEDEVALKIT, "total_accuracy", CLOSED | OPEN, right, f"open answers are right {by}.{lost}", *signs),
        _metric(MEDEVALKIT, "closed_accuracy", CLOSED, closed, f"yes and no also within other words.{lost}", *signs),
    )
    alone = f"open answers are right {by}; the kit prints this number divided by theirs once more."
    return (
        *(() if setting.judged and closed_if_judged == "judged" else both),
        _metric(MEDEVALKIT, "open_accuracy", OPEN, opened, alone, *signs),
        _metric(MEDEVALKIT, "open_em", OPEN, exact, "the whole answer is the key."),
        *(
            _metric(
                MEDEVALKIT,
                f"printed_{printed}",
                OPEN,
                overlap(place),
                f"it prints the {true} of token sets as {printed}, and fails at an empty answer, left out here.",
            )
            for place, (printed, true) in enumerate(
                (("precision", "F1"), ("recall", "precision"), ("f1", "recall")),
            )
        ),
    )


def medevalkit_choices(setting: Kit, *, line: str, tagged: bool = False) -> tuple[Metric, ...]:
    """Return MedEvalKit's accuracy of single choices; `line` is how it shows an option, such as `A.liver`.

    `tagged`: it reads <answer> before all else, as for OmniMedVQA and MedXpertQA.
    """

    def right(result: Result) -> bool | None:
        options = [line.format(letter=letter, text=text) for letter, text in result.item.options.items()]
        text = result.answer.text if result.answer is not None else ""
        return kits.medevalkit_choice(options, result.item.answers[0], kits.tagged(text) if tagged else text)

    definition = (
        "an answer that is neither a letter nor an option stands for the most similar option, else for the first."
    )
    return (_metric(MEDEVALKIT, "choice_accuracy", frozenset[Kind]({"single_choice"}), right, definition),)
