"""docs/coverage.md and its Chinese twin, from the rows."""

from __future__ import annotations

from typing import Any


def write(rows: dict[str, dict[str, Any]], names: set[str]) -> None:
    """To be filled by the first whole run."""
    done = sum(row["predicted"] for name, row in rows.items() if name in names)
    print(f"{done} of {len(names)} programs predicted")
