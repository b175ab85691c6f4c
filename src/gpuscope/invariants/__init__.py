"""What every run must pass: no figure or sentence on its surface that another one contradicts.

`check` takes an `Output`, a `Run` with everything that is shown of it (the page's document, every
language's screen, the pictures), and lists the `Violation`s. One file a family in
`families/`: a function with `@invariant("name")` that compares figures through a `Book`.
"""

from __future__ import annotations

from gpuscope.invariants.book import Book, Checked, Violation
from gpuscope.invariants.output import Output
from gpuscope.invariants.registry import INVARIANTS, check, invariant

__all__ = ["INVARIANTS", "Book", "Checked", "Output", "Violation", "check", "invariant"]
