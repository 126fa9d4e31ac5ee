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

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from medvqa import files
from medvqa.items import DataError
from medvqa.readings import reading_file
from medvqa.readings.study_plan import RECEIVED, StudyRecord, file_name
from medvqa.report.bundle.pictures import FOLDER
from medvqa.view.app import ICON, PROBLEMS, READING, Threads
from medvqa.view.guard import HOLDER
from medvqa.view.reviews import ReviewsChanged, alone, content_of, tag

_CHARSET = b'<meta charset="utf-8">'
_SERVED = b'<meta name="medvqa-view" content="1">'
"""Tells the page that a server keeps its readings."""


def application(folder: Path, record: StudyRecord) -> Starlette:
    """Return the application, without its guard. It is made in the event loop that runs it."""
    threads = Threads(READING)

    async def own_page(request: Request) -> Response:
        name = file_name(request.scope[HOLDER], ".html")
        file = await threads.run(lambda: files.reading(folder / name, follow=False))
        return StreamingResponse(_pieces(file), media_type="text/html")

    async def reading(request: Request) -> Response:
        reader, content = request.scope[HOLDER], b""
        if request.method == "PUT":
            body, etag = await request.body(), request.headers.get("if-match", "").strip().strip('"')
            after = await threads.run(save, folder, record, reader, body, etag)
        else:
            content = await threads.run(lambda: content_of(_path(folder, reader)))
            after = tag(content)
        return Response(content, headers={"ETag": f'"{after}"'}, media_type="application/jsonl")

    routes: list[BaseRoute] = [
        Route("/", own_page),
        ICON,
        Route("/api/reading", reading, methods=["GET", "PUT"]),
    ]
    if (folder / FOLDER).is_dir():
        routes.append(Mount(f"/{FOLDER}", StaticFiles(directory=folder / FOLDER)))
    app = Starlette(routes=routes, exception_handlers=PROBLEMS)
    app.router.redirect_slashes = False
    return app


def save(folder: Path, record: StudyRecord, reader: str, content: bytes, etag: str) -> str:
    """Write all readings of a reader, in place of those of state `etag`; return the tag of the new state.

    ReviewsChanged if the file is in another state; DataError for a wrong file, for readings of another reader or study,
    and of questions that are not the reader's; OSError if the folder cannot be written.
    """
    study, lines = reading_file.parse(content, "readings")
    own = {(reader, record.questions[code][0], code) for code, _ in record.orders[reader]}
    planned = msgspec.structs.replace(record.study, reader=reader)
    if study != planned or not own.issuperset((line.reader, line.benchmark, line.item) for line in lines):
        # No message names an id or another reader's question: the reader sees it.
        raise DataError(f"These are no readings of {reader} in this study: open the address of this page again.")
    path = _path(folder, reader)
    with alone(folder):
        files.private_folder(files.check_subfolder(folder, RECEIVED))
        if tag(content_of(path)) != etag:
            raise ReviewsChanged("These readings were changed meanwhile, in another tab or window.")
        files.replace(path, content, mode=0o600)
    return tag(content)


def _path(folder: Path, reader: str) -> Path:
    return folder / RECEIVED / file_name(reader, ".jsonl")


def _pieces(file: BufferedReader) -> Iterator[bytes]:
    """Yield the content of a page, with the mark of a served one."""
    with file:
        yield file.read(2**18).replace(_CHARSET, _CHARSET + _SERVED, 1)
        yield from iter(lambda: file.read(2**18), b"")
