"""The account of a step: its best possible time, and what each loss adds until the step is reached.

The terms add up to the step. In their order (each with where the idea comes from):

- peak: the step's work at the device's datasheet. Matrix kernels (products, convolutions,
  attention, recurrent layers) one by one at the roofline, max(FLOPs / dense peak, least bytes /
  bandwidth) (Williams, Waterman, Patterson, CACM 52(4), 2009); and what the rest of the step must
  move however it is fused, at full bandwidth: parameters, optimizer states and inputs that only
  other kernels touch, read once, and what of them outlives the step, written once (compulsory
  traffic). For a step of large products, peak / step is near its MFU (Chowdhery et al., PaLM, 2022,
  appendix B).
- clock: matrix kernels run below the boost clock that the datasheet's peak is stated at, and lower
  still under the board's power limit (`gpuscope.cost.power`).
- library: what else matrix kernels lose against the roofline at that clock: loads that pace the
  main loop, unaligned rows, tiles over the matrix's edges, first loads, a launch's floor.
- tails: multiprocessors without a block while the last blocks of a matrix kernel that arithmetic
  paces run: 1 - n / ceil(n) of its arithmetic, n = blocks / multiprocessors (wave quantisation:
  NVIDIA, "Matrix Multiplication Background User's Guide").
- unknown: kernels of which a recording tells neither family nor work.
- pointwise: every other kernel beyond its part of the peak: activations, norms, casts, reductions,
  losses, optimizers, copies and memsets within the device.
- transfers: copies between host and device with no kernel beside them.
- communication: data moves between devices with nothing beside it ("exposed": Jiang et al.,
  MegaScale, NSDI 2024; Llama Team, "The Llama 3 Herd of Models", 2024, section 3.3).
- waiting: in collectives, for other ranks to come; also for the slowest of ranks that vary.
- bubble: stages of a pipeline wait for each other (Huang et al., GPipe, 2019).
- idle: the device has nothing to run, for any other cause.

They follow `gpuscope.analysis.window`: time in which several kernels run belongs to one of them, so
that nothing counts twice. Of a job it is the account of the rank that the analysis describes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.account_types import TERMS, Account, AccountTerm, TermKey
from gpuscope.analysis.breakdown import COMMUNICATED, TRANSFERS, Rows
from gpuscope.analysis.columns import Floats, take
from gpuscope.analysis.grouping import group_key
from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.pieces import pieces
from gpuscope.analysis.roofs import MATRIX_KINDS, Roofs
from gpuscope.analysis.steps import StepTime
from gpuscope.analysis.window import KERNEL
from gpuscope.cost.power import Named, power_model
from gpuscope.hardware import calibration_for
from gpuscope.program.types import Op, Program, TensorSpec

Mask = npt.NDArray[np.bool_]

FAMILY_TELLS_NOTHING = (*sorted(MATRIX_KINDS), "other", "unknown")
"""Families of kernels that may hold any amount of work where no model says."""

IRREDUCIBLE = frozenset({"optimizer", "gather", "sort"})
"""Families that no fusion takes away: their part of the peak where tensors cannot be told apart."""

WAITING_CAUSE = "waiting for another rank"
"""The idle cause that is waiting, not idling."""


@dataclass(frozen=True, slots=True)
class Losses:
    """An account event by event, per step; equal columns, one row a device event of `Rows`.

    Attributes:
        matrix, streaming, transfers, talk, unknown: which part of the account an event is in; each
            is in one.
        peak_s: its part of the step's best time.
        clock_s, library_s, tails_s: of matrix events; with the peak they add up to its time.
        loss_s: what it takes beyond its part of the peak.
        clock_known: whether the clock that kernels run at is known (a recording does not tell);
            where it is not, `clock_s` is 0 and its loss is the library's.
    """

    matrix: Mask
    streaming: Mask
    transfers: Mask
    talk: Mask
    unknown: Mask
    peak_s: Floats
    clock_s: Floats
    library_s: Floats
    tails_s: Floats
    loss_s: Floats
    clock_known: bool


def losses(
    rows: Rows,
    roofs: Roofs,
    program: Program | None = None,
    constants: Named | None = None,
    *,
    predicted: bool = True,
) -> Losses:
    """Return what each device event takes, split into its terms.

    Args:
        rows: the device events with their kernels.
        roofs: of the device.
        program: what was captured, for the memory that a step must move.
        constants: of the clock; the catalogue's own for the device by default.
        predicted: the clock is the model's, and so is known.
    """
    kinds = np.array(rows.kernels.kind.table)
    kind = kinds[rows.kernels.kind.take(rows.work.kernel)]
    talk, transfers = rows.class_code == COMMUNICATED, rows.class_code == TRANSFERS
    apart = talk | transfers
    unknown = ~apart & (rows.work.kind == KERNEL) & ~rows.modelled
    unknown &= np.isin(kind, FAMILY_TELLS_NOTHING)
    matrix = ~apart & ~unknown & (rows.work.kind == KERNEL) & np.isin(kind, sorted(MATRIX_KINDS))
    streaming = ~(apart | unknown | matrix)
    time = rows.time_s
    best = np.minimum(np.nan_to_num(rows.best_s, nan=0.0), time)
    peak = np.where(matrix, best, 0.0)
    slowed = _clock_s(rows, roofs, matrix, time, constants) if predicted else None
    clock = np.zeros_like(time) if slowed is None else np.minimum(slowed, time - peak)
    tails = np.minimum(_tails_s(rows, roofs, matrix, time), time - peak - clock)
    floor = _shared_out(_streaming_floor_s(rows, roofs, streaming, kind, program), best, streaming)
    return Losses(
        matrix=matrix,
        streaming=streaming,
        transfers=transfers,
        talk=talk,
        unknown=unknown,
        peak_s=peak + floor,
        clock_s=clock,
        library_s=np.where(matrix, time - peak - clock - tails, 0.0),
        tails_s=tails,
        loss_s=time - peak - floor,
        clock_known=slowed is not None,
    )


def account(
    lost: Losses,
    rows: Rows,
    timed: StepTime,
    *,
    rank: int = 0,
    predicted: bool = False,
    job: JobStory | None = None,
    waiting: float | None = None,
) -> Account | None:
    """Add the events up to the account of the step; None without device work.

    Args:
        lost: as `losses` gives it.
        rows: the same events.
        timed: the step with its idle time by cause.
        rank: whose events they are.
        predicted: the run is a prediction: of what does not occur in it the term is 0, not unknown.
        job: what tells transfer, waiting and bubble apart, of a predicted job.
        waiting: else the part of the exposed communication that is waiting; None: nothing tells.
    """
    if not len(rows.work) or timed.step_s <= 0:
        return None
    times = rows.time_s
    talk_s, idle_s = float(times[lost.talk].sum()), sum(timed.idle_s.values())
    moving, waited, bubble = _communication(talk_s, rank, job, waiting)
    late = max(timed.idle_s.get(WAITING_CAUSE, 0.0), job.chance_s if job is not None else 0.0)
    late = min(late, idle_s)
    all_told = predicted or talk_s == 0
    work_known = roofed(lost, rows)
    found: dict[TermKey, float | None] = {
        "peak": float(lost.peak_s.sum()) if work_known else None,
        "clock": float(lost.clock_s.sum()) if lost.clock_known and work_known else None,
        "library": float(lost.library_s.sum()) if work_known else None,
        "tails": float(lost.tails_s.sum()) if work_known else None,
        "unknown": float(times[lost.unknown].sum()),
        "pointwise": float(lost.loss_s[lost.streaming].sum()),
        "transfers": float(times[lost.transfers].sum()),
        "communication": moving,
        "waiting": (waited or 0.0) + late if waited is not None or late or all_told else None,
        "bubble": 0.0 if bubble is None and all_told else bubble,
        "idle": idle_s - late,
    }
    terms: list[AccountTerm] = []
    reached = 0.0
    for key in TERMS:
        terms.append(AccountTerm(key, found[key], reached))
        reached += found[key] or 0.0
    shares = _by_group(lost, rows)
    return Account(timed.step_s, found["peak"], tuple(terms), rank, by_group=shares)


def _by_group(lost: Losses, rows: Rows) -> dict[str, dict[TermKey, float]]:
    """Seconds of each term by kernel group, without those that are 0."""
    time_s, none = rows.time_s, np.zeros(len(rows.work))
    columns: dict[TermKey, Floats] = {
        "peak": lost.peak_s,
        "clock": lost.clock_s,
        "library": lost.library_s,
        "tails": lost.tails_s,
        "unknown": np.where(lost.unknown, time_s, none),
        "pointwise": np.where(lost.streaming, lost.loss_s, none),
        "transfers": np.where(lost.transfers, time_s, none),
        "communication": np.where(lost.talk, time_s, none),
    }
    keys = [*map(group_key, rows.kernels.kernels), ""]
    of_kernel = np.where(rows.work.kernel < 0, len(keys) - 1, rows.work.kernel)
    found: dict[str, dict[TermKey, float]] = {}
    for term, column in columns.items():
        sums = np.bincount(of_kernel, weights=column, minlength=len(keys))
        for at in np.flatnonzero(sums > 0).tolist():
            own = found.setdefault(keys[at], {})
            own[term] = own.get(term, 0.0) + float(sums[at])
    return found


def roofed(lost: Losses, rows: Rows) -> bool:
    """Return whether a run tells what its work is: at least one event has a part of the peak."""
    return bool((lost.peak_s > 0).any()) and not bool(
        rows.time_s[lost.unknown].sum() > rows.time_s[~lost.unknown].sum()
    )


def _clock_s(
    rows: Rows, roofs: Roofs, matrix: Mask, time: Floats, constants: Named | None
) -> Floats | None:
    """Seconds that matrix events paced by arithmetic lose to the clock; None where not known.

    A kernel alone runs at the clock that its duration implies; under the power limit it is
    stretched on top of that (`Kernel.throttled_s`).
    """
    device = roofs.device
    if device is None or not rows.kernels.kernels:
        return None
    model = power_model(device, constants or calibration_for(device))
    if model is None:
        return None
    own = np.array([model.clock_share(k) for k in rows.kernels.kernels], np.float64)
    share = np.minimum(take(own, rows.work.kernel, 1.0), 1.0)
    duration = take(rows.kernels.duration_s, rows.work.kernel)
    more = np.fromiter((k.throttled_s for k in rows.kernels.kernels), np.float64)
    stretched = np.divide(
        take(more, rows.work.kernel), duration, out=np.zeros_like(time), where=duration > 0
    )
    paced = _paced_s(rows, time)
    at_work = np.minimum(paced, time * (1.0 - stretched))
    return np.where(matrix, time * stretched + at_work * (1.0 - share), 0.0)


def _paced_s(rows: Rows, time: Floats) -> Floats:
    """Seconds of each event that its arithmetic explains, where it is what paces the event."""
    compute = take(rows.kernels.compute_s, rows.work.kernel)
    memory = take(rows.kernels.memory_s, rows.work.kernel)
    duration = take(rows.kernels.duration_s, rows.work.kernel)
    part = np.divide(compute, duration, out=np.zeros_like(time), where=duration > 0)
    return np.where(compute >= memory, time * np.minimum(part, 1.0), 0.0)


def idle_units(grid: Floats, units: int) -> Floats:
    """Return the share of a kernel's time that multiprocessors wait for its last blocks, 0..1.

    With n = blocks / multiprocessors a multiprocessor has n blocks on average and ceil(n) at most:
    1 - n / ceil(n). 0 where the grid is not known.
    """
    each = np.maximum(grid, 0.0) / units
    most = np.ceil(each)
    return 1.0 - np.divide(each, most, out=np.ones_like(each), where=most > 0)


def _tails_s(rows: Rows, roofs: Roofs, matrix: Mask, time: Floats) -> Floats:
    """Seconds that matrix events paced by arithmetic lose while their last blocks run."""
    device = roofs.device
    if device is None or not device.compute_units or not rows.kernels.kernels:
        return np.zeros_like(time)
    table, ops = rows.kernels.kernels, rows.ops.ops
    grid = np.zeros(len(table))
    used, first = np.unique(rows.work.kernel[matrix], return_index=True)
    for at, op in zip(used.tolist(), rows.work.op[matrix][first].tolist(), strict=True):
        # One block is also what a kernel says whose model does not state its grid.
        if at >= 0 and table[at].waves > 0 and table[at].grid > 1:
            grid[at] = pieces(table[at], ops[op] if op >= 0 else None)
    lost = take(idle_units(grid, device.compute_units), rows.work.kernel)
    return np.where(matrix, _paced_s(rows, time) * lost, 0.0)


def _streaming_floor_s(
    rows: Rows, roofs: Roofs, streaming: Mask, kind: npt.NDArray[np.str_], program: Program | None
) -> float:
    """Seconds that the work of streaming events takes at the least, however it is fused."""
    best = np.nan_to_num(rows.best_s, nan=0.0)
    if roofs.device is None:
        return 0.0
    if program is None or not program.storages or not rows.ops.ops:
        return float(best[streaming & np.isin(kind, sorted(IRREDUCIBLE))].sum())
    events = np.flatnonzero(streaming & (rows.work.op >= 0))
    least = take(rows.kernels.least_bytes, rows.work.kernel)
    moved = np.bincount(
        rows.work.op[events], weights=least[events], minlength=len(rows.ops.ops)
    ) / (rows.work.window.steps)
    nbytes = _compulsory_bytes(rows.ops.ops, moved, program)
    return min(nbytes / roofs.device.memory_bandwidth_bytes_per_s, float(best[streaming].sum()))


def _compulsory_bytes(ops: tuple[Op, ...], moved: Floats, program: Program) -> float:
    """Bytes of memory from before the step that operators read, and of what outlives it written.

    Of each storage the most that one operator touches counts, once; gradients are made anew and
    need not outlive a step.
    """
    before = {s.id: s.nbytes for s in program.storages if s.born < 0 and s.category != "gradient"}
    after = {
        s.id: s.nbytes
        for s in program.storages
        if (s.died is None or s.died >= len(program.ops)) and s.category != "gradient"
    }
    states = {s.id for s in program.storages if s.category in ("parameter", "optimizer_state")}
    read: dict[int, float] = {}
    written: dict[int, float] = {}
    for at in np.flatnonzero(moved > 0).tolist():
        op = ops[at]
        _most(read, op.inputs, before, float(moved[at]))
        _most(written, op.outputs, after, float(moved[at]))
        if op.phase == "optimizer":  # updates in place: its results are its inputs
            _most(written, op.inputs, {i: n for i, n in after.items() if i in states}, moved[at])
    return sum(read.values()) + sum(written.values())


def _most(
    into: dict[int, float], specs: tuple[TensorSpec, ...], sizes: dict[int, int], limit: float
) -> None:
    for spec in specs:
        size = sizes.get(spec.storage)
        if size is not None and spec.device == "device":
            touched = min(float(spec.touched_bytes), float(size), limit)
            into[spec.storage] = max(into.get(spec.storage, 0.0), touched)


def _shared_out(total: float, weights: Floats, among: Mask) -> Floats:
    """A sum given to events in proportion to their weights."""
    own = np.where(among, weights, 0.0)
    whole = float(own.sum())
    return own * (total / whole) if whole > 0 else np.zeros_like(own)


def _communication(
    talk_s: float, rank: int, job: JobStory | None, waiting: float | None
) -> tuple[float, float | None, float | None]:
    """Exposed communication split into what moves data, waits, and is a pipeline's bubble.

    The last two are None where nothing tells them apart.
    """
    if job is not None:
        own = next((each for each in job.ranks if each.rank == rank), None)
        if own is None:
            return talk_s, None, None
        whole = own.exposed_s + own.imbalance_s + own.bubble_s
        scale = talk_s / whole if whole > 0 else 0.0
        return own.exposed_s * scale, own.imbalance_s * scale, own.bubble_s * scale
    if waiting is not None:
        return talk_s * (1 - waiting), talk_s * waiting, None
    return talk_s, None, None
