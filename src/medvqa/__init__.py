"""Medical visual question answering benchmarks as pytest suites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medvqa.backend import Backend as Backend
    from medvqa.benchmarks.table_files import benchmark_file as benchmark_file
    from medvqa.benchmarks.table_files import table as table
    from medvqa.face import ComparedRuns as ComparedRuns
    from medvqa.face import LoadedRun as LoadedRun
    from medvqa.face import compare as compare
    from medvqa.face import evaluate as evaluate
    from medvqa.face import load as load
    from medvqa.face import published as published
    from medvqa.face import questions as questions
    from medvqa.items import Answer as Answer
    from medvqa.items import AnswerError as AnswerError
    from medvqa.items import Benchmark as Benchmark
    from medvqa.items import Image as Image
    from medvqa.items import Item as Item
    from medvqa.items import MedVQAError as MedVQAError
    from medvqa.items import Prompt as Prompt
    from medvqa.items import Score as Score
    from medvqa.metrics import metric as metric

__version__ = "0.2.0"

_WHERE = {
    "Answer": "medvqa.items",
    "AnswerError": "medvqa.items",
    "Backend": "medvqa.backend",
    "Benchmark": "medvqa.items",
    "ComparedRuns": "medvqa.face",
    "Image": "medvqa.items",
    "Item": "medvqa.items",
    "LoadedRun": "medvqa.face",
    "MedVQAError": "medvqa.items",
    "Prompt": "medvqa.items",
    "Score": "medvqa.items",
    "benchmark_file": "medvqa.benchmarks.table_files",
    "compare": "medvqa.face",
    "evaluate": "medvqa.face",
    "load": "medvqa.face",
    "metric": "medvqa.metrics",
    "published": "medvqa.face",
    "questions": "medvqa.face",
    "table": "medvqa.benchmarks.table_files",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: pytest imports this package in every repository."""
    if name not in _WHERE:
        raise AttributeError(f"module 'medvqa' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
