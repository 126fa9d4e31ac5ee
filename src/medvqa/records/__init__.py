"""What is on disk: the run folder, and the answers that runs share.

`folder` is one run's files, `merging` makes one run of several, `store` are the answers, `journal` what the processes
of a run are asking this moment.
"""

from medvqa.records.folder import (
    DISTRIBUTION,
    RESULTS,
    RUN,
    Recorder,
    Stored,
    check_name,
    data_digest,
    decode,
    differences,
    encode,
    judged_by_rule,
    key,
    lines,
    properties,
    read,
    read_run,
    run_name,
    signed,
    versions,
    write_atomic,
    write_json,
)
from medvqa.records.journal import Journal, Suspects, bury
from medvqa.records.journal import close as close_journals
from medvqa.records.store import (
    OWN_ANSWERS,
    STORE,
    Contents,
    Recalled,
    Store,
    Unwritable,
    Writer,
    check_folder,
    contents,
    remove,
    remove_empty,
)
from medvqa.records.store import asked as answers_asked
from medvqa.records.store import key as answer_key

__all__ = [
    "DISTRIBUTION",
    "OWN_ANSWERS",
    "RESULTS",
    "RUN",
    "STORE",
    "Contents",
    "Journal",
    "Recalled",
    "Recorder",
    "Store",
    "Stored",
    "Suspects",
    "Unwritable",
    "Writer",
    "answer_key",
    "answers_asked",
    "bury",
    "check_folder",
    "check_name",
    "close_journals",
    "contents",
    "data_digest",
    "decode",
    "differences",
    "encode",
    "judged_by_rule",
    "key",
    "lines",
    "properties",
    "read",
    "read_run",
    "remove",
    "remove_empty",
    "run_name",
    "signed",
    "versions",
    "write_atomic",
    "write_json",
]
