"""Files on disk: run folders, and the answers that runs share.

`folder`: the files of one run. `merging`: one run from several. `baseline`: a run as one file. `store`: the answers.
`journal`: the calls in flight of each process. `selected`: the keys of a run's questions. `lock`: one writing session
at a time.
"""

from medvqa.records.baseline import (
    DIGESTS,
    is_baseline,
    read_baseline,
    response_digest,
    said,
    without_response,
    write_baseline,
)
from medvqa.records.coverage import Coverage, Portion, Selection, cover, coverage, merged_parts, select_from
from medvqa.records.folder import (
    DISTRIBUTION,
    MAX_RUN,
    RESULTS,
    RUN,
    Recorder,
    Stored,
    check_name,
    check_scored,
    data_digest,
    decode,
    differences,
    encode,
    judge_name,
    judged_by_rule,
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
from medvqa.records.identity import is_identified
from medvqa.records.identity import joined as joined_identity
from medvqa.records.identity import of_run as identity_of_run
from medvqa.records.journal import Journal, Suspects, bury
from medvqa.records.journal import close as close_journals
from medvqa.records.keyed import BaselineKey, find_key, keyed_question, own_key, reveal
from medvqa.records.lock import LOCK, Lock
from medvqa.records.private import Pseudonyms, is_pseudonym, make_private
from medvqa.records.selected import SELECTED, add_selected, remove_selected, select, selected, selected_by
from medvqa.records.store import (
    OWN_ANSWERS,
    OWN_REPLIES,
    STORE,
    Contents,
    Recalled,
    Store,
    Unwritable,
    Writer,
    check_folder,
    contents,
    own_folder,
    remove,
    remove_empty,
)
from medvqa.records.store import asked as answers_asked
from medvqa.records.store import key as answer_key
from medvqa.records.store import writers as answer_writers

__all__ = [
    "DIGESTS",
    "DISTRIBUTION",
    "LOCK",
    "MAX_RUN",
    "OWN_ANSWERS",
    "OWN_REPLIES",
    "RESULTS",
    "RUN",
    "SELECTED",
    "STORE",
    "BaselineKey",
    "Contents",
    "Coverage",
    "Journal",
    "Lock",
    "Portion",
    "Pseudonyms",
    "Recalled",
    "Recorder",
    "Selection",
    "Store",
    "Stored",
    "Suspects",
    "Unwritable",
    "Writer",
    "add_selected",
    "answer_key",
    "answer_writers",
    "answers_asked",
    "bury",
    "check_folder",
    "check_name",
    "check_scored",
    "close_journals",
    "contents",
    "cover",
    "coverage",
    "data_digest",
    "decode",
    "differences",
    "encode",
    "find_key",
    "identity_of_run",
    "is_baseline",
    "is_identified",
    "is_pseudonym",
    "joined_identity",
    "judge_name",
    "judged_by_rule",
    "keyed_question",
    "lines",
    "make_private",
    "merged_parts",
    "own_folder",
    "own_key",
    "properties",
    "read",
    "read_baseline",
    "read_run",
    "remove",
    "remove_empty",
    "remove_selected",
    "response_digest",
    "reveal",
    "run_name",
    "said",
    "select",
    "select_from",
    "selected",
    "selected_by",
    "signed",
    "versions",
    "without_response",
    "write_atomic",
    "write_baseline",
    "write_json",
]
