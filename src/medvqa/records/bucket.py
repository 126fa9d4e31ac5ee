"""A bucket as a place, by obstore: its objects, its server, and the environment from which keys are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from medvqa import files
from medvqa.items import UsageError
from medvqa.records.address import Address
from medvqa.records.objects import CALL, Objects, ObjectTooLarge, StoredObject, reduced


class Bucket(Objects):
    """The objects of a bucket below a prefix."""

    # Not obstore's asyncio functions: with obstore 0.12, 4 of 15 processes that had used them were aborted at their
    # end, when its threads called the finished interpreter.

    def __init__(self, address: Address, store: Any) -> None:
        """`store`: an object of obstore.store."""
        self.address = address
        self._store = store

    def _put(self, name: str, content: bytes) -> None:
        import obstore

        obstore.put(self._store, name, content, mode="create", use_multipart=False)

    def _get(self, name: str, most: int) -> bytes:
        import obstore

        answer = obstore.get(self._store, name)
        parts, size = list[bytes](), int(answer.meta["size"])
        stream = iter(answer.stream())
        while size <= most and (part := next(stream, None)) is not None:
            parts.append(bytes(part))
            # A server may send more than it announced.
            size = max(size, sum(map(len, parts)))
        if size > most:
            raise ObjectTooLarge(f"larger than {files.size(most)}")
        return b"".join(parts)

    def _pages(self, folder: str, after: str) -> Iterator[Sequence[StoredObject]]:
        import obstore

        prefix = f"{folder}/" if folder else ""
        above = f"{self.address.prefix}/{prefix}" if self.address.prefix else prefix
        while True:
            try:
                for page in obstore.list(self._store, folder or None, offset=prefix + after or None, chunk_size=1000):
                    yield [StoredObject(str(meta["path"]), int(meta["size"])) for meta in page]
                return
            except Exception as error:
                # obstore fails the page of up to 1,000 names in which one is no path: go on behind it.
                odd = _odd_name(error, above)
                if odd is None or _behind(odd) <= after:
                    raise
            yield [StoredObject(prefix + odd, None)]
            after = _behind(odd)


_ODD = re.compile(r'(?:Path|path) "(?P<path>.*?)"(?: contained|: Encountered)', re.DOTALL)


def _odd_name(error: BaseException, above: str) -> str | None:
    """Return the name below `above` that obstore cannot list, None for another error."""
    match = _ODD.search(str(error)[:20_000]) if type(error).__name__ == "InvalidPathError" else None
    return match["path"][len(above) :] if match is not None and match["path"].startswith(above) else None


def _behind(odd: str) -> str:
    """Return the first name that obstore takes after all names that begin like an odd one."""
    clean = re.match(r"[^\x00-\x1f\x7f/]*", odd)
    end = 0 if clean is None else clean.end()
    return odd[:end] + {"/": "0", "\x7f": "\x80"}.get(odd[end : end + 1], " ")


_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
}
"""Variables that name a server, of which obstore reads any, in any letter case after the first "_"."""
_EMULATOR = "AZURITE_BLOB_STORAGE_URL"
"""The server of Azure's emulator, if AZURE_STORAGE_USE_EMULATOR asks for one."""
_SERVER = re.compile(
    r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?(?:/[a-z0-9._~/-]*)?", re.IGNORECASE | re.ASCII
)


def endpoint(address: Address, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the server that the environment names for an address, None for the cloud's own.

    UsageError for variables that name different servers, and for anything but scheme, host, port and path: obstore
    might read another host in it.
    """
    names = _ENDPOINTS.get(address.scheme, ())
    found = {name: value.rstrip("/") for name, value in environ.items() if value and name.upper() in names}
    if address.scheme == "az" and _is_emulated(environ):
        # With an emulator, obstore ignores the other variables.
        found[_EMULATOR] = (environ.get(_EMULATOR) or "http://127.0.0.1:10000").rstrip("/")
    for name, url in found.items():
        if not _SERVER.fullmatch(url):
            raise UsageError(
                f"{name} is no address of a server: write https://HOST:PORT, without a user, '?', '#', '%' or a "
                "backslash"
            )
    if len(set(found.values())) > 1:
        raise UsageError(
            f"--answers={address}: {', '.join(sorted(found))} name different servers; keep one of these variables "
            "(letter case in their names does not count)"
        )
    return next(iter(found.values()), None)


def _is_emulated(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for Azure's emulator, in any spelling that obstore takes for yes."""
    named = (value.lower() for name, value in environ.items() if name.upper() == "AZURE_STORAGE_USE_EMULATOR")
    return any(value in ("1", "true", "on", "yes", "y") for value in named)


def open_bucket(address: Address, environ: Mapping[str, str]) -> Bucket:
    """Return the bucket of an address. Nothing is sent yet. UsageError without obstore or for a wrong environment.

    Keys, regions and endpoints are read from the environment: AWS_..., GOOGLE_... and AZURE_... .
    """
    try:
        import obstore.store as stores
    except ImportError:
        raise UsageError(f"--answers={address}: a package is missing; pip install 'pytest-medvqa[store]'") from None
    url = endpoint(address, environ) or ""
    emulated = address.scheme == "az" and _is_emulated(environ)
    options: dict[str, Any] = {
        "prefix": address.prefix or None,
        "client_options": {
            "timeout": timedelta(seconds=6 * CALL),
            "connect_timeout": timedelta(seconds=CALL / 2),
            "allow_http": emulated or url.lower().startswith("http://"),
        },
        # A later try is ours; `_within` gives up earlier, where a call must not take so long.
        "retry_config": {"max_retries": 1, "retry_timeout": timedelta(seconds=CALL / 2)},
    }
    if url:
        # Else obstore chooses among the variables by an order of its own: answers would go where no line says.
        options["base_url" if address.scheme == "gs" else "endpoint"] = url
    if address.scheme == "az" and (account := environ.get("AZURE_STORAGE_ACCOUNT_NAME")):
        # Else the text of the store, as in a debugger, would end obstore in a panic.
        options["account_name"] = account
    kinds = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}
    try:
        return Bucket(address, kinds[address.scheme](address.bucket, **options))
    except Exception as error:  # noqa: BLE001 - obstore raises classes of its own, OSError, ValueError and others
        problem = reduced(error)
    raise UsageError(f"--answers={address}: the store cannot be opened: {problem}. {advice(address)}")


def advice(address: Address) -> str:
    """Say where keys and endpoints of a scheme are read from."""
    return {
        "s3": "Keys are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the region from AWS_REGION, another "
        "server from AWS_ENDPOINT_URL",
        "gs": "Keys are read from the file that GOOGLE_APPLICATION_CREDENTIALS names",
        "az": "The account is read from AZURE_STORAGE_ACCOUNT_NAME, its key from AZURE_STORAGE_ACCOUNT_KEY",
    }[address.scheme]
