"""How other harnesses count the answers of a run: their rules in our words, flaws included, for `medvqa explain`.

No comparison and no gate knows them. Each rule names the code that it follows, at a commit or a release:

- VLMEvalKit: `gmai_mmbench.gmai_rule`, in the versions of that rule.
- lmms-eval, `_task_utils/mmmu_mcq_utils.py` and `slake/utils.py` of
  https://github.com/EvolvingLMMs-Lab/lmms-eval/tree/75571cfe0fa36ca5ec2e6aa2bb268f9d38295af3/lmms_eval/tasks
- Inspect: `solver/_multiple_choice.py` and `scorer/_choice.py` of inspect-ai 0.3.285, `vqa_rad/scorer.py` of
  inspect-evals 0.26.0, both on PyPI.
- MedEvalKit and LLaVA-Med: `metrics.kits`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from medvqa.benchmarks import gmai_mmbench, lettered
from medvqa.items import CHOICE_KINDS, KINDS, Answer, Benchmark, Kind, Kit, Metric, Result, Score, replace
from medvqa.metrics import kits
from medvqa.scoring import Reading, right_or_wrong, score_multiple_choice, score_single_choice

SINGLE, CLOSED = frozenset[Kind]({"single_choice"}), frozenset[Kind]({"judgment"})
LMMS = "https://github.com/EvolvingLMMs-Lab/lmms-eval/blob/75571cfe0fa36ca5ec2e6aa2bb268f9d38295af3/lmms_eval/tasks"
VLMEVALKIT = "https://github.com/open-compass/VLMEvalKit/blob/{}/vlmeval/utils/matching_util.py"


@dataclass(frozen=True, slots=True)
class HarnessRule:
    """The rule of a harness.

    `score` scores the answers of results of `kinds`, by default as they are scored; one without a value leaves a
    question out, as the harness does. `unread`: what the harness does with an answer in which it reads nothing.
    """

    name: str
    source: str
    kinds: frozenset[Kind] = frozenset(KINDS)
    score: Callable[[Result, Answer], Score] = lambda result, _: result.score
    unread: str = "counts as wrong"


def rules_of(benchmark: Benchmark, *, judged: bool = False) -> list[HarnessRule]:
    """Return the rules of harnesses for a benchmark. `judged`: a judge scored the open answers of the run.

    VLMEvalKit's are left out if they are the owners' own.
    """
    owners = benchmark.owners.rule
    own_versions = () if owners is None else (*owners.earlier, owners.version)
    rules = [
        HarnessRule(
            f"VLMEvalKit {version}",
            VLMEVALKIT.format(commit),
            SINGLE,
            partial(_by_letter, read=partial(gmai_mmbench.gmai_rule, version=version)),
            "is read by a model, and drawn at random if that fails three times",
        )
        for version, commit in gmai_mmbench.GMAI_COMMITS.items()
        if version not in own_versions
    ]
    drawn = "is drawn at random"
    rules += [
        HarnessRule(
            "lmms-eval, MMMU", f"{LMMS}/_task_utils/mmmu_mcq_utils.py", SINGLE, partial(_by_letter, read=lmms), drawn
        ),
        HarnessRule(
            "Inspect, multiple_choice",
            "inspect-ai 0.3.285 (PyPI), solver/_multiple_choice.py",
            frozenset(CHOICE_KINDS),
            partial(_by_letter, read=inspect_letters),
            "counts as wrong, as its prompt asks for a line ANSWER: X",
        ),
        HarnessRule(
            "Inspect, vqa_rad",
            "inspect-evals 0.26.0 (PyPI), vqa_rad/scorer.py",
            CLOSED,
            partial(_by_text, said=inspect_line),
            "counts as wrong, as its prompt asks for ANSWER: X",
        ),
    ]
    if benchmark.group == "slake":
        kinds = frozenset[Kind]({"judgment", "short_answer"})
        rules.append(HarnessRule("lmms-eval, SLAKE", f"{LMMS}/slake/utils.py", kinds, lmms_slake))
    return [*rules, *_of_kits(benchmark, judged)]


def _by_letter(result: Result, answer: Answer, read: Callable[..., Reading]) -> Score:
    score = score_multiple_choice if result.item.kind == "multiple_response" else score_single_choice
    return score(result.item, answer, read)


def lmms(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    """Read a choice as lmms-eval's MMMU tasks do.

    Letters in brackets count; else letters before a blank, also at the end of a word such as "MRA "; else letters
    before a full stop; else, in answers of more than five words, options whose text occurs anywhere. The last
    occurrence decides, of letters that between blanks; without any of these, the first letter.
    """
    text = lettered.bare(response)
    brackets, alone = ({letter: form.format(letter) for letter in options} for form in ("({})", " {} "))
    texts = {letter: option.lower() for letter, option in options.items()} if len(text.split()) > 5 else {}
    for kind, searched, forms, places in (
        ("letter in brackets", text, brackets, brackets),
        ("letter before a blank", text, {letter: f"{letter} " for letter in options}, alone),
        ("letter before a full stop", text, {letter: f"{letter}." for letter in options}, alone),
        ("text", text.lower(), texts, texts),
    ):
        if found := [letter for letter, form in forms.items() if form in searched]:
            last = {letter: searched.rfind(places[letter]) for letter in found}
            letter = max(found, key=last.__getitem__)
            return Reading((letter,), "read", f"lmms-eval: {kind}: {letter}")
    return Reading((), "unparsed", "lmms-eval: no letter or text; it draws an option")


_SPACE = re.compile(r"\s+")
_WRAPPED = (
    (re.compile(r"\$\s*([A-Za-z\d][A-Za-z\d ,]*?)\s*\$"), r"\1"),
    (re.compile(r"\*\*\s*([A-Za-z\d][A-Za-z\d ,]*?)\s*\*\*"), r"\1"),
    (re.compile(r"(^|[:,])(\s*)\(([A-Za-z\d])\)(?=\s*(?:[,.\n]|\Z))"), r"\1\2\3"),
)
_STATED = (
    re.compile(r"^answer\s*:\s*([a-z\d ,]+)\s*(?:$|\.)", re.I | re.M),
    re.compile(r"answer\s*:\s*([a-z\d ,]+)(?:\W|$)", re.I),
)
"""Lines that hold nothing else; else any "answer:". The last one counts."""


def _short_space(match: re.Match[str]) -> str:
    """White space in at most three characters, so that no expression above takes quadratic time."""
    before, line_end, after = match[0].partition("\n")
    return before[:1] + line_end + after.rpartition("\n")[2][:1]


def inspect_letters(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    """Read letters as Inspect's solver `multiple_choice` and scorer `choice` do: only what stands behind `ANSWER:`."""
    text = _SPACE.sub(_short_space, response)
    for pattern, kept in _WRAPPED:
        text = pattern.sub(kept, text)
    found = next((found for pattern in _STATED if (found := pattern.findall(text))), [])
    said = found[-1].strip().upper() if found else ""
    letters = list(filter(None, said.split(",")))
    if multiple:
        said = said.replace(" AND ", ",").replace(" ", "")
        letters = list(filter(None, said.split(",")))
        letters = letters if set(letters) <= options.keys() else list(said)
    elif len(letters) != 1:
        letters = []
    if letters and set(letters) <= options.keys():
        return Reading(tuple(sorted(set(letters))), "read", f"Inspect: ANSWER: {', '.join(letters)}")
    return Reading((), "unparsed", "Inspect: no letter behind ANSWER:")


def inspect_line(response: str) -> str | None:
    """Return what Inspect's VQA-RAD compares with yes or no: the end of the answer behind `ANSWER:`; None without."""
    before, _, last = response.rstrip().rpartition("\n")
    before = before.rstrip()
    if before.endswith(":") and before[:-1].rstrip().lower().endswith("answer"):
        return last.strip().lower()
    match = re.search(r"answer\s*:(.+)", last, re.I)
    return match[1].strip().lower() if match else None


def _by_text(result: Result, answer: Answer, said: Callable[[str], str | None]) -> Score:
    text = said(answer.text)
    if text is None:
        return Score(0.0, "unparsed", (), "no answer is read")
    return right_or_wrong(result.item, text == result.item.answers[0].strip().lower(), (text,), f"read: {text}")


_YES = {"en": "yes yeah yep true", "zh": "是 是的 有 包含 可以 能 会 正常"}
_NO = {"en": "no nope false", "zh": "否 不是 没有 无 不包含 不能 不会 不可以 不正常 异常"}
_YES_OR_NO = {word: "yes" for words in _YES.values() for word in words.split()} | {
    word: "no" for words in _NO.values() for word in words.split()
}
_SIGNS = str.maketrans(
    dict.fromkeys(
        string.punctuation + "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～、《》？【】", " "
    )
)


def lmms_normalised(text: str) -> str:
    """Return an answer as lmms-eval compares it for SLAKE: brackets cut away, signs as blanks, yes and no by words.

    Whole answers alone are yes or no: 正常 (normal) and 有 are yes, 异常 and 没有 are no.
    """
    text = text.lower()
    for first, last in ("()", "（）"):
        # Behind the last closing bracket, the expression would search to the end for each opening one.
        closed, end, rest = text.rpartition(last)
        text = re.sub(rf"[{first}][^{last}]*[{last}]", " ", closed + end) + rest
    text = " ".join(text.translate(_SIGNS).split())
    return _YES_OR_NO.get(text, "xray" if text in ("x ray", "xray") else text)


def lmms_slake(result: Result, answer: Answer) -> Score:
    """Score an answer as lmms-eval does for SLAKE: right if both are equal as normalised."""
    said = lmms_normalised(answer.text)
    return right_or_wrong(result.item, said == lmms_normalised(result.item.answers[0]), (said,), f"read: {said}")


def _of_kits(benchmark: Benchmark, judged: bool) -> Iterator[HarnessRule]:
    """Yield the rules of MedEvalKit and LLaVA-Med: their counts of single questions, by their metrics."""
    columns = {kit: of(Kit(judged=judged)) for kit, of in benchmark.owners.kits.items()}
    if not columns.get(kits.MEDEVALKIT):
        columns[kits.MEDEVALKIT] = kits.medevalkit_choices(Kit(), line="{letter}. {text}")
    names = {
        "medevalkit_choice_accuracy": ("MedEvalKit", "counts as the most similar option, the first if none is similar"),
        "medevalkit_total_accuracy": ("MedEvalKit", "counts as wrong"),
        "llava_med_closed_accuracy": ("LLaVA-Med 1.0, closed", "counts as wrong"),
    }
    for kit, metrics in columns.items():
        for metric in metrics:
            if metric.name in names and metric.kinds is not None:
                name, unread = names[metric.name]
                yield HarnessRule(name, kits.SOURCES[kit], metric.kinds, partial(_by_metric, metric), unread)


MAX_COMPARED = 2**14
"""Characters of an answer to a choice that difflib compares. MedEvalKit compares longer ones, in minutes."""


def _by_metric(metric: Metric, result: Result, answer: Answer) -> Score:
    """Score by a kit's count of one question; of a choice also which letter it takes, so that pairs can be confused."""
    item = result.item
    if item.kind in CHOICE_KINDS and len(answer.text) > MAX_COMPARED:
        return Score(None, "unscored", (), "too long to compare")
    value, counted = metric.terms([result])
    if not counted:
        return Score(None, "unscored", (), f"{metric.name} leaves it out")
    taken: tuple[str, ...] = ()
    if item.kind in CHOICE_KINDS:
        keys = item.answers if value else tuple(item.options)
        taken = tuple(key for key in keys if metric.terms([replace(result, item=replace(item, answers=(key,)))])[0])
    return right_or_wrong(item, value == 1, taken[:1], metric.name)
