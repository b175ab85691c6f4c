"""Transparent huge pages of the host.

Source: Linux kernel, Documentation/admin-guide/mm/transhuge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_PATH = "/sys/kernel/mm/transparent_hugepage/enabled"


@check("huge_pages", "settings", "Transparent huge pages of the host")
def huge_pages(machine: Machine) -> Iterable[Finding]:
    """Tell the mode; only "never" is worth more than a line."""
    chosen = re.search(r"\[(\w+)\]", machine.text(_PATH) or "")
    if chosen is None:
        return
    mode = chosen[1]
    if mode == "never":
        yield Finding(
            "huge_pages", "note", Words("Huge pages are off.", "透明大页已关闭。"),
            Words("Mode never.", "模式 never。"),
            Words(
                "Large buffers of the host (input, offloading) then cost more address translation; "
                "a few per cent on work of the host.",
                "主机大缓冲区（数据输入、卸载）的地址转换开销更大，主机端约慢几个百分点。",
            ),
            None, (f"echo madvise | sudo tee {_PATH}",), _PATH, None, {"huge_pages": mode},
        )  # fmt: skip
        return
    yield Finding(
        "huge_pages", "ok", Words("Huge pages may be used.", "可使用透明大页。"),
        Words(f"Mode {mode}.", f"模式 {mode}。"), known_by=_PATH, values={"huge_pages": mode},
    )  # fmt: skip
