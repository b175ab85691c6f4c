"""accelerate's YAML: FSDP2 or DDP. The batch is the script's own, and is not in it.

Read line by line: its keys are unique, whatever table they stand in.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gpuscope.planning.readers.registry import READERS, Existing, Reader

_LINE = re.compile(r"^\s*(\w+):[ \t]*([^#\n]*)", re.MULTILINE)


def _read(text: str, devices: int, path: Path) -> Existing:
    said = {name: value.strip().strip("'\"").lower() for name, value in _LINE.findall(text)}
    layout: dict[str, Any] = {"dp": devices, "fsdp": "none"}
    if said.get("distributed_type") == "fsdp":
        kept = said.get("fsdp_reshard_after_forward") == "false"
        layout["fsdp"] = "zero2" if kept else "full"
    if said.get("fsdp_activation_checkpointing") == "true":
        layout["recompute"] = "full"
    found = re.search(r"In the script: (\d+) sequences of (\d+) tokens", text)
    if found:
        layout["microbatch"] = int(found[1])
    beside = {"offload": "cpu"} if said.get("fsdp_offload_params") == "true" else {}
    if said.get("mixed_precision") == "fp8":
        beside["precision"] = "fp8"
    return Existing(layout, None, int(found[2]) if found else None, beside)


READERS.add("accelerate", Reader(lambda text: "distributed_type:" in text, _read))
