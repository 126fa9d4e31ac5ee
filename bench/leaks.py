"""The cost of `medvqa leaks`, and the coverage of its intervals.

python bench/leaks.py search      # 26,000 hashes against 100,000, alone and in eight orientations
python bench/leaks.py images      # seconds to hash an image, and to find it in the cache
python bench/leaks.py texts       # 26,000 questions against a million texts
python bench/leaks.py coverage    # how often 95 % intervals of a difference hold the true one, and exclude 0 wrongly
python bench/leaks.py like DIR    # distances between the pictures of a folder and their copies
"""

import io
import itertools
import sys
import tempfile
from pathlib import Path

import harness
import numpy as np
import PIL.Image
import PIL.ImageEnhance

from medvqa import likeness
from medvqa.items import Image
from medvqa.likeness import near, remembered
from medvqa.likeness.pictures import decoded
from medvqa.statistics import UnitTable, clopper_pearson, part_difference


def search() -> None:
    random = np.random.default_rng(0)
    # As in sets of one kind of scan, most bits are alike: the last words of other images differ in 20 bits of 64.
    common = random.integers(0, 2**64, (1, 4), dtype=np.uint64)

    def hashes(count: int) -> np.ndarray:
        flips = np.packbits(random.random((count, 256)) < 0.31, axis=1).view(np.uint64)
        return common ^ flips

    train = hashes(100_000)
    for times in (1, 8):
        asked = hashes(26_000 * times)
        asked[:2000] = train[:2000]
        pairs, took, cpu = harness.timed(lambda asked=asked: near.within(asked, train, likeness.NEAR))
        print(f"{len(asked):,} x {len(train):,}: {len(pairs.one):,} pairs in {took:.1f} s, {cpu:.1f} s of CPU")


def images() -> None:
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size, count in ((512, 200), (2048, 20)):
            paths = []
            for number in range(count):
                small = random.integers(0, 255, (16, 16, 3), dtype=np.uint8)
                picture = PIL.Image.fromarray(small).resize((size, size), PIL.Image.Resampling.BICUBIC)
                path = folder / f"{size}-{number}.jpg"
                picture.save(path, quality=90)
                paths.append(Image(path.name, str(path)))
            for which in ("hashed", "from the cache"):
                _, took, _ = harness.timed(lambda paths=paths: remembered.fingerprints(paths, folder))
                print(f"{size} x {size} JPEG, {which}: {1000 * took / count:.1f} ms an image")


def texts() -> None:
    random = np.random.default_rng(0)
    vocabulary = np.array([f"word{n}" for n in range(3000)])
    weights = 1 / np.arange(1, 3001)
    weights /= weights.sum()

    def sentences(count: int) -> list[str]:
        drawn = vocabulary[random.choice(3000, (count, 18), p=weights)]
        return [" ".join(row) for row in drawn.tolist()]

    questions, asked = sentences(26_000), sentences(100_000)
    index, took, _ = harness.timed(lambda: likeness.QuestionIndex(questions))
    print(f"{len(index):,} questions indexed in {took:.1f} s")
    found, once, _ = harness.timed(lambda: sum(bool(index.matches(text)) for text in asked))
    _, again, _ = harness.timed(lambda: [index.matches(text) for text in asked])
    print(f"100,000 texts of 18 words: {once:.1f} s, {found} found; repeated: {again:.2f} s")


def coverage(times: int = 1000) -> None:
    """Coverage, and how often a model without any effect is "better" or "worse" on the leaked questions."""
    random = np.random.default_rng(0)
    print(
        "In brackets: Clopper and Pearson's interval of 95 % of the simulated share; better and worse: without effect"
    )
    print("groups items share clean leaked  covers             better             worse              no interval")
    for groups, size in ((60, 1), (60, 3), (300, 1), (300, 3), (1500, 1)):
        for share in (0.03, 0.1, 0.3):
            for clean, overlap in ((0.8, 0.8), (0.9, 0.9), (0.95, 0.95), (0.98, 0.98), (0.6, 0.6), (0.5, 0.9)):
                held = better = worse = without = 0
                for _ in range(times):
                    low, high, truth = leaked(random, groups, size, share, (clean, overlap))
                    if low is None or high is None:
                        without += 1
                        continue
                    held += low <= truth <= high
                    better += high < 0
                    worse += low > 0
                shown = [shared(held, times - without)]
                shown += [shared(each, times) if clean == overlap else f"{'–':<18}" for each in (better, worse)]
                print(
                    f"{groups:6} {size:5} {share:5.2f} {clean:5.2f} {overlap:6.2f}  {' '.join(shown)} "
                    f"{without / times:6.2f}",
                    flush=True,
                )


def leaked(
    random: np.random.Generator, groups: int, size: int, share: float, rates: tuple[float, float]
) -> tuple[float | None, float | None, float]:
    """The bounds of clean minus all in one sample of groups, and its true value for the share that is leaked."""
    members = np.repeat(np.arange(groups), random.integers(1, 2 * size, groups))
    out = (random.random(groups) < share)[members]
    chance = np.where(out, rates[1], rates[0])
    together, alone = random.random(groups)[members] < chance, random.random(len(members)) < chance
    right = np.where((random.random(groups) < 0.4)[members], together, alone).astype(float)
    unit, place, ones = np.arange(len(members)), np.zeros(len(members), dtype=np.intp), np.ones(len(members))
    table = UnitTable(right, ones, unit, members, place)
    numbers = part_difference(table, UnitTable(right * ~out, ones * ~out, unit, members, place), binary=True)
    return numbers.low, numbers.high, float(out.mean()) * (rates[0] - rates[1])


def shared(count: int, times: int) -> str:
    """A simulated share with the interval of Clopper and Pearson, in percent; a dash for few runs."""
    if times < 200:
        return f"{'–':<18}"
    low, high = clopper_pearson(count, times, 0.975)
    return f"{100 * count / times:5.1f} ({100 * float(low):4.1f}-{100 * float(high):5.1f})"


def like(folder: Path) -> None:
    def saved(picture: PIL.Image.Image, quality: int) -> PIL.Image.Image:
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality)
        return PIL.Image.open(buffer).convert("RGB")

    def cropped(picture: PIL.Image.Image, share: float) -> PIL.Image.Image:
        width, height = picture.size
        left, top = int(width * share), int(height * share)
        return picture.crop((left, top, width - left, height - top))

    copies = {
        "JPEG, quality 90": lambda picture: saved(picture, 90),
        "JPEG, quality 50": lambda picture: saved(picture, 50),
        "half the size": lambda picture: picture.resize((max(picture.width // 2, 1), max(picture.height // 2, 1))),
        "224 x 224": lambda picture: picture.resize((224, 224)),
        "20 % brighter": lambda picture: PIL.ImageEnhance.Brightness(picture).enhance(1.2),
        "cropped by 2 %": lambda picture: cropped(picture, 0.02),
        "cropped by 5 %": lambda picture: cropped(picture, 0.05),
    }

    def bits(one: str, other: str) -> int:
        return (int(one, 16) ^ int(other, 16)).bit_count()

    def look(picture: PIL.Image.Image) -> str:
        buffer = io.BytesIO()
        picture.save(buffer, "BMP")
        return (likeness.fingerprint(buffer.getvalue()).looks or ("",))[0]

    files = likeness.TrainingSet.listed(folder, str(folder))
    trained = likeness.read(files)
    kept = [(image, each.looks[0]) for image, each in zip(trained.images, trained.prints, strict=True) if each.looks]
    packed = np.frombuffer(bytes.fromhex("".join(look for _, look in kept)), dtype=">u8").astype(np.uint64)
    pairs = near.within(packed.reshape(-1, 4), packed.reshape(-1, 4), 48)
    distances = pairs.bits[pairs.one < pairs.other]
    edges = (0, 1, 9, 17, 25, 33, 41, 49)
    counts = [int(((distances >= low) & (distances < high)).sum()) for low, high in itertools.pairwise(edges)]
    print(f"{len(kept):,} pictures; pairs at 0, 1-8, 9-16, 17-24, 25-32, 33-40, 41-48 bits: {counts}")
    chosen = [kept[place] for place in np.random.default_rng(0).permutation(len(kept))[:150].tolist()]
    for name, change in copies.items():
        apart = [bits(own, look(change(decoded(image.read())))) for image, own in chosen]
        within = np.mean(np.array(apart) <= likeness.NEAR)
        print(f"{name:18} median {np.median(apart):3.0f}, most {max(apart):3}; within {likeness.NEAR}: {within:.1%}")


PARTS = {"search": search, "images": images, "texts": texts, "coverage": coverage}

if __name__ == "__main__":
    match sys.argv[1:]:
        case [part] if part in PARTS:
            PARTS[part]()
        case ["like", folder]:
            like(Path(folder))
        case _:
            sys.exit(__doc__)
