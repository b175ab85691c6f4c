"""The built-in models as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpuscope.document import format as units
from gpuscope.program.models.registry import ModelName
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import left, right, table

SCHEMA_VERSION = 1


def model_table(models: Sequence[ModelName], lang: str = "en") -> RenderableType:
    """Return a table of the models, in their order."""
    rows = table(
        left(tr("name", lang)),
        left(tr("family", lang)),
        right(tr("parameters", lang)),
        left(tr("tasks", lang)),
        left(tr("description", lang), ratio=1),
    )
    rows.expand = True
    family = ""
    for model in models:
        rows.add_row(
            Text(model.name, style="bold"),
            Text(model.family if model.family != family else "", style="dim"),
            units.count(model.parameters, lang),
            " ".join(model.tasks),
            Text(model.description, style="dim"),
        )
        family = model.family
    about = tr("{n} models. Predict one: gpuscope predict gpt2 --on h200", lang, n=len(models))
    return Group(rows, Text(), Text(about, style="dim"))


def models_document(models: Sequence[ModelName]) -> dict[str, Any]:
    """Return the versioned document that `gpuscope models --json` prints."""
    return {
        "schema": "gpuscope.models",
        "version": SCHEMA_VERSION,
        "models": [
            {
                "name": m.name,
                "family": m.family,
                "description": m.description,
                "parameters": m.parameters,
                "tasks": list(m.tasks),
            }
            for m in models
        ],
    }
