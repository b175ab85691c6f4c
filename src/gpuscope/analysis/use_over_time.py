"""What the units of a device do over one step: in equal bins, each with what it could do.

Every kernel's work (FLOPs, bytes, time to issue, joules) is spread evenly over the time that it
ran; so what a curve holds in all is what the step's kernels hold (`UseSeries.total`), and the
averages over the step are true ones. For a recorded step the work is that of the cost models, the
times are the recorded ones.

- tensor: FLOPs of the matrix families over the dense peak of each kernel's own dtype, where the
  matrix units have that dtype;
- vector: share of the time that other kernels keep the lanes issuing (`Kernel.compute_s`), and
  FLOPs over the lanes' peak of matrix families that run there (float32 without TF32);
- sm: share of the multiprocessors that have at least one thread block, averaged over the kernel's
  waves: all of them in full waves, one a block in the last, as far as blocks go round;
- memory, l2: bytes across device memory, and between L2 and multiprocessors;
- link: bytes that collectives send; h2d, d2h: copies over the host link;
- power: at rest, and the energy of the work (`gpuscope.cost.power`); measured where a recording
  has a counter of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuscope.analysis.binning import deferred, spread
from gpuscope.analysis.columns import Floats, KernelColumns, crossing, take
from gpuscope.analysis.copies import each_copy
from gpuscope.analysis.l2_traffic import is_tiled
from gpuscope.analysis.roofs import MATRIX_KINDS, Roofs
from gpuscope.analysis.unit_limits import (
    L2_CONSTANTS,
    has_matrix_unit,
    has_work,
    kernel_use,
    l2_bytes_per_s,
    peaks_origin,
    unit_of,
)
from gpuscope.analysis.use_types import KernelUse, Phase, UseOverTime, UseSeries
from gpuscope.analysis.window import (
    COMMUNICATION,
    DeviceWork,
    Window,
    choose_window,
    device_ranks,
    device_work,
    marked_steps,
)
from gpuscope.cost.power import power_model
from gpuscope.hardware import Calibration, Device, calibration_for
from gpuscope.program.types import Op
from gpuscope.timeline.types import Counter, Timeline

BINS = 480
"""Bins of a step: about one a pixel of a page."""

LEAST_KNOWN, WELL_KNOWN = 0.6, 0.98
"""Shares of the busy time: below the first no curve is drawn, below the second it is a lower
bound (what is not known counts as nothing)."""

CONTRADICTS = 0.1
"""Share by which a kernel draws more from L2 than the limit allows for the limit to be wrong."""

KNOWN_FOR_POWER = 0.9
"""Power is no lower bound of anything: as for the energy, nearly all work must be known."""

_H2D, _D2H = 0, 1

Bools = np.typing.NDArray[np.bool_]


def use_over_time(
    timeline: Timeline,
    device: Device | None,
    calibration: Calibration | None = None,
    *,
    bins: int = BINS,
    work_j: float | None = None,
) -> UseOverTime | None:
    """Return the use of the first rank's device over one step; None without known kernels.

    Args:
        timeline: predicted, or recorded and joined with the cost models
            (`gpuscope.analysis.modelled`). Of several marked steps the one of median length is
            taken.
        device: for what the units can do, and for power.
        calibration: measured constants; the catalogue's own by default.
        bins: how many.
        work_j: energy above rest of the step where it is known (`Energy`); else it follows from the
            kernels.
    """
    ranks = device_ranks(timeline)
    window = _one_step(timeline, ranks[0]) if ranks else None
    if window is None or window.length_ns <= 0 or not timeline.kernels:
        return None
    work = device_work(timeline, ranks[0], window)
    if not len(work):
        return None
    known = calibration or (calibration_for(device) if device is not None else None)
    step = _StepWork(timeline, work, KernelColumns.of(timeline), device, known, bins, work_j)
    makers = (
        step.tensor,
        step.vector,
        step.multiprocessors,
        step.memory,
        step.l2,
        step.link,
        step.from_host,
        step.to_host,
        step.power,
    )
    series = tuple(made for made in (maker() for maker in makers) if made is not None)
    if not series:
        return None
    return UseOverTime(
        ranks[0],
        window.start_ns,
        window.end_ns,
        bins,
        series,
        step.phases(),
        step.l2_groups(),
        step.matrix_flops(),
    )


def _one_step(timeline: Timeline, rank: int) -> Window | None:
    """The window of one step: of several marked ones that of median length."""
    steps = marked_steps(timeline, rank)
    if len(steps) < 2:
        return choose_window(timeline, rank)
    one = sorted(steps, key=lambda step: step.end_ns - step.start_ns)[len(steps) // 2]
    return Window(one.start_ns, one.end_ns, 1)


class _StepWork:
    """The device work of a step as columns, and the curves that follow from it."""

    def __init__(
        self,
        timeline: Timeline,
        work: DeviceWork,
        kernels: KernelColumns,
        device: Device | None,
        calibration: Calibration | None,
        bins: int,
        work_j: float | None = None,
    ) -> None:
        self.timeline, self.work, self.kernels, self.device = timeline, work, kernels, device
        self.calibration, self.bins, self.work_j = calibration, bins, work_j
        roofs = Roofs(device)
        self.uses = [kernel_use(kernel, device, roofs) for kernel in kernels.kernels]
        self.bin_s = work.window.length_ns * 1e-9 / bins
        # What the window cuts off of an event is not of this step.
        whole = timeline.events.duration_ns[work.event]
        inside = (work.end_ns - work.start_ns) / np.maximum(whole, 1)
        self.inside = np.where(whole > 0, inside, 1.0)
        self.computes = self._kernel_flags(lambda k: k.lane == "compute") & (
            work.kind != COMMUNICATION
        )
        self.has_work = self._kernel_flags(lambda k: has_work(k, timeline.origin))
        self.matrix = self._kernel_flags(lambda k: k.kind in MATRIX_KINDS)
        self.flops = take(kernels.flops, work.kernel)

    def _kernel_flags(self, test: object) -> Bools:
        flags = np.array([bool(test(k)) for k in self.kernels.kernels])  # type: ignore[operator]
        return np.asarray(take(flags.astype(np.float64), self.work.kernel) > 0, np.bool_)

    def _amounts(self, read: Callable[[KernelUse], float | None], missing: float = 0.0) -> Floats:
        """An amount of each event's kernel; `missing` where it has none or it is not known."""
        found = [read(use) for use in self.uses]
        column = np.array([missing if each is None else each for each in found])
        return take(column, self.work.kernel, missing)

    def _known(self, flags: Bools) -> float:
        """Share of the computing kernels' time for which `flags` holds."""
        time = np.where(self.computes, self.work.attributed_ns, 0)
        total = float(time.sum())
        return float(time[flags].sum()) / total if total else 0.0

    def _spread(self, amount: Floats) -> Floats:
        window = self.work.window.bounds
        return spread(self.work.start_ns, self.work.end_ns, amount * self.inside, window, self.bins)

    def _rate(self, amount: Floats, limit: float | None = None) -> tuple[float, ...]:
        """By bin; kernels beside each other share what the unit can do."""
        binned = self._spread(amount)
        if limit is not None:
            binned = deferred(binned, limit * self.bin_s)
        return tuple((binned / self.bin_s).tolist())

    def _total(self, amount: Floats) -> float:
        return float((amount * self.inside).sum())

    def tensor(self) -> UseSeries | None:
        """Matrix units: FLOPs over the peak of their dtype."""
        known = self._known(self.has_work)
        if not self.matrix.any() or known < LEAST_KNOWN or not has_matrix_unit(self.device):
            return None
        return UseSeries(
            "tensor",
            "share",
            self._rate(self._amounts(lambda use: use.tensor_s), 1.0),
            1.0,
            self._total(np.where(self._on_matrix_units(), self.flops, 0.0)),
            known=known,
            is_least=known < WELL_KNOWN,
            limit_origin=peaks_origin(self.device),
        )

    def _on_matrix_units(self) -> Bools:
        """Matrix families that do not run on the vector lanes."""
        return self.matrix & self._kernel_flags(lambda k: unit_of(self.device, k.dtype) == "matrix")

    def vector(self) -> UseSeries | None:
        """Vector lanes: time that kernels keep them issuing or multiplying."""
        known = self._known(self.has_work)
        running_s = (self.work.end_ns - self.work.start_ns) * 1e-9
        asked = np.where(self.computes, self._amounts(lambda use: use.vector_s), 0.0)
        issue = np.minimum(asked * self.inside, running_s) / np.maximum(self.inside, 1e-12)
        busy = np.where(self.matrix, asked, issue)
        if known < LEAST_KNOWN or not busy.any():
            return None
        return UseSeries(
            "vector",
            "share",
            self._rate(busy, 1.0),
            1.0,
            self._total(busy),
            known=known,
            is_least=known < WELL_KNOWN,
            limit_origin="computed",
        )

    def multiprocessors(self) -> UseSeries | None:
        """Multiprocessors that have a block."""
        units = self.device.compute_units if self.device else None
        if not units:
            return None
        share = self._amounts(lambda use: use.sm_share, np.nan)
        found = np.where(self.computes, share, np.nan)
        given = ~np.isnan(found)
        known = self._known(given)
        if known < LEAST_KNOWN:
            return None
        running_s = self.timeline.events.duration_ns[self.work.event] * 1e-9
        busy = np.where(given, found, 0.0) * running_s
        # Kernels on two streams share the multiprocessors: together no more than all of them.
        values = np.minimum(self._spread(busy) / self.bin_s, 1.0)
        total = float(values.sum()) * self.bin_s
        return UseSeries(
            "sm",
            "share",
            tuple(values.tolist()),
            1.0,
            total,
            known=known,
            is_least=known < WELL_KNOWN,
            limit_origin="computed",
        )

    def memory(self) -> UseSeries | None:
        """Bytes across device memory."""
        known = self._known(self.has_work)
        if known < LEAST_KNOWN:
            return None
        read = np.array([k.read_bytes for k in self.kernels.kernels])
        written = np.array([k.written_bytes for k in self.kernels.kernels])
        limit = self.device.memory_bandwidth_bytes_per_s if self.device else None
        running_ns = self.timeline.events.duration_ns[self.work.event]
        read, written = (
            crossing(
                take(part, self.work.kernel), read + written, self.work.kernel, running_ns, limit
            )
            for part in (read, written)
        )
        origin = self.device.origin("memory_bandwidth_bytes_per_s") if self.device else None
        return UseSeries(
            "memory",
            "bytes/s",
            self._rate(read + written, limit),
            limit,
            self._total(read + written),
            {"read": self._total(read), "written": self._total(written)},
            known,
            is_least=known < WELL_KNOWN,
            limit_origin=origin or "",
        )

    def l2(self) -> UseSeries | None:
        """Bytes between L2 and multiprocessors: at least what the kernels tell."""
        known = self._known(self.has_work)
        amount = np.where(self.computes, self._amounts(lambda use: use.l2_bytes), 0.0)
        if known < LEAST_KNOWN or not amount.any():
            return None
        limit = l2_bytes_per_s(self.device, self.calibration)
        each_s = np.maximum(self.timeline.events.duration_ns[self.work.event] * 1e-9, 1e-12)
        if limit is not None and (amount > limit * each_s * (1 + CONTRADICTS)).any():
            limit = None  # carried from another device: its own kernels say that it does more
        given = self._kernel_flags(lambda k: is_tiled(k) or k.kind not in MATRIX_KINDS)
        exact = self._known(given & self.has_work)
        return UseSeries(
            "l2",
            "bytes/s",
            self._rate(amount, limit),
            limit,
            self._total(amount),
            known=known,
            is_least=exact < WELL_KNOWN,
            limit_origin=_calibrated(self.calibration, *L2_CONSTANTS),
        )

    def link(self) -> UseSeries | None:
        """Bytes that collectives send to the other devices."""
        rows = np.flatnonzero(self.work.kind == COMMUNICATION)
        rows = rows[np.argsort(self.work.event[rows], kind="stable")]
        if not len(rows):
            return None
        from gpuscope.analysis.link_traffic import link_bytes

        sent = link_bytes(self.timeline, self.work.event[rows])
        given = ~np.isnan(sent)
        time = (self.work.end_ns - self.work.start_ns)[rows]
        known = float(time[given].sum()) / max(float(time.sum()), 1.0)
        if known < LEAST_KNOWN:
            return None
        amount = np.zeros(len(self.work))
        amount[rows] = np.where(given, sent, 0.0)
        link = self.device.scale_up if self.device else None
        return UseSeries(
            "link",
            "bytes/s",
            self._rate(amount, link.bandwidth_bytes_per_s if link else None),
            link.bandwidth_bytes_per_s if link else None,
            self._total(amount),
            known=known,
            is_least=known < WELL_KNOWN,
            limit_origin=link.bandwidth_origin if link else "",
        )

    def from_host(self) -> UseSeries | None:
        """Copies to the device."""
        return self._copies("h2d", _H2D)

    def to_host(self) -> UseSeries | None:
        """Copies to the host."""
        return self._copies("d2h", _D2H)

    def _copies(self, key: str, way: int) -> UseSeries | None:
        rows, direction, nbytes = each_copy(self.timeline, self.work, self.kernels)
        own = direction == way
        if not own.any():
            return None
        given = own & ~np.isnan(nbytes)
        time = (self.work.end_ns - self.work.start_ns)[rows]
        known = float(time[given].sum()) / max(float(time[own].sum()), 1.0)
        if known < LEAST_KNOWN:
            return None
        amount = np.zeros(len(self.work))
        amount[rows[given]] = nbytes[given]
        link = self.device.host_link if self.device else None
        return UseSeries(
            key,
            "bytes/s",
            self._rate(amount, link.bandwidth_bytes_per_s if link else None),
            link.bandwidth_bytes_per_s if link else None,
            self._total(amount),
            known=known,
            is_least=known < WELL_KNOWN,
            limit_origin=link.bandwidth_origin if link else "",
        )

    def power(self) -> UseSeries | None:
        """Power: a recorded counter, else at rest and what the work takes."""
        measured = next((c for c in self.timeline.counters if c.name == "power"), None)
        if measured is not None and len(measured.time_ns):
            return self._measured_power(measured)
        model = None
        if self.device is not None and self.calibration is not None:
            model = power_model(self.device, self.calibration)
        known = self._known(self.has_work)
        if model is None or known < KNOWN_FOR_POWER:
            return None
        joules = np.array([sum(model.work_j(k)) for k in self.kernels.kernels])
        above = self._spread(take(joules, self.work.kernel))
        step_s = self.bin_s * self.bins
        # The limit holds for the average of a step: kernels may draw more for a while.
        room = max(0.0, model.limit_w - model.idle_w) * step_s
        drawn = min(room, float(above.sum())) if self.work_j is None else self.work_j
        factor = drawn / float(above.sum()) if above.sum() > 0 else 1.0
        values = model.idle_w + factor * above / self.bin_s
        at_rest = model.idle_w * step_s
        return UseSeries(
            "power",
            "W",
            tuple(values.tolist()),
            model.device.tdp_w,
            at_rest + factor * float(above.sum()),
            {"at rest": at_rest},
            known,
            limit_origin=model.device.origin("tdp_w") or "",
        )

    def _measured_power(self, counter: Counter) -> UseSeries:
        begin = self.work.window.start_ns
        middle = begin + (np.arange(self.bins) + 0.5) * self.work.window.length_ns / self.bins
        at = np.clip(np.searchsorted(counter.time_ns, middle, "right") - 1, 0, None)
        values = counter.value[at]
        return UseSeries(
            "power",
            "W",
            tuple(values.tolist()),
            self.device.tdp_w if self.device else None,
            float(values.sum()) * self.bin_s,
            origin="measured",
            limit_origin=(self.device.origin("tdp_w") if self.device else None) or "",
        )

    def phases(self) -> tuple[Phase, ...]:
        """Bins by the phase that most of their device time belongs to, neighbours joined."""
        ops = self.timeline.ops
        names = [op.phase if isinstance(op, Op) else "" for op in ops]
        table = sorted({name for name in names if name})
        if not table:
            return ()
        code = np.array([table.index(name) if name else -1 for name in names] + [-1])
        of_event = code[np.where(self.work.op < len(ops), self.work.op, -1)]
        time = np.ones(len(self.work)) * (self.work.end_ns - self.work.start_ns)
        by_phase = np.array(
            [self._spread(np.where(of_event == i, time, 0.0)) for i in range(len(table))]
        )
        most = np.where(by_phase.max(axis=0) > 0, by_phase.argmax(axis=0), -1).tolist()
        return _joined(most, table, self.work.window, self.bins)

    def matrix_flops(self) -> float | None:
        """FLOPs of the matrix families in the step; None where too little is known."""
        if self._known(self.has_work) < WELL_KNOWN:
            return None
        return self._total(np.where(self.matrix, self.flops, 0.0))

    def l2_groups(self) -> dict[str, float]:
        """L2 bytes of one launch of each kernel group whose tile tells them."""
        from gpuscope.analysis.grouping import group_key

        used = set(self.work.kernel.tolist())
        return {
            group_key(k): use.l2_bytes or 0.0
            for at, (k, use) in enumerate(zip(self.kernels.kernels, self.uses, strict=True))
            if at in used and is_tiled(k)
        }


def _calibrated(calibration: Calibration | None, *names: str) -> str:
    known = [name for name in names if calibration is not None and name in calibration]
    return calibration.origin(known[0]) if calibration is not None and known else ""


def _joined(most: list[int], table: list[str], window: Window, bins: int) -> tuple[Phase, ...]:
    """Equal neighbours as one stretch; idle bins belong to the stretch before them."""
    width = window.length_ns / bins
    found: list[Phase] = []
    last, begin = -1, 0
    for i, code in enumerate([*most, -2]):
        if code in (last, -1):
            continue
        if last >= 0:
            found.append(
                Phase(
                    table[last],
                    round(window.start_ns + begin * width),
                    round(window.start_ns + i * width),
                )
            )
        last, begin = code, i
    return tuple(found)
