"""Memory snapshots by PyTorch's documented structure, made by hand."""

from __future__ import annotations

from typing import Any

MIB = 1 << 20


def frame(name: str, filename: str = "/home/user/train.py", line: int = 10) -> dict[str, Any]:
    return {"name": name, "filename": filename, "line": line}


TORCH = "/usr/lib/python3/site-packages/torch"
MODULE = frame("_call_impl", f"{TORCH}/nn/modules/module.py", 1751)
LINEAR = frame("forward", f"{TORCH}/nn/modules/linear.py", 125)
USER_MODEL = frame("build", line=5)
USER_FORWARD = frame("forward", line=42)
USER_STEP = frame("step", line=60)

PARAMETER = [frame("_apply", f"{TORCH}/nn/modules/module.py", 900), USER_MODEL]
ACTIVATION = [LINEAR, MODULE, USER_FORWARD]
STATE = [frame("_init_group", f"{TORCH}/optim/adamw.py", 100), USER_STEP]
GRADIENT = [frame("torch::autograd::AccumulateGrad::apply", "", 0), USER_STEP]


def event(action: str, addr: int, size: int, time_us: int | None = 0, frames: Any = ()) -> dict:
    entry = {"action": action, "addr": addr, "size": size, "stream": 0, "frames": list(frames)}
    if time_us is not None:
        entry["time_us"] = time_us
    return entry


def block(address: int, size: int, state: str = "active_allocated", frames: Any = ()) -> dict:
    return {
        "address": address,
        "size": size,
        "requested_size": size,
        "state": state,
        "frames": list(frames),
    }


def segment(address: int, blocks: list[dict], device: int = 0) -> dict:
    total = sum(b["size"] for b in blocks)
    return {
        "device": device,
        "address": address,
        "total_size": total,
        "stream": 0,
        "segment_type": "large",
        "blocks": blocks,
    }


def training() -> dict[str, Any]:
    """Parameters from before the history; two activations, one freed; a gradient; states.

    Addresses in MiB. At the end 0 (parameter, 8 MiB), 8 (gradient, 8) and 32 (state, 4) are live;
    the peak is 8 + 6 + 10 = 24 MiB, when both activations are there.
    """
    segments = [
        segment(
            0,
            [
                block(0, 8 * MIB, frames=PARAMETER),
                block(8 * MIB, 8 * MIB, frames=GRADIENT),
                block(16 * MIB, 16 * MIB, "inactive"),
            ],
        ),
        segment(32 * MIB, [block(32 * MIB, 4 * MIB, frames=STATE)]),
        segment(64 * MIB, [block(64 * MIB, 2 * MIB, "inactive")]),
    ]
    trace = [
        event("alloc", 16 * MIB, 6 * MIB, 100, ACTIVATION),
        event("alloc", 22 * MIB, 10 * MIB, 110, ACTIVATION),
        event("free_requested", 22 * MIB, 10 * MIB, 120, ACTIVATION),
        event("free_completed", 22 * MIB, 10 * MIB, 121, ACTIVATION),
        event("alloc", 8 * MIB, 8 * MIB, 130, GRADIENT),
        event("free_requested", 16 * MIB, 6 * MIB, 140),
        event("free_completed", 16 * MIB, 6 * MIB, 140),
        event("segment_alloc", 32 * MIB, 4 * MIB, 150),
        event("alloc", 32 * MIB, 4 * MIB, 150, STATE),
    ]
    return {"segments": segments, "device_traces": [trace, []], "allocator_settings": {"a": True}}
