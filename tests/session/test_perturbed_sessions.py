"""`--perturb` of images: what a model sees, what is stored and reused, and which pictures the pages show."""

from hashlib import sha256
from pathlib import Path

import PIL.Image
import pytest

from medvqa import report
from medvqa.benchmarks import phantom as phantoms
from medvqa.cli import main
from medvqa.items import Item
from medvqa.protocols import perturbation
from medvqa.records import run_folder
from medvqa.records.run_record import read_run
from medvqa.report.bundle import method, pictures, verdict
from medvqa.report.bundle.page_blocks import NoticeBlock
from medvqa.view.images import Originals
from medvqa.view.run_index import RunIndexes
from medvqa.view.sources import Sources
from support.sessions import SPREAD_SLOWLY, run, text

SEEING = """
from hashlib import sha256
from pathlib import Path

from medvqa import Answer, Backend

class Seeing(Backend):
    name = title = "seeing"
    sends_to = None

    def fingerprint(self):
        return "seeing 1"

    def generate(self, prompts):
        seen = [" ".join(sha256(i.pil().tobytes()).hexdigest() for i in p.images) or "nothing" for p in prompts]
        with (Path(__file__).parent / "asked").open("a") as file:
            file.writelines(f"{prompt.item}\\n" for prompt in prompts)
        return list(map(Answer, seen))

def pytest_medvqa_backends():
    return [Seeing]
"""
TEST = """
import pytest

@pytest.mark.vqa("phantom-gmai-mmbench")
def test_it(item, evaluate):
    evaluate(item)
"""
NOISE = "--perturb=gaussian_noise:3"
ASKED = ("--model=seeing:x", "--benchmark=phantom-gmai-mmbench", "--limit=6")


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makeini("[pytest]\n")
    pytester.makeconftest(SEEING)
    pytester.makepyfile(test_questions=TEST)
    monkeypatch.chdir(pytester.path)
    return pytester


def stored(repository: pytest.Pytester, name: str) -> Path:
    return repository.path / "reports" / name


def said(repository: pytest.Pytester, name: str) -> dict[str, str]:
    """What the model saw of each question: digests of pixels."""
    results = run_folder.read(stored(repository, name)).results
    return {result.item.id: result.answer.text for result in results if result.answer is not None}


def digests(item: Item, perturb: str = "") -> str:
    """What a model sees of a question of the phantom."""
    shown = perturbation.altered(item.images, item, perturb)
    return " ".join(sha256(image.pil().tobytes()).hexdigest() for image in shown)


@pytest.fixture(scope="module")
def known() -> dict[str, Item]:
    (benchmark,) = (one for one in phantoms.BENCHMARKS if one.name == "phantom-gmai-mmbench")
    return {item.id: item for item in benchmark.items(Path())}


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_model_sees_changed_pixels_and_results_have_the_data_sets_images(
    repository: pytest.Pytester, known: dict[str, Item], spread: tuple[str, ...]
) -> None:
    for name, perturb in (("clean", ()), ("noise", (NOISE,))):
        result = run(repository, *ASKED, f"--run={name}", *perturb, *spread)
        assert result.ret == 0, text(result)
    clean, noise = said(repository, "clean"), said(repository, "noise")
    assert clean == {id: digests(known[id]) for id in clean}
    assert noise == {id: digests(known[id], "gaussian_noise:3") for id in clean}
    assert not set(clean.values()) & set(noise.values())
    images = [[one.item.images for one in run_folder.read(stored(repository, n)).results] for n in ("clean", "noise")]
    assert images[0] == images[1]
    assert (
        "medvqa: phantom-gmai-mmbench: Gaussian noise, level 3, parameters of chestmnist for 3 questions (MedMNIST-C); "
        "parameters of chestmnist for 1 question (MedMNIST-C, by medvqa, as no tag modality names a set: "
        "--perturb=SET/gaussian_noise does); parameters of organamnist for 2 questions (MedMNIST-C)\n"
    ) in text(result)
    record = read_run(stored(repository, "noise"))
    assert record.protocol.perturb == "gaussian_noise:3"
    assert record.benchmarks["phantom-gmai-mmbench"].signature["perturb"] == "gaussian_noise:3"
    assert "phantom-gmai-mmbench (Gaussian noise, level 3)" in text(result)


def test_no_stored_answer_of_other_pixels_is_reused(repository: pytest.Pytester) -> None:
    assert run(repository, *ASKED, "--run=clean").ret == 0
    for name, perturb, number in (
        ("third", NOISE, 12),
        ("fourth", "--perturb=gaussian_noise:4", 18),
        ("again", NOISE, 18),
        ("typed", "--perturb=dermamnist/gaussian_noise:3", 24),
    ):
        assert run(repository, *ASKED, f"--run={name}", perturb, "--answers=clean", "--answers=third").ret == 0
        assert len((repository.path / "asked").read_text().splitlines()) == number, name


def test_a_run_goes_on_with_its_own_change_alone(repository: pytest.Pytester) -> None:
    assert run(repository, *ASKED, "--run=one", NOISE).ret == 0
    result = run(repository, *ASKED, "--run=one", "--perturb=gaussian_noise:4")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "perturb" in text(result)
    assert run(repository, *ASKED, "--run=one", NOISE).ret == 0
    assert len((repository.path / "asked").read_text().splitlines()) == 6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--perturb=mask_region", "--ablate=blank"), "with --ablate=blank: the model would see nothing of the change"),
        ((NOISE, "--ablate=blank"), "with --ablate=blank: the model would see nothing of the change"),
        ((NOISE, "--ablate=text-only"), "with --ablate=text-only: the model would see nothing of the change"),
        (
            ("--perturb=noise",),
            "--perturb=noise: no such change. Did you mean 'shot_noise'? Of images: gaussian_noise, ",
        ),
        (("--perturb=bubble:0",), "levels are 1 to 5; type --perturb=bubble:3"),
    ],
)
def test_what_cannot_be_changed_is_refused(repository: pytest.Pytester, arguments: tuple[str, ...], told: str) -> None:
    result = run(repository, *ASKED, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert told in text(result)


def test_questions_without_images_are_not_asked(
    repository: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    PIL.Image.new("RGB", (40, 40), "red").save(repository.path / "a.png")
    (repository.path / "ward.csv").write_text("id,question,A,B,answer,image\n1,What?,x,y,A,\n2,What?,x,y,B,a.png\n")
    (repository.path / "ward.toml").write_text('file = "ward.csv"\n')
    asked = ["run", "--model=random", "--benchmark=ward.toml", NOISE]
    assert main([*asked, "--select=[1]", "--run=none"]) != 0
    assert main([*asked, "--run=some"]) == 0
    told = capsys.readouterr()
    assert "for 1 question (MedMNIST-C, by medvqa, as no tag" in told.out + told.err
    assert "selected 1 of 2, by --perturb=gaussian_noise:3" in told.out
    (repository.path / "ward.csv").write_text("id,question,A,B,answer,image\n1,What?,x,y,A,\n")
    assert main([*asked, "--run=bare"]) == 4
    assert "it changes no question of ward. It needs an image" in capsys.readouterr().err


def test_the_page_shows_what_the_model_saw(repository: pytest.Pytester, known: dict[str, Item]) -> None:
    assert run(repository, *ASKED, "--run=noise", NOISE).ret == 0
    assert main(["report", "reports/noise", "--images=folder"]) == 0
    folder = stored(repository, "noise")
    drawn = {PIL.Image.open(path).convert("RGB").tobytes() for path in (folder / "images").iterdir()}
    asked = said(repository, "noise")
    seen = [image for id in asked for image in perturbation.altered(known[id].images, known[id], "gaussian_noise:3")]
    assert drawn == {image.pil().tobytes() for image in seen}
    built = report.build(folder, {benchmark.name: benchmark for benchmark in phantoms.BENCHMARKS})
    notices = [block.text for block in verdict.verdict_section(built, "").blocks if isinstance(block, NoticeBlock)]
    assert (
        "The model got changed images: Gaussian noise, level 3. Pictures on this page are as the model saw them."
    ) in notices
    facts = [fact for block in method.method_section(built, []).blocks for fact in getattr(block, "facts", ())]
    told = {fact.name: fact.value for fact in facts}
    assert told["Changed images"].startswith("Gaussian noise, level 3, parameters of chestmnist for 3 questions (")


def test_the_server_shows_what_the_model_saw(
    repository: pytest.Pytester, known: dict[str, Item], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert run(repository, *ASKED, "--run=noise", NOISE).ret == 0
    folder = stored(repository, "noise")
    results, record = run_folder.read(folder).results, read_run(folder)
    shown = pictures.served((result, record) for result in results).shown
    heads = [head for row in shown.values() for head in row]
    assert all(head.shown.startswith("Gaussian noise, level 3 of ") for head in heads)
    originals = Originals(Sources(None, noconftest=True), tmp_path_factory.mktemp("scratch"), RunIndexes())
    try:
        for result in results:
            (head,) = shown[result.item.benchmark, result.item.id]
            name = head.source.removeprefix("images/").removesuffix(".png")
            sent = originals.image(folder, name)
            file = tmp_path_factory.mktemp("sent") / "picture"
            file.write_bytes(sent.content)
            item = known[result.item.id]
            (image,) = perturbation.altered(item.images, item, "gaussian_noise:3")
            with PIL.Image.open(file) as opened:
                assert opened.convert("RGB").tobytes() == image.pil().tobytes() != item.images[0].pil().tobytes()
            assert name != result.item.images[0].digest
    finally:
        originals.close()


def test_shuffled_images_are_changed_too(repository: pytest.Pytester, known: dict[str, Item]) -> None:
    for name, perturb in (("shuffled", ()), ("both", (NOISE,))):
        assert run(repository, *ASKED, f"--run={name}", "--ablate=shuffle", *perturb).ret == 0
    shuffled, both = said(repository, "shuffled"), said(repository, "both")
    assert shuffled.keys() == both.keys()
    assert not set(shuffled.values()) & set(both.values())
    assert not set(both.values()) & {digests(known[id], "gaussian_noise:3") for id in both}
