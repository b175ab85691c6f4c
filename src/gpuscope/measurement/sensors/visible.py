"""Which physical device a process means by its index: `CUDA_VISIBLE_DEVICES` and its kind.

Rules: NVIDIA, "CUDA C++ Programming Guide", section "CUDA Environment Variables": a list of
indices, of UUIDs ("GPU-...", any unambiguous beginning) or of MIG instances ("MIG-..."); the list
ends at the first entry that is not a device. AMD: HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES
alike (ROCm documentation, "GPU isolation techniques").
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def visible(
    index: int,
    environment: Mapping[str, str] = os.environ,
    variables: tuple[str, ...] = ("CUDA_VISIBLE_DEVICES",),
) -> int | str | None:
    """Return what device `index` of this process is: a physical index, or an identifier.

    Args:
        index: as the process counts.
        environment: environment variables.
        variables: names to look at; the first that is set decides.

    Returns:
        The physical index, or the UUID (or its beginning) that the variable names; None where the
        process does not see so many devices.
    """
    if index < 0:
        return None
    for name in variables:
        if name in environment:
            return _entry(environment[name], index)
    return index


def _entry(listed: str, index: int) -> int | str | None:
    entries: list[int | str] = []
    for text in (part.strip() for part in listed.split(",")):
        if text.isdecimal():
            entry: int | str = int(text)
        elif text.startswith(("GPU-", "MIG-")):
            entry = text
        else:
            break  # CUDA ignores what follows an entry that is not a device
        if entry in entries:
            return None  # a device named twice: CUDA sees none
        entries.append(entry)
    return entries[index] if index < len(entries) else None


def torch_uuid(index: int) -> str | None:
    """Return the driver's identifier of PyTorch's device, where PyTorch is already on it.

    On a host with devices of several kinds PyTorch may count fastest first, the driver by bus:
    the identifier is the same for both. Never starts CUDA itself.
    """
    import sys

    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        if not torch.cuda.is_initialized() or torch.version.hip:
            return None
        return f"GPU-{torch.cuda.get_device_properties(index).uuid}"
    except Exception:  # an old PyTorch without `uuid`, or no such device: the index must do
        return None
