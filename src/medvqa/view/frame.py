"""The page that every address of `medvqa view` starts with, and the two files that it loads."""

from __future__ import annotations

import html
from functools import cache
from importlib import resources

ASSETS = {"app.js": "text/javascript; charset=utf-8", "app.css": "text/css; charset=utf-8"}
"""Files of the app, and their types."""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="medvqa-view" content="1">
<meta name="generator" content="pytest-medvqa">
<title>medvqa</title>
<link rel="stylesheet" href="/app.css">
</head>
<body>
<div id="app"><noscript><p>This page needs JavaScript.</p></noscript></div>
<template id="licences">{licences}</template>
<script src="/app.js"></script>
</body>
</html>
"""


@cache
def asset(name: str) -> bytes:
    """Return a file of the app that the pages in files have inside them."""
    return resources.files("medvqa.report.html").joinpath("assets", name).read_bytes()


@cache
def page() -> bytes:
    """Return the page. It has nothing of a run, and no script inside it: the app asks for what its address names."""
    return _PAGE.format(licences=html.escape(asset("LICENSES.txt").decode())).encode()
