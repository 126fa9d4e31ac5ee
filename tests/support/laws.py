"""How many examples hypothesis tries for a law."""

from hypothesis import settings


def examples(count: int) -> settings:
    """Settings of a law: `count` examples with `--hypothesis-profile=full`, and a fifth of them in the fast tier."""
    return settings(max_examples=max(count * settings().max_examples // 100, 1))
