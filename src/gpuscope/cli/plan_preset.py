"""`gpuscope plan --preset NAME`: options not typed are those of a question with a name."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import typer

__all__ = ["with_preset"]


def with_preset(
    context: typer.Context, name: str | None, task: str, *groups: Any
) -> tuple[Any, ...]:
    """The task and groups of options, with what a preset says of them.

    Args:
        context: says what was typed, which stands before the preset.
        name: of the preset; None: nothing changes.
        task: "train", ...
        groups: each a dataclass or a dict by the names of options.

    Raises:
        UnknownNameError: no such preset.
    """
    if name is None:
        return task, *groups
    from gpuscope.planning.presets import preset

    def typed(option: str) -> bool:
        source = context.get_parameter_source(option)
        return source is not None and source.name == "COMMANDLINE"

    values = {n: v for n, v in preset(name).values.items() if not typed(n)}
    return values.get("task", task), *(_with(group, values) for group in groups)


def _with(group: Any, values: dict[str, Any]) -> Any:
    if is_dataclass(group) and not isinstance(group, type):
        own = {field.name for field in fields(group)}
        return replace(group, **{n: v for n, v in values.items() if n in own})
    return {n: values.get(n, v) for n, v in group.items()}
