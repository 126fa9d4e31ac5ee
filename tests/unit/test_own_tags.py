"""Tags of one's own: a table of ids gives questions and pairs further tags."""

from pathlib import Path

import pytest

from medvqa.items import DataError, Item, UsageError
from medvqa.tags import own_tags


def item(id: str, pair: str | None = None, benchmark: str = "mine", **tags: tuple[str, ...]) -> Item:
    return Item(id, benchmark, "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",), tags=tags, pair_id=pair)


ITEMS = [item("1/1", "1", category=("spinal",)), item("1/2", "1"), item("2/1", "2"), item("3")]


def written(tmp_path: Path, text: str, name: str = "tags.csv") -> own_tags.OwnTags:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return own_tags.read([path])


def test_rows_tag_questions_and_both_questions_of_a_pair(tmp_path: Path) -> None:
    tags = written(tmp_path, "id,Failure pattern,prompt\n1,Vascular conditions,\n1/2,devices,arrow|box\n3,,arrow\n")
    found = [dict(each.tags) for each in tags.added(ITEMS)]
    assert found == [
        {"category": ("spinal",), "failure_pattern": ("vascular_conditions",)},
        {"failure_pattern": ("devices", "vascular_conditions"), "prompt": ("arrow", "box")},
        {},
        {"prompt": ("arrow",)},
    ]
    assert tags.dimensions == ("failure_pattern", "prompt")
    tags.check({"mine": ITEMS}, ["mine"])


def test_the_digest_depends_on_the_tags_and_not_on_the_order_of_rows(tmp_path: Path) -> None:
    one = written(tmp_path, "id,part\n1,a\n3,b\n").about
    assert one == written(tmp_path, "id,part\n3,b\n1,a\n").about
    assert one["sha256"] != written(tmp_path, "id,part\n1,a\n3,a\n").about["sha256"]


def test_a_column_that_the_questions_have_already_is_refused(tmp_path: Path) -> None:
    tags = written(tmp_path, "id,category\n1,a\n")
    with pytest.raises(UsageError, match="questions of mine have the dimension 'category' already; rename the column"):
        tags.added(ITEMS)


@pytest.mark.parametrize("column", ["kind", "1st", "class", "!"])
def test_a_column_that_names_no_dimension_is_refused(tmp_path: Path, column: str) -> None:
    if column == "!":
        assert written(tmp_path, "id,!\n1,a\n").dimensions == ("none",)
        return
    with pytest.raises(DataError, match=f"row 2, column '{column}': no name of a dimension; tags are a table"):
        written(tmp_path, f"id,{column}\n1,a\n")


def test_ids_must_exist_in_one_benchmark(tmp_path: Path) -> None:
    others = [item("1/1", "1", benchmark="other")]
    both = {"mine": ITEMS, "other": others}
    with pytest.raises(UsageError, match="row 2: no question or pair of mine, other has the id '9'"):
        written(tmp_path, "id,part\n9,a\n").check(both, both)
    with pytest.raises(UsageError, match="row 2: mine, other have the id '1'; add a column benchmark"):
        written(tmp_path, "id,part\n1,a\n").check(both, both)
    with pytest.raises(UsageError, match="row 2: no benchmark 'theirs'"):
        written(tmp_path, "id,benchmark,part\n1,theirs,a\n").check(both, both)
    named = written(tmp_path, "id,benchmark,part\n1,other,a\n7,third,b\n")
    named.check(both, [*both, "third"])
    assert [dict(each.tags) for each in named.added(others)] == [{"part": ("a",)}]
    assert all("part" not in each.tags for each in named.added(ITEMS))


def test_a_table_without_ids_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="tags are a table"):
        written(tmp_path, "name,part\n1,a\n")
    with pytest.raises(UsageError, match="no such file"):
        own_tags.read([tmp_path / "absent.csv"])


def test_a_table_without_a_dimension_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column of tags beside the id"):
        written(tmp_path, "id,benchmark\n1,mine\n")


def test_many_rows_of_one_id_are_joined_in_linear_time(tmp_path: Path) -> None:
    tags = written(tmp_path, "id,part\n" + "".join(f"3,v{n}\n" for n in range(100_000)))
    assert len(tags.added(ITEMS)[3].tags["part"]) == 100_000
