"""Image files that rows name."""

from collections.abc import Callable
from pathlib import Path

import pytest

from medvqa.items import DataError, Image
from medvqa.tables.image_files import ImageFolder, image_file


@pytest.mark.parametrize(
    "file",
    [
        *("1.png", "a/1.png", "a/b/1.png", "./1.png", "a/./1.png", "a//1.png", "a/../1.png", "missing/x.png", "x "),
        *("../1.png", "a/../../../x.png", "/etc/passwd", "a\\b.png", "in.png", "out.png", "linked/1.png", "away/x.png"),
        *("", ".", "a/", "..", "a\0b.png", "é/日本.png"),
    ],
)
def test_a_folder_of_images_names_them_as_one_image_is_named(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "data" / "set"
    (folder / "a/b").mkdir(parents=True)
    (folder / "in.png").symlink_to("a/1.png")
    (folder / "out.png").symlink_to("/etc/passwd")
    (folder / "linked").symlink_to("a")
    (folder / "away").symlink_to("/etc")

    def outcome(refer: Callable[[], Image]) -> Image | str:
        try:
            return refer()
        except DataError as error:
            return str(error).partition(":")[0]

    images = ImageFolder(folder, tmp_path / "data")
    expected = outcome(lambda: image_file(file, folder=folder, root=tmp_path / "data", where="row 1"))
    for _ in range(2):
        assert outcome(lambda: images.image(file, "row 1")) == expected
