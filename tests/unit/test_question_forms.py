"""Other forms of questions: what each changes, what stays, and which questions it cannot change."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.benchmarks import own, pytest_medvqa_benchmarks
from medvqa.items import CHOICE_KINDS, KINDS, Benchmark, DataError, Item, Query, Result, Score, UsageError, Variant
from medvqa.perturbing import LEVELS
from medvqa.protocols import perturbation, question_forms, rotation
from medvqa.protocols.protocol import Protocol, as_shown
from medvqa.protocols.question_forms import FORMS, KEYBOARD, OTHER, SENTENCES, QuestionForm, offered, parse
from medvqa.tags import lexicon
from support.laws import examples

NONE, WRONG = "none_of_the_above", "none_of_the_above:wrong"
ITEM = Item(
    id="7",
    benchmark="ward",
    kind="single_choice",
    question="Which lesion is visible in <image 1>, 12 weeks after the T2-weighted MRI of the patient?",
    options={"A": "hemangioma", "B": "metastasis", "C": "cyst"},
    answers=("A",),
    tags={"modality": ("mri",)},
)
TAGS = {"modality": ["ct", "mri", "none", "x_ray"]}
LETTERS = "ABCDE"
TEXTS = st.text(st.characters(codec=None) | st.sampled_from("aeist 12ABC<>\n"), max_size=80)
WORDS = st.lists(
    st.sampled_from(["Which", "lesion", "is", "visible", "in", "this", "MRI", "lung", "12", "weeks", "(scan)"])
)


@st.composite
def items(draw: st.DrawFn) -> Item:
    options = {LETTERS[place]: text for place, text in enumerate(draw(st.lists(TEXTS, max_size=5)))}
    answers = draw(st.lists(st.sampled_from([*options]), max_size=2, unique=True)) if options else draw(st.lists(TEXTS))
    kinds = sorted(CHOICE_KINDS) if options else sorted(set(KINDS) - CHOICE_KINDS)
    kind = draw(st.sampled_from(kinds))
    tags = {"modality": tuple(draw(st.lists(st.sampled_from(["ct", "mri"]), max_size=2)))}
    question = draw(TEXTS | WORDS.map(" ".join))
    return Item(draw(TEXTS), "ward", kind, question, options, tuple(answers), tags=tags)


SHIPPED = (
    *(QuestionForm(name, level) for name in ("typos", "irrelevant_context") for level in range(1, LEVELS + 1)),
    *(parse(name, Path()) for name in ("false_premise", NONE, WRONG)),
)


def misspelt(item: Item, level: int) -> str:
    return QuestionForm("typos", level).formed(item, {}).question


# ---- laws ------------------------------------------------------------------------------------------------------------


@examples(200)
@given(items(), st.sampled_from(SHIPPED))
def test_any_item_stays_valid(item: Item, form: QuestionForm) -> None:
    formed = form.formed(item, TAGS)
    assert formed == form.formed(item, TAGS)
    assert [*formed.options] == [*item.options]
    assert replace(formed, question=item.question, options=item.options) == item
    changed = {letter for letter, text in item.options.items() if formed.options[letter] != text}
    assert len(changed) <= (form.name == NONE)
    if form.name == NONE and formed is not item:
        assert (set(item.answers) >= changed) != (form.of == "wrong") or not changed
    # It is told by `is`, and asked by letters alone.
    assert form.changes(item, "mc", TAGS) == (formed is not item)
    assert not form.changes(item, "ps", TAGS) or form.name != NONE


@examples(200)
@given(items(), st.integers(1, LEVELS))
def test_typing_errors_keep_numbers_marks_and_first_letters(item: Item, level: int) -> None:
    before, after = item.question.split(), misspelt(item, level).split()
    assert len(after) == len(before)
    for word, typed in zip(before, after, strict=True):
        assert typed[:1] == word[:1]
        if typed != word:
            assert not re.search(r"\d|<|>", word)
            assert abs(len(typed) - len(word)) <= 1
    assert re.findall(r"\d+", misspelt(item, level)) == re.findall(r"\d+", item.question)


@examples(200)
@given(items(), st.integers(1, LEVELS - 1))
def test_a_level_holds_the_typing_errors_of_the_level_below(item: Item, level: int) -> None:
    words = [question.split() for question in (item.question, misspelt(item, level), misspelt(item, level + 1))]
    assert all(high == low for plain, low, high in zip(*words, strict=True) if plain != low)


@examples(100)
@given(items(), st.sampled_from((NONE, WRONG)), st.none() | st.integers(0, 4))
def test_an_answer_is_read_in_the_options_that_were_shown(item: Item, perturb: str, shift: int | None) -> None:
    shift = None if shift is None or shift >= len(item.options) else shift
    query = Query(item, variant=Variant(rotation=shift))
    shown = as_shown(query, Protocol(perturb=perturb))
    assert shown == rotation.rotated(offered(offered(item, perturb), perturb), shift)
    result = Result("run", shown, "", None, Score(1.0, "correct", shown.answers), variant=query.variant.name)
    back = rotation.result_back(result, item, shift)
    assert back.item is item
    if item.kind in CHOICE_KINDS:
        assert set(back.score.extracted) == set(item.answers)


# ---- each form -------------------------------------------------------------------------------------------------------


def test_typing_errors_are_as_many_as_the_level_says() -> None:
    words = " ".join(["alpha", "bravo", "charlie", "delta", "hotel", "india", "juliett", "lima", "oscar", "papa"] * 2)
    item = replace(ITEM, question=words)
    for level in range(1, LEVELS + 1):
        pairs = zip(words.split(), misspelt(item, level).split(), strict=True)
        assert sum(plain != typed for plain, typed in pairs) == 2 * level
    assert misspelt(item, 5) != misspelt(replace(item, id="8"), 5)


@pytest.mark.parametrize(
    "question", ["这张图片显示什么病变？", "MRI CT mmHg B12 IL-6?", "", "Is it so?", "<image 1> 12 weeks"]
)
def test_a_question_without_longer_words_cannot_be_misspelt(question: str) -> None:
    assert not QuestionForm("typos", 5).changes(replace(ITEM, question=question), "mc", {})


def test_a_typing_error_is_one_of_four() -> None:
    seen = set()
    for number in range(400):
        typed = misspelt(replace(ITEM, question="lesion", id=str(number)), 1)
        if len(typed) > 6:
            assert re.sub(r"(.)\1", r"\1", typed) == "lesion"
            seen.add("doubled")
        elif len(typed) < 6:
            assert typed in ["lsion", "leion", "leson", "lesin", "lesio"]
            seen.add("dropped")
        elif sorted(typed) == sorted("lesion"):
            seen.add("swapped")
        else:
            ((plain, key),) = [(a, b) for a, b in zip("lesion", typed, strict=True) if a != b]
            assert key in KEYBOARD[plain]
            seen.add("beside")
    assert seen == {"doubled", "dropped", "swapped", "beside"}
    assert {letter: set(KEYBOARD[letter]) for letter in "gp"} == {"g": set("fhtyvb"), "p": set("ol")}


def test_irrelevant_sentences_stand_before_the_question() -> None:
    formed = QuestionForm("irrelevant_context", 2).formed(ITEM, {})
    assert formed.question == f"{SENTENCES[0]} {SENTENCES[1]} {ITEM.question}"
    assert len(SENTENCES) == LEVELS


def test_irrelevant_sentences_say_nothing_of_a_patient() -> None:
    text = " ".join(SENTENCES).lower()
    told = (
        "pain|year|old|male|female|man|woman|child|cough|fever|smok|drug|left|right|lesion|tumor|patient|history|snow"
    )
    assert not re.search(rf"\b({told})", text)


def test_a_false_premise_names_another_value_of_the_benchmarks_tags() -> None:
    form = parse("false_premise", Path())
    named = {form.formed(replace(ITEM, id=str(n)), TAGS).question.removesuffix(f" {ITEM.question}") for n in range(60)}
    assert named == {
        f"The modality here is {lexicon.display('modality', value)}.".replace("_", " ") for value in ("ct", "x_ray")
    }
    assert form.formed(replace(ITEM, tags={"answer_type": ("open",)}), TAGS).question == ITEM.question
    assert form.formed(replace(ITEM, tags={"modality": ("ct", "mri", "x_ray")}), TAGS).question == ITEM.question


def test_a_false_premise_names_no_region_that_holds_the_right_one() -> None:
    item = replace(ITEM, tags={"body_region": ("head", "face", "periorbital_area", "upper_eyelid")})
    form = parse("false_premise", Path())
    for value in ("head", "face", "periorbital_area"):
        assert not form.changes(item, "mc", {"body_region": [value]})
    assert "palm" in form.formed(item, {"body_region": ["head", "palm"]}).question


def test_the_right_option_is_replaced_and_stays_right() -> None:
    assert offered(ITEM, NONE).options == {"A": OTHER, "B": "metastasis", "C": "cyst"}
    assert offered(ITEM, NONE).answers == ("A",)
    wrong = offered(ITEM, WRONG)
    assert wrong.options["A"] == "hemangioma"
    assert [*wrong.options.values()].count(OTHER) == 1
    assert {offered(replace(ITEM, id=str(n)), WRONG).options["B"] for n in range(40)} == {OTHER, "metastasis"}


@pytest.mark.parametrize(
    "item",
    [
        replace(ITEM, kind="multiple_response"),
        replace(ITEM, answers=()),
        replace(ITEM, options={}, answers=("cyst",), kind="short_answer"),
        replace(ITEM, options={"A": "cyst"}),
        *(
            replace(ITEM, options={**ITEM.options, "D": text})
            for text in (
                "None of the above",
                "all of these",
                "Both",
                "Neither.",
                "A and B",
                "none of the other options",
            )
        ),
    ],
)
def test_some_questions_have_no_option_to_replace(item: Item) -> None:
    assert offered(item, NONE) is item
    assert offered(item, WRONG) is item


@pytest.mark.parametrize("text", ["both lungs", "All four chambers", "no abnormality", "any lobe"])
def test_an_option_about_the_image_does_not_stand_in_the_way(text: str) -> None:
    assert offered(replace(ITEM, options={**ITEM.options, "D": text}), NONE).options["A"] == OTHER


def test_other_perturbations_leave_the_options_alone() -> None:
    for perturb in ("", "typos:3", "gaussian_noise:3", "paraphrase:none_of_the_above.csv@00000000"):
        assert offered(ITEM, perturb) is ITEM


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SHIPPED)
def test_a_form_is_parsed_from_its_record(form: QuestionForm) -> None:
    assert parse(form.canonical, Path()) == form
    assert perturbation.of(form.canonical) is None
    assert perturbation.in_words(form.canonical).startswith(FORMS[form.name].title)
    assert question_forms.described(form.canonical)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("typos:6", "--perturb=typos:6: levels are 1 to 5; type --perturb=typos:3"),
        ("typos:", "levels are 1 to 5"),
        ("irrelevant_context:two", "levels are 1 to 5"),
        ("none_of_the_above:2", "none_of_the_above replaces the right option, and none_of_the_above:wrong a wrong one"),
        ("paraphrase", "name a table with the columns id and question: paraphrase:FILE"),
        ("false_premise:", "name a table with the columns id and premise: false_premise:FILE"),
        ("paraphrase:missing.csv", "--perturb=paraphrase:missing.csv: no such file"),
        ("irrelevant_context:3@00000000", "its texts are others now; leave out @00000000"),
        ("typos:3@00000000", "leave out @00000000"),
    ],
)
def test_a_wrong_name_is_refused(typed: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        parse(typed, tmp_path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "recorded", ["typos:99", "typos:\x1b[31m", "none_of_the_above:\n", "paraphrase:a@b.csv@0", "typos"]
)
def test_a_strangers_record_is_harmless(recorded: str) -> None:
    for told in (question_forms.label(recorded), question_forms.described(recorded)):
        assert told
        assert told.isprintable()
    assert offered(ITEM, recorded).answers == ITEM.answers


@pytest.mark.parametrize("recorded", ["typos@1", "false_premise@\x1b", "paraphrase@12345678@1"])
def test_a_strangers_record_of_no_form_is_shown_as_it_is(recorded: str) -> None:
    assert (question_forms.described(recorded), perturbation.of(recorded)) == ("", None)
    assert perturbation.in_words(recorded).isprintable()


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    wrote(tmp_path, "id,question\n7,What?\n", "a@b#1:c.csv")
    form = parse("paraphrase:a@b#1:c.csv", tmp_path)
    assert parse(form.canonical, tmp_path) == form
    assert question_forms.label(form.canonical) == "paraphrased: a@b#1:c.csv"


def test_an_unknown_name_lists_the_forms() -> None:
    with pytest.raises(UsageError, match=f"Of questions: {', '.join(FORMS)}"):
        perturbation.parse("tyops")


# ---- files -----------------------------------------------------------------------------------------------------------


def wrote(folder: Path, text: str, name: str = "other words.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_paraphrase_replaces_the_question(tmp_path: Path) -> None:
    wrote(tmp_path, "id,question\n7,What do you see?\n")
    form = parse("paraphrase:other words.csv", tmp_path)
    assert form.formed(ITEM, {}) == replace(ITEM, question="What do you see?")
    assert not form.changes(replace(ITEM, id="8"), "mc", {})
    assert form.formed(replace(ITEM, id="7/1", pair_id="7"), {}).question == "What do you see?"
    assert re.fullmatch(r"paraphrase:other words\.csv@[0-9a-f]{8}", form.canonical)
    assert str(tmp_path) not in form.canonical


def test_another_text_is_another_configuration(tmp_path: Path) -> None:
    plain, noted = "id,question\n7,What do you see?\n", "ID,Question,note\n7,What do you see?,checked\n"
    tables = (plain, noted, "id,question\n7,What?\n")
    first, again, other = (parse(f"paraphrase:{wrote(tmp_path, table)}", tmp_path) for table in tables)
    assert first.canonical == again.canonical != other.canonical


def test_a_premise_of_ones_own_stands_before_the_question(tmp_path: Path) -> None:
    wrote(tmp_path, "id,benchmark,premise\n7,ward,This is a photograph.\n7,clinic,This is a drawing.\n")
    form = parse("false_premise:other words.csv", tmp_path)
    assert form.formed(ITEM, {}).question == f"This is a photograph. {ITEM.question}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,question\n7,\n", "row 2, column 'question': blank"),
        ("id,question\n,What?\n", "row 2, column 'id': blank"),
        ("id,question\n7,What?\n7,Which?\n", "row 3, column 'id': this id has a row already"),
        ("id,text\n7,What?\n", "paraphrase reads a table"),
        ("id,question\n", "other words.csv: no rows"),
    ],
)
def test_a_bad_file_is_refused(table: str, message: str, tmp_path: Path) -> None:
    wrote(tmp_path, table)
    with pytest.raises((DataError, UsageError)) as error:
        parse("paraphrase:other words.csv", tmp_path)
    assert message in str(error.value)


@given(TEXTS.filter(str.strip))
def test_a_hostile_text_is_only_text(text: str) -> None:
    row = question_forms.FormText("row 2", "7", "", text)
    for name in ("paraphrase", "false_premise"):
        formed = QuestionForm(name, of="f.csv", rows={("", "7"): row}).formed(ITEM, {})
        assert formed.question.startswith(text)
        prompt = own.prompts_of(BENCHMARKS[0])(replace(formed, benchmark=BENCHMARKS[0].name), "mc")
        assert text in prompt.text


# ---- the prompts of all data sets ------------------------------------------------------------------------------------

BENCHMARKS = [*pytest_medvqa_benchmarks()]


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_each_data_set_prompts_show_the_form_and_nothing_else(benchmark: Benchmark) -> None:
    item = replace(ITEM, benchmark=benchmark.name, extra={"vocabulary": {"cyst": ["cyst"]}})
    if benchmark.group in ("path-vqa", "slake", "vqa-rad"):
        item = replace(item, kind="short_answer", options={}, answers=("cyst",))
    elif benchmark.dimensions[:1] == ("ability",):
        # These choice questions may have several right options.
        item = replace(item, kind="multiple_response")
    asks = own.prompts_of(benchmark)
    for technique in benchmark.techniques:
        if not benchmark.applies(item, technique):
            continue
        plain = asks(item, technique)
        formed = QuestionForm("irrelevant_context", 1).formed(item, {})
        assert asks(formed, technique) == replace(plain, text=plain.text.replace(item.question, formed.question))
        assert asks(formed, technique) != plain
        if technique in ("mc", "gd") and item.kind == "single_choice":
            asked = asks(offered(item, NONE), technique)
            assert asked.text == plain.text.replace("hemangioma", OTHER) != plain.text
            assert asked.options == offered(item, NONE).options
