"""Transparent huge pages of the host.

Source: Linux kernel, Documentation/admin-guide/mm/transhuge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text

_PATH = "/sys/kernel/mm/transparent_hugepage/enabled"


@check("huge_pages", "settings", Text("Transparent huge pages of the host"))
def huge_pages(machine: Machine) -> Iterable[Finding]:
    """Tell the mode; only "never" is worth more than a line."""
    chosen = re.search(r"\[(\w+)\]", machine.text(_PATH) or "")
    if chosen is None:
        return
    mode = chosen[1]
    if mode == "never":
        yield Finding(
            "huge_pages",
            "note",
            Text("Huge pages are off."),
            Text("Mode never."),
            Text(
                "Large buffers of the host (input, offloading) then cost more address translation; "
                "a few per cent on work of the host."
            ),
            None,
            (f"echo madvise | sudo tee {_PATH}",),
            _PATH,
            None,
            {"huge_pages": mode},
        )
        return
    yield Finding(
        "huge_pages",
        "ok",
        Text("Huge pages may be used."),
        Text("Mode {mode}.", mode=mode),
        known_by=_PATH,
        values={"huge_pages": mode},
    )
