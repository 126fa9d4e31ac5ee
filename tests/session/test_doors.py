"""What a stranger does first, from an empty folder and the installed wheel."""

import pytest

from support.installed import Door

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


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
