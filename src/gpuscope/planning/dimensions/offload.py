"""A rank's share of parameters, gradients and moments in the host's memory (`CPUOffloadPolicy`).

FSDP2 copies what it gathers to the device and each summed gradient back, and the optimizer runs on
the host's cores (torch/distributed/fsdp/_fully_shard/_fsdp_param.py). With several micro-batches
whose gradients are each summed ("full"), all copies back but the first are blocking and into new
memory; summed once a step they are not. Slower, but exact. What memory a host has is not known, so
it is tried only where it is asked for, and the answer says how much it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuscope.cost.host.arithmetic import arithmetic_s
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.hardware import Cluster, Device
from gpuscope.planning.dimensions.registry import DIMENSIONS, Dimension, Weighed
from gpuscope.program.models.parallel.options import Parallelism, ParallelOptions
from gpuscope.program.types import Op, TensorSpec

HOST_BYTES = 16.0
"""In the host's memory, a parameter: itself, its gradient and two moments in float32."""

_PRICED = 1 << 20
"""Parameters that are priced; everything grows evenly with them."""

_LINKED = 0.85
"""Share of the link's rate that pinned copies reach: 55 of 64 GB/s."""

_STAGED = 1e9
"""Bytes a second of a copy into pageable memory that is new: a page of 4 KiB takes 3.9 us."""


@dataclass(frozen=True, slots=True)
class _Prices:
    """Seconds a parameter of a rank: to the device, back, back while the host waits (with the sum
    of gradients), and the update."""

    there: float
    back: float
    blocked: float
    updated: float


def _asked(options: ParallelOptions, value: str) -> ParallelOptions:
    return replace(options, offload=True)


def _score(weighed: Weighed, value: str, columns: Mapping[str, float]) -> Mapping[str, float]:
    """Nothing of a rank's share is on the device; what stays gathered in a step is, in bfloat16."""
    shared = weighed.plan.sums_each
    copied_s, updated_s = _spent(weighed, columns["held"])
    return {
        "state_bytes": 0.0,
        "weight_bytes": 0.0 if shared else 2.0,
        "gradient_bytes": 0.0 if shared else 4.0,
        "copied_s": copied_s,
        "updated_s": updated_s,
    }


def _composed(
    weighed: Weighed, value: str, held: float, passes_s: float, update_s: float
) -> tuple[float, float]:
    copied_s, updated_s = _spent(weighed, held)
    return max(passes_s, copied_s), updated_s


def _spent(weighed: Weighed, held: float) -> tuple[float, float]:
    """Seconds of a step's copies, which run beside the passes, and of what waits for the host.

    Args:
        weighed: the plan on its cluster.
        held: parameters of a rank before they are shared.
    """
    plan = weighed.plan
    one = _prices(weighed.cluster, plan.world_size)
    own = held / ((plan.shard or plan.dp) * plan.cp)
    often = plan.microbatches if plan.fsdp in ("full", "hybrid") else 1
    gathers = 2 * often if plan.fsdp in ("full", "hybrid") else 1
    copied = gathers * one.there + one.back
    return own * copied, own * (one.updated + (often - 1) * one.blocked)


@lru_cache(maxsize=256)
def _prices(cluster: Cluster, world: int) -> _Prices:
    """As `gpuscope.cost.copy.transfer` and `host_arithmetic` price them, in round figures."""
    link = cluster.device.host_link_bandwidth_bytes_per_s or 0.0
    moved_s = 4.0 / (link * _LINKED)
    ranks = min(world, cluster.devices_per_node)
    floats = TensorSpec((_PRICED,), (1,), "float32", "host")
    sums = Op(0, "aten::add_", inputs=(floats, floats), outputs=(floats,))
    update = Op(1, "aten::_fused_adamw_", inputs=(floats,) * 4)
    sum_s, update_s = (arithmetic_s(op, ranks) / _PRICED for op in (sums, update))
    return _Prices(moved_s, moved_s, 4.0 / _STAGED + sum_s, update_s)


def _lacks(device: Device, value: str) -> Text | None:
    if value != "none" and device.host_link is None:
        return Text("No link to the host's memory is known for {device}.", device=device.name)
    return None


def _cannot(plan: Parallelism, value: str) -> Text | None:
    if value == "none":
        return None
    if plan.fsdp == "none":
        return Text("DDP moves nothing to the host; FSDP2 does.")
    if plan.pp > 1:
        return Text("A pipeline's stages keep what they hold.")
    return None


def _told(weighed: Weighed, value: str) -> Text:
    held = weighed.size.parameters * HOST_BYTES / weighed.cluster.nodes
    return Text(
        "Each node's host needs {bytes} of memory for it, and 16 threads a rank for the update: "
        "OMP_NUM_THREADS=16, since torchrun gives one.",
        bytes=Bytes(held),
    )


DIMENSIONS.add(
    "offload",
    Dimension(
        name="offload",
        values=("none", "cpu"),
        asked=_asked,
        score=_score,
        composed=_composed,
        lacks=_lacks,
        cannot=_cannot,
        told=_told,
    ),
)
