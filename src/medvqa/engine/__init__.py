"""Ask a model: Prompt -> Answer.

`batches` asks one batch; `stream` keeps a model busy with upcoming items; `judges` asks a judge about the answers.
"""

from medvqa.engine.batches import Failure as Failure
from medvqa.engine.batches import Unavailable as Unavailable
from medvqa.engine.batches import ask as ask
from medvqa.engine.batches import attempt as attempt
from medvqa.engine.judges import Judge as Judge
from medvqa.engine.judges import Pending as Pending
from medvqa.engine.stream import FAREWELL as FAREWELL
from medvqa.engine.stream import KILLS as KILLS
from medvqa.engine.stream import AnswerMemory as AnswerMemory
from medvqa.engine.stream import Limits as Limits
from medvqa.engine.stream import Lookahead as Lookahead
from medvqa.engine.stream import Recollection as Recollection
from medvqa.engine.stream import Reply as Reply
from medvqa.engine.stream import Stream as Stream
from medvqa.engine.stream import Streamed as Streamed
from medvqa.engine.stream import Submitted as Submitted
from medvqa.engine.stream import Ticket as Ticket
from medvqa.engine.stream import Traffic as Traffic
