"""What travels between the driver and the actors: models as blueprints, prompts with the bytes of their images."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from medvqa.backend import Backend, says
from medvqa.items import DataError, Image, Prompt

if TYPE_CHECKING:
    import PIL.Image

PASSED = ("OPENAI_BASE_URL", "HF_TOKEN")
"""Environment variables that models read, beside those that hold keys (`Backend.secrets`)."""


@dataclass(frozen=True, slots=True)
class TravellingImage(Image):
    """An image whose encoded bytes travel with it, for a process that does not see its file.

    `data` holds them as stored, with base64 undone. `drawn`: they are the picture itself as PNG, of a medical file.
    `problem`: why there are none.
    """

    data: Any = field(default=b"", repr=False, compare=False)
    drawn: bool = False
    problem: str = ""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Send the bytes out of band: they are copied once, into the object store."""
        values = [getattr(self, part.name) for part in fields(self) if part.name != "data"]
        data = pickle.PickleBuffer(self.data) if protocol >= 5 and self.data else bytes(self.data)
        return _received, (values, data)

    def pil(self) -> PIL.Image.Image:
        """Return the picture, as `Image.pil`."""
        # The name holds the view, which has been drawn.
        return Image.pil(replace(self, name=self.file, window=None, view="", drawn=False) if self.drawn else self)

    def _opened_file(self) -> Any:
        return _nothing(self)

    def _stored(self) -> bytes:
        if self.problem:
            raise DataError(self.problem)
        if self.digest and not self.drawn and hashlib.sha256(self.data).hexdigest() != self.digest:
            raise DataError(f"image {self.name}: the file has changed since it was indexed")
        return bytes(self.data)


def _received(values: Sequence[Any], data: Any) -> TravellingImage:
    names = [part.name for part in fields(TravellingImage) if part.name != "data"]
    return TravellingImage(**dict(zip(names, values, strict=True)), data=data)


@contextmanager
def _nothing(image: TravellingImage) -> Iterator[tuple[str, io.BytesIO | None]]:
    """Yield neither kind nor file: the bytes are those that `_stored` returns."""
    yield "", None


def sent(image: Image) -> Image:
    """Return the image with its bytes; blank images need none. An unreadable one raises its error where it is read."""
    if image.blank:
        return image
    known = {part.name: getattr(image, part.name) for part in fields(Image)}
    known |= {"path": "", "start": 0, "length": None, "encoding": "raw", "cell": None}
    try:
        drawn = bool(image.medical_kind)
        # The digest, which takes longest, is checked where the image is read.
        return TravellingImage(**known, data=(image if drawn else replace(image, digest="")).read(), drawn=drawn)
    except DataError as error:
        return TravellingImage(**known, problem=str(error))


def packed(prompts: Sequence[Prompt], *, looks: bool) -> list[Prompt]:
    """Return prompts that can be answered on another machine; `looks`: the model looks at images."""
    if not looks:
        return list(prompts)
    known: dict[Image, Image] = {}

    def packed_images(images: Sequence[Image]) -> tuple[Image, ...]:
        for image in images:
            if image not in known:
                known[image] = sent(image)
        return tuple(known[image] for image in images)

    return [
        replace(
            prompt,
            images=packed_images(prompt.images),
            shots=tuple(replace(shot, images=packed_images(shot.images)) for shot in prompt.shots),
        )
        if prompt.images or prompt.shots
        else prompt
        for prompt in prompts
    ]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A model that is not loaded: its class, argument and options, the model that it wraps, and values assigned to it.

    `cwd` is the driver's folder, in which relative paths begin. `environment` holds variables with the model's keys.
    """

    kind: type[Backend]
    argument: str
    options: Any
    inner: Blueprint | None
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, model: Backend) -> Blueprint:
        """Return the blueprint of a model."""
        kind = type(model)
        argument = os.path.expanduser(model.argument) if kind.argument_is_path else model.argument
        if kind.argument_is_path and os.path.exists(argument):
            argument = os.path.abspath(argument)
        inner = cls.of(model.inner) if kind.wraps else None
        return cls(kind, argument, model.options, inner, os.getcwd(), environment(model.secrets()))

    def make(self) -> Backend:
        """Return the model, not loaded."""
        return self.kind(self.argument, self.options, None if self.inner is None else self.inner.make())


def environment(secrets: Collection[str]) -> dict[str, str]:
    """Return the variables of the environment that hold keys of a model, or that models read beside them."""
    return {
        name: value
        for name, value in os.environ.items()
        if (value.strip() in secrets and value.strip()) or (name in PASSED and value)
    }


def pickled(blueprint: Blueprint) -> bytes:
    """Return the blueprint as bytes for other processes; classes of the user's own files are sent by value."""
    from ray import cloudpickle

    modules = list(_own_modules(blueprint))
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        content: bytes = cloudpickle.dumps(blueprint)
        return content
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _own_modules(blueprint: Blueprint) -> Iterator[ModuleType]:
    """Yield the modules of the user's own files that define the models, and modules beside and below these files.

    Installed packages are left out: they must be installed on the nodes too.
    """
    folders: dict[Path, None] = {}
    chosen: dict[str, ModuleType] = {}
    model: Blueprint | None = blueprint
    while model is not None:
        for kind in (*model.kind.__mro__, type(model.options)):
            module = sys.modules.get(kind.__module__)
            file = getattr(module, "__file__", None)
            if module is not None and file and is_own(kind.__module__, file):
                chosen[kind.__module__] = module
                folders[Path(file).resolve().parent] = None
        model = model.inner
    for name, module in tuple(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and is_own(name, file) and any(Path(file).resolve().is_relative_to(folder) for folder in folders):
            chosen[name] = module
    yield from chosen.values()


def is_own(name: str, file: str) -> bool:
    """Return whether a module is the user's own: of no installed package, not of Python, and not of this package."""
    if name == "__main__" or name.partition(".")[0] == "medvqa":
        return False
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not path.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve())


def fits(model: Backend) -> bool:
    """Return whether a model, or one that it wraps, takes the items of a run (`Backend.fit`)."""
    return says(type(model), "fit") or (model.wraps and fits(model.inner))


def prepares(model: Backend) -> bool:
    """Return whether a model, or one that it wraps, prepares the next batch (`Backend.prepare`)."""
    return says(type(model), "prepare") or (model.wraps and prepares(model.inner))
