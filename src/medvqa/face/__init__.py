"""The face for Python: evaluate a model, load a run, compare two runs. Knows no pytest, and imports pandas lazily."""

from medvqa.face.compared import ComparedRuns, compare
from medvqa.face.evaluating import evaluate
from medvqa.face.loaded import LoadedRun, load

__all__ = ["ComparedRuns", "LoadedRun", "compare", "evaluate", "load"]
