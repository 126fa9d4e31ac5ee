"""Changed pixels: equal to MedMNIST-C's own code, nested levels, sizes; which parameters a question gets."""

import io
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from medvqa.backends.openai.image_parts import DataURLs
from medvqa.backends.ray import parcels
from medvqa.items import Answer, Image, Item, Prompt, Query, Result, Score, Shot, UsageError
from medvqa.perturbing import LEVELS, Alteration, catalogue, medmnist_c, pixels
from medvqa.protocols import perturbation, prompts
from medvqa.protocols.protocol import Protocol, assembled
from medvqa.records import run_folder
from support.coloured import drawn
from support.laws import examples

KEPT = np.load(Path(__file__).parents[1] / "kept" / "medmnist_c.npz")
"""What MedMNIST-C's code makes of `drawn()`, by change, set and level (tests/kept/medmnist_c.py)."""
SEED = 7
TOLERANCES = {
    # The same random numbers are given to both. Largest difference in grey levels, and that of the mean.
    **dict.fromkeys(("gaussian_noise", "speckle_noise"), (1, 0.02)),
    # Other random numbers: mean and deviation alone.
    "shot_noise": (255, 0.5),
    "impulse_noise": (0, 0),
    # Another version of Pillow may hold another JPEG library.
    "jpeg_compression": (3, 0.1),
    **dict.fromkeys(("pixelate", "gaussian_blur", "black_corner", "bubble"), (0, 0.001)),
    **dict.fromkeys(("brightness_up", "brightness_down", "contrast_up", "contrast_down"), (0, 0.001)),
    **dict.fromkeys(("gamma_corr_up", "gamma_corr_down"), (0, 0.001)),
    # They drop what is behind the point of a value that single precision has a little above or below.
    **dict.fromkeys(("defocus_blur", "motion_blur", "zoom_blur", "saturate"), (1, 0.3)),
}
OURS = ("stain_deposit", "characters")
"""Published with assets of the package: ours look alike, and are not compared."""
PUBLISHED = sorted(key for key in KEPT.files if key.count("/") == 2)
CHANGES = [change for change in catalogue.changes().values() if change.source == "MedMNIST-C"]
NAMES = sorted(change.name for change in CHANGES)
SETS = sorted((change.name, of) for change in CHANGES for of in change.parameters)
PER_PIXEL = ("gaussian_noise", "speckle_noise", "impulse_noise", "shot_noise", "jpeg_compression")
"""Their grain is that of a pixel in a picture of any size."""

Pixels = NDArray[np.uint8]


def changed(name: str, of: str, level: int, picture: Pixels, seed: int = SEED) -> Pixels:
    alteration = Alteration(name, level, of, seed)
    return np.asarray(catalogue.applied(PIL.Image.fromarray(picture), alteration))


def grey(picture: Pixels) -> Pixels:
    return np.asarray(PIL.Image.fromarray(picture).convert("L").convert("RGB"))


def distance(one: Pixels, other: Pixels) -> float:
    return float(np.sqrt(np.mean((one.astype(float) - other) ** 2)))


@pytest.mark.parametrize("key", PUBLISHED)
def test_pixels_are_those_of_the_published_code(key: str) -> None:
    name, of, level = key.split("/")
    picture = grey(drawn()) if of == "grey" else drawn()
    made = changed(name, "chestmnist" if of == "grey" else of, int(level), picture)
    if of in catalogue.GREY:
        # A coloured picture stays so; the record has it before the package stores it as grey.
        assert not np.array_equal(made, grey(made))
    places, (mean, deviation) = KEPT["places"], KEPT[f"{key}/moments"]
    most, of_mean = TOLERANCES[name]
    assert np.abs(made[places[:, 0], places[:, 1]].astype(int) - KEPT[key]).max() <= most
    assert made.mean() == pytest.approx(mean, abs=of_mean)
    assert made.std() == pytest.approx(deviation, abs=max(of_mean, 0.1))


@pytest.mark.parametrize("photons", [5, 60, 300])
def test_shot_noise_is_of_poisson(photons: int) -> None:
    """Grey values of a large even area against the distribution that defines them."""
    for grey_value in (0, 3, 100, 255):
        area = np.full((500, 500, 3), grey_value, np.uint8)
        made = medmnist_c.shot_noise(area, photons, np.random.default_rng(1)).ravel()
        counts = np.arange(4 * photons + 40)
        expected = np.bincount(
            np.clip(counts / photons * 255 + 0.01, 0, 255).astype(int),
            stats.poisson.pmf(counts, grey_value * photons / 255),
            256,
        )
        assert np.bincount(made, minlength=256) / made.size == pytest.approx(expected, abs=0.004)


def test_every_published_change_is_compared_but_for_two() -> None:
    assert {key.partition("/")[0] for key in PUBLISHED} == set(TOLERANCES) == set(NAMES) - set(OURS)
    assert len(NAMES) == 21


def test_all_sets_have_five_levels_and_one_of_the_general_sets_has_each_change() -> None:
    sets = {of for _, of in SETS}
    assert all(len(change.parameters[of]) == LEVELS for change in CHANGES for of in change.parameters)
    assert (len(sets), len(SETS)) == (12, 131)
    assert set(perturbation.GENERAL) < sets
    assert {of for of, _ in perturbation.MODALITIES.values()} - {""} < sets
    assert all(set(perturbation.GENERAL) & set(change.parameters) for change in CHANGES)
    words = [word for _, words in perturbation.MODALITIES.values() for word in words]
    assert len(words) == len(set(words))


def test_a_grey_picture_stays_grey_in_grey_sets_alone() -> None:
    picture = grey(drawn())
    made = changed("gaussian_noise", "chestmnist", 3, picture)
    assert np.array_equal(made, grey(made))
    made = changed("gaussian_noise", "dermamnist", 3, picture)
    assert not np.array_equal(made, grey(made))


@examples(300)
@given(
    st.sampled_from(SETS),
    st.integers(1, LEVELS),
    st.tuples(st.integers(1, 70), st.integers(1, 70)),
    st.integers(0, 2**64 - 1),
)
def test_size_and_type_stay_and_a_seed_gives_the_same_pixels(
    of: tuple[str, str], level: int, size: tuple[int, int], seed: int
) -> None:
    picture = drawn(*size)
    before = picture.copy()
    made = changed(*of, level, picture, seed)
    assert (made.shape, made.dtype) == (picture.shape, np.uint8)
    assert np.array_equal(made, changed(*of, level, picture, seed))
    assert np.array_equal(picture, before), "the picture itself stays"


RANDOM = ("gaussian_noise", "speckle_noise", "impulse_noise", "shot_noise", "motion_blur", *OURS, "bubble")


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_other_pixels_where_numbers_are_drawn(name: str) -> None:
    of = next(of for one, of in SETS if one == name)
    picture = drawn()
    one, other = changed(name, of, 5, picture), changed(name, of, 5, picture, SEED + 1)
    assert np.array_equal(one, other) is (name not in RANDOM)


@pytest.mark.parametrize(("name", "of"), SETS)
def test_a_higher_level_changes_more(name: str, of: str) -> None:
    picture = drawn(stripes=False)
    found = [distance(changed(name, of, level, picture), picture) for level in range(1, LEVELS + 1)]
    if name == "black_corner":
        # As published: levels 4 and 5 are exchanged.
        found[3:] = reversed(found[3:])
    assert found[0] > 0
    # The blots, bubbles and letters of a level may lie elsewhere on the picture than those of the one below.
    steps = [b - a for a, b in itertools.pairwise(found)]
    assert min(steps) > (-0.25 * found[0] if name in (*OURS, "bubble") else -1e-9), found


def test_the_points_of_a_level_are_points_of_the_next() -> None:
    picture = np.full((60, 60, 3), 100, np.uint8)
    hit = [changed("impulse_noise", "dermamnist", level, picture) != picture for level in range(1, LEVELS + 1)]
    assert all((after | before == after).all() for before, after in itertools.pairwise(hit))
    blots = [changed("stain_deposit", "pathmnist", level, picture) == 0 for level in range(1, 5)]
    assert all((after | before == after).all() for before, after in itertools.pairwise(blots))


@pytest.mark.parametrize("times", [0.5, 2, 4.5])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in PER_PIXEL])
def test_a_larger_picture_is_changed_as_a_smaller_one(name: str, times: float) -> None:
    """Parameters in pixels grow with the picture: shrunk to one size, the results differ by less than half a change."""
    of, side = next(of for one, of in SETS if one == name), round(224 * times)
    level = 5 if name == "pixelate" else 3

    def shrunk(picture: Pixels) -> Pixels:
        return np.asarray(PIL.Image.fromarray(picture).resize((112, 112), PIL.Image.Resampling.BOX))

    clean, large = drawn(stripes=False), drawn(side, side, stripes=False)
    made = shrunk(changed(name, of, level, clean))
    change, apart = distance(made, shrunk(clean)), distance(shrunk(large), shrunk(clean))
    assert distance(shrunk(changed(name, of, level, large)), made) < 0.5 * change + apart


def test_large_pictures_are_changed_in_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = drawn()
    whole = changed("saturate", "pathmnist", 3, picture), changed("gaussian_noise", "dermamnist", 3, picture)
    monkeypatch.setattr(pixels, "BAND", 10_000)
    assert np.array_equal(changed("saturate", "pathmnist", 3, picture), whole[0])
    assert np.array_equal(changed("gaussian_noise", "dermamnist", 3, picture), whole[1])


# --- images -------------------------------------------------------------------------------------------------


@pytest.fixture
def image(tmp_path: Path) -> Image:
    path = tmp_path / "a.png"
    PIL.Image.fromarray(drawn(64, 80)).save(path)
    return Image("a.png", str(path)).pinned()


NOISE = Alteration("gaussian_noise", 3, "chestmnist", 5)


def test_an_image_shows_its_change_and_says_so(image: Image) -> None:
    changed_image = replace(image, alteration=NOISE)
    picture, said = changed_image.pictured()
    assert said == "Gaussian noise, level 3 of chestmnist"
    assert image.pictured()[1] == ""
    expected = catalogue.applied(image.pil(), NOISE).tobytes()
    assert picture.tobytes() == changed_image.pil().tobytes() == expected != image.pil().tobytes()
    with PIL.Image.open(io.BytesIO(changed_image.read())) as opened:
        assert (opened.format, opened.tobytes()) == ("PNG", expected)
    assert (changed_image.unaltered(), image.unaltered() != b"") == (b"", True)
    assert changed_image.sha256() == image.digest, "the file is the same"


def test_the_key_of_a_changed_image_is_its_own_and_that_of_a_clean_one_stays(image: Image) -> None:
    others = [replace(NOISE, **field) for field in ({"level": 4}, {"of": "dermamnist"}, {"seed": 6}, {"name": "x"})]
    keys = [image.key, *(replace(image, alteration=one).key for one in (NOISE, *others))]
    assert image.key == image.digest
    assert len(set(keys)) == len(keys)
    clean = Image(image.name, image.path)
    assert replace(clean, alteration=NOISE).pinned() == replace(image, alteration=NOISE)


def test_a_blank_image_is_never_changed(image: Image) -> None:
    blank = replace(image, alteration=NOISE).blanked()
    assert blank == image.blanked()
    assert np.ptp(np.asarray(replace(blank, alteration=NOISE).pil())) == 0


def test_no_cache_takes_one_for_the_other(image: Image) -> None:
    urls = DataURLs(None, 2**20)
    assert len({urls.of(one) for one in (image, replace(image, alteration=NOISE), image)}) == 2


def test_a_change_travels_and_is_made_once(image: Image) -> None:
    sent = parcels.sent(replace(image, alteration=NOISE))
    assert (sent.path, sent.key) == ("", replace(image, alteration=NOISE).key)
    assert sent.pil().tobytes() == replace(image, alteration=NOISE).pil().tobytes()


def test_a_strangers_result_names_no_change(image: Image) -> None:
    item = Item("1", "x", "single_choice", "?", images=(image,))
    line = run_folder.encode(Result("r", item, "", Answer("A"), Score(1.0, "correct"), "mc"))
    strange = line.replace(b'"window":null', b'"window":null,"alteration":{"name":"gaussian_noise","level":5}')
    assert strange != line
    assert run_folder.decode(strange).item.images == (replace(image, path=""),)


# --- names and questions ------------------------------------------------------------------------------------


def question(id: str = "1", *modality: str, images: tuple[Image, ...] = (Image("a.png"), Image("b.png"))) -> Item:
    return Item(id, "ward", "single_choice", "?", images=images, tags={"modality": modality} if modality else {})


def test_a_name_is_read_with_level_and_set() -> None:
    read = [perturbation.parse(typed) for typed in ("shot_noise", "shot_noise:1", "organamnist/shot_noise:5")]
    assert [one.text for one in read] == ["shot_noise:3", "shot_noise:1", "organamnist/shot_noise:5"]
    assert [catalogue.words_of(one) for one in read] == [
        *("shot noise, level 3", "shot noise, level 1"),
        "shot noise, level 5 of organamnist",
    ]
    assert all(perturbation.of(one.text) == one for one in read)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("gausian_noise:3", "Did you mean 'gaussian_noise'?"),
        ("typo", "Did you mean 'typos'?"),
        ("bubble:6", "levels are 1 to 5; type --perturb=bubble:3"),
        ("bubble:", "levels are 1 to 5; type --perturb=bubble:3"),
        ("bubble:\u0663", "levels are 1 to 5"),
        ("bubble:1-5", 'medvqa sweep FILE.toml makes a run of each: write perturb = "bubble:1-5" under [grid]'),
        ("chestmnist/bubble", "'chestmnist' is no set of parameters of bubble; there are: pathmnist, bloodmnist"),
        ("ct/ct_metal:\x1b", "type --perturb=ct_metal"),
        ("/bubble", "'' is no set of parameters of bubble"),
        ("chestmnist/ct_metal:2", "no set of parameters of ct_metal; type --perturb=ct_metal"),
    ],
)
def test_an_unknown_name_level_or_set_is_refused_with_what_there_is(typed: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        perturbation.parse(typed)
    assert str(raised.value).startswith("--perturb=")
    assert told in str(raised.value)
    assert str(raised.value).isprintable()
    assert perturbation.of(typed) is None, "a stranger's run.json raises nothing"


@pytest.mark.parametrize(
    ("modality", "typed", "expected"),
    [
        (("ct",), "gaussian_noise", ("organamnist", False)),
        (("mri", "x_ray"), "gaussian_noise", ("chestmnist", False)),
        (("dermoscopy",), "motion_blur", ("dermamnist", False)),
        (("ct",), "motion_blur", ("dermamnist", True)),
        ((), "saturate", ("pathmnist", True)),
        (("mri",), "gaussian_noise", ("chestmnist", True)),
        (("computed_radiography",), "gaussian_noise", ("chestmnist", False)),
        (("fundus_photography",), "brightness_down", ("retinamnist", False)),
        (("ct",), "pneumoniamnist/gaussian_noise", ("pneumoniamnist", False)),
    ],
)
def test_a_modality_chooses_the_parameters(modality: tuple[str, ...], typed: str, expected: tuple[str, bool]) -> None:
    assert perturbation.set_of(question("1", *modality), perturbation.parse(typed)) == expected


def test_the_random_numbers_are_those_of_the_question_and_the_place() -> None:
    def seeds(item: Item, perturb: str = "gaussian_noise:3") -> list[int]:
        return [one.alteration.seed for one in perturbation.altered(item.images, item, perturb) if one.alteration]

    own = seeds(question())
    assert own == seeds(question(), "pathmnist/bubble:1")
    assert len({*own, *seeds(question("2")), *seeds(replace(question(), benchmark="other"))}) == 6
    assert perturbation.altered(question().images, question(), "typos:3") == question().images


def test_how_many_questions_got_which_parameters_is_told() -> None:
    asked = [question("1", "ct"), question("2", "ct"), question("3", "mri")]
    assert perturbation.parameters_used(asked, "gaussian_noise:3") == (
        "Gaussian noise, level 3, parameters of chestmnist for 1 question (MedMNIST-C, by medvqa, as no tag modality "
        "names a set: --perturb=SET/gaussian_noise does); "
        "parameters of organamnist for 2 questions (MedMNIST-C)"
    )
    assert perturbation.parameters_used(asked[:1], "flip") == (
        "left-right flip, for 1 question (by medvqa); answers about sides may change"
    )
    assert perturbation.in_words("flip") == "left-right flip"
    assert perturbation.parameters_used(asked, "") == perturbation.parameters_used(asked, "typos:3") == ""


def test_a_prompt_has_changed_images_and_clean_examples() -> None:
    shot = Shot("q", "a", (Image("s.png"),))
    protocol = Protocol(perturb="gaussian_noise:3", shots=1)

    def asks(item: Item, technique: str) -> Prompt:
        return Prompt(item.question, item.images)

    query = Query(question(), "mc")
    prompt = assembled(query, asks, protocol, shots=(shot,))
    assert [image.alteration is not None for image in prompt.images] == [True, True]
    assert prompt.shots == (shot,)
    clean = assembled(query, asks, Protocol(shots=1), shots=(shot,))
    assert clean.images == query.item.images
    assert prompts.digest(clean) != prompts.digest(prompt)
    swapped = assembled(query, asks, protocol, "shuffle", images=(Image("c.png"),), shots=(shot,))
    assert [(image.name, image.alteration) for image in swapped.images] == [("c.png", prompt.images[0].alteration)]


def test_a_protocol_tells_its_change() -> None:
    protocol = Protocol(perturb="gaussian_noise:3")
    assert protocol.label == "Gaussian noise, level 3"
    assert protocol.typed() == {"--perturb": "gaussian_noise:3"}
    assert protocol.signature() == {"perturb": "gaussian_noise:3"}
