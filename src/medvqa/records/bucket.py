"""One place in a bucket, by obstore: every call ends within a time, and no error repeats what a server said."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from medvqa import files, printing
from medvqa.items import MedVQAError, UsageError
from medvqa.records.address import Address

CALL = 5.0
"""Seconds of one call: a put, or a get."""
CONCURRENT = 32
"""Objects that are read at once."""
TRIES = 3
"""Tries of reading one object, besides obstore's own."""

Value = TypeVar("Value")


class BucketError(MedVQAError):
    """A call to a shared store failed; the message is one short line without keys."""


class ObjectExists(BucketError):
    """An object of this name is there already."""


class ObjectMissing(BucketError):
    """There is no object of this name, or no bucket."""


class ObjectTooLarge(BucketError):
    """An object has more bytes than were asked for."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of a bucket: its name below the store's prefix, and its size in bytes."""

    name: str
    size: int


_STATUS = re.compile(r"status code: ([1-5][0-9]{2})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{3,60})</Code>")
_KNOWN = {
    "kind: timeout": "no answer in time",
    "connectionrefused": "connection refused",
    "connectionreset": "connection reset",
    "incompletemessage": "the connection was closed before an answer",
    "body error": "its answer was cut off",
    "dns error": "the server's name is not known",
    "certificate": "its certificate is not trusted",
    "badscheme": "not https://",
    "kind: connect": "no connection",
    "latest/api/token": "no keys in the environment",
    "missing account": "no account in the environment",
    "missingaccount": "no account in the environment",
    "no space left on device": "no space left on device",
    "read-only file system": "read-only file system",
    "permission denied": "permission denied",
    "not a directory": "not a folder",
    "invalidpath": "a file there has a name that no object may have",
    "filesystem loop": "a link there leads in a circle",
    "too many levels of symbolic links": "a link there leads in a circle",
}
"""What may be told of a message, by what it contains. Its own text repeats URLs, and all that the server sent."""


def reduced(error: BaseException) -> str:
    """Return an error of obstore in one line: its class, the status and what else is known to hold no key."""
    text = str(error)[:20_000]
    lower = text.lower()
    parts = [f"status {match[1]}"] if (match := _STATUS.search(text)) else []
    parts += [match[1]] if (match := _CODE.search(text)) else []
    parts += [said for known, said in _KNOWN.items() if known in lower][:1]
    kind = type(error).__name__
    return f"{', '.join(parts)} ({kind})" if parts else kind


class Bucket:
    """A store of objects. Each call runs in a thread of its own: a server that hangs holds nobody longer than agreed.

    The threads are daemons: neither the end of a process nor a signal waits for them.
    """

    # Not obstore's asyncio functions: with obstore 0.12, 4 of 15 processes that had used them were aborted at their
    # end, when its threads called the finished interpreter.

    def __init__(self, address: Address, store: Any) -> None:
        """`store`: an object of obstore.store."""
        self.address = address
        self._store = store

    def put(self, name: str, content: bytes, seconds: float = CALL) -> None:
        """Create an object. ObjectExists if there is one of that name; BucketError."""
        import obstore

        _within(seconds, lambda: obstore.put(self._store, name, content, mode="create", use_multipart=False))

    def get(self, name: str, most: int, seconds: float = CALL) -> bytes:
        """Return the content of an object; ObjectMissing, ObjectTooLarge for more than `most` bytes, BucketError."""
        return _within(seconds, lambda: self._get(name, most))

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

    def get_all(
        self, names: Sequence[str], most: int, seconds: float
    ) -> Iterator[tuple[str, bytes | ObjectMissing | ObjectTooLarge]]:
        """Read objects, many at once; yield their names and contents, or the error, in the order of the names.

        BucketError if one cannot be read for another reason, or after `seconds` in all.
        """
        left, lock, ended = iter(enumerate(names)), threading.Lock(), threading.Event()
        replies: queue.SimpleQueue[tuple[int, bytes | BucketError]] = queue.SimpleQueue()
        # Bounded: contents wait in memory until all earlier ones are there.
        places = threading.Semaphore(2 * CONCURRENT)

        def work() -> None:
            while not ended.is_set():
                if not places.acquire(timeout=1.0):
                    continue
                with lock:
                    number, name = next(left, (-1, ""))
                if number < 0:
                    return
                replies.put((number, self._got(name, most, ended)))

        for _ in range(min(CONCURRENT, len(names))):
            threading.Thread(target=work, name="medvqa-bucket", daemon=True).start()
        by, early = time.monotonic() + seconds, dict[int, bytes | BucketError]()
        try:
            for expected, name in enumerate(names):
                while expected not in early:
                    try:
                        number, reply = replies.get(timeout=max(0.0, by - time.monotonic()))
                    except queue.Empty:
                        raise BucketError(f"not all is read within {seconds:g} s") from None
                    early[number] = reply
                reply = early.pop(expected)
                if isinstance(reply, BucketError) and not isinstance(reply, ObjectMissing | ObjectTooLarge):
                    raise reply
                places.release()
                yield name, reply
        finally:
            ended.set()

    def _got(self, name: str, most: int, ended: threading.Event) -> bytes | BucketError:
        """Return the content of an object, or the error of the last of some tries."""
        for tries in range(1, TRIES + 1):
            reply = _tried(lambda: self._get(name, most))
            if isinstance(reply, bytes | ObjectMissing | ObjectTooLarge) or tries == TRIES or ended.wait(tries):
                break
        return reply

    def list(self, prefix: str, most: int, seconds: float) -> Sequence[StoredObject]:
        """Return the objects below a prefix, at most `most` and one more; BucketError."""
        return _within(seconds, lambda: self._list(prefix, most))

    def _list(self, prefix: str, most: int) -> Sequence[StoredObject]:
        import obstore

        objects: list[StoredObject] = []
        for page in obstore.list(self._store, prefix or None, chunk_size=1000):
            objects += [StoredObject(str(meta["path"]), int(meta["size"])) for meta in page]
            if len(objects) > most:
                break
        return objects[: most + 1]


def _tried(call: Callable[[], Value]) -> Value | BucketError:
    """Return the value of a call, or its error, reduced: obstore's own may hold a URL, or all that a server sent."""
    try:
        return call()
    except BucketError as error:
        return error
    except BaseException as error:  # noqa: BLE001 - obstore raises many classes; a panic in it is no Exception
        kind, why = type(error).__name__, reduced(error)
    if kind in ("AlreadyExistsError", "PreconditionError"):
        return ObjectExists(why)
    return ObjectMissing(why) if kind in ("FileNotFoundError", "NotFoundError") else BucketError(why)


def _within(seconds: float, call: Callable[[], Value]) -> Value:
    """Return the value of a call that runs in a thread of its own (BucketError)."""
    replies: queue.SimpleQueue[Value | BucketError] = queue.SimpleQueue()
    threading.Thread(target=lambda: replies.put(_tried(call)), name="medvqa-bucket", daemon=True).start()
    try:
        reply = replies.get(timeout=max(0.0, seconds))
    except queue.Empty:
        raise BucketError(f"no answer within {seconds:.2g} s") from None
    if isinstance(reply, BucketError):
        raise reply
    return reply


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
    if address.scheme == "file" and not (above := Path(address.prefix).parent).is_dir():
        # A disk that is not mounted: a new folder of this machine would be shared with nobody.
        raise UsageError(f"--answers={address}: no folder {printing.line(str(above))}; is the shared disk mounted?")
    kinds = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}
    try:
        if address.scheme == "file":
            return Bucket(address, stores.LocalStore(Path(address.prefix), mkdir=True))
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
        "file": "Name a folder of answers alone, which can be read and written",
    }[address.scheme]
