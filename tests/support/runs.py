"""Records of runs, made from what run.json holds."""

from collections.abc import Mapping
from typing import Any

import msgspec

from medvqa.records.run_record import RunRecord, record_of

NONE: Mapping[str, Any] = {}


def record(content: Mapping[str, Any] | RunRecord = NONE, **fields: Any) -> RunRecord:
    """A record from the fields of run.json, or from another record with these fields in place of its own."""
    about = content.as_json() if isinstance(content, RunRecord) else content
    return record_of(msgspec.json.decode(msgspec.json.encode({**about, **fields})))
