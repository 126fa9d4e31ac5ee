"""Write a summary into one comment of a pull request: `python tools/pull_request_comment.py RUN URL < summary.md`.

In GitHub Actions, with a token in TOKEN; in a job of no pull request nothing happens. The comment begins with a mark of
the run's name. A bot's comment with that mark is replaced, else one is added. URL is where the run folder was uploaded,
or empty. What cannot be written is a warning: the verdict stands in the job.

Endpoints: https://docs.github.com/en/rest/issues/comments, of the version 2022-11-28.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

LONGEST = 65_536
"""Characters of a comment."""
PAGES = 30
"""Pages of 100 comments that are looked through."""
CUT = "\n\nThe rest is in the summary of the job.\n"


def main(run: str, url: str, summary: str, environment: Mapping[str, str]) -> str:
    """Write the comment; return what was done, for the log. OSError or ValueError if GitHub refuses or says no JSON."""
    event = Path(environment.get("GITHUB_EVENT_PATH", ""))
    pull_request = json.loads(event.read_text("utf-8")).get("pull_request") if event.is_file() else None
    if not pull_request:
        return "no pull request: no comment"
    repository = f"{environment['GITHUB_API_URL']}/repos/{environment['GITHUB_REPOSITORY']}"
    mark = f"<!-- medvqa gate: {re.sub(r'[^A-Za-z0-9._ -]', '_', run)} -->"
    link = f"[index.html]({url})" if url else "index.html"
    text = f"{mark}\n{summary.replace('[index.html](index.html)', link)}"
    body = {"body": text if len(text) <= LONGEST else text[: LONGEST - len(CUT)] + CUT}
    ours = next(_ours(f"{repository}/issues/{int(pull_request['number'])}/comments", mark, environment["TOKEN"]), None)
    if ours is not None:
        _ask(f"{repository}/issues/comments/{ours}", environment["TOKEN"], "PATCH", body)
        return "the comment of the pull request is replaced"
    _ask(f"{repository}/issues/{int(pull_request['number'])}/comments", environment["TOKEN"], "POST", body)
    return "the pull request has a comment"


def _ours(comments: str, mark: str, token: str) -> Iterator[int]:
    """Yield the numbers of the comments that begin with the mark and were written by a bot: people's are left alone."""
    for page in range(1, PAGES + 1):
        listed = _ask(f"{comments}?per_page=100&page={page}", token)
        for each in listed:
            if str(each.get("body", "")).startswith(mark) and (each.get("user") or {}).get("type") == "Bot":
                yield int(each["id"])
        if len(listed) < 100:
            return


def _ask(url: str, token: str, method: str = "GET", body: Mapping[str, str] | None = None) -> Any:
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 (the runner's own address)
    with urllib.request.urlopen(asked, timeout=60) as response:  # noqa: S310
        return json.load(response)


if __name__ == "__main__":
    try:
        print(main(sys.argv[1], sys.argv[2], sys.stdin.read(), os.environ))
    except (OSError, ValueError) as error:
        reason = f"{error.code} {error.reason}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        print(f"::warning::the comment of the pull request was not written: {reason}. "
              "The job needs the permission pull-requests: write")  # fmt: skip
