"""Masked regions from a table to measures: a model that uses the region falls to chance, another does not change."""

from pathlib import Path

import pytest

import medvqa
from medvqa.items import DataError, UsageError
from medvqa.records import run_record
from medvqa.records.run_folder import read
from support import regional

MASKS = ("mask_region", "mask_region:blur", "mask_elsewhere:noise")
COUNT = 40


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return regional.write(tmp_path, COUNT)


def right(model: object, table: Path, name: str, **options: object) -> dict[str, bool]:
    """Whether each answer of a run is right, by question."""
    medvqa.evaluate(model, str(table), run=name, **options)
    return {one.item.id: one.score.value == 1 for one in read(Path("reports") / name).results}


def test_a_model_that_uses_the_region_falls_to_chance(table: Path) -> None:
    model = regional.UsesRegion(str(table.parent))
    clean = right(model, table, "clean")
    assert len(clean) == COUNT + 2
    assert all(clean.values())
    guesses = {f"q{number}": regional.guess(f"q{number}") == "AB"[number % 2] for number in range(COUNT)}
    assert 0.3 < sum(guesses.values()) / COUNT < 0.7
    for number, mask in enumerate(MASKS):
        masked = right(model, table, f"masked-{number}", perturb=mask)
        # The questions without a region, and without a place elsewhere, are asked by neither mask.
        assert masked == (guesses if mask.startswith("mask_region") else dict.fromkeys(guesses, True))
        run = run_record.read_run(Path("reports") / f"masked-{number}")
        typed = mask if ":" in mask else f"{mask}:mean"
        assert run.protocol.perturb == typed
        assert run.selected.line("regional", "mc") == f"{COUNT} of {COUNT + 2}, by --perturb={typed}"


def test_a_model_that_ignores_images_does_not_change(table: Path) -> None:
    model = regional.IgnoresImages()
    clean = right(model, table, "clean")
    assert 0.6 < sum(clean.values()) / len(clean) < 0.9
    for number, mask in enumerate(MASKS):
        masked = right(model, table, f"masked-{number}", perturb=mask)
        assert masked == {id: clean[id] for id in masked}


def test_a_region_that_leaves_its_image_ends_the_run_first(table: Path) -> None:
    file = table.with_suffix(".csv")
    lines = file.read_text().splitlines()
    lines[3] = lines[3].partition('"')[0] + '"90,0,24,24"'
    file.write_text("\n".join(lines))
    with pytest.raises(DataError) as caught:
        medvqa.evaluate("random", str(table), run="r", perturb="mask_region")
    told = "regional, row 4: its region (90, 0, 24, 24) leaves its image of 100 x 80 pixels: left,top,width,height"
    assert str(caught.value).startswith(told)
    assert not Path("reports").exists()
    # Runs that hide no region do not ask where it is.
    assert len(medvqa.evaluate("random", str(table), run="r").results) == COUNT + 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"ablate": "shuffle"},
            "--ablate=shuffle --perturb=mask_region:mean: a region is that of the question's own image",
        ),
        (
            {"benchmark": "phantom-mediconfusion"},
            "--perturb=mask_region:mean: it changes no question of phantom-mediconfusion. It needs a region with room "
            "for it elsewhere; a table has regions in a column box: left,top,width,height in whole pixels, with ; "
            "between several boxes",
        ),
    ],
)
def test_what_cannot_be_masked_is_refused(table: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        medvqa.evaluate("random", **{"benchmark": str(table), "run": "r", "perturb": "mask_region", **options})
    assert str(caught.value) == message


def test_questions_of_another_modality_are_not_asked(table: Path) -> None:
    file, (header, *lines) = table.with_suffix(".csv"), table.with_suffix(".csv").read_text().splitlines()
    table.write_text(table.read_text() + 'tags = ["modality"]\n')
    tagged = [f"{line},{('CT', 'MRI', '')[number % 3]}" for number, line in enumerate(lines)]
    file.write_text("\n".join([f"{header},modality", *tagged]))
    assert len(right("random", table, "r", perturb="ct_metal:5")) == 28
    line = run_record.read_run(Path("reports/r")).selected.line("regional", "mc")
    assert line == f"28 of {COUNT + 2}, by --perturb=ct_metal:5"
    file.write_text("\n".join([f"{header},modality", *(f"{line},CT" for line in lines)]))
    with pytest.raises(UsageError) as caught:
        medvqa.evaluate("random", str(table), run="s", perturb="us_shadow")
    assert str(caught.value) == (
        "--perturb=us_shadow:3: it changes no question of regional. It needs an image of its modality: a tag modality "
        "with one of the words ultrasound, us, sonography, ultrasonography, echocardiography"
    )
