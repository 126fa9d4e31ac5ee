"""Settings of the project's own tests."""

import os

# A session within the process of a test (pytester) forgets what it imported, and some packages with compiled parts
# can be imported only once in a process: so they are imported before.
import msgspec  # noqa: F401
import numpy as np  # noqa: F401
from hypothesis import settings
from PIL import Image  # noqa: F401

if "CI" not in os.environ:  # there hypothesis loads a profile of its own, without deadline and reproducible
    settings.register_profile("local", deadline=None)
    settings.load_profile("local")
