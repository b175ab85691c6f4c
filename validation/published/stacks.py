"""Software stacks: a file of `stacks/` each, with its sources; nothing was fitted to a row.

A stack is chosen by the software that a row names (`states`: words of its scheme, else of its
source), never by the row itself; what it sets beyond its habits, by the row's own words (`when`),
or by model, hardware and release as its recipes do (`recipe`). What a row does not state is taken
from `defaults`, and said to be. Where a stack does something that the ready-made programs cannot
do, `left` says so: the reader may expect an error of that sign.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from gpuscope.program.models.parallel.options import Software
from published.rows import Row
from published.words import plain

__all__ = ["Recipe", "Stack", "refusal", "stack_of", "stacks"]

FOLDER = Path(__file__).parent / "stacks"
REFUSED = Path(__file__).parent / "refused.toml"

_MERGED = ("software", "parallel", "defaults", "pipeline", "flops", "open", "needs", "model")
_LISTED = ("when", "recipe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a stack's own recipe sets for a model.

    Attributes:
        model: as a row prints it, or what comes before its first parenthesis; "" for any.
        hardware: as printed; "" for any.
        since, until: releases between which it holds, both included; "" for all.
        task: as printed; "" for any.
        software: fields of `Software`.
        row: fields that the row leaves out.
        rotation: how context parallel ranks share attention; "" as the stack does.
        slice: devices that parameters are sharded over, where a job has several such slices.
        why_not: why it cannot be expressed; "" where it can.
    """

    model: str = ""
    hardware: str = ""
    since: str = ""
    until: str = ""
    task: str = ""
    software: Mapping[str, Any] = field(default_factory=dict)
    row: Mapping[str, Any] = field(default_factory=dict)
    rotation: str = ""
    slice: int = 0
    why_not: str = ""

    def fits(self, row: Row) -> bool:
        """Whether it is for a row's model, hardware and release."""
        known = self.model in ("", row.model) or row.model.startswith(f"{self.model} (")
        known = known and self.hardware in ("", row.hardware) and self.task in ("", row.task)
        release = row.release or ""
        return known and self.since <= release and (not self.until or release <= self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Words of a row, and the software that they mean; not where the job splits `without`."""

    said: tuple[str, ...]
    software: Mapping[str, Any]
    without: tuple[str, ...] = ()

    def fits(self, row: Row, plan: Mapping[str, int]) -> bool:
        """Whether a row says so and its plan allows it."""
        told = any(word in (row.said or "") for word in self.said)
        return told and all(plan[name] == 1 for name in self.without)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One training code.

    Attributes:
        name: of its file.
        title: its name.
        states: words of a row that name it.
        sources: where its facts are written.
        program: "decoder", or "passes" of real models.
        software: kernels and habits.
        parallel: of the plan, what the stack decides and not the row.
        defaults: what it takes where a row states nothing.
        pipeline: how it cuts a batch or a sequence.
        flops: how it counts the FLOPs that it prints.
        open: fields whose words leave open what was done, and why.
        needs: fields that a row must state, and the reason given where it does not.
        sizes: of models that only this stack has.
        dtensor: its layers and sharding go through PyTorch's DTensor and FSDP2, whose Python the
            host runs; off where they are the software's own.
        model: what it changes of every decoder: `dense_layers`, leading blocks without experts.
        when: words that switch something on.
        recipes: by model, hardware and release, the oldest first.
        why, left, why_zh, left_zh: for the reader: its habits, and what is not expressed.
    """

    name: str
    title: str
    states: tuple[str, ...]
    sources: tuple[str, ...]
    program: str = "decoder"
    software: Software = field(default_factory=Software)
    parallel: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    pipeline: Mapping[str, Any] = field(default_factory=dict)
    flops: Mapping[str, str] = field(default_factory=dict)
    open: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, list[Any]] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    dtensor: bool = True
    when: tuple[When, ...] = ()
    recipes: tuple[Recipe, ...] = ()
    why: str = ""
    left: str = ""
    why_zh: str = ""
    left_zh: str = ""

    def recipe(self, row: Row) -> Recipe | None:
        """The newest recipe of a row's model, hardware and release; None where there is none."""
        return next((each for each in reversed(self.recipes) if each.fits(row)), None)

    def software_of(self, row: Row, plan: Mapping[str, int]) -> Software:
        """Its software as a row's recipe and words set it."""
        recipe = self.recipe(row)
        changes = dict(recipe.software) if recipe is not None else {}
        for each in self.when:
            if each.fits(row, plan):
                changes |= each.software
        return replace(self.software, **_tuples(changes))


@cache
def stacks() -> tuple[Stack, ...]:
    """All of them, by the names of their files."""
    return tuple(_stack(path) for path in sorted(FOLDER.glob("*.toml")))


def stack_of(row: Row) -> Stack | None:
    """The stack that a row names; None where it names none.

    Raises:
        ValueError: it names several.
    """
    for told in (row.scheme, row.source):
        named = [s for s in stacks() if any(word in (told or "") for word in s.states)]
        if len(named) > 1:
            raise ValueError(f"it names {' and '.join(s.title for s in named)}")
        if named:
            return named[0]
    return None


def refusal(row: Row) -> str:
    """Why a row cannot be predicted whatever its software; "" where nothing forbids it."""
    for rule in tomllib.loads(REFUSED.read_text("utf-8"))["refused"]:
        fields = {name: words for name, words in rule.items() if name not in ("why", "unless")}
        for name, words in fields.items():
            told = plain(getattr(row, name) or "")
            spared = any(plain(word) in told for word in rule.get("unless", ()))
            if not spared and any(plain(word) in told for word in words):
                return str(rule["why"])
    return ""


def _stack(path: Path) -> Stack:
    told = _told(path)
    software = Software(**_tuples(told.pop("software", {})))
    when = tuple(
        When(said=tuple(w["said"]), software=w["software"], without=tuple(w.get("without", ())))
        for w in told.pop("when", ())
    )
    recipes = tuple(Recipe(**each) for each in told.pop("recipe", ()))
    lists = {name: tuple(told.pop(name)) for name in ("states", "sources")}
    return Stack(name=path.stem, software=software, when=when, recipes=recipes, **lists, **told)


def _told(path: Path) -> dict[str, Any]:
    """A file with what its base says beneath it: tables and lists, not texts."""
    own = tomllib.loads(path.read_text("utf-8"))
    base = own.pop("base", None)
    if base is None:
        return own
    under = _told(FOLDER / f"{base}.toml")
    own.setdefault("dtensor", under.get("dtensor", True))
    merged = {name: under.get(name, {}) | own.get(name, {}) for name in _MERGED}
    listed = {name: [*under.get(name, ()), *own.get(name, ())] for name in _LISTED}
    return own | merged | listed


def _tuples(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in told.items()}
