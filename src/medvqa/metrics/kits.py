"""Counts of other evaluation kits for closed, open and choice questions, flaws included, for `--metric-like`.

They are read beside our measures, and never compared with them: docs/scoring.md lists the traps. Only reports compute
them: no comparison and no gate knows them. `SOURCES` are LLaVA-Med 1.0 (`run_eval.py`, `eval_metrics`) and MedEvalKit
(`utils.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Literal

from medvqa.items import Kind, Kit, Metric, Result
from medvqa.metrics.definitions import LEFT_OUT

CLOSED, OPEN = frozenset[Kind]({"judgment"}), frozenset[Kind]({"short_answer"})
LLAVA_MED, MEDEVALKIT = "llava-med", "medevalkit"
SOURCES = {
    LLAVA_MED: "https://github.com/microsoft/LLaVA-Med/tree/ad758b687d4e79628dbfdb149dc545641ed29014/llava/eval",
    MEDEVALKIT: "https://github.com/alibaba-damo-academy/MedEvalKit/tree/9b12e3b34232a8779cc1275417bf4f72f03d28e0/utils",
}
COMMITS = {kit: source.partition("/tree/")[2][:12] for kit, source in SOURCES.items()}


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


# --- LLaVA-Med -------------------------------------------------------------------------------------------------------

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {"none": "0", **{word: str(number) for number, word in enumerate(_DIGITS)}}
_ARTICLES = frozenset({"a", "an", "the"})
_SIGNS = ';/[]"{}()=+\\_-><@`,?!'
_PERIOD = re.compile(r"(?!<=\d)(\.)(?!\d)")
_COMMA = re.compile(r"(\d)(\,)(\d)")
_PERIODS = 32
"""Periods that LLaVA-Med removes: it passes a flag, whose value is 32, in the place of the count."""
_APOSTROPHES = (
    "ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd "
    "he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am might've mightn't mightn't've must've mustn't "
    "needn't not've o'clock 'ow's'at oughtn't shan't she'd've should've shouldn't shouldn't've somebody'd've "
    "somebody'll somebody's someone'd someone'd've someone'll someone's something'd something'd've something'll "
    "that's there'd there'd've there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've "
    "weren't what'll what're what's what've when's where'd where's where've who'd who'd've who'll who's who've "
    "why'll why're why's won't would've wouldn't wouldn't've y'all y'all'd've y'all'll you'd you'd've you'll you're "
    "you've"
)
_CONTRACTIONS = {
    word[:place] + word[place + 1 :]: word
    for word in _APOSTROPHES.split()
    for place, sign in enumerate(word)
    if sign == "'"
} | {"somebody'd": "somebodyd"}
"""A contraction without one of its apostrophes -> the contraction."""


def llava_med_words(text: str) -> str:
    """Return a text normalised as LLaVA-Med does (`normalize_word`), after VQA v2's evaluation.

    A sign is deleted everywhere if it stands beside a space anywhere, and becomes a space otherwise.
    """
    kept, has_comma = text, _COMMA.search(text) is not None
    for sign in _SIGNS:
        deleted = sign + " " in text or " " + sign in text or has_comma
        kept = kept.replace(sign, "" if deleted else " ")
    words = [_NUMBERS.get(word, word) for word in _PERIOD.sub("", kept, count=_PERIODS).lower().split()]
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES).replace(",", "")


def _llava_med(reference: str, response: str) -> tuple[Counter[str], Counter[str]]:
    """The words of a reference and of a response with their numbers; both are normalised twice, as there."""
    first, second = (Counter(llava_med_words(llava_med_words(text.lower())).split()) for text in (reference, response))
    return first, second


def llava_med_closed(reference: str, response: str) -> bool | None:
    """Return whether LLaVA-Med counts a closed answer as right; None if it does not count the answer at all.

    An answer with "yes" or "no" anywhere, also within "abnormal" or "know", is right if it contains the reference
    anywhere, and is left out otherwise: wrong answers leave the denominator. Any other answer is wrong.
    """
    said, key = llava_med_words(response.lower()), llava_med_words(reference.lower())
    if "yes" in said or "no" in said:
        return True if key in said else None
    return False


def llava_med_recall(reference: str, response: str) -> float:
    """Return LLaVA-Med's recall of an open answer, the usual column "open".

    Words of the answer that stand in the reference, with their repetitions, over these and the words of the reference
    that the answer lacks.
    """
    key, said = _llava_med(reference, response)
    hits = sum(count for word, count in said.items() if word in key)
    missed = sum(count for word, count in key.items() if word not in said)
    return hits / (hits + missed) if hits else 0.0


def llava_med_exact(reference: str, response: str) -> float:
    """Return LLaVA-Med's "exact match": the share of the answer's words that the reference has, not an exact match."""
    key, said = _llava_med(reference, response)
    return sum(word in said for word in key) / said.total() if said else 0.0


class Nearest:
    """LLaVA-Med's "open accuracy": the answer stands for the nearest of a list of candidates.

    The nearest candidate has the largest share of its words in the answer; the first one counts on ties. An answer that
    shares no word with any, such as an empty one, so stands for the first candidate.
    """

    def __init__(self, candidates: Sequence[str]) -> None:
        """`candidates` are the open answers of the training questions, in their order."""
        self._candidates = [llava_med_words(text) for text in candidates]
        self._sizes = [len(set(text.split())) for text in self._candidates]
        self._with: dict[str, list[int]] = {}
        for place, text in enumerate(self._candidates):
            for word in sorted(set(text.split())):
                self._with.setdefault(word, []).append(place)

    def candidate(self, response: str) -> str:
        """Return the normalised candidate that the answer stands for."""
        words = set(llava_med_words(llava_med_words(response.lower())).split())
        shared = Counter(place for word in words for place in self._with.get(word, ()))
        place = min(shared, key=lambda place: (-shared[place] / self._sizes[place], place), default=0)
        return self._candidates[place]

    def right(self, reference: str, response: str) -> bool:
        """Return whether the candidate that the answer stands for is the reference."""
        return self.candidate(response) == llava_med_words(llava_med_words(reference.lower()))


def llava_med(setting: Kit) -> tuple[Metric, ...]:
    """Return LLaVA-Med's columns: closed accuracy, open recall and, with training answers, open accuracy."""
    columns = [
        _metric(
            LLAVA_MED,
            "closed_accuracy",
            CLOSED,
            _of_texts(llava_med_closed),
            "an answer that contains yes or no, but not the key, is left out; also within other words.",
        ),
        _metric(
            LLAVA_MED,
            "open_recall",
            OPEN,
            _of_texts(llava_med_recall),
            "the share of the reference's words in the answer, where a repeated word of the answer counts again.",
        ),
        _metric(
            LLAVA_MED,
            "open_exact",
            OPEN,
            _of_texts(llava_med_exact),
            "the share of the answer's words that the reference has, which it calls exact match.",
        ),
    ]
    if candidates := setting.training():
        nearest = Nearest(candidates)
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


# --- MedEvalKit ------------------------------------------------------------------------------------------------------

_PATTERNS = (
    *("**answer**:", "**answer**", "*answer*:", "**answer:**", "answer is", "answer:", "答案:"),
    *("final answer", "final answer is"),
)


def _boxed(text: str) -> str:
    r"""The content of the last \boxed{...}, "None" without one, as mathruler reads it."""
    start = text.rfind(r"\boxed{")
    depth = 0
    for end in range(start + 7, len(text)) if start >= 0 else ():
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth < 0:
            return text[start + 7 : end].strip()
    return "None"


def _tagged(text: str) -> str:
    """The contents of all <answer>...</answer>, the text itself without any, as MedEvalKit reads them."""
    contents, end = list[str](), 0
    while (start := text.find("<answer>", end)) >= 0 and (end := text.find("</answer>", start)) >= 0:
        contents.append(text[start + len("<answer>") : end])
    return " ".join(contents).strip() or text


def medevalkit_response(response: str, *, stripped: bool = True) -> str:
    """Return the part of a response that MedEvalKit scores; `stripped`: without white space around it."""
    if (boxed := _boxed(response)) != "None":
        response = boxed
    elif "<answer>" in response:
        response = _tagged(response)
    return _parsed(response.lower().strip() if stripped else response)


def _parsed(response: str) -> str:
    """MedEvalKit's `parse_response`: a response that only mentions "boxed" becomes "None"."""
    response = response.lower()
    if "boxed" in response:
        response = _boxed(response)
    elif "<answer>" in response:
        response = _tagged(response)
    for pattern in _PATTERNS:
        response = response.rpartition(pattern)[2]
    return response


def medevalkit_judgement(reference: str, response: str) -> bool:
    """Return whether MedEvalKit counts a yes or no as right: substrings, so that "abnormal" says "no"."""
    said = response.replace("\n", "").replace(".", "")
    return (("yes" in said) ^ ("no" in said)) and reference.lower() in said


def medevalkit_closed(reference: str, response: str) -> bool:
    """Return whether MedEvalKit counts another closed answer as right: the whole answer without full stops."""
    return response.replace("\n", "").replace(".", "") == reference.lower()


def medevalkit_overlap(reference: str, response: str) -> tuple[float, float, float] | None:
    """Return MedEvalKit's F1, precision and recall of tokens as sets; None where it fails, at an empty answer.

    It prints the first as precision, the second as recall and the third as F1.
    """
    said, key = set(response.lower().split()), set(reference.lower().split())
    if not said or not key:
        return None
    precision, recall = len(said & key) / len(said), len(said & key) / len(key)
    return (2 * precision * recall / (precision + recall), precision, recall) if said & key else (0.0, 0.0, 0.0)


def medevalkit_choice(options: Sequence[str], key: str, response: str) -> bool:
    """Return whether MedEvalKit counts the answer to a choice question as right.

    `options` are shown as there, with their letters. An answer that is neither a letter nor an option stands for the
    most similar option by difflib, and for the first one if nothing is similar: an empty answer is A.
    """
    letters = [chr(ord("a") + place) for place in range(len(options))]
    shown = [option.lower() for option in options]
    response, key = response.lower(), key.strip().lower()
    if (first := response.split("\n\n")[0]) in letters:
        response = first
    elif (last := response.split("\n\n")[-1].split(".")[0]) in letters:
        response = last
    response = _parsed(response).strip().lower().replace("\n", "")
    said = response.split(".")[0].split(":")[-1]
    if said == key:
        return True
    if said in letters:
        return shown[letters.index(said)] == key
    if said in shown:
        return key in letters and said == shown[letters.index(key)]
    similar = [SequenceMatcher(None, option, response).ratio() for option in shown]
    place = similar.index(max(similar))
    return key in (letters[place], shown[place])


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
        return (key.lower().strip() if folded else key), medevalkit_response(text, stripped=folded)

    def closed(result: Result) -> bool:
        key, said = read(result)
        compare = medevalkit_judgement if key in ("yes", "no") else medevalkit_closed
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
            values = medevalkit_overlap(*read(result))
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
        return medevalkit_choice(options, result.item.answers[0], _tagged(text) if tagged else text)

    definition = (
        "an answer that is neither a letter nor an option stands for the most similar option, else for the first."
    )
    return (_metric(MEDEVALKIT, "choice_accuracy", frozenset[Kind]({"single_choice"}), right, definition),)
