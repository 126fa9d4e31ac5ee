from __future__ import annotations

import json
import timeit
import warnings
from pathlib import Path

import pytest
from _pytest.mark import Mark, MarkMatcher
from _pytest.mark.expression import Expression
from hypothesis import example, given
from hypothesis import strategies as st

from medvqa.items import DataWarning, Item, UsageError
from medvqa.report.bundle.texts import query_of, questions
from medvqa.tags import lexicon
from medvqa.tags.lexicon import TagValues, branches, expression, mark_values, slug
from support.laws import examples

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
DIMENSIONS = [dimension for vocabulary in lexicon.lexicons() for dimension in vocabulary.dimensions.values()]


def item(id: str, **tags: str | tuple[str, ...]) -> Item:
    values = {name: (value,) if isinstance(value, str) else value for name, value in tags.items()}
    return Item(id=id, benchmark="toy", kind="single_choice", question="?", tags=values)


def selected(items: list[Item], text: str) -> list[str]:
    """The ids that `pytest -m TEXT` would run, by its own parser and matcher."""
    compiled = Expression.compile(text)
    marks = {each.id: Mark("lexicon", (), mark_values(each.tags), _ispytest=True) for each in items}
    return [id for id, mark in marks.items() if compiled.evaluate(MarkMatcher.from_markers([mark]))]


# slug


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Fundus Photography", "fundus_photography"),
        ("Infrared Reflectance (IR) imaging", "infrared_reflectance_ir_imaging"),
        ("Otolaryngology (ENT)/Head and Neck Surgery", "otolaryngology_ent_head_and_neck_surgery"),
        ("Organ Recognition - Abdomen", "organ_recognition_abdomen"),
        ("Suggestion & Treatment", "suggestion_treatment"),
        ("Mask level", "mask_level"),
        ("Mask Level", "mask_level"),
        ("ＣＴ", "ct"),
        ("barrett's esophagus", "barrett_s_esophagus"),
        ("皮炎 / 湿疹", "皮炎_湿疹"),
        ("N/A", "n_a"),
        ("None", "none"),
        ("", "none"),
        (" - ", "none"),
    ],
)
def test_slug(name: str, expected: str) -> None:
    assert slug(name) == expected


@given(st.text())
@example("\u0390")
def test_slug_is_idempotent_and_safe_to_quote(name: str) -> None:
    result = slug(name)
    assert slug(result) == result
    assert result
    assert not set(result) & set("'\"\\ \t\n(),=")


@given(st.text(st.characters(max_codepoint=0x2FF, exclude_characters="ı")))
def test_slug_ignores_case_and_surrounding_punctuation(name: str) -> None:
    assert slug(name.upper()) == slug(name) == slug(name.lower()) == slug(f"_{name}_") == slug(f" ({name})")


# the vocabularies


def test_gmai_mmbench_has_the_published_sizes() -> None:
    vocabulary = lexicon.gmai_mmbench()
    sizes = {name: len(dimension.values) for name, dimension in vocabulary.dimensions.items()}
    # 717 labels, of which "high grade dysplasia" and "high-grade dysplasia" share a slug.
    assert sizes == {"task": 18, "department": 19, "granularity": 4, "modality": 38, "label": 716}
    assert vocabulary.dimensions["department"].values["none"] == "None"


def test_gmai_mmbench_is_the_published_tree() -> None:
    path = REFERENCE / "gmai-mmbench" / "lexical_tree.json"
    if not path.exists():
        pytest.skip("the published lexical tree is not here")
    published = json.loads(path.read_text())
    names = {"clinical-task": "task", "department": "department", "granularity": "granularity"}
    labels = {
        label
        for modalities in published["clinical-task"].values()
        for labels in modalities.values()
        for label in labels
    }
    assert len(labels) == 717
    for key, dimension in names.items():
        expected = {
            (slug(value), slug(modality), slug(label))
            for value, modalities in published[key].items()
            for modality, labels_here in modalities.items()
            for label in labels_here
        }
        assert lexicon.gmai_mmbench().trees[dimension, "modality", "label"] == expected


def test_task_abbreviations_are_the_paper_s() -> None:
    path = REFERENCE / "gmai-mmbench" / "test_counts.json"
    if not path.exists():
        pytest.skip("the reference counts are not here")
    tasks = lexicon.gmai_mmbench().dimensions["task"]
    assert {short for value in tasks.values for short in tasks.abbreviations[value]} == set(
        json.loads(path.read_text())["counts"]
    )


def test_department_abbreviations_are_the_paper_s() -> None:
    departments = lexicon.gmai_mmbench().dimensions["department"]
    short = {name for value in departments.values for name in departments.abbreviations[value]}
    assert short == {
        *("CS", "D", "E", "GH", "GS", "H", "ID", "LMP", "NH", "N", "N/A", "OG"),
        *("OM", "O", "OS", "ENT/HNS", "PM", "SM", "U"),
    }
    assert all(name.isascii() for name in short)


def test_an_abbreviation_names_one_value() -> None:
    for vocabulary in lexicon.lexicons():
        for dimension in vocabulary.dimensions.values():
            short = [slug(name) for names in dimension.abbreviations.values() for name in names]
            assert len(short) == len(set(short))
            assert not set(short) & dimension.values.keys()
            assert dimension.abbreviations.keys() <= dimension.values.keys()


def test_medlesionvqa_has_the_published_sizes() -> None:
    sizes = {name: len(dimension.values) for name, dimension in lexicon.medlesionvqa().dimensions.items()}
    assert sizes["ability"] == 7
    assert sizes["attribute"] == 6
    assert sizes["question_type"] == 4
    assert sizes["lesion"] == 92
    assert sizes["disease"] == 96
    assert sizes["language"] == 0


@pytest.mark.parametrize(
    ("region", "wider"),
    [
        ("upper_eyelid", ("head", "face", "periorbital_area")),
        ("anterior_neck", ("neck",)),
        ("head", ()),
        ("uvula", ("oral_cavity", "pharynx")),
        ("flexor_side", ()),
    ],
)
def test_body_regions_lie_in_wider_ones(region: str, wider: tuple[str, ...]) -> None:
    assert lexicon.medlesionvqa().dimensions["body_region"].broader[region] == wider


def test_mediconfusion_categories_are_the_data_s() -> None:
    path = REFERENCE / "mediconfusion" / "dataset.json"
    if not path.exists():
        pytest.skip("the MediConfusion data set is not here")
    pairs = json.loads(path.read_text()).values()
    found = {category for pair in pairs for key in ("category_1", "category_2") for category in pair[key]}
    assert set(lexicon.mediconfusion().dimensions["category"].values.values()) == found


def test_lexicons_share_no_dimension() -> None:
    names = [name for vocabulary in lexicon.lexicons() for name in vocabulary.dimensions]
    assert len(names) == len(set(names))


def test_every_name_has_its_slug_as_key() -> None:
    for vocabulary in lexicon.lexicons():
        for dimension in vocabulary.dimensions.values():
            assert all(slug(name) == value for value, name in dimension.values.items())


@pytest.mark.parametrize(
    ("cell", "tag"),
    [
        ("N/A", "none"),
        ("", "none"),
        ("Urology", "urology"),
        ("ENT/HNS", "otolaryngology_ent_head_and_neck_surgery"),
        ("Alchemy", "alchemy"),
    ],
)
def test_tag_of_a_cell(cell: str, tag: str) -> None:
    assert lexicon.gmai_mmbench().dimensions["department"].tag(cell) == tag


def test_display_and_abbreviations() -> None:
    assert lexicon.display("modality", "x_ray") == "X-ray"
    assert lexicon.display("modality", "crystal_ball") == "crystal_ball"
    assert lexicon.display("mood", "sunny") == "sunny"
    assert lexicon.abbreviations("task", "disease_diagnosis") == ("DD",)
    assert lexicon.abbreviations("modality", "ct") == ()
    assert lexicon.abbreviations("mood", "sunny") == ()


# selection by marks


def test_tag_values_equal_any_name_of_a_member() -> None:
    values = TagValues(["CT", "Fundus Photography"])
    assert values == "ct"
    assert values == "Fundus photography"
    assert "CT" == values  # noqa: SIM300
    assert values != "mri"
    assert (values != "ct") is False
    assert values == TagValues(["fundus_photography", "ct"])
    assert hash(values) == hash(TagValues(["fundus_photography", "ct"]))
    assert values != 1
    assert values != TagValues(["ct"])
    assert repr(values) == "'ct' | 'fundus_photography'"
    assert repr(TagValues()) == "nothing"


@given(st.sets(st.text(min_size=1), max_size=4), st.text())
def test_tag_values_law(names: set[str], other: str) -> None:
    values = TagValues(names)
    assert all(values == name for name in names)
    assert (values == other) is (slug(other) in {slug(name) for name in names})
    assert (values != other) is not (values == other)


ITEMS = [
    item("1", task="disease_diagnosis", modality="ct", department="none"),
    item("2", task="disease_diagnosis", modality="oct", department="urology"),
    item("3", task="severity_grading", modality=("ct", "mri"), department="none"),
    item("4", category=("cerebral", "vascular")),
]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("lexicon(modality='ct', task='dd')", ["1"]),
        ("lexicon(modality='ct')", ["1", "3"]),
        ("lexicon(modality='MRI')", ["3"]),
        ("lexicon(task='SG') or lexicon(department='u')", ["2", "3"]),
        ("lexicon(department='N/A')", ["1", "3"]),
        ("lexicon(category='cerebral') and lexicon(category='vascular')", ["4"]),
        ("lexicon(modality='c')", []),
        ("not lexicon(task='dd')", ["3", "4"]),
    ],
)
def test_pytest_selects_exactly(text: str, ids: list[str]) -> None:
    assert selected(ITEMS, text) == ids


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_every_value_can_be_selected(dimension: lexicon.Dimension) -> None:
    items = [item(value, **{dimension.name: value}) for value in dimension.values]
    for each in items:
        some = [*items[:5], each]
        assert selected(some, expression({dimension.name: each.id})) == [each.id]
        for short in lexicon.abbreviations(dimension.name, each.id):
            assert selected(some, f"lexicon({dimension.name}='{short}')") == [each.id]


@given(st.text(), st.text())
def test_any_value_can_be_selected(label: str, modality: str) -> None:
    there = item("it", label=slug(label), modality=slug(modality))
    assert selected([there], expression({"label": label, "modality": modality})) == ["it"]


def test_expression() -> None:
    text = expression({"task": "disease_diagnosis", "modality": "CT"})
    assert text == "lexicon(task='disease_diagnosis', modality='ct')"


@pytest.mark.parametrize("dimension", ["class", "body region", "", "a='b'"])
def test_expression_of_an_odd_dimension(dimension: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be selected with -m: name it by letters, digits and _"):
        expression({dimension: "x"})


def test_mark_values_of_26000_items_take_no_time() -> None:
    tags = [
        {"task": (task,), "modality": (modality,), "label": (label,)}
        for task, modality, label in lexicon.gmai_mmbench().trees["task", "modality", "label"]
    ]
    marked = 26_000
    seconds = timeit.timeit(lambda: [mark_values(tags[index % len(tags)]) for index in range(marked)], number=1)
    print(f"{1e6 * seconds / marked:.1f} microseconds an item")  # 1 on a slow core


# unknown values


def test_unknown_values_are_named_once() -> None:
    items = [item("1", modality=("ct", "crystal_ball"), task="bone"), item("2", modality="crystal_ball", mood="sunny")]
    assert lexicon.unknown_values(items, lexicon.gmai_mmbench()) == {"modality": {"crystal_ball"}}
    with pytest.warns(DataWarning) as caught:
        lexicon.warn_unknown(items, lexicon.gmai_mmbench())
    assert [str(warning.message) for warning in caught] == [
        "modality: not in the lexicon of gmai-mmbench, kept as they are: crystal_ball"
    ]


def test_many_unknown_values_are_one_warning() -> None:
    items = [item(str(number), disease=f"disease_{number:02}") for number in range(30)]
    with pytest.warns(DataWarning, match=r"disease_00, .*disease_09 and 20 more$") as caught:
        lexicon.warn_unknown(items, lexicon.medlesionvqa())
    assert len(caught) == 1


def test_known_values_and_open_dimensions_are_no_warning() -> None:
    items = [item("1", disease="acne", language="tlh", ability="lesion_recognition")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lexicon.warn_unknown(items, lexicon.medlesionvqa())


# the tree of the data at hand

tagged_items = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "task": st.lists(st.sampled_from(["bone", "muscle", "alchemy"]), max_size=2).map(tuple),
            "modality": st.lists(st.sampled_from(["ct", "mri"]), min_size=1, max_size=3).map(tuple),
            "label": st.lists(st.sampled_from(["femur", "clavicle"]), max_size=2).map(tuple),
        },
    ),
    max_size=8,
).map(lambda all_tags: [item(str(number), **tags) for number, tags in enumerate(all_tags)])


@examples(60)
@given(tagged_items, st.permutations(["task", "modality", "label"]))
def test_a_branch_counts_what_its_expression_selects(items: list[Item], path: list[str]) -> None:
    def check(children: tuple[lexicon.Branch, ...], depth: int) -> None:
        assert len({child.value for child in children}) == len(children)
        for child in children:
            assert child.dimension == path[depth]
            assert len(selected(items, child.expression)) == child.items > 0
            check(child.branches, depth + 1)

    check(branches(items, path), 0)
    assert {child.value for child in branches(items, path)} == {
        value for each in items for value in each.tags.get(path[0], ())
    }


def test_render() -> None:
    assert lexicon.render(ITEMS).splitlines() == [
        "task",
        "├── Disease Diagnosis (DD)  2  lexicon(task='disease_diagnosis')",
        "│   ├── CT  1  lexicon(task='disease_diagnosis', modality='ct')",
        "│   └── OCT  1  lexicon(task='disease_diagnosis', modality='oct')",
        "└── Severity Grading (SG)  1  lexicon(task='severity_grading')",
        "    ├── CT  1  lexicon(task='severity_grading', modality='ct')",
        "    └── MRI  1  lexicon(task='severity_grading', modality='mri')",
        "department",
        "├── None (N/A)  2  lexicon(department='none')",
        "│   ├── CT  2  lexicon(department='none', modality='ct')",
        "│   └── MRI  1  lexicon(department='none', modality='mri')",
        "└── Urology (U)  1  lexicon(department='urology')",
        "    └── OCT  1  lexicon(department='urology', modality='oct')",
        "modality",
        "├── CT  2  lexicon(modality='ct')",
        "├── MRI  1  lexicon(modality='mri')",
        "└── OCT  1  lexicon(modality='oct')",
        "category",
        "├── Cerebral  1  lexicon(category='cerebral')",
        "└── Vascular  1  lexicon(category='vascular')",
    ]


def test_render_some_dimensions_to_some_depth() -> None:
    assert lexicon.render(ITEMS, dimensions=["task"], depth=1).splitlines() == [
        "task",
        "├── Disease Diagnosis (DD)  2  lexicon(task='disease_diagnosis')",
        "└── Severity Grading (SG)  1  lexicon(task='severity_grading')",
    ]


def test_render_keeps_long_lines_and_a_stranger_s_dimension() -> None:
    long = "_".join(["word"] * 100)
    (head, line) = lexicon.render([item("1", mood=long)]).splitlines()
    assert head == "mood"
    assert line == f"└── {long}  1  lexicon(mood='{long}')"


def test_render_what_is_empty_too() -> None:
    lines = lexicon.render(ITEMS, dimensions=["task", "category", "disease"], empty=True).splitlines()
    leaves = lexicon.gmai_mmbench().trees["task", "modality", "label"]
    inner = {branch[:depth] for branch in leaves for depth in (1, 2)}
    unlisted = {("disease_diagnosis", "ct"), ("disease_diagnosis", "oct")} - inner
    unlisted |= {("severity_grading", "ct"), ("severity_grading", "mri")} - inner
    assert len(lines) == 1 + len(leaves) + len(inner | unlisted) + 1 + 9 + 1 + 96
    assert "├── acne  0  lexicon(disease='acne')" in lines
    assert "├── Cerebral  1  lexicon(category='cerebral')" in lines


def test_render_nothing() -> None:
    assert lexicon.render([]) == ""


def test_render_an_unknown_dimension() -> None:
    with pytest.raises(
        UsageError, match="no item has the dimension 'colour'; there are: task, department, modality, category"
    ):
        lexicon.render(ITEMS, dimensions=["colour"])


def test_crossed_dimensions_are_shown_and_linked_by_their_parts() -> None:
    crossed = "ability+question_type", "lesion_recognition+judgment"
    assert lexicon.uncrossed(*crossed) == {"ability": "lesion_recognition", "question_type": "judgment"}
    assert lexicon.display(*crossed) == "Lesion Recognition + judgment"
    assert questions("medlesionvqa-val", "", query_of(*crossed)) == (
        "#questions?b=medlesionvqa-val&q=ability%3Alesion_recognition+question_type%3Ajudgment"
    )
    assert lexicon.uncrossed("a+b", "plain") == {"a+b": "plain"}, "a name of one's own with a plus"
    assert lexicon.display("a+b", "plain") == "plain"
