"""`explain attention`: tiles and waves, what fusing saves, prefill against decoding."""

from __future__ import annotations

from gpuscope.cost.types import Kernel
from gpuscope.document.blocks import Bar, Bars, Block, Explanation, Fact, Facts, Part, Role, Section
from gpuscope.document.quantities import Bytes, Number, Percent, Rate, Seconds
from gpuscope.document.text import Text, joined, verbatim
from gpuscope.explanation.attention_case import DTYPES, Attention
from gpuscope.explanation.attention_figures import (
    explorer,
    implementation,
    paths,
    prefill_and_decode,
    score_map,
    score_matrix_bytes,
    sharing,
    tile_of,
)
from gpuscope.explanation.limits import kernel_limiter
from gpuscope.explanation.operators import (
    interval_s,
    must_fit,
    precision,
    repeated_time,
    steady,
    target,
)
from gpuscope.explanation.registry import topic
from gpuscope.explanation.wave_map import wave_map
from gpuscope.hardware import Device

SOURCES = (
    "Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning, 2023",
    "Shah et al., FlashAttention-3, 2024: the exponentials beside the matrix products",
    "Ainslie et al., GQA: Training Generalized Multi-Query Transformer Models, 2023",
    "PyTorch: aten/src/ATen/native/transformers/attention.cpp, cuda/sdp_utils.cpp",
    Text(
        "Time model: {file}; constants fitted to measurements (docs/calibration.md)",
        file="src/gpuscope/cost/attention/model.py",
    ),
)


@topic("attention")
def attention(
    batch: int = 1,
    heads: int = 32,
    seq: int = 4096,
    head_dim: int = 128,
    *,
    kv_heads: int | None = None,
    kv_seq: int | None = None,
    causal: bool = False,
    dtype: str = "bf16",
    on: str | Device = "h200",
    backward: bool = False,
    backend: str = "auto",
) -> Explanation:
    """Explain one call of scaled dot-product attention.

    Args:
        batch, heads, seq, head_dim: sequences, query heads, queries of a sequence, head width.
        kv_heads: heads of K and V; as many as query heads by default.
        kv_seq: keys of a sequence; as many as queries by default. One query and many keys is a
            step of decoding.
        causal: a query sees only the keys up to its own position.
        dtype: bf16, fp16, tf32, fp32, fp64.
        on: a device.
        backward: the gradients, too.
        backend: auto, cudnn, flash, efficient, math.

    Raises:
        InvalidValueError: sizes that cannot be, or do not fit in memory.
        UnknownNameError, UnsupportedError: no such device or dtype, or not this implementation.
    """
    where = target(on)
    case = Attention(
        where,
        precision(dtype, where.device, DTYPES),
        batch,
        heads,
        heads if kv_heads is None else kv_heads,
        seq,
        seq if kv_seq is None else kv_seq,
        head_dim,
        causal,
        backward,
        backend.lower(),
    )
    for op in case.ops:
        must_fit(op, where.device)
    parts = (
        Text(
            "Attention {batch} x {heads} heads x {seq} x {head_dim}",
            batch=case.batch,
            heads=case.heads,
            seq=case.seq,
            head_dim=case.head_dim,
        ),
        Text("{count} keys", count=case.kv_seq),
        Text("{count} KV heads", count=case.kv_heads),
        Text("causal") if causal else None,
        case.dtype.name,
        where.device.name,
    )
    return Explanation(
        "attention",
        joined(parts),
        summary=_summary(case),
        sections=(
            Section(Text("The time"), _time(case)),
            *_tiles(case),
            Section(Text("What fusing saves"), (*paths(case),)),
            Section(
                Text("Prefill and decoding"),
                (*prefill_and_decode(case), sharing(case), explorer(case)),
            ),
        ),
        commands=_commands(case),
        sources=SOURCES,
        assumptions=_assumptions(case),
    )


def _peak(case: Attention) -> float:
    return case.on.device.peak_flops_per_s(case.dtype.name)


def _pairs(case: Attention) -> float:
    """Query-key pairs of all heads that count."""
    return case.flops / (3.5 if case.fused else 3.0) ** case.backward / (4.0 * case.head_dim)


def exponentials_s(case: Attention) -> float | None:
    """Time of one exponential for each pair on the special function units alone."""
    device = case.on.device
    units, lanes, clock = (
        device.compute_units,
        device.special_function_units_per_unit,
        device.clock_hz,
    )
    if units is None or lanes is None or clock is None:
        return None
    return _pairs(case) * (2 if case.backward else 1) / (units * lanes * clock)


def _summary(case: Attention) -> tuple[Text, ...]:
    device = case.on.device
    time = case.duration_s
    low, high = interval_s(case.every_kernel)
    speed = case.flops / time
    sets = kernel_limiter(case.main, device)
    between = f"{Seconds(low)}-{Seconds(high)}"
    own = case.flops / case.moved_bytes
    ridge = _peak(case) / device.memory_bandwidth_bytes_per_s
    lines = [
        Text(
            "About {time} on {device} (80 % interval {between}): {speed}, {speed_2} of the peak.",
            time=Seconds(time),
            device=device.name,
            between=between,
            speed=Rate(speed, "FLOP/s"),
            speed_2=Percent(speed / _peak(case)),
        ),
        Text(
            "What sets the time: {sets}. It does {own} FLOP for each byte of device memory; the "
            "ridge is {ridge}.",
            sets=sets,
            own=Number(own),
            ridge=Number(ridge),
        ),
    ]
    if not (case.decode and case.fused):
        lines.append(_saved(case))
    if case.decode:
        cache = case.qkv[1].nbytes + case.qkv[2].nbytes
        lines.append(
            Text(
                "One query a head: the step reads {cache} of K and V for little arithmetic; fewer "
                "heads of K and V, or a narrower cache, make it faster.",
                cache=Bytes(cache),
            )
        )
    elif case.causal and case.fused:
        share = case.flops / case.other(causal=False).flops
        lines.append(
            Text(
                "The causal mask leaves {share} of the arithmetic; tiles above the diagonal are "
                "skipped.",
                share=Percent(share),
            )
        )
    return tuple(lines)


def _saved(case: Attention) -> Text:
    matrix = score_matrix_bytes(case)
    own = Bytes(sum(spec.nbytes for spec in (*case.qkv, case.qkv[0])))
    if case.fused:
        return Text(
            "The scores would be a matrix of {matrix}, beside {own} of Q, K, V and the result; the "
            "fused kernel never writes it.",
            matrix=Bytes(matrix),
            own=own,
        )
    return Text(
        "The scores are written out: {matrix} each time, beside {own} of Q, K, V and the result.",
        matrix=Bytes(matrix),
        own=own,
    )


def _time(case: Attention) -> tuple[Block, ...]:
    device, origin = case.on.device, case.on.origin
    low, high = interval_s(case.every_kernel)
    endless = steady(case.ops, case.on, case.dtype.settings)
    peak, time = _peak(case), case.duration_s
    passes = Text("4 x pairs x head width")
    if case.backward:
        passes = Text("{factor} x {passes}", factor="3.5" if case.fused else "3", passes=passes)
    facts = Facts(
        (
            Fact(Text("time by itself"), time, "s", origin, low, high),
            repeated_time(endless, origin),
            Fact(Text("arithmetic"), case.flops, "flop", "computed", note=passes),
            Fact(Text("speed"), case.flops / time, "flop/s", origin),
            Fact(
                Text("share of the dense peak"),
                case.flops / time / peak,
                "share",
                origin,
                note=verbatim(Rate(peak, "FLOP/s")),
            ),
            Fact(Text("device memory traffic"), case.moved_bytes, "bytes", "computed"),
            Fact(
                Text("arithmetic intensity"), case.flops / case.moved_bytes, "flop/byte", "computed"
            ),
            Fact(
                Text("ridge of the roofline"),
                peak / device.memory_bandwidth_bytes_per_s,
                "flop/byte",
                "computed",
            ),
            Fact(Text("what sets the time"), kernel_limiter(case.main, device)),
        )
    )
    return facts, _limits(case), _kernel_bars(case.every_kernel)


def _limits(case: Attention) -> Bars:
    """What it would take if only one thing counted."""
    found: list[tuple[Text, float, Role]] = [
        (Text("arithmetic at the peak"), case.flops / _peak(case), "tensor")
    ]
    exps = exponentials_s(case)
    if exps is not None:
        found.append((Text("exponentials of the softmax"), exps, "compute"))
    memory = case.moved_bytes / case.on.device.memory_bandwidth_bytes_per_s
    found.append((Text("device memory at its peak"), memory, "memory"))
    found.append((Text("predicted"), case.duration_s, "other"))
    return Bars(
        Text("If only one thing counted"),
        "s",
        tuple(Bar(label, (Part(label, value, role),)) for label, value, role in found),
        note=Text(
            "Exponentials run on the special function units, one for each pair, beside the tensor "
            "cores: a second limit that plain products do not have."
        ),
    )


def _kernel_bars(kernels: tuple[Kernel, ...]) -> Bars:
    bars = []
    for kernel in kernels:
        role: Role = "tensor" if kernel.flops else "memory"
        name = verbatim(kernel.name)
        bars.append(Bar(name, (Part(name, kernel.duration_s, role),)))
    return Bars(Text("Kernels, in launch order"), "s", tuple(bars))


def _tiles(case: Attention) -> tuple[Section, ...]:
    """How the fused kernel is cut up; none where the path is not fused."""
    if not case.fused:
        return ()
    device, main = case.on.device, case.main
    units = device.compute_units or 1
    unit = device.compute_unit_label
    blocks: list[Block] = []
    if case.decode and main.tile[0] != tile_of(case)[0]:
        groups = case.batch * case.kv_heads
        splits = main.grid // groups
        blocks.append(
            Facts(
                (
                    Fact(
                        Text("groups: sequences x heads of K and V"),
                        float(groups),
                        "count",
                        "computed",
                    ),
                    Fact(
                        Text("ways the keys are split"),
                        float(splits),
                        "count",
                        "computed",
                        note=Text("so that few groups fill the device (flash-decoding)"),
                    ),
                    Fact(Text("blocks"), float(main.grid), "count", "computed"),
                    Fact(Text("waves"), main.waves, "", "computed"),
                )
            )
        )
        drawn = wave_map(main.grid, units, 2, unit)
    else:
        tile_q, tile_k = tile_of(case)
        rows = -(-case.seq // tile_q)
        tiles = case.batch * case.heads * rows
        blocks.append(
            Facts(
                (
                    Fact(Text("tile: queries x keys of a step"), f"{tile_q} x {tile_k}"),
                    Fact(
                        Text("tiles: sequences x heads x rows of queries"),
                        float(tiles),
                        "count",
                        "computed",
                        note=verbatim(f"{case.batch} x {case.heads} x {rows}"),
                    ),
                    Fact(
                        Text("waves"),
                        tiles / units,
                        "",
                        "computed",
                        note=Text("{tiles} / {units} {unit}s", tiles=tiles, units=units, unit=unit),
                    ),
                    Fact(
                        Text("{unit} time lost in the last wave, all rows equal", unit=unit),
                        1.0 - tiles / (-(-tiles // units) * units),
                        "share",
                        "computed",
                    ),
                    Fact(Text("implementation"), implementation(case)),
                )
            )
        )
        blocks.append(score_map(case))
        drawn = wave_map(tiles, units, 1, unit)
    if drawn is not None:
        blocks.append(drawn)
    return (Section(Text("Tiles and waves"), tuple(blocks)),)


def _commands(case: Attention) -> tuple[str, ...]:
    base = (
        f"gpuscope explain attention --batch {case.batch} --heads {case.heads} --kv-heads"
        f" {case.kv_heads} --head-dim {case.head_dim} --dtype {case.dtype.name} --on"
        f" {case.on.device.id}"
    )
    longest = max(case.seq, case.kv_seq)
    own = f"{base} --seq {case.seq} --kv-seq {case.kv_seq}" + (" --causal" if case.causal else "")
    other = (
        f"{base} --seq {longest} --causal"
        if case.decode
        else (f"{base} --seq 1 --kv-seq {longest}")
    )
    return other, f"{own} --backend math", f"{own} --report attention.html"


def _assumptions(case: Attention) -> tuple[Text, ...]:
    lines = [
        Text("No input is in the L2 cache at the start; no mask but the causal one, no dropout.")
    ]
    if case.causal and case.seq != case.kv_seq:
        lines.append(Text("The causal mask begins at the first key, as PyTorch's is_causal does."))
    if case.causal and case.fused and not case.decode:
        lines.append(
            Text(
                "Under a causal mask blocks differ in length; the map of waves shows how many "
                "there are, not when each ends."
            )
        )
    return (*lines, *case.on.assumptions)
