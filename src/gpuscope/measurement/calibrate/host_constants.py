"""Constants of the host from measured calls: each one directly, nothing fitted.

Every constant is the median of one measurement, or a difference of two (said in its note); its
interval is from the least to the 90th percentile seen. Operators that were not measured take the
median of their class; what no measured operator resembles is carried from the base, or from the
model's defaults, scaled by how much faster or slower this host was on what was measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpuscope.cost.host.model import host_class
from gpuscope.hardware import CalibratedValue, Calibration
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate.host_compiled_constants import compiled_constants

OPERATORS: Mapping[str, str] = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "neg": "neg",
    "pow": "pow",
    "exp": "exp",
    "rsqrt": "rsqrt",
    "cos": "cos",
    "eq": "eq_scalar",
    "where": "where",
    "masked_fill": "masked_fill",
    "mm": "mm",
    "bmm": "bmm",
    "addmm": "addmm",
    "native_layer_norm": "layer_norm",
    "rms_norm": "rms_norm",
    "native_batch_norm": "batch_norm_train",
    "native_group_norm": "group_norm",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "gelu": "gelu",
    "silu": "silu",
    "relu": "relu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "native_dropout": "dropout",
    "sum": "sum",
    "mean": "mean_last",
    "amax": "amax",
    "argmax": "argmax",
    "topk": "topk",
    "cumsum": "cumsum",
    "sort": "sort",
    "linalg_vector_norm": "norm",
    "cat": "cat",
    "stack": "stack",
    "clone": "clone",
    "_to_copy": "to_bf16",
    "embedding": "embedding",
    "index": "index_tensor",
    "gather": "gather",
    "attention": "sdpa_causal",
    "convolution": "conv2d",
    "max_pool2d_with_indices": "max_pool2d",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "empty": "empty",
    "zeros": "zeros",
    "ones": "ones",
    "full": "full",
    "arange": "arange",
    "randn": "randn",
    "zeros_like": "zeros_like",
    "empty_like": "empty_like",
    "add_": "add_",
    "mul_": "mul_",
    "fill_": "fill_",
    "zero_": "zero_",
    "randint": "randint",
    "triu": "triu",
    "transpose": "transpose",
    "permute": "permute",
    "unsqueeze": "unsqueeze",
    "expand": "expand",
    "slice": "slice",
    "select": "select",
    "view": "view",
    "split": "split",
    "detach": "detach",
    "ge": "ge",
    "floor_divide": "floor_divide",
    "histc": "histc",
    "_embedding_bag": "embedding_bag",
    "abs": "abs",
    "clamp": "clamp",
    "log": "log",
    "log1p": "log",
    "sqrt": "sqrt",
}
"""Operator -> the measured call that is just this operator."""

COLLECTIVES: Mapping[str, tuple[str, ...]] = {
    "all_reduce": ("allreduce",),
    "all_gather": ("_allgather_base",),
    "reduce_scatter": ("_reduce_scatter_base",),
    "all_to_all": ("alltoall_base",),
    "broadcast": ("broadcast",),
    "send_recv": ("send", "recv"),
}
"""Collective of the bench -> the operators that share its host time."""

_MODES = (("plain", "no_grad"), ("autograd", "grad"))
LENGTHS = (16, 64)
"""Time steps of the recurrent layer whose launches are timed (`bench.host_recurrent`)."""

LAUNCHES_A_STEP = 2
"""A product and a cell."""

_LIST_STEPS = (300, 100)
"""Numbers of parameters whose difference says what one costs."""

_UNSCALED_SPREAD = 0.12
"""Least half-width of a host constant that was carried by the ratio of others."""

_LEAST_LATENCY_S = 1e-6

_LEAST_LAUNCH_S = 1e-6
"""No launch costs the host less: a longer layer that takes hardly longer was launched at once (a
persistent kernel), or measured by chance."""

_UNLIKE = frozenset(
    "transpose permute unsqueeze expand slice select view split detach sort topk".split()
)
"""Measured operators that say nothing of others of their class: views, and several launches."""

_SCALE_SPREAD = 0.12
"""Half-width of what the host of this very machine costs, where nothing else says it."""


@dataclass(frozen=True, slots=True)
class _Seen:
    value: float
    low: float
    high: float

    def times(self, factor: float) -> _Seen:
        return _Seen(self.value * factor, self.low * factor, self.high * factor)


class _Calls:
    """Measured calls by family, name and variant."""

    def __init__(self, points: Iterable[Point]) -> None:
        self._found: dict[tuple[str, str, str], _Seen] = {}
        for p in points:
            if p.state != "host" or not p.median_s:
                continue
            key = (p.family, str(p.params.get("name", "")), str(p.params.get("variant", "")))
            self._found.setdefault(
                key, _Seen(p.median_s, p.min_s or p.median_s, p.p90_s or p.median_s)
            )

    def get(self, family: str, name: str, variant: str) -> _Seen | None:
        return self._found.get((family, name, variant))

    def difference(self, one: tuple[str, str, str], other: tuple[str, str, str]) -> float | None:
        a, b = self.get(*one), self.get(*other)
        return None if a is None or b is None else a.value - b.value

    def of(self, family: str) -> dict[tuple[str, str], _Seen]:
        return {(n, v): seen for (f, n, v), seen in self._found.items() if f == family}


def host_constants(points: Iterable[Point], base: Calibration) -> dict[str, CalibratedValue]:
    """`host.*` and `launch.*` as measured; the other `host.*` of the base scaled by the ratio.

    What is not there to measure is left out; an empty answer says that no host call was measured.

    Args:
        points: of the benches "host" and "launch" (others are left out).
        base: whose other host constants are carried.
    """
    points = tuple(points)
    calls = _Calls(points)
    operators = _operators(calls)
    found = {
        **operators,
        **_classes(operators),
        **_parts(calls),
        **_parameters(calls),
        **_launches(calls),
        **_further(calls),
        **_collectives(calls),
        **compiled_constants({key: seen.value for key, seen in calls.of("compiled").items()}),
    }
    return found if not found else {**_carried(found, base), **found}


def _entry(seen: _Seen, note: str = "") -> CalibratedValue:
    low, high = min(seen.low, seen.value), max(seen.high, seen.value)
    return CalibratedValue(seen.value, "s", "measured", low, high, note)


def _operators(calls: _Calls) -> dict[str, CalibratedValue]:
    found = {}
    for op, call in OPERATORS.items():
        for mode, variant in _MODES:
            seen = calls.get("op", call, variant)
            if seen is not None:
                found[f"host.op.{op}.{mode}_s"] = _entry(seen)
    return found


def _classes(operators: Mapping[str, CalibratedValue]) -> dict[str, CalibratedValue]:
    """What an operator costs that was not measured: the median of those of its class.

    Of "other", which nothing resembles, the median of all that launch a kernel.
    """
    seen: dict[tuple[str, str], list[float]] = {}
    for name, entry in operators.items():
        base, mode = name.removeprefix("host.op.").split(".")
        kind = host_class(base)
        if base in _UNLIKE:
            continue
        seen.setdefault((kind, mode), []).append(entry.value)
        if kind not in ("factory", "other"):
            seen.setdefault(("other", mode), []).append(entry.value)
    found = {}
    for (kind, mode), values in seen.items():
        note = f"median of {len(values)} measured operators"
        least, middle, most = min(values), statistics.median(values), max(values)
        found[f"host.{kind}.{mode}"] = replace(
            _entry(_Seen(middle, least, most), note), origin="estimated"
        )
    return found


def _further(calls: _Calls) -> dict[str, CalibratedValue]:
    """A launch inside a library's loop: two lengths of one recurrent layer, by the difference.

    What the two kinds of launches cost together is measured; how they share it is as for single
    calls (a product dearer than a cell by what `mm` is dearer than `add`). What is left of the
    shorter one, without the two states of zeros that the module makes, is describing the layer to
    the library: the operator itself with its first launch.
    """
    few, many = LENGTHS
    gap = calls.difference(("recurrent", "lstm", str(many)), ("recurrent", "lstm", str(few)))
    apart = calls.difference(("op", "mm", "no_grad"), ("op", "add", "no_grad"))
    if gap is None or gap <= 0 or apart is None:
        return {}
    each = gap / (many - few) / LAUNCHES_A_STEP
    if each < _LEAST_LAUNCH_S:
        return {}
    half = max(0.0, min(apart, each)) / 2
    note = "one more launch of a recurrent layer, shared as mm and add part"
    found = {
        f"host.further.{name}_s": _entry(
            _Seen(each + part, 0.8 * each + part, 1.3 * each + part), note
        )
        for name, part in (("product", half), ("kernel", -half))
    }
    short, zeros = calls.get("recurrent", "lstm", str(few)), calls.get("op", "zeros", "no_grad")
    if short is not None and zeros is not None:
        once = short.value - (few * LAUNCHES_A_STEP - 1) * each - 2 * zeros.value
        if once > 0:
            seen = _Seen(once, 0.7 * once, 1.5 * once)
            for mode in ("plain", "autograd"):
                found[f"host.op.rnn.{mode}_s"] = _entry(seen, "an LSTM without its time steps")
    return found


def _collectives(calls: _Calls) -> dict[str, CalibratedValue]:
    """What issuing a collective costs, as each rank timed it with a small message."""
    found = {}
    for family, names in COLLECTIVES.items():
        seen = calls.get(family, "", "")
        if seen is not None:
            note = "issued by torch.distributed, blocking"
            for name in names:
                one = seen.times(1 / len(names))
                found[f"host.op.{name}.plain_s"] = _entry(one, note)
    return found


def _parts(calls: _Calls) -> dict[str, CalibratedValue]:
    """Views made inside of C++, module calls, autograd nodes, waits."""
    found = {}
    for mode, variant in _MODES:
        both = calls.difference(("op", "matmul3d2d", variant), ("op", "mm", variant))
        alone = calls.get("op", "view", variant)
        if both is not None and alone is not None and both > 0:
            seen = _Seen(both / 2, both * 0.35, alone.value)
            note = "a view made inside C++: half of matmul3d2d minus mm"
            found[f"host.view.{mode}_s"] = _entry(seen, note)
    module = calls.difference(("module", "nn_linear", "grad"), ("module", "f_linear", "grad"))
    least = calls.get("module", "empty_module", "grad")
    if module is not None and least is not None:
        value = max(module, least.value)
        seen = _Seen(value, least.low, value * 2)
        found["host.module_call_s"] = _entry(seen, "nn.Linear minus F.linear")
    node = calls.get("backward_per_node", "clone", "chain100")
    if node is not None:
        found["host.backward_node_s"] = _entry(
            node, "one autograd node without an operator of its own: clone's backward per node"
        )
    for name, call in (("item", "item"), ("synchronize", "synchronize_idle")):
        wait = calls.get("sync", call, "round_trip")
        if wait is not None:
            found[f"host.{name}_s"] = _entry(wait, "nothing to wait for")
    return found


def _parameters(calls: _Calls) -> dict[str, CalibratedValue]:
    """What one more parameter costs an optimizer's step and the zeroing of gradients."""
    found = {}
    many, few = _LIST_STEPS
    for name, family, call in (
        ("adamw_foreach", "optimizer_step", "adamw_foreach"),
        ("adamw_fused", "optimizer_step", "adamw_fused"),
        ("zero_grad", "zero_grad", "set_to_none"),
    ):
        gap = calls.difference((family, call, str(many)), (family, call, str(few)))
        if gap is not None and gap > 0:
            one = gap / (many - few)
            found[f"host.{name}.per_parameter_s"] = _entry(
                _Seen(one, one * 0.8, one * 1.3), f"{many} minus {few} tensors"
            )
    return found


def _launches(calls: _Calls) -> dict[str, CalibratedValue]:
    """The launch call, the way to the device, and the gap between queued kernels."""
    found = {}
    queued = calls.get("queue", "add_", "device_saturated")
    profiled = _middle(calls, "launch_call", "saturated")
    if queued is not None:
        one = queued.value
        found["host.launch_s"] = _entry(
            _Seen(one, one * 0.75, max(profiled or one * 1.5, one)),
            "a tiny kernel, many queued; high: the call under the profiler",
        )
    latency, call = (_middle(calls, f"launch_{k}", "idle") for k in ("latency", "call"))
    if latency is not None and call is not None:
        # The profiler makes the call itself longer; what comes after it is the device's.
        own = found["host.launch_s"].value if "host.launch_s" in found else 2e-6
        value = max(_LEAST_LATENCY_S, latency - call + own)
        seen = _Seen(value, value * 0.7, max(latency, value))
        found["launch.latency_s"] = _entry(seen, "an idle device")
    gap = _middle(calls, "launch_gap", "saturated")
    if gap is not None and gap > 0:
        found["launch.gap_s"] = _entry(_Seen(gap, gap * 0.8, gap * 1.3), "queued kernels")
    return found


def _middle(calls: _Calls, family: str, variant: str) -> float | None:
    """Median over the kernels of a family; None where none was measured."""
    seen = [s.value for (_, v), s in calls.of(family).items() if v == variant]
    return statistics.median(seen) if seen else None


def _carried(found: Mapping[str, CalibratedValue], base: Calibration) -> dict[str, CalibratedValue]:
    """Host constants of the base that were not measured, by the ratio of those that were."""
    ratios = [
        entry.value / base.value(name)
        for name, entry in found.items()
        if name.startswith("host.op.") and name in base and base.value(name) > 0
    ]
    # Where no call was measured, this host is as unknown as any.
    unknown = base.value("host.scale") if "host.scale" in base else 1.0
    ratio = statistics.median(ratios) if ratios else unknown
    near = sorted(abs(r / ratio - 1) for r in ratios)
    half = max(_UNSCALED_SPREAD, near[int(0.8 * (len(near) - 1))] if near else 0.3)
    out = {}
    for name, entry in base.entries:
        if not name.startswith("host.") or name in found or entry.unit != "s":
            continue
        value = entry.value * ratio
        width = max(half, entry.spread) * value
        out[name] = replace(
            entry,
            value=value,
            low=value - width,
            high=value + width,
            origin="estimated",
            note=f"carried from {base.measured_on}, times {ratio:.2f}: calls measured on this host",
        )
    out["host.scale"] = CalibratedValue(
        1.0, "1", "measured", 1 - _SCALE_SPREAD, 1 + _SCALE_SPREAD, "this very host"
    )
    return out
