"""Backends made of small objects of a test: `generate`, and what of `batch_size`, `concurrency` and others it has."""

from typing import Any

from medvqa.backend import MEMBERS, Backend


def backend(stub: Any) -> Backend:
    """The object as a backend: its class's `name` is the title, its declared members those of the backend."""
    members: dict[str, Any] = {"sends_to": None, "title": stub.name}
    for name, member in MEMBERS.items():
        if name != "name" and hasattr(stub, name):
            found = getattr(stub, name)
            members[name] = _calling(found, name) if member.kind == "method" else found
    return type("Stub", (Backend,), members)()


def _calling(found: Any, member: str) -> Any:
    if member in ("generate", "compute", "prepare"):
        return lambda self, prompts: found(prompts)
    return lambda self: found()
