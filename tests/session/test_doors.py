"""What a stranger does first, from an empty folder and the installed wheel."""

import pytest

from support.installed import Door

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_project_is_imported_from_the_wheel(door: Door) -> None:
    done = door.run("python -c 'import medvqa; print(medvqa.__file__)'")
    assert (done.code, str(door.environment) in done.output) == (0, True)
