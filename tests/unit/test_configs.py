from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import decode
from medvqa.backend import Backend
from medvqa.backends import pytest_medvqa_backends
from medvqa.configs import ModelConfig, available, make, path_name, resolve, token_budget
from medvqa.items import Answer, Prompt, TokenLimits, UsageError

BACKENDS = {kind.name: kind for kind in pytest_medvqa_backends()}
SHIPPED = Path(__file__).parents[2] / "models"


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text, "utf-8")
    return path


def error(spec: str, *folders: Path) -> str:
    with pytest.raises(UsageError) as raised:
        resolve(spec, folders=folders, backends=BACKENDS)
    return str(raised.value)


def test_a_name_is_a_config(tmp_path: Path) -> None:
    write(tmp_path, "gpt-4.1", 'backend = "echo"\nargument = "B: 2"\ndescription = "two"')
    config = resolve("gpt-4.1", folders=[tmp_path], backends=BACKENDS)
    assert config == ModelConfig("gpt-4.1", "echo", "B: 2", "two")


def test_a_config_may_name_techniques(tmp_path: Path) -> None:
    write(tmp_path, "x", 'backend = "random"\ntechniques = ["ps", "mc"]')
    assert resolve("x", folders=[tmp_path], backends=BACKENDS).techniques == ("ps", "mc")
    write(tmp_path, "y", 'backend = "random"\ntechniques = "ps"')
    assert re.search(r"y\.toml, line 2: .*techniques", error("y", tmp_path))


def test_the_first_folder_wins(tmp_path: Path) -> None:
    mine, shipped = tmp_path / "mine", tmp_path / "shipped"
    write(mine, "x", 'backend = "random"')
    write(shipped, "x", 'backend = "majority"')
    write(shipped, "y", 'backend = "majority"')
    folders = [tmp_path / "absent", mine, shipped]
    assert resolve("x", folders=folders, backends=BACKENDS).backend == "random"
    assert resolve("y", folders=folders, backends=BACKENDS).backend == "majority"
    assert [(config.name, config.backend) for config in available(folders)] == [("x", "random"), ("y", "majority")]


def test_a_backend_needs_no_config(tmp_path: Path) -> None:
    assert resolve("random", folders=[], backends=BACKENDS) == ModelConfig("random", "random")
    assert resolve("random:7", folders=[], backends=BACKENDS) == ModelConfig("random:7", "random", "7")
    assert resolve("echo:a:b", folders=[], backends=BACKENDS) == ModelConfig("echo:a:b", "echo", "a:b")


def test_a_config_hides_a_backend_of_its_name(tmp_path: Path) -> None:
    write(tmp_path, "random", 'backend = "random"\nargument = "3"')
    assert resolve("random", folders=[tmp_path], backends=BACKENDS).argument == "3"
    assert resolve("random:7", folders=[tmp_path], backends=BACKENDS).argument == "7"


def test_unknown_name_says_what_exists(tmp_path: Path) -> None:
    for name in ("qwen-vl", "gpt-4o"):
        write(tmp_path, name, 'backend = "echo"')
    assert error("qwen", tmp_path) == (
        "no model 'qwen'; there are: gpt-4o, qwen-vl, echo, hf, human, majority, openai, random, ray, replay, serve, "
        "vllm. Did you mean 'qwen-vl'? A backend takes an argument: --model=BACKEND:ARGUMENT, such as --model=echo:A"
    )
    assert error("zzz").startswith("no model 'zzz'; there are: echo, hf, ")
    assert "Did you mean 'random'?" in error("randm")


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("ckpt", "hf:ckpt"),
        ("./lora", "hf:./lora"),
        ("shards", "hf:shards"),
        ("shards/model-1.safetensors", "hf:shards"),
        ("said.xlsx", "replay:said.xlsx"),
        ("reports/run", "replay:reports/run/results.jsonl"),
        ("models/mine.toml", "mine"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "hf:Qwen/Qwen2.5-VL-7B-Instruct"),
    ],
)
def test_a_path_or_repository_without_its_backend_is_suggested_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, meant: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("ckpt/config.json", "lora/adapter_config.json", "shards/model-1.safetensors", "said.xlsx"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "reports" / "run").mkdir(parents=True)
    (tmp_path / "reports" / "run" / "results.jsonl").touch()
    write(tmp_path / "models", "mine", 'backend = "echo"')
    assert error(spec, tmp_path / "models").endswith(f". Did you mean '--model={meant}'?")


def test_an_address_is_told_where_it_belongs() -> None:
    assert "a config of models/ with its base_url" in error("http://localhost:8000/v1")


def test_a_path_that_leads_nowhere_says_so(tmp_path: Path) -> None:
    assert " There is no such file or folder, either." in error(f"{tmp_path}/ckpt")
    (tmp_path / "ckpt").mkdir()
    assert "no such file" not in error(f"{tmp_path}/ckpt")


def test_unknown_backend_says_what_exists(tmp_path: Path) -> None:
    assert error("ekho:A") == (
        "--model=ekho:A: no backend 'ekho'; there are: echo, hf, human, majority, openai, random, ray, replay, serve, "
        "vllm. Did you mean 'echo'?"
    )
    assert error(":A").startswith("--model=:A: no backend ''; there are: echo, ")
    path = write(tmp_path, "x", 'backend = "vlm"')
    assert error("x", tmp_path) == (
        f"{path}: no backend 'vlm'; there are: echo, hf, human, majority, openai, random, ray, replay, serve, "
        "vllm. Did you mean 'vllm'?"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'backend = "echo"\ndescripton = "x"',
            ", line 2: no key 'descripton'; there are: backend, argument, description, options, techniques, "
            "max_tokens, prompts, resources, server. Did you mean 'description'?",
        ),
        (
            'backend = "echo"\nname = "y"',
            ", line 2: no key 'name'; there are: backend, argument, description, options, techniques, ",
        ),
        ('backend = "echo"\nargument = 3', ", line 2: Expected `str`, got `int` - at `$.argument`"),
        ('argument = "A"', ": Object missing required field `backend`"),
        ('backend = "echo"\nargument = \n', ": not TOML: Invalid value (at line 2, column 12)"),
    ],
)
def test_a_bad_config_is_named_with_its_field(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, "x", text)
    assert error("x", tmp_path).startswith(f"{path}{message}")
    with pytest.raises(UsageError, match=re.escape(str(path))):
        available([tmp_path])


def test_a_config_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b'backend = "\xff"')
    assert error("x", tmp_path).startswith(f"{tmp_path / 'x.toml'} line 1: not UTF-8: invalid start byte")


@pytest.mark.parametrize("name", ["../secret", "sub/secret", "secret", "..", ".", "*", "/secret", "x.toml", "x\0"])
def test_a_name_does_not_leave_the_folder(tmp_path: Path, name: str) -> None:
    write(tmp_path, "secret", 'backend = "echo"')
    folder = tmp_path / "models"
    write(folder, "x", 'backend = "echo"')
    write(folder / "sub", "secret", 'backend = "echo"')
    assert error(name, folder).startswith(f"no model {decode.shown(name)}; there are: x, echo, ")
    assert error(str(tmp_path / "secret"), folder).startswith("no model ")


@given(st.text())
def test_any_spec_is_a_model_or_a_usage_error(spec: str) -> None:
    try:
        config = resolve(spec, folders=[SHIPPED], backends=BACKENDS)
    except UsageError:
        return
    assert config.name == spec
    assert config.backend in BACKENDS


def test_shipped_configs_build_and_answer() -> None:
    configs = available([SHIPPED])
    assert {"always-a", "majority", "random"} <= {config.name for config in configs}
    for config in configs:
        assert config.description
        found = resolve(config.name, folders=[SHIPPED], backends=BACKENDS)
        # The argument may have become the path of a folder beside the file.
        assert replace(found, argument=Path(found.argument).name) == replace(
            config, argument=Path(config.argument).name
        )
    always = make(resolve("always-a", folders=[SHIPPED], backends=BACKENDS), BACKENDS)
    assert always.generate([Prompt("?", options={"A": "x", "B": "y"})] * 2) == [Answer("A")] * 2


@dataclass(frozen=True)
class Settings:
    word: str = "red"
    times: int = 1


class Configured(Backend):
    sends_to = None
    Options = Settings
    options: Settings

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        return [Answer(self.argument + self.options.word * self.options.times) for _ in prompts]


def test_a_backend_with_options(tmp_path: Path) -> None:
    backends = {**BACKENDS, "configured": Configured}

    def said(text: str) -> str:
        write(tmp_path, "x", f'backend = "configured"\nargument = "a "\n{text}')
        config = resolve("x", folders=[tmp_path], backends=backends)
        return make(config, backends).generate([Prompt("?")])[0].text  # type: ignore[union-attr]

    assert said("") == "a red"
    assert said('[options]\nword = "on"\ntimes = 2') == "a onon"
    assert make(ModelConfig("x", "configured", "b "), backends).generate([Prompt("?")]) == [Answer("b red")]
    path = tmp_path / "x.toml"
    for text, message in (
        (
            "[options]\ntime = 2",
            f"{path}: backend 'configured': [options]: no key 'time'; there are: word, times. Did you",
        ),
        (
            '[options]\ntimes = "2"',
            f"{path}: backend 'configured': [options]: Expected `int`, got `str` - at `$.times`",
        ),
        ("options = 3", f"{path}, line 3: Expected `object`, got `int` - at `$.options`"),
    ):
        with pytest.raises(UsageError) as raised:
            said(text)
        assert str(raised.value).startswith(message)


def test_options_for_a_backend_without(tmp_path: Path) -> None:
    path = write(tmp_path, "x", 'backend = "echo"\nargument = "A"\n[options]\nword = "on"')
    assert error("x", tmp_path) == f"{path}: backend 'echo': [options]: no key 'word'; there are: none."


class Speechless(Backend):
    sends_to = None


class Fixed(Speechless):
    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        return [Answer(self.argument) for _ in prompts]


def test_a_backend_of_ones_own() -> None:
    assert make(ModelConfig("x", "fixed", "B"), {"fixed": Fixed}).generate([Prompt("?")]) == [Answer("B")]


def test_making_says_what_is_missing() -> None:
    backends = {"speechless": Speechless}
    with pytest.raises(UsageError) as raised:
        make(ModelConfig("x", "speechless"), backends)
    assert re.fullmatch(
        r"\S*test_configs\.py:\d+: class Speechless has no generate: write def generate\(self, prompts\), which "
        "returns one medvqa.Answer for each",
        str(raised.value),
    )
    with pytest.raises(UsageError, match="x: no backend 'vlm'; there are: echo, "):
        make(ModelConfig("x", "vlm"), BACKENDS)


def test_an_argument_is_a_path_where_its_backend_says_so_and_something_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reads(Fixed):
        argument_is_path = True

    (tmp_path / "a/tiny").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    backends: dict[str, type] = {"reads": Reads, "echo": Fixed}

    def name(backend: str, argument: str) -> str | None:
        return path_name(ModelConfig("m", backend, argument), backends[backend](argument))

    arguments = ("a/tiny", "a/tiny/", str(tmp_path / "a/tiny"), "a", "b/tiny", "", "\0/a", "<a>1</a>", "x/" * 9000)
    assert [name("reads", each) for each in arguments] == ["tiny", "tiny", "tiny", "a", *[None] * 5]
    assert {name("echo", each) for each in arguments} == {None}


@pytest.mark.parametrize(
    ("typed", "configured", "limits", "tokens"),
    [
        (None, {}, TokenLimits(32), 2048),
        (None, {}, TokenLimits(512, configured=True), 2048),
        # A reasoning model may write more, or all that its server allows.
        (None, {}, TokenLimits(4096, configured=True), 4096),
        (None, {}, TokenLimits(0, configured=True), 0),
        (None, {"cot": 900}, TokenLimits(4096, configured=True), 900),
        (None, {"cot": {"ff": 700}}, TokenLimits(32), 2048),
        (None, {"explain": 900}, TokenLimits(32), 2048),
        (50, {"cot": 900}, TokenLimits(4096, configured=True), 50),
        (0, {}, TokenLimits(32), 0),
    ],
)
def test_a_protocol_has_a_limit_of_its_own(typed, configured, limits, tokens) -> None:
    config = ModelConfig("x", "openai", max_tokens=configured)
    assert token_budget(typed, config, limits, "cot", Prompt("?", max_tokens=2048)) == tokens
