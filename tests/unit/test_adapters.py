"""Adapters are read within limits and without torch: what is no plain LoRA is refused in one line."""

import json
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.backends import adapters
from medvqa.items import UsageError
from support.laws import examples

Q = "base_model.model.model.language_model.layers.0.self_attn.q_proj"
V = "base_model.model.model.vision_tower.layers.0.self_attn.v_proj"
WEIGHTS = (f"{Q}.lora_A.weight", f"{Q}.lora_B.weight", f"{V}.lora_A.weight", f"{V}.lora_B.weight")
INSTEAD = (
    ". Merge it into its model once, in Python, by peft's merge_and_unload() and save_pretrained('merged'), and "
    "evaluate that folder"
)


def safetensors(names: Sequence[str]) -> bytes:
    header = {name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * k, 4 * k + 4]} for k, name in enumerate(names)}
    content = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return struct.pack("<Q", len(content)) + content + bytes(4 * len(names))


def adapter(folder: Path, weights: Sequence[str] = WEIGHTS, **config: Any) -> Path:
    folder.mkdir(exist_ok=True)
    content = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 4, **config}
    (folder / adapters.CONFIG).write_text(json.dumps(content))
    (folder / adapters.WEIGHTS).write_bytes(safetensors(weights))
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(UsageError) as raised:
        adapters.read(folder)
    said = str(raised.value)
    assert "\n" not in said
    assert len(said) < 1000
    return said.removeprefix(f"{folder}")


def test_an_adapter_is_read(tmp_path: Path) -> None:
    read = adapters.read(
        adapter(
            tmp_path,
            revision="v2",
            rank_pattern={"q_proj": 16},
            use_dora=False,
            target_modules=["q_proj", "v_proj"],
            corda_config=None,
            runtime_config={"ephemeral_gpu_offload": False},
            a_key_of_tomorrow=[1, 2],
        )
    )
    assert (read.config.base_model_name_or_path, read.config.revision) == ("org/base", "v2")
    assert (read.config.r, read.config.max_rank) == (4, 16)
    assert read.weights == tuple(sorted(WEIGHTS))
    assert read.modules() == {
        "model.language_model.layers.0.self_attn.q_proj": f"{Q}.lora_A.weight",
        "model.vision_tower.layers.0.self_attn.v_proj": f"{V}.lora_A.weight",
    }
    before = read.digests()
    assert before.keys() == {adapters.CONFIG, adapters.WEIGHTS}
    (tmp_path / adapters.WEIGHTS).write_bytes(safetensors(WEIGHTS)[:-1] + b"\1")
    after = adapters.read(tmp_path).digests()
    assert (before[adapters.CONFIG], before[adapters.WEIGHTS] != after[adapters.WEIGHTS]) == (
        after[adapters.CONFIG],
        True,
    )


def test_a_folder_is_known_by_its_config(tmp_path: Path) -> None:
    assert not adapters.is_adapter(tmp_path)
    assert adapters.is_adapter(adapter(tmp_path))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3', and only LORA is applied"),
        ({"peft_type": "PROMPT_TUNING"}, "peft_type is 'PROMPT_TUNING', and only LORA is applied"),
        (
            {"modules_to_save": ["lm_head"]},
            "modules_to_save holds 'lm_head': whole modules of the base were trained, which are not applied",
        ),
        ({"bias": "all"}, "bias is 'all': biases of the base were trained, which are not applied"),
        (
            {"init_lora_weights": "pissa_niter_4"},
            "init_lora_weights is 'pissa_niter_4', which changes the base's own weights; save it by peft as plain LoRA",
        ),
        *(
            ({key: value}, f"{key} is set, which is no part of plain LoRA, and only that is applied")
            for key, value in {
                "megatron_config": {"x": 1},
                "layer_replication": [[0, 1]],
                "trainable_token_indices": [1],
                "alora_invocation_tokens": [1],
                "use_qalora": True,
            }.items()
        ),
    ],
)
def test_what_is_no_plain_lora_is_refused_in_a_sentence(tmp_path: Path, config: dict[str, Any], problem: str) -> None:
    assert refused(adapter(tmp_path, **config)) == f"/{adapters.CONFIG}: {problem}{INSTEAD}"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[]", "no adapter's config"),
        (b"{", "not JSON: "),
        (b"{}", "Object missing required field `peft_type`"),
        (b'{"peft_type": "LORA", "r": 0}', "Expected `int` >= 1"),
        (b'{"peft_type": "LORA", "r": "8"}', "Expected `int`, got `str`"),
        (b'{"peft_type": "LORA", "r": NaN}', ""),
        (b'{"peft_type": "LORA", "peft_type": "IA3"}', "the key 'peft_type' occurs twice"),
        (b'{"peft_type": "LORA", "target_modules": {"a": 1}}', "Expected `str | array | null`"),
        (b'{"peft_type": "LORA", "base_model_name_or_path": "' + b"x" * 5000 + b'"}', "Expected `str` of length"),
        (b"[" * 99_999, "not JSON: "),
        (b"\xff", "not UTF-8"),
        (b" " * 2**20 + b"{}", "larger than 1 MiB"),
        (b'{"peft_type": "\\u001b[31m\\n' + b"x" * 4000 + b'"}', r"peft_type is '\x1b[31m\nxxx"),
    ],
)
def test_a_config_is_read_as_hostile(tmp_path: Path, content: bytes, problem: str) -> None:
    (adapter(tmp_path) / adapters.CONFIG).write_bytes(content)
    said = refused(tmp_path)
    assert said.startswith(f"/{adapters.CONFIG}")
    assert problem in said


KEYS = st.sampled_from(adapters.AdapterConfig.__struct_fields__)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=2)
)


@examples(200)
@given(config=st.dictionaries(KEYS, VALUES))
def test_any_config_is_read_or_refused(config: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / adapters.CONFIG
    path.write_text(json.dumps(config))
    try:
        read = adapters.read_config(path)
    except UsageError as error:
        assert str(error).startswith(str(path))
    else:
        assert (read.peft_type.upper(), read.modules_to_save or None) == ("LORA", None)


def test_weights_must_be_safetensors_of_lora(tmp_path: Path) -> None:
    path = adapter(tmp_path) / adapters.WEIGHTS
    path.write_bytes(safetensors([]))
    assert refused(tmp_path) == f"/{adapters.WEIGHTS}: no weights"
    path.write_bytes(safetensors([*WEIGHTS, "base_model.model.lm_head.weight"]))
    assert refused(tmp_path) == (
        f"/{adapters.WEIGHTS}: 'base_model.model.lm_head.weight' is no weight of LoRA, but replaces one of the base; "
        f"such weights are not applied{INSTEAD}"
    )
    path.write_bytes(b"\xff" * 8 + b"{}")
    assert refused(tmp_path).startswith(f"/{adapters.WEIGHTS}: no safetensors file: a header of ")
    path.unlink()
    assert refused(tmp_path) == ": an adapter without weights; adapter_model.safetensors is expected"
    os.mkfifo(path)
    assert refused(tmp_path) == ": an adapter without weights; adapter_model.safetensors is expected"
    (tmp_path / "adapter_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    assert refused(tmp_path) == (
        ": no adapter_model.safetensors, and adapter_model.bin is a pickle, which can run code when it is loaded. "
        "Where you trust it, load it once in Python by peft, and save it by save_pretrained(FOLDER)"
    )


def test_a_pipe_is_no_config(tmp_path: Path) -> None:
    (adapter(tmp_path) / adapters.CONFIG).unlink()
    os.mkfifo(tmp_path / adapters.CONFIG)
    assert not adapters.is_adapter(tmp_path)
    assert refused(tmp_path).startswith(f"/{adapters.CONFIG}: cannot be read: ")


def test_weights_whose_modules_a_model_lacks_are_named(tmp_path: Path) -> None:
    read = adapters.read(adapter(tmp_path))
    there = list(read.modules())
    assert adapters.not_applied(read, [*there, "more"]) == []
    assert adapters.not_applied(read, [there[0]]) == sorted(WEIGHTS[2:])
    adapters.check_applied(read, [], "vllm")
    with pytest.raises(UsageError) as raised:
        adapters.check_applied(read, adapters.not_applied(read, [there[0]]), "vllm 1.0", ". Merge it")
    assert str(raised.value) == (
        f"vllm 1.0: 2 of 4 weights of the adapter {tmp_path} fit no module of its base, such as "
        f"'{V}.lora_A.weight': another model would be evaluated. Merge it"
    )
