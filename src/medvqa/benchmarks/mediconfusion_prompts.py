r"""MediConfusion's prompts: its owners' own, those of its Table 4, and those of each model in the owners' code.

Official prompts: configs/prompts/answering.json of
https://github.com/AIF4S/MediConfusion/tree/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7
"""

from __future__ import annotations

from dataclasses import replace

from medvqa.protocols.prompts import Template, Templates

MC = Template(
    name="mediconfusion/mc",
    system="You are a helpful assitant expert in medical domain.",
    text="Based on the image, choose the correct option for the following question.\nQuestion: {question}\n{options}"
    "Answer with the option's letter from the given choices directly. Your answer should be just one letter.\nAnswer: ",
    option="{letter}: {text}\n",
    max_tokens=32,
)
"""The owners' prompt for chat models (`gpt`, `gemini` and `claude` in their code), in their spelling.

Their `set_model_params` sets 32 new tokens for MC, which reaches LLaVA-Med, BLIP-2, InstructBLIP, Molmo and
Med-Flamingo. Configs of models with another limit have it under [max_tokens] (docs/techniques.md)."""

GD = replace(
    MC,
    name="mediconfusion/gd",
    text=MC.text.replace(" Your answer should be just one letter.", ""),
    system="",
    max_tokens=None,
)
"""Their `greedy`. It needs logits, so it goes to open models alone, to which their code sends no system prompt."""

PS = Template("mediconfusion/ps", "Question: {question} Answer:")
"""Their `prefix`, `Question: {} Answer: {}`, up to the option. Their code for chat models (`do_prefix_forward` of
Models/llava.py and Models/deepseek.py) leaves the two words out and sends the question as it is."""

FF = Template(
    "mediconfusion/ff",
    "Based on the image, answer following question.\n{question}",
    system=MC.system,
    max_tokens=512,
)
"""Their `gpt4`, named after the judge. Each model has its own limit: the largest is 512 (DeepSeek-VL2); GPT and Gemini
have none."""

ORIGINAL = Templates("default", {"mc": MC, "gd": GD, "ps": PS, "ff": FF})

HEAD = "Based on the image, choose the correct option for the following question."
TAIL = "Answer with the option's letter from the given choices directly. Your answer should be just one letter."
LETTER = "Answer with the option's letter directly."
RADIOLOGY = "You are given a radiology image, "


def _variation(name: str, head: str, tail: str, answer: str = "Answer: ") -> Templates:
    """A prompt of Table 4, with the line breaks of the owners' code."""
    before = f"{head}\n" if head else ""
    after = f"{tail}\n" if tail else ""
    text = f"{before}Question: {{question}}\n{{options}}{after}{answer}"
    return Templates(name, {"mc": replace(MC, name=f"mediconfusion/{name}", text=text)})


VARIATIONS: tuple[Templates, ...] = (
    Templates("0-original", {"mc": MC}),
    _variation("1-short", "Answer the following question about the image.", LETTER),
    _variation(
        "2-options-last",
        "Answer the following question about the image with the correct option's letter directly.",
        "",
    ),
    _variation("3-careful", "Carefully and skillfully review the image and answer the following question.", LETTER),
    _variation(
        "4-expert",
        f"You are an expert radiologist AI with deep knowledge in radiology image analysis. {HEAD}",
        LETTER,
    ),
    _variation("5-a-or-b", HEAD, "Simply respond with 'A' or 'B' based on your answer."),
    _variation(
        "6-please",
        "Based on the image, please choose the correct option for the following question.",
        "Please answer with the option's letter from the given choices directly.",
    ),
    Templates(
        "7-one-line",
        {
            "mc": replace(
                MC,
                name="mediconfusion/7-one-line",
                text=f"{HEAD} Question: {{question}} {{options}}{TAIL} Answer: ",
                option="Option {letter}: {text} ",
            )
        },
    ),
    _variation(
        "8-explained",
        f"{RADIOLOGY}based on which you will need to carefully answer a medical question related to the image. You "
        "will be given two answer options: A and B from which you have to choose the right answer. The correct answer "
        "can always be determined just by looking at the radiology image itself. Take a close look at the image think "
        "carefully, and answer the following question.",
        TAIL,
    ),
    _variation("9-bare", "", "", "Correct answer option: "),
    _variation(
        "10-important",
        f"{RADIOLOGY}and your critical task is to take a close look and choose the correct option for the following "
        "question. It is extremely important to answer the following question correctly.",
        TAIL,
    ),
)
"""The prompts of Table 4 by their numbers, for MC. #0 has the bytes of the owners' code. The paper prints the others
without line breaks: these breaks, straight apostrophes and the system prompt of #0 are our reading."""


def _quoted(name: str) -> Template:
    """The owners' `default` of MC. Their `molmo` of GD has the same text."""
    return replace(
        MC,
        name=f"mediconfusion/owners-{name}",
        text=MC.text.removesuffix("Answer: ") + '#answer: ("',
        option='("{letter}": {text})\n',
        system="",
    )


def _text_first(templates: Templates, name: str, *, system: str | None = None) -> Templates:
    """The same prompts with the text before the image; PS keeps its order. `system` replaces the system prompt."""
    changed = {
        technique: template
        if technique == "ps"
        else replace(
            template,
            name=f"{template.name}-text-first",
            order="text-first",
            system=template.system if system is None else system,
        )
        for technique, template in templates.by_technique.items()
    }
    return Templates(name, changed)


_FF_PLAIN = replace(FF, name="mediconfusion/owners-ff", system="")
_DEFAULT = Templates("owners-default", {"mc": _quoted("mc"), "gd": GD, "ps": PS, "ff": _FF_PLAIN})
_CHAT = Templates("chat", {"mc": MC, "ff": FF})
_TURNS = Template("mediconfusion/owners-ps-turns", "{question}")
"""The question alone: in a chat, the option is the model's turn."""
_CHAT_PLAIN = Templates(
    "deepseek",
    {"mc": replace(MC, name="mediconfusion/owners-chat-mc", system=""), "gd": GD, "ps": _TURNS, "ff": _FF_PLAIN},
)
_BLIP_2 = Template(
    "mediconfusion/owners-blip-2",
    f"Question: {HEAD} {{question}}\n{{options}}"
    "Answer with the option's letter from the given choices directly. Answer:",
    MC.option,
    max_tokens=MC.max_tokens,
)


def _like(templates: Templates, name: str, **by_technique: Template) -> Templates:
    """The same prompts under another name, with other templates for some techniques."""
    return Templates(name, {**templates.by_technique, **by_technique})  # type: ignore[dict-item]


OWNERS: tuple[Templates, ...] = (
    _DEFAULT,
    _like(_CHAT, "claude"),
    _text_first(_CHAT, "gpt"),
    _text_first(_CHAT, "gemini"),
    _text_first(_CHAT, "o1", system=""),
    _CHAT_PLAIN,
    _like(_CHAT_PLAIN, "llava-med"),
    _text_first(_like(_DEFAULT, "llava", ps=_TURNS), "llava"),
    _like(_DEFAULT, "llama", ps=Template("mediconfusion/owners-ps-llama", "Question: {question}")),
    _like(_DEFAULT, "molmo", gd=replace(_quoted("gd"), max_tokens=None)),
    _like(_DEFAULT, "instructblip"),
    _like(_DEFAULT, "radfm", ps=_TURNS),
    _like(
        _DEFAULT,
        "blip-2",
        mc=_BLIP_2,
        gd=replace(_BLIP_2, max_tokens=None),
        ff=Template("mediconfusion/owners-blip-2-ff", "Question: {question} Answer:", max_tokens=FF.max_tokens),
    ),
)
"""The prompts by the model that the owners' code asks with them: text, system prompt, and order of text and image.
Sources: configs/prompts/answering.json, and ask_question and do_prefix_forward of Models/NAME.py, at
https://github.com/AIF4S/MediConfusion/tree/a3045b03a0a2b5e9f051842e3fd088ed0861f2b6"""
