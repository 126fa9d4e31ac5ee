"""Protocol: how the questions of a run are asked, and how the answers to one question are combined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from medvqa.items import Ablation, Answer, Image, Item, Prompt, Query, ReaderNote, Shot, Technique, UsageError, replace
from medvqa.metrics.confidences import Source
from medvqa.protocols import ablation, perturbation, question_forms, reasoning, rotation
from medvqa.protocols.reasoning import ABSTAIN, CONFIDENCE, INSTRUCTIONS, Instruction

Combine = Literal["mean", "vote"]
"""mean: metrics average the samples of a question. vote: the option that most samples choose."""
Reasoning = Literal["", "cot", "cot-2"]
"""cot: the prompt asks to reason, and to end with a line that holds the final answer. cot-2: to reason; a second turn
asks for the answer."""

COMBINES: tuple[Combine, ...] = get_args(Combine)
REASONINGS: tuple[str, ...] = tuple(name for name in get_args(Reasoning) if name)
ALL = "all"
"""The value of --prompt and --rotate that names all of them."""
NEEDS: Mapping[Technique, str] = {
    "mc": "generate",
    "gd": "option_logprobs",
    "ps": "option_likelihood",
    "ff": "generate",
}
"""Technique -> the capability that a model must have for it."""
Asks = Callable[[Item, Technique], Prompt]
"""A benchmark's prompt function."""

OPTION_OF: Mapping[str, str] = {
    "prompts": "--prompt",
    "samples": "--samples",
    "combine": "--combine",
    "shots": "--shots",
    "pool": "--shot-pool",
    "reasoning": "--reasoning",
    "explain": "--explain",
    "rotations": "--rotate",
    "perturb": "--perturb",
    "abstain": "--abstain",
    "confidence": "--confidence",
}
"""The fields of a protocol -> the options that set them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How the questions of a run are asked. The defaults ask each question once, by the benchmark's own prompt.

    `prompts`: names of prompts, () for the benchmark's own. `samples`: answers to each prompt, None: one without a
    number. `combine`: how samples become one answer.
    `shots`: solved examples before each question, taken from `pool` ("": the benchmark itself). `reasoning` and
    `explain` add to the prompt. `rotations`: cyclic orders of the options that each question is asked in, 0 for the
    data set's own, None for all. `readers`: the samples are readings of people, who need not all read each question.
    `perturb`: how images or questions are changed, such as "gaussian_noise:3", "" for as they are. `abstain` offers
    "cannot be determined" as an answer, and `confidence` asks for a probability that the answer is right.
    """

    prompts: tuple[str, ...] = ()
    samples: int | None = None
    combine: Combine = "mean"
    shots: int = 0
    pool: str = ""
    reasoning: Reasoning = ""
    explain: bool = False
    rotations: int | None = 0
    readers: bool = False
    perturb: str = ""
    abstain: bool = False
    confidence: bool = False

    @property
    def complete(self) -> int | None:
        """The number of samples that each question must have; None: as many as there are."""
        return None if self.readers else self.samples

    def about(self) -> dict[str, Any]:
        """Return the fields for run.json that differ from the defaults; `samples` has a field of its own, `repeat`."""
        return {name: value for name, value in self._changed().items() if name != "samples"}

    def typed(self) -> dict[str, str]:
        """Return the options that ask so, with their values as typed, "" for a switch; defaults are left out."""
        changed = self._changed()
        return {
            option: "" if changed[name] is True else _text(changed[name])
            for name, option in OPTION_OF.items()
            if name in changed
        }

    def _changed(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults."""
        default = asdict(Protocol())
        return {name: value for name, value in asdict(self).items() if value != default[name]}

    @property
    def instruction(self) -> Instruction | None:
        """The instruction that `reasoning` or `explain` adds to the prompt."""
        return INSTRUCTIONS.get("explain" if self.explain else self.reasoning)

    @property
    def instructions(self) -> dict[str, Instruction]:
        """The instructions that are added to the prompt, in their order, by the field that asks for them."""
        first = {"explain" if self.explain else "reasoning": self.instruction}
        further = {"abstain": ABSTAIN if self.abstain else None, "confidence": CONFIDENCE if self.confidence else None}
        return {name: added for name, added in {**first, **further}.items() if added is not None}

    def read(self, answer: Answer, item: Item) -> Answer:
        """Return the answer as the instructions ask for it: its text, its confidence, whether it abstains.

        `whole` then holds the reply. A refusal that the server reports, and an answer that was read before, are
        returned as they are. `item` is as its prompt shows it.
        """
        if answer.finish == "refusal" or answer.whole or answer.option_logprobs is not None:
            return answer
        read = reasoning.read_confidence(answer) if self.confidence else answer
        if self.instruction is not None:
            read = self.instruction.read(read)
        if read.text != answer.text:
            read = replace(read, whole=answer.text)
        # As a reader who cannot tell: no rule and no judge reads the answer.
        abstains = self.abstain and reasoning.abstains(item, read)
        return replace(read, noted=ReaderNote(cannot_tell=True)) if abstains else read

    def confidence_source(self, technique: str) -> Source | None:
        """Return where the confidences of answers come from, None if they have none.

        People give none, nor do answers in several orders of the options, which are folded into one. PS has numbers to
        rank by alone.
        """
        if self.readers or self.rotations != 0:
            return None
        if technique in ("gd", "ps"):
            return "option" if technique == "gd" else "for ranking"
        return "agreement" if self.combine == "vote" else "stated" if self.confidence else None

    def signature(self) -> dict[str, str]:
        """Return the parts of a measure's signature, as texts. Defaults are left out, as in earlier versions.

        Prompts are left out too: the signature names their templates with digests.
        """
        parts = {name: value for name, value in self.about().items() if name not in ("prompts", "readers")}
        if self.samples is not None:
            parts["repeat"] = self.samples
        parts |= {name: instruction.label for name, instruction in self.instructions.items()}
        return {name: _text(value) for name, value in parts.items()}

    @property
    def label(self) -> str:
        """How questions are asked, for titles, in few words: "prompt 4-expert, 3 shots"; "" for the defaults.

        Several prompts are no part of it: tables show the measures of each.
        """
        names = [f"prompt {name}" for name in self.prompts if len(self.prompts) == 1 and name not in (ALL, "default")]
        if self.shots:
            number = f"{self.shots} shot{'s' * (self.shots > 1)}"
            names.append(f"{number} from {self.pool}" if self.pool else number)
        names += ["explain"] if self.explain else [self.reasoning] if self.reasoning else []
        names += [perturbation.in_words(self.perturb)] if self.perturb else []
        names += [name for name in ("abstain", "confidence") if getattr(self, name)]
        return ", ".join(names)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    if value is None:
        return ALL
    return f"{value:g}" if isinstance(value, float) else "yes" if value is True else str(value)


def check(protocol: Protocol) -> None:
    """Raise UsageError for settings that contradict each other."""
    if protocol.combine != "mean" and protocol.samples is None:
        raise UsageError(f"--combine={protocol.combine}: it combines several answers; add --samples=N")
    if protocol.pool and not protocol.shots:
        raise UsageError(f"--shot-pool={protocol.pool}: no solved examples are asked for; add --shots=N")
    reasons = f"reasoning={protocol.reasoning}"
    for name, lacking, value in (
        ("explain", "reasoning", protocol.explain),
        (reasons, "reasoning", protocol.reasoning),
        ("confidence", "a confidence", protocol.confidence),
    ):
        if protocol.shots and value:
            raise UsageError(
                f"--shots={protocol.shots} and --{name}: the solved examples have answers without {lacking}, and would "
                "teach the model to give none; leave one of them out"
            )
    for name in ("abstain", "confidence"):
        if getattr(protocol, name) and protocol.instruction is not None and protocol.instruction.then:
            raise UsageError(
                f"--{name} and --{reasons}: its second turn asks for the answer alone; type --reasoning=cot"
            )
    if protocol.confidence and protocol.combine == "vote":
        raise UsageError(
            "--confidence and --combine=vote: the confidence of a vote is the share of samples that agree; leave "
            "--confidence out"
        )
    if protocol.explain and protocol.reasoning:
        raise UsageError(f"--explain and --reasoning={protocol.reasoning}: both say how to answer; leave one out")


def check_able(techniques: Iterable[Technique], able: Iterable[str], spec: str) -> None:
    """UsageError for a technique that needs a capability which the model does not have."""
    able = frozenset(able)
    others = ", ".join(name for name, need in NEEDS.items() if need in able)
    asked = f"; it can be asked by {others}" if others else ""
    for technique in techniques:
        if NEEDS[technique] not in able:
            raise UsageError(
                f"technique '{technique}' needs a model that can {NEEDS[technique]}; "
                f"'{spec}' has: {', '.join(sorted(able)) or 'nothing'}{asked}"
            )


def as_shown(query: Query, protocol: Protocol) -> Item:
    """Return the item as its answers are read: options and key as `protocol.perturb` and the rotation show them.

    The question stays that of `query.item`.
    """
    item = question_forms.offered(query.item, protocol.perturb) if protocol.perturb else query.item
    return item if query.variant.rotation is None else rotation.rotated(item, query.variant.rotation)


def assembled(
    query: Query,
    asks: Asks,
    protocol: Protocol,
    ablated: Ablation | None = None,
    *,
    images: tuple[Image, ...] | None = None,
    shots: tuple[Shot, ...] = (),
) -> Prompt:
    """Return the prompt of a question as a run sends it, but for the limit of tokens.

    `query.item` has its question in the form of `protocol.perturb` (`question_forms.Form.formed`).
    `images` replace those of the item, for --ablate=shuffle. `shots` are its solved examples, before their images are
    ablated.
    """
    item = as_shown(query, protocol)
    if images is not None:
        item = replace(item, images=images)
    prompt = asks(item, query.technique)
    for instruction in protocol.instructions.values():
        prompt = instruction.added(prompt)
    if protocol.shots:
        prompt = replace(prompt, shots=shots)
    if query.sample or query.variant.name:
        prompt = replace(prompt, sample=query.sample, variant=query.variant.name)
    if protocol.perturb:
        # Solved examples stay as they are: they show how to answer.
        prompt = replace(prompt, images=perturbation.altered(prompt.images, query.item, protocol.perturb))
    if ablated == "text-only":
        return ablation.withhold(prompt)
    return ablation.blank(prompt) if ablated == "blank" else prompt
