"""Write the JSON Schemas of the files of a run folder from their types: `python tools/schemas.py`.

docs/schemas/run.json is that of run.json, docs/schemas/result.json that of a line of results.jsonl, and
docs/schemas/prompt.json that of a line of prompts.jsonl. With --compare, write nothing and fail if a file differs.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import msgspec

from medvqa.items import Result
from medvqa.records.run_folder import Extent
from medvqa.records.run_record import SCHEMA, STORED, RunRecord
from medvqa.records.sent_prompts import KeptPrompt

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
TITLES = {
    "run.json": f"run.json of pytest-medvqa, schema {SCHEMA}",
    "result.json": "A line of results.jsonl",
    "prompt.json": "A line of prompts.jsonl",
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, bytes]:
    """Return the content of each file by its name."""
    made = {}
    for name, kind in (("run.json", RunRecord), ("result.json", Result), ("prompt.json", KeptPrompt)):
        schema = _cleaned(msgspec.json.schema(kind))
        if kind is Result:
            _add_extents(schema["$defs"])
        content = {"$schema": DIALECT, "title": TITLES[name], **schema}
        made[name] = msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
    return made


def _add_extents(types: dict[str, Any]) -> None:
    """Describe images as a line has them: with an extent in place of a TextCell."""
    image = types["Image"]["properties"]
    extent = msgspec.json.schema(Extent)["$defs"]["Extent"]["properties"]
    parquet = [kind for kind in image["cell"]["anyOf"] if not kind.get("$ref", "").endswith("TextCell")]
    first = {name: image.pop(name) for name in ("name", "path")}
    types["Image"]["properties"] = {**first, **extent, **image, "cell": {**image["cell"], "anyOf": parquet}}
    del types["TextCell"]


def _cleaned(schema: Any) -> Any:
    """Leave out the field in which a part keeps the JSON that it was read from, and the indents of docstrings."""
    if isinstance(schema, dict):
        return {
            name: inspect.cleandoc(value) if name == "description" and isinstance(value, str) else _cleaned(value)
            for name, value in schema.items()
            if name != STORED
        }
    return [_cleaned(value) for value in schema] if isinstance(schema, list) else schema


def main() -> int:
    """Write the files, or compare them."""
    stale = []
    for name, content in schemas().items():
        path = FOLDER / name
        if "--compare" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        elif not path.is_file() or path.read_bytes() != content:
            stale.append(name)
    if stale:
        print(f"stale: {', '.join(stale)}: type python tools/schemas.py")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
