"""HTTP requests to a server: the client, and failures that say whether another request may succeed."""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError

MAX_RESPONSE = 16 * 2**20
"""Largest response, in unpacked bytes."""

_BUSY = frozenset({429, 503, 529})
_DOWN = frozenset({502, 503, 504})
"""What a proxy answers for a server that is down, and a server that is starting."""


class RequestFailure(Exception):
    """A failed request.

    `again`: a retry may succeed. `busy`: the server is overloaded. `down`: the server may be down, as after a lost
    connection; `gone`: it refused the connection. `wait`: seconds, if the server names them. `status`, `code`: of the
    HTTP response.
    """

    def __init__(
        self,
        message: str,
        *,
        again: bool,
        busy: bool = False,
        down: bool = False,
        gone: bool = False,
        wait: float | None = None,
        status: int | None = None,
        code: str | None = None,
    ) -> None:
        """See the class."""
        super().__init__(message)
        self.again = again
        self.busy = busy
        self.down = down or gone
        self.gone = gone
        self.wait = wait
        self.status = status
        self.code = code


@contextmanager
def failures(timeout: float) -> Iterator[None]:
    """Convert errors of the package `openai` to RequestFailure; `timeout` is the limit of the request, in seconds."""
    import openai

    try:
        yield
    except (TimeoutError, openai.APITimeoutError):
        raise RequestFailure(f"no answer within {timeout:g} s", again=True, down=True) from None
    except openai.APIStatusError as error:
        raise _of_status(error) from None
    except openai.APIConnectionError as error:
        raise _of_connection(error) from None


def _of_connection(error: APIConnectionError) -> RequestFailure:
    cause = error.__cause__ or error
    if isinstance(cause, RequestFailure):  # raised by our HTTP client; some versions of the package wrap it
        return cause
    # By name: versions of the package bring httpx or httpx2.
    gone = type(cause).__name__ in ("ConnectError", "ProxyError")
    return RequestFailure(f"{type(cause).__name__}: {cause}", again=True, down=True, gone=gone)


def _of_status(error: APIStatusError) -> RequestFailure:
    status = error.status_code
    body_message = error.body.get("message") if isinstance(error.body, dict) else None
    message = f"HTTP {status}: {body_message if isinstance(body_message, str) else error.response.text}"
    # Waiting does not restore a used-up quota.
    again = (status in (408, 409, 429) or status >= 500) and error.code != "insufficient_quota"
    wait = retry_after(error.response.headers, time.time())
    busy, down = status in _BUSY, status in _DOWN
    return RequestFailure(message, again=again, busy=busy, down=down, wait=wait, status=status, code=error.code)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds to wait by retry-after-ms or Retry-After (seconds or a date); None without either.

    `now` is the time in seconds since the epoch.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - now
            except ValueError:
                continue
        if not math.isnan(seconds):
            return max(seconds, 0.0)
    return None


def http_client(*, local: bool) -> Any:
    """The package's HTTP client, which reads at most MAX_RESPONSE bytes of a response.

    Redirections are not followed, and a `local` server bypasses proxies, so images go nowhere else.
    """
    import openai

    class Bounded(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, **how: Any) -> Any:
            response = await super().send(request, **{**how, "stream": True})
            content = bytearray()
            try:
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > MAX_RESPONSE:
                        raise RequestFailure(f"a response of more than {MAX_RESPONSE} bytes", again=False)
            finally:
                await response.aclose()
            unpacked = {"content-encoding", "content-length", "transfer-encoding"}
            headers = [(name, value) for name, value in response.headers.multi_items() if name not in unpacked]
            return type(response)(response.status_code, headers=headers, content=bytes(content), request=request)

    return Bounded(follow_redirects=False, trust_env=not local)
