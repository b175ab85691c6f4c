"""What to predict, recorded: one program for all devices, or every distinct rank of a job."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeVar

from gpuscope.document.plain import dumps
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, NoStepError, WorkloadError
from gpuscope.hardware import Calibration, Cluster, calibration_for
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms, with_note

if TYPE_CHECKING:
    from gpuscope.kept import Store
    from gpuscope.program.models.user_file import UserBuild
    from gpuscope.program.pipeline.job_programs import PipelineBlocks
    from gpuscope.program.script import Script
    from gpuscope.program.workload import Workload as Resolved
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.program.world import World

__all__ = [
    "Build",
    "Workload",
    "capture",
    "capture_each",
    "capture_elsewhere",
    "capture_job",
    "capture_pipeline",
    "capture_resolved",
    "for_cluster",
    "keeping",
    "kept_figures",
    "with_file",
]

_store: Store | None = None
"""What is kept between commands; None: nothing is."""

T = TypeVar("T")

Build = Callable[[], Callable[[], object]]
Workload = Build | str | TransformerSize | Program | RankPrograms


@contextmanager
def keeping(wanted: bool = True) -> Iterator[None]:
    """What a command captures by name in this block is kept, or was: see `gpuscope.kept`.

    It is written when the block is done: the answer comes first.

    Args:
        wanted: keep, and take what was kept.
    """
    global _store
    if not wanted:
        yield
        return
    from gpuscope.kept import Store

    _store = store = Store()
    try:
        yield
    finally:
        _store = None
    store.write()


def capture(
    workload: Build | str | TransformerSize | Program,
    *,
    options: WorkloadOptions | None = None,
    strict: bool = False,
    world: World | None = None,
) -> Program:
    """Record one step of a workload, once for all devices.

    Args:
        workload: a `build` function, a built-in model's name, the size of any decoder (to train
            it), `file.py:function`, a Hugging Face `config.json`, or a program captured before
            (returned as it is). A function runs in this process; what is in a file that is named
            runs in one of its own, and leaves nothing behind.
        options: batch, sequence, dtype, ... for a workload given by name.
        strict: refuse operators that are not understood.
        world: the job that the code runs as a rank of, as torchrun would tell it; None: as one
            process without torchrun, or for a ready-made parallel job its own.
    """
    if isinstance(workload, Program):
        return workload
    if callable(workload):
        from gpuscope.program.capture import capture as record

        return record(workload, strict=strict, world=world)
    if not isinstance(workload, (str, TransformerSize)):
        raise WorkloadError(
            Text("A workload cannot be a {name}.", name=type(workload).__name__),
            "",
            Text("Give a build function, a model name, or a path."),
        )
    from gpuscope.program.workload import WorkloadOptions, resolve

    found = resolve(workload, options or WorkloadOptions(), load=False)
    program: Program = capture_elsewhere(found, _recorded, strict, world)
    return program


def _recorded(found: Resolved, strict: bool, world: World | None) -> Program:
    """One rank of a workload that was given by name, with what its reader should know."""
    from gpuscope.program.fold import capture_workload

    program = capture_workload(found, strict=strict, world=world or found.world)
    if found.onnx is not None:
        program = found.onnx.executed(program)
    return _noted(_as_software(program, found), found)


def _noted(program: Program, found: Resolved) -> Program:
    return replace(program, assumptions=(*found.notes, *program.assumptions))


def capture_job(
    workload: Workload,
    cluster: Cluster,
    options: WorkloadOptions | None = None,
    strict: bool = False,
    calibration: Calibration | None = None,
    *,
    keep: bool = True,
) -> Program | RankPrograms:
    """Record one step of every distinct rank of a workload on a cluster.

    Code that joins a process group runs as every rank that differs; code that does not is captured
    once, whatever the cluster.

    Args:
        workload, options, strict: see `capture`; ranks captured before are returned as they are.
        cluster: one rank a device.
        calibration: of its device, for the clock that a whole script reads; None: the catalogue's.
        keep: what is captured by name is kept, where anything is (`keeping`); else it is only taken
            from what was kept: writing a deep job takes a third of capturing it.

    Raises:
        InvalidValueError: ranks captured for another number of devices.
        WorkloadError: the workload's own code failed.
    """
    if isinstance(workload, RankPrograms):
        _check_size(workload.world_size, cluster)
        return workload
    if isinstance(workload, Program):
        return _whole_job(workload, cluster)
    from gpuscope.program.jax.workload import is_jax

    if is_jax(workload):
        from gpuscope.capturing_jax import jax_job

        return jax_job(workload, cluster, options)
    if isinstance(workload, (str, TransformerSize)):
        laid = for_cluster(options, cluster)
        return _named_job(workload, cluster, laid, strict, calibration, keep)
    if cluster.n_devices == 1 or not callable(workload):
        return capture(workload, options=options, strict=strict)
    from gpuscope.program.ranks import capture_ranks

    return _one_or_many(capture_ranks(workload, _world(cluster), strict=strict))


def _named_job(
    workload: str | TransformerSize,
    cluster: Cluster,
    options: WorkloadOptions | None,
    strict: bool,
    calibration: Calibration | None,
    keep: bool,
) -> Program | RankPrograms:
    """A model or a file, as `capture_job` records it, or as it was kept."""
    from gpuscope.program.models.settings import WorkloadOptions

    options = options or WorkloadOptions()

    def record() -> Program | RankPrograms:
        from gpuscope.program.workload import resolve

        found = resolve(workload, options, load=False)
        return capture_resolved(found, cluster, strict, calibration)

    if _store is None:
        return record()
    # What is kept is no script: only a script's own clock asks for the constants.
    kept: Program | RankPrograms = _store.captured(
        workload if isinstance(workload, str) else _size_name(workload),
        options,
        _job_key(cluster),
        strict,
        record,
        keep,
    )
    return kept


def capture_pipeline(
    workload: str | TransformerSize, cluster: Cluster, options: WorkloadOptions
) -> PipelineBlocks:
    """Record the stages of a ready-made decoder's pipeline, of which its ranks are made.

    Args:
        workload: name or size of a built-in decoder.
        cluster: one rank a device.
        options: with a parallel job that has pipeline stages.

    Raises:
        InvalidValueError: as `gpuscope.program.pipeline.job_programs.capture_pipeline`.
    """
    from gpuscope.program.pipeline import job_programs
    from gpuscope.program.workload import resolve

    found = resolve(workload, for_cluster(options, cluster) or options, load=False)
    assert found.job is not None
    _check_size(found.job.plan.world_size, cluster)
    return job_programs.capture_pipeline(
        found.job, local_size=cluster.devices_per_node, name=found.title
    )


def kept_figures(
    kind: type[T],
    workload: str | TransformerSize,
    options: WorkloadOptions,
    cluster: Cluster,
    about: Mapping[str, Any],
    make: Callable[[], T],
) -> T:
    """Return figures of a workload's step: those that a command kept, else what is made.

    Args:
        kind: what they are, see `gpuscope.kept.Store.figures`.
        workload, options, cluster: as `capture_job` takes them.
        about: what else decides them, as plain values.
        make: makes them; its errors are passed on.
    """
    if _store is None:
        return make()
    name = workload if isinstance(workload, str) else _size_name(workload)
    laid = for_cluster(options, cluster) or options
    return _store.figures(name, laid, _job_key(cluster), about, kind, make)


def _size_name(size: TransformerSize) -> str:
    """What a decoder without a name is kept as: equal sizes have one."""
    digest = hashlib.blake2b(dumps(asdict(size)).encode(), digest_size=8).hexdigest()
    return f"decoder-{size.layers}-layers-{digest}"


def capture_resolved(
    resolved: Resolved,
    cluster: Cluster,
    strict: bool = False,
    calibration: Calibration | None = None,
) -> Program | RankPrograms:
    """Record a workload that was resolved before, as `capture_job` does by its name.

    Args:
        resolved: what `gpuscope.program.workload.resolve` gave; its `build` may have been wrapped.
        cluster, strict, calibration: see `capture_job`.
    """
    found: Program | RankPrograms = capture_elsewhere(
        resolved, _here_recorded, cluster, strict, calibration
    )
    return found


def _here_recorded(
    resolved: Resolved, cluster: Cluster, strict: bool, calibration: Calibration | None
) -> Program | RankPrograms:
    """A script that is its own step reads the clock of the device that it is predicted for."""
    script = resolved.script
    if script is not None and script.step == "whole" and cluster.n_devices == 1:
        from gpuscope.cost.one_by_one import prices_on

        prices = prices_on(cluster, calibration or calibration_for(cluster.device))
        resolved = resolved.with_script(replace(script, prices=prices))
    return _job_recorded(resolved, cluster, strict)


def capture_elsewhere(found: Resolved, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call what captures a workload: in a process of its own if the user's files have its code.

    There it leaves nothing behind. Where a script ends before a step of it is found, it runs again
    and the whole of it is the step.

    Args:
        found: the workload.
        function: at the top level of a module; takes the workload and the arguments, and returns
            what was captured, or a tuple that begins with it.
        arguments: more of the function's.

    Returns:
        The same, with a note in what was captured of how the files were kept.
    """
    try:
        return _captured_elsewhere(found, function, *arguments)
    except NoStepError:
        from gpuscope.program.guard import elsewhere

        if found.script is None or elsewhere.inside.is_set():
            raise
        script = found.script
    script = replace(script, step=f"pass {script.step}" if script.step else "whole")
    return _captured_elsewhere(found.with_script(script), function, *arguments)


def _captured_elsewhere(found: Resolved, function: Callable[..., Any], *arguments: Any) -> Any:
    code = found.script or found.file
    if code is None:
        return function(found, *arguments)
    from gpuscope.program.guard.elsewhere import call_elsewhere

    value, held = call_elsewhere(
        _loaded,
        function,
        found,
        *arguments,
        script=code.target,
        guarded=not code.allow_writes,
        shown=found.file is not None,
        real=_kept_folder(found.script),
    )
    if held is None:
        return value
    if isinstance(value, tuple):
        return (with_note(value[0], held.note), *value[1:])
    return with_note(value, held.note)


def _kept_folder(script: Script | None) -> tuple[str, ...]:
    """The folder in which a script's charts are kept, made if it is not there.

    Raises:
        InvalidValueError: it cannot be made.
    """
    if script is None or not script.keep:
        return ()
    try:
        os.makedirs(script.keep, exist_ok=True)
    except OSError as error:
        raise InvalidValueError(
            Text("Charts cannot be kept in {folder}.", folder=script.keep),
            error.strerror or str(error),
            Text("Name a folder: --keep charts"),
        ) from error
    return (script.keep,)


def with_file(file: UserBuild, function: Callable[..., Any]) -> Any:
    """Call a function with the user's, which is imported in a process of its own.

    Args:
        file: where the user's function is.
        function: at the top level of a module; returns plain values.
    """
    from gpuscope.program.guard.elsewhere import call_elsewhere

    return call_elsewhere(
        _with_file, file, function, script=file.target, guarded=not file.allow_writes, shown=True
    )[0]


def _with_file(file: UserBuild, function: Callable[..., Any]) -> Any:
    from gpuscope.program.capture.endless import Watch

    with Watch():
        loaded = file.load()
    return function(loaded)


def _loaded(function: Callable[..., Any], found: Resolved, *arguments: Any) -> Any:
    """In that process: the file imported, and then the function."""
    from gpuscope.program.capture.endless import Watch
    from gpuscope.program.guard import elsewhere

    with Watch():
        loaded = found.loaded()
    if found.file is not None:
        elsewhere.imported_before_capture()
    return function(loaded, *arguments)


def _job_recorded(resolved: Resolved, cluster: Cluster, strict: bool) -> Program | RankPrograms:
    if resolved.job is not None and resolved.job.plan.pp > 1:
        from gpuscope.program.pipeline.job_programs import rank_programs

        _check_size(resolved.job.plan.world_size, cluster)
        made = rank_programs(
            resolved.job, local_size=cluster.devices_per_node, strict=strict, name=resolved.title
        )
        return replace(made, programs=tuple(_noted(p, resolved) for p in made.programs))
    code = resolved.job is None and resolved.at_depth is None and resolved.world is None
    code = code and resolved.onnx is None
    if code and cluster.n_devices > 1:
        from gpuscope.program.ranks import capture_ranks

        return _one_or_many(
            capture_ranks(resolved.build, _world(cluster), name=resolved.name, strict=strict)
        )
    return _whole_job(_recorded(resolved, strict, None), cluster)


def _as_software(program: Program, resolved: Resolved) -> Program:
    """A ready-made job's step as its software runs it."""
    if resolved.job is None:
        return program
    from gpuscope.program.models.parallel.software import as_software

    return as_software(program, resolved.job.software, resolved.job.plan.reduce_dtype)


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
            Text(
                "A job of {ranks} ranks does not run on {n_devices} devices.",
                ranks=ranks,
                n_devices=cluster.n_devices,
            ),
            Text("It was captured for one rank a device."),
            Text("Type for example: --on {ranks}x{id}", ranks=ranks, id=cluster.device.id),
        )


def capture_each(
    workload: Workload,
    clusters: Sequence[Cluster],
    options: WorkloadOptions | None = None,
    strict: bool = False,
    calibrations: Sequence[Calibration | None] = (),
) -> list[Program | RankPrograms]:
    """What `capture_job` gives for each cluster, captured once for each number of devices.

    Arguments and errors as `capture_job`; `calibrations` has one for each cluster, or none.
    """
    given = dict(zip(clusters, calibrations, strict=bool(calibrations)))
    captured: dict[object, Program | RankPrograms] = {}
    alone: Program | None = None
    # The largest first: what joins no process group there is the same everywhere.
    for cluster in sorted(clusters, key=lambda c: -c.n_devices):
        key = _capture_key(workload, cluster)
        if alone is None and key not in captured:
            found = captured[key] = capture_job(
                workload, cluster, options, strict, given.get(cluster)
            )
            if isinstance(found, Program) and len(captured) == 1 and len(key) == 2:
                alone = found
    return [alone or captured[_capture_key(workload, cluster)] for cluster in clusters]


def _job_key(cluster: Cluster) -> tuple[int, int]:
    """What a capture depends on of a cluster."""
    return cluster.n_devices, cluster.devices_per_node


def _capture_key(workload: object, cluster: Cluster) -> tuple[object, ...]:
    """The same with the device for which XLA compiles, where it does."""
    from gpuscope.program.jax.workload import is_jax

    key = _job_key(cluster)
    return (*key, cluster.device.id) if is_jax(workload) else key


def for_cluster(options: WorkloadOptions | None, cluster: Cluster) -> WorkloadOptions | None:
    """The same options, with a parallel job laid over all devices of a cluster.

    A job whose number of ranks is said stays as it is; without one, a model that is trained on
    several devices is data parallel.
    """
    if options is None or options.parallel is None:
        if cluster.n_devices == 1:
            return options
        from gpuscope.program.models.settings import WorkloadOptions

        replicas = cluster.n_devices, cluster.devices_per_node
        return replace(options or WorkloadOptions(), replicas=replicas)
    if options.parallel.world is not None:
        return options
    laid = replace(options.parallel, world=cluster.n_devices, node=cluster.devices_per_node)
    return replace(options, parallel=laid)
