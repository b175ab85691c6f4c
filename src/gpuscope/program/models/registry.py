"""The list of built-in models: each family file registers its own. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.settings import ATTENTIONS, Defaults, Settings
from gpuscope.registry import Registry

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
        context: tokens that it was made for, where a longer sequence runs all the same (rotary
            positions); None for any other. Called after `load`.
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
    context: Callable[[Settings], int | None] = lambda settings: None


@dataclass(frozen=True, slots=True)
class ModelName:
    """One line of a listing of the built-in models."""

    name: str
    family: str
    description: str
    parameters: int | None
    tasks: tuple[str, ...]


MODELS = Registry[Model](Text("model"), "gpuscope.program.models", "gpuscope predict --models")
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
    return MODELS.add(model.name, model)


def _key(name: str) -> str:
    """Spellings that differ in case and in '-', '_', '/', ':' or spaces only are one name."""
    return re.sub(r"[-_/:\s]", "", name.lower())


def _named(name: str) -> str | None:
    """The model of that name or alias, among the families that are loaded; None if none."""
    return _ALIASES.get(_key(name)) or _ALIASES.get(_key(name.rpartition("/")[2]))


def model_names() -> list[ModelName]:
    """All built-in models, by family and size. Imports neither torch nor transformers."""
    models = sorted(MODELS, key=lambda m: (m.family.lower(), m.parameters or 0, m.name))
    return [
        ModelName(m.name, m.family, m.description, m.parameters, tuple(m.tasks)) for m in models
    ]


def find(name: str) -> Model:
    """The model of that name or alias.

    Case and separators do not matter, nor does an owner before "/" ("meta-llama/Llama-3.1-8B").

    Raises:
        UnknownNameError: no such model; lists the near ones.
    """
    # Most models are called after their family's file; the other families are not needed then.
    MODELS.load_namesakes(_key(name.rpartition("/")[2]))
    found = _named(name)
    if found is None:
        MODELS.load()
        found = _named(name)
    if found is None:
        from gpuscope.program.models.parallel.published import PUBLISHED

        raise UnknownNameError(
            Text("model"),
            name,
            [*MODELS.names(), *(a for m in MODELS for a in m.aliases), *PUBLISHED],
            Text("Type a built-in model's name, file.py:function, or the path of a config.json."),
        )
    return MODELS.get(found)
