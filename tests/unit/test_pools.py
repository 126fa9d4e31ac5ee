"""Pools of solved examples: a benchmark, a file, and Med-Flamingo's three in its owners' prompt."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import PIL.Image
import pytest

from medvqa.backends.hf.checkpoint_options import HFOptions
from medvqa.backends.hf.prompting import PromptWriter
from medvqa.items import Benchmark, Image, Item, MedVQAError, Prompt, Query, Technique, UsageError, Variant
from medvqa.session import checks, shot_checks, uploads
from medvqa.session.options import Options
from medvqa.session.plan import Plan
from medvqa.session.project import Project
from medvqa.session.registry import Registry
from medvqa.session.resolving import resolve

PHANTOM = "phantom-mediconfusion"
CHOICE, OTHER = "a two choice question", "a question"
HEAD = (
    "You are a helpful medical assistant. You are being provided with images, {} about each image and an answer. "
    "Follow the examples and answer the last question. "
)
"""prompts.mc.med_flamingo and others of the owners' configs/prompts/answering.json."""


def resolved(root: Path, *modules: ModuleType, selects: tuple[str, ...] = (), **typed: object) -> Plan:
    given = {"model": "random", "benchmark": [PHANTOM], "shots": 3, **typed}
    options = {name.replace("_", "-"): value for name, value in given.items()}
    return resolve(Project(root, root, Registry.of(modules), Options.of(options, root), selects=selects))


def refusal(root: Path, **typed: object) -> str:
    with pytest.raises(MedVQAError) as error:
        checks.check(resolved(root, **typed), answered=lambda config: False)
    return str(error.value)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder that holds pictures under the names of Med-Flamingo's."""
    folder = tmp_path / "data/mediconfusion/few_shot_prompts"
    folder.mkdir(parents=True)
    for number, name in enumerate(("PMC1064097_F2", "PMC1065025_F1", "PMC1087855_F3")):
        PIL.Image.new("RGB", (40, 40), (number, 0, 0)).save(folder / f"{name}.jpg")
    return tmp_path / "data"


def written(prompt: Prompt) -> str:
    """A prompt as text, for a model that reads raw prompts."""
    tokenizer = SimpleNamespace(all_special_ids=[], all_special_tokens=["<image>", "<|endofchunk|>"])
    processor = SimpleNamespace(tokenizer=tokenizer, image_token="<image>")
    rendered = PromptWriter(processor, HFOptions(raw="{system}{image}{text}")).write(prompt)
    assert len(rendered.images) == rendered.text.count("<image>")
    return rendered.text


LETTERS = (
    "{head}<image>Question: What radiological technique was used to confirm the diagnosis?\nA: CT Scan\n"
    "B: Mammography\nAnswer: B: Mammography<|endofchunk|><image>Question: What did the CT scan show?\n"
    "A: Cerebral edema\nB: Intracranial hemorrhage\nAnswer: A: Cerebral edema|endofchunk|><image>Question: What is the "
    "purpose of the asterisk shown in the figure?\nA: To indicate the formation of lobes around the contracting "
    "nucleus.\nB: To indicate the normal lentoid shape of hypocotyl nuclei.\nAnswer: B: To indicate the normal lentoid "
    "shape of hypocotyl nuclei.<|endofchunk|><image>Question: {question}\nA: {A}\nB: {B}\nAnswer:"
)
TEXTS = (
    "{head}<image>Question: What radiological technique was used to confirm the diagnosis? Answer: Mammography"
    "<|endofchunk|><image>Question: What did the CT scan show? Answer: Cerebral edema{slip}|endofchunk|><image>"
    "Question: What is the purpose of the asterisk shown in the figure? Answer: To indicate the normal lentoid shape "
    "of hypocotyl nuclei.<|endofchunk|><image>Question: {question} Answer:"
)


@pytest.mark.parametrize(
    ("technique", "text"),
    [
        ("mc", LETTERS.replace("{head}", HEAD.format(CHOICE))),
        ("gd", LETTERS.replace("{head}", HEAD.format(CHOICE))),
        ("ff", TEXTS.replace("{head}", HEAD.format(CHOICE)).replace("{slip}", "")),
        ("ps", TEXTS.replace("{head}", HEAD.format(OTHER)).replace("{slip}", "<")),
    ],
)
def test_med_flamingo_is_asked_by_its_owners_prompt_to_the_byte(data: Path, technique: Technique, text: str) -> None:
    plan = resolved(data.parent, shot_pool="med-flamingo", data=str(data))
    item = plan.items(PHANTOM)[0]
    prompt = plan.prompt(Query(item, technique))
    assert written(prompt) == text.format(question=item.question, **item.options)
    assert [Path(image.path).stem for shot in prompt.shots for image in shot.images] == [
        *("PMC1064097_F2", "PMC1065025_F1", "PMC1087855_F3")
    ]
    assert prompt.images == item.images
    assert prompt.template.startswith(f"med-flamingo/{technique}@")


def test_med_flamingo_s_limits_are_those_of_its_owners(data: Path) -> None:
    plan = resolved(data.parent, shot_pool="med-flamingo", data=str(data))
    item = plan.items(PHANTOM)[0]
    assert plan.asks(PHANTOM, "")(item, "mc").max_tokens == 32
    assert plan.asks(PHANTOM, "")(item, "ff").max_tokens == 10


def test_the_error_about_missing_images_says_where_to_get_them(tmp_path: Path) -> None:
    pytest.importorskip("torch")  # the model that ships looks at images
    said = refusal(tmp_path, shot_pool="med-flamingo", model="phantom-vlm", technique=["ps"])
    assert said.startswith(
        "--shots=3: 0 of 3 images of the pool med-flamingo are there, the first that is missing: "
        "mediconfusion/few_shot_prompts/PMC1064097_F2.jpg. Download the three pictures of data/few_shot_prompts in "
        "https://github.com/AIF4S/MediConfusion into DATA/mediconfusion/few_shot_prompts/ and add --data=DATA, or ask "
    )
    plan = resolved(tmp_path, shot_pool="med-flamingo", model="phantom-vlm", technique=["ps"], ablate="text-only")
    checks.check(plan, answered=lambda config: False)


SHOTS = [
    {"question": f"Question {n}?", "A": "a cyst", "B": "an abscess", "answer": "AB"[n % 2], "image": f"{n}.png"}
    for n in range(12)
]


def in_csv(folder: Path) -> Path:
    lines = [",".join(SHOTS[0]), *(",".join(shot.values()) for shot in SHOTS)]
    (folder / "pool.csv").write_text("\n".join(lines))
    return folder / "pool.csv"


def in_json(folder: Path) -> Path:
    (folder / "pool.json").write_text(json.dumps(SHOTS))
    return folder / "pool.json"


def in_toml(folder: Path, head: str = "", tail: str = "") -> Path:
    tables = ("\n".join(["[[shots]]", *(f"{name} = {json.dumps(v)}" for name, v in shot.items())]) for shot in SHOTS)
    (folder / "pool.toml").write_text("\n".join([head, *tables, tail]))
    return folder / "pool.toml"


@pytest.mark.parametrize("write", [in_csv, in_json, in_toml])
def test_a_file_holds_examples_in_their_order(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    (tmp_path / "inner").mkdir()
    plan = resolved(tmp_path, shots=11, shot_pool=f"inner/{write(tmp_path / 'inner').name}")
    for item in plan.items(PHANTOM)[:3]:
        chosen = plan.chooser(PHANTOM).choose(item, 11)
        assert [example.question for example in chosen] == [f"Question {n}?" for n in range(11)]
        assert [example.images[0].path for example in chosen] == [str(tmp_path / f"inner/{n}.png") for n in range(11)]
        assert [shot.answer for shot in plan.prompt(Query(item, "mc")).shots] == list("ABABABABABA")


def test_a_file_may_be_declared_public(tmp_path: Path) -> None:
    plan = resolved(tmp_path, shot_pool=str(in_toml(tmp_path, "public = true")))
    assert uploads.other_pool(plan) == plan.pool
    assert plan.pool is not None
    assert plan.pool.public
    shown = plan.prompt(Query(plan.items(PHANTOM)[0], "mc"))
    assert [image.name for shot in shown.shots for image in shot.images] == ["0.png", "1.png", "2.png"]


def test_names_of_a_private_file_s_images_do_not_reach_the_model(tmp_path: Path) -> None:
    plan = resolved(tmp_path, shot_pool=str(in_toml(tmp_path)))
    shown = plan.prompt(Query(plan.items(PHANTOM)[0], "mc"))
    assert {image.name for shot in shown.shots for image in shot.images} == {"image of a solved example"}


def test_the_signature_names_pool_digest_and_choice(tmp_path: Path) -> None:
    plan = resolved(tmp_path)
    assert (plan.protocol.pool, plan.signed_pool(PHANTOM)) == ("", {"pool": "leave-group-out by category"})
    same = resolved(tmp_path, shot_pool=PHANTOM)
    assert same.signed_pool(PHANTOM) == {"pool": "leave-group-out by category"}
    other = resolved(tmp_path, shot_pool="phantom-gmai-mmbench").signed_pool(PHANTOM)["pool"]
    assert other.startswith("phantom-gmai-mmbench@")
    assert other.endswith(" by category")
    file = resolved(tmp_path, shot_pool=str(in_toml(tmp_path)))
    before = file.signed_pool(PHANTOM)["pool"]
    assert file.protocol.pool == "pool.toml", "a path of this machine is not recorded"
    assert before.startswith("pool.toml@")
    assert before.endswith(" in order")
    form = '[forms.mc]\ntext = "{question}"'
    changes = ("", '\nends = ["!"]', '\nanswer = "{text}"')
    files = (str(in_toml(tmp_path, tail=form + change)) for change in changes)
    digests = {before, *(resolved(tmp_path, shot_pool=file).signed_pool(PHANTOM)["pool"] for file in files)}
    assert len(digests) == 4
    assert resolved(tmp_path, shots=None).signed_pool(PHANTOM) == {}


def test_the_order_of_a_file_s_examples_is_part_of_the_signature(tmp_path: Path) -> None:
    named = [{"id": f"q{n}", **shot} for n, shot in enumerate(SHOTS[:3])]
    signed = set()
    for file, shots in (("one", named), ("two", named[::-1])):
        (tmp_path / file).mkdir()
        (tmp_path / file / "pool.json").write_text(json.dumps(shots))
        plan = resolved(tmp_path, shots=2, shot_pool=f"{file}/pool.json")
        assert plan.chooser(PHANTOM).choose(plan.items(PHANTOM)[0], 1)[0].question == shots[0]["question"]
        signed.add(plan.signed_pool(PHANTOM)["pool"])
    assert len(signed) == 2


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            {"shot_pool": "med-flaming"},
            "--shot-pool=med-flaming: no such file, pool or benchmark. Did you mean 'med-flamingo'? A file ",
        ),
        (
            {"shot_pool": "gmai-mmbench-val"},
            "--shot-pool=gmai-mmbench-val: the benchmark is not there; name its folder",
        ),
        ({"shots": 0}, "--shots=0: a whole number from 1 on is expected; without --shots no examples are shown"),
        (
            {"shots": None, "shot_pool": "med-flamingo"},
            "--shot-pool=med-flamingo: no solved examples are asked for; add",
        ),
        (
            {"shots": 4, "shot_pool": "med-flamingo"},
            "--shots=4: the pool med-flamingo has fewer solved examples than that for 72 of 72 questions of "
            "phantom-mediconfusion (72 single_choice). An example has the question's kind, an answer key, and no ",
        ),
        ({"shots": 71}, "--shots=71: the pool phantom-mediconfusion has fewer solved examples than that for 72 of 72"),
        (
            {"shot_pool": "med-flamingo", "benchmark": ["phantom-gmai-mmbench"]},
            "--shots=3: the pool med-flamingo has fewer solved examples than that for 40 of 143 questions of "
            "phantom-gmai-mmbench (40 multiple_response).",
        ),
        (
            {"model": "replay:answers.jsonl"},
            "--shots=3: the answers of 'replay:answers.jsonl' were recorded, and do not",
        ),
    ],
)
def test_options_that_cannot_be_met_are_refused(tmp_path: Path, typed: dict[str, Any], message: str) -> None:
    assert refusal(tmp_path, **typed).startswith(message)


def test_shots_go_without_reasoning(tmp_path: Path) -> None:
    from medvqa.protocols.protocol import Protocol, check

    for asked in (Protocol(shots=1, reasoning="cot"), Protocol(shots=1, explain=True)):
        with pytest.raises(UsageError, match="the solved examples have answers without reasoning, and would teach"):
            check(asked)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("[forms.mc]\ntext = 'Which?'", "--shot-pool=pool.toml: [forms.mc]: text has no field {question}"),
        (
            "[forms.mc]\ntext = '{question}{x}'",
            "--shot-pool=pool.toml: [forms.mc]: text has the field {x}. Its fields are {",
        ),
        (
            "[forms.mc]\ntext = '{question}{'",
            "--shot-pool=pool.toml: [forms.mc]: text has a single {. Its fields are ",
        ),
        ("[forms.xx]\ntext = '{question}'", ": [forms]: no key 'xx'; there are: "),
        ("[forms.mc]\ntext = '{question}'\nend = 'x'", ": [forms.mc]: no key 'end'; there are: text, "),
        ("[forms.ps]\ntext = '{question}'", "--shot-pool=pool.toml: it has no prompt for technique 'mc', only for ps"),
        ("[[shots]]\nquestion = 'Which?'", "shot 13, column 'answer': no answer, which other rows have; write it"),
        (
            "[[shots]]\nquestion = 'Which?'\nanswer = 'A'\nimage = '../x.png'",
            "pool.toml shot 13, column 'image': '../x.png' leaves the folder",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, tail: str, message: str) -> None:
    in_toml(tmp_path, tail=tail)
    assert message in refusal(tmp_path, shot_pool="pool.toml")


def test_a_pool_s_own_prompt_replaces_no_named_one(tmp_path: Path) -> None:
    pool = str(in_toml(tmp_path, tail='[forms.mc]\ntext = "{question}"'))
    message = "--shot-pool=pool.toml has its own prompt, which replaces --prompt: leave one out"
    assert refusal(tmp_path, shot_pool=pool, prompt=["4-expert"]) == message


def test_a_private_pool_needs_consent_before_it_leaves_this_machine(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/far.toml").write_text(
        'backend = "openai"\nargument = "x"\n[options]\nbase_url = "http://far.example/v1"\n'
    )
    in_csv(tmp_path)
    for shot in SHOTS:
        PIL.Image.new("RGB", (9, 9)).save(tmp_path / shot["image"])
    said = refusal(tmp_path, model="far", shot_pool="pool.csv")
    assert said.startswith(
        "--model=far would send to http://far.example what is not declared public: 12 questions and "
    )
    assert "12 images of pool.csv. Add --allow-upload" in said
    assert uploads.notices(resolved(tmp_path, model="far", shot_pool="pool.csv")) == [
        "medvqa: up to 75 images of phantom-mediconfusion, the pool pool.csv will be sent to http://far.example"
    ]


def test_examples_are_asked_by_the_named_prompt_and_follow_its_order(tmp_path: Path) -> None:
    plan = resolved(tmp_path, prompt=["4-expert", "default"])
    item = plan.items(PHANTOM)[0]
    for variant in plan.variants(PHANTOM):
        prompt = plan.prompt(Query(item, "mc", 0, variant))
        template = plan.asks(PHANTOM, variant.prompt)
        chosen = plan.chooser(PHANTOM).choose(item, 3)
        assert [shot.text for shot in prompt.shots] == [template(example, "mc").text for example in chosen]
        assert ("expert radiologist" in prompt.shots[0].text) == (variant.prompt == "4-expert")


def test_examples_are_not_rotated(tmp_path: Path) -> None:
    plan = resolved(tmp_path, rotate="all")
    item = plan.items(PHANTOM)[0]
    first, second = (plan.prompt(Query(item, "mc", 0, Variant(rotation=shift))) for shift in (0, 1))
    assert first.text != second.text
    assert first.shots == second.shots


def ward(root: Path) -> ModuleType:
    """A conftest with five choice questions and a judgment, each about an image of its own; the last is missing."""
    made = ModuleType("conftest")
    made.__file__ = str(root / "conftest.py")
    images = [Image(f"{number}.png", str(root / f"{number}.png")) for number in range(6)]
    for image in images[:5]:
        PIL.Image.new("RGB", (9, 9)).save(image.path)
        Path(image.path).write_bytes(Path(image.path).read_bytes() + image.name.encode())
    options = {"A": "a cyst", "B": "an abscess"}
    items = [Item(f"q{n}", "", "single_choice", "Which?", options, ("A",), (images[n],)) for n in range(4)]
    items += [Item("q4", "", "judgment", "Is it?", {}, ("yes",), (images[4],))]
    items += [Item("q5", "", "single_choice", "Which?", options, ("A",), (images[5],))]
    made.pytest_medvqa_benchmarks = lambda: [Benchmark(name="ward", items=lambda data: items)]  # type: ignore[attr-defined]
    return made


def test_only_selected_questions_need_examples(tmp_path: Path) -> None:
    few = "--shots=3: the pool ward has fewer solved examples than that for 1 of 6 questions of ward (1 judgment)."
    module = ward(tmp_path)
    with pytest.raises(UsageError) as error:
        checks.check(resolved(tmp_path, module, benchmark=["ward"]), answered=lambda config: False)
    assert str(error.value).startswith(few)
    part = resolved(tmp_path, module, benchmark=["ward"], selects=("-k q",))
    checks.check(part, answered=lambda config: False)
    keys = [Query(item).key for item in part.items("ward")]
    shot_checks.check_selected(part, [key for key in keys if key.item != "q4"])
    with pytest.raises(
        UsageError, match=r"fewer solved examples than that for 1 of 6 questions of ward \(1 judgment\)"
    ):
        shot_checks.check_selected(part, keys)


def test_examples_need_their_images_even_if_a_part_is_selected(tmp_path: Path) -> None:
    pytest.importorskip("torch")  # the model that ships looks at images
    plan = resolved(tmp_path, ward(tmp_path), benchmark=["ward"], model="phantom-vlm", selects=("-k q0",), shots=1)
    with pytest.raises(UsageError) as error:
        checks.check(plan, answered=lambda config: False)
    assert str(error.value).startswith(
        "--shots=1: 5 of 6 images of the pool ward are there, the first that is missing: 5.png. Put them there, or ask "
    )


def test_a_file_cannot_take_the_name_of_a_benchmark_and_with_it_its_consent(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in (PHANTOM, "med-flamingo"):
        (tmp_path / "sub" / name).write_text("question,A,B,answer\nWho?,x,y,A\n")
        message = f"--shot-pool=sub/{name}: the file has the name of a pool or benchmark; rename it"
        assert refusal(tmp_path, shot_pool=f"sub/{name}") == message
