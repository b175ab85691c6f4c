"""The public verbs: predict a workload on a device, on many devices, over a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.capturing import (
    Workload,
    capture,
    capture_each,
    capture_job,
    for_cluster,
)
from gpuscope.errors import InvalidValueError
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
from gpuscope.program.world import RankPrograms
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.timeline.recost import Recosted
    from gpuscope.timeline.recost_ranks import RecostedJob

__all__ = [
    "capture", "capture_each", "capture_job", "for_cluster", "predict", "predict_many", "recost",
    "resolve_calibration", "resolve_target", "sweep",
]  # fmt: skip

Own = Calibration | str | Path
Target = str | Device | Cluster


def predict(
    workload: Workload, on: Target = "h200", *,
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
    return _predict(capture_job(workload, cluster, options, strict), cluster, constants, strict)


def recost(
    workload: Workload, on: Target = "h200", *,
    options: WorkloadOptions | None = None, calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None, interval: bool = True, memory: bool = True,
) -> Recosted | RecostedJob:  # fmt: skip
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
        cluster = replace(cluster, device=cluster.device.replace(**overrides))
    captured = (
        workload if isinstance(workload, Program) else capture_job(workload, cluster, options)
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
    workload: Workload, targets: Sequence[Target], *,
    options: WorkloadOptions | None = None, calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None, strict: bool = False,
) -> list[Run]:  # fmt: skip
    """Predict on several devices with one capture; same arguments and errors as `predict`.

    Distributed code is captured once for each number of devices.
    """
    clusters = [resolve_target(target) for target in targets]
    programs = capture_each(workload, clusters, options, strict)
    return [
        predict(
            program, target, calibration=calibration, overrides=overrides, strict=strict
        )
        for program, target in zip(programs, targets, strict=True)
    ]  # fmt: skip


def sweep(
    workload: Workload, on: Target, field: str, values: Sequence[float], *,
    options: WorkloadOptions | None = None, calibration: Own | None = None,
    overrides: Mapping[str, Any] | None = None, strict: bool = False,
) -> list[tuple[float, Run]]:  # fmt: skip
    """Predict over a range of one quantity.

    Args:
        field: a device field (one capture serves all points), a workload option such as "batch"
            or "seq" (a capture each), or "devices": how many (distributed code is captured for
            each).
        values: the points.
    """
    if field == "devices":
        return _over_devices(workload, on, values, options, calibration, overrides, strict)
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
    program = capture_job(workload, resolve_target(on), options, strict)
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


def _over_devices(
    workload: Workload, on: Target, values: Sequence[float], options: WorkloadOptions | None,
    calibration: Own | None, overrides: Mapping[str, Any] | None, strict: bool,
) -> list[tuple[float, Run]]:  # fmt: skip
    """Predict on several numbers of one device."""
    base = resolve_target(on)
    for value in values:
        if value != int(value) or value < 1:
            raise InvalidValueError(
                f"{value:g} devices cannot be.", "Devices are counted: 1, 2, 3, ...",
                "Give whole numbers to sweep over.",
            )  # fmt: skip
    clusters = [
        parse_target(f"{int(value)}x{base.device.id}").with_device(base.device) for value in values
    ]
    runs = predict_many(
        workload, clusters, options=options, overrides=overrides, strict=strict,
        calibration=resolve_calibration(on, calibration),
    )  # fmt: skip
    return list(zip(values, runs, strict=True))


def _with(options: WorkloadOptions, field: str, value: int) -> WorkloadOptions:
    changes: dict[str, Any] = {field: value}
    return replace(options, **changes)


def resolve_target(on: Target) -> Cluster:
    """A cluster from a name, a device or a cluster."""
    if isinstance(on, Cluster):
        return on
    if isinstance(on, str) and is_this(on):
        return parse_target(this_target(on)[0])
    if isinstance(on, Device):
        return replace(parse_target("h200"), device=on, n_devices=1)
    return parse_target(on)


def _predict(
    captured: Program | RankPrograms, cluster: Cluster, constants: Calibration, strict: bool
) -> Run:
    from gpuscope.prediction import predict_job, predict_program

    if isinstance(captured, RankPrograms):
        return predict_job(captured, cluster, constants, strict)
    return predict_program(captured, cluster, constants, strict)
