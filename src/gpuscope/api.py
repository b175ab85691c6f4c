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
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.program.world import World
    from gpuscope.timeline.recost import Recosted
    from gpuscope.timeline.recost_ranks import RecostedJob

Build = Callable[[], Callable[[], object]]
Workload = Build | str | TransformerSize | Program | RankPrograms
Own = Calibration | str | Path
Target = str | Device | Cluster


def capture(
    workload: Build | str | TransformerSize | Program, *, options: WorkloadOptions | None = None,
    strict: bool = False, world: World | None = None,
) -> Program:  # fmt: skip
    """Record one step of a workload, once for all devices.

    Args:
        workload: a `build` function, a built-in model's name, the size of any decoder (to train
            it), `file.py:function`, a Hugging Face `config.json`, or a program captured before
            (returned as it is).
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
    if not isinstance(workload, (str, TransformerSize)):
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


def capture_job(
    workload: Workload, cluster: Cluster, options: WorkloadOptions | None = None,
    strict: bool = False,
) -> Program | RankPrograms:  # fmt: skip
    """Record one step of every distinct rank of a workload on a cluster.

    Code that joins a process group runs as every rank that differs; code that does not is captured
    once, whatever the cluster.

    Args:
        workload, options, strict: see `capture`; ranks captured before are returned as they are.
        cluster: one rank a device.

    Raises:
        InvalidValueError: ranks captured for another number of devices.
        WorkloadError: the workload's own code failed.
    """
    if isinstance(workload, RankPrograms):
        _check_size(workload.world_size, cluster)
        return workload
    if isinstance(workload, Program):
        return _whole_job(workload, cluster)
    if isinstance(workload, (str, TransformerSize)):
        return _named_job(workload, cluster, for_cluster(options, cluster), strict)
    if cluster.n_devices == 1 or not callable(workload):
        return capture(workload, options=options, strict=strict)
    from gpuscope.program.ranks import capture_ranks

    return _one_or_many(capture_ranks(workload, _world(cluster), strict=strict))


def _named_job(
    workload: str | TransformerSize, cluster: Cluster, options: WorkloadOptions | None, strict: bool
) -> Program | RankPrograms:
    """A model or a file, as `capture_job` records it."""
    from gpuscope.program.workload import WorkloadOptions, resolve

    resolved = resolve(workload, options or WorkloadOptions())
    if resolved.job is not None and resolved.job.plan.pp > 1:
        from gpuscope.program.pipeline.job_programs import rank_programs

        _check_size(resolved.job.plan.world_size, cluster)
        made = rank_programs(
            resolved.job, local_size=cluster.devices_per_node, strict=strict, name=resolved.title
        )
        noted = [
            replace(program, assumptions=(*resolved.notes, *program.assumptions))
            for program in made.programs
        ]
        return replace(made, programs=tuple(noted))
    if resolved.job is None and resolved.at_depth is None and cluster.n_devices > 1:
        from gpuscope.program.ranks import capture_ranks

        return _one_or_many(
            capture_ranks(resolved.build, _world(cluster), name=resolved.name, strict=strict)
        )
    return _whole_job(capture(workload, options=options, strict=strict), cluster)


def _world(cluster: Cluster) -> World:
    from gpuscope.program.world import World

    return World(cluster.n_devices, 0, cluster.devices_per_node)


def _one_or_many(programs: RankPrograms) -> Program | RankPrograms:
    """The program alone where its ranks do not talk: copies of one."""
    first = programs.programs[0]
    if programs.equal and not first.groups:
        return replace(first, world_size=1)
    return programs


def _whole_job(program: Program, cluster: Cluster) -> Program | RankPrograms:
    """A program that every rank of its job runs."""
    if program.world_size == 1:
        return program
    _check_size(program.world_size, cluster)
    return RankPrograms((program,), (tuple(range(program.world_size)),))


def _check_size(ranks: int, cluster: Cluster) -> None:
    if ranks != cluster.n_devices:
        raise InvalidValueError(
            f"A job of {ranks} ranks does not run on {cluster.n_devices} devices.",
            "It was captured for one rank a device.",
            f"Type for example: --on {ranks}x{cluster.device.id}",
        )


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


def capture_each(
    workload: Workload, clusters: Sequence[Cluster], options: WorkloadOptions | None = None,
    strict: bool = False,
) -> list[Program | RankPrograms]:  # fmt: skip
    """What `capture_job` gives for each cluster, captured once for each number of devices.

    Arguments and errors as `capture_job`.
    """
    captured: dict[object, Program | RankPrograms] = {}
    alone: Program | None = None
    # The largest first: what joins no process group there is the same everywhere.
    for cluster in sorted(clusters, key=lambda c: -c.n_devices):
        key = _job_key(cluster)
        if alone is None and key not in captured:
            found = captured[key] = capture_job(workload, cluster, options, strict)
            if isinstance(found, Program) and len(captured) == 1:
                alone = found
    return [alone or captured[_job_key(cluster)] for cluster in clusters]


def _job_key(cluster: Cluster) -> tuple[int, int]:
    """What a capture depends on of a cluster."""
    return cluster.n_devices, cluster.devices_per_node


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


def _predict(
    captured: Program | RankPrograms, cluster: Cluster, constants: Calibration, strict: bool
) -> Run:
    from gpuscope.prediction import predict_job, predict_program

    if isinstance(captured, RankPrograms):
        return predict_job(captured, cluster, constants, strict)
    return predict_program(captured, cluster, constants, strict)
