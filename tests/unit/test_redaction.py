"""A key that a server sends back is in no file and on no screen, in whichever field and form it comes back."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support import processes
from support.pages import Page
from support.servers import Reply, Request, Server, completion, error, scored

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:html", "-p", "no:benchmark")
KEY = 'sk-test/Zq9+W7rT_xK3 m"P5&vB8=nL2'
JUDGES = "sk-judge-8Hh2Kd93Lm1Qw7"
FORMS = {
    "plain": lambda key: key,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "header": lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    "behind two": lambda key: base64.urlsafe_b64encode(f"ab{key} and more".encode()).decode(),
    "url": lambda key: quote(key, safe=""),
    "json": lambda key: json.dumps(key)[1:-1],
    "json twice": lambda key: json.dumps(json.dumps(key))[1:-1],
    "escaped": lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
    "html": lambda key: key.replace("&", "&amp;").replace('"', "&quot;"),
    "lines": lambda key: f"{key[:9]}\n  {key[9:20]}\r\n{key[20:]}",
    "hex": lambda key: key.encode().hex(),
    "lower case": lambda key: key.lower(),
}
"""Ways in which a server may write what it was sent."""


def shapes(key: str) -> list[str]:
    """What must be found nowhere: a part of the key long enough to be no chance, and the same in other forms."""
    parts = [key[:12], key[8:20], key[-10:]]
    encoded = [base64.b64encode((" " * shift + key).encode()).decode()[4:-4] for shift in range(3)]
    return [*parts, *(part.lower() for part in parts), *encoded, quote(key, safe="")[4:-4], key.encode().hex()[8:-8]]


CONFIG = """
backend = "openai"
argument = "tiny"
[options]
base_url = "{url}"
key_env = "{key}"
retries = 0
concurrency = 4
"""
TEST = """
import pytest

@pytest.mark.vqa("phantom-medlesionvqa")
def test_phantom(item, evaluate):
    evaluate(item)
"""


def replies(key: str) -> list[Reply]:
    """Replies with the key in every field of a chat completion, in every form."""
    made: list[Reply] = []
    for form in FORMS.values():
        text = f"It is {form(key)} here"
        made.append(Reply(completion(text)))
        made.append(Reply(completion("A", text)))
        made.append(Reply(completion(None, refusal=text)))
        made.append(Reply(completion("A") | {"model": text, "system_fingerprint": form(key)}))
        made.append(Reply(completion("A") | {"usage": {"prompt_tokens": 1, "completion_tokens": 2, text: 3}}))
        made.append(Reply(completion("A") | {"usage": {"prompt_tokens": text}}))
        made.append(Reply(scored((text, -0.1), ("A", -0.5))))
        made.append(error(400, f"no such thing: {text}"))
        made.append(error(401, f"{'x' * 380} {form(key)}", text))
    made.append(Reply(completion("A"), headers={"x-request-id": key, "retry-after": key}))
    made.append(Reply(f"{'-' * 190}{key}".encode()))
    made.append(Reply(f"{'-' * 185}{key}".encode(), 500))
    made.append(Reply({"choices": [{"message": {"content": [key]}}]}))
    made.append(Reply({"choices": {key: 1}}))
    made.append(Reply({"error": {"message": {"key": key}}}, 403))
    return made


def folder_with(path: Path, url: str) -> Path:
    path.mkdir()
    (path / "models").mkdir()
    (path / "models" / "echoing.toml").write_text(CONFIG.format(url=url, key="CANDIDATES_KEY"))
    (path / "models" / "judge.toml").write_text(CONFIG.format(url=url, key="JUDGES_KEY"))
    (path / "test_asked.py").write_text(TEST)
    (path / "pytest.ini").write_text("[pytest]\n")
    return path


def session(folder: Path, *arguments: str) -> str:
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MEDVQA_"))}
    called = processes.run(
        [*PYTEST, "--model=echoing", "--run=r", "--max-errors=0", "-rA", "-vv", "--junitxml=own.xml", *arguments],
        cwd=folder,
        env=known | {"CANDIDATES_KEY": KEY, "JUDGES_KEY": JUDGES},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert "INTERNALERROR" not in called.stdout
    return called.stdout


def leaks(folder: Path, printed: str, keys: tuple[str, ...]) -> list[tuple[str, str]]:
    """Where a shape of a key is, and which: in any file under the folder, or in what was printed."""
    texts = {str(path.relative_to(folder)): path.read_text(errors="replace") for path in files(folder)}
    texts["terminal"] = printed
    pages = (path for path in files(folder) if path.name == "index.html")
    texts |= {f"blocks of {path.parent.name}": Page(path.read_text()).told for path in pages}
    return [(name, shape) for name, text in texts.items() for key in keys for shape in shapes(key) if shape in text]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_key_that_comes_back_is_kept_nowhere(tmp_path: Path) -> None:
    asked: list[str] = []

    def script(number: int, request: Request) -> Reply:
        asked.append(request.headers["Authorization"])
        made = replies(KEY if KEY in request.headers["Authorization"] else JUDGES)
        return made[number % len(made)]

    with Server(script) as server:
        folder = folder_with(tmp_path / "repository", server.url)
        printed = session(folder, "--judge=judge")
    assert any(KEY in each for each in asked)
    assert any(JUDGES in each for each in asked)
    names = {path.name for path in files(folder)}
    assert {"results.jsonl", "run.json", "index.html", "summary.md", "junit.xml", "own.xml"} <= names
    assert list((folder / "reports").rglob("answers/*.log"))
    assert leaks(folder, printed, (KEY, JUDGES)) == []
    assert "[key]" in (folder / "reports" / "r" / "results.jsonl").read_text()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_key_is_redacted(form: Any) -> None:
    from medvqa import answers

    for key in (KEY, JUDGES):
        text = f"before {form(key)} behind"
        redacted = answers.redacted(text, [KEY, JUDGES])
        assert redacted.startswith("before ")
        assert "[key]" in redacted
        assert not [shape for shape in shapes(key) if shape in redacted]


def test_words_and_short_values_stay() -> None:
    from medvqa import answers

    text = "The spleen, EMPTY of blood, lies left: A. \N{DEGREE SIGN}\nNothing else."
    assert answers.redacted(text, ["EMPTY", "", "none"]) == text
    assert answers.redacted(text, [KEY, JUDGES]) == text


def test_a_backend_of_ones_own_names_what_is_secret() -> None:
    from medvqa import Backend, engine
    from medvqa.items import Answer, AnswerError, Prompt

    class Own(Backend):
        sends_to = None

        def generate(self, prompts: Any) -> Any:
            return [
                Answer("A", finish=f"<{KEY}>", usage={KEY: 1.0}, served_by=KEY),
                AnswerError(f"no, {KEY}"),
                Answer("A", usage={KEY: None}),  # type: ignore[dict-item]
            ]

    answer, failed, odd = engine.ask(Own(), [Prompt("?")] * 3, secrets=[KEY])
    assert isinstance(answer, Answer)
    assert (answer.finish, answer.usage, answer.served_by) == ("<[key]>", {"[key]": 1.0}, "[key]")
    assert str(failed) == "no, [key]"
    assert "usage['[key]'] is of type NoneType" in str(odd)
