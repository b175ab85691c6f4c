"""What the last seconds of a device mean, in one sentence with the figures that it rests on.

Utilisation alone says only that some kernel ran. What the units did (SMs, tensor cores, memory,
links), how much power it took, and how it came and went tell more:

- A clock held down is said first: everything else follows from it.
- Steadily busy: the unit that is busiest is the limit; the host link, where it carries input
  nearly all the time and the SMs have little to do (utilisation counts copies, too).
- Steadily busy, all units quiet and power low: kernels are resident but do little; a collective
  that waits, or kernels too small for the device.
- Busy part of the time: the device waits for its host. Full SMs while it works, in bursts, with
  input crossing PCIe or processors at their end: it waits for input. Few SMs at a steady pace:
  launches come too slowly (host bound).

Every rule gives how sure it is; fewer samples and missing counters lower it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuscope.document.text import Text, joined
from gpuscope.watch import evidence as say
from gpuscope.watch import thresholds as at
from gpuscope.watch.types import Sample, Verdict, VerdictKind
from gpuscope.watch.window import WINDOW_S, Window, window_of

HEADS: dict[VerdictKind, Text] = {
    "idle": Text("Idle"),
    "waiting_for_input": Text("Waiting for input"),
    "host_bound": Text("Host bound"),
    "compute_bound": Text("Compute bound"),
    "memory_bound": Text("Memory bound"),
    "communication_bound": Text("Communication bound"),
    "power_limited": Text("Held by its power limit"),
    "thermally_limited": Text("Held by heat"),
    "busy": Text("Busy"),
    "unknown": Text("Not known"),
}
"""The first words of a verdict's sentence."""


@dataclass(frozen=True, slots=True)
class _Found:
    kind: VerdictKind
    evidence: tuple[Text | None, ...]
    sure: float


def judge(samples: Sequence[Sample], index: int, seconds: float = WINDOW_S) -> Verdict:
    """Return what the last seconds of a device mean.

    Args:
        samples: of one host, oldest first.
        index: of the device.
        seconds: how far to look back.
    """
    return judge_window(window_of(samples, index, seconds))


def judge_window(window: Window) -> Verdict:
    """Return what these figures mean; the first rule that holds decides."""
    found = next(answer for rule in _RULES if (answer := rule(window)) is not None)
    sure = found.sure * (0.6 if window.n < at.FEW_SAMPLES and found.kind != "unknown" else 1.0)
    return Verdict(found.kind, HEADS[found.kind], joined(found.evidence), round(sure, 2))


def _unreadable(w: Window) -> _Found | None:
    if w.busy is not None or w.power_share is not None:
        return None
    return _Found("unknown", (say.NOTHING_READ,), 0.0)


def _no_utilisation(w: Window) -> _Found | None:
    """Only power was read: it tells rest from work, no more."""
    if w.busy is not None:
        return None
    return _Found("unknown", (say.power(w), say.ONLY_POWER), 0.2)


def _heat(w: Window) -> _Found | None:
    if (w.heat_held or 0.0) < at.HEAT or not _works(w):
        return None
    return _Found("thermally_limited", (say.heat_held(w), say.temperature(w), say.power(w)), 0.95)


def _idle(w: Window) -> _Found | None:
    if _works(w):
        return None
    return _Found("idle", (say.no_kernel(w), say.held_memory(w), say.power(w)), 0.95)


def _power(w: Window) -> _Found | None:
    held = (w.power_held or 0.0) >= at.HELD
    if not held or (w.power_share or 0.0) < at.AT_POWER_LIMIT:
        return None
    return _Found("power_limited", (say.power(w), say.power_held(w), *say.units(w)), 0.9)


def _steady_limit(w: Window) -> _Found | None:
    """Steadily busy, and a unit that is busy enough to be why."""
    if _busy(w) < at.STEADY:
        return None
    tensor, dram = w.tensor or 0.0, w.memory_bandwidth or 0.0
    if tensor >= at.TENSOR_BUSY and tensor >= dram * 0.8:
        return _Found("compute_bound", (*say.units(w), say.power(w)), 0.85)
    if dram >= at.DRAM_BUSY:
        return _Found("memory_bound", (*say.units(w), say.power(w)), 0.85)
    if tensor >= at.TENSOR_BUSY:
        return _Found("compute_bound", (*say.units(w), say.power(w)), 0.7)
    return None


def _copies(w: Window) -> _Found | None:
    """Always busy, but with copies: the driver's utilisation counts them as it counts kernels.

    Seen on an H200: input that crosses PCIe most of the time reads 100 % with 18 % of the SMs.
    """
    filled = (w.pcie_rx_share or 0.0) >= at.PCIE_FILLED
    if _busy(w) < at.STEADY or w.sm is None or w.sm >= at.SM_FEW or not filled:
        return None
    evidence = (say.busy(w), say.pcie(w), *say.units(w), say.power(w))
    return _Found("waiting_for_input", evidence, 0.75)


def _links(w: Window) -> _Found | None:
    """Links that carry much while the other units do little."""
    if w.nvlink_share is not None:
        busy = w.nvlink_share >= at.LINKS_BUSY
    else:
        busy = (w.nvlink_bytes_per_s or 0.0) >= at.LINKS_BUSY_BYTES_PER_S
    quiet = max(w.tensor or 0.0, w.memory_bandwidth or 0.0) < at.TENSOR_BUSY
    if w.tensor is None or not quiet or not busy:
        return None
    return _Found("communication_bound", (say.nvlink(w), say.busy(w), *say.units(w)), 0.75)


def _resident_but_quiet(w: Window) -> _Found | None:
    """A kernel is always there, and hardly any unit works."""
    if _busy(w) < at.STEADY or w.sm is None:
        return None
    quiet = max(w.tensor or 0.0, w.memory_bandwidth or 0.0) < at.UNITS_QUIET
    if not quiet or w.sm >= at.SM_FEW or (w.power_share or 0.0) >= at.POWER_LOW:
        return None
    evidence = (say.busy(w), *say.units(w), say.power(w), say.nvlink(w))
    if w.neighbours and _spins(w):
        return _Found("communication_bound", (*evidence, say.WAITS_FOR_RANK), 0.5)
    return _Found("host_bound", (*evidence, say.SMALL_KERNELS), 0.6)


def _steady_rest(w: Window) -> _Found | None:
    """Steadily busy without a unit that says why."""
    if _busy(w) < at.STEADY:
        return None
    if w.sm is not None and w.sm >= at.SM_FULL and (w.power_share or 0.0) >= at.POWER_LOW:
        return _Found("compute_bound", (*say.units(w), say.power(w), say.NO_TENSOR), 0.5)
    missing = None if w.sm is not None else say.NO_COUNTERS
    if w.sm is None and w.power_share is not None and w.power_share < at.POWER_LOW:
        return _Found("busy", (say.busy(w), say.power(w), say.LOW_POWER_MEANS, missing), 0.4)
    return _Found("busy", (say.busy(w), *say.units(w), say.power(w), missing), 0.5)


def _waits(w: Window) -> _Found | None:
    """Busy part of the time: the device waits for its host."""
    evidence = (say.busy(w), say.pcie(w), say.host(w), say.sm_while_busy(w), say.power(w))
    copied = max(w.pcie_rx_share or 0.0, 0.0) >= at.PCIE_BUSY
    overrun = (w.host_cpu or 0.0) >= at.HOST_BUSY
    bursts = (w.swing or 0.0) >= at.BURSTS
    full = w.sm_while_busy
    if full is not None and full < at.SM_FEW and not copied:
        return _Found("host_bound", (*evidence, say.SMALL_KERNELS), 0.7 if not bursts else 0.5)
    signs = copied + overrun + bursts
    if full is not None and full >= at.SM_FULL:
        return _Found("waiting_for_input", evidence, 0.55 + 0.1 * signs)
    if signs >= 2 or (bursts and w.power_share is not None and w.power_share < at.POWER_LOW):
        return _Found("waiting_for_input", evidence, 0.4 + 0.1 * signs)
    if copied or overrun:
        return _Found("waiting_for_input", evidence, 0.45)
    return _Found("host_bound", (*evidence, say.GAPS), 0.4)


def _works(w: Window) -> bool:
    return _busy(w) >= at.IDLE


def _busy(w: Window) -> float:
    return w.busy or 0.0


def _spins(w: Window) -> bool:
    """A kernel that is always there, moves nothing and never changes: it waits in a loop."""
    moved = max(w.tensor or 0.0, w.memory_bandwidth or 0.0)
    quiet = (w.nvlink_bytes_per_s or 0.0) < at.LINKS_QUIET_BYTES_PER_S
    return moved < at.SPINS and quiet and (w.swing or 0.0) < 0.05


_RULES: tuple[Callable[[Window], _Found | None], ...] = (
    _unreadable,
    _no_utilisation,
    _idle,
    _heat,
    _power,
    _steady_limit,
    _copies,
    _links,
    _resident_but_quiet,
    _steady_rest,
    _waits,
)
