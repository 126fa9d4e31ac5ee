"""What is on disk: the run folder, and the answers that runs share.

`folder` is one run's files, `merging` makes one run of several, `baseline` a file of one, `store` are the answers,
`journal` what the processes of a run are asking this moment.
"""

from medvqa.records.baseline import is_baseline, read_baseline, response_digest, said, write_baseline
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
    key,
    lines,
    properties,
    read,
    read_run,
    run_name,
    versions,
    write_atomic,
    write_json,
)
from medvqa.records.journal import Journal, Suspects, bury
from medvqa.records.journal import close as close_journals
from medvqa.records.store import STORE, Contents, Recalled, Store, Unwritable, Writer, check_folder, contents, remove
from medvqa.records.store import key as answer_key

__all__ = [
    "DISTRIBUTION",
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
    "bury",
    "check_folder",
    "check_name",
    "close_journals",
    "contents",
    "data_digest",
    "decode",
    "differences",
    "encode",
    "is_baseline",
    "key",
    "lines",
    "properties",
    "read",
    "read_baseline",
    "read_run",
    "remove",
    "response_digest",
    "run_name",
    "said",
    "versions",
    "write_atomic",
    "write_baseline",
    "write_json",
]
