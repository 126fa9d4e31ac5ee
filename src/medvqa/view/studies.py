"""The addresses of a study folder. Each reader's cookie opens that reader's page and readings, and nothing else:

    GET /                     the reader's page
    GET /images/NAME          an image, if they are files beside the pages
    GET /api/reading          the readings that were saved, as JSON lines; PUT: save them all -> etag

Readings are kept in received/R1.jsonl, as the page exports them.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from medvqa import files
from medvqa.items import DataError
from medvqa.readings import reading_file
from medvqa.readings.study_plan import RECEIVED, StudyRecord
from medvqa.report.bundle.pictures import FOLDER
from medvqa.report.html import page
from medvqa.view.app import PROBLEMS, READING, Missing, Threads
from medvqa.view.guard import HOLDER
from medvqa.view.reviews import ReviewsChanged, alone, content_of, tag

_PIECE = 2**18
_CHARSET = b'<meta charset="utf-8">'
_SERVED = b'<meta name="medvqa-view" content="1">'
"""Tells the page that a server keeps its readings."""


def policy() -> bytes:
    """Return the content security policy of a page, which no other page may show inside it."""
    return f"{page.policy(folder=True, saves=True)}; frame-ancestors 'none'".encode()


def application(folder: Path, record: StudyRecord) -> Starlette:
    """Return the application, without its guard. It is made in the event loop that runs it."""
    handlers = _StudyHandlers(folder, record)
    routes = [
        Route("/", handlers.page),
        Route("/favicon.ico", handlers.icon),
        Route("/api/reading", handlers.reading, methods=["GET", "PUT"]),
        Mount(f"/{FOLDER}", StaticFiles(directory=folder / FOLDER, check_dir=False)),
    ]
    app = Starlette(routes=routes, exception_handlers=PROBLEMS)
    app.router.redirect_slashes = False
    return app


class _StudyHandlers:
    """One method for each address."""

    def __init__(self, folder: Path, record: StudyRecord) -> None:
        self._folder, self._record = folder, record
        self._threads = Threads(READING)

    async def page(self, request: Request) -> Response:
        file = await self._threads.run(_opened, self._folder / f"{request.scope[HOLDER]}.html")
        return StreamingResponse(_pieces(file), media_type="text/html")

    async def icon(self, request: Request) -> Response:
        return Response(status_code=204)  # Browsers ask for it unasked, and log a 404.

    async def reading(self, request: Request) -> Response:
        reader = request.scope[HOLDER]
        if request.method != "PUT":
            content = await self._threads.run(lambda: content_of(_path(self._folder, reader)))
            return Response(content, headers={"ETag": f'"{tag(content)}"'}, media_type="application/jsonl")
        body = await request.body()
        etag = request.headers.get("if-match", "").strip().strip('"')
        after = await self._threads.run(lambda: save(self._folder, self._record, reader, body, etag))
        return Response(headers={"ETag": f'"{after}"'}, media_type="application/jsonl")


def save(folder: Path, record: StudyRecord, reader: str, content: bytes, etag: str) -> str:
    """Write all readings of a reader, in place of those of state `etag`; return the tag of the new state.

    ReviewsChanged if the file is in another state; DataError for a wrong file, for readings of another reader or study,
    and of questions that are not the reader's; OSError if the folder cannot be written.
    """
    study, lines = reading_file.parse(content, "readings")
    if study.plan != record.study.plan or study.task != record.study.task:
        raise DataError("These readings are of another study, or of an earlier plan: load the page again.")
    if study.reader != reader or any(line.reader != reader for line in lines):
        raise DataError(f"These readings are of another reader than {reader}: open the address of this page again.")
    # No message names an id or another reader's question: the reader sees it.
    own = {(record.questions[code][0], code) for code, _ in record.orders[reader]}
    if any((line.benchmark, line.item) not in own for line in lines):
        raise DataError("These readings are of questions that this reader does not have: load the page again.")
    path = _path(files.subfolder(folder, RECEIVED).parent, reader)
    with alone(folder):
        if tag(content_of(path)) != etag:
            raise ReviewsChanged("These readings were changed meanwhile, in another tab or window.")
        files.replace(path, content, mode=0o600)
    return tag(content)


def _path(folder: Path, reader: str) -> Path:
    return folder / RECEIVED / f"{reader}.jsonl"


def _opened(path: Path) -> BufferedReader:
    try:
        return files.reading(path, follow=False)
    except FileNotFoundError:
        raise Missing("This page has changed: load it again.") from None


def _pieces(file: BufferedReader) -> Iterator[bytes]:
    """Yield the content of a page, with the mark of a served one."""
    with file:
        yield file.read(_PIECE).replace(_CHARSET, _CHARSET + _SERVED, 1)
        yield from iter(lambda: file.read(_PIECE), b"")
