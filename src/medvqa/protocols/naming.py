"""Names of prompts: those that a benchmark has, and those that an option names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from medvqa.decode import did_you_mean
from medvqa.items import Benchmark, Technique, UsageError
from medvqa.protocols.prompts import Templates
from medvqa.protocols.protocol import ALL

OWN = "default"
"""The name of a benchmark's own prompt."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
"""A valid name. Names are parts of test ids, file names and variants."""
TAKEN = re.compile(r"all|default|[0-9]+|r[0-9]+")
"""Names with a meaning: rotations are r1, r2; a number alone is short for a name that begins with it."""


def is_name(name: str) -> bool:
    """Whether a prompt may have this name."""
    return NAME.fullmatch(name) is not None and TAKEN.fullmatch(name) is None


def known(benchmark: Benchmark) -> tuple[str, ...]:
    """Return the names of a benchmark's prompts, its own first."""
    return (OWN, *benchmark.prompts)


def asked(typed: Iterable[str], benchmark: Benchmark) -> tuple[str, ...]:
    """Return the names of the prompts that a benchmark is asked by, each once; ("",) for its own alone.

    `all` stands for the owners' `paper_prompts`, else for all its prompts; a number for the name that begins with
    it. UsageError for an unknown name.
    """
    names = dict.fromkeys(name for entry in typed for name in _named(entry, benchmark))
    return tuple(names) or ("",)


def _named(typed: str, benchmark: Benchmark) -> Sequence[str]:
    names = known(benchmark)
    if typed == ALL:
        if len(names) == 1:
            raise UsageError(f"--prompt={ALL}: benchmark '{benchmark.name}' has no named prompts; it has: {OWN}")
        return benchmark.owners.paper_prompts or names
    if typed in names:
        return [typed]
    if typed.isdecimal() and (numbered := [name for name in names if name.partition("-")[0] == typed]):
        return numbered[:1]
    raise UsageError(
        f"--prompt={typed}: benchmark '{benchmark.name}' has no prompt of that name"
        f"{did_you_mean(typed, names, 'it has')} A file is named with its folder or suffix: --prompt=prompts/NAME.txt"
    )


def check(names: Iterable[str], techniques: Iterable[Technique], benchmark: Benchmark) -> None:
    """Raise UsageError for a technique of the benchmark that one of the prompts does not define."""
    wanted = [technique for technique in techniques if technique in benchmark.techniques]
    for name in names:
        prompt = benchmark.prompts.get(name)
        for technique in wanted:
            if isinstance(prompt, Templates) and technique not in prompt.techniques:
                others = [other for other in benchmark.prompts if _defines(benchmark, other, technique)]
                raise UsageError(
                    f"--prompt={name}: benchmark '{benchmark.name}' has no such prompt for technique '{technique}', "
                    f"only for {', '.join(prompt.techniques)}; prompts of {technique}: {', '.join((OWN, *others))}"
                )


def of_one_turn(benchmark: Benchmark) -> tuple[str, ...]:
    """Return the names of a benchmark's named prompts without further turns."""
    return tuple(
        name for name, prompt in benchmark.prompts.items() if not (isinstance(prompt, Templates) and prompt.converses)
    )


def _defines(benchmark: Benchmark, name: str, technique: Technique) -> bool:
    prompt = benchmark.prompts[name]
    return not isinstance(prompt, Templates) or technique in prompt.techniques
