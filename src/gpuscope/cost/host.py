"""What the host spends to issue an operator: Python, dispatch, autograd, launch.

Eager PyTorch is often paced by the CPU. The cost of one call is taken apart as

    module_call * (modules entered) + python_call * (API calls) + base(class, mode) + launches

where `base` is the time of the whole call on an otherwise idle host, measured per class of
operator (`bench`: tiny tensors, the device faster than the host), in three modes: plain,
recording autograd, and called by the autograd engine (no Python in between). All constants are
`host.*` of the calibration; another machine's CPU may be twice slower, which `host.scale`'s
spread says.
"""

from __future__ import annotations

from functools import lru_cache

from gpuscope.cost.registry import Constants
from gpuscope.cost.types import HostCost
from gpuscope.program.types import Op, Program

#: Seconds of one eager call with one launch included, by class (plain, autograd, backward).
#: Measured on the host of an H200 machine; overridden by `host.<class>.<mode>_s`.
DEFAULTS: dict[str, tuple[float, float, float]] = {
    "view": (1.6e-6, 2.6e-6, 1.2e-6),
    "pointwise": (4.5e-6, 6.0e-6, 5.0e-6),
    "matmul": (8.0e-6, 10.0e-6, 9.0e-6),
    "attention": (16e-6, 24e-6, 30e-6),
    "convolution": (18e-6, 22e-6, 40e-6),
    "normalization": (9e-6, 13e-6, 14e-6),
    "reduction": (7e-6, 9e-6, 8e-6),
    "softmax": (6e-6, 8e-6, 7e-6),
    "gather": (7e-6, 9e-6, 12e-6),
    "copy": (6e-6, 8e-6, 6.5e-6),
    "factory": (3.5e-6, 3.5e-6, 3.5e-6),
    "foreach": (6e-6, 6e-6, 6e-6),
    "recurrent": (60e-6, 80e-6, 120e-6),
    "item_host": (0.7e-6, 0.7e-6, 0.7e-6),
    "sync": (8e-6, 8e-6, 8e-6),
    "collective": (30e-6, 35e-6, 35e-6),
    "other": (6e-6, 8e-6, 7e-6),
}

_CLASS_BY_WORD: tuple[tuple[str, str], ...] = (
    ("_foreach", "foreach"), ("_fused_", "foreach"), ("_amp_", "foreach"),
    ("attention", "attention"), ("convolution", "convolution"), ("rnn", "recurrent"),
    ("bmm", "matmul"), ("addmm", "matmul"), ("mm", "matmul"),
    ("layer_norm", "normalization"), ("batch_norm", "normalization"),
    ("group_norm", "normalization"), ("rms_norm", "normalization"),
    ("softmax", "softmax"), ("embedding", "gather"), ("index", "gather"), ("gather", "gather"),
    ("scatter", "gather"), ("sort", "gather"), ("topk", "gather"), ("nonzero", "gather"),
    ("sum", "reduction"), ("mean", "reduction"), ("amax", "reduction"), ("norm", "reduction"),
    ("_to_copy", "copy"), ("copy_", "copy"), ("clone", "copy"), ("cat", "copy"),
    ("empty", "factory"), ("zeros", "factory"), ("ones", "factory"), ("full", "factory"),
    ("c10d", "collective"), ("all_reduce", "collective"), ("all_gather", "collective"),
)  # fmt: skip

_POINTWISE = frozenset(
    """add sub mul div neg exp log pow sqrt rsqrt sin cos tanh sigmoid silu gelu relu
    threshold_backward gelu_backward silu_backward tanh_backward sigmoid_backward native_dropout
    native_dropout_backward where masked_fill eq ne gt lt ge le bitwise_and bitwise_or
    bitwise_not logical_and logical_or logical_not clamp fill zero reciprocal abs addcmul addcdiv
    lerp maximum minimum erf isnan isinf fill_ zero_ triu tril""".split()
)


@lru_cache(maxsize=4096)
def host_class(name: str) -> str:
    """Class of an operator by its name ("aten::mm" -> "matmul")."""
    base = name.rpartition("::")[2]
    if base in _POINTWISE or base.rstrip("_") in _POINTWISE:
        return "pointwise"
    for word, kind in _CLASS_BY_WORD:
        if word in base or word in name:
            return kind
    return "other"


class HostModel:
    """Host cost of the operators of one program.

    Args:
        constants: calibrated `host.*` constants; defaults where absent.
        program: for what holds over the whole program (compiled or not).
    """

    def __init__(self, constants: Constants, program: Program) -> None:
        get = constants.get
        self.scale = get("host.scale", 1.0)
        self.launch_s = get("host.launch_s", 2.2e-6)
        self.module_s = get("host.module_call_s", 2.2e-6)
        self.python_s = get("host.python_call_s", 0.25e-6)
        self.foreach_tensor_s = get("host.foreach.per_tensor_s", 0.25e-6)
        self.sync_s = get("host.sync_return_s", 6e-6)
        self.compiled = bool(program.compiled)
        self.compiled_launch_s = get("host.compiled.per_kernel_s", 3.5e-6)
        self._bases = {
            kind: tuple(
                get(f"host.{kind}.{mode}_s", default)
                for mode, default in zip(("plain", "autograd", "backward"), defaults, strict=True)
            )
            for kind, defaults in DEFAULTS.items()
        }

    def cost(self, op: Op, launches: int) -> HostCost:
        """Host time of one operator that makes `launches` launches."""
        if self.compiled and op.phase != "optimizer" and op.name == "gpuscope::fused":
            return HostCost(0.0, self.compiled_launch_s * self.scale, 0.0, op.sync)
        total = self._base_s(op)
        per_launch = self.launch_s
        before = max(total - per_launch * min(launches, 1), 0.3e-6)
        before += op.module_calls * self.module_s + op.python_calls * self.python_s
        after = self.sync_s if op.sync else 0.0
        scale = self.scale
        return HostCost(before * scale, per_launch * scale, after * scale, op.sync)

    def _base_s(self, op: Op) -> float:
        mode = 2 if op.phase == "backward" and not op.recomputed else int(op.autograd)
        if op.view:
            return self._bases["view"][mode]
        if op.name == "aten::_local_scalar_dense":
            return self._bases["sync" if op.sync else "item_host"][0]
        kind = "sync" if op.name == "gpuscope::synchronize" else host_class(op.name)
        base = self._bases[kind][mode]
        if kind == "foreach":
            base += self.foreach_tensor_s * len(op.inputs)
        return base
