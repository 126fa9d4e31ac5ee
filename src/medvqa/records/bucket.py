"""One place in a bucket, by obstore: every call ends within a time, and no error repeats what a server said."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from medvqa.items import MedVQAError, UsageError
from medvqa.records.address import Address

CALL = 5.0
"""Seconds of one call: a put, or a get."""
CONCURRENT = 64
"""Segments that are read at once."""

Value = TypeVar("Value")


class BucketError(MedVQAError):
    """A call to a shared store failed; the message is one short line without keys."""


class Exists(BucketError):
    """An object of this name is there already."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object of a bucket: its name below the store's prefix, and its size in bytes."""

    name: str
    size: int


_STATUS = re.compile(r"status(?: code)?:? ([1-5][0-9]{2})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{3,60})</Code>")
_KNOWN = (
    "timed out",
    "connection refused",
    "connection reset",
    "connection closed",
    "dns error",
    "certificate",
    "no space left on device",
    "permission denied",
    "read-only file system",
    "no such file or directory",
    "is a directory",
    "not a directory",
    "missing region",
    "builder error",
    "error sending request",
)
"""What may be repeated of a message; anything else may hold a URL with a signature, or a header with a key."""


def reduced(error: BaseException) -> str:
    """Return an error of obstore in one line: its class, the status and what else is known to hold no key."""
    text = str(error)[:10_000]
    lower = text.lower()
    parts = [f"status {match[1]}"] if (match := _STATUS.search(text)) else []
    parts += [match[1]] if (match := _CODE.search(text)) else []
    parts += [known for known in _KNOWN if known in lower][:2]
    kind = type(error).__name__
    return f"{kind} ({', '.join(parts)})" if parts else kind


class Bucket:
    """A store of objects. Calls run in a thread of their own, so that a server that hangs holds nobody longer."""

    def __init__(self, address: Address, store: Any) -> None:
        """`store`: an object of obstore.store."""
        self.address = address
        self._store = store
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def put(self, name: str, content: bytes, seconds: float = CALL) -> None:
        """Create an object. Exists if there is one of that name; BucketError."""
        self._call(self._put(name, content), seconds)

    async def _put(self, name: str, content: bytes) -> None:
        import obstore

        await obstore.put_async(self._store, name, content, mode="create", use_multipart=False)

    def get(self, name: str, most: int, seconds: float = CALL) -> bytes:
        """Return the content of an object; BucketError, also for more than `most` bytes."""
        return self._call(self._get(name, most), seconds)

    async def _get(self, name: str, most: int) -> bytes:
        import obstore

        answer = await obstore.get_async(self._store, name)
        if answer.meta["size"] > most:
            raise BucketError(f"it has more than {most:,} bytes")
        parts, size = [], 0
        async for part in answer.stream():
            size += len(part)
            if size > most:
                raise BucketError(f"it has more than {most:,} bytes")
            parts.append(bytes(part))
        return b"".join(parts)

    def get_all(
        self, names: Sequence[str], most: int, seconds: float, take: Callable[[str, bytes | BucketError], None]
    ) -> None:
        """Read objects, many at once, and call `take` with each, in any order. BucketError after `seconds` in all."""
        self._call(self._get_all(names, most, take), seconds)

    async def _get_all(self, names: Sequence[str], most: int, take: Callable[[str, bytes | BucketError], None]) -> None:
        left = iter(names)

        async def work() -> None:
            for name in left:
                try:
                    content: bytes | BucketError = await asyncio.wait_for(self._get(name, most), 6 * CALL)
                except Exception as error:  # noqa: BLE001 - obstore's errors have no class in common with a time-out
                    content = _translated(error)
                take(name, content)

        await asyncio.gather(*(work() for _ in range(min(CONCURRENT, len(names)))))

    def list(self, prefix: str, most: int, seconds: float) -> list[Stored]:
        """Return the objects below a prefix, at most `most` and one more; BucketError."""
        return self._call(self._list(prefix, most), seconds)

    async def _list(self, prefix: str, most: int) -> list[Stored]:
        import obstore

        objects: list[Stored] = []
        async for page in obstore.list(self._store, prefix or None, chunk_size=1000):
            objects += [Stored(str(meta["path"]), int(meta["size"])) for meta in page]
            if len(objects) > most:
                break
        return objects[: most + 1]

    def _call(self, call: Coroutine[Any, Any, Value], seconds: float) -> Value:
        """Run a call in the thread of this bucket for at most some seconds (BucketError)."""
        future: Future[Value] = asyncio.run_coroutine_threadsafe(_within(call, seconds), self._running())
        problem: BucketError
        try:
            # The second limit holds if the thread itself does not go on.
            return future.result(seconds + 1)
        except TimeoutError:
            future.cancel()
            problem = BucketError(f"no answer within {seconds:g} s")
        except Exception as error:  # noqa: BLE001 - whatever obstore raises is reduced to a line without keys
            problem = _translated(error)
        # Raised here, the error has no context: obstore's own may hold a URL or a header.
        raise problem

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="medvqa-bucket", daemon=True).start()
            return self._loop

    def close(self) -> None:
        """End the thread; a call that hangs is given up."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.stop)


async def _within(call: Coroutine[Any, Any, Value], seconds: float) -> Value:
    return await asyncio.wait_for(call, seconds)


def _translated(error: BaseException) -> BucketError:
    if isinstance(error, BucketError):
        return error
    if isinstance(error, TimeoutError):
        return BucketError("no answer in time")
    made = Exists if type(error).__name__ in ("AlreadyExistsError", "PreconditionError") else BucketError
    return made(reduced(error))


def endpoint(address: Address, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the server that the environment names for an address; None for the cloud's own."""
    names = {
        "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    }.get(address.scheme, ())
    return next((environ[name] for name in names if environ.get(name)), None)


def open_bucket(address: Address, environ: Mapping[str, str]) -> Bucket:
    """Return the bucket of an address. Nothing is sent yet. UsageError without obstore or for a wrong environment.

    Keys, regions and endpoints are read from the environment: AWS_..., GOOGLE_... and AZURE_... .
    """
    try:
        import obstore.store as stores
    except ImportError:
        raise UsageError(f"--answers={address}: a package is missing; pip install 'pytest-medvqa[store]'") from None
    url = endpoint(address, environ)
    plain = (url or "").startswith("http://") or environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true")
    client: dict[str, Any] = {"timeout": f"{6 * CALL:g}s", "connect_timeout": f"{CALL:g}s", "allow_http": plain}
    retry: dict[str, Any] = {"max_retries": 4, "retry_timeout": timedelta(seconds=CALL)}
    options: dict[str, Any] = {"prefix": address.prefix or None, "client_options": client, "retry_config": retry}
    problem = ""
    try:
        if address.scheme == "file":
            return Bucket(address, stores.LocalStore(Path(address.prefix), mkdir=True))
        if address.scheme == "s3":
            return Bucket(address, stores.S3Store(address.bucket, **options))
        if address.scheme == "gs":
            return Bucket(address, stores.GCSStore(address.bucket, **options))
        return Bucket(address, stores.AzureStore(address.bucket, **options))
    except Exception as error:  # noqa: BLE001 - whatever obstore raises is reduced to a line without keys
        problem = reduced(error)
    raise UsageError(f"--answers={address}: the store cannot be opened: {problem}. {advice(address)}")


def advice(address: Address) -> str:
    """Say where keys and endpoints of a scheme are read from."""
    return {
        "s3": "Keys are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the region from AWS_REGION, another "
        "server from AWS_ENDPOINT_URL",
        "gs": "Keys are read from the file that GOOGLE_APPLICATION_CREDENTIALS names",
        "az": "The account is read from AZURE_STORAGE_ACCOUNT_NAME, its key from AZURE_STORAGE_ACCOUNT_KEY",
        "file": "Name a folder that can be written",
    }[address.scheme]
