"""HTTP requests to a server: the client, and failures that say whether another request may succeed."""

from __future__ import annotations

import asyncio
import email.utils
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medvqa.backends.openai.addresses import ServerAddress

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError, AsyncOpenAI

MAX_RESPONSE = 16 * 2**20
"""Largest response, in unpacked bytes."""

_BUSY = frozenset({429, 503, 529})
_DOWN = frozenset({502, 503, 504})
"""What a proxy answers for a server that is down, and a server that is starting."""


@dataclass(eq=False)
class RequestFailure(Exception):
    """A request without an answer.

    `again`: a retry may succeed. `lost`: no answer came; `gone`: the connection was refused. `wait`: seconds, if the
    server names them. `status`, `code`: of the HTTP response. `usage`: of an answer that does not count. `origin`: of
    the server.
    """

    message: str
    again: bool = True
    lost: bool = False
    gone: bool = False
    wait: float | None = None
    status: int = 0
    code: str | None = None
    usage: Mapping[str, float] | None = None
    origin: str = ""

    def __str__(self) -> str:
        """The message alone."""
        return self.message

    @property
    def busy(self) -> bool:
        """Whether the server is overloaded."""
        return self.status in _BUSY

    @property
    def down(self) -> bool:
        """Whether the server may be down, as after a lost connection."""
        return self.lost or self.gone or self.status in _DOWN

    def seconds(self, otherwise: float) -> float:
        """Return the seconds to wait: as the server says, or `otherwise`."""
        return otherwise if self.wait is None else self.wait


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Limit a request to so many seconds, and convert errors of the package `openai` to RequestFailure.

    The client's own timeout restarts with each byte.
    """
    import openai

    try:
        async with asyncio.timeout(seconds):
            yield
    except (TimeoutError, openai.APITimeoutError):
        raise RequestFailure(f"no answer within {seconds:g} s", lost=True) from None
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
    return RequestFailure(f"{type(cause).__name__}: {cause}", lost=True, gone=gone)


def _of_status(error: APIStatusError) -> RequestFailure:
    status = error.status_code
    body_message = error.body.get("message") if isinstance(error.body, dict) else None
    message = f"HTTP {status}: {body_message if isinstance(body_message, str) else error.response.text}"
    # Waiting does not restore a used-up quota.
    again = (status in (408, 409, 429) or status >= 500) and error.code != "insufficient_quota"
    wait = retry_after(error.response.headers, time.time())
    return RequestFailure(message, again, wait=wait, status=status, code=error.code)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds to wait by retry-after-ms or Retry-After (seconds or a date); None without either.

    `now` is the time in seconds since the epoch.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name, "")
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


def client_of(address: ServerAddress, key: str, timeout: float) -> AsyncOpenAI:
    """Return the client of a server, without connecting. It reads at most MAX_RESPONSE bytes of a response.

    It follows no redirections, and bypasses proxies for a server on this machine, so images go nowhere else.
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

    return openai.AsyncOpenAI(
        api_key=key or "none",
        base_url=address.url,
        max_retries=0,  # retries are ours: they slow all requests to a server down, and go to other servers
        timeout=timeout,
        http_client=Bounded(follow_redirects=False, trust_env=address.remote),
    )
