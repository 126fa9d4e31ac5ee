"""The Python interface: evaluate, load and compare runs, read questions and published rows. Imports no pytest."""

from medvqa.face.compared import ComparedRuns, compare
from medvqa.face.evaluating import evaluate
from medvqa.face.loaded import LoadedRun, load
from medvqa.face.released import published, questions

__all__ = ["ComparedRuns", "LoadedRun", "compare", "evaluate", "load", "published", "questions"]
