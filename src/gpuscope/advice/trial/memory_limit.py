"""How much memory a trial may take: of the device, or of the host where it runs there."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

__all__ = ["limit_memory"]


def limit_memory(memory_bytes: int | None, accelerator: Any) -> None:
    """Let this process take no more than so much from here on.

    On a GPU PyTorch's allocator refuses beyond it
    (`torch.cuda.set_per_process_memory_fraction`); on a processor the kernel refuses private
    memory (RLIMIT_DATA, setrlimit(2)) beyond what the process holds now and so much more.

    Args:
        memory_bytes: None for no limit.
        accelerator: where the workload runs.
    """
    if memory_bytes is None:
        return
    if accelerator.kind == "cuda":
        import torch

        total = accelerator.total_bytes()
        if total:
            share = min(1.0, memory_bytes / total)
            torch.cuda.set_per_process_memory_fraction(share, accelerator.index)
    elif not accelerator.is_gpu:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + memory_bytes, most))


def _data_bytes() -> int:
    """Private memory that this process holds (VmData of proc(5)); 0 where it is not told."""
    try:
        text = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = [line for line in text.splitlines() if line.startswith("VmData:")]
    return int(found[0].split()[1]) * 1024 if found else 0
