"""Which commit since the baseline wrote a line: what git knows of the lines at fault."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from gpuscope.guarding.sources import Commit, Lines, Sources

MOST_FILES = 50
"""Files that git is asked about."""

_PATIENCE_S = 20
_NOT_YET = re.compile("0{40,64}")
_HEAD = re.compile(r"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")


def trace(sources: Sources, history: History) -> Sources:
    """Return sources whose lines name files from the repository's root, those written since first.

    Without git, or without a committed baseline, the sources are returned as far as that goes.
    """

    def traced(lines: Lines) -> Lines:
        placed = dict.fromkeys(history.placed(line) for line in lines)
        return tuple(sorted(placed, key=lambda line: history.commit(line) is None))

    every: set[str] = set()

    def all_of(lines: Mapping[str, Lines]) -> dict[str, Lines]:
        found = {name: traced(own) for name, own in lines.items()}
        every.update(line for own in found.values() for line in own)
        return found

    told = all_of({kind: lines for kind, (_, lines) in sources.findings.items()})
    made = replace(
        sources,
        lines=all_of(sources.lines),
        memory=all_of(sources.memory),
        breaks=all_of({"": sources.breaks})[""],
        findings={kind: (title, told[kind]) for kind, (title, _) in sources.findings.items()},
    )
    commits = {line: history.commit(line) for line in sorted(every)}
    return replace(made, commits={line: each for line, each in commits.items() if each})


class History:
    """A repository since its baseline; it is asked when something is wanted of it.

    Args:
        baseline: its file. What counts is written since it was committed last, or since HEAD where
            it is changed.
    """

    def __init__(self, baseline: Path) -> None:
        self._baseline = baseline.resolve()
        self._blamed: dict[str, Mapping[int, Commit]] = {}

    @cached_property
    def root(self) -> Path | None:
        """The repository's folder; None where there is none."""
        top = _git(self._baseline.parent, "rev-parse", "--show-toplevel").rstrip("\n")
        return Path(top) if top else None

    @cached_property
    def since(self) -> str:
        """The commit of the baseline; "" where it is in none."""
        return _since(self._baseline.parent, self._baseline.name)

    def placed(self, line: str) -> str:
        """Return "src/net.py:12" for "net.py:12", where one file of the repository has that name.

        Captured lines name the file alone; the name that stands is left.
        """
        name, _, number = line.rpartition(":")
        if self.root is None or not name:
            return line
        there = Path(os.path.realpath(name))
        if there.is_file():
            inside = there.is_relative_to(self.root)
            return f"{there.relative_to(self.root)}:{number}" if inside else line
        files = self._named.get(Path(name).name, [])
        own = [file for file in files if file == name or file.endswith(f"/{name}")]
        return f"{own[0]}:{number}" if len(own) == 1 else line

    def commit(self, line: str) -> Commit | None:
        """Return what wrote a line since the baseline; None if it is older, or not known."""
        name, _, number = line.rpartition(":")
        if self.root is None or not self.since or not number.isdigit():
            return None
        if name not in self._blamed and len(self._blamed) < MOST_FILES:
            known = name in self._named.get(Path(name).name, ())
            told = _git(self.root, *_BLAME, f"^{self.since}", "--", name) if known else ""
            self._blamed[name] = dict(_blamed(told.split("\n")))
        return self._blamed.get(name, {}).get(int(number))

    @cached_property
    def _named(self) -> Mapping[str, list[str]]:
        """Files of the repository by their names, those not added yet, too."""
        files = defaultdict(list)
        asked = ("ls-files", "-z", "-co", "--exclude-standard", "--", "*.py")
        for file in sorted({*_git(self.root or Path(), *asked).split("\0")} - {""}):
            files[file.rpartition("/")[2]].append(file)
        return files


_BLAME = ("blame", "--porcelain", "-w")
"""Whitespace alone makes no line a new one."""


def _since(folder: Path, name: str) -> str:
    """The commit that the baseline is of."""
    if _git(folder, "status", "--porcelain", "--", name):
        return _git(folder, "rev-parse", "HEAD").strip()
    return _git(folder, "log", "-1", "--format=%H", "--", name).strip()


def _blamed(lines: Iterable[str]) -> Iterable[tuple[int, Commit]]:
    """Read what `git blame --porcelain` says: the lines that are not from before its range."""
    titles: dict[str, str] = {}
    old: set[str] = set()
    found: list[tuple[int, str]] = []
    commit = ""
    for line in lines:
        head = _HEAD.fullmatch(line)
        if head:
            commit = head[1]
            found.append((int(head[2]), commit))
        elif line.startswith("summary "):
            titles[commit] = line.removeprefix("summary ")
        elif line == "boundary":
            old.add(commit)
    for number, commit in found:
        if commit not in old:
            new = _NOT_YET.fullmatch(commit)
            yield number, Commit("", "") if new else Commit(commit[:8], titles.get(commit, ""))


def _git(folder: Path, *words: str) -> str:
    """What git says; "" where it is not there, or has nothing to say."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            check=False,
            env=environment,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
