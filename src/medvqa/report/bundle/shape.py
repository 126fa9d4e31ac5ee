"""What all parts of a bundle's format share."""

from __future__ import annotations

import msgspec


class Shape(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the format; a field that has its default is left out.

    `tools/bundle_types.py` writes each shape as an interface of TypeScript.
    """
