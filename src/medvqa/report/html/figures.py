"""Charts drawn by matplotlib: SVG without script or style attributes, in the page's own colours.

Everything else on the page is a table; without matplotlib (extra `html`) the numbers of these charts still are.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import pi
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS: Mapping[str, str] = {
    "#010203": "var(--ink)",
    "#010204": "var(--muted)",
    "#010205": "var(--line)",
    "#010206": "var(--accent)",
    "#010207": "var(--second)",
    "#010208": "var(--third)",
}
"""Drawing colours and their style-sheet variables: one drawing serves light and dark."""
INK, MUTED, LINE, *SERIES = COLOURS

_NAMESPACES = re.compile(r"\{[^}]*\}")
_FONT = re.compile(r"(?P<size>[\d.]+)px")
_KEPT = {"svg", "g", "path", "use", "text", "defs", "clipPath", "rect"}


def available() -> bool:
    """Whether charts can be drawn."""
    return find_spec("matplotlib") is not None


def radar(names: Sequence[str], series: Mapping[str, Sequence[float | None]], *, title: str) -> str:
    """A radar chart of fractions from 0 to 1, one axis per name; a series with a gap is not closed over it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 4.2))
    axes: Any = figure.add_subplot(projection="polar")
    angles = [2 * pi * i / len(names) for i in range(len(names))]
    for colour, (label, values) in zip(SERIES, series.items(), strict=False):
        points = [float("nan") if value is None else 100 * value for value in (*values, values[0])]
        axes.plot([*angles, 0.0], points, color=colour, marker="o", markersize=3.5, linewidth=1.6, label=label)
    axes.set(ylim=(0, 100), theta_offset=pi / 2, theta_direction=-1)
    axes.set_xticks(angles, [name.replace(" ", "\n", 1) for name in names], color=INK)
    axes.set_yticks([25, 50, 75, 100], ["25", "50", "75", "100 %"], color=MUTED, fontsize=8)
    axes.tick_params(pad=10)
    axes.grid(color=LINE)
    axes.spines["polar"].set_color(LINE)
    if len(series) > 1:
        legend = figure.legend(loc="lower right", frameon=False, fontsize=8, labelcolor=INK)
        legend.set_in_layout(False)
    return _svg(figure, title)


def reliability(bins: Sequence[tuple[float, float, int]], *, title: str) -> str:
    """A reliability diagram: mean confidence and share of right answers by bin, with numbers of answers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 4.4))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    above.plot([0, 100], [0, 100], color=MUTED, linewidth=1, linestyle="--")
    confidence, right = ([100 * row[i] for row in bins] for i in (0, 1))
    above.plot(confidence, right, color=SERIES[0], marker="o", markersize=5, linewidth=1.6)
    below.bar(confidence, [row[2] for row in bins], width=6, color=SERIES[0])
    above.set(xlim=(0, 100), ylim=(0, 100), ylabel="right, %")
    below.set(xlabel="confidence, %", ylabel="answers")
    for axes in (above, below):
        axes.grid(color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(colors=MUTED, labelcolor=INK, labelsize=8)
        axes.xaxis.label.set_color(INK)
        axes.yaxis.label.set_color(INK)
        for spine in axes.spines.values():
            spine.set_color(LINE)
    return _svg(figure, title)


def spread(
    values: Mapping[str, Sequence[float | None]],
    means: Mapping[str, float | None],
    mean: float | None,
    *,
    title: str,
) -> str:
    """The values of a fraction for each prompt, a dot for each sample, with the prompts' means and their mean."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 0.8 + 0.28 * len(values)))
    axes: Any = figure.subplots()
    rows = range(len(values))
    for row, of_prompt in zip(rows, values.values(), strict=True):
        present = [100 * value for value in of_prompt if value is not None]
        if len(present) > 1:
            axes.plot(present, [row] * len(present), color=MUTED, marker="o", markersize=3, linewidth=0)
    drawn = [(row, 100 * value) for row, value in zip(rows, means.values(), strict=True) if value is not None]
    axes.plot([value for _, value in drawn], [row for row, _ in drawn], color=SERIES[0], marker="D", linewidth=0)
    if mean is not None:
        axes.axvline(100 * mean, color=SERIES[1], linewidth=1.2, linestyle="--")
    axes.set_yticks(list(rows), list(values), color=INK)
    axes.set(ylim=(len(values) - 0.5, -0.5), xlabel="%")
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, labelcolor=INK, labelsize=8)
    axes.xaxis.label.set_color(INK)
    for spine in axes.spines.values():
        spine.set_color(LINE)
    return _svg(figure, title)


def _svg(figure: Figure, title: str) -> str:
    """The drawing as an element for the page: the same bytes every time."""
    import matplotlib

    figure.set_layout_engine("tight")
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    content = io.StringIO()
    # Text stays text: it can be selected, read aloud and found, in the font of the page.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "font.size": 9}):
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(content.getvalue())  # noqa: S314  (what matplotlib has just written)
    drawing = _plain(root)
    for name in ("width", "height", "version"):
        drawing.attrib.pop(name, None)
    drawing.attrib |= {"role": "img", "aria-label": title, "class": "figure"}
    return ElementTree.tostring(drawing, encoding="unicode")


def _plain(element: ElementTree.Element) -> ElementTree.Element:
    """Without namespaces, metadata and style sheets, with style attributes as plain ones: the page allows no others."""
    plain = ElementTree.Element(_NAMESPACES.sub("", element.tag))
    plain.text, plain.tail = element.text, element.tail
    for name, value in element.attrib.items():
        short = _NAMESPACES.sub("", name)
        if short == "style":
            plain.attrib |= _attributes(value)
        else:
            plain.set(short, COLOURS.get(value, value))
    for child in element:
        if _NAMESPACES.sub("", child.tag) in _KEPT:
            plain.append(_plain(child))
    return plain


def _attributes(style: str) -> dict[str, str]:
    """The declarations of a style attribute as presentation attributes."""
    attributes: dict[str, str] = {}
    for declaration in filter(None, map(str.strip, style.split(";"))):
        name, _, value = map(str.strip, declaration.partition(":"))
        if name == "font":
            size = _FONT.search(value)
            attributes |= {"font-size": size["size"]} if size else {}
        else:
            attributes[name] = COLOURS.get(value, value)
    return attributes
