"""The Python interface: evaluate a model, load a run, compare two runs. Imports no pytest, and pandas lazily."""

from medvqa.face.compared import ComparedRuns, compare
from medvqa.face.evaluating import evaluate
from medvqa.face.loaded import LoadedRun, load

__all__ = ["ComparedRuns", "LoadedRun", "compare", "evaluate", "load"]
