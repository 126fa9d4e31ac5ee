"""Write prompts for a processor as text and images, and tokenize the options that follow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medvqa.backends.hf.checkpoint_options import HFOptions
from medvqa.items import ORDERS, AnswerError, Image, Order, Prompt, Shot, UsageError
from medvqa.protocols.placing import placed

TAIL = 8
"""Number of last tokens that identify a prompt's end in the processor's output."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as text with a placeholder for each of its images."""

    text: str
    images: tuple[Image, ...]


class PromptWriter:
    """Writes prompts for one processor."""

    def __init__(self, processor: Any, options: HFOptions) -> None:
        """Take the processor. UsageError if a chat template is required and missing."""
        self._processor = processor
        self._tokenizer = getattr(processor, "tokenizer", processor)
        self._special = frozenset(self._tokenizer.all_special_ids)
        self._options = options
        template = getattr(processor, "chat_template", None)
        if options.form == "chat" and not template:
            raise UsageError("the checkpoint has no chat template: leave `form` out, and set `raw` to its prompt")
        self.form = "chat" if template and options.form != "raw" else "raw"
        token = options.image_token or getattr(processor, "image_token", None) or ""
        self.image_token = str(getattr(token, "content", token))

    def write(self, prompt: Prompt) -> Rendered:
        """The prompt as the model reads it. AnswerError if it cannot be written without loss."""
        system = prompt.system if self._options.system is None else self._options.system
        user_texts = [*(turn.text for turn in prompt.turns), prompt.text]
        replies = [*(turn.reply for turn in prompt.turns), ""]
        shown_with = [prompt.images, *(() for _ in prompt.turns)]
        turns = [*prompt.shots, *map(Shot, user_texts, replies, shown_with)]
        for text in (system, *(part for turn in turns for part in (turn.text, turn.answer))):
            if self.image_token and self.image_token in text:
                raise AnswerError(f"the prompt's text holds the model's image token {self.image_token!r}")
        rendered = self._rendered(system, turns, prompt.order)
        if prompt.order != "in-place" or self._keeps_order(rendered.text, turns):
            return rendered
        # The template moves images, or there is no token for them: keep the marks in the text.
        return self._rendered(system, turns, ORDERS[0])

    def _rendered(self, system: str, turns: Sequence[Shot], order: Order) -> Rendered:
        parts = [placed(turn.text, turn.images, order) for turn in turns]
        images = tuple(part for message in parts for part in message if not isinstance(part, str))
        written = self._chat(system, turns, parts) if self.form == "chat" else self._raw(system, turns, order)
        return Rendered(written, images)

    def _keeps_order(self, written: str, turns: Sequence[Shot]) -> bool:
        """Whether texts and images stand in a written prompt in the order of their marks.

        Some templates write another token than the processor's: then anything between two texts is taken for the image.
        """
        known = bool(self.image_token) and self.image_token in written
        at, pending = 0, False
        for turn in turns:
            for part in placed(turn.text, turn.images, "in-place"):
                if not isinstance(part, str) and not known:
                    pending = True
                    continue
                wanted = part.strip() if isinstance(part, str) else self.image_token
                found = written.find(wanted, at)
                if found < 0 or (pending and not written[at:found].strip()):
                    return False
                at, pending = found + len(wanted), False
        return known or self.form == "chat"

    def _chat(self, system: str, turns: Sequence[Shot], parts: Sequence[Sequence[str | Image]]) -> str:
        import jinja2

        messages: list[dict[str, Any]] = []
        if system:
            messages.append({"role": "system", "content": [{"type": "text", "text": system}]})
        for turn, message in zip(turns, parts, strict=True):
            content = [
                {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in message
            ]
            messages.append({"role": "user", "content": content})
            messages.append({"role": "assistant", "content": [{"type": "text", "text": turn.answer}]})
        try:
            written: str = self._processor.apply_chat_template(
                messages[:-1], add_generation_prompt=True, tokenize=False, **self._options.chat_template
            )
        except jinja2.TemplateError as error:
            hint = '; system = "" in the options leaves the system prompt out' if system else ""
            raise AnswerError(f"the model's chat template refuses the prompt: {error}{hint}") from None
        # Templates strip texts, and some drop a system prompt silently.
        if system.strip() not in written:
            raise AnswerError(
                'the model\'s chat template drops the system prompt; system = "" in the options leaves it out knowingly'
            )
        texts = [part for message in parts for part in message if isinstance(part, str)]
        if any(text.strip() not in written for text in (*texts, *(turn.answer for turn in turns))):
            raise AnswerError("the model's chat template drops a part of the prompt")
        return written

    def _raw(self, system: str, turns: Sequence[Shot], order: Order) -> str:
        """Write solved examples and the question one after another; the last turn is the question.

        Images have the place of the template, unless marks in the text are their places.
        """
        written = []
        for number, turn in enumerate(turns):
            first, inner = len(turn.images), turn.text
            if order == "in-place":
                message = placed(turn.text, turn.images, order)
                first = next((at for at, part in enumerate(message) if isinstance(part, str)), len(message))
                inner = "".join(part if isinstance(part, str) else self.image_token for part in message[first:])
            text = fill(
                self._options.raw,
                {"image": self.image_token * first, "text": inner, "system": "" if number else system},
            )
            solution = "" if number == len(turns) - 1 else f"{self._lead(text)}{turn.answer}{turn.end}"
            written.append(text + solution)
        return "".join(written)

    def special(self, text: str) -> bool:
        """Whether the tokenizer must add its special tokens: not if the text begins with them."""
        first = self._tokenizer.bos_token
        return not (first and text.startswith(first))

    def open(self, text: str) -> str:
        """The text without trailing spaces: they belong to the first token of the option."""
        return text.rstrip(" ") if self._options.lead is None else text

    def continuations(self, text: str, ids: Sequence[int], options: Sequence[str]) -> list[list[int]]:
        """The tokens of each option after `text`, whose tokens are `ids`.

        Text and option are tokenized together, because pieces may tokenize differently. AnswerError if an option has no
        tokens of its own, or changes those of the prompt.
        """
        before, *wholes = self._tails(text, options)
        if not _ends_with(ids, self._ends(before)):
            text += self._added(self._ends(before), ids)
            before, *wholes = self._tails(text, options)
            if not _ends_with(ids, self._ends(before)):
                raise AnswerError("the model's processor reads the prompt's end otherwise than its tokenizer does")
        for option, whole in zip(options, wholes, strict=True):
            if whole[: len(before)] != before or len(whole) == len(before):
                raise AnswerError(
                    f"the prompt's end {text[-20:]!r} and the option {option[:40]!r} share a token, so that the option "
                    "cannot be scored after the prompt; `lead` or `raw` in the options can part them"
                )
        return [whole[len(before) :] for whole in wholes]

    def options(self, prompt: Prompt, text: str, ids: Sequence[int]) -> list[list[int]]:
        """The tokens of each option of a scored prompt after `text`, whose tokens are `ids`; one each for technique gd.

        AnswerError if there are no such tokens.
        """
        options = prompt.options
        if not options:
            raise AnswerError(f"technique '{prompt.technique}' scores options, and {prompt.item} has none")
        if prompt.technique == "ps":
            return self.continuations(text, ids, list(options.values()))
        tokens = self.continuations(text, ids, list(options))
        if long := [
            letter for letter, tokens_of_letter in zip(options, tokens, strict=True) if len(tokens_of_letter) != 1
        ]:
            raise AnswerError(
                f"technique 'gd' reads the next token, and the letter {long[0]!r} is more than one after this prompt; "
                "technique 'ps' scores whole texts"
            )
        return tokens

    def _lead(self, text: str) -> str:
        if self._options.lead is not None:
            return self._options.lead
        parted = not text or text[-1].isspace() or text.endswith(tuple(self._tokenizer.all_special_tokens))
        return "" if parted else " "

    def _tails(self, text: str, options: Sequence[str]) -> list[list[int]]:
        """The tokens of `text`, and of `text` with each option, from the last control token on.

        Tokenizers cut there first, so earlier text does not affect later tokens.
        """
        lead, special = self._lead(text), self.special(text)
        start = max((text.rfind(token) for token in self._tokenizer.all_special_tokens), default=0)
        texts = [text[max(start, 0) :] + added for added in ("", *(lead + option.strip() for option in options))]
        ids: list[list[int]] = self._tokenizer(texts, add_special_tokens=special and start <= 0)["input_ids"]
        return ids

    def _ends(self, ids: list[int]) -> list[int]:
        """A prompt's last tokens after its last image placeholder, which is repeated for the parts of an image."""
        start = next((place for place in range(len(ids) - 1, 0, -1) if ids[place - 1] in self._special), 0)
        return ids[start:][-TAIL:]

    def _added(self, ends: list[int], ids: Sequence[int]) -> str:
        """The text that the processor appended to a prompt with these last tokens, such as a line end; else ""."""
        for count in range(1, len(ids) - len(ends) + 1):
            if _ends_with(ids[:-count], ends):
                added: str = self._tokenizer.decode(list(ids[-count:]))
                return added
        return ""


def _ends_with(ids: Sequence[int], ends: list[int]) -> bool:
    return list(ids[len(ids) - len(ends) :]) == ends


def fill(template: str, fields: Mapping[str, str]) -> str:
    """The template with its fields in braces filled in; braces in the values are plain text."""
    return re.sub("{(" + "|".join(fields) + ")}", lambda match: fields[match[1]], template)
