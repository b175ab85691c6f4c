"""The predicted step with a finding's advice taken, where one change of the program does it.

The changed program is costed and walked as `predict` does (`gpuscope.timeline.recost`), so that
what is told beside a finding is a simulated step and not its bound:

- pointwise work, short kernels: what `torch.compile` would make of the program;
- a host that is late: the same, replayed as graphs (mode "reduce-overhead");
- sizes that break alignment: the same operators at the next multiple of 64;
- waits for the device: the same operators without them.

What is promised is held to simulations: no more than the step gets shorter with that time of the
finding's events gone (behind a late host it does not), no more than the change saves alone, and
together no more than the changes save one upon the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpuscope.analysis.explained import FEWER, WORTH_SAYING
from gpuscope.analysis.findings.poor_shapes import odd_sizes
from gpuscope.analysis.findings.registry import largest_first
from gpuscope.analysis.types import About, Finding
from gpuscope.cost.anew import costed_anew
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Calibration, Cluster, Device
from gpuscope.program.types import Op, Program, TensorSpec
from gpuscope.run import Remedy, Run
from gpuscope.timeline.contention import DeviceOverlap
from gpuscope.timeline.drawing import event_kind
from gpuscope.timeline.recost import STEPS, recost
from gpuscope.timeline.simulate import Walked, simulate, walked
from gpuscope.timeline.types import DEVICE_KINDS, Timeline
from gpuscope.timeline.walk import walk_steps

MULTIPLE = 64
"""What sizes are padded to a multiple of."""


def with_outcomes(
    found: tuple[Finding, ...],
    program: Program,
    timeline: Timeline,
    cluster: Cluster,
    constants: Calibration,
    done: Walked,
    waiting_s: float = 0.0,
) -> tuple[Finding, ...]:
    """Return a prediction's findings with `predicted_step_s`, and gains that it bears out.

    None stays where no single change does it, where the program is compiled already, and where the
    changed program cannot be costed.

    Args:
        found: the findings of one device's step, or of a job whose ranks are all equal: none of
            them waits for another, so that one's walk is the job's.
        program: as it was captured.
        timeline: whose events the findings name.
        cluster, constants: as the step was predicted.
        done: the walk that the timeline is.
        waiting_s: what each step waits by chance for the last of all ranks, changed or not.
    """
    walked = _Drawn.of(done, timeline)

    def period_s(changed: Program) -> float | None:
        recosted_s = _step_s(changed, cluster, constants)
        return None if recosted_s is None else recosted_s + waiting_s

    told = [_outcome(each, program, timeline, cluster.device, period_s) for each in found]
    told = [_held(each, walked, found) for each in told]
    rungs = [at for at, each in enumerate(told) if each.predicted_step_s is not None]
    step_s = walked.step_s + waiting_s
    taken, reached_s, promised_s = program, step_s, 0.0
    for at in sorted(rungs, key=lambda at: list(_CHANGES).index(told[at].kind)):
        each = told[at]
        alone_s = each.predicted_step_s or step_s
        changed = _changed(taken, each, timeline)
        if changed is not None:
            both_s = None if taken is program else period_s(changed)
            reached_s = min(reached_s, alone_s, both_s or alone_s)
            taken = changed
        if each.max_gain_s is not None:
            saved_s = min(step_s - alone_s, step_s - reached_s - promised_s)
            told[at] = replace(each, max_gain_s=max(0.0, min(each.max_gain_s, saved_s)))
            promised_s += told[at].max_gain_s or 0.0
    return largest_first(_offered_anew(told, found, walked))


def simulated(run: Run) -> tuple[Remedy, ...]:
    """Return the steps that the findings' `predicted_step_s` are, drawn; one for each that has one.

    Args:
        run: predicted here, of one device or of a job whose ranks are all equal; others have none.
    """
    basis, found = run.basis, run.analysis.findings
    if basis is None or all(each.predicted_step_s is None for each in found):
        return ()
    captured, constants = basis.captured, basis.constants
    program = captured if isinstance(captured, Program) else captured.programs[0]
    device, made = basis.cluster.device, []
    for at, each in enumerate(found):
        changed = changed_program(program, each, run.timeline, device)
        if each.predicted_step_s is None or changed is None:
            continue
        costed = costed_anew(changed, device, constants, basis.cluster).costed
        done = walked(costed, overlap=DeviceOverlap.of(device, constants))
        then = simulate(costed, done=done)
        made.append(Remedy((at,), then.step_time_s + basis.waiting_s, then.timeline))
    return tuple(made)


def _offered_anew(told: list[Finding], found: tuple[Finding, ...], walked: _Drawn) -> list[Finding]:
    """What simulations took from some kernels' gains, given to others that could not be shorter.

    All kernels together save so much and no more; who was served first had it.
    """
    given = [
        (was.max_gain_s or 0.0) - (now.max_gain_s or 0.0)
        for was, now in zip(found, told, strict=True)
    ]
    spare_s = sum(given)
    for at, each in enumerate(told):
        about, own_s = each.about, each.max_gain_s
        held = each.predicted_step_s is not None or each.kind in FEWER
        if held or about is None or own_s is None or not about.events:
            continue
        events = set(about.events)
        met = (o for o in told if o is not each and o.about and events & set(o.about.events))
        left_s = about.explains_s - sum(other.max_gain_s or 0.0 for other in met)
        gain_s = min(left_s, own_s + spare_s)
        if gain_s <= own_s:
            continue
        gain_s = max(own_s, min(gain_s, walked.saved_s(about, gain_s)))
        spare_s -= gain_s - own_s
        whole = about.explains_s - gain_s < WORTH_SAYING * walked.step_s
        told[at] = replace(each, max_gain_s=gain_s, rest_with=() if whole else each.rest_with)
    return told


def _held(finding: Finding, walked: _Drawn, found: tuple[Finding, ...]) -> Finding:
    """A finding with no more gain than shorter kernels give, and with what hides the rest.

    Not one whose simulated advice makes them fewer, which the host is sooner done with.
    """
    if finding.kind in FEWER and finding.predicted_step_s is not None:
        return finding
    if finding.about is None or not finding.about.events or not finding.max_gain_s:
        return finding
    saved_s = walked.saved_s(finding.about, finding.max_gain_s)
    lost_s = finding.max_gain_s - saved_s
    rest = finding.rest_with
    if lost_s >= WORTH_SAYING * walked.step_s and not rest:
        waits = [each for each in found if each.about and not each.about.events and each.max_gain_s]
        rest = tuple(each.kind for each in waits[:1])
    return replace(finding, max_gain_s=finding.max_gain_s - max(0.0, lost_s), rest_with=rest)


def changed_program(
    program: Program, finding: Finding, timeline: Timeline, device: Device
) -> Program | None:
    """Return the program with a finding's advice taken; None where no single change does it.

    Args:
        program: as it was captured.
        finding: of its step.
        timeline: whose events the finding names.
        device: what it runs on; one whose programs are compiled whole has had that change.
    """
    whole = device.compiles_whole_steps and _CHANGES.get(finding.kind) in COMPILING
    return None if whole else _changed(program, finding, timeline)


def _outcome(
    finding: Finding,
    program: Program,
    timeline: Timeline,
    device: Device,
    period_s: Callable[[Program], float | None],
) -> Finding:
    changed = changed_program(program, finding, timeline, device)
    return finding if changed is None else replace(finding, predicted_step_s=period_s(changed))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A step's walk, to be walked again with shorter kernels.

    Attributes:
        done: the step.
        step_s: its period.
        row: of the schedule, by row of `Timeline.events`.
    """

    done: Walked
    step_s: float
    row: dict[int, int]

    @classmethod
    def of(cls, done: Walked, timeline: Timeline) -> _Drawn:
        schedule, walk = done.schedule, done.walk
        rows, events = np.flatnonzero(schedule.kernel >= 0), timeline.events
        drawn = np.flatnonzero(events.kind < DEVICE_KINDS)
        # Both hold every task once; what runs in one lane runs in one order.
        rows = rows[np.lexsort((walk.start_s[rows], schedule.lane[rows]))]
        drawn = drawn[np.lexsort((events.start_ns[drawn], events.lane[drawn]))]
        row = dict(zip(drawn.tolist(), rows.tolist(), strict=True))
        return cls(done, walk.period_s, row)

    def saved_s(self, about: About, gain_s: float) -> float:
        """Return what the step gets shorter with so much of a finding's time gone.

        Kernels get shorter by that; copies and collectives are all hidden: what of them is not is
        the finding's time.
        """
        schedule, used = self.done.schedule, self.done.used
        times_s = used.duration_s
        rows = np.array([self.row[event] for event in about.events], np.int64)
        kernel = np.array(
            [event_kind(schedule.kernels[k]) == "kernel" for k in schedule.kernel[rows]]
        )
        whole_s, work_s = float(times_s[rows].sum()), max(0.0, gain_s - about.idle_s)
        left = 1.0 - min(1.0, work_s / whole_s) if whole_s > 0 else 1.0
        shorter_s = times_s.copy()
        shorter_s[rows] *= np.where(kernel, left, 0.0)
        walk = walk_steps(
            schedule, self.done.latency_s, STEPS, duration_s=shorter_s, held_s=used.held_s
        )
        return max(0.0, self.step_s - walk.period_s) + about.idle_s


def _changed(program: Program, finding: Finding, timeline: Timeline) -> Program | None:
    """The program with a finding's advice taken; None where no single change does it."""
    change = _CHANGES.get(finding.kind)
    return change(program, finding, timeline) if change is not None else None


def _step_s(program: Program, cluster: Cluster, constants: Calibration) -> float | None:
    try:
        return recost(program, cluster.device, constants, cluster=cluster).step_time_s
    except (GpuscopeError, ValueError, IndexError, ZeroDivisionError):
        # A change that the models were not made for says nothing; the finding stands without it.
        return None


def _compiled(program: Program, finding: Finding, timeline: Timeline) -> Program | None:
    other = program.compiled or program.engine
    return None if other else replace(program, compiled="default")


def _replayed(program: Program, finding: Finding, timeline: Timeline) -> Program | None:
    # A wait in the middle of the step cannot be replayed.
    if program.compiled not in ("", "default") or any(op.sync for op in program.ops[:-1]):
        return None
    return replace(program, compiled="reduce-overhead")


def _without_waits(program: Program, finding: Finding, timeline: Timeline) -> Program | None:
    if not any(op.sync for op in program.ops):
        return None
    return replace(program, ops=tuple(replace(op, sync="") for op in program.ops))


def padded(program: Program, finding: Finding, timeline: Timeline) -> Program | None:
    """Return the program with the odd sizes of a finding's products padded, wherever they occur."""
    if finding.about is None:
        return None
    rows = timeline.events.op[list(finding.about.events)]
    ops = [timeline.ops[row] for row in set(rows.tolist()) if row >= 0]
    odd = [odd_sizes(op) for op in ops if isinstance(op, Op)]
    # Products that have none are said to waste their last wave: padding is no answer to that.
    if not all(odd):
        return None
    sizes = {size for found in odd for size in found}
    to = {size: -(-size // MULTIPLE) * MULTIPLE for size in sizes}
    return replace(program, ops=tuple(_with_padding(op, to) for op in program.ops))


def _with_padding(op: Op, to: Mapping[int, int]) -> Op:
    if all(to.keys().isdisjoint(spec.shape) for spec in (*op.inputs, *op.outputs)):
        return op
    inputs, outputs = (tuple(_padded(t, to) for t in specs) for specs in (op.inputs, op.outputs))
    return replace(op, inputs=inputs, outputs=outputs)


def _padded(spec: TensorSpec, to: Mapping[int, int]) -> TensorSpec:
    """A tensor with sizes replaced, its memory laid out in the same order."""
    if to.keys().isdisjoint(spec.shape):
        return spec
    shape = tuple(to.get(size, size) for size in spec.shape)
    stride = list(spec.stride)
    order = sorted(range(len(shape)), key=lambda at: (spec.stride[at], spec.shape[at]))
    grown = 1.0
    for at in order:
        stride[at] = round(spec.stride[at] * grown)
        grown *= shape[at] / spec.shape[at] if spec.stride[at] else 1.0
    return replace(spec, shape=shape, stride=tuple(stride))


_CHANGES: Mapping[str, Callable[[Program, Finding, Timeline], Program | None]] = {
    "poor_shapes": padded,
    "sync_bound": _without_waits,
    "pointwise_bound": _compiled,
    "bandwidth_bound": _compiled,
    "launch_bound": _compiled,
    "host_bound": _replayed,
}
"""What taking a finding's advice makes of the program, by kind; what asks least of it first, as in
a ladder of changes."""

COMPILING = (_compiled, _replayed)
"""Changes that a device whose programs are compiled whole has had."""
