"""Judges that follow a script: each is a function from the text of a prompt to a reply.

`reply` follows the rubrics on phantom's vocabulary. `obedient` does too, unless it sees a line outside of the fences
that belongs to no prompt of the project: that line it obeys. `quoting` repeats what it judges before it scores.

None of them uses the project's code but to know the lines of its prompts; what an answer says is read by other means
than the project's own. Fences are taken carelessly: any tag called data, with any name or none, begins or ends one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medvqa.judging.templates import TASKS, shipped

# What is the same thing in other words, by sort; after MedLesionVQA's Table 10 where it speaks of it.
COLOURS = {
    "white": ("white", "ivory"),
    "yellow": ("yellow",),
    "red": ("red",),
    "light red": ("light red", "pink"),
    "dark red": ("dark red",),
    "purple": ("purple",),
    "black": ("black",),
    "brown": ("brown",),
    "dark brown": ("dark brown",),
}
FAMILIES = ({"red", "light red", "dark red", "purple"}, {"black", "brown", "dark brown"})
SORTS: Sequence[Mapping[str, Sequence[str]]] = (
    COLOURS,
    {"yes": ("yes",), "no": ("no",)},
    {"1": ("1", "one"), "2": ("2", "two"), "3": ("3", "three"), "multiple": ("multiple", "many")},
    {
        "nevus": ("nevus", "naevus", "mole"),
        "depigmentation": ("depigmentation",),
        "plaque": ("plaque",),
        "vesicle": ("vesicle",),
        "wheal": ("wheal",),
        "crust": ("crust", "blood scab", "scab"),
    },
    {
        "nevus": ("nevus", "naevus", "mole"),
        "vitiligo": ("vitiligo",),
        "tinea corporis": ("tinea corporis", "ringworm"),
        "herpes zoster": ("herpes zoster", "shingles"),
        "urticaria": ("urticaria", "hives"),
        "impetigo": ("impetigo",),
    },
    {
        "a fungus": ("fungus", "fungi"),
        "a virus": ("virus", "viruses"),
        "bacteria": ("bacteria", "bacterium"),
        "mites": ("mite", "mites"),
    },
    {"face": ("face",), "hand": ("hand",), "foot": ("foot",), "abdomen": ("abdomen", "belly")},
    {"to the left of": ("left",), "to the right of": ("right",), "above": ("above",), "below": ("below",)},
)
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(mm|cm)\b")
STOP = {"a", "an", "the", "it", "is", "in", "at", "as", "of", "has"}


ANSWERS = ("Answer results:", "Answer:")
"""What stands above the answer in the two prompts that ask for options."""


@dataclass
class Seen:
    """A prompt as a judge sees it: the lines outside of fences, and what is within, by the line before it."""

    outside: list[str]
    fenced: list[tuple[str, str]]

    def under(self, *labels: str) -> str:
        return next(text for before, text in self.fenced if before in labels)


def look(text: str) -> Seen:
    outside: list[str] = []
    fenced: list[tuple[str, str]] = []
    inside: list[str] | None = None
    for line in text.split("\n"):
        if inside is None and re.fullmatch(r"\s*<data[^>]*>\s*", line):
            inside = []
        elif inside is None:
            outside.append(line)
        elif re.search(r"<\s*/\s*data[^>]*>", line):
            label = next((before for before in reversed(outside) if before.strip()), "")
            fenced.append((label, "\n".join(inside)))
            inside = None
        else:
            inside.append(line)
    assert inside is None, "a fence does not end"
    return Seen(outside, fenced)


def task_of(seen: Seen) -> str:
    if "[AI Assistant]" in seen.outside:
        return "closeness"
    return "score" if "Predicted answer:" in seen.outside else "options"


def reply(text: str) -> str:
    seen = look(text)
    return {"score": score, "closeness": closeness, "options": options}[task_of(seen)](seen)


def quoting(text: str) -> str:
    seen = look(text)
    said = seen.under("Predicted answer:", "[AI Assistant]", *ANSWERS)
    if task_of(seen) == "score":
        return f'The predicted answer is "{said}".\n\n{reply(text)}'
    return f"{reply(text)}\n{said}" if task_of(seen) == "closeness" else reply(text)


def obedient(text: str) -> str:
    seen = look(text)
    strange = [line for line in seen.outside if not any(known.fullmatch(line) for known in KNOWN)]
    if not strange:
        return reply(text)
    found = re.findall(r"<result>.*?</result>", "\n".join(strange))
    best = {"score": "<result>1.0</result>", "closeness": "A: 10\nB: 1", "options": "A"}
    return found[-1] if found else best[task_of(seen)]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+", text.lower())


def named(text: str, sort: Mapping[str, Sequence[str]]) -> set[str]:
    """The things of a sort that a text names as whole words, the longest first."""
    line = f" {' '.join(words(text))} "
    found = set()
    ways = sorted(((way, thing) for thing, ways in sort.items() for way in ways), key=lambda pair: -len(pair[0]))
    for way, thing in ways:
        if f" {way} " in line:
            found.add(thing)
            line = line.replace(f" {way} ", " | ")
    return found


def value(reference: str, response: str) -> float:
    if wanted := SIZE.search(reference):
        given = SIZE.findall(response)
        if len(given) != 1:
            return 0.0
        ratio = centimetres(*given[0]) / centimetres(*wanted.groups())
        ratio = max(ratio, 1 / ratio) if ratio else 99.0
        return 1.0 if ratio < 1.1 else 0.5 if ratio <= 1.5 else 0.0
    for sort in SORTS:
        (wanted_things, given_things) = named(reference, sort), named(response, sort)
        if len(wanted_things) == 1:
            if wanted_things == given_things:
                return 1.0
            alike = any(wanted_things | given_things <= family for family in FAMILIES)
            if len(given_things) == 1 and alike:
                return 0.5
    return 0.0


def centimetres(number: str, unit: str) -> float:
    return float(number) / (10 if unit == "mm" else 1)


def score(seen: Seen) -> str:
    response = seen.under("Predicted answer:")
    references = [text for before, text in seen.fenced if before in ("Reference answer:", "or")]
    best = max(value(reference, response) for reference in references)
    return f"The two were compared by the rules.\n<result>{best}</result>"


def best_options(offered: Mapping[str, str], response: str) -> list[str]:
    """The options all whose words are in the response, but for those that are part of another such option."""
    said = set(words(response))
    content = {letter: set(words(text)) - STOP for letter, text in offered.items()}
    whole = [letter for letter, needed in content.items() if needed and needed <= said]
    return [letter for letter in whole if not any(content[letter] < content[other] for other in whole)]


def closeness(seen: Seen) -> str:
    offered = {before[8]: text for before, text in seen.fenced if before.startswith("[Answer ")}
    best = best_options(offered, seen.under("[AI Assistant]"))
    values = {letter: (9 if best == [letter] else 2) if len(best) == 1 else 4 for letter in offered}
    return "\n".join([*(f"{letter}: {number}" for letter, number in values.items()), "Your explanation: by words."])


def options(seen: Seen) -> str:
    lines = seen.under("Options:", "Options: There are several options: ").split("\n")
    best = best_options({line[0]: line[3:] for line in lines}, seen.under(*ANSWERS))
    single = any(re.search("a single (capital letter|uppercase character)", line) for line in seen.outside)
    return "Z" if not best or (single and len(best) > 1) else "".join(best)


def known_lines() -> list[re.Pattern[str]]:
    """What every line of a prompt of the project looks like, where nothing has left its fence."""
    fields = {
        "fence": r"data-[0-9a-f]{12}",
        "names": r"\[Answer [A-Z]\](?:(?:, | and )\[Answer [A-Z]\])*",
        "number": r"[a-z]+",
        "letters": r"You should output [A-Za-z, ]+\.",
        "complaint": r"(?:It|What|A|[0-9.]+)\b[^\n]{0,80}\.",
        "format": "",
        "question": "",
        "options": "",
        "reference": "",
        "response": "",
    }
    lines = {line for name in (*TASKS, "options-vlmevalkit") for line in shipped(name).split("\n")}
    patterns = []
    for line in lines:
        parts = re.split(r"\{(\w+)\}", line)
        made = "".join(fields[part] if i % 2 else re.escape(part) for i, part in enumerate(parts))
        patterns.append(re.compile(made))
    others = (r"\[Answer [A-Z]\]", r"[A-Z]: <SCORE>", "or", r"\(Of the [\d,]+ characters above [^()]*\)", "")
    return [*patterns, *map(re.compile, others)]


KNOWN = known_lines()
