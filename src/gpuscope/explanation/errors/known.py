"""Known error messages: the tables of this folder, and the one matcher that reads them.

A message is an entry of a TOML file; the patterns are regular expressions, upper and lower case
alike:

    [[message]]
    kind = "port_in_use"                          # a stable word
    match = ['EADDRINUSE', 'Address already in use']
    needs = 'NCCL'                                # must be somewhere in the text, too
    title = "The port of the ranks' meeting is taken"
    cause = "Another process listens on that port."
    certainty = "certain"                         # or "likely", "possible"
    fix = ["Choose another one.", "@sooner"]      # what to try, the first thing first
    rank = 24                                     # `Diagnosis.rank`
    facts = [{ label = "port", find = 'port: (?P<value>\\d+)', unit = "count" }]

Groups of the match fill the braces of `title` and `cause`. A fact's `value` ("{a}, {b}") is filled
by the groups of what `find` finds in the text, or of the match; `text` is told where `within` is
found in the match; a fact without its figures is left out. "@sooner" stands for an entry of
`[words.advice]`, `table` names one of `[table]`. `[defaults]` holds for all messages of a file. Of
messages of one `group` only the one closest to the root is told, then the first in the text.

What needs more than that is code: `reader` names a function of this folder, `module:function`.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpuscope.document.blocks import Column, Fact, Table
from gpuscope.document.text import Text, extracted
from gpuscope.explanation.errors.log import Log
from gpuscope.explanation.errors.types import Certainty, Diagnosis

Reader = Callable[[Log], Diagnosis | None]

_BRACES = re.compile(r"{(\w+)}")
_LONGEST = 160
"""Letters of a figure that is a text."""


@dataclass(frozen=True, slots=True)
class Message:
    """An entry of a table.

    Attributes:
        kind, title, cause, certainty, fix, rank, commands, sources: as in `Diagnosis`; title and
            cause with braces for groups of the match.
        group: of several messages of a group one is told.
        patterns: one of them must match.
        needs: must be in the text, too; None if nothing else must.
        facts: entries for figures of the message.
        blocks: tables to show.
    """

    kind: str
    title: str
    cause: str
    certainty: Certainty
    fix: tuple[Text, ...]
    rank: int
    group: str
    patterns: tuple[re.Pattern[str], ...]
    needs: re.Pattern[str] | None
    facts: tuple[Mapping[str, str], ...]
    blocks: tuple[Table, ...]
    commands: tuple[str, ...]
    sources: tuple[str, ...]

    def found(self, log: Log) -> re.Match[str] | None:
        """Return its first match in a text; None where it is not there."""
        if self.needs is not None and self.needs.search(log.text) is None:
            return None
        matches = [m for pattern in self.patterns if (m := pattern.search(log.text)) is not None]
        return min(matches, key=lambda match: match.start(), default=None)

    def diagnosis(self, log: Log, match: re.Match[str]) -> Diagnosis:
        """Return what it says of its place in a text."""
        facts = (_fact(log, match, entry) for entry in self.facts)
        return Diagnosis(
            self.kind,
            _filled(self.title, match),
            _filled(self.cause, match),
            self.certainty,
            self.fix,
            log.line_of(match),
            self.rank,
            tuple(fact for fact in facts if fact is not None),
            self.blocks,
            self.commands,
            self.sources,
        )


def diagnose(log: Log) -> list[Diagnosis]:
    """Return what is wrong, closest to the root first; empty where nothing is known.

    Of several errors in a log one is often the cause and the others follow: memory that ran out on
    one rank ends as a timeout on all others. `Diagnosis.rank` orders kinds so; among equals the
    one that was printed first counts.
    """
    computed = (reader(log) for reader in readers())
    found = [*(each for each in computed if each is not None), *_told(log)]
    return sorted(found, key=lambda diagnosis: (diagnosis.rank, diagnosis.line))


def _told(log: Log) -> Iterator[Diagnosis]:
    """What the tables say: one message of each group."""
    groups: dict[str, list[tuple[int, int, Message, re.Match[str]]]] = {}
    for message in messages():
        match = message.found(log)
        if match is not None:
            one = (message.rank, match.start(), message, match)
            groups.setdefault(message.group, []).append(one)
    for each in groups.values():
        _, _, message, match = min(each, key=lambda one: one[:2])
        yield message.diagnosis(log, match)


@cache
def read_table(name: str) -> Mapping[str, Any]:
    """Return a file of this folder, by its name without ".toml"."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


def _entries() -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """All messages of all tables, each with its file."""
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        file = read_table(path.stem)
        for entry in file.get("message", ()):
            yield entry, file


@cache
def readers() -> tuple[Reader, ...]:
    """Return the functions that tables name."""
    names = [entry["reader"].split(":") for entry, _ in _entries() if "reader" in entry]
    package = __name__.rpartition(".")[0]
    return tuple(
        getattr(importlib.import_module(f"{package}.{module}"), function)
        for module, function in names
    )


@cache
def messages() -> tuple[Message, ...]:
    """Return the messages that the matcher reads."""
    return tuple(_message(entry, file) for entry, file in _entries() if "reader" not in entry)


def _message(entry: Mapping[str, Any], file: Mapping[str, Any]) -> Message:
    given: dict[str, Any] = {**file.get("defaults", {}), **entry}
    match = given["match"]
    table = file["table"][given["table"]] if "table" in given else None
    return Message(
        given["kind"],
        given["title"],
        given["cause"],
        given["certainty"],
        advice(given["fix"], file),
        given["rank"],
        given.get("group", given["kind"]),
        tuple(_pattern(one) for one in ([match] if isinstance(match, str) else match)),
        re.compile(given["needs"]) if "needs" in given else None,
        tuple(given.get("facts", ())),
        () if table is None else (_block(table),),
        tuple(given.get("commands", ())),
        tuple(given.get("sources", ())),
    )


def advice(fix: list[str], file: Mapping[str, Any]) -> tuple[Text, ...]:
    """Return what to try; "@name" stands for an entry of the file's `[words.advice]`."""
    shared = file.get("words", {}).get("advice", {})
    return tuple(extracted(shared[one[1:]] if one.startswith("@") else one) for one in fix)


def _filled(template: str, match: re.Match[str]) -> Text:
    return extracted(template, **{name: match[name] for name in _BRACES.findall(template)})


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def _block(table: Mapping[str, Any]) -> Table:
    columns = tuple(Column(extracted(title)) for title in table["columns"])
    rows = tuple(tuple(row) for row in table["rows"])
    return Table(extracted(table["title"]), columns, rows, note=extracted(table["note"]))


def _fact(log: Log, match: re.Match[str], entry: Mapping[str, str]) -> Fact | None:
    label, unit = extracted(entry["label"]), entry.get("unit", "")
    if "within" in entry:
        given = re.search(entry["within"], match[0]) is not None
        return Fact(label, extracted(entry["text"])) if given else None
    source = re.search(entry["find"], log.text) if "find" in entry else match
    if source is None:
        return None
    groups = source.groupdict()
    wanted = entry.get("value", "{value}")
    if any(groups.get(name) is None for name in _BRACES.findall(wanted)):
        return None
    value = wanted.format(**groups).strip(" ,")[:_LONGEST]
    return Fact(label, float(value) if unit else value, unit)
