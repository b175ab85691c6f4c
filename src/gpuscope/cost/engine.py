"""Cost a captured program for a device: every operator its kernels and its host time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from math import hypot

from gpuscope.cost.attention.plans import TOLD, Plans
from gpuscope.cost.host.model import HostModel
from gpuscope.cost.identity import Same
from gpuscope.cost.matmul import data_sized
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.residency import residency
from gpuscope.cost.residual import LEARNED, corrected
from gpuscope.cost.types import CostedOp, CostedProgram, Kernel
from gpuscope.document.text import Text
from gpuscope.errors import CaptureError
from gpuscope.hardware import Calibration, Cluster, Device, Distance, calibration_for
from gpuscope.program.types import WHOLE_STEP, XLA, Op, ProcessGroup, Program, TensorSpec

NO_KERNEL = frozenset(
    {
        "gpuscope::synchronize",
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::_local_scalar_dense",
        "aten::resize_",
        "aten::view",
        "aten::_unsafe_view",
        "aten::_reshape_alias",
        "aten::equal",
        "aten::lift_fresh_copy",
        "aten::native_dropout_meta",
    }
)
"""Operators that launch nothing (or, for `.item()`, only a copy that the host waits for)."""

COMPILED_SPREAD = 0.06
"""Relative 80 % half-width that compiling adds to a step's device time: 80 % of 78 small compiled
functions are within 16 % (benchmarks/fit/compiled_points.py), and generated kernels take about a
third of a compiled step."""

_OF_PYTORCH = frozenset({"aten", "prims", "gpuscope", "torchvision", "torchaudio", "c10d"})
"""Namespaces of operators that are nobody's own."""

SYSTEMATIC_SPREAD = 0.067
"""Relative 80 % half-width of what kernels of one kind err by together on a calibrated device: the
80 % quantile of the median errors of 226 groups of one operator, dtype and direction, over 4,441
points of the calibration's own recordings."""

SYSTEMATIC_SPREAD_CARRIED = 0.2
"""The same on a device whose kernels nobody measured: a judgement, a little above what
leaving devices out gave since: 0.18, of 39 kinds of kernels on 16 devices
(`benchmarks/fit/leave_one_out.py`)."""

COMMON_SPREAD: Mapping[Distance, float] = {
    Distance.KERNELS_ONLY: 0.04,
    Distance.SAME_GENERATION: 0.05,
    Distance.SAME_VENDOR: 0.10,
    Distance.OTHER_VENDOR: 0.25,
}
"""Relative 80 % half-width of an error that all kernels share where the constants come from another
device: how far its libraries, its clocks and its memory are from what carries over. Judgements: for
one vendor's generations, products carried to eight NVIDIA devices erred by 6 to 25 % in the median
(`benchmarks/results/published_matmul.json`); nothing of other vendors was held against a recording.
"""

PRIOR_SPREAD = 0.45
"""The same where no device of the maker was measured: the published runs that `catalogue/priors`
names reached about 0.5 to 1.0 of what NVIDIA's shares of the peaks would give, 0.78 in the middle.
"""

_TOLD_SHARE = 0.1
"""Share of the host's time from which its own arithmetic is told."""

HOST_COMPUTES = Text(
    "Arithmetic on CPU tensors is estimated for a host of 16 cores (AVX-512, about 1.2 TFLOP/s in "
    "float32); another one may take three times as long, or a third."
)

GRAPHED_MODES = frozenset({"reduce-overhead", "max-autotune", "cudagraphs", WHOLE_STEP})


def cost_program(
    program: Program,
    device: Device,
    calibration: Calibration | None = None,
    *,
    strict: bool = False,
    cluster: Cluster | None = None,
) -> CostedProgram:
    """Turn a program into kernels and host times on `device`.

    Args:
        program: captured once, for any device.
        device: what to cost it for; a what-if device is as good as a real one.
        calibration: measured constants; the catalogue's own for this device by default.
        strict: refuse operators without a kernel model instead of taking them as
            bandwidth-bound.
        cluster: what collectives run on; None: as small a cluster of `device` as they need.

    Raises:
        UnsupportedError: the device lacks a dtype that the program computes in.
        CaptureError: an operator without a model, under `strict`.
    """
    constants = Constants(calibration or calibration_for(device))
    settings = tuple(sorted(program.settings.items()))
    coster = _Coster(device, constants, settings, strict, cluster, program.groups, program.rank)
    host, plans = HostModel(constants, program), Plans(constants, program)
    same = Same(program.ops)
    hot = residency(same, float(device.l2_bytes or 0))
    ops, computed_s = [], 0.0
    ranks = 1 if cluster is None else min(program.world_size, cluster.devices_per_node)
    for op, sort, warm in zip(program.ops, _sorts(same), hot, strict=True):
        kernels = coster.kernels(op, sort, warm)
        own = host.cost(op, len(kernels))
        worked_s = _computed_s(op, ranks)
        computed_s += worked_s * op.repeat
        if more_s := plans.cost_s(op, kernels) + worked_s:
            own = replace(own, before_s=own.before_s + more_s)
        ops.append(CostedOp(op, kernels, own))
    late_s = data_sized.late_s(program, device)
    assumptions = _assumptions(program, coster, plans, late_s)
    host_s = sum(each.host_s * each.op.repeat for each in ops)
    faster, slower = _host_sides(constants, host_s, late_s, computed_s)
    if host_s and computed_s / host_s > _TOLD_SHARE:
        assumptions.append(HOST_COMPUTES)
    return CostedProgram(
        program=program,
        device_id=device.id,
        ops=tuple(ops),
        host_spread=slower,
        host_faster=faster,
        device_spread=_device_spread(constants, host, program),
        common_spread=PRIOR_SPREAD
        if constants.calibration.evidence == "prior"
        else COMMON_SPREAD.get(constants.calibration.distance, 0.0),
        launch_latency_s=_launch_latency_s(device, constants),
        kernel_gap_s=constants.value("launch.gap_s"),
        graph=program.compiled in GRAPHED_MODES,
        graph_call_s=host.compiled.call_s if host.compiled.active else {},
        assumptions=tuple(assumptions),
        apart=coster.apart,
    )


def _assumptions(program: Program, coster: _Coster, plans: Plans, late_s: float) -> list[str]:
    """The program's own, and what costing it assumed."""
    said = list(program.assumptions)
    if coster.unmodelled:
        names = ", ".join(sorted(coster.unmodelled))
        said.append(
            Text(
                "Operators without a kernel model, taken as bandwidth-bound: {names}.", names=names
            )
        )
        users = [n for n in sorted(coster.unmodelled) if n.partition("::")[0] not in _OF_PYTORCH]
        if users:
            said.append(
                Text(
                    "What an operator of your own costs can be said in a line: "
                    'gs.kernel_model("{name}", flops=..., bytes=...).',
                    name=users[0],
                )
            )
    told = {LEARNED: coster.learned, TOLD: plans.made, data_sized.TOLD: late_s}
    return [*said, *(text for text, holds in told.items() if holds)]


def _device_spread(constants: Constants, host: HostModel, program: Program) -> float:
    """Relative 80 % half-width of what a kind of kernels errs by together."""
    spread = SYSTEMATIC_SPREAD if constants.calibrated else SYSTEMATIC_SPREAD_CARRIED
    if constants.known("device.scale"):
        spread = constants.spread("device.scale")
    if host.compiled.active:
        spread = hypot(spread, COMPILED_SPREAD)
    if program.engine == XLA:
        from gpuscope.cost.host.xla import SPREAD

        return hypot(spread, SPREAD)
    if program.engine:
        from gpuscope.program.onnx.engines import engine_named

        return hypot(spread, engine_named(program.engine).spread)
    return spread


def _host_sides(
    constants: Constants, host_s: float, late_s: float, computed_s: float
) -> tuple[float, float]:
    """How much less and more the host may take, relative.

    Args:
        host_s: what it takes in all.
        late_s: more, where results' sizes depend on data.
        computed_s: of it arithmetic on CPU tensors.
    """
    faster, slower = constants.sides("host.scale")
    if late_s:
        slower += late_s / host_s
    if computed_s:
        from gpuscope.cost.host.arithmetic import FASTER, SLOWER

        share = computed_s / host_s
        slower, faster = (
            own * (1 - share) + other * share for own, other in ((slower, SLOWER), (faster, FASTER))
        )
    return faster, slower


def _computed_s(op: Op, ranks: int) -> float:
    """Host seconds of arithmetic on CPU tensors; below some size the call itself is all."""
    if op.view or _touches_device(op):
        return 0.0
    if max((t.numel for t in (*op.inputs, *op.outputs)), default=0) < _FEW:
        return 0.0
    from gpuscope.cost.host.arithmetic import arithmetic_s

    return arithmetic_s(op, ranks)


_FEW = 4096
"""Elements up to which arithmetic on the host takes no longer than its call."""


def _launch_latency_s(device: Device, constants: Constants) -> float:
    """Measured on the device, else as its entry in the catalogue says, else a relative's."""
    measured = constants.found("launch.latency_s")
    if device.launch_latency_s is not None and not measured:
        return device.launch_latency_s
    return constants.value("launch.latency_s")


@dataclass(frozen=True, slots=True)
class _Found:
    """What an operator launches, and what there is to be said of it.

    Attributes:
        kernels: its launches.
        apart: they have intervals of their own.
        learned: a learned correction moved them.
        modelled: it has a kernel model.
    """

    kernels: tuple[Kernel, ...]
    apart: bool = False
    learned: bool = False
    modelled: bool = True


_Known = dict[tuple[object, ...], _Found]

_TOGETHER: ContextVar[_Known | None] = ContextVar("operators costed together", default=None)


@contextmanager
def costed_together() -> Iterator[None]:
    """Cost what the programs of this context have in common once.

    A prediction costs its program, and again what each advice would make of it.
    """
    before = _TOGETHER.set({})
    try:
        yield
    finally:
        _TOGETHER.reset(before)


class _Coster:
    """Kernels of operators, each distinct operator costed once."""

    def __init__(
        self,
        device: Device,
        constants: Constants,
        settings: tuple[tuple[str, bool], ...],
        strict: bool,
        cluster: Cluster | None = None,
        groups: tuple[ProcessGroup, ...] = (),
        rank: int = -1,
    ) -> None:
        self.device = device
        self.constants = constants
        self.settings = settings
        self.strict = strict
        self.cluster = cluster
        self.groups = groups
        self.rank = rank
        self.unmodelled: set[str] = set()
        self.learned = self.apart = False
        self._known: dict[tuple[int, tuple[bool, ...]], tuple[Kernel, ...]] = {}
        together = _TOGETHER.get()
        self._together: _Known = {} if together is None else together
        kept = map(Same, (device, constants.calibration, cluster))
        self._where = (*kept, settings, strict, groups, rank)

    def kernels(self, op: Op, sort: int, hot: tuple[bool, ...]) -> tuple[Kernel, ...]:
        """The launches of `op`; operators of one sort (see `_sorts`) share them."""
        if sort < 0:
            return ()
        found = self._known.get((sort, hot))
        if found is None:
            key = (sort, hot, *self._where)
            made = self._together.get(key)
            if made is None:
                made = self._together[key] = self._cost(op, hot)
            self.apart, self.learned = self.apart or made.apart, self.learned or made.learned
            if not made.modelled:
                self.unmodelled.add(op.name)
            found = self._known[sort, hot] = made.kernels
        if op.stream:
            return tuple(replace(k, stream=op.stream) for k in found)
        return found

    def _cost(self, op: Op, hot: tuple[bool, ...]) -> _Found:
        group = self.groups[op.group] if 0 <= op.group < len(self.groups) else None
        work = Work(
            op, self.device, self.constants, self.settings, hot, self.cluster, group, self.rank
        )
        model = model_for(op.name)
        if model is None and op.name.partition("::")[0] not in _OF_PYTORCH:
            from gpuscope.cost.own_models import said

            model = said(op)
        if model is not None:
            physical = model(work)
            found = corrected(work, physical, model, SYSTEMATIC_SPREAD)
            pairs = zip(found, physical, strict=True)
            moved = any(now.duration_s != before.duration_s for now, before in pairs)
            return _Found(found, apart=found is not physical, learned=moved)
        if self.strict:
            raise CaptureError(
                Text("No kernel model for '{op}'.", op=op.name),
                Text("Its time would be a guess."),
                Text(
                    "Leave out --strict to take it as bandwidth-bound, or add a model (see "
                    "CONTRIBUTING.md)."
                ),
            )
        from gpuscope.cost.fallback import bandwidth_bound

        return _Found(bandwidth_bound(work), modelled=False)


@lru_cache(maxsize=2)
def _sorts(ops: Same[tuple[Op, ...]]) -> tuple[int, ...]:
    """Number each operator so that equal ones, whatever the device, have one; -1: no kernels.

    Kept, as `residency` is, since curves cost one program on many devices.
    """
    return tuple(_number(_sort(op)) if _launches(op) else -1 for op in ops.value)


_NUMBERS: dict[object, int] = {}
"""Numbers of sorts of operators: of one program's and the next one's alike."""

_MOST_SORTS = 4096
"""Sorts that are remembered; a forgotten one gets a new number."""

_NEXT = count()


def _number(sort: tuple[object, ...]) -> int:
    found = _NUMBERS.get(sort)
    if found is None:
        if len(_NUMBERS) >= _MOST_SORTS:
            _NUMBERS.clear()
        found = _NUMBERS[sort] = next(_NEXT)
    return found


def _launches(op: Op) -> bool:
    return not op.view and op.name not in NO_KERNEL and _touches_device(op)


def _sort(op: Op) -> tuple[object, ...]:
    """All that an operator's kernels follow from, but for the device and what is in its L2."""
    return (
        op.name,
        op.overload,
        _signature(op.inputs),
        _signature(op.outputs),
        _same_memory(op),
        tuple((k, v) for k, v in op.args.items()),
        op.group,
        op.peer,
    )


def _touches_device(op: Op) -> bool:
    for tensors in (op.outputs, op.inputs):
        for tensor in tensors:
            if tensor.device == "device":
                return True
    return False


@lru_cache(maxsize=65536)
def _one(spec: TensorSpec) -> tuple[object, ...]:
    return (spec.shape, spec.stride, spec.dtype, spec.device, spec.pinned)


def _same_memory(op: Op) -> tuple[int, ...]:
    """Which arguments share memory (x * x reads half of what x * y reads): first of its kind."""
    first: dict[int, int] = {}
    return tuple(
        first.setdefault(spec.storage, position) if spec.storage >= 0 else -1
        for position, spec in enumerate((*op.inputs, *op.outputs))
    )


def _signature(specs: Sequence[TensorSpec]) -> tuple[object, ...]:
    return tuple(_one(spec) for spec in specs)
