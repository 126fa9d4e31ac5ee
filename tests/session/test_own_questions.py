"""Questions from a table, and a test with a bare `vqa` mark: what is asked, without any option for data."""

import json

import PIL.Image
import pytest

CONFTEST = """
import medvqa

questions = medvqa.table("questions.csv", images="pictures/", tags=("modality",))
more = medvqa.Benchmark(name="more", items=lambda folder: [
    medvqa.Item("m1", question="Which organ?", options={"A": "liver", "B": "spleen"}, answers=("A",),
                images=(medvqa.Image("pictures/red.png"),))])


class Seeing(medvqa.Backend):
    sends_to = None

    def generate(self, prompts):
        return [medvqa.Answer("A" if p.images[0].pil().getpixel((0, 0))[0] > 99 else "B") for p in prompts]
"""
ANY = """
import pytest

@pytest.mark.vqa
def test_any(item, evaluate):
    evaluate(item)
"""
TABLE = """id,question,image,A,B,answer,modality
q1,Which colour?,red.png,red,blue,A,ct
q2,Which colour?,blue.png,red,blue,B,mri
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_any=ANY)
    (pytester.path / "questions.csv").write_text(TABLE)
    (pytester.path / "pictures").mkdir()
    for name, colour in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
        PIL.Image.new("RGB", (4, 4), colour).save(pytester.path / "pictures" / f"{name}.png")
    return pytester


def measured(suite: pytest.Pytester, run: str) -> dict[tuple[str, str, str], float]:
    """The values of a run by benchmark, measure and slice."""
    made = json.loads((suite.path / "reports" / run / "metrics.json").read_text())["measures"]
    return {(each["benchmark"], each["name"], "".join(each["slice"].values())): each["value"] for each in made}


def test_a_bare_mark_asks_every_chosen_benchmark(suite: pytest.Pytester) -> None:
    every = suite.runpytest_inprocess("--model=seeing", "--run=every", "-q")
    assert "3 correct" in every.stdout.str()
    assert every.ret == 0
    values = measured(suite, "every")
    assert values["questions", "accuracy", ""] == values["more", "accuracy", ""] == 1
    assert values["questions", "accuracy", "mri"] == 1
    one = suite.runpytest_inprocess("--model=seeing", "--run=one", "--benchmark=more", "-q")
    assert "1 correct" in one.stdout.str()
    assert {benchmark for benchmark, _, _ in measured(suite, "one")} == {"more"}
    shipped = suite.runpytest_inprocess("--model=random", "--benchmark=phantom-mediconfusion", "--collect-only", "-q")
    assert "test_any[" in shipped.stdout.str()
    assert "72 tests collected" in shipped.stdout.str()


def test_a_missing_image_is_named_before_anything_is_asked(suite: pytest.Pytester) -> None:
    (suite.path / "pictures" / "blue.png").unlink()
    message = "questions: 1 of 2 images are there, missing are those of row 3. Put"
    typed = suite.runpytest_inprocess("--model=seeing", "-q")
    assert (typed.ret, message in typed.stderr.str()) == (pytest.ExitCode.USAGE_ERROR, True)
    bare = suite.runpytest_inprocess("-q")
    assert bare.ret == pytest.ExitCode.INTERRUPTED
    assert bare.stdout.str().count(message) == 1
    assert not (suite.path / "reports").exists()
    some = suite.runpytest_inprocess("--model=seeing", "-q", "-k", "q1 or m1")
    assert "2 correct" in some.stdout.str()


def test_a_prompt_with_a_wrong_field_is_one_line(suite: pytest.Pytester) -> None:
    suite.makeconftest(CONFTEST.replace('tags=("modality",)', 'prompt="{question} {choices}"'))
    refused = suite.runpytest_inprocess("--model=seeing", "-q")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "benchmark 'questions': the prompt '{question} {choices}' has the field {choices}." in refused.stderr.str()
