"""One operator call's recorded kernels matched with those that its cost model expects.

What the model says of a call is kept whole: FLOPs and bytes of the recorded kernels add up to
those of the model's, whatever the library split or joined. Where both sides have equally many
kernels of a sort they are matched in order; else, or where a kernel would so have computed faster
than the device can, the sort's total is divided by recorded time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpuscope.analysis.symbols import kernel_family, short_symbol, symbol_tile
from gpuscope.cost.types import Kernel, Kind
from gpuscope.document.text import Text

MATRIX = frozenset({"matmul", "attention", "convolution", "recurrent"})

_CAN_BE_MATRIX = MATRIX | {"other", "fused"}
"""Families that a symbol of matrix work may look like."""

_ALWAYS_HELPER = re.compile(
    r"nchwToNhwc|nhwcToNchw|tensorTransform|splitK?_?reduce|reduce_wgrad|fmha_reduce|Offsets"
    r"|scalePacked|convertTensor|region_transform|convert_dq|dot_do_o|combine|AddPadding"
    r"|batched_transpose|elemWise|elementWise_|indices|init_\w*workspace",
    re.IGNORECASE,
)
"""Kernels beside the matrix work, whatever their family."""

_HELPER = re.compile(
    r"transpose|unpack|reduce_kernel|reduce_1Block|fill|elementwise|SubTensorOp|OpTensor|memset"
    r"|bias_reduction|zeros|cast|copy",
    re.IGNORECASE,
)
"""Words of kernels that are beside the matrix work where their family is another."""

_DIRECTION = re.compile(r"(dgrad|bwd_data|data_gradient)|(wgrad|wrw|weight_gradient)", re.I)

SLOW = 2.0
"""A kernel that takes this many times what its model says is limited by something else."""

WARP = 32
"""Threads of a warp, the least that a matrix instruction is issued for: a launch of fewer only
prepares something for the kernel after it."""

ROOM = 1.05
"""What a recorded rate may be above the stated peak: boost clocks, a timer's grain."""

_SHORT_S = 5e-6
"""Below this a launch's own time hides what limits a kernel."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One recorded device event of a call, as its model is matched with it.

    Attributes:
        symbol: as recorded.
        sort: "kernel", "memset" or "memcpy".
        time_s: mean recorded duration.
        nbytes: of a copy or memset; 0 if unknown.
        grid, block: blocks, threads of each; 0 if unknown.
        waves: 0 if unknown.
        occupancy: None if unknown.
    """

    symbol: str
    sort: str
    time_s: float
    nbytes: int = 0
    grid: int = 0
    block: int = 0
    waves: float = 0.0
    occupancy: float | None = None


Peak = Callable[[str, str], float | None]
"""The device's arithmetic peak for a dtype and a family, FLOP/s; None where it is not known."""


def _no_peak(dtype: str, kind: str) -> float | None:
    return None


def align(
    model: Sequence[Kernel], launches: Sequence[Launch], peak: Peak = _no_peak
) -> tuple[Kernel, ...] | None:
    """Give each recorded launch of one call its part of the model.

    Args:
        model: the kernels of the call, in order.
        launches: what was recorded, in order.
        peak: what the device can compute, so that no launch is given more than it could have done.

    Returns:
        One kernel a launch; None where what was recorded is not what the model is of (no kernel
        of the model's sort, no work in the model, or more of it than the device can do meanwhile).
    """
    has_flops = any(k.flops for k in model)
    wanted: dict[str, list[Kernel]] = {"main": [], "helper": [], "memset": []}
    for kernel in model:
        wanted[_role_of_model(kernel, has_flops)].append(kernel)
    found: dict[str, list[int]] = {"main": [], "helper": [], "memset": []}
    for i, launch in enumerate(launches):
        found[_role(launch, has_flops)].append(i)
    if not wanted["main"] or not found["main"]:
        return None
    if has_flops and not any(
        kernel_family(launches[i].symbol) in _CAN_BE_MATRIX for i in found["main"]
    ):
        return None
    for role in ("helper", "memset"):
        if wanted[role] and not found[role]:
            wanted["main"] += wanted.pop(role)
            wanted[role] = []
    out = [bare(launch) for launch in launches]
    for role, places in found.items():
        if places and wanted[role]:
            parts = _divide(wanted[role], [launches[i] for i in places], peak)
            if parts is None:
                return None
            for place, part in zip(places, parts, strict=True):
                out[place] = part
    return tuple(out)


def bare(launch: Launch, op: int = 0) -> Kernel:
    """What is known of a launch without a model: its family, bytes where copied, launch shape."""
    kind = kernel_family(launch.symbol)
    read = written = least = 0.0
    lane = "compute"
    if launch.sort == "memset":
        kind, written, least = "memset", float(launch.nbytes), float(launch.nbytes)
    elif launch.sort == "communication":
        kind, lane = "collective", "link"
    elif launch.sort == "memcpy":
        kind, read, written, least, lane = _copied(launch)
    return Kernel(
        name=short_symbol(launch.symbol),
        kind=kind,
        op=op,
        duration_s=launch.time_s,
        low_s=launch.time_s,
        high_s=launch.time_s,
        read_bytes=read,
        written_bytes=written,
        least_bytes=least,
        grid=max(launch.grid, 1),
        block=launch.block,
        tile=symbol_tile(launch.symbol) if kind in MATRIX else (),
        waves=launch.waves,
        occupancy=launch.occupancy,
        limiter="unknown",
        origin="measured",
        lane=lane,
    )


def _copied(launch: Launch) -> tuple[Kind, float, float, float, str]:
    """Family, bytes read and written on the device, least bytes, lane."""
    size = float(launch.nbytes)
    words = launch.symbol.lower().replace(" ", "")
    if "htod" in words or "hosttodevice" in words:
        return "transfer", 0.0, size, size, "copy_h2d"
    if "dtoh" in words or "devicetohost" in words:
        return "transfer", size, 0.0, size, "copy_d2h"
    if "ptop" in words or "peer" in words:
        return "transfer", size, 0.0, size, "link"
    return "copy", size, size, 2.0 * size, "compute"


def _role_of_model(kernel: Kernel, has_flops: bool) -> str:
    if kernel.kind == "memset":
        return "memset"
    return "main" if kernel.flops or not has_flops else "helper"


def _role(launch: Launch, has_flops: bool) -> str:
    if launch.sort == "memset":
        return "memset"
    if not has_flops:
        return "main"
    if 0 < launch.grid * launch.block < WARP:
        return "helper"
    if launch.sort == "memcpy" or _ALWAYS_HELPER.search(launch.symbol):
        return "helper"
    # Of the other words some are in the names of matrix kernels, too.
    matrix = kernel_family(launch.symbol) in MATRIX
    return "helper" if not matrix and _HELPER.search(launch.symbol) else "main"


def _possible(kernel: Kernel, launch: Launch, peak: Peak) -> bool:
    """Whether the device computes that much in the time of a launch."""
    most = peak(kernel.dtype, kernel.kind)
    return most is None or kernel.flops <= most * ROOM * launch.time_s


def _divide(model: list[Kernel], launches: list[Launch], peak: Peak) -> list[Kernel] | None:
    """Parts of the model for launches of one role; None where they cannot have done its work."""
    if len(model) == len(launches):
        pairs = list(zip(_in_order(model, launches), launches, strict=True))
        if all(_possible(kernel, launch, peak) for kernel, launch in pairs):
            return [_dressed(kernel, launch) for kernel, launch in pairs]
    return _by_time(model, launches, peak)


def _by_time(model: list[Kernel], launches: list[Launch], peak: Peak) -> list[Kernel] | None:
    """The whole of a role's work, each launch's part as its recorded time."""
    main = max(model, key=lambda k: k.duration_s)
    whole = replace(
        main,
        duration_s=sum(k.duration_s for k in model),
        low_s=sum(k.low_s for k in model),
        high_s=sum(k.high_s for k in model),
        flops=sum(k.flops for k in model),
        read_bytes=sum(k.read_bytes for k in model),
        written_bytes=sum(k.written_bytes for k in model),
        least_bytes=sum(k.least_bytes for k in model),
        compute_s=sum(k.compute_s for k in model),
        memory_s=sum(k.memory_s for k in model),
    )
    total = sum(launch.time_s for launch in launches)
    parts = []
    for launch in launches:
        share = launch.time_s / total if total > 0 else 1.0 / len(launches)
        part = _scaled(whole, share)
        if not _possible(part, launch, peak):
            return None
        parts.append(_dressed(part, launch))
    return parts


def _in_order(model: list[Kernel], launches: list[Launch]) -> list[Kernel]:
    """The model's kernels, those of a backward convolution in the order of the recorded ones."""
    mine = [_direction(k.name) for k in model]
    theirs = [_direction(launch.symbol) for launch in launches]
    if "" in (*mine, *theirs) or sorted(mine) != sorted(theirs):
        return model
    left = list(zip(mine, model, strict=True))
    ordered = []
    for wanted in theirs:
        at = next(i for i, (direction, _) in enumerate(left) if direction == wanted)
        ordered.append(left.pop(at)[1])
    return ordered


def _direction(name: str) -> str:
    found = _DIRECTION.search(name)
    return "" if found is None else "data" if found[1] else "weight"


def _scaled(kernel: Kernel, share: float) -> Kernel:
    return kernel.lasting(
        kernel.duration_s * share,
        flops=kernel.flops * share,
        read_bytes=kernel.read_bytes * share,
        written_bytes=kernel.written_bytes * share,
        least_bytes=kernel.least_bytes * share,
        compute_s=kernel.compute_s * share,
        memory_s=kernel.memory_s * share,
    )


def _dressed(kernel: Kernel, launch: Launch) -> Kernel:
    """The model's kernel with the recorded symbol and launch shape."""
    limiter, note = kernel.limiter, ""
    if launch.time_s > max(SLOW * kernel.duration_s, _SHORT_S):
        limiter, note = "unknown", Text("takes far longer than its model says")
    return replace(
        kernel,
        name=short_symbol(launch.symbol),
        grid=max(launch.grid, 1),
        block=launch.block,
        waves=launch.waves,
        occupancy=launch.occupancy,
        tile=symbol_tile(launch.symbol),
        limiter=limiter,
        note=note,
        stream=0,
    )
