"""The lists of words.toml: each word is read by a pattern, stands once, and is written as answers are folded."""

import re
from itertools import chain
from pathlib import Path
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from medvqa import scoring
from medvqa.scoring import plain, read_options, words

LISTS = {name: words.entries(text) for name, text in {**words.lists().words, **words.lists().pieces}.items()}
SETS = {name: words.entries(text) for name, text in words.lists().sets.items()}
CHEST = {"A": "pneumonia", "B": "pleural effusion", "C": "pneumothorax", "D": "normal"}
# List -> an answer with one of its words, and what is read; another word in its place changes that.
EXAMPLES = {
    "abstention": ("{}", "abstained"),
    "adverb": ("B is {} correct.", "B"),
    "after_finding": ("Large pneumothorax {} a b", "C"),
    "after_noun": ("Here the scan shows pneumothorax {} the lung.", "C"),
    "after_text": ("so pneumothorax {} it", "C"),
    "announces_abroad": ("{}:\n(A) because of it", ""),
    "answer": ("The {} is B.", "B"),
    "answer_noun": ("{} B.", "B"),
    "auxiliary": ("A. (B) {} correct.", ""),
    "bad": ("Answer: B. Option B is {}.", ""),
    "because": ("B {} xx", "B"),
    "before_subject": ("x {} B is correct", "B"),
    "believe": ("We all {} B.", "B"),
    "beside": ("A pneumothorax is seen {} it", ""),
    "choose": ("Hm. I would {} B.", "B"),
    "clause": ("No pneumonia, {} pneumothorax.", "C"),
    "conclusion": ("Now {} B.", "B"),
    "consequence": ("It fits, {} B", "B"),
    "cue": ("The answer is (A). {}, the answer is (B).", "B"),
    "decisive": ("Option B is {} here, it fits.", "B"),
    "discussion": ("(B) {} round.", ""),
    "figure": ("So the {} (B)", ""),
    "final_answer": ("A. So the answer is A.\n{}: B", "B"),
    "finding": ("The thing in the lung {} pneumothorax.", "C"),
    "examine": ("Now we {} the options:\n(A) because of it", ""),
    "fits": ("Option B better {}.", "B"),
    "fits_best": ("Option B {}.", "B"),
    "good": ("B is {}.", "B"),
    "hedge": ("The lesion {} B.", "B"),
    "hypothesis": ("{} it were large, the answer is B.", ""),
    "is": ("Answer {} B", "B"),
    "is_bad_abroad": ("Antwort: B. (B) {}", ""),
    "is_good_abroad": ("B {}.", "B"),
    "later": ("It shows pneumothorax {}.", ""),
    "modal": ("Answer: B. Option B {} not fit.", ""),
    "negation": ("It shows {} pneumothorax.", ""),
    "no_finding": ("It shows {} pneumothorax.", ""),
    "not_mine": ("{} the answer is B.", ""),
    "of_the_image": ("The {} is normal, and round.", "D"),
    "option": ("{} b", "B"),
    "option_unspaced": ("{} b", "B"),
    "options": ("Now we discuss {}:\n(A) because of it", ""),
    "particle": ("So {} B.", "B"),
    "person": ("The {} chose B.", ""),
    "place": ("The image shows a lesion {} pneumothorax.", ""),
    "refusal": ("{}", "refused"),
    "relation": ("It shows {} pneumothorax.", ""),
    "retraction": ("B. {}", ""),
    "says": ("The student {} it is B.", ""),
    "seen": ("The left of it pneumothorax {}.", "C"),
    "shows": ("Here the scan {} pneumothorax.", "C"),
    "supposing": ("(B) - it {} look round.", ""),
    "turn": ("not A {} it is B", "B"),
    "verb": ("So (B) {} round.", ""),
}
UNREAD = {
    "isn't it": "its n't denies what follows",
    "because of": "because ends the clause before it, except in a heading",
    r"z\.n": "its full stop ends a sentence",
    r"v\.a": "its full stop ends a sentence",
    "не[ ]": "a response ends without white space",
    "or": "it joins an alternative",
    r"can be (?:\w+ly )?(?:seen|identified|observed|noted|appreciated)": "with an adverb it describes the option",
}


def example(entry: str) -> str:
    """Return a short text that the pattern of an entry matches."""
    return "".join(_piece(str(kind), value) for kind, value in parser.parse(words.expanded(entry)))


def _piece(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "IN":
            return _piece(str(value[0][0]), value[0][1])
        case "CATEGORY":
            return {"CATEGORY_DIGIT": "1", "CATEGORY_WORD": "x", "CATEGORY_SPACE": " "}[str(value)]
        case "MAX_REPEAT":
            return "".join(_piece(str(kind), inner) for kind, inner in value[2]) * (value[0] or value[1] == 1)
        case "SUBPATTERN":
            return "".join(_piece(str(kind), inner) for kind, inner in value[3])
        case "BRANCH":
            return "".join(_piece(str(kind), inner) for kind, inner in value[1][0])
        case _:
            return ""


def plain_entries(name: str) -> list[str]:
    """Return the entries of a list that look neither ahead nor back."""
    return [entry for entry in LISTS[name] if not re.search(r"\(\?<?[=!]", words.expanded(entry))]


def read(response: str) -> str:
    reading = read_options(response, CHEST)
    return "".join(reading.letters) if reading.status in ("read", "unparsed") else reading.status


def test_every_list_is_used() -> None:
    room = Path(scoring.__file__).parent
    sources = "".join(path.read_text() for path in [*room.glob("*.py"), room / "words.toml"])
    used = {*re.findall(r"\(\?&(\w+)\)", sources), *re.findall(r'word_set\("(\w+)"\)', sources)} - {"list"}
    assert used == LISTS.keys() | SETS.keys()


@pytest.mark.parametrize("name", [*LISTS, *SETS])
def test_words_stand_once_and_are_written_as_answers_are_folded(name: str) -> None:
    entries = LISTS.get(name) or SETS[name]
    assert len(set(entries)) == len(entries)
    for entry in entries:
        assert plain(entry) == entry
        written = re.sub(r"\\.", "", entry)
        assert written == written.casefold() or entry == written.lower()


@pytest.mark.parametrize("name", LISTS)
def test_each_word_is_matched_by_its_own_entry_alone(name: str) -> None:
    whole = re.compile(words.any_of(name), re.I)
    for entry in plain_entries(name):
        text = example(entry)
        matching = [other for other in LISTS[name] if re.fullmatch(words.expanded(other), text, re.I)]
        assert whole.fullmatch(text)
        assert matching == [entry], text


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_word_has_its_role_in_an_answer(name: str) -> None:
    sentence, expected = EXAMPLES[name]
    assert read(sentence.replace("{}", "blorb")) != expected
    readings = {entry: read(sentence.replace("{}", example(entry))) for entry in plain_entries(name)}
    assert {entry: said for entry, said in readings.items() if said != expected and entry not in UNREAD} == {}


def test_exceptions_are_words_of_the_lists() -> None:
    assert UNREAD.keys() <= set(chain.from_iterable(LISTS.values()))
