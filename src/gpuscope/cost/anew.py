"""A captured program as one device runs it: fused where compiled, costed, under its power limit.

Whatever predicts starts here (`gpuscope.prediction`, `gpuscope.timeline.recost`), so that a step
drawn as a timeline and a point of a curve have the same kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuscope.cost.engine import cost_program
from gpuscope.cost.power import limit_power
from gpuscope.cost.types import CostedProgram
from gpuscope.cost.workspace import with_workspaces
from gpuscope.hardware import Calibration, Cluster, Device
from gpuscope.program.types import WHOLE_STEP, XLA, Program


@dataclass(frozen=True, slots=True)
class Made:
    """A program on a device.

    Attributes:
        program: fused where it is compiled, with the libraries' memory on this device.
        alone: costed, each kernel at the full clock.
        costed: under the board's power limit.
    """

    program: Program
    alone: CostedProgram
    costed: CostedProgram


def costed_anew(
    program: Program,
    device: Device,
    constants: Calibration,
    cluster: Cluster | None = None,
    *,
    strict: bool = False,
) -> Made:
    """Cost a program on a device as `gpuscope.predict` does.

    Args:
        program: as captured, or as `Run.program` has it.
        device: what it runs on, a what-if one as well as a real one.
        constants: calibrated constants for the device.
        cluster: what collectives run on; None: as small a cluster as they need.
        strict: refuse what has no kernel model.

    Raises:
        UnsupportedError: the device lacks a dtype that the program computes in.
        CaptureError: an operator without a model, under `strict`.
    """
    program = as_run(program, device)
    alone = cost_program(program, device, constants, strict=strict, cluster=cluster)
    return Made(program, alone, limit_power(alone, device, constants))


def as_run(program: Program, device: Device) -> Program:
    """The program as a device runs it: fused where it is compiled, with its libraries' memory."""
    if not program.compiled and device.compiles_whole_steps:
        settings = {**program.settings, "step_graph": True}
        program = replace(program, compiled=WHOLE_STEP, settings=settings)
    if program.compiled:
        from gpuscope.program.fusion import fuse  # the rules of a compiler: eager code needs none

        program = fuse(program)
    if program.engine == XLA:  # its block of temporaries holds the libraries' memory, too
        return program
    return with_workspaces(_without_workspaces(program), device)


def _without_workspaces(program: Program) -> Program:
    """The program without the libraries' memory, which differs from device to device."""
    own = tuple(s for s in program.storages if s.category != "workspace")
    return program if len(own) == len(program.storages) else replace(program, storages=own)
