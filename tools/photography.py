"""Looks in colour: histopathology, blood smear, fundus photography, dermoscopy, and photographs of skin."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tools.canvas import (
    Canvas,
    Colour,
    Field,
    Finding,
    Look,
    Scene,
    around,
    grain,
    join,
    meet,
    new_seed,
    ring,
    spots,
)

EYES = ("oculus dexter", "oculus sinister")
PATTERNS = ("globules skin lesion", "streaks skin lesion", "pigment network skin lesion", "milia like cyst skin lesion")
BODY_REGIONS = ("face", "hand", "foot", "abdomen")
SHAPES = ("subcircular", "elongated strip-shaped", "annular", "cauliflower-like")
COLOURS: dict[str, Colour] = {
    "white": (252, 248, 244),
    "yellow": (226, 184, 24),
    "red": (190, 24, 44),
    "black": (30, 22, 24),
}
"""Lesion colours, each of another colour family of MedLesionVQA's rubric."""
SKIN: Colour = (224, 178, 150)


# Histopathology: lymphocytes among paler cells.


def histopathology(rng: Generator, count: int | None = None) -> Scene:
    """So many lymphocytes (1 to 8)."""
    count = int(rng.integers(1, 9)) if count is None else count
    cells = [Finding("lymphocyte", x, y, rng.uniform(0.045, 0.055)) for x, y in spots(rng, count, 0.06, 0.94)]
    return Scene("histopathology", tuple(cells), new_seed(rng))


def _tissue(c: Canvas, scene: Scene) -> None:
    c.fill((238, 188, 208), waves=14)
    for x, y, angle in c.rng.uniform(0, 1, (22, 3)).tolist():
        c.paint(c.ellipse(x, y, 0.09, 0.03, 2 * np.pi * angle), (226, 160, 190), edge=0.02)


def _lymphocyte(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, f.size, 0.9 * f.size), (74, 34, 120), edge=0.02)


# Microscopy: a blood smear.


def smear(rng: Generator) -> Scene:
    """Nine red blood cells, two white ones and three platelets."""
    names = ["red blood cell"] * 9 + ["white blood cell"] * 2 + ["platelet"] * 3
    sizes = {"red blood cell": 0.06, "white blood cell": 0.095, "platelet": 0.024}
    places = spots(rng, len(names), 0.06, 0.94)
    cells = [Finding(name, x, y, sizes[name]) for name, (x, y) in zip(names, places, strict=True)]
    return Scene("microscopy", tuple(cells), new_seed(rng))


def _glass(c: Canvas, scene: Scene) -> None:
    c.fill((246, 234, 226), waves=4)


def _red_cell(c: Canvas, f: Finding) -> Field:
    cell = c.paint(c.ellipse(f.x, f.y, f.size), (212, 108, 108))
    c.paint(c.ellipse(f.x, f.y, f.size / 2.6), (238, 186, 180), edge=0.04)
    return cell


def _white_cell(c: Canvas, f: Finding) -> Field:
    cell = c.paint(c.ellipse(f.x, f.y, f.size), (206, 190, 228))
    for x, y in around(f.x, f.y, 0.45 * f.size, 3, start=c.rng.uniform(0, 2 * np.pi)):
        c.paint(c.ellipse(x, y, 0.42 * f.size), (84, 40, 134))
    return cell


def _platelet(c: Canvas, f: Finding) -> Field:
    return c.paint(c.lumpy(f.x, f.y, f.size, 4), (150, 84, 170))


# Fundus photography: the optic disc lies towards the nose, so on the right of the image in a right eye.


def fundus(rng: Generator, eye: str | None = None, poor: bool = False) -> Scene:
    """One eye, "oculus dexter" or "oculus sinister", with a haemorrhage and hard exudates."""
    eye = eye or str(rng.choice(EYES))
    side = 1 if eye == "oculus dexter" else -1
    x, y = 0.5 + side * rng.uniform(0.2, 0.26), rng.uniform(0.46, 0.54)
    above = -1 if rng.random() < 0.5 else 1
    bleeding = Finding("retinal hemorrhages", 0.5 - side * rng.uniform(0.06, 0.2), 0.5 + above * 0.15, 0.055)
    exudates = Finding("retinal hard exudates", 0.5 - side * rng.uniform(0.06, 0.2), 0.5 - above * 0.13, 0.075)
    vessels, disc = Finding("retinal vessel", x, y, 0.4), Finding("optic disc", x, y, 0.075)
    return Scene("fundus photography", (vessels, disc, bleeding, exudates), new_seed(rng), variant=eye, poor=poor)


def _retina(c: Canvas, scene: Scene) -> None:
    c.fill((214, 104, 44), waves=10)
    disc = scene.findings[1]
    c.paint(c.ellipse(1 - disc.x, 0.5, 0.06), (150, 60, 26), edge=0.12)


def _retinal_vessels(c: Canvas, f: Finding) -> Field:
    inward = 1 if f.x < 0.5 else -1
    shapes = []
    for above in (-1, 1):
        for reach, bulge in ((0.62, 0.3), (-0.25, 0.22)):
            steps = np.linspace(0, 1, 7)
            xs = f.x + inward * reach * steps
            ys = f.y + above * bulge * np.sin(2.2 * steps)
            shapes.append(c.line(list(zip(xs.tolist(), ys.tolist(), strict=True)), 0.022))
    return c.paint(join(*shapes), (140, 30, 24))


def _optic_disc(c: Canvas, f: Finding) -> Field:
    disc = c.paint(c.ellipse(f.x, f.y, f.size, f.size * 1.1), (248, 206, 110), edge=0.02)
    c.paint(c.ellipse(f.x, f.y, f.size / 2), (255, 238, 186), edge=0.03)
    return disc


def _bleeding(c: Canvas, f: Finding) -> Field:
    return c.paint(c.lumpy(f.x, f.y, f.size, 3), (96, 8, 14), edge=0.015)


def _exudates(c: Canvas, f: Finding) -> Field:
    places = f.size * c.rng.uniform(-1, 1, (9, 2))
    dots = [c.ellipse(f.x + dx, f.y + dy, 0.016) for dx, dy in places.tolist()]
    return c.paint(join(*dots), (255, 236, 110))


def _pupil(c: Canvas) -> None:
    c.rgb += c.noise(3)[..., None]
    c.paint(-c.ellipse(0.5, 0.5, 0.48), (8, 6, 6))


# Dermoscopy: one pigmented lesion with a pattern.


def dermoscopy(rng: Generator, pattern: str | None = None) -> Scene:
    """A lesion with that pattern (of `PATTERNS`)."""
    x, y, size = rng.uniform(0.44, 0.56), rng.uniform(0.44, 0.56), rng.uniform(0.25, 0.3)
    return Scene("dermoscopy", (Finding(pattern or str(rng.choice(PATTERNS)), x, y, size),), new_seed(rng))


def _close_skin(c: Canvas, scene: Scene) -> None:
    c.fill(SKIN, waves=8)
    for x, dx in c.rng.uniform(0, 1, (4, 2)).tolist():
        c.paint(c.line([(x, -0.1), (dx, 1.1)], 0.008), (96, 66, 50))


def _pigmented(c: Canvas, f: Finding) -> Field:
    return c.paint(c.lumpy(f.x, f.y, f.size, 3), (170, 112, 76), edge=0.05)


def _globules(c: Canvas, f: Finding) -> Field:
    lesion = _pigmented(c, f)
    reach = f.size * 0.75
    for x, y in spots(c.rng, 14, -reach, reach, cells=5):
        c.paint(meet(c.ellipse(f.x + x, f.y + y, 0.024), lesion + 0.03), (80, 44, 28))
    return lesion


def _streaks(c: Canvas, f: Finding) -> Field:
    lesion = _pigmented(c, f)
    inner, outer = around(f.x, f.y, 0.62 * f.size, 15), around(f.x, f.y, 1.2 * f.size, 15)
    for start, end in zip(inner, outer, strict=True):
        c.paint(c.line([start, end], 0.02), (70, 38, 26))
    return lesion


def _network(c: Canvas, f: Finding) -> Field:
    lesion = _pigmented(c, f)
    mesh = [ring((along + 0.01) % 0.085 - 0.042, 0.02) for along in (c.x + c.y, c.x - c.y)]
    c.paint(meet(join(*mesh), lesion + 0.02), (92, 54, 34))
    return lesion


def _milia(c: Canvas, f: Finding) -> Field:
    lesion = _pigmented(c, f)
    for x, y in spots(c.rng, 7, -f.size * 0.7, f.size * 0.7):
        c.paint(meet(c.ellipse(f.x + x, f.y + y, 0.03), lesion + 0.03), (255, 250, 226), edge=0.015)
    return lesion


# Photographs of skin: lesions on a close-up, beside a ruler, or on a part of the body.


def skin(rng: Generator, *lesions: Finding, variant: str = "") -> Scene:
    """Those lesions on a close-up (""), above a "ruler", or on one of `BODY_REGIONS`; by default a few nevi."""
    if not lesions:
        lesions = tuple(lesion(rng, "nevus", at) for at in spots(rng, int(rng.integers(1, 5)), 0.1, 0.9))
    return Scene("skin", lesions, new_seed(rng), variant)


def lesion(rng: Generator, name: str, at: tuple[float, float]) -> Finding:
    """One lesion of that kind, a key of `LESION_SIZES`, in its usual size."""
    return Finding(name, *at, LESION_SIZES[name] * rng.uniform(0.9, 1.1))


LESION_SIZES = {"nevus": 0.07, "depigmentation": 0.12, "plaque": 0.17, "vesicle": 0.045, "wheal": 0.1, "crust": 0.08}
"""Radius of each kind of lesion, as a fraction of the image's side."""
RULER_CM = 1 / 7
"""A centimetre of the ruler, as a fraction of the image's side."""


def _body(c: Canvas, scene: Scene) -> None:
    if scene.variant in BODY_REGIONS:
        c.fill((104, 134, 150), waves=5)
        _REGIONS[scene.variant](c)
        return
    c.fill(SKIN, waves=8)
    if scene.variant == "ruler":
        c.paint(0.86 - c.y, (240, 240, 240))
        for tick in np.arange(0.5, 7) * RULER_CM:
            c.paint(c.line([(tick, 0.84), (tick, 0.93)], 0.018), (0, 0, 0))


def _face(c: Canvas) -> None:
    c.paint(c.ellipse(0.5, 0.42, 0.4, 0.42), (70, 46, 34))
    c.paint(
        join(c.ellipse(0.5, 0.52, 0.33, 0.42), c.ellipse(0.16, 0.5, 0.05, 0.09), c.ellipse(0.84, 0.5, 0.05, 0.09)), SKIN
    )
    for x in (0.36, 0.64):
        c.paint(c.ellipse(x, 0.42, 0.07, 0.03), (255, 255, 255))
        c.paint(c.ellipse(x, 0.42, 0.028), (40, 40, 60))
        c.paint(c.line([(x - 0.07, 0.35), (x + 0.07, 0.35)], 0.022), (70, 46, 34))
    c.paint(c.line([(0.5, 0.44), (0.46, 0.6), (0.52, 0.61)], 0.016), (176, 128, 104))
    c.paint(c.ellipse(0.5, 0.74, 0.1, 0.025), (196, 96, 96))


def _hand(c: Canvas) -> None:
    tips = ((0.28, 0.16), (0.43, 0.07), (0.58, 0.08), (0.72, 0.2))
    fingers = [c.line([(0.33 + 0.11 * number, 0.55), tip], 0.1) for number, tip in enumerate(tips)]
    thumb, wrist = c.line([(0.36, 0.72), (0.1, 0.44)], 0.11), c.line([(0.5, 0.75), (0.5, 1.1)], 0.3)
    c.paint(join(*fingers, thumb, wrist, c.ellipse(0.5, 0.68, 0.23, 0.2)), SKIN)


def _foot(c: Canvas) -> None:
    toes = ((0.31, 0.19, 0.085), (0.43, 0.15, 0.055), (0.53, 0.16, 0.05), (0.62, 0.19, 0.047), (0.7, 0.24, 0.043))
    sole = c.line([(0.5, 0.4), (0.52, 0.6), (0.48, 0.85)], 0.27)
    ball, heel = c.ellipse(0.5, 0.37, 0.25, 0.17), c.ellipse(0.48, 0.85, 0.15)
    c.paint(join(*(c.ellipse(*toe) for toe in toes), sole, ball, heel), SKIN)


def _belly(c: Canvas) -> None:
    waist = np.abs(c.x - 0.5) - 0.4 + 0.1 * np.cos(4 * (c.y - 0.45))
    c.paint(waist, SKIN)
    c.paint(c.line([(0.5, 0.0), (0.5, 0.5)], 0.012), (200, 150, 124), edge=0.02)
    c.paint(c.ellipse(0.5, 0.58, 0.028, 0.04), (130, 84, 64), edge=0.02)
    c.paint(0.93 - c.y, (60, 70, 110))


def _patch(c: Canvas, f: Finding) -> Field:
    if f.shape == "annular":
        shape = ring(c.ellipse(f.x, f.y, f.size), 0.4 * f.size)
    elif f.shape == "elongated strip-shaped":
        shape = c.ellipse(f.x, f.y, 1.3 * f.size, 0.3 * f.size, f.angle)
    elif f.shape == "cauliflower-like":
        shape = join(
            *(c.ellipse(x, y, 0.45 * f.size) for x, y in around(f.x, f.y, 0.65 * f.size, 7)),
            c.ellipse(f.x, f.y, f.size / 2),
        )
    else:
        shape = c.ellipse(f.x, f.y, f.size)
    return c.paint(shape, COLOURS[f.colour], edge=0.0 if f.border == "well-defined" else 1.5 * f.size)


def _nevus(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, f.size, 0.85 * f.size), (58, 34, 26), edge=0.02)


def _depigmentation(c: Canvas, f: Finding) -> Field:
    return c.paint(c.lumpy(f.x, f.y, f.size, 4), (253, 247, 242))


def _plaque(c: Canvas, f: Finding) -> Field:
    plaque = c.paint(c.ellipse(f.x, f.y, f.size), (226, 150, 130))
    c.paint(ring(plaque + 0.025, 0.05), (190, 52, 52), edge=0.02)
    for x, y in around(f.x, f.y, f.size - 0.025, 11):
        c.paint(c.ellipse(x, y, 0.012), (250, 236, 226))
    return plaque


def _vesicle(c: Canvas, f: Finding) -> Field:
    c.paint(c.ellipse(f.x, f.y, 1.3 * f.size), (222, 104, 100), edge=0.05)
    vesicle = c.paint(c.ellipse(f.x, f.y, f.size), (244, 226, 190))
    c.paint(ring(vesicle, 0.012), (196, 120, 96))
    c.paint(c.ellipse(f.x - f.size / 3, f.y - f.size / 3, f.size / 4), (255, 255, 255))
    return vesicle


def _wheal(c: Canvas, f: Finding) -> Field:
    c.paint(c.lumpy(f.x, f.y, 1.25 * f.size, 3), (232, 116, 112), edge=0.06)
    return c.paint(c.lumpy(f.x, f.y, 0.75 * f.size, 3), (250, 206, 192), edge=0.05)


def _crust(c: Canvas, f: Finding) -> Field:
    c.paint(c.ellipse(f.x, f.y, 1.25 * f.size), (206, 80, 76), edge=0.04)
    crust = c.paint(c.lumpy(f.x, f.y, f.size, 8), (222, 164, 40))
    for x, y in spots(c.rng, 5, -0.7 * f.size, 0.7 * f.size, cells=3):
        c.paint(c.ellipse(f.x + x, f.y + y, 0.016), (150, 96, 16))
    return crust


_REGIONS = {"face": _face, "hand": _hand, "foot": _foot, "abdomen": _belly}

LOOKS: dict[str, Look] = {
    "histopathology": Look(histopathology, _tissue, {"lymphocyte": _lymphocyte}, grain(3)),
    "microscopy": Look(
        smear, _glass, {"red blood cell": _red_cell, "white blood cell": _white_cell, "platelet": _platelet}, grain(3)
    ),
    "fundus photography": Look(
        fundus,
        _retina,
        {
            "retinal vessel": _retinal_vessels,
            "optic disc": _optic_disc,
            "retinal hemorrhages": _bleeding,
            "retinal hard exudates": _exudates,
        },
        _pupil,
    ),
    "dermoscopy": Look(
        dermoscopy, _close_skin, dict(zip(PATTERNS, (_globules, _streaks, _network, _milia), strict=True)), grain(3)
    ),
    "skin": Look(
        skin,
        _body,
        {
            "patch": _patch,
            "nevus": _nevus,
            "depigmentation": _depigmentation,
            "plaque": _plaque,
            "vesicle": _vesicle,
            "wheal": _wheal,
            "crust": _crust,
        },
        grain(3),
    ),
}
