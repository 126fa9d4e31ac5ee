"""Judge answers that rules cannot score: open answers, free-form answers to options, and unreadable choices.

A judge is a `Model` with text prompts. This room writes its prompts and reads its replies, and calls no model:
(item, answer, score by rule) -> `Case` with prompts -> replies -> `JudgeReading` or `Complaint` -> `Score`.
"""

from medvqa.judging.cases import Case, as_shown, case_of, may_ask
from medvqa.judging.replies import Complaint, JudgeReading, again, read
from medvqa.judging.scores import led_by, rescored, score
from medvqa.judging.settings import RECORDED, Settings
from medvqa.judging.templates import TASKS, Task, shipped, variants

__all__ = [
    "RECORDED",
    "TASKS",
    "Case",
    "Complaint",
    "JudgeReading",
    "Settings",
    "Task",
    "again",
    "as_shown",
    "case_of",
    "led_by",
    "may_ask",
    "read",
    "rescored",
    "score",
    "shipped",
    "variants",
]
