"""Questions and lookaheads for tests of streams."""

from collections.abc import Sequence

from medvqa.items import Image, Item, Prompt, Query


class Ahead:
    """Items that lie ahead, handed over in portions as xdist does; `after` more come with each that is answered."""

    def __init__(self, items: Sequence[Query], first: int | None = None, more: int = 1) -> None:
        self.items = list(items)
        self.known = len(self.items) if first is None else first
        self.more = more
        self.taken = 0
        self.ends = False

    def advance(self) -> None:
        self.known = min(len(self.items), self.known + self.more)

    def take(self, count: int) -> list[Query]:
        start = self.taken
        self.taken = max(start, min(self.known, start + count))
        return self.items[start : self.taken]

    def exhausted(self) -> bool:
        return self.taken == len(self.items)

    def stopped(self) -> bool:
        return self.ends


def item(number: int, images: tuple[Image, ...] = ()) -> Query:
    return Query(Item(str(number), "slake", "single_choice", f"q{number}", images=images))


def prompt(query: Query) -> Prompt:
    return Prompt(query.item.question, images=query.item.images)
