"""What a stranger does first, from an empty folder and the installed wheel."""

import json

import pytest

from support.installed import Door

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MINE = """
import medvqa

class Mine(medvqa.Backend):
    capabilities = {"generate"}
    sends_to = None
    def generate(self, prompts):
        return [medvqa.Answer("AB"[p.images[0].pil().getpixel((0, 0)) == (0, 0, 255)]) for p in prompts]
"""
TEST = """
import pytest

@pytest.mark.vqa
def test_questions(item, evaluate):
    evaluate(item)
"""
COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255)}


def pictures(door: Door) -> None:
    """Write a table of two questions on the colour of a picture, and the pictures."""
    door.write(
        "questions.csv", "id,question,image,A,B,answer\n1,Colour?,red.png,red,blue,A\n2,Colour?,blue.png,red,blue,B\n"
    )
    for name, colour in COLOURS.items():
        door.picture(f"images/{name}.png", colour)


def values(door: Door, run: str) -> dict[str, float | None]:
    """The measures of a run over all questions, by name."""
    made = json.loads((door.folder / "reports" / run / "metrics.json").read_text())["measures"]
    return {each["name"]: each["value"] for each in made if not each["slice"]}


def test_the_project_is_imported_from_the_wheel(door: Door) -> None:
    done = door.run("python -c 'import medvqa; print(medvqa.__file__)'")
    assert (done.code, str(door.environment) in done.output) == (0, True)


BACKEND = """
    import medvqa


    class Mine(medvqa.Backend):
        sends_to = None

        def generate(self, prompts):
            return [medvqa.Answer("A") for _ in prompts]
"""


def test_medvqa_run_in_an_empty_folder(door: Door) -> None:
    """The phantom first, then a backend of one's own; pytest continues the run."""
    done = door.run("medvqa run --model=random --limit=4 --run=first")
    assert (done.code, "phantom-mediconfusion  set_accuracy" in done.output) == (0, True), done.output
    door.write("conftest.py", BACKEND)
    done = door.run("medvqa run --model=mine --select='single_choice and not lexicon(modality=\"ct\")' --run=second")
    assert (done.code, "by --select=" in done.output) == (0, True), done.output
    done = door.run(
        "pytest --pyargs medvqa.suite.benchmark_tests --rootdir=. --model=mine --run=second -p no:cacheprovider"
    )
    assert done.code == 0, done.output
    done = door.run("medvqa run --model=mine --select='lexicon(modality=ct)'")
    assert (done.code, "a value in quotes is expected" in done.output) == (4, True), done.output


def test_a_table_and_a_model_that_looks_at_the_picture(door: Door) -> None:
    pictures(door)
    door.write("conftest.py", MINE + 'questions = medvqa.table("questions.csv", images="images/")\n')
    door.write("test_questions.py", TEST)
    done = door.run("pytest --model=mine --run=first")
    assert (done.code, "2 correct" in done.output) == (0, True), done.output
    assert values(door, "first")["accuracy"] == 1
    again = door.run("medvqa report reports/first")
    assert (again.code, "questions  accuracy" in again.output) == (0, True), again.output
    blank = door.run("pytest --model=mine --ablate=blank --run=blank")
    assert values(door, "blank")["accuracy"] == 0.5, blank.output
    (door.folder / "images/blue.png").unlink()
    missing = door.run("pytest --model=mine")
    assert missing.code == 4
    assert "1 of 2 images are there, missing are those of row 3. Put" in missing.output


def test_a_benchmark_of_one_screen(door: Door) -> None:
    pictures(door)
    door.write(
        "conftest.py",
        MINE
        + """
import csv

def items(folder):
    with open(folder / "questions.csv") as file:
        for row in csv.DictReader(file):
            yield medvqa.Item(row["id"], question=row["question"], options={"A": row["A"], "B": row["B"]},
                              answers=(row["answer"],), images=(medvqa.Image(f"images/{row['image']}"),))

mine = medvqa.Benchmark(name="mine", items=items)
""",
    )
    door.write("tests/test_questions.py", TEST)
    done = door.run("pytest --model=mine --run=first")
    assert (done.code, "2 correct" in done.output) == (0, True), done.output
    again = door.run("medvqa report reports/first")
    assert (again.code, "mine       accuracy" in again.output) == (0, True), again.output
    assert "images are missing" not in again.output


def test_a_prompt_in_one_line(door: Door) -> None:
    pictures(door)
    for run, prompt in (("short", ""), ("long", ', prompt="{question}\\n{options}\\nThink, then name one letter."')):
        door.write("conftest.py", MINE + f'questions = medvqa.table("questions.csv", "images"{prompt})\n')
        door.write("test_questions.py", TEST)
        assert door.run(f"pytest --model=mine --run={run}").code == 0
    compared = door.run("medvqa compare reports/short reports/long")
    assert compared.code == 0
    assert "long against short (the prompt: questions/own@" in compared.output
