"""Whether there is something to compute on: without it the doctor asks less of the host."""

from __future__ import annotations

from gpuscope.doctor.accelerators import amd_present, cards, nvidia_present
from gpuscope.doctor.machine import Machine


def has_accelerator(machine: Machine) -> bool:
    """Whether there is a device that one computes on; the processor's own graphics is none."""
    apart = any(not card.display for card in cards(machine))
    return apart or nvidia_present(machine) or amd_present(machine)
