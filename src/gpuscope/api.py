"""The public verbs: predict a workload on a device, on many devices, over a range."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.errors import InvalidValueError, WorkloadError
from gpuscope.hardware import (
    Calibration,
    Cluster,
    Device,
    applied,
    calibration_for,
    load_own,
    parse_target,
)
from gpuscope.hardware.own import is_this, this_target
from gpuscope.program.types import Program
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.program.world import World
    from gpuscope.timeline.recost import Recosted

Build = Callable[[], Callable[[], object]]
Own = Calibration | str | Path
Target = str | Device | Cluster


def capture(
    workload: Build | str | Program, *, options: WorkloadOptions | None = None,
    strict: bool = False, world: World | None = None,
) -> Program:  # fmt: skip
    """Record one step of a workload, once for all devices.

    Args:
        workload: a `build` function, a built-in model's name, `file.py:function`, a Hugging
            Face `config.json`, or a program captured before (returned as it is).
        options: batch, sequence, dtype, ... for a workload given by name.
        strict: refuse operators that are not understood.
        world: the job that the code runs as a rank of, as torchrun would tell it; None: as one
            process without torchrun, or for a ready-made parallel job its own.
    """
    if isinstance(workload, Program):
        return workload
    from gpuscope.program.capture import capture as record

    if callable(workload):
        return record(workload, strict=strict, world=world)
    if not isinstance(workload, str):
        raise WorkloadError(
            f"A workload cannot be a {type(workload).__name__}.", "",
            "Give a build function, a model name, or a path.",
        )  # fmt: skip
    from gpuscope.program.fold import capture_workload
    from gpuscope.program.workload import WorkloadOptions, resolve

    resolved = resolve(workload, options or WorkloadOptions())
    program = capture_workload(resolved, strict=strict, world=world or resolved.world)
    if resolved.notes:
        notes = (resolved.notes,) if isinstance(resolved.notes, str) else tuple(resolved.notes)
        program = replace(program, assumptions=(*notes, *program.assumptions))
    return program


def predict(
    workload: Build | str | Program, on: Target = "h200", *,
    options: WorkloadOptions | None = None, calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None, strict: bool = False,
) -> Run:  # fmt: skip
    """Predict a step of `workload` on `on`, without the device.

    Args:
        workload: see `capture`.
        on: a device ("h200"), a cluster ("8xh200"), "this" (the GPU of this machine, as
            `gpuscope bench --save` found it), or a `Device` (also a what-if one).
        options: for a workload given by name.
        calibration: constants measured on your machine, or the file or folder that holds them;
            the catalogue's by default.
        overrides: device fields to change, e.g. {"memory_bandwidth_bytes_per_s": 8e12}.
        strict: refuse what is not understood instead of estimating it.

    Returns:
        A `Run` with origin "predicted".

    Raises:
        UnknownNameError: unknown device, model or option.
        WorkloadError: the workload's own code failed.
        UnsupportedError: the device lacks a dtype that the workload needs.
        InputFileError: no such calibration, or "this" machine was never measured.
    """
    cluster = resolve_target(on)
    constants = resolve_calibration(on, calibration) or calibration_for(cluster.device)
    if overrides:
        cluster = replace(cluster, device=cluster.device.replace(**overrides))
    program = capture(workload, options=for_cluster(options, cluster), strict=strict)
    return _predict(program, cluster, constants, strict)


def recost(
    workload: Build | str | Program, on: Target = "h200", *,
    options: WorkloadOptions | None = None, calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None, interval: bool = True, memory: bool = True,
) -> Recosted:  # fmt: skip
    """Time, traffic, power and memory of a step on another machine, without a timeline.

    For curves over many machines: the figures are those of `predict`, many times quicker where
    the workload was captured before. Arguments and errors as `predict`.

    Args:
        interval: compute the 80 % interval.
        memory: simulate the memory.
    """
    from gpuscope.timeline.recost import recost as cost_anew

    cluster = resolve_target(on)
    constants = resolve_calibration(on, calibration) or calibration_for(cluster.device)
    if overrides:
        cluster = replace(cluster, device=cluster.device.replace(**overrides))
    program = capture(workload, options=for_cluster(options, cluster))
    return cost_anew(
        program, cluster.device, constants, cluster=cluster, interval=interval, memory=memory
    )


def resolve_calibration(on: Target, calibration: Own | None = None) -> Calibration | None:
    """All constants for a target where they are not the catalogue's; None where they are.

    Args:
        on: see `predict`; "this" brings its own constants.
        calibration: a file or folder (laid over the catalogue's constants for this device), or
            constants, which are taken as they are.

    Raises:
        InputFileError: no such calibration, or "this" machine was never measured.
    """
    if isinstance(calibration, Calibration):
        return calibration
    if calibration is not None:
        return applied(load_own(calibration), resolve_target(on).device)
    if isinstance(on, str) and is_this(on):
        return applied(this_target(on)[1], resolve_target(on).device)
    return None


def predict_many(
    workload: Build | str | Program, targets: Sequence[Target], *,
    options: WorkloadOptions | None = None, calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None, strict: bool = False,
) -> list[Run]:  # fmt: skip
    """Predict on several devices with one capture; same arguments and errors as `predict`.

    A parallel job is captured once for each number of devices.
    """
    clusters = [t if isinstance(t, str) else resolve_target(t) for t in targets]
    laid = [for_cluster(options, resolve_target(cluster)) for cluster in clusters]
    programs = {o: capture(workload, options=o, strict=strict) for o in dict.fromkeys(laid)}
    return [
        predict(programs[o], cluster, calibration=calibration, overrides=overrides, strict=strict)
        for o, cluster in zip(laid, clusters, strict=True)
    ]


def sweep(
    workload: Build | str | Program, on: Target, field: str, values: Sequence[float], *,
    options: WorkloadOptions | None = None, calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None, strict: bool = False,
) -> list[tuple[float, Run]]:  # fmt: skip
    """Predict over a range of one quantity.

    Args:
        field: a device field (one capture serves all points), or a workload option such as
            "batch" or "seq" (a capture each).
        values: the points.
    """
    if field in ("batch", "seq", "image", "context", "layers"):
        from gpuscope.program.workload import WorkloadOptions

        if not isinstance(workload, str):
            raise InvalidValueError(
                f"Cannot sweep '{field}' of this workload.",
                "Its size is fixed in its own code.",
                "Use a built-in model, or sweep a device field such as memory_bandwidth.",
            )
        base = options or WorkloadOptions()
        return [
            (
                value,
                predict(
                    workload, on, options=_with(base, field, int(value)),
                    calibration=calibration, overrides=overrides, strict=strict,
                ),
            )
            for value in values
        ]  # fmt: skip
    program = capture(workload, options=for_cluster(options, resolve_target(on)), strict=strict)
    return [
        (
            value,
            predict(
                program, on, calibration=calibration,
                overrides={**(overrides or {}), field: value}, strict=strict,
            ),
        )
        for value in values
    ]  # fmt: skip


def _with(options: WorkloadOptions, field: str, value: int) -> WorkloadOptions:
    changes: dict[str, Any] = {field: value}
    return replace(options, **changes)


def for_cluster(options: WorkloadOptions | None, cluster: Cluster) -> WorkloadOptions | None:
    """The same options, with a parallel job laid over all devices of a cluster.

    Options without a parallel job, or with one whose number of ranks is said, stay as they are.
    """
    if options is None or options.parallel is None or options.parallel.world is not None:
        return options
    laid = replace(options.parallel, world=cluster.n_devices, node=cluster.devices_per_node)
    return replace(options, parallel=laid)


def resolve_target(on: Target) -> Cluster:
    """A cluster from a name, a device or a cluster."""
    if isinstance(on, Cluster):
        return on
    if isinstance(on, str) and is_this(on):
        return parse_target(this_target(on)[0])
    if isinstance(on, Device):
        return replace(parse_target("h200"), device=on, n_devices=1)
    return parse_target(on)


def _predict(program: Program, cluster: Cluster, constants: Calibration, strict: bool) -> Run:
    from gpuscope.analysis import analyze
    from gpuscope.cost.engine import cost_program
    from gpuscope.cost.power import limit_power
    from gpuscope.cost.workspace import with_workspaces
    from gpuscope.program.fusion import fuse
    from gpuscope.timeline import attach_memory, simulate, simulate_memory, step_time_interval
    from gpuscope.timeline.contention import DeviceOverlap

    device = cluster.device
    program = with_workspaces(fuse(program) if program.compiled else program, device)
    costed = limit_power(
        cost_program(program, device, constants, strict=strict, cluster=cluster), device, constants
    )
    overlap = DeviceOverlap.of(device, constants)
    simulation = simulate(costed, overlap=overlap)
    memory = simulate_memory(program, capacity_bytes=device.memory_usable_bytes)
    low, high = step_time_interval(costed, overlap=overlap)
    timeline = attach_memory(simulation.timeline, memory)
    analysis = analyze(
        timeline, program=program, device=device, memory=memory,
        step_time_s=simulation.step_time_s, calibration=constants,
    )  # fmt: skip
    measured = constants.distance == "same device" and not program.compiled
    origin = "calibrated" if measured else "estimated"
    energy = analysis.energy.total_j if analysis.energy else None
    return Run(
        name=program.name, target=device.name, device_id=device.id, origin="predicted",
        step_time_s=simulation.step_time_s, step_time_interval_s=(low, high),
        device_busy_s=simulation.device_busy_s, host_busy_s=simulation.host_busy_s,
        peak_memory_bytes=memory.peak_allocated_bytes,
        reserved_memory_bytes=memory.peak_reserved_bytes, energy_j=energy,
        fits=memory.peak_allocated_bytes <= device.memory_usable_bytes,
        timeline=timeline, analysis=analysis, program=program,
        assumptions=tuple(
            dict.fromkeys(
                (*costed.assumptions, *_replicas(program, cluster), *cluster.assumptions)
            )
        ),
        origins={
            "step_time_s": origin, "device_busy_s": origin, "host_busy_s": origin,
            "peak_memory_bytes": "calibrated", "reserved_memory_bytes": "estimated",
            "energy_j": origin,
        },
        samples=program.samples, tokens=program.tokens,
    )  # fmt: skip


def _replicas(program: Program, cluster: Cluster) -> tuple[str, ...]:
    """What it means to run a program without communication on several devices."""
    if cluster.n_devices == 1 or any("c10d" in op.name for op in program.ops):
        return ()
    return (
        f"No collective in the program: each of the {cluster.n_devices} devices runs its own copy.",
    )
