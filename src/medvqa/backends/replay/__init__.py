"""Recorded answers as a model: `replay:FILE`. One file per format; the content tells it, not the file's name (`forms`).

All readers give one `Recording`. Files are hostile input: sizes are limited and nothing in them is evaluated.
"""

from medvqa.backends.replay.forms import read
from medvqa.backends.replay.recording import FORMATS, AnswerColumns, Harness, Recording
from medvqa.backends.replay.replayed import Replay

__all__ = ["FORMATS", "AnswerColumns", "Harness", "Recording", "Replay", "read"]
