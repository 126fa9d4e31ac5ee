"""Ask a server which model it serves, so that answers of different models are never mixed.

Sources: vLLM's `ModelCard` (id, root, parent, max_model_len; `created` is the time of the request), SGLang's
`/model_info` (model_path, weight_version; older versions: `/get_model_info`), llama.cpp's `meta` in `/v1/models`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from medvqa import printing
from medvqa.backends.openai.requests import RequestFailure, within

if TYPE_CHECKING:
    from openai import AsyncOpenAI

ASKING = 5.0
"""Seconds for a server to say which model it serves."""
LONGEST = 120
"""Characters of a value that are shown and compared in full; longer ones are cut and end in "..."."""
MOST = 20
"""Model names that are shown."""
_WEIGHTS = ("n_params", "size", "n_vocab", "n_embd")
_PATHS = ("model_info", "get_model_info")


class _Card(msgspec.Struct):
    id: str
    owned_by: Any = None
    root: Any = None
    parent: Any = None
    max_model_len: Any = None
    meta: Any = None


class _Cards(msgspec.Struct):
    data: list[_Card]


_cards = msgspec.json.Decoder(_Cards)
_info = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What a server says about its model.

    `facts`: id, root, max_model_len and the like, as printable texts. `unasked`: why it could not be asked, "" if it
    could.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    unasked: str = ""


async def served_model(client: AsyncOpenAI, name: str, redact: Callable[[str], str]) -> ServedModel:
    """Ask for the model of that name. RequestFailure if the server is down, busy, or refuses the key (401).

    `redact` removes keys from a text: a server may echo its request.
    """
    try:
        async with within(ASKING):
            content = (await client.models.with_raw_response.list()).content
    except RequestFailure as failure:
        if failure.down or failure.busy or failure.status == 401:
            raise
        return ServedModel(unasked=shown(redact(str(failure))))
    try:
        cards = _cards.decode(content).data
    except (ValueError, RecursionError):
        return ServedModel(unasked="its list of models is no list of OpenAI's form")
    card = next((card for card in cards if card.id == name), None)
    if card is None:
        ids = sorted({card.id for card in cards})
        # Only the shown names are redacted: a list of 200,000 would take seconds. The others are counted.
        names = [*(shown(redact(name)) for name in ids[:MOST]), *ids[MOST:]]
        return ServedModel({"models": printing.some(names, MOST) or "none"})
    facts = {"id": card.id, "root": card.root, "parent": card.parent, "max_model_len": card.max_model_len}
    if isinstance(card.meta, dict):
        facts |= {key: card.meta.get(key) for key in _WEIGHTS}
    if card.owned_by == "sglang":
        facts |= await _sglang(client)
    return ServedModel({key: shown(redact(str(value))) for key, value in facts.items() if isinstance(value, str | int)})


def page(client: AsyncOpenAI, path: str) -> str:
    """Return the URL of a server's own page, which lies beside OpenAI's under /v1."""
    return f"{str(client.base_url).rstrip('/').removesuffix('/v1')}/{path}"


async def _sglang(client: AsyncOpenAI) -> dict[str, Any]:
    for path in _PATHS:
        try:
            async with within(ASKING):
                info = _info.decode(await client.get(page(client, path), cast_to=str))
        except (RequestFailure, ValueError, RecursionError):
            continue  # an older version, or a router without it: the list of models was read
        return {"model_path": info.get("model_path"), "weight_version": info.get("weight_version")}
    return {}


def difference(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, str] | None:
    """Return how two servers describe a fact on which they differ, such as ("root a", "root b"); None if they agree.

    A fact that only one of them tells is no difference, except that only one of them lists the model.
    """
    if one and other and ("models" in one) != ("models" in other):
        return _described(one), _described(other)
    for name in one:
        if name in other and one[name] != other[name]:
            return f"{name} {one[name]}", f"{name} {other[name]}"
    return None


def _described(facts: Mapping[str, str]) -> str:
    return f"the models {facts['models']}" if "models" in facts else f"the model {facts.get('id', '')}"


def shown(text: str, longest: int = LONGEST) -> str:
    """Return a text of a server as one printable line of at most `longest` characters and "..."."""
    text = printing.line(" ".join(text[: 10 * longest].split()))
    return text if len(text) <= longest else f"{text[:longest]}..."
