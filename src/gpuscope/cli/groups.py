"""Options that several commands have, declared once.

A command names the group that it wants and is given what the group makes of its members:

    @grouped
    def predict_command(target: WorkloadArgument, *, options: Options, outputs: Where) -> None: ...

where `Options = Annotated[WorkloadOptions, Group(...)]`. On the command line there are the members.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

__all__ = ["Group", "grouped"]


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
