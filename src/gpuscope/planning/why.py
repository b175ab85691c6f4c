"""`--why tp=4,pp=2`: what became of the candidates that have these, and by which number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpuscope.document.blocks import Cell, Column, Section, Table
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware import Cluster
from gpuscope.planning.types import Rejected

__all__ = ["Foremost", "Speech", "Untried", "what_became"]

MOST_ROWS = 20
"""Candidates that are listed."""

_CANNOT = ("layout", "framework")
"""Kinds of those that cannot be at all: listed after all others."""

Untried = Callable[[Mapping[str, str]], "tuple[tuple[str, str], ...]"]
"""Of what no candidate has, by name ("" of a lone word): what would have it, and what would be."""

Foremost = Callable[[Callable[[str], bool]], "tuple[tuple[str, str], ...]"]
"""Of candidates whose words are meant and of which none was simulated: the best, and what it is."""


@dataclass(frozen=True, slots=True)
class Speech:
    """How candidates of a task are spoken about.

    Attributes:
        names: what they have, for the error.
        example: of the option, for the error.
        usual: values by name that their words leave out.
        bare: names whose values their words give alone ("interleaved"), and such values.
        alias: other spellings of names.
        values: all values of those names that have a few words.
        numbers: names whose values are whole numbers.
    """

    names: str
    example: str
    usual: Mapping[str, str] = field(default_factory=dict)
    bare: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alias: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: tuple[str, ...] = ()

    def parts(self, why: str) -> tuple[tuple[str, str], ...]:
        """Name and value of each part of "tp=4,pp=2"; the name of a lone word is ""."""
        found = []
        for part in why.split(","):
            name, _, value = part.strip().replace("=", " ").rpartition(" ")
            name = name.strip()
            if value:
                found.append((self.alias.get(name, name), value))
        return tuple(found)

    def check(self, why: str) -> None:
        """Refuse what no candidate of any question has.

        Raises:
            InvalidValueError: nothing, or a name of nothing, or no number where one belongs.
            UnknownNameError: no such value of a name.
        """
        parts = self.parts(why)
        if not parts:
            raise self.names_nothing(why)
        known_names = {"", *self.names.split(", "), *self.bare}
        for name, value in parts:
            if name not in known_names and "..." not in known_names:
                raise self.names_nothing(why)
            if name in self.values and value not in self.values[name]:
                known = Text("Type one of: {names}.", names=", ".join(self.values[name]))
                kind = Text("value of {name}", name=name)
                raise UnknownNameError(kind, value, self.values[name], known)
            if name in self.numbers and not (value.isdecimal() and int(value) > 0):
                raise InvalidValueError(
                    Text("'{value}' is no value of {name}.", value=value, name=name),
                    Text("It is a whole number, from 1 on."),
                    Text("Type for example: {example}", example=self.example),
                )

    def names_nothing(self, why: str) -> InvalidValueError:
        """The error of what names no candidate."""
        return InvalidValueError(
            Text("'{why}' names no candidate.", why=why),
            Text("A candidate has: {names}.", names=self.names),
            Text("Type for example: {example}", example=self.example),
        )

    def has(self, words: str, name: str, value: str) -> bool:
        """Whether a candidate in words has a value."""
        said = words.rpartition(": ")[2].split(", ")
        if f"{name} {value}".strip() in said or (name in self.bare and value in said):
            return True
        alone = self.bare.get(name, ())
        others = any(part.startswith(f"{name} ") or part in alone for part in said)
        return bool(name) and self.usual.get(name) == value and not others


def what_became(
    why: str,
    speech: Speech,
    simulated: Iterable[tuple[Cluster, str, Text]],
    rejected: Iterable[Rejected],
    untried: Untried = lambda parts: (),
    foremost: Foremost = lambda meant: (),
) -> Section:
    """What became of the candidates that have all of what `why` names.

    Args:
        why: "tp=4,pp=2".
        speech: how candidates are spoken about.
        simulated: cluster, words and outcome of each that was.
        rejected: all that are out.
        untried: says what would be, where no candidate has these.
        foremost: says more of the best of them, where none was simulated.

    Raises:
        InvalidValueError, UnknownNameError: `why` names nothing that a candidate could have.
    """
    speech.check(why)
    wanted = speech.parts(why)

    def meant(words: str) -> bool:
        return all(speech.has(words, name, value) for name, value in wanted)

    lines: list[tuple[Cell, ...]] = [
        (f"{cluster.name}: {words}", outcome)
        for cluster, words, outcome in simulated
        if meant(words)
    ]
    alike = [each for each in rejected if meant(each.words)]
    alike.sort(key=lambda each: each.kind in _CANNOT)
    if alike and not lines and alike[0].kind not in _CANNOT:
        lines += foremost(meant)
    lines += [(each.words, each.reason) for each in alike]
    if not lines:
        lines += untried(dict(wanted))
    if not lines:
        raise speech.names_nothing(why)
    columns = (Column(Text("candidate")), Column(Text("why")))
    note = Text("{shown} of {count}.", shown=min(MOST_ROWS, len(lines)), count=len(lines))
    table = Table(Text("What became of them"), columns, tuple(lines[:MOST_ROWS]), note=note)
    return Section(Text("Why not {what}", what=why), (table,))
