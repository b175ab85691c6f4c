"""A run that passes every invariant, and the same with one figure spoilt."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

from run_builders import gpt_run

from gpuscope.invariants import INVARIANTS, Book, Output, Violation
from gpuscope.views.check import output_of


@cache
def sound() -> Output:
    """Everything that is shown of a small training step."""
    return output_of(gpt_run(), what_if=False)


def with_analysis(**changes: Any) -> Output:
    """The same with other parts of the analysis; the page stays."""
    output = sound()
    analysis = replace(output.run.analysis, **changes)
    return replace(output, run=replace(output.run, analysis=analysis))


def with_run(**changes: Any) -> Output:
    """The same with other fields of the run; the page stays."""
    output = sound()
    return replace(output, run=replace(output.run, **changes))


def with_page(*path: str, value: object) -> Output:
    """The same with one value of the page's document changed."""
    page: Any = deepcopy(dict(sound().page))
    place = page["runs"][0]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return replace(sound(), page=page)


def found(family: str, output: Output) -> list[Violation]:
    """The violations of one family."""
    book = Book(family)
    INVARIANTS.get(family)(output, book)
    assert book.count, "nothing was compared"
    return book.violations


def names(family: str, output: Output) -> Mapping[str, Violation]:
    """The same by what is wrong."""
    return {str(violation.what): violation for violation in found(family, output)}
