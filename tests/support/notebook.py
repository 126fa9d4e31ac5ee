"""The notebook of the documentation, executed; `python tests/support/notebook.py` writes its outputs anew."""

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs/notebook.ipynb"


def read() -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)


def executed(folder: Path) -> nbformat.NotebookNode:
    """The notebook as it is after all cells have run in a folder; CellExecutionError if one fails."""
    notebook = read()
    client = NotebookClient(
        notebook, timeout=300, record_timing=False, coalesce_streams=True, resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        drawn = executed(Path(empty))
    drawn.metadata.language_info = {"name": "python"}
    nbformat.write(drawn, NOTEBOOK)
