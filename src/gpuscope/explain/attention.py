"""`explain attention`: tiles and waves, what fusing saves, prefill against decoding."""

from __future__ import annotations

from gpuscope.cost.types import Kernel
from gpuscope.explain.attention_case import DTYPES, Attention
from gpuscope.explain.attention_figures import (
    explorer,
    implementation,
    paths,
    prefill_and_decode,
    score_map,
    score_matrix_bytes,
    sharing,
    tile_of,
)
from gpuscope.explain.limits import limiter
from gpuscope.explain.numbers import percent, rate, seconds, size, three
from gpuscope.explain.operators import interval_s, must_fit, precision, steady, target
from gpuscope.explain.registry import topic
from gpuscope.explain.types import (
    Bar,
    Bars,
    Block,
    Explanation,
    Fact,
    Facts,
    Part,
    Role,
    Section,
    Words,
)
from gpuscope.explain.wave_map import wave_map
from gpuscope.hardware import Device

SOURCES = (
    "Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning, 2023",
    "Shah et al., FlashAttention-3, 2024: the exponentials beside the matrix products",
    "Ainslie et al., GQA: Training Generalized Multi-Query Transformer Models, 2023",
    "PyTorch: aten/src/ATen/native/transformers/attention.cpp, cuda/sdp_utils.cpp",
    "Time model: src/gpuscope/cost/attention.py; constants fitted to measurements"
    " (docs/calibration.md)",
)


@topic("attention")
def attention(
    batch: int = 1, heads: int = 32, seq: int = 4096, head_dim: int = 128, *,
    kv_heads: int | None = None, kv_seq: int | None = None, causal: bool = False,
    dtype: str = "bf16", on: str | Device = "h200", backward: bool = False,
    backend: str = "auto",
) -> Explanation:  # fmt: skip
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
        where, precision(dtype, where.device, DTYPES), batch, heads,
        heads if kv_heads is None else kv_heads, seq, seq if kv_seq is None else kv_seq, head_dim,
        causal, backward, backend.lower(),
    )  # fmt: skip
    for op in case.ops:
        must_fit(op, where.device)
    shape = f"{case.batch} x {case.heads} heads x {case.seq} x {case.head_dim}"
    keys = f"{case.kv_seq} keys, {case.kv_heads} KV heads"
    mask = ", causal" if causal else ""
    title = f"{shape}, {keys}{mask}, {case.dtype.name}, {where.device.name}"
    title_zh = (
        f"{case.batch} x {case.heads} 头 x {case.seq} x {case.head_dim}，{case.kv_seq} 个键，"
        f"{case.kv_heads} 个 KV 头{'，因果' if causal else ''}，{case.dtype.name}，"
        f"{where.device.name}"
    )
    return Explanation(
        "attention", Words(f"Attention {title}", f"注意力 {title_zh}"),
        summary=_summary(case),
        sections=(
            Section(Words("The time", "时间"), _time(case)),
            *_tiles(case),
            Section(Words("What fusing saves", "融合省了什么"), (*paths(case),)),
            Section(Words("Prefill and decoding", "预填充与解码"), (
                *prefill_and_decode(case), sharing(case), explorer(case),
            )),
        ),
        commands=_commands(case), sources=SOURCES, assumptions=_assumptions(case),
    )  # fmt: skip


def _peak(case: Attention) -> float:
    return case.on.device.peak_flops_per_s(case.dtype.name)


def _pairs(case: Attention) -> float:
    """Query-key pairs of all heads that count."""
    return case.flops / (3.5 if case.fused else 3.0) ** case.backward / (4.0 * case.head_dim)


def exponentials_s(case: Attention) -> float | None:
    """Time of one exponential for each pair on the special function units alone."""
    device = case.on.device
    units, lanes, clock = (
        device.compute_units, device.special_function_units_per_unit, device.clock_hz,
    )  # fmt: skip
    if units is None or lanes is None or clock is None:
        return None
    return _pairs(case) * (2 if case.backward else 1) / (units * lanes * clock)


def _summary(case: Attention) -> tuple[Words, ...]:
    device = case.on.device
    time = case.duration_s
    low, high = interval_s(case.every_kernel)
    speed = case.flops / time
    sets = limiter(case.main.limiter, device)
    between = f"{seconds(low)}-{seconds(high)}"
    own = case.flops / case.moved_bytes
    ridge = _peak(case) / device.memory_bandwidth_bytes_per_s
    lines = [
        Words(
            f"About {seconds(time)} on {device.name} (80 % interval {between}): "
            f"{rate(speed, 'FLOP/s')}, {percent(speed / _peak(case))} of the peak.",
            f"在 {device.name} 上约 {seconds(time)}（80 % 区间 {between}）："
            f"{rate(speed, 'FLOP/s')}，为峰值的 {percent(speed / _peak(case))}。",
        ),
        Words(
            f"What sets the time: {sets.en}. It does {three(own)} FLOP for each byte of device"
            f" memory; the ridge is {three(ridge)}.",
            f"决定时间的是：{sets.zh}。每字节显存访问对应 {three(own)} 次浮点运算，"
            f"屋脊点为 {three(ridge)}。",
        ),
    ]
    if not (case.decode and case.fused):
        lines.append(_saved(case))
    if case.decode:
        cache = case.qkv[1].nbytes + case.qkv[2].nbytes
        lines.append(
            Words(
                f"One query a head: the step reads {size(cache)} of K and V for little arithmetic;"
                " fewer heads of K and V, or a narrower cache, make it faster.",
                f"每头一个查询：这一步为少量运算读取 {size(cache)} 的 K、V；"
                "减少 KV 头或压缩缓存可加速。",
            )
        )
    elif case.causal and case.fused:
        share = case.flops / case.other(causal=False).flops
        lines.append(
            Words(
                f"The causal mask leaves {percent(share)} of the arithmetic; tiles above the"
                " diagonal are skipped.",
                f"因果掩码只留下 {percent(share)} 的运算；对角线以上的分块被跳过。",
            )
        )
    return tuple(lines)


def _saved(case: Attention) -> Words:
    matrix = score_matrix_bytes(case)
    own = size(sum(spec.nbytes for spec in (*case.qkv, case.qkv[0])))
    if case.fused:
        return Words(
            f"The scores would be a matrix of {size(matrix)}, beside {own} of Q, K, V and the"
            " result; the fused kernel never writes it.",
            f"分数矩阵本应有 {size(matrix)}，而 Q、K、V 与结果共 {own}；融合内核从不写出它。",
        )
    return Words(
        f"The scores are written out: {size(matrix)} each time, beside {own} of Q, K, V and the"
        " result.",
        f"分数矩阵被写出：每次 {size(matrix)}，而 Q、K、V 与结果共 {own}。",
    )


def _time(case: Attention) -> tuple[Block, ...]:
    device, origin = case.on.device, case.on.origin
    low, high = interval_s(case.every_kernel)
    endless = steady(case.ops, case.on, case.dtype.settings)
    peak, time = _peak(case), case.duration_s
    passes = "4 x pairs x head width"
    passes_zh = "4 x 查询-键对数 x 头宽"
    if case.backward:
        factor = "3.5" if case.fused else "3"
        passes, passes_zh = f"{factor} x {passes}", f"{factor} x {passes_zh}"
    facts = Facts((
        Fact(Words("time by itself", "单独一次的时间"), time, "s", origin, low, high),
        Fact(Words("time when repeated without pause", "不停重复时每次的时间"),
             endless.device_s, "s", origin, note=Words(
                 "at the clock that the power limit leaves", "按功耗上限所允许的频率")),
        Fact(Words("arithmetic", "运算量"), case.flops, "flop", "computed",
             note=Words(passes, passes_zh)),
        Fact(Words("speed", "速度"), case.flops / time, "flop/s", origin),
        Fact(Words("share of the dense peak", "占稠密峰值"), case.flops / time / peak, "share",
             origin, note=Words(rate(peak, "FLOP/s"), rate(peak, "FLOP/s"))),
        Fact(Words("device memory traffic", "显存访问"), case.moved_bytes, "bytes", "computed"),
        Fact(Words("arithmetic intensity", "计算强度"), case.flops / case.moved_bytes, "flop/byte",
             "computed"),
        Fact(Words("ridge of the roofline", "屋顶线的屋脊点"),
             peak / device.memory_bandwidth_bytes_per_s, "flop/byte", "datasheet"),
        Fact(Words("what sets the time", "决定时间的因素"), limiter(case.main.limiter, device)),
    ))  # fmt: skip
    return facts, _limits(case), _kernel_bars(case.every_kernel)


def _limits(case: Attention) -> Bars:
    """What it would take if only one thing counted."""
    found: list[tuple[Words, float, Role]] = [
        (Words("arithmetic at the peak", "按峰值计算"), case.flops / _peak(case), "tensor")
    ]
    exps = exponentials_s(case)
    if exps is not None:
        found.append((Words("exponentials of the softmax", "softmax 的指数运算"), exps, "compute"))
    memory = case.moved_bytes / case.on.device.memory_bandwidth_bytes_per_s
    found.append((Words("device memory at its peak", "按标称带宽访问显存"), memory, "memory"))
    found.append((Words("predicted", "预测"), case.duration_s, "other"))
    return Bars(
        Words("If only one thing counted", "若只计其中一项"), "s",
        tuple(Bar(label, (Part(label, value, role),)) for label, value, role in found),
        note=Words(
            "Exponentials run on the special function units, one for each pair, beside the tensor"
            " cores: a second limit that plain products do not have.",
            "指数运算由特殊函数单元（SFU）承担，每个查询-键对一次，与张量核心并行："
            "这是普通矩阵乘没有的第二个限制。",
        ),
    )  # fmt: skip


def _kernel_bars(kernels: tuple[Kernel, ...]) -> Bars:
    bars = []
    for kernel in kernels:
        role: Role = "tensor" if kernel.flops else "memory"
        name = Words(kernel.name, kernel.name)
        bars.append(Bar(kernel.name, (Part(name, kernel.duration_s, role),)))
    return Bars(Words("Kernels, in launch order", "内核，按启动次序"), "s", tuple(bars))


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
        blocks.append(Facts((
            Fact(Words("groups: sequences x heads of K and V", "组：序列数 x KV 头数"),
                 float(groups), "count", "computed"),
            Fact(Words("ways the keys are split", "键的切分份数"), float(splits), "count",
                 "computed", note=Words("so that few groups fill the device (flash-decoding)",
                            "让少量的组也能占满设备（flash-decoding）")),
            Fact(Words("blocks", "线程块"), float(main.grid), "count", "computed"),
            Fact(Words("waves", "波次"), main.waves, "", "computed"),
        )))  # fmt: skip
        drawn = wave_map(main.grid, units, 2, unit)
    else:
        tile_q, tile_k = tile_of(case)
        rows = -(-case.seq // tile_q)
        tiles = case.batch * case.heads * rows
        blocks.append(Facts((
            Fact(Words("tile: queries x keys of a step", "分块：每步的查询 x 键"),
                 f"{tile_q} x {tile_k}"),
            Fact(Words("tiles: sequences x heads x rows of queries", "分块数：序列 x 头 x 查询行"),
                 float(tiles), "count", "computed", note=Words(
                     f"{case.batch} x {case.heads} x {rows}",
                     f"{case.batch} x {case.heads} x {rows}")),
            Fact(Words("waves", "波次"), tiles / units, "", "computed",
                 note=Words(f"{tiles} / {units} {unit}s", f"{tiles} / {units} 个 {unit}")),
            Fact(Words(f"{unit} time lost in the last wave, all rows equal",
                       f"最后一波浪费的 {unit} 时间（各行等长时）"),
                 1.0 - tiles / (-(-tiles // units) * units), "share", "computed"),
            Fact(Words("implementation", "实现"), implementation(case)),
        )))  # fmt: skip
        blocks.append(score_map(case))
        drawn = wave_map(tiles, units, 1, unit)
    if drawn is not None:
        blocks.append(drawn)
    return (Section(Words("Tiles and waves", "分块与波次"), tuple(blocks)),)


def _commands(case: Attention) -> tuple[str, ...]:
    base = (
        f"gpuscope explain attention --batch {case.batch} --heads {case.heads} --kv-heads"
        f" {case.kv_heads} --head-dim {case.head_dim} --dtype {case.dtype.name} --on"
        f" {case.on.device.id}"
    )
    longest = max(case.seq, case.kv_seq)
    own = f"{base} --seq {case.seq} --kv-seq {case.kv_seq}" + (" --causal" if case.causal else "")
    other = f"{base} --seq {longest} --causal" if case.decode else (
        f"{base} --seq 1 --kv-seq {longest}"
    )  # fmt: skip
    return other, f"{own} --backend math", f"{own} --report attention.html"


def _assumptions(case: Attention) -> tuple[Words, ...]:
    lines = [
        Words("No input is in the L2 cache at the start; no mask but the causal one, no dropout.",
              "开始时输入都不在 L2 中；除因果掩码外没有其他掩码，也没有 dropout。"),
    ]  # fmt: skip
    if case.causal and case.seq != case.kv_seq:
        lines.append(
            Words("The causal mask begins at the first key, as PyTorch's is_causal does.",
                  "因果掩码从第一个键开始对齐，与 PyTorch 的 is_causal 相同。")
        )  # fmt: skip
    if case.causal and case.fused and not case.decode:
        lines.append(
            Words(
                "Under a causal mask blocks differ in length; the map of waves shows how many there"
                " are, not when each ends.",
                "因果掩码下各线程块长短不一；波次图只表示数量，不表示各自何时结束。",
            )
        )
    return (*lines, *case.on.assumptions)
