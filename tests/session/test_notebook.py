"""The notebook of the documentation runs in an empty folder, and shows what is kept in it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient")

from medvqa.records import run_record
from support import notebook


def test_kept_outputs_name_no_machine() -> None:
    text = notebook.NOTEBOOK.read_text("utf-8")
    assert re.findall(r"/(?:tmp|home|root|work|Users|private)/", text) == []
    assert {output.output_type for output in notebook.outputs(notebook.read())} == {"display_data", "execute_result"}


@pytest.mark.slow
def test_the_notebook_evaluates_loads_compares_and_plots(tmp_path: Path) -> None:
    executed = notebook.outputs(notebook.executed(tmp_path))
    kept = notebook.outputs(notebook.read())
    assert [output for output in executed if output.output_type == "error"] == []
    assert any("image/png" in output.data for output in executed)
    assert [_text(output) for output in executed] == [_text(output) for output in kept]
    assert [(tmp_path / "reports" / name / "index.html").is_file() for name in ("majority", "bright")] == [True, True]


SLOW = """
import time
import medvqa

class Slow(medvqa.Backend):
    sends_to = None
    def generate(self, prompts):
        time.sleep(0.05 * len(prompts))
        return [medvqa.Answer("A") for _ in prompts]

run = medvqa.evaluate(Slow, "phantom-mediconfusion", run="slow", batch_size=2)
print(run.finished, len(run.results))
"""


@pytest.mark.slow
def test_an_interrupted_cell_goes_on_when_it_is_run_again(tmp_path: Path) -> None:
    from jupyter_client.manager import start_new_kernel

    kernel, client = start_new_kernel(cwd=str(tmp_path))
    try:
        interrupted, said = _run(client, SLOW, kernel.interrupt_kernel)
        assert interrupted == "KeyboardInterrupt"
        assert "72/72" not in said
        assert _run(client, SLOW)[1].splitlines()[-1] == "True 72"
    finally:
        kernel.shutdown_kernel(now=True)
    asked, reused = (
        [session[name] for session in run_record.read_run(tmp_path / "reports/slow").as_json()["sessions"]]
        for name in ("asked", "reused")
    )
    assert reused[1] > 0
    assert asked[1] + reused[1] == 72


def _run(client: Any, code: str, interrupt: Callable[[], object] | None = None) -> tuple[str, str]:
    """Run a cell; interrupt it when it shows progress for the third time. Its error's name, "" if none, and texts."""
    texts: list[str] = []

    def listen(message: Any) -> None:
        content = message["content"]
        texts.append(content.get("text") or content.get("data", {}).get("text/plain", ""))
        if interrupt is not None and sum("items" in text for text in texts) == 3 and "items" in texts[-1]:
            interrupt()

    reply = client.execute_interactive(code, output_hook=listen, timeout=120)
    return reply["content"].get("ename", ""), "\n".join(filter(None, texts))


def _text(output: Any) -> str:
    return str(output.data.get("text/html", output.data["text/plain"]))
