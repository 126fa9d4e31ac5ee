"""Guess the role of each column: by its name in English, German or Chinese, then by its cells.

Columns that look like names, birth dates or addresses of patients are private: no check, no message and no file holds
their cells.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medvqa.benchmarks import languages
from medvqa.benchmarks.table_declaration import LETTERS, ROLES
from medvqa.decode import did_you_mean
from medvqa.importing.sheet import Sheet
from medvqa.items import KINDS, UsageError
from medvqa.printing import folded
from medvqa.tables import TableRow
from medvqa.tables.image_files import IMAGE_FILE
from medvqa.tags import lexicon

NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("frage text", "question stem", "stem", "prompt", "题干"),
    "answer": (
        *("answer key", "key", "label", "answer label", "ground truth", "gt", "gt answer", "target", "solution"),
        *("musterantwort", "richtig", "参考"),
    ),
    "image": (
        *("img", "image id", "photo", "image url", "figure", "figure path", "path", "filepath", "file path"),
        *("bildname", "aufnahme", "foto", "图片名"),
    ),
    "id": ("no", "number", "lfd nr", "laufende nummer", "fragen id"),
    "options": ("antwortoptionen", "备选答案"),
    "kind": ("type", "typ", "art", "fragentyp", "fragenart", "类型"),
    "pair": ("paarnummer",),
    "patient": (
        *("patientid", "pat id", "patid", "pid", "patient no", "patient number", "mrn", "subject", "subject id"),
        *("patientennr", "patientnr", "patienten nr", "pat nr", "patnr", "patientenkennung", "pseudonym"),
        *("患者id", "病人id", "病历号", "住院号"),
    ),
    "case": (
        *("study", "study id", "accession", "accession number", "fall nr", "untersuchung", "untersuchungsnummer"),
        *("病例号", "检查号"),
    ),
    "cluster": ("group", "group id", "组"),
}
"""Other names of columns beside `table.ROLES` and `languages.COLUMNS`; case, punctuation and blanks do not count."""

PRIVATE = frozenset(
    {
        *("name", "vorname", "nachname", "familienname", "patientenname", "patient name", "patientname", "surname"),
        *("first name", "last name", "given name", "family name", "full name", "firstname", "lastname"),
        *("geburtsdatum", "geb", "geb datum", "gebdatum", "geburtstag", "birth date", "birthdate", "date of birth"),
        *("dob", "birthday", "patientbirthdate", "patient birth date", "adresse", "address", "anschrift", "strasse"),
        *("straße", "street", "plz", "wohnort", "telefon", "telefonnummer", "phone", "phone number", "handy", "mobil"),
        *("email", "e mail", "mail", "versichertennummer", "versicherten nr", "krankenkasse", "kvnr", "ssn"),
        *("social security number", "insurance number", "nhs number", "referring physician", "arzt", "zuweiser"),
        *("physician", "doctor", "radiologist", "radiologe", "befunder", "untersucher", "reader", "annotator"),
        *("姓名", "患者姓名", "名字", "出生日期", "生日", "身份证", "身份证号"),
        *("电话", "手机", "手机号", "地址", "医生"),
    }
)
"""Names of columns that identify people."""

OF_NAMES = (
    *("patient name", "patientname", "patientenname", "full name", "name", "患者姓名", "姓名", "名字"),
    *("nachname", "familienname", "last name", "lastname", "family name", "surname"),
)
"""Names of private columns that hold names of patients, the best one for telling patients apart first."""

HOLDS_ANSWER = frozenset(
    {
        *("findings", "impression", "caption", "reasoning chain", "reasoning", "explanation", "rationale", "report"),
        *("befund", "beurteilung", "bericht", "begründung", "erklärung", "diagnose", "diagnosis"),
        *("所见", "诊断", "结论", "解释", "解析", "报告"),
    }
)
"""Names of columns that may hold the answer: they are no tags, and reach no prompt."""

_KNOWN = frozenset(name for names in (ROLES, languages.COLUMNS, NAMES) for listed in names.values() for name in listed)

SEVERAL = ("image", "tag", "slice", "private")
"""Roles that several columns may have."""
ONE = tuple(ROLES)
ROLE_NAMES = (*ONE, "A", "B", "...", "tag", "slice", "private")

_NUMBERED_IMAGE = re.compile(r"(?:images?|bild|img|图片|图像) ?\d{1,2}")
_LETTER = re.compile(r"(?:option|choice|antwort|auswahl|answer|opt|选项|選項|antwortoption) ?([a-y])|([a-y])")
_NUMBERED = re.compile(r"(?:option|choice|antwort|auswahl|opt|选项|選項|antwortoption|distractor) ?(\d{1,2})")
_PERSON = re.compile(r"[^\W\d_][\w'’-]+\s?(?:,\s?|\^)[^\W\d_][\w'’. -]*")
_BIRTH = re.compile(r"(?:19|20)\d\d-?[01]\d-?[0-3]\d(?:[ T]00:00:00)?|[0-3]?\d[./][01]?\d[./](?:19|20)\d\d")
_ANSWER = re.compile(r"[A-Ya-y](?:[\s,;|/+&]*[A-Y])*")
_SAMPLE = 500
"""Cells of a column that are looked at to guess its role."""
MOST_VALUES = 30
"""Different values of a column that is suggested as a tag."""
MOST_REPEATED = 0.1
"""Share of repeated values up to which a column of cases may be one of ids with mistakes."""
_NUMBER_OF_A_CASE = re.compile(r"\d{3}")
_YEAR = re.compile(r"(?:19|20)\d\d")


@dataclass(frozen=True, slots=True)
class RoleColumns:
    """The place of each role's column: `one` by role or letter of an option, the others in the order of the table."""

    one: Mapping[str, int] = field(default_factory=dict)
    images: tuple[int, ...] = ()
    tags: tuple[int, ...] = ()
    slices: tuple[int, ...] = ()
    private: tuple[int, ...] = ()

    @property
    def options(self) -> dict[str, int]:
        """The columns of the options by letter, sorted."""
        return {letter: self.one[letter] for letter in LETTERS if letter in self.one}

    @property
    def read(self) -> frozenset[int]:
        """All columns that are read."""
        return frozenset((*self.one.values(), *self.images, *self.tags, *self.slices)) - {*self.private}


@dataclass(frozen=True, slots=True)
class RoleQuestion:
    """A role that cannot be told: `candidates` are columns that could have it, `needed` whether it must be known."""

    role: str
    candidates: tuple[int, ...]
    needed: bool
    why: str


@dataclass(frozen=True, slots=True)
class Guess:
    """The guessed columns, the open questions, and columns that may hold the answer."""

    columns: RoleColumns
    questions: tuple[RoleQuestion, ...] = ()
    holding_answer: tuple[int, ...] = ()


def plain(name: str) -> str:
    """Return the name of a column for comparison: lower case, full-width forms as usual, no punctuation."""
    return re.sub(r"[\W_]+", " ", folded(name)).strip()


def guess(sheet: Sheet, typed: Sequence[str] = (), *, with_images: bool = False) -> Guess:
    """Return the roles of the columns. `typed` holds `ROLE=COLUMN`, "" for no column (UsageError).

    `with_images`: a folder of images was named, so a column of images is needed.
    """
    chosen, several, without = _typed(sheet, typed)
    names = [plain(name) for name in sheet.columns]
    taken = {*chosen.values(), *(place for places in several.values() for place in places)}
    private = [*several["private"], *_private(sheet, names, taken)]
    free = [place for place, name in enumerate(names) if place not in taken and place not in private and name]
    questions: list[RoleQuestion] = []
    if "options" not in without:
        letters = _letters(names, free, chosen)
        chosen |= {letter: place for letter, place in letters.items() if letter not in chosen}
        free = [place for place in free if place not in chosen.values()]
    for role in ONE:
        if role in chosen or role in without or role == "image" or (role == "options" and "A" in chosen):
            continue
        found = _named(role, names, free)
        if role == "kind":
            # "type" may be that of anything.
            found = [place for place in found if names[place] == role or _share(sheet, place, _is_kind) >= 0.5]
        if len(found) == 1:
            chosen[role] = found[0]
        elif found:
            why = f"{len(found)} columns could be the {role}"
            questions.append(RoleQuestion(role, tuple(found), role in ("question", "answer"), why))
    if "id" not in chosen and "id" not in without and (question := _id_or_case(sheet, chosen, typed)) is not None:
        questions.append(question)
    asked = {place for question in questions for place in question.candidates}
    free = [place for place in free if place not in chosen.values() and place not in asked]
    images = [*several["image"]]
    if not images and "image" not in without:
        images, question = _images(sheet, names, free, with_images)
        questions += [question] if question else []
    free = [place for place in free if place not in images]
    for role in ("question", "answer"):
        if role not in chosen and not any(question.role == role for question in questions):
            candidates = _by_content(role, sheet, free, chosen) or free
            questions.append(RoleQuestion(role, tuple(candidates), True, f"no column is called {role}"))
    holding = tuple(place for place in free if names[place] in HOLDS_ANSWER)
    open_places = {place for question in questions for place in question.candidates}
    if "patient" not in {*chosen, *without} and (named := _of_names(sheet, names, private)):
        # It stays private: its cells only tell which rows are of one patient.
        chosen["patient"] = named[0]
    columns = RoleColumns(
        one=chosen,
        images=tuple(images),
        tags=tuple(several["tag"])
        or tuple(
            place for place in free if place not in holding and place not in open_places and _is_tag(sheet, place)
        ),
        slices=tuple(several["slice"]),
        private=tuple(sorted(private)),
    )
    return Guess(columns, tuple(questions), holding)


def _id_or_case(sheet: Sheet, chosen: Mapping[str, int], typed: Sequence[str]) -> RoleQuestion | None:
    """Return the question whether a column that is called case holds ids: few values, and not none, occur twice.

    As ids, the repetitions are mistakes to correct; as cases, they join questions.
    """
    place = chosen.get("case")
    if place is None or any(text.partition("=")[0].strip().lower() == "case" for text in typed):
        return None
    values = [str(value).strip() for value in sheet.values(place)]
    repeated = len(values) - len(set(values))
    if not 0 < repeated <= MOST_REPEATED * len(values):
        return None
    keep = shlex.quote(f"case={sheet.columns[place]}")
    why = (
        f"no column is called id, and {len(set(values)):,} of {len(values):,} values differ in that of the case: type "
        f"--set {keep} if it joins questions"
    )
    return RoleQuestion("id", (place,), False, why)


def _typed(sheet: Sheet, typed: Iterable[str]) -> tuple[dict[str, int], dict[str, list[int]], set[str]]:
    """Return the typed roles of one column, of several, and the roles that no column has (UsageError)."""
    one: dict[str, int] = {}
    several: dict[str, list[int]] = {role: [] for role in SEVERAL}
    without: set[str] = set()
    for text in typed:
        role, sign, column = text.partition("=")
        role = role.strip()
        role = role.upper() if len(role) == 1 else role.lower()
        if not sign or (role not in ONE and role not in SEVERAL and role not in LETTERS):
            raise UsageError(f"--set={text}: write ROLE=COLUMN{did_you_mean(role, ROLE_NAMES)}")
        if not column.strip():
            without.add(role)
            continue
        place = sheet.position(column)
        if place is None:
            there = [sheet.shown(place) for place, name in enumerate(sheet.columns) if name]
            raise UsageError(f"--set={text}: no column '{column.strip()}'{did_you_mean(column.strip(), there)}")
        if role in several:
            several[role].append(place)
        elif one.setdefault(role, place) != place:
            raise UsageError(f"--set={text}: {role} is also set to '{sheet.shown(one[role])}'; write one of them")
    places = [*one.values(), *several["image"]]
    if twice := [place for place, count in Counter(places).items() if count > 1]:
        raise UsageError(f"--set: column '{sheet.shown(twice[0])}' has two roles; write one of them")
    return one, several, without


def _private(sheet: Sheet, names: Sequence[str], taken: Collection[int]) -> Iterator[int]:
    """Yield the columns without a typed role that identify people; a column of image files does not."""
    for place, name in enumerate(names):
        identifies = place not in taken and (name in PRIVATE or _identifies(sheet, place))
        if identifies and _share(sheet, place, IMAGE_FILE.search) < 0.6:
            yield place


def _of_names(sheet: Sheet, names: Sequence[str], private: Sequence[int]) -> list[int]:
    """The private columns that hold names of patients, the best first; one called "name" may name anything."""
    return [
        place
        for name in OF_NAMES
        for place in private
        if names[place] == name
        and (name not in ("name", "名字") or _share(sheet, place, lambda text: " " in text or not text.isascii()) > 0.5)
    ]


def _named(role: str, names: Sequence[str], free: Collection[int]) -> list[int]:
    """The columns that a role's names fit: its own name alone if a column has it, else every other name."""
    own = [place for place in free if names[place] == role]
    usual = usual_names(role)
    return own[:1] or [place for place in free if names[place] in usual]


def _is_kind(text: str) -> bool:
    slug = lexicon.slug(text)
    return slug in KINDS or slug in languages.KINDS


def known_names(role: str) -> frozenset[str]:
    """Return the names of columns that a benchmark file takes for a role, unless it names another column."""
    return frozenset((role, *ROLES[role], *languages.COLUMNS.get(role, ())))


def usual_names(role: str) -> frozenset[str]:
    """Return all names of columns that mean a role in people's tables."""
    return known_names(role).union(NAMES.get(role, ()))


def known_column(row: TableRow, role: str, known: Collection[str], *, several: bool = False) -> str:
    """Return the column of a role in a row with lower-case names: its own name, else one of `known` (see `plain`).

    "" without one; UsageError if several could be meant, unless `several`: then the first.
    """
    if role in row.values:
        return role
    found = [name for name in row.values if plain(name) in known]
    if len(found) > 1 and not several:
        listed = ", ".join(f"'{name}'" for name in found)
        raise UsageError(f"{row.file}: {len(found)} columns could be the {role} ({listed}). Type --set {role}=COLUMN")
    return found[0] if found else ""


def _letters(names: Sequence[str], free: Collection[int], chosen: Mapping[str, int]) -> dict[str, int]:
    """The columns of options: A, B ... or at least two that are numbered from 0 or 1."""
    letters: dict[str, int] = {}
    numbers: dict[int, int] = {}
    for place in free:
        if match := _LETTER.fullmatch(names[place]):
            letters.setdefault((match[1] or match[2]).upper(), place)
        elif match := _NUMBERED.fullmatch(names[place]):
            numbers.setdefault(int(match[1]), place)
    known = letters.keys() | chosen.keys()
    if "A" in known:
        # One missing letter is a mistake; beyond two, a column "x" is no option.
        end = next((i for i in range(len(LETTERS)) if not known & {*LETTERS[i : i + 2]}), len(LETTERS))
        return {letter: place for letter, place in letters.items() if letter in LETTERS[:end]}
    start = 0 if 0 in numbers else 1
    if {start, start + 1} <= numbers.keys():
        return {LETTERS[n - start]: place for n, place in numbers.items() if 0 <= n - start < len(LETTERS)}
    return {}


def _images(
    sheet: Sheet, names: Sequence[str], free: Sequence[int], needed: bool
) -> tuple[list[int], RoleQuestion | None]:
    """The columns of images, and a question if they cannot be told."""
    own = _named("image", names, free)
    numbered = [place for place in free if _NUMBERED_IMAGE.fullmatch(names[place])]
    files = [place for place in free if _share(sheet, place, IMAGE_FILE.search) >= 0.6 or _has_images(sheet, place)]
    if len(own) > 1:
        own = [place for place in own if place in files] or own
    if len(own) > 1:
        return [], RoleQuestion("image", tuple(own), needed, f"{len(own)} columns could be the image")
    if own or numbered:
        return list(dict.fromkeys([*own, *numbered])), None
    if len(files) == 1:
        return files, None
    if files or needed:
        why = f"{len(files)} columns hold paths of images" if files else "no column is called image"
        return [], RoleQuestion("image", tuple(files or free), needed, why)
    return [], None


def _by_content(role: str, sheet: Sheet, free: Sequence[int], chosen: Mapping[str, int]) -> list[int]:
    """The columns whose cells look like a role's."""
    if role == "question":
        return [p for p in free if _share(sheet, p, lambda text: text.rstrip().endswith(("?", "？"))) >= 0.5]
    if "A" in chosen:
        return [place for place in free if _share(sheet, place, _ANSWER.fullmatch) >= 0.8]
    return [place for place in free if not _share(sheet, place, IMAGE_FILE.search)]


def _share(sheet: Sheet, place: int, fits: Any) -> float:
    """The share of a column's texts that fit; 0 without texts."""
    texts = [value for value in sheet.values(place)[:_SAMPLE] if isinstance(value, str)]
    return sum(bool(fits(text.strip()[:2000])) for text in texts) / len(texts) if texts else 0.0


def _has_images(sheet: Sheet, place: int) -> bool:
    """Whether cells hold images, as in Parquet."""
    from medvqa.items import Image

    return any(isinstance(value, Image) for value in sheet.values(place)[:_SAMPLE])


def _identifies(sheet: Sheet, place: int) -> bool:
    """Whether the cells of a column look like names or birth dates of people."""
    import datetime

    values = sheet.values(place)[:_SAMPLE]
    if len(values) < 2 or plain(sheet.columns[place]) in (_KNOWN | ROLES.keys()):
        return False
    texts = [str(value).strip()[:100] for value in values if isinstance(value, str | int | datetime.date)]
    people = sum(bool(_PERSON.fullmatch(text)) for text in texts)
    births = sum(bool(_BIRTH.fullmatch(text)) for text in texts)
    return max(people, births) >= 0.8 * len(values) and len(set(texts)) > 1


def _is_tag(sheet: Sheet, place: int) -> bool:
    """Whether a column divides the questions into parts: 2 to MOST_VALUES short texts, of two rows each on average."""
    values = sheet.values(place)
    if not values or not all(isinstance(value, str | int | float | bool) for value in values):
        return False
    counts = Counter(str(value).strip() for value in values)
    # Numbers of patients and cases are recorded in no run; years may be.
    if all(_NUMBER_OF_A_CASE.search(text) and not _YEAR.fullmatch(text) for text in counts):
        return False
    return (
        2 <= len(counts) <= MOST_VALUES
        and 2 * len(counts) <= len(values)
        and max(map(len, counts)) <= 60
        and not any(isinstance(value, float) and not value.is_integer() for value in values)
    )


def describe(sheet: Sheet, place: int) -> str:
    """Return a column's cells in words, without any of them: "letters", "file names", "12 different values"."""
    if _share(sheet, place, _ANSWER.fullmatch) >= 0.8:
        return "letters"
    if _share(sheet, place, IMAGE_FILE.search) >= 0.6 or _has_images(sheet, place):
        return "images"
    if _share(sheet, place, lambda text: text.rstrip().endswith(("?", "？"))) >= 0.5:
        return "questions"
    values = sheet.values(place)
    different = len({str(value).strip() for value in values})
    return f"{different:,} different value{'s' * (different != 1)}"
