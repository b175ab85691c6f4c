"""A JAX step, compiled by XLA for the device that it is predicted on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware import Cluster
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms, with_note

if TYPE_CHECKING:
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["jax_job"]


def jax_job(
    workload: Any, cluster: Cluster, options: WorkloadOptions | None
) -> Program | RankPrograms:
    """Record a JAX step as XLA compiles it for the cluster's device.

    Args:
        workload: a function with its arguments, or `file.py:function`.
        cluster: what it is compiled for.
        options: as `gpuscope.capturing.capture_job` takes them.

    Raises:
        InvalidValueError: a whole script, whose step is not named.
    """
    from gpuscope.hardware.xla_target import target_config
    from gpuscope.program.jax import workload as jax_workload
    from gpuscope.program.jax.compiling import Target

    target = Target(target_config(cluster.device), cluster.n_devices, cluster.devices_per_node)
    if not isinstance(workload, str):
        return jax_workload.captured(workload, target)
    from gpuscope.program.guard.elsewhere import call_elsewhere
    from gpuscope.program.workload import WorkloadOptions, resolve

    found = resolve(workload, options or WorkloadOptions(), load=False)
    file = found.file
    if file is None:
        raise InvalidValueError(
            Text("{path} is a whole script of JAX's.", path=workload),
            Text("Its step has to be named: a function that returns it and its arguments."),
            Text("Write: def build(): ...; return step, (state, batch)"),
        )
    lowered, held = call_elsewhere(
        jax_workload.lowered_file,
        file,
        cluster.n_devices,
        script=file.target,
        guarded=not file.allow_writes,
        shown=True,
    )
    program = jax_workload.program_of(lowered, target, found.name)
    if held is None:
        return program
    return with_note(program, held.note)
