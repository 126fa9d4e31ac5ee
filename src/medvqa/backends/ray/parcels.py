"""What travels between the driver and the actors: models as blueprints, prompts with the bytes of their images."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from medvqa.backend import Backend, chain
from medvqa.items import DataError, Image, Prompt

PASSED = ("OPENAI_BASE_URL", "HF_TOKEN")
"""Environment variables that models read, beside those that hold keys (`Backend.secrets`)."""
_STDLIB = Path(sysconfig.get_path("stdlib")).resolve()


@dataclass(frozen=True, slots=True)
class TravellingImage(Image):
    """An image whose encoded bytes travel with it, for a process that does not see its file.

    `data` holds them as stored, with base64 undone. An array is pickled out of band: its bytes are copied once, into
    the object store. `drawn`: they are the picture itself as PNG, of a medical file; then `digest` is the key of the
    image. `problem`: why there are none.
    """

    data: Any = field(default=None, repr=False, compare=False)
    drawn: bool = False
    problem: str = ""

    def _stored(self) -> bytes:
        if self.problem:
            raise DataError(self.problem)
        if self.digest and not self.drawn and hashlib.sha256(self.data).hexdigest() != self.digest:
            raise DataError(f"image {self.name}: the file has changed since it was indexed")
        return bytes(self.data)


def sent(image: Image) -> Image:
    """Return the image with its bytes; blank images need none. An unreadable one raises its error where it is read."""
    if image.blank:
        return image
    known = {part.name: getattr(image, part.name) for part in fields(Image)}
    known |= {"path": "", "cell": None}
    # It is changed where it is read.
    image = replace(image, alteration=None)
    drawn = bool(image.medical_kind)
    if drawn:
        # The picture is the view already.
        known |= {"name": image.file, "window": None, "view": "", "digest": image.key}
    try:
        # The digest, which takes longest, is checked where the image is read.
        data = (image if drawn else replace(image, digest="")).read()
    except DataError as error:
        return TravellingImage(**known, problem=str(error))
    return TravellingImage(**known, data=np.frombuffer(data, np.uint8), drawn=drawn)


def packed(prompts: Sequence[Prompt], *, looks: bool) -> list[Prompt]:
    """Return prompts that can be answered on another machine; `looks`: the model looks at images."""
    if not looks:
        return list(prompts)
    sent_once = cache(sent)

    def images(of: Sequence[Image]) -> tuple[Image, ...]:
        return tuple(map(sent_once, of))

    return [
        replace(
            prompt,
            images=images(prompt.images),
            shots=tuple(replace(shot, images=images(shot.images)) for shot in prompt.shots),
        )
        for prompt in prompts
    ]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A model that is not loaded: class, argument and options of it and of those that it wraps, the outermost first.

    `cwd` is the driver's folder, in which relative paths begin. `environment` holds variables with the model's keys.
    """

    parts: tuple[tuple[type[Backend], str, Any], ...]
    cwd: str
    environment: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, model: Backend) -> Blueprint:
        """Return the blueprint of a model."""
        parts = tuple((type(part), _argument(part), part.options) for part in chain(model))
        return cls(parts, os.getcwd(), environment(model.secrets()))

    def make(self) -> Backend:
        """Return the model, not loaded."""
        *wrappers, (kind, argument, options) = self.parts
        model = kind(argument, options)
        for kind, argument, options in reversed(wrappers):
            model = kind(argument, options, model)
        return model


def _argument(model: Backend) -> str:
    if not model.argument_is_path:
        return model.argument
    path = os.path.expanduser(model.argument)
    return os.path.abspath(path) if os.path.exists(path) else path


def environment(secrets: Collection[str]) -> dict[str, str]:
    """Return the variables of the environment that hold keys of a model, or that models read beside them."""
    return {
        name: value
        for name, value in os.environ.items()
        if (value.strip() in secrets and value.strip()) or (name in PASSED and value)
    }


def pickled(blueprint: Blueprint) -> bytes:
    """Return the blueprint as bytes for other processes; modules of the user's own files are sent by value.

    These are the modules that define the models, and those beside and below their files. Installed packages are left
    out: they must be installed on the nodes too.
    """
    from ray import cloudpickle

    files = {name: Path(file).resolve() for name, module in tuple(sys.modules.items()) if (file := _file(module))}
    own = {name: file.parent for name, file in files.items() if is_own(name, file)}
    kinds = [kind for model, _, options in blueprint.parts for kind in (*model.__mro__, type(options))]
    folders = {own[kind.__module__] for kind in kinds if kind.__module__ in own}
    modules = [
        sys.modules[name] for name, place in own.items() if any(place.is_relative_to(folder) for folder in folders)
    ]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        content: bytes = cloudpickle.dumps(blueprint)
        return content
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _file(module: object) -> str | None:
    return getattr(module, "__file__", None)


def is_own(name: str, file: Path) -> bool:
    """Return whether a module is the user's own: of no installed package, not of Python, and not of this package."""
    if name == "__main__" or name.partition(".")[0] == "medvqa":
        return False
    return not ({"site-packages", "dist-packages"} & set(file.parts) or file.is_relative_to(_STDLIB))
