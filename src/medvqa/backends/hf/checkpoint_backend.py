"""What the ways of running a checkpoint in this process have in common (`hf`, `vllm`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from medvqa.backend import JUDGE_TOKENS, Backend
from medvqa.backends.hf import checkpoint
from medvqa.backends.hf.adapting import Adapted
from medvqa.backends.hf.checkpoint_options import CheckpointOptions
from medvqa.items import TokenLimits


class CheckpointBackend(Backend):
    """A checkpoint, or a LoRA adapter with its base. `load` of a subclass sets `_adapted` and `_digests`."""

    capabilities = frozenset({"generate", "option_logprobs", "option_likelihood"})
    sends_to = None
    options: CheckpointOptions
    argument_is_path = True
    converses = True
    _resources: Mapping[str, float] | None = None
    _adapted: Adapted
    _digests: Mapping[str, str]

    @property
    def title(self) -> str:
        """The folder's name, or the repository's, and those of adapters that the options name."""
        names = [self.argument or self.name, *self.options.adapters]
        local = [checkpoint.local(name) if name else None for name in names]
        return " + ".join(
            name if there is None else there.folder.name for name, there in zip(names, local, strict=True)
        )

    @property
    def resources(self) -> Mapping[str, float]:
        """The GPUs of one copy, unless it takes none or a config says otherwise."""
        return {"gpus": self.options.gpus} if self._resources is None else self._resources

    @resources.setter
    def resources(self, value: Mapping[str, float]) -> None:
        self._resources = value

    def consent(self) -> str | None:
        """An action that needs the user's own consent, beyond the config's; None if there is none."""
        return "runs Python code that comes with its checkpoint" if self.options.trust_remote_code else None

    def token_limits(self) -> TokenLimits:
        """The default token limit. There is always one, as a checkpoint may never write its end token."""
        options = self.options
        return TokenLimits(options.own_tokens, configured=options.max_new_tokens is not None, required=True)

    def as_judge(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options of a judge, with a higher token limit: a judge explains itself."""
        return {"max_new_tokens": JUDGE_TOKENS, **options}

    def fingerprint(self) -> str:
        """SHA-256 (hex) over the digests of all files and all settings that can change an answer."""
        what = {"digests": self._digests, "revision": self._adapted.base.revision, "settings": self._settings()}
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=repr).encode()).hexdigest()

    def identified(self) -> str:
        """Name the evidence: the fingerprint covers the weights."""
        return "digests of its weights"

    def _settings(self) -> dict[str, Any]:
        """The effective settings, besides files, that can change an answer."""
        raise NotImplementedError
