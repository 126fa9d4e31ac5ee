"""Name the one setting in which two runs differ, so that their difference is the effect of that setting.

Nothing else may differ: not the model, the data, the extraction, the judge or the answer key. A gate allows no setting
to differ (`sides.refusals`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from medvqa.comparing import sides
from medvqa.comparing.sides import Side
from medvqa.items import Technique
from medvqa.protocols.protocol import ALL
from medvqa.protocols.shots import OWN_POOL
from medvqa.records import configuration

OWN_PROMPT = "the benchmark's own"
"""The prompt of a run that names none."""
PROMPT, TECHNIQUE, TOKENS, IMAGE, PERTURB = "prompt", "technique", "max-tokens", "ablate", "perturb"
_Values = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that differs between two runs: its key, its name, and its values in both, in words.

    `effect` is the meaning of new minus baseline, such as "the gain of 3 shots". `reverse`: the baseline has the
    setting, and the new run lacks it.
    """

    setting: str
    name: str
    new: str
    baseline: str
    effect: str
    reverse: bool = False

    def line(self, new: str, baseline: str) -> str:
        """Name the setting and its values in the runs of these names: `the image: blank in NEW, shown in BASE`."""
        return f"{self.name}: {self.new} in {new}, {self.baseline} in {baseline}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """The one `difference` of two runs, None without one, and the reasons why they are not comparable."""

    difference: Difference | None
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Setting:
    """A setting that may differ: its name, the parts of a signature that hold it, and their values in words.

    `gain` names a value that adds something, with {} for its words; "" if no value is less than another.
    """

    name: str
    parts: tuple[str, ...]
    say: Callable[[_Values], str]
    gain: str = ""

    def of(self, signature: _Values) -> _Values:
        """The parts of a signature that hold this setting; {} for its default."""
        return {part: signature[part] for part in self.parts if part in signature}


def _samples(values: _Values) -> str:
    if "repeat" not in values:
        return "one answer"
    return f"{values.get('combine', 'mean')} of {values['repeat']} answers"


def _shots(values: _Values) -> str:
    number = values.get("shots", "0")
    pool = f" from {values['pool']}" if "pool" in values and not values["pool"].startswith(OWN_POOL) else ""
    return f"{number} shot{'' if number == '1' else 's'}{pool}"


def _orders(values: _Values) -> str:
    number = values.get("rotations", "")
    return "every order" if number == ALL else f"{number} orders" if number else "the data set's order"


def _image(values: _Values) -> str:
    ablation = values.get("ablation", "")
    return {"": "shown", "text-only": "left out", "shuffle": "of another question"}.get(ablation, ablation)


SETTINGS: Mapping[str, _Setting] = {
    IMAGE: _Setting("the image", ("ablation",), _image, "the image"),
    PERTURB: _Setting("the perturbation", ("perturb",), lambda values: values.get("perturb", "none")),
    "shots": _Setting("the shots", ("shots", "pool"), _shots, "{}"),
    "reasoning": _Setting(
        "the reasoning", ("reasoning",), lambda values: values.get("reasoning", "none"), "reasoning ({})"
    ),
    "explain": _Setting(
        "the explanation",
        ("explain",),
        lambda values: "asked for" if values else "not asked for",
        "an explanation",
    ),
    "abstain": _Setting(
        "the offer to abstain",
        ("abstain",),
        lambda values: "made" if values else "not made",
        "an offer to abstain",
    ),
    "confidence": _Setting(
        "the confidence",
        ("confidence",),
        lambda values: "asked for" if values else "not asked for",
        "being asked for a confidence",
    ),
    "samples": _Setting("the answers", ("repeat", "combine"), _samples),
    "rotate": _Setting("the order of options", ("rotations",), _orders),
}
"""Settings that a signature holds, by the option of a run that sets them."""
INSTRUCTED = ("reasoning", "explain", "abstain", "confidence")
"""Settings whose instructions stand in the labels of templates."""
PARTS: Mapping[str, str] = {part: key for key, setting in SETTINGS.items() for part in setting.parts}
"""Part of a signature -> its setting."""


def contrast(new: Side, baseline: Side) -> Contrast:
    """Return the one setting in which two runs differ, and the reasons why they are not comparable.

    Runs that differ in exactly one setting are comparable. A second difference is named beside the first.
    """
    refused = [reason for reason in sides.refused(new, baseline) if not _follows(reason, new, baseline)]
    lines = tuple(reason.line for reason in refused)
    settings = [_setting(reason, new, baseline) for reason in refused]
    if None in settings:
        return Contrast(None, lines)
    differences = _differences(new, baseline, {setting for setting in settings if setting is not None})
    other_model = _other_model(new, baseline)
    if len(differences) == 1 and not other_model:
        return Contrast(differences[0], ())
    if not refused:
        return Contrast(None, ())
    named = [difference.line(new.name, baseline.name) for difference in differences]
    if other_model:
        named.insert(0, f"the model: {new.model} in {new.name}, {baseline.model} in {baseline.name}")
    if len(named) < 2:
        return Contrast(None, lines)
    # The settings in words say all that the lines about parts of signatures would.
    return Contrast(None, (f"{len(named)} settings differ, so no effect can be told: {'; '.join(named)}",))


def changed(difference: Difference | None) -> bool:
    """Whether images or questions were changed, and nothing else: such runs are no rivals."""
    return difference is not None and difference.setting in (IMAGE, PERTURB)


def aligned(first: Side, second: Side, difference: Difference | None) -> Side:
    """Return the second run, its results under the technique of the first if the technique is the difference."""
    if difference is None or difference.setting != TECHNIQUE:
        return second
    techniques: dict[str, Technique] = {result.item.benchmark: result.technique for result in first.results}
    results = (
        replace(result, technique=techniques.get(result.item.benchmark, result.technique)) for result in second.results
    )
    return replace(second, results=tuple(results))


def notes(new: Side, baseline: Side) -> list[str]:
    """Notes on differences that do not prevent a comparison, one line each, as `sides.notes`."""
    return sides.notes(new, aligned(new, baseline, contrast(new, baseline).difference))


def _follows(reason: sides.Refused, new: Side, baseline: Side) -> bool:
    """Whether a prompt differs only in instructions, such as to reason, which are settings of their own."""
    if reason.part != sides.PROMPT:
        return False
    return all(
        _without_instruction(new, name, technique) == _without_instruction(baseline, name, technique)
        for name in baseline.asked
        for technique in baseline.asked[name]
        if technique in new.asked.get(name, ())
    )


def _without_instruction(side: Side, benchmark: str, technique: str) -> list[str]:
    """The labels of the templates, without those of the instructions that a signature names."""
    signature, labels = side.signature(benchmark), side.prompt(benchmark, technique) or ""
    for part in INSTRUCTED:
        if part in signature:
            labels = labels.replace(f"+{signature[part]}", "")
    return sorted(labels.split("+"))


def _setting(reason: sides.Refused, new: Side, baseline: Side) -> str | None:
    """The setting that a reason is about; None if runs that differ in it are never comparable."""
    if reason.part == sides.PROMPT:
        return PROMPT
    if reason.part == sides.TECHNIQUE:
        single = all(len(techniques) == 1 for side in (new, baseline) for techniques in side.asked.values())
        return TECHNIQUE if single else None
    return PARTS.get(reason.part)


def _differences(new: Side, baseline: Side, settings: Collection[str]) -> list[Difference]:
    """The settings that differ, without the model; `settings`: those of refusals."""
    shared = [name for name in new.asked if name in baseline.asked]
    differences = []
    for key, setting in SETTINGS.items():
        values = [(setting.of(new.signature(name)), setting.of(baseline.signature(name))) for name in shared]
        if apart := [pair for pair in values if pair[0] != pair[1]]:
            differences.append(_of_signature(key, setting, apart))
    for key, name, words in ((PROMPT, "the prompt", _prompts), (TECHNIQUE, "the technique", _techniques)):
        if key in settings:
            differences.append(_plain(key, name, *words(new, baseline, shared)))
    if (limits := _token_limits(new, baseline, shared, typed=bool(differences))) is not None:
        differences.append(_plain(TOKENS, "the token limit", *limits))
    return differences


def _of_signature(key: str, setting: _Setting, apart: Sequence[tuple[_Values, _Values]]) -> Difference:
    plain = [(_undigested(ours), _undigested(theirs)) for ours, theirs in apart]
    if all(ours != theirs for ours, theirs in plain):
        apart = plain
    new, baseline = (", ".join(dict.fromkeys(setting.say(pair[side]) for pair in apart)) for side in (0, 1))
    if new == baseline:
        new, baseline = (", ".join(dict.fromkeys(" ".join(pair[side].values()) for pair in apart)) for side in (0, 1))
    ours, theirs = apart[0]
    if not setting.gain or (ours and theirs):
        return _plain(key, setting.name, new, baseline)
    # An ablation takes the image away; every other setting adds something.
    gains = bool(ours) != (key == IMAGE)
    effect = (
        f"the gain of {setting.gain.format(setting.say(ours or theirs))}{'' if gains else ', with the sign reversed'}"
    )
    return Difference(key, setting.name, new, baseline, effect, not gains)


def _undigested(values: _Values) -> _Values:
    """Values without the digests that tell versions apart."""
    return {part: re.sub("@[0-9a-f]{8,}", "", value) for part, value in values.items()}


def _plain(key: str, name: str, new: str, baseline: str) -> Difference:
    what = f"{name} {new}" if key == PROMPT else new
    return Difference(key, name, new, baseline, f"the effect of {what} instead of {baseline}")


def _prompts(new: Side, baseline: Side, benchmarks: Iterable[str]) -> tuple[str, str]:
    """The names of the prompts of both runs, else the labels of their templates."""
    ours, theirs = (side.run.protocol.prompts for side in (new, baseline))
    if ours != theirs:
        return ", ".join(ours or [OWN_PROMPT]), ", ".join(theirs or [OWN_PROMPT])
    return _templates(new, benchmarks), _templates(baseline, benchmarks)


def _templates(side: Side, benchmarks: Iterable[str]) -> str:
    labels = [side.prompt(name, technique) for name in benchmarks for technique in side.asked[name]]
    return ", ".join(dict.fromkeys(label or "not recorded" for label in labels))


def _techniques(new: Side, baseline: Side, benchmarks: Iterable[str]) -> tuple[str, str]:
    names = list(benchmarks)
    ours, theirs = (dict.fromkeys(t for name in names for t in side.asked[name]) for side in (new, baseline))
    return ", ".join(ours), ", ".join(theirs)


def _token_limits(new: Side, baseline: Side, benchmarks: Iterable[str], *, typed: bool) -> tuple[str, str] | None:
    """The token limits of both runs if they differ.

    `typed`: compare those of --max-tokens alone. Another limit comes with another setting, such as reasoning.
    """
    if typed:
        ours, theirs = (side.run.options.max_tokens for side in (new, baseline))
        return None if ours == theirs else (_limit(ours), _limit(theirs))
    for name in benchmarks:
        for technique in new.asked[name]:
            now, was = (sides.token_limits(side, name, technique) for side in (new, baseline))
            if technique in baseline.asked[name] and now and was and now != was:
                return f"{now} tokens", f"{was} tokens"
    return None


def _limit(typed: int | None) -> str:
    return "default" if typed is None else f"{typed or 'no'} tokens"


def _other_model(new: Side, baseline: Side) -> bool:
    """Whether two runs have different models: by fingerprints if both have one, else by configs and names."""
    prints = [side.run.model.fingerprint for side in (new, baseline)]
    if None not in prints:
        return prints[0] != prints[1]
    one, other = (configuration.configuration(side.run) for side in (new, baseline))
    return new.model != baseline.model or bool(
        configuration.differences(one, other, lambda each: each.part == "config")
    )
