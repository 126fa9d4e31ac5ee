"""The images of questions in a bundle."""

from __future__ import annotations

from medvqa.report.bundle.shape import Shape


class ImageHead(Shape, frozen=True):
    """One image of a question."""

    name: str
    """As results.jsonl has it; a pseudonym if the data are not declared public."""
    source: str = ""
    """`images/SHA256.png` (or .jpg, .webp): the name of a block of the page, else of a file beside it; "" without."""
    why: str = ""
    """The reason for having no file."""
    width: int = 0
    """Pixels of the image as a model may see it; 0 if it was not read."""
    height: int = 0
    drawn_width: int = 0
    """Pixels of the file."""
    drawn_height: int = 0
    shown: str = ""
    """The window that was applied to a grey image, and the spacing of its pixels, in words; "" if there is none."""
    exact: bool = False
    """Whether the file has all pixels unchanged; else it was shrunk or compressed."""
