"""Options that several commands have, declared once.

A command names the group that it wants and is given what the group makes of its members:

    @grouped
    def predict_command(target: WorkloadArgument, *, options: Options, outputs: Where) -> None: ...

where `Options = Annotated[WorkloadOptions, Group(...)]`. On the command line there are the members.

What is written there is taken without typer's validators where that is the same (`AsGiven`). typer
has pydantic check every option, given or not; to import it for that is a tenth of what an answer
takes about a program that is kept. What is absent, plain text and small whole numbers need no
check; everything else gets typer's. Where typer has no such place, nothing changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard, get_args

__all__ = ["AsGiven", "Group", "grouped", "take_as_given"]


@dataclass(frozen=True, slots=True)
class Group:
    """Options that belong together.

    Attributes:
        members: by the name of the parameter: its annotation for typer, and its default.
        make: called with the members by name; what it returns is the command's argument.
    """

    members: Mapping[str, tuple[Any, Any]]
    make: Callable[..., Any]

    def without(self, *names: str) -> Group:
        """The same without some members, which `make` is then not given."""
        return Group({n: m for n, m in self.members.items() if n not in names}, self.make)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer whose groups are spread out into their members, in their place.

    Args:
        command: its parameters that are annotated with a `Group` are keyword-only.
    """
    signature = inspect.signature(command, eval_str=True)
    groups = {
        name: group
        for name, p in signature.parameters.items()
        if (group := _group_of(p.annotation)) is not None
    }

    def spread(**given: Any) -> None:
        made = {
            name: group.make(**{member: given.pop(member) for member in group.members})
            for name, group in groups.items()
        }
        command(**given, **made)

    facts: Any = spread
    facts.__name__, facts.__doc__, facts.__module__ = (
        command.__name__,
        command.__doc__,
        command.__module__,
    )
    facts.__annotations__ = {}
    facts.__signature__ = signature.replace(parameters=list(_spread(signature, groups)))
    return spread


def _group_of(annotation: Any) -> Group | None:
    return next((each for each in get_args(annotation) if isinstance(each, Group)), None)


def _spread(
    signature: inspect.Signature, groups: Mapping[str, Group]
) -> Iterator[inspect.Parameter]:
    for name, parameter in signature.parameters.items():
        if name not in groups:
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            continue
        for member, (annotation, default) in groups[name].members.items():
            yield inspect.Parameter(
                member, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )


_DIGITS = 9
"""Of whole numbers that are read here."""


class AsGiven:
    """Stands where typer has a parameter's converter, until a value needs that."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return what the command gets for a value, as typer's converter does."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        asked = param.type_descriptor
        plain = asked.parameter_info.parser is None
        if plain and asked.annotation is str and _text(value) and not several:
            return value
        texts = plain and several and asked.annotation == list[str]
        if texts and isinstance(value, list | tuple) and all(map(_text, value)):
            return list(value)
        if plain and asked.annotation is int and _whole(value, asked.parameter_info):
            return int(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _text(value: object) -> TypeGuard[str]:
    return type(value) is str and value.isascii()


def _whole(value: Any, limits: Any) -> bool:
    """Whether it is a whole number within its limits, one or written as Python writes it."""
    digits = str(value) if type(value) is int else value  # a default is a number already
    if not _text(digits) or not digits.isdigit() or len(digits) > _DIGITS or limits.clamp:
        return False
    low, high = limits.min, limits.max
    number = int(value)
    inside: bool = (low is None or number >= low) and (high is None or number <= high)
    return inside and str(number) == digits


def take_as_given(parameters: Iterable[Any]) -> None:
    """Let a command's parameters be taken as they are where that is the same."""
    for each in parameters:
        known = hasattr(each, "get_runtime_param") and hasattr(each, "type_descriptor")
        if known and getattr(each, "_runtime_param", each) is None:
            each._runtime_param = AsGiven()
