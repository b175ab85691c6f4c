"""Settings of PyTorch's caching allocator, read as PyTorch reads them.

Source: PyTorch 2.13, c10/core/AllocatorConfig.h and c10/cuda/CUDAAllocatorConfig.h: the keys, that
an unknown one stops the program at its first allocation, that max_split_size_mb must be at least
20, garbage_collection_threshold between 0 and 1, and that PYTORCH_CUDA_ALLOC_CONF is read before
PYTORCH_ALLOC_CONF.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.presence import has_accelerator
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.document.text import Text

VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""In the order in which PyTorch looks for them."""

KEYS = frozenset(
    (
        "backend",
        "expandable_segments",
        "garbage_collection_threshold",
        "graph_capture_record_stream_reuse",
        "large_segment_size_mb",
        "max_non_split_rounding_mb",
        "max_split_size_mb",
        "per_process_memory_fraction",
        "pinned_free_catch_all",
        "pinned_max_cached_size_mb",
        "pinned_max_round_threshold_mb",
        "pinned_num_register_threads",
        "pinned_reserve_segment_size_mb",
        "pinned_use_background_threads",
        "pinned_use_cuda_host_register",
        "pinned_use_hip_host_register",
        "release_lock_on_cudamalloc",
        "release_lock_on_hipmalloc",
        "roundup_power2_divisions",
        "throw_on_cudamalloc_oom",
    )
)

_LEAST_SPLIT_MB = 20


def read_settings(text: str) -> Mapping[str, str]:
    """Return keys and values of a configuration ("a:1,b:[x:2,y:3]"); a key without value has ""."""
    found: dict[str, str] = {}
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\]?)?", text.replace(" ", "")):
        key, _, value = part.partition(":")
        if key:
            found[key] = value
    return found


@check("allocator", "settings", Text("Settings of PyTorch's caching allocator"))
def allocator(machine: Machine) -> Iterable[Finding]:
    """Look for settings that stop the program, or cost memory or speed."""
    cuda = bool(nvidia_devices(machine))
    read = [n for n in VARIABLES if not (cuda and "HIP" in n)]  # only ROCm's PyTorch reads it
    set_ones = [(n, v) for n in read if (v := machine.variable(n))]
    if not set_ones:
        if has_accelerator(machine):
            yield Finding(
                "allocator",
                "ok",
                Text("The allocator has its default settings."),
                Text("Default settings."),
                known_by="environment",
            )
        return
    name, text = set_ones[0]
    if len({v for _, v in set_ones}) > 1:
        yield _several([n for n, _ in set_ones])
    problems = [*_problems(machine, name, read_settings(text))]
    yield from problems
    if not problems:
        yield Finding(
            "allocator",
            "ok",
            Text("The allocator is set."),
            Text("{name}={text}.", name=name, text=text),
            known_by="environment",
            values={name: text},
        )


def _several(names: list[str]) -> Finding:
    return Finding(
        "allocator",
        "note",
        Text("Two variables set the allocator differently."),
        Text("{first} counts; {others} is not read.", first=names[0], others=", ".join(names[1:])),
        commands=(f"unset {names[1]}",),
        known_by="environment",
    )


def _problem(
    severity: Severity, title: Text, name: str, key: str, value: str, why: Text
) -> Finding:
    said = f"{name}: {key}:{value}" if value else f"{name}: {key}"
    return Finding(
        "allocator",
        severity,
        title,
        Text("{said}.", said=said),
        why,
        Text("Correct or remove it.") if severity != "note" else None,
        (f"unset {name}",),
        "environment",
        None,
        {key: value},
    )


def _number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"-?\d+(\.\d+)?", value) else None


def _problems(machine: Machine, name: str, settings: Mapping[str, str]) -> Iterable[Finding]:
    stops = Text("PyTorch stops with an error at its first allocation on the device.")
    for key, value in settings.items():
        number = _number(value)
        if key not in KEYS:
            yield _problem(
                "warning",
                Text("The allocator does not know '{key}'.", key=key),
                name,
                key,
                value,
                stops,
            )
        elif key == "max_split_size_mb" and (number is None or number < _LEAST_SPLIT_MB):
            yield _problem(
                "error", Text("max_split_size_mb is too small."), name, key, value, stops
            )
        elif key == "garbage_collection_threshold" and not (number and 0 < number < 1):
            yield _problem(
                "error",
                Text("The collection threshold is not between 0 and 1."),
                name,
                key,
                value,
                stops,
            )
    yield from _trade(machine, name, settings)


def _trade(machine: Machine, name: str, settings: Mapping[str, str]) -> Iterable[Finding]:
    """Settings that work, with a price."""
    expandable = settings.get("expandable_segments") == "True"
    if settings.get("backend") == "cudaMallocAsync":
        yield _problem(
            "note",
            Text("CUDA's own allocator is in use."),
            name,
            "backend",
            "cudaMallocAsync",
            Text("Memory snapshots and some allocator settings do nothing with it."),
        )
    split = _number(settings.get("max_split_size_mb", ""))
    if split is not None and expandable:
        yield _problem(
            "note",
            Text("Two settings against fragmentation."),
            name,
            "max_split_size_mb",
            f"{split:g}",
            Text(
                "expandable_segments does more by itself; a split limit keeps large blocks whole "
                "and can cost memory."
            ),
        )
    if expandable and any(d.get("mig_mode") for d in nvidia_devices(machine)):
        yield _problem(
            "note",
            Text("Expandable segments on a split device (MIG)."),
            name,
            "expandable_segments",
            "True",
            Text("Sharing tensors between processes may fail."),
        )
