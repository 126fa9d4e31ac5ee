"""A verdict on stored answers: whether they are of the model that answers now."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from medvqa.backend import Backend
from medvqa.backends.openai import OpenAI, OpenAIOptions
from medvqa.items import Answer, AnswerError, Item, Query, Result, Score
from medvqa.records import identities, run_folder, run_record
from medvqa.records.join import RunPart, join
from medvqa.records.run_record import RecordedIdentity
from medvqa.session.confirming import ASKED_AGAIN, Confirming
from support import runs
from support.servers import Reply, Request, Server, completion
from support.sessions import others
from support.ward import TEST, WARD, folder, medvqa, record, run, text, verdict

SPREAD = [pytest.param((), id="serial"), pytest.param(("-n2",), id="n2", marks=pytest.mark.slow)]


@dataclass
class Served:
    """A server whose model a test exchanges: `shift` makes it wrong, `name` is what it says that answers."""

    repository: pytest.Pytester
    server: Server
    shift: int = 0
    name: str = "tiny-2026"
    status: int = 200

    def answer(self, number: int, request: Request) -> Reply:
        question = re.search(r"Question (\d+)\?", json.dumps(request.body))
        assert question
        said = "ABC"[(int(question[1]) + self.shift) % 3]
        return Reply({**completion(said), "model": self.name}, self.status)

    def config(self, options: str = "", url: str | None = None) -> None:
        models = self.repository.path / "models"
        models.mkdir(exist_ok=True)
        (models / "served.toml").write_text(
            'backend = "openai"\nargument = "tiny"\n'
            f'[options]\nbase_url = "{url or self.server.remote_url}"\nretries = 0\n{options}\n'
        )

    def run(self, name: str, *arguments: str) -> pytest.RunResult:
        typed = ("--model=served", "--benchmark=ward", "--allow-upload", f"--run={name}", *arguments)
        return run(self.repository, *typed, *others(self.repository.path, name))

    def gate(self, name: str, *arguments: str) -> pytest.RunResult:
        return self.run(name, "--baseline=reports/main", *arguments)

    def told(self, name: str) -> Mapping[str, Any]:
        """What the last session of a run found about its stored answers."""
        identity: Mapping[str, Any] = record(self.repository, name)["sessions"][-1]["identity"]
        return identity

    @property
    def asked(self) -> int:
        return len(self.server.requests)


@pytest.fixture
def served(outside: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """The ward, sixty answers of a server to it, and the run that asked for them."""
    monkeypatch.setenv("MEDVQA_KEY", "EMPTY")
    pytester.makeconftest(WARD)
    pytester.makepyfile(test_ward=TEST)
    pytester.makefile(".ini", pytest="[pytest]\n")
    made: list[Served] = []
    with Server(lambda number, request: made[0].answer(number, request)) as server:
        made.append(Served(pytester, server))
        made[0].config()
        yield made[0]


@pytest.fixture
def stored(served: Served) -> Served:
    assert served.run("main").ret == 0
    assert served.asked == 60
    return served


# --- asked again --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD)
def test_answers_of_the_same_weights_pass_once_some_were_asked_again(stored: Served, spread: tuple[str, ...]) -> None:
    done = stored.gate("new", *spread)
    assert done.ret == 0, text(done)
    assert verdict(stored.repository, "new") == "PASS"
    assert stored.asked == 60 + ASKED_AGAIN
    same = {"asked_again": ASKED_AGAIN, "same": ASKED_AGAIN}
    assert stored.told("new") == {"reused": 60, "how": "questions that were asked again and scored the same", **same}
    assert "60 stored answers were used; their model is known by questions that were asked again" in text(done)
    summary = (folder(stored.repository, "new") / "summary.md").read_text()
    assert "20 of 20 scored the same" in summary
    assert record(stored.repository, "new")["usage"] == {"input": 20_000, "output": 200}, "they are paid for"


@pytest.mark.parametrize("spread", SPREAD)
def test_answers_of_other_weights_give_no_verdict(stored: Served, spread: tuple[str, ...]) -> None:
    stored.shift = 1
    done = stored.gate("new", *spread)
    assert done.ret == 1, text(done)
    assert verdict(stored.repository, "new") is None
    assert stored.told("new")["same"] == 0
    assert "blocked: 60 stored answers were used, and it is not known that they are of the model" in text(done)
    assert "Ask all anew in another run: --fresh --run=NAME" in text(done)
    assert medvqa(stored.repository, "gate", str(folder(stored.repository, "new"))) == 1
    assert stored.gate("anew", "--fresh").ret == 10


def test_what_was_asked_again_is_not_stored(stored: Served) -> None:
    stored.shift = 1
    stored.gate("new")
    results = run_folder.read(folder(stored.repository, "new")).results
    assert {result.score.outcome for result in results} == {"correct"}
    stored.shift = 0
    assert stored.gate("again").ret == 0


def test_a_server_that_says_another_name_gives_no_verdict(stored: Served) -> None:
    stored.name = "tiny-2027"
    assert stored.gate("new").ret == 1
    assert stored.told("new")["problem"] == "the server says that tiny-2027 answers, and tiny-2026 did"


def test_a_server_that_is_gone_gives_no_verdict(stored: Served) -> None:
    stored.status = 500
    assert stored.gate("new").ret == 1
    assert stored.told("new")["problem"].startswith("a question that was asked again has no answer: http://0.0.0.0")


def test_a_part_that_was_stored_is_asked_again(served: Served) -> None:
    served.run("part", "--limit=10")
    served.run("main", "--fresh")
    asked = served.asked
    assert served.gate("new").ret == 0
    # The fresh answers of `main` are stored too.
    assert served.asked == asked + ASKED_AGAIN
    served.config("system = 'Answer.'")
    served.run("few", "--limit=10")
    asked = served.asked
    assert served.gate("more").ret == 0
    assert served.asked == asked + 50 + 10
    assert served.told("more")["reused"] == served.told("more")["same"] == 10


# --- known otherwise, or not at all -------------------------------------------------------------------------


def test_a_declared_revision_needs_no_questions(served: Served) -> None:
    served.config('revision = "v1"')
    served.run("main")
    asked = served.asked
    assert served.gate("new").ret == 0
    assert served.asked == asked
    assert served.told("new") == {"reused": 60, "how": "revision v1, as its config declares"}
    served.config('revision = "v2"')
    served.shift = 1
    assert served.gate("other").ret == 10
    assert served.asked == asked + 60, "another revision has answers of its own"


def test_a_local_server_with_a_declared_revision_shares_its_answers() -> None:
    def local(**options: Any) -> OpenAI:
        return OpenAI("tiny", OpenAIOptions(base_url="http://127.0.0.1:1/v1", **options))

    assert local().fingerprint() is None
    assert local().identified() is None
    assert local(revision="v1").fingerprint() not in (None, local(revision="v2").fingerprint())


def test_answers_that_are_drawn_give_no_verdict(served: Served) -> None:
    served.config("temperature = 0.7")
    served.run("main")
    asked = served.asked
    done = served.gate("new")
    assert done.ret == 1
    assert served.asked == asked
    assert "its answers are drawn (its temperature is not 0)" in text(done)
    assert served.gate("fresh", "--fresh").ret == 0, "asked in this run"


def test_a_run_that_was_not_gated_asks_nothing_again_and_gets_no_verdict_later(
    stored: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.run("new")
    assert stored.asked == 60
    arguments = [str(folder(stored.repository, "new")), f"--baseline={folder(stored.repository, 'main')}"]
    capsys.readouterr()
    assert medvqa(stored.repository, "gate", *arguments) == 1
    assert "nothing was gated, so that none of them was asked again" in capsys.readouterr().out
    # The run goes on by the same command with a gate: now some are asked again.
    assert stored.gate("new").ret == 0
    assert medvqa(stored.repository, "gate", *arguments) == 0


def test_a_run_of_an_earlier_version_gets_no_verdict_on_stored_answers_of_a_server(
    stored: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.gate("new")
    path = folder(stored.repository, "new") / "run.json"
    about = json.loads(path.read_text())
    del about["sessions"][-1]["identity"]
    path.write_text(json.dumps(about))
    capsys.readouterr()
    assert medvqa(stored.repository, "gate", str(path.parent)) == 1
    assert "the run is of an earlier version, which did not look behind the name" in capsys.readouterr().out


def test_a_local_server_that_was_started_again_with_other_weights_gives_no_verdict(served: Served) -> None:
    served.config(url=served.server.url)
    served.run("main")
    served.run("new", "--limit=20")
    served.shift = 1
    done = served.gate("new")
    assert done.ret == 1, text(done)
    assert served.told("new")["reused"] == 20


def test_a_session_that_ends_early_asks_nothing_again(served: Served) -> None:
    served.run("main")
    served.config("system = 'Answer.'")
    served.run("part", "-k", "q0 or q1")
    asked = served.asked
    served.config("system = 'Answer.'\nprice_input = 1.0\nprice_output = 1.0")
    done = served.gate("new", "--max-cost=0.001")
    assert done.ret == 2, text(done)
    assert asked < served.asked <= asked + 40
    assert served.told("new")["reused"] == 20
    assert served.told("new")["problem"].endswith("before any of them was asked again")
    assert verdict(served.repository, "new") is None


# --- backends of one's own ----------------------------------------------------------------------------------


STRANGER = """
import os
from medvqa import Answer, Backend

class Own(Backend):
    sends_to = None

    def generate(self, prompts):
        with open("asked", "a") as file:
            file.write("x" * len(prompts))
        return [Answer("ABC"[(int(p.item[1:]) + (p.item in os.environ.get("WRONG", ""))) % 3]) for p in prompts]
"""


@pytest.fixture
def own(served: Served) -> pytest.Pytester:
    served.repository.makeconftest(WARD + STRANGER)
    return served.repository


def ask(own: pytest.Pytester, name: str, *arguments: str) -> pytest.RunResult:
    return run(own, "--model=own", "--benchmark=ward", f"--run={name}", *arguments)


@pytest.mark.parametrize(("wrong", "code"), [("", 0), (" ".join(f"q{n:02}" for n in range(60)), 1)])
def test_a_model_without_a_fingerprint_is_asked_again_where_its_run_goes_on(
    own: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, wrong: str, code: int
) -> None:
    ask(own, "main")
    ask(own, "new")
    calls = (own.path / "asked").stat().st_size
    monkeypatch.setenv("WRONG", wrong)
    done = ask(own, "new", "--baseline=reports/main")
    assert done.ret == code, text(done)
    assert (own.path / "asked").stat().st_size == calls + ASKED_AGAIN


def test_a_session_that_uses_no_earlier_answer_does_not_vouch_for_them(
    own: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first model was right; what another one answers to the rest must not pass as its run."""
    gate = ("--baseline=reports/main", "--margin=40")
    ask(own, "main")
    ask(own, "new", "-k", "not q5")
    with monkeypatch.context() as other:
        other.setenv("WRONG", "q50 q51")
        done = ask(own, "new", *gate, "-k", "q5")
    assert done.ret == 1, text(done)
    assert "50 stored answers were used" in text(done)
    assert "a later session asked 10 others, and none of these again; repeat the run's command" in text(done)
    assert ask(own, "new", *gate).ret == 0, "some of all were asked again"


def test_a_fingerprint_vouches_for_stored_answers(own: pytest.Pytester) -> None:
    run(own, "--model=scripted", "--benchmark=ward", "--run=main")
    assert (
        run(own, "--model=scripted", "--benchmark=ward", "--run=new", "--answers=main", "--baseline=reports/main").ret
        == 0
    )
    assert record(own, "new")["sessions"][-1]["identity"] == {"reused": 60, "how": "its fingerprint"}


class Inner(Backend):
    name = "inner"
    sends_to = None

    def fingerprint(self) -> str | None:
        return self.argument or None

    def generate(self, prompts: Any) -> Any:
        return [Answer("A") for _ in prompts]


class Shy(Inner):
    name = "shy"

    def identified(self) -> str | None:
        return None


class Wrapper(Backend):
    name = "wrapper"
    wraps = True
    sends_to = None

    def fingerprint(self) -> str | None:
        return self.inner.fingerprint()

    def generate(self, prompts: Any) -> Any:
        return self.inner.generate(prompts)


def test_what_a_backend_says_of_its_identity() -> None:
    assert Inner("1").identified() == "its fingerprint"
    assert Inner().identified() is None
    assert Wrapper("inner:1", inner=Inner("1")).identified() == "its fingerprint"
    assert Wrapper("inner", inner=Inner()).identified() is None
    assert Wrapper("shy:1", inner=Shy("1")).identified() is None


# --- shares of processes, sessions and merged runs ------------------------------------------------------------


def stored_result(n: int) -> tuple[Query, Result]:
    item = Item(f"q{n}", "ward", "single_choice", "?", {"A": "a"}, ("A",))
    return Query(item, "mc"), Result("", item, "", Answer("A"), Score(1.0, "correct"))


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("known", [500, 40])
def test_the_same_number_is_asked_again_however_a_run_is_spread(workers: int, known: int) -> None:
    """`known` of 500 answers are stored, on all workers alike."""
    every = [stored_result(n) for n in range(500)]
    asked: list[str] = []

    def ask(queries: Sequence[Query]) -> list[tuple[Answer | AnswerError, Result]]:
        asked.extend(query.item.id for query in queries)
        return [(Answer("A"), every[0][1]) for _ in queries]

    for worker in range(workers):
        confirming = Confirming()
        confirming.choose(query.key for query, _ in every)
        for n, (query, result) in enumerate(every):
            if n % workers == worker:
                confirming.note(query, result, reused=n < known)
        told = confirming.confirm(Inner(), ask, None)
        assert told["same"] == told["asked_again"] > 0
    assert len(asked) == len(set(asked))
    if known == 500:
        alone = Confirming()
        alone.choose(query.key for query, _ in every)
        for query, result in reversed(every):
            alone.note(query, result, reused=True)
        before = set(asked)
        asked.clear()
        alone.confirm(Inner(), ask, None)
        assert len(asked) == ASKED_AGAIN
        assert set(asked) <= before
        assert len(before) < ASKED_AGAIN + workers
    else:
        assert len(asked) >= min(known, ASKED_AGAIN) / 2


PROBLEM = {"reused": 30, "problem": "questions that were asked again scored otherwise", "asked_again": 20, "same": 3}
KNOWN = {"reused": 30, "how": "questions that were asked again and scored the same", "asked_again": 20, "same": 20}


def test_a_process_that_died_leaves_its_stored_answers_unknown() -> None:
    known = RecordedIdentity(reused=10, how="digests of its weights")
    problem = run_record.part_of(RecordedIdentity, PROBLEM)
    assert identities.joined([known, known], 20).as_json() == {"reused": 20, "how": "digests of its weights"}
    assert "a process ended before" in str(identities.joined([known], 20).problem)
    assert identities.joined([known, problem], 40).same == 3


@pytest.mark.parametrize(
    ("sessions", "problems", "notes"),
    [
        ([{"asked": 60}], 0, 0),
        ([{"reused": 60, "identity": {"reused": 60, "how": "digests of its weights"}}], 0, 0),
        ([{"asked": 30}, {"asked": 30, "reused": 30, "identity": KNOWN}], 0, 1),
        ([{"asked": 30, "reused": 30, "identity": PROBLEM}], 1, 0),
        ([{"asked": 30, "reused": 30, "identity": PROBLEM}, {"reused": 60, "identity": KNOWN}], 0, 1),
        ([{"asked": 30, "reused": 30, "identity": PROBLEM}, {"reused": 10, "identity": KNOWN}], 1, 1),
        ([{"asked": 30, "reused": 30, "identity": PROBLEM}, {"asked": 60}], 0, 0),
        ([{"asked": 30}, {"asked": 30}], 1, 0),
        ([{"asked": 60}, {"asked": 10}], 1, 0),
        ([{"asked": 50}, {"asked": 10}, {"reused": 60, "identity": KNOWN}], 0, 1),
    ],
)
def test_a_session_that_knows_all_makes_up_for_those_before(
    sessions: list[dict[str, Any]], problems: int, notes: int
) -> None:
    found = identities.of_run(runs.record(sessions=sessions), 60)
    assert tuple(map(len, found)) == (problems, notes)


def test_sessions_of_a_model_with_a_fingerprint_are_of_one_model() -> None:
    run = runs.record({"sessions": [{"asked": 30}, {"asked": 30}], "model": {"fingerprint": "f"}})
    assert identities.of_run(run, 60) == ([], [])
    assert len(identities.of_run(runs.record(run, config={"backend": "openai"}), 60)[0]) == 1


def test_a_merged_run_has_the_problems_of_its_parts() -> None:
    parts = [
        RunPart(
            f"s{n}",
            runs.record({"name": f"s{n}", "finished": "now", "sessions": [{"reused": 30, "identity": told}]}),
            (),
        )
        for n, told in enumerate((KNOWN, PROBLEM))
    ]
    about = join(parts, "all").about
    problems, notes = identities.of_run(about, 60)
    assert (len(problems), len(notes)) == (1, 1)
    assert problems[0].startswith("30 stored answers were used, and it is not known that they are of the model")
    assert identities.of_run(join([RunPart("all", about, ())], "more").about, 60)[0] == problems
