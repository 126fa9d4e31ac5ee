"""A judge reads what rules cannot: it scores open answers, compares free-form ones with options, and finds options.

A judge is a `Model` that is asked by text. This room says what it is asked and what its replies mean; it asks nobody:
(item, answer, score by rule) -> `Case` with prompts -> replies -> `JudgeReading` or `Complaint` -> `Score`.
"""

from medvqa.judging.cases import Case, as_shown, case_of, may_ask
from medvqa.judging.replies import Complaint, JudgeReading, again, read
from medvqa.judging.rescoring import led_by, rescored
from medvqa.judging.scores import score
from medvqa.judging.settings import RECORDED, Settings
from medvqa.judging.templates import TASKS, Task

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
]
