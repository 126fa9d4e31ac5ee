"""Grey looks: X-ray, CT, ultrasound, angiography and bone scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from tools.canvas import Canvas, Field, Finding, Look, Scene, around, grain, join, meet, new_seed, ring

CHEST_SIGNS = ("cardiomegaly", "pulmonary nodule", "pulmonary consolidation", "pleural effusion", "pneumothorax")
ULTRASOUND_ORGANS = ("bladder", "gallbladder", "kidney", "ovary")


# X-ray: a chest from the front. The heart lies a little to the right of the image.


def chest(rng: Generator, signs: Sequence[str] | None = None, quarter_turns: int = 0) -> Scene:
    """A chest with those signs (of `CHEST_SIGNS`), each at a place of its own."""
    signs = [name for name in CHEST_SIGNS if rng.random() < 0.4] if signs is None else signs
    first, second = rng.permutation([0.25, 0.75]).tolist()
    free = [(x, y) for x in (first, second) for y in (0.36, 0.56)]
    large = "cardiomegaly" in signs
    findings = [Finding("cardiomegaly", 0.53, 0.64, 0.18) if large else Finding("heart", 0.55, 0.65, 0.11)]
    if "pneumothorax" in signs:
        findings.append(Finding("pneumothorax", first, 0.45, 0.1))
    if "pleural effusion" in signs:
        findings.append(Finding("pleural effusion", second, 0.7, 0.1))
        free.remove((second, 0.56))
    for name, size in (("pulmonary nodule", 0.032), ("pulmonary consolidation", 0.09)):
        if name in signs:
            # Not in front of a pneumothorax if it can be helped: a box around that would hold both.
            clear = [place for place in free if "pneumothorax" not in signs or place[0] == second] or free
            place = clear[int(rng.integers(len(clear)))]
            free.remove(place)
            findings.append(
                Finding(name, place[0] + rng.uniform(-0.025, 0.025), place[1] + rng.uniform(-0.03, 0.03), size)
            )
    return Scene("x-ray", tuple(findings), new_seed(rng), quarter_turns=quarter_turns)


def heart(rng: Generator, mirrored: bool, large: bool) -> Scene:
    """A chest whose heart lies on the left of the image when mirrored (as in no healthy person), and may be large."""
    x, size = 0.42 if mirrored else 0.58, 0.19 if large else 0.11
    return Scene("x-ray", (Finding("heart", x, 0.65 - rng.uniform(0, 0.03), size),), new_seed(rng))


def lung_nodule(rng: Generator, right: bool, low: bool) -> Scene:
    """A chest with one nodule, in the left or right half of the image, high or low."""
    x, y = (0.72 if right else 0.28) + rng.uniform(-0.04, 0.04), (0.6 if low else 0.34) + rng.uniform(-0.04, 0.04)
    findings = Finding("heart", 0.55, 0.65, 0.11), Finding("pulmonary nodule", x, y, 0.035)
    return Scene("x-ray", findings, new_seed(rng))


def _lung(c: Canvas, x: float) -> Field:
    return c.ellipse(0.29 if x < 0.5 else 0.71, 0.5, 0.15, 0.31)


def _thorax(c: Canvas, scene: Scene) -> None:
    c.fill(14)
    neck, shoulders = c.ellipse(0.5, 0.1, 0.12, 0.2), c.ellipse(0.5, 0.62, 0.47, 0.5)
    c.paint(join(neck, shoulders), 128, edge=0.02)
    c.paint(join(_lung(c, 0.2), _lung(c, 0.8)), 48, edge=0.03)
    for y in (0.26, 0.37, 0.48, 0.59, 0.7):
        for x in (0.29, 0.71):
            c.paint(ring(c.ellipse(x, y + 0.1, 0.17, 0.11), 0.012) + 0.2 * (c.y > y + 0.1), 82)
    for side in (-1, 1):
        c.paint(c.line([(0.5 + 0.05 * side, 0.24), (0.5 + 0.36 * side, 0.17)], 0.025), 176)
    c.paint(c.line([(0.5, 0.0), (0.5, 1.0)], 0.07), 158, edge=0.03)


def _heart(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, f.size * 1.15, f.size, 0.5 if f.x > 0.5 else -0.5), 196, edge=0.03)


def _nodule(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, f.size), 222, edge=0.015)


def _consolidation(c: Canvas, f: Finding) -> Field:
    return c.paint(c.lumpy(f.x, f.y, f.size, 3), 176, edge=0.1)


def _effusion(c: Canvas, f: Finding) -> Field:
    # The fluid climbs towards the chest's wall.
    below_surface = 0.83 - 0.8 * np.abs(c.x - 0.5) - c.y
    return c.paint(meet(_lung(c, f.x), below_surface), 206, edge=0.02)


def _pneumothorax(c: Canvas, f: Finding) -> Field:
    outward = -1 if f.x < 0.5 else 1
    collapsed = c.ellipse(f.x - 0.05 * outward, 0.57, 0.12, 0.27)
    air = c.paint(meet(_lung(c, f.x), -collapsed), 0)
    c.paint(meet(_lung(c, f.x), ring(collapsed, 0.014)), 190)
    return air


def _tissue_lesion(c: Canvas, f: Finding) -> Field:
    return c.paint(c.lumpy(f.x, f.y, f.size, 3), 30 if f.colour == "dark" else 236, edge=0.02)


# CT: an abdomen from below, so the liver is on the left of the image.


def abdomen(rng: Generator) -> Scene:
    """Liver, gallbladder, stomach, spleen and both kidneys."""
    places = (
        ("liver", 0.27, 0.45, 0.17),
        ("gallbladder", 0.46, 0.36, 0.05),
        ("stomach", 0.66, 0.35, 0.12),
        ("spleen", 0.82, 0.54, 0.12),
        ("kidney", 0.33, 0.69, 0.075),
        ("kidney", 0.67, 0.69, 0.075),
    )
    organs = [
        Finding(name, x + rng.uniform(-0.015, 0.015), y + rng.uniform(-0.015, 0.015), size * rng.uniform(0.9, 1.1))
        for name, x, y, size in places
    ]
    return Scene("ct", tuple(organs), new_seed(rng))


def abdominal_lesion(rng: Generator, in_spleen: bool, dark: bool) -> Scene:
    """An abdomen with a lesion in the liver or the spleen, darker or brighter than the organ."""
    whole = abdomen(rng)
    organ = whole.findings[3 if in_spleen else 0]
    shift, colour = rng.uniform(-0.02, 0.02), "dark" if dark else "bright"
    return replace(whole, findings=(*whole.findings, Finding("lesion", organ.x, organ.y + shift, 0.042, colour)))


def _trunk(c: Canvas, scene: Scene) -> None:
    c.fill(6)
    c.paint(c.ellipse(0.5, 0.52, 0.47, 0.4), 60)
    c.paint(c.ellipse(0.5, 0.52, 0.43, 0.36), 98, edge=0.02)
    c.paint(join(c.ellipse(0.5, 0.72, 0.06), c.line([(0.5, 0.75), (0.5, 0.86)], 0.04)), 236)
    c.paint(c.ellipse(0.5, 0.73, 0.02), 90)
    c.paint(c.ellipse(0.53, 0.61, 0.03), 206)


def _liver(c: Canvas, f: Finding) -> Field:
    lobes = c.ellipse(f.x, f.y, f.size, f.size * 1.25, 0.2), c.ellipse(f.x + 0.12, f.y - 0.12, f.size, f.size / 2, 0.1)
    return c.paint(join(*lobes), 146)


def _gallbladder(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, f.size * 0.75, f.size, 0.4), 36)


def _stomach(c: Canvas, f: Finding) -> Field:
    wall = c.paint(c.ellipse(f.x, f.y, f.size, f.size * 0.7, 0.25), 128)
    c.paint(c.ellipse(f.x, f.y, f.size * 0.85, f.size * 0.55, 0.25), 72)
    c.paint(c.ellipse(f.x, f.y - 0.025, f.size * 0.55, f.size * 0.22, 0.1), 4)
    return wall


def _spleen(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, f.size * 0.5, f.size, -0.2), 166)


def _kidney(c: Canvas, f: Finding) -> Field:
    inward = 1 if f.x < 0.5 else -1
    notch = c.ellipse(f.x + inward * f.size, f.y, f.size / 2)
    return c.paint(meet(c.ellipse(f.x, f.y, f.size * 0.85, f.size * 1.1), -notch), 190)


# Ultrasound: one organ, or a nodule, in a fan of speckle.


def ultrasound(rng: Generator, organ: str | None = None) -> Scene:
    """That organ (of `ULTRASOUND_ORGANS`)."""
    x, y = rng.uniform(0.45, 0.55), rng.uniform(0.5, 0.58)
    finding = Finding(
        organ or str(rng.choice(ULTRASOUND_ORGANS)), x, y, rng.uniform(0.9, 1.1), angle=rng.uniform(-0.4, 0.4)
    )
    return Scene("ultrasound", (finding,), new_seed(rng))


def nodule(rng: Generator, dark: bool, blurred: bool) -> Scene:
    """A nodule darker or brighter than what surrounds it, with a blurred or a sharp edge."""
    x, y = rng.uniform(0.42, 0.58), rng.uniform(0.46, 0.6)
    finding = Finding("nodule", x, y, rng.uniform(0.11, 0.14), "dark" if dark else "bright", border=_border(blurred))
    return Scene("ultrasound", (finding,), new_seed(rng))


def _border(blurred: bool) -> str:
    return "poorly-defined" if blurred else "well-defined"


def _soft_tissue(c: Canvas, scene: Scene) -> None:
    c.fill(104, waves=12)


def _bladder(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, 0.27 * f.size, 0.2 * f.size, 0.3 * f.angle), 8)


def _sac(c: Canvas, f: Finding) -> Field:
    sac = c.ellipse(f.x, f.y, 0.2 * f.size, 0.07 * f.size, f.angle + 0.6)
    c.paint(ring(sac, 0.03), 196)
    return c.paint(sac, 8)


def _kidney_echo(c: Canvas, f: Finding) -> Field:
    kidney = c.paint(c.ellipse(f.x, f.y, 0.27 * f.size, 0.15 * f.size, f.angle), 52)
    c.paint(c.ellipse(f.x, f.y, 0.15 * f.size, 0.055 * f.size, f.angle), 206, edge=0.04)
    return kidney


def _ovary(c: Canvas, f: Finding) -> Field:
    ovary = c.paint(c.ellipse(f.x, f.y, 0.22 * f.size, 0.16 * f.size, f.angle), 150)
    for x, y in around(f.x, f.y, 0.1 * f.size, 5, start=f.angle):
        c.paint(c.ellipse(x, y, 0.035), 8)
    return ovary


def _nodule_echo(c: Canvas, f: Finding) -> Field:
    grey = 16 if f.colour == "dark" else 216
    return c.paint(c.ellipse(f.x, f.y, f.size), grey, edge=0.0 if f.border == "well-defined" else 0.13)


def _fan(c: Canvas) -> None:
    c.rgb *= 1 + c.noise(0.22, grain=2)[..., None]
    wedge = np.abs(c.x - 0.5) - 0.12 - 0.48 * c.y
    c.paint(-meet(wedge, c.ellipse(0.5, 0.0, 0.97)), 0)


# CT: a head from below.


def head(rng: Generator, right: bool, dark: bool) -> Scene:
    """A brain with one lesion in the left or right half of the image, darker or brighter than the brain."""
    x, y = 0.5 + rng.uniform(0.14, 0.2) * (1 if right else -1), rng.uniform(0.36, 0.64)
    lesion = Finding("lesion", x, y, rng.uniform(0.06, 0.08), "dark" if dark else "bright")
    return Scene("head ct", (lesion,), new_seed(rng))


def _skull(c: Canvas, scene: Scene) -> None:
    c.fill(4)
    skull = c.paint(c.ellipse(0.5, 0.5, 0.38, 0.45), 238)
    c.paint(skull + 0.045, 118, edge=0.015)
    c.paint(c.line([(0.5, 0.1), (0.5, 0.9)], 0.012), 160)
    for side in (-1, 1):
        c.paint(c.ellipse(0.5 + 0.05 * side, 0.48, 0.022, 0.1, 0.2 * side), 60)


# Angiography: a trunk with two branches.


def angiogram(rng: Generator, right: bool, narrow: bool) -> Scene:
    """A vessel tree whose left or right branch (of the image) bulges or is narrow at one place."""
    along = rng.uniform(0.45, 0.6)
    x = 0.5 + (1 if right else -1) * 0.3 * along
    return Scene(
        "angiography", (Finding("stenosis" if narrow else "aneurysm", x, 0.6 - 0.5 * along, 0.06),), new_seed(rng)
    )


def _vessel_tree(c: Canvas, scene: Scene) -> None:
    c.fill(212, waves=10)
    c.paint(c.line([(0.5, 1.1), (0.5, 0.6)], 0.075), 56)
    for side in (-1, 1):
        c.paint(c.line([(0.5, 0.6), (0.5 + 0.36 * side, 0.0)], 0.055), 56)
        c.paint(c.line([(0.5 + 0.06 * side, 0.5), (0.5 + 0.4 * side, 0.46)], 0.025), 90)
        c.paint(c.line([(0.5 + 0.28 * side, 0.13), (0.5 + 0.1 * side, 0.02)], 0.025), 90)


def _aneurysm(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, f.size * 1.25), 56)


def _stenosis(c: Canvas, f: Finding) -> Field:
    across, down = (0.86, 0.5) if f.x > 0.5 else (0.86, -0.5)
    bites = [c.ellipse(f.x + s * 0.047 * across, f.y + s * 0.047 * down, 0.04) for s in (-1, 1)]
    c.paint(join(*bites), 212)
    return c.ellipse(f.x, f.y, f.size)


# X-ray: a spine from the side.


def spine(rng: Generator, low: bool, hole: bool) -> Scene:
    """Six vertebrae, of which one in the upper or lower half has collapsed or has a dark hole."""
    level = int(rng.integers(1, 3)) + (2 if low else 0)
    return Scene("spine", (Finding("hole" if hole else "collapse", 0.5, 0.125 + 0.15 * level, 0.055),), new_seed(rng))


def _vertebrae(c: Canvas, scene: Scene) -> None:
    c.fill(46, waves=8)
    for level in range(6):
        _vertebra(c, 0.5, 0.125 + 0.15 * level, 0.052)
        c.paint(c.line([(0.68, 0.125 + 0.15 * level), (0.85, 0.18 + 0.15 * level)], 0.035), 150)


def _vertebra(c: Canvas, x: float, y: float, half: float) -> Field:
    body = meet(np.abs(c.x - x) - 0.13, np.abs(c.y - y) - half)
    c.paint(body, 216)
    c.paint(body + 0.018, 178)
    return body


def _hole(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, 0.06, 0.034), 24)


def _collapse(c: Canvas, f: Finding) -> Field:
    c.paint(meet(np.abs(c.x - f.x) - 0.14, np.abs(c.y - f.y) - 0.066), 46)
    return _vertebra(c, f.x, f.y + 0.02, 0.022)


# X-ray: a long bone.


def long_bone(rng: Generator, low: bool, oblique: bool) -> Scene:
    """A bone broken in its upper or lower half, straight across or obliquely."""
    y = (0.66 if low else 0.34) + rng.uniform(-0.05, 0.05)
    return Scene("bone", (Finding("fracture", 0.5, y, 0.1, angle=0.75 if oblique else 0.0),), new_seed(rng))


def _bone(c: Canvas, scene: Scene) -> None:
    c.fill(10)
    c.paint(c.line([(0.5, -0.1), (0.5, 1.1)], 0.5), 66, edge=0.08)
    ends = [c.ellipse(x, y, 0.085) for x in (0.43, 0.57) for y in (0.1, 0.9)]
    bone = c.paint(join(*ends, c.line([(0.5, 0.1), (0.5, 0.9)], 0.15)), 226)
    c.paint(bone + 0.035, 172, edge=0.02)


def _fracture(c: Canvas, f: Finding) -> Field:
    across, down = f.size * np.cos(f.angle), f.size * np.sin(f.angle)
    return c.paint(c.line([(f.x - across, f.y - down), (f.x + across, f.y + down)], 0.03), 40)


# Bone scan: a body from the front, dark where the tracer gathers.


def bone_scan(rng: Generator, low: bool, two: bool) -> Scene:
    """One or two hot spots, in the chest or in the pelvis."""
    x, y = 0.5 + rng.uniform(0.06, 0.09), (0.64 if low else 0.35) + rng.uniform(-0.03, 0.03)
    spots_x = (x, 1 - x) if two else (x,)
    return Scene("bone scan", tuple(Finding("hot spot", at, y, 0.032) for at in spots_x), new_seed(rng))


def _skeleton(c: Canvas, scene: Scene) -> None:
    c.fill(244)
    limbs = [c.line([(0.5 + 0.13 * s, 0.24), (0.5 + 0.24 * s, 0.45), (0.5 + 0.27 * s, 0.64)], 0.035) for s in (-1, 1)]
    limbs += [c.line([(0.5 + 0.08 * s, 0.66), (0.5 + 0.1 * s, 1.0)], 0.045) for s in (-1, 1)]
    ribs = [ring(c.ellipse(0.5, y, 0.13, 0.05), 0.016) for y in (0.28, 0.34, 0.4)]
    pelvis = ring(c.ellipse(0.5, 0.63, 0.11, 0.06), 0.04)
    c.paint(join(*limbs, *ribs, pelvis), 178, edge=0.02)
    c.paint(join(c.ellipse(0.5, 0.12, 0.07, 0.085), c.line([(0.5, 0.2), (0.5, 0.64)], 0.045)), 156, edge=0.02)


def _hot_spot(c: Canvas, f: Finding) -> Field:
    return c.paint(c.ellipse(f.x, f.y, f.size), 14, edge=0.03)


def _binary(make: Callable[[Generator, bool, bool], Scene]) -> Callable[[Generator], Scene]:
    """A maker that decides the two choices of another by itself."""
    return lambda rng: make(rng, bool(rng.integers(2)), bool(rng.integers(2)))


def _any_ultrasound(rng: Generator) -> Scene:
    return ultrasound(rng) if rng.random() < 0.7 else _binary(nodule)(rng)


LOOKS: dict[str, Look] = {
    "x-ray": Look(
        chest,
        _thorax,
        {
            "heart": _heart,
            "cardiomegaly": _heart,
            "pulmonary nodule": _nodule,
            "pulmonary consolidation": _consolidation,
            "pleural effusion": _effusion,
            "pneumothorax": _pneumothorax,
        },
        grain(4),
    ),
    "ct": Look(
        abdomen,
        _trunk,
        {
            "liver": _liver,
            "gallbladder": _gallbladder,
            "stomach": _stomach,
            "spleen": _spleen,
            "kidney": _kidney,
            "lesion": _tissue_lesion,
        },
        grain(4),
    ),
    "ultrasound": Look(
        _any_ultrasound,
        _soft_tissue,
        {"bladder": _bladder, "gallbladder": _sac, "kidney": _kidney_echo, "ovary": _ovary, "nodule": _nodule_echo},
        _fan,
    ),
    "head ct": Look(_binary(head), _skull, {"lesion": _tissue_lesion}, grain(4)),
    "angiography": Look(_binary(angiogram), _vessel_tree, {"aneurysm": _aneurysm, "stenosis": _stenosis}, grain(4)),
    "spine": Look(_binary(spine), _vertebrae, {"hole": _hole, "collapse": _collapse}, grain(4)),
    "bone": Look(_binary(long_bone), _bone, {"fracture": _fracture}, grain(4)),
    "bone scan": Look(_binary(bone_scan), _skeleton, {"hot spot": _hot_spot}, grain(7)),
}
