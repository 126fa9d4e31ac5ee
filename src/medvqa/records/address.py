"""The address of a place for answers: `s3://BUCKET/PREFIX`, `gs://`, `az://` or `file:///FOLDER`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from medvqa.items import UsageError

SCHEMES = ("s3", "gs", "az", "file")
MAX_ADDRESS = 1000
"""Characters of an address."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a place is. `bucket` is empty and `prefix` a whole path for the scheme `file`.

    An address holds no key: `of` refuses one that could.
    """

    scheme: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        """Return the address as it is typed, without a slash at its end."""
        return f"{self.scheme}://{'/'.join(filter(None, (self.bucket, self.prefix)))}"

    @classmethod
    def of(cls, text: str, option: str = "--answers") -> Address:
        """Return the address that a text names. UsageError for any other, which shows no part that may hold a key."""
        match = _SCHEME.match(text)
        scheme = "" if match is None else match[1].lower()
        known = f"write {', '.join(f'{name}://' for name in SCHEMES[:-1])} or file:///, or a folder without '://'"
        if match is None:
            raise UsageError(f"{option}: an address begins with its scheme, without a space before it; {known}")
        if scheme not in SCHEMES:
            raise UsageError(f"{option}: no store is reached by '{scheme[:20]}:'; {known}")
        if match[2] is None:
            raise UsageError(f"{option}: two slashes follow '{scheme}:'; {known}")
        rest = text[match.end() :]
        if (problem := _problem(rest)) is not None:
            # The text is not repeated: a key may stand anywhere in it.
            raise UsageError(f"{option}={scheme}://...: {problem}")
        if len(text) > MAX_ADDRESS:
            raise UsageError(f"{option}={scheme}://...: longer than {MAX_ADDRESS:,} characters")
        first, _, prefix = rest.partition("/")
        prefix = prefix.rstrip("/")
        if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
            raise UsageError(f"{option}={text}: a part of the path is empty, '.' or '..'")
        if scheme == "file":
            if first or not prefix:
                raise UsageError(f"{option}={text}: write a whole path after three slashes: file:///shared/answers")
            return cls(scheme, "", f"/{prefix}")
        if not _BUCKET.fullmatch(first):
            raise UsageError(
                f"{option}={text}: the name of a bucket is two or more letters, digits, dots, '-' and '_': {scheme}://BUCKET/PREFIX"
            )
        return cls(scheme, first, prefix)


def _problem(rest: str) -> str | None:
    """Why an address may hold a key, or is no plain name; None if all is well."""
    if "@" in rest:
        return "it holds '@'; keys are read from the environment alone"
    if "?" in rest or "#" in rest:
        return "it holds '?' or '#'; options are read from the environment alone"
    if "%" in rest or "\\" in rest:
        return "it holds '%' or a backslash; write the name itself"
    return None if rest.isprintable() else "it holds a character that cannot be printed"


def is_address(text: str) -> bool:
    """Whether a text names a bucket or is meant to, rather than a folder (`C:` may begin a folder's name)."""
    match = _SCHEME.match(text)
    if match is None:
        # Such as " s3://bucket": a folder of that name would be made, and no answer shared.
        return text[:1].isspace() and is_address(text.lstrip())
    return match[2] is not None or match[1].lower() in SCHEMES
