"""The public verbs: predict a workload on a device, on many devices, over a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.capturing import Workload, capture, capture_each, capture_job, for_cluster
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import (
    Calibration,
    Cluster,
    Device,
    applied,
    calibration_for,
    load_own,
    parse_target,
)
from gpuscope.hardware.names import is_processor
from gpuscope.hardware.own import is_this, this_target
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms
from gpuscope.run import Refused, Run

if TYPE_CHECKING:
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.timeline.recost import Recosted
    from gpuscope.timeline.recost_ranks import RecostedJob

__all__ = [
    "capture",
    "capture_each",
    "capture_job",
    "for_cluster",
    "predict",
    "predict_many",
    "recost",
    "refused",
    "resolve_calibration",
    "resolve_target",
    "sweep",
]

Own = Calibration | str | Path
Target = str | Device | Cluster


def predict(
    workload: Workload,
    on: Target = "h200",
    *,
    options: WorkloadOptions | None = None,
    calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Run:
    """Predict a step of `workload` on `on`, without the device.

    Args:
        workload: see `capture`.
        on: a device ("h200"), a cluster ("8xh200"), "this" (the GPU of this machine, as
            `gpuscope bench --save` found it), or a `Device` (also a what-if one). Of an ONNX graph
            also a processor: "intel-xeon-8592", eight of its cores as "intel-xeon-8592:8",
            "this-cpu".
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
    if isinstance(on, str) and is_processor(on):
        from gpuscope.hardware.processors import processor
        from gpuscope.on_processor import predict_on_processor

        return predict_on_processor(workload, processor(on), options, strict)
    cluster = resolve_target(on)
    constants = resolve_calibration(on, calibration) or calibration_for(cluster.device)
    if overrides:
        cluster = cluster.with_device(cluster.device.replace(**overrides))
    from gpuscope.prediction import predict_captured
    from gpuscope.program.capture.patches import alone

    with alone():
        captured = capture_job(workload, cluster, options, strict, constants)
        return predict_captured(captured, cluster, constants, strict)


def recost(
    workload: Workload | RankPrograms,
    on: Target = "h200",
    *,
    options: WorkloadOptions | None = None,
    calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None,
    interval: bool = True,
    memory: bool = True,
) -> Recosted | RecostedJob:
    """Time, traffic, power and memory of a step on another machine, without a timeline.

    For curves over many machines: the figures are those of `predict`, many times quicker where
    the workload was captured before. A job whose ranks differ gives a `RecostedJob`. Arguments
    and errors as `predict`.

    Args:
        interval: compute the 80 % interval.
        memory: simulate the memory.
    """
    from gpuscope.timeline.recost import recost as cost_anew
    from gpuscope.timeline.recost_ranks import recost_ranks

    cluster = resolve_target(on)
    constants = resolve_calibration(on, calibration) or calibration_for(cluster.device)
    if overrides:
        cluster = cluster.with_device(cluster.device.replace(**overrides))
    captured = (
        workload
        if isinstance(workload, Program | RankPrograms)
        else capture_job(workload, cluster, options, calibration=constants)
    )
    if isinstance(captured, RankPrograms) and not captured.equal:
        return recost_ranks(
            captured, cluster.device, constants, cluster=cluster, interval=interval, memory=memory
        )
    program = captured.programs[0] if isinstance(captured, RankPrograms) else captured
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
    workload: Workload,
    targets: Sequence[Target],
    *,
    options: WorkloadOptions | None = None,
    calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> list[Run | Refused]:
    """Predict on several devices with one capture; same arguments as `predict`.

    Distributed code is captured once for each number of devices.

    Returns:
        For each target its run, or a `Refused` that says why the device cannot run it: as in the
        command's comparison, one incapable device does not end it.

    Raises:
        UnsupportedError: none of them can.
        GpuscopeError: else as `predict`.
    """
    clusters = [resolve_target(target) for target in targets]
    constants = [resolve_calibration(target, calibration) for target in targets]
    programs = capture_each(workload, clusters, options, strict, constants)
    found: list[Run | Refused] = []
    errors: list[UnsupportedError] = []
    for program, target, cluster in zip(programs, targets, clusters, strict=True):
        try:
            found.append(
                predict(
                    program, target, calibration=calibration, overrides=overrides, strict=strict
                )
            )
        except UnsupportedError as error:
            errors.append(error)
            found.append(refused(cluster, error))
    if errors and len(errors) == len(found):
        raise errors[0]
    return found


def refused(cluster: Cluster, error: UnsupportedError) -> Refused:
    """Return one machine of several that cannot run it: the comparison goes on without."""
    return Refused(cluster.device.id, cluster.name, error.what, error.why)


def sweep(
    workload: Workload,
    on: Target,
    field: str,
    values: Sequence[float],
    *,
    options: WorkloadOptions | None = None,
    calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> list[tuple[float, Run]]:
    """Predict over a range of one quantity.

    Args:
        workload, on, options, calibration, overrides, strict: as `predict` takes them.
        field: a figure of the device ("memory_bandwidth", "bf16"; one capture serves all points),
            a setting of a built-in workload ("batch", "seq", "image", "context", "layers"; a
            capture each), or "devices": how many (distributed code is captured for each).
        values: the points, in SI base units.

    Raises:
        UnknownNameError: no such figure.
        InvalidValueError: the workload has no such size, or a value cannot be.
    """
    from gpuscope.sweeping import checked_sweep, run_sweep

    cluster = resolve_target(on)
    constants = resolve_calibration(on, calibration)
    if overrides:
        cluster = cluster.with_device(cluster.device.replace(**overrides))
    plan = checked_sweep(workload, cluster, field, values)
    swept = run_sweep(
        workload, cluster, plan, options=options, calibration=constants, strict=strict
    )
    return list(swept.points)


def resolve_target(on: Target) -> Cluster:
    """A cluster from a name, a device or a cluster."""
    if isinstance(on, Cluster):
        return on
    if isinstance(on, str) and is_this(on):
        return parse_target(this_target(on)[0])
    if isinstance(on, Device):
        return Cluster.of(on)
    return parse_target(on)
