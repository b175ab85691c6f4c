"""The list of built-in models: each family file registers its own. Imports no torch."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from gpuscope.errors import UnknownNameError
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.settings import ATTENTIONS, Defaults, Settings

__all__ = ["Model", "ModelName", "find", "model_names", "register"]

Step = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One built-in model.

    Attributes:
        name: as people write it, lower case.
        family: e.g. "Llama"; groups the listing.
        description: one line.
        parameters: published number of parameters; None if not published.
        tasks: defaults by task; the first task is the model's own default.
        load: imports what `build` needs (torch, transformers). Call it before capturing: what is
            imported inside a capture would run under its fakes.
        build: makes model, data and optimizer on `settings.device` and returns the step.
        aliases: other usual names, lower case.
        attentions: attention implementations that can be chosen.
        checkpointing: whether blocks can be recomputed.
        layers: whether the number of blocks can be changed.
        fp8: whether float8 matrix multiplies are offered.
        image_multiple: the image's side must be a multiple of this.
        tokens: tokens that one step works on, where that has a meaning.
        notes: what a reader of the result should know about how the model is built.
        size: of a decoder, its sizes for a ready-made parallel program; None for other models.
            Raises UnsupportedError where the architecture has none.
    """

    name: str
    family: str
    description: str
    parameters: int | None
    tasks: Mapping[str, Defaults]
    load: Callable[[], None]
    build: Callable[[Settings], Step]
    aliases: tuple[str, ...] = ()
    attentions: tuple[str, ...] = ATTENTIONS
    checkpointing: bool = True
    layers: bool = True
    fp8: bool = False
    image_multiple: int = 1
    tokens: Callable[[Settings], int | None] = lambda settings: None
    notes: tuple[str, ...] = ()
    size: Callable[[], TransformerSize] | None = None


@dataclass(frozen=True, slots=True)
class ModelName:
    """One line of a listing of the built-in models."""

    name: str
    family: str
    description: str
    parameters: int | None
    tasks: tuple[str, ...]


_MODELS: dict[str, Model] = {}
_ALIASES: dict[str, str] = {}


def register(model: Model) -> Model:
    """Add a model to the list; called by the family files when they are imported.

    Raises:
        ValueError: the name or an alias is taken (a mistake in a family file).
    """
    for name in (model.name, *model.aliases):
        if _key(name) in _ALIASES:
            raise ValueError(f"model name '{name}' is registered twice")
        _ALIASES[_key(name)] = model.name
    _MODELS[model.name] = model
    return model


def _key(name: str) -> str:
    """Spellings that differ in case and in '-', '_', '/', ':' or spaces only are one name."""
    return re.sub(r"[-_/:\s]", "", name.lower())


@cache
def _discover() -> None:
    package = importlib.import_module("gpuscope.program.models")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.ispkg:
            importlib.import_module(f"{package.__name__}.{module.name}")


def model_names() -> list[ModelName]:
    """All built-in models, by family and size. Imports neither torch nor transformers."""
    _discover()
    models = sorted(_MODELS.values(), key=lambda m: (m.family.lower(), m.parameters or 0, m.name))
    return [
        ModelName(m.name, m.family, m.description, m.parameters, tuple(m.tasks)) for m in models
    ]


def find(name: str) -> Model:
    """The model of that name or alias.

    Case and separators do not matter, nor does an owner before "/" ("meta-llama/Llama-3.1-8B").

    Raises:
        UnknownNameError: no such model; lists the near ones.
    """
    _discover()
    found = _ALIASES.get(_key(name)) or _ALIASES.get(_key(name.rpartition("/")[2]))
    if found is None:
        raise UnknownNameError(
            "model", name, [*_MODELS, *(a for m in _MODELS.values() for a in m.aliases)],
            "Type a built-in model's name, file.py:function, or the path of a config.json.",
        )  # fmt: skip
    return _MODELS[found]
