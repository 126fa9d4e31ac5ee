"""Settings of the project's own tests."""

import os

from hypothesis import settings

if "CI" not in os.environ:  # there hypothesis loads a profile of its own, without deadline and reproducible
    settings.register_profile("local", deadline=None)
    settings.load_profile("local")
