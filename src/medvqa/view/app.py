"""The addresses of `medvqa view`. Each is answered by a function of another file, in a thread:

    GET /                    frame.page(), as for /runs/NAME, /compare?run=&run= and /history?benchmark=&id=
    GET /app.js, /app.css    frame.asset(name)
    GET /api/runs?since=     RunFolders.list(since) -> RunList
    GET .../NAME/progress    progress.run_progress(index, name) -> RunProgress
    GET .../NAME/pace        pace.pace(index) -> Pace
    GET .../NAME/items?...   items.page(index, ItemQuery.of(parameters)) -> ItemPage
    GET .../NAME/images/SHA  Originals.image(folder, address) -> SentImage
    GET .../NAME/reviews     reviews.read(index) -> SavedReviews; PUT: reviews.save(index, text, etag) -> etag
    GET /api/history?...     history.history(folders, benchmark, id) -> History
    GET /api/bundle?run=...  await Drawings.drawn(runs) -> Drawn
    GET /api/bundles/KEY/... Drawings.block(key, name) -> bytes; Drawings.runs(key) -> folders, for images

NAME is looked up by `RunFolders.folder(name)`, and `index` is that of its folder; no part of an address becomes part
of a path. Errors are MedVQAError or OSError, whose message is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from medvqa import printing
from medvqa.items import DataError, MedVQAError, UsageError
from medvqa.report.bundle.questions import encode
from medvqa.report.bundle.shape import Shape
from medvqa.view import frame, history, items, pace, reviews
from medvqa.view.drawing import Drawings, NoBundle
from medvqa.view.guard import TooLarge
from medvqa.view.images import NoImage, Originals, SentImage
from medvqa.view.items import ItemQuery
from medvqa.view.progress import run_progress
from medvqa.view.reviews import ReviewsChanged
from medvqa.view.run_index import RunIndex, RunIndexes
from medvqa.view.run_list import RunFolders
from medvqa.view.shapes import Problem

READING, LISTS, IMAGES, HISTORIES, DRAWINGS = 6, 1, 4, 1, 1
"""Threads for each kind of request: images that wait for their data set, or lists, must not keep pages waiting."""
WAITING = 32
"""Requests of one kind that wait for a thread."""

P = ParamSpec("P")
R = TypeVar("R")


async def _icon(request: Request) -> Response:
    return Response(status_code=204)  # Browsers ask for it unasked, and log a 404.


ICON = Route("/favicon.ico", _icon)


class Busy(MedVQAError):
    """Too many requests wait."""


class Missing(MedVQAError):
    """An address names nothing that exists."""


class Threads:
    """Some threads for one kind of work. Work that finds all of them taken waits without one."""

    def __init__(self, number: int) -> None:
        """`number` of threads at a time."""
        self._places = anyio.CapacityLimiter(number)

    async def run(self, function: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
        """Return what a function returns (Busy)."""
        if self._places.statistics().tasks_waiting >= WAITING:
            raise Busy("The server is busy with other requests: try again.")
        return await anyio.to_thread.run_sync(
            partial(function, *given, **named), limiter=self._places, abandon_on_cancel=True
        )


@dataclass
class Site:
    """What the addresses read from."""

    folders: RunFolders
    indexes: RunIndexes
    originals: Originals
    drawings: Drawings


def application(site: Site) -> Starlette:
    """Return the application, without its guard. It is made in the event loop that runs it."""
    handlers = _Handlers(site)
    routes = [
        *(Route(path, handlers.page) for path in ("/", "/runs/{name:path}", "/compare", "/history")),
        *(Route(f"/{name}", handlers.asset) for name in frame.ASSETS),
        ICON,
        Route("/api/runs", handlers.runs),
        Route("/api/runs/{name:path}/progress", handlers.progress),
        Route("/api/runs/{name:path}/pace", handlers.pace),
        Route("/api/runs/{name:path}/items", handlers.items),
        Route("/api/runs/{name:path}/images/{address}", handlers.image),
        Route("/api/runs/{name:path}/reviews", handlers.reviews, methods=["GET", "PUT"]),
        Route("/api/history", handlers.history),
        Route("/api/bundle", handlers.bundle),
        Route("/api/bundles/{key}/images/{address}.png", handlers.bundle_image),
        Route("/api/bundles/{key}/{block:path}", handlers.block),
    ]
    # An address with one "/" more is an unknown one, not another name of a known one.
    app = Starlette(routes=routes, exception_handlers=PROBLEMS)
    app.router.redirect_slashes = False
    return app


class _Handlers:
    """One method for each address. `_threads` of each kind wait for each other, and for no other kind."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._reading, self._lists, self._images = Threads(READING), Threads(LISTS), Threads(IMAGES)
        self._histories, self._drawings = Threads(HISTORIES), Threads(DRAWINGS)

    async def page(self, request: Request) -> Response:
        return Response(frame.page(), media_type="text/html")

    async def asset(self, request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        return Response(frame.asset(name), media_type=frame.ASSETS[name])

    async def runs(self, request: Request) -> Response:
        since = items.number(_single(request), "since", 0, 2**53)
        return _json(await self._lists.run(self._site.folders.list, since))

    async def progress(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await self._read(lambda: run_progress(self._index(name), name))

    async def pace(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await self._read(lambda: pace.pace(self._index(name)))

    async def items(self, request: Request) -> Response:
        query = ItemQuery.of(_single(request))
        name = request.path_params["name"]
        return await self._read(lambda: items.page(self._index(name), query))

    async def history(self, request: Request) -> Response:
        given = _single(request)
        missing = [name for name in ("benchmark", "id") if name not in given]
        if missing:
            raise Missing(f"The history of an item needs its {' and '.join(missing)} in the address.")
        benchmark, id = given["benchmark"], given["id"]
        return _json(await self._histories.run(history.history, self._site.folders, benchmark, id))

    async def image(self, request: Request) -> Response:
        name, address = request.path_params["name"], request.path_params["address"]
        return await self._image(lambda: [self._folder(name)], address)

    async def bundle_image(self, request: Request) -> Response:
        key, address = request.path_params["key"], request.path_params["address"]
        return await self._image(lambda: self._site.drawings.runs(key), address)

    async def reviews(self, request: Request) -> Response:
        name = request.path_params["name"]
        if request.method != "PUT":
            saved = await self._reading.run(lambda: reviews.read(self._index(name)))
            headers = {"ETag": f'"{saved.etag}"', "Medvqa-Earlier": str(saved.earlier)}
            return Response(saved.text, headers=headers, media_type="application/jsonl")
        body = await request.body()
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"The reviews are no UTF-8 text: {error}") from None
        etag = request.headers.get("if-match", "").strip().strip('"')
        tag = await self._reading.run(lambda: reviews.save(self._index(name), text, etag))
        return Response(headers={"ETag": f'"{tag}"'}, media_type="application/jsonl")

    async def bundle(self, request: Request) -> Response:
        names = request.query_params.getlist("run")
        site = self._site
        runs = await self._reading.run(lambda: [(name, self._folder(name)) for name in names])
        drawing = asyncio.ensure_future(self._drawings.run(site.drawings.drawn, runs))
        while not (await asyncio.wait({drawing}, timeout=1))[0]:
            if await request.is_disconnected():
                # Nobody waits for it any more, and others wait for its place.
                drawing.cancel()
                site.drawings.stop()
                raise Missing("The page was left.")
        return _json(drawing.result())

    async def block(self, request: Request) -> Response:
        key, name = request.path_params["key"], request.path_params["block"]
        content = await self._reading.run(self._site.drawings.block, key, name)
        headers = {"Content-Encoding": "deflate"}
        return Response(content, headers=headers, media_type="application/octet-stream")

    async def _read(self, function: Callable[[], Shape]) -> Response:
        return _json(await self._reading.run(function))

    async def _image(self, folders: Callable[[], Sequence[Path]], address: str) -> Response:
        sent = await self._images.run(lambda: self._sent(folders(), address))
        return Response(sent.content, media_type=sent.type)

    def _sent(self, folders: Sequence[Path], address: str) -> SentImage:
        """The image of the first run that has it."""
        why = NoImage("The run has recorded no such image.")
        for folder in folders:
            try:
                return self._site.originals.image(folder, address)
            except NoImage as error:
                why = error
        raise why

    def _folder(self, name: str) -> Path:
        folder = self._site.folders.folder(name)
        if folder is None:
            raise Missing(f"There is no run {printing.line(name)} in {printing.line(self._site.folders.root.name)}.")
        return folder

    def _index(self, name: str) -> RunIndex:
        return self._site.indexes.of(self._folder(name))


def _single(request: Request) -> Mapping[str, str]:
    """The parameters of an address; of one that stands there twice, the last counts."""
    return dict(request.query_params)


def _json(shape: Shape) -> Response:
    return Response(encode(shape), media_type="application/json")


def _problem(status: int, error: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(Problem(error)), status, headers, "application/json")


def _http_problem(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return _failed(request, error)
    known = {404: "There is no such address.", 405: "This address can only be read."}
    return _problem(error.status_code, known.get(error.status_code, error.detail), error.headers)


def _refused(request: Request, error: Exception) -> Response:
    status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 422)
    return _problem(status, printing.line(str(error)))


def _unreadable(request: Request, error: Exception) -> Response:
    reason = error.strerror if isinstance(error, OSError) else ""
    return _problem(500, f"A file cannot be read or written: {reason or 'unknown reason'}.")


def _left(request: Request, error: Exception) -> Response:
    return _problem(400, "The request was not sent to its end.")


def _failed(request: Request, error: Exception) -> Response:
    return _problem(500, "The server failed at this: its terminal has the reason.")


_STATUSES: Mapping[type, int] = {
    Missing: 404,
    NoImage: 404,
    NoBundle: 404,
    ReviewsChanged: 412,
    TooLarge: 413,
    Busy: 503,
    UsageError: 400,
}
"""Of other errors: 422."""
PROBLEMS: Mapping[Any, Callable[[Request, Exception], Response]] = {
    HTTPException: _http_problem,
    MedVQAError: _refused,
    OSError: _unreadable,
    ClientDisconnect: _left,
    Exception: _failed,
}
