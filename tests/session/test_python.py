"""The face for Python from an empty folder and the installed wheel, as a stranger's first script."""

import pytest

from support.installed import Door

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_script_evaluates_a_table_with_a_model_and_a_metric_of_its_own(door: Door) -> None:
    door.picture("images/red.png", (255, 0, 0))
    door.picture("images/blue.png", (0, 0, 255))
    door.write(
        "questions.csv",
        """
        id,image,question,A,B,answer
        1,red.png,What colour is it?,red,blue,A
        2,blue.png,What colour is it?,red,blue,B
        """,
    )
    door.write(
        "first.py",
        """
        import medvqa

        class Mine(medvqa.Backend):
            sends_to = None

            def generate(self, prompts):
                reds = [prompt.images[0].pil().convert("RGB").getpixel((0, 0))[0] for prompt in prompts]
                return [medvqa.Answer("A" if red > 127 else "B") for red in reds]

        @medvqa.metric
        def long_answer(result):
            return len(result.answer.text) > 200

        questions = medvqa.table("questions.csv", images="images/")
        run = medvqa.evaluate(Mine(), questions, limit=50, metrics=[long_answer], run="first")
        print(run)
        whole = run.measures.query("dimension == ''").set_index("measure")
        print(run.results.outcome.tolist(), whole.value["long_answer"])
        """,
    )
    done = door.run("python first.py")
    assert done.code == 0, done.output
    assert "run folder: reports/first" in done.output
    assert done.output.splitlines()[-1] == "['correct', 'correct'] 0.0"
