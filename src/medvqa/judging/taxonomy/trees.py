"""Trees of kinds of errors: TOML files, the shipped ones and the user's.

The kinds of GMAI-MMBench and of MedLesionVQA mean different things under equal names ("perceptual error", refusals), so
no mapping joins them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from medvqa import decode, printing
from medvqa.items import UsageError
from medvqa.judging import reviews
from medvqa.judging.replies import NO_KIND

SHIPPED = ("gmai-mmbench", "medlesionvqa")
"""The names of the shipped trees."""
Rule = Literal["refused", "abstained", "empty"]
"""Answers whose kind is certain without a judge: refused, "cannot be determined", and without any text."""
UNCLASSIFIED = "unclassified"
"""Stands for the kind of an answer that no kind was found for."""
AGREED = "ok"
"""Means "as labelled" in a person's sheet."""
WITHIN = ": "
"""Joins the name of a kind and that of a kind within it."""
MAX_KINDS, MAX_NAME, MAX_DEFINITION = 40, 80, 1000
"""Most kinds of a tree, and most characters of a name and of a definition."""


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """A tree of kinds of errors.

    `kinds` maps names to definitions, in the order of display; "a: b" is a kind within "a". `rules` maps names of Rule
    to the kind of such answers; an answer without a rule goes to the judge. `tags` maps tags of `reviews` to kinds.
    `label` is NAME@digest; the digest changes with every kind, definition and rule.
    """

    name: str
    source: str = ""
    kinds: Mapping[str, Annotated[str, msgspec.Meta(max_length=MAX_DEFINITION)]] = field(default_factory=dict)
    rules: Mapping[Rule, str] = field(default_factory=dict)
    tags: Mapping[reviews.Tag, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """`name@digest`."""
        lines = [*self.kinds.items(), ("", ""), *sorted(self.rules.items())]
        content = "\0".join(part for line in lines for part in line)
        return f"{self.name}@{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def kinds_by_tag(tree: Taxonomy) -> Mapping[reviews.Tag, str]:
    """Return the kind of each tag. An errors.json of an earlier version has none: those of the shipped tree count."""
    if tree.tags or tree.name not in SHIPPED:
        return tree.tags
    current = shipped(tree.name)
    return current.tags if current.label == tree.label else {}


def main_kind(kind: str) -> str:
    """Return the kind that a kind lies within, or the kind itself."""
    return kind.partition(WITHIN)[0]


def find(named: str, beside: Path) -> Taxonomy:
    """Return the tree of `--taxonomy`: the name of a shipped one, or a TOML file (relative to `beside`); UsageError."""
    if named in SHIPPED:
        return shipped(named)
    if not named.endswith(".toml"):
        raise UsageError(
            f"--taxonomy={named}: no such tree; there are: {', '.join(SHIPPED)}, or a file of your own: "
            "--taxonomy=FILE.toml"
        )
    path, where = beside / named, f"--taxonomy={named}"
    return parse(path.stem, decode.read(path, where), where)


@lru_cache(maxsize=len(SHIPPED))
def shipped(name: str) -> Taxonomy:
    """Return a shipped tree."""
    return parse(name, (resources.files(__package__) / "trees" / f"{name}.toml").read_bytes(), name)


def parse(name: str, content: bytes, where: str) -> Taxonomy:
    """Return the tree in a TOML file's content; UsageError, which begins with `where`, if it is none."""
    named = {"name": printing.line(name)[:MAX_NAME]}
    tree = decode.decode_bytes(content, Taxonomy, where, given=named)
    _check_kinds(tree.kinds, where)
    for table, kind_by_key in (("rules", tree.rules.items()), ("tags", tree.tags.items())):
        for key, kind in kind_by_key:
            if kind not in tree.kinds:
                meant = decode.did_you_mean(kind, tree.kinds)
                raise UsageError(f"{where}: {table}.{key}: no kind {decode.shown(kind)}{meant}")
    return replace(tree, source=printing.line(tree.source))


def _check_kinds(kinds: Mapping[str, str], where: str) -> None:
    """Raise UsageError for a name that a judge's reply or a sheet could not hold, and for a kind within none."""
    if not 2 <= len(kinds) <= MAX_KINDS:
        raise UsageError(f"{where}: kinds: {len(kinds)} kinds; 2 to {MAX_KINDS} are expected")
    seen = {NO_KIND, AGREED, UNCLASSIFIED}
    for kind, definition in kinds.items():
        plain = kind.isprintable() and kind == " ".join(kind.split()) and not set("<>*`") & set(kind)
        problem = ""
        if not plain or not 1 <= len(kind) <= MAX_NAME:
            problem = f"a name is a line of 1 to {MAX_NAME} characters, without <, >, * and `"
        elif kind.casefold() in seen:
            problem = "occurs twice, or has a meaning of its own; choose another name"
        elif not definition.strip():
            problem = "a definition is expected"
        elif WITHIN in kind and (main_kind(kind) not in kinds or kind.count(WITHIN) > 1):
            problem = (
                f"a kind within '{main_kind(kind)}', which is no kind; a colon stands between a kind and one kind "
                "within it"
            )
        if problem:
            raise UsageError(f"{where}: kinds: {decode.shown(kind)}: {problem}")
        seen.add(kind.casefold())
