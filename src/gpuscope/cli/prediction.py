"""What `gpuscope predict` does: check everything first, predict, then show and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gpuscope import api
from gpuscope.cli.progress import note, progress
from gpuscope.errors import DoesNotFitError, InvalidValueError
from gpuscope.hardware import Cluster, parse_overrides, parse_sweep, parse_target
from gpuscope.hardware.device import REPLACEABLE
from gpuscope.program.models.settings import (
    ATTENTIONS,
    COMPILE_MODES,
    OPTIMIZERS,
    TASKS,
    WorkloadOptions,
    canonical_dtype,
    choose,
    positive,
)
from gpuscope.run import Run
from gpuscope.views.atomic import check_writable
from gpuscope.views.i18n import tr

if TYPE_CHECKING:
    from gpuscope.views.sweep import Worth

OPTION_SWEEPS = ("batch", "seq")
"""Sweeps that change the workload, so that every point is captured anew."""

_NUDGE = 1.1
"""Factor by which a resource is raised and lowered to see what it is worth."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to predict, as the user wrote it."""

    workload: str
    targets: tuple[str, ...]
    options: WorkloadOptions
    settings: tuple[str, ...] = ()
    sweep: str | None = None
    strict: bool = False
    must_fit: bool = False


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the result goes."""

    as_json: bool = False
    output: Path | None = None
    report: Path | None = None
    trace: Path | None = None
    quiet: bool = False
    lang: str = "en"


@dataclass(frozen=True, slots=True)
class _Sweep:
    """A checked sweep: the field and its values."""

    field: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What was predicted: runs; or the points of a sweep, and what resources are worth."""

    runs: tuple[Run, ...]
    field: str = ""
    values: tuple[float, ...] = ()
    worth: tuple[Worth, ...] = ()


def run_request(request: Request, outputs: Outputs) -> None:
    """Predict, print, write.

    Raises:
        GpuscopeError: wrong input, found before anything heavy is done; a workload that cannot be
            captured; a result that does not fit, under `must_fit`.
    """
    clusters, swept = _checked(request, outputs)
    with progress(outputs.quiet) as say:
        result = (
            _swept(request, clusters[0], swept, say, outputs.lang)
            if swept
            else _predicted(request, clusters, say, outputs.lang)
        )
    _write(result, outputs)
    _show(result, outputs)
    if request.must_fit:
        _require_fit(result.runs)


# -- checks ---------------------------------------------------------------------------------------


def _checked(request: Request, outputs: Outputs) -> tuple[list[Cluster], _Sweep | None]:
    """Everything that can be found wrong without torch."""
    for path in (outputs.output, outputs.report, outputs.trace):
        if path is not None:
            check_writable(path)
    if not request.targets:
        raise InvalidValueError("No device is named.", "", "Type: --on h200")
    overrides = parse_overrides(request.settings)
    clusters = []
    for name in request.targets:
        cluster = parse_target(name)
        changed = cluster.device.replace(**overrides) if overrides else cluster.device
        clusters.append(cluster.with_device(changed) if overrides else cluster)
    swept = _checked_sweep(request, outputs, clusters)
    _check_options(request.options)
    return clusters, swept


def _checked_sweep(
    request: Request, outputs: Outputs, clusters: Sequence[Cluster]
) -> _Sweep | None:
    if request.sweep is None:
        return None
    if len(clusters) > 1:
        raise InvalidValueError(
            "A sweep runs on one device.", f"--on names {len(clusters)}.", "Name one of them."
        )
    if outputs.trace is not None or outputs.report is not None:
        raise InvalidValueError(
            "A sweep has no trace and no report.", "They show one run.",
            "Leave out --sweep, or save the sweep with --output.",
        )  # fmt: skip
    field, values = parse_sweep(request.sweep)
    if field == "peak_flops_per_s":
        raise InvalidValueError(
            f"'{request.sweep}': of which dtype?", "Each has its own peak.",
            "Type: --sweep bf16=500..2000TFLOPS",
        )  # fmt: skip
    if field in OPTION_SWEEPS and ".py" in request.workload:
        raise InvalidValueError(
            f"Cannot sweep '{field}' of {request.workload}.", "Its size is fixed in its own code.",
            "Sweep a figure of the device, such as memory_bandwidth.",
        )  # fmt: skip
    if field not in (*OPTION_SWEEPS, "devices"):
        for value in values:
            clusters[0].device.replace(**_override(field, value))
    if field == "devices":
        for value in values:
            parse_target(f"{int(value)}x{clusters[0].device.id}")
    return _Sweep(field, values)


def _check_options(options: WorkloadOptions) -> None:
    """Refuse names that no model takes; what one model takes is checked when it is built."""
    for kind, value, allowed in (
        ("task", options.task, TASKS), ("attention", options.attention, ATTENTIONS),
        ("optimizer", options.optimizer, OPTIMIZERS),
        ("compile mode", options.compile, COMPILE_MODES),
    ):  # fmt: skip
        if value is not None:
            choose(kind, value, allowed, "gpuscope")
    if options.dtype is not None:
        canonical_dtype(options.dtype)
    for name in ("batch", "seq", "image", "context", "layers"):
        positive(name, getattr(options, name))


# -- predicting -----------------------------------------------------------------------------------


def _predicted(request: Request, clusters: Sequence[Cluster], say: Any, lang: str) -> Result:
    say(tr("Capturing {workload} …", lang, workload=request.workload))
    program = api.capture(request.workload, options=request.options, strict=request.strict)
    runs = []
    for number, cluster in enumerate(clusters, start=1):
        say(tr("Predicting on {device} ({number} of {total}) …", lang, device=cluster.device.name,
               number=number, total=len(clusters)))  # fmt: skip
        runs.append(api.predict(program, cluster, strict=request.strict))
    return Result(tuple(runs))


def _swept(request: Request, cluster: Cluster, sweep: _Sweep, say: Any, lang: str) -> Result:
    runs = []
    program = None
    if sweep.field not in OPTION_SWEEPS:
        say(tr("Capturing {workload} …", lang, workload=request.workload))
        program = api.capture(request.workload, options=request.options, strict=request.strict)
    for number, value in enumerate(sweep.values, start=1):
        say(tr("Point {number} of {total} …", lang, number=number, total=len(sweep.values)))
        if program is None:
            size: dict[str, Any] = {sweep.field: int(value)}
            options = replace(request.options, **size)
            run = api.predict(request.workload, cluster, options=options, strict=request.strict)
        elif sweep.field == "devices":
            many = parse_target(f"{int(value)}x{cluster.device.id}").with_device(cluster.device)
            run = api.predict(program, many, strict=request.strict)
        else:
            changed = cluster.with_device(cluster.device.replace(**_override(sweep.field, value)))
            run = api.predict(program, changed, strict=request.strict)
        runs.append(run)
    worth = _worth(program, cluster, request, say, lang) if program is not None else ()
    return Result(tuple(runs), sweep.field, sweep.values, worth)


def _worth(
    program: Any, cluster: Cluster, request: Request, say: Any, lang: str
) -> tuple[Worth, ...]:
    """Raise and lower each resource of the device by a tenth."""
    from gpuscope.views.sweep import Worth, elasticity

    found = []
    for resource, change in _resources(cluster).items():
        say(tr("What more {resource} brings …", lang, resource=tr(resource, lang)))
        ends = []
        for factor in (1 / _NUDGE, _NUDGE):
            device = cluster.device.replace(**{k: v * factor for k, v in change.items()})
            run = api.predict(program, cluster.with_device(device), strict=request.strict)
            ends.append((factor, run.step_time_s))
        found.append(Worth(resource, elasticity(*ends)))
    return tuple(found)


def _resources(cluster: Cluster) -> Mapping[str, Mapping[str, float]]:
    """What a better device could have more of: fields with the values they have now."""
    device = cluster.device
    resources: dict[str, Mapping[str, float]] = {
        "memory bandwidth": {"memory_bandwidth_bytes_per_s": device.memory_bandwidth_bytes_per_s},
        # A plain number scales the peaks of all dtypes.
        "arithmetic": {"peak_flops_per_s": 1.0},
    }
    if device.l2_bytes:
        resources["L2 cache"] = {"l2_bytes": device.l2_bytes}
    if device.host_link_bandwidth_bytes_per_s:
        link = device.host_link_bandwidth_bytes_per_s
        resources["host link"] = {"host_link_bandwidth_bytes_per_s": link}
    return resources


def _override(field: str, value: float) -> dict[str, Any]:
    """Keyword arguments of `Device.replace` for a swept field, which may be a dtype's rate."""
    return {field: value} if field in REPLACEABLE else {"peak_flops_per_s": {field: value}}


# -- results --------------------------------------------------------------------------------------


def _document(result: Result) -> dict[str, Any]:
    from gpuscope.views.document import run_document, runs_document, sweep_document

    if result.field:
        return sweep_document(
            result.field, list(zip(result.values, result.runs, strict=True)), result.worth
        )
    return run_document(result.runs[0]) if len(result.runs) == 1 else runs_document(result.runs)


def _write(result: Result, outputs: Outputs) -> None:
    """Write the files asked for; each is there in full or not at all."""
    done = []
    if outputs.output is not None:
        from gpuscope.views.document import write_document

        write_document(_document(result), outputs.output)
        done.append(outputs.output)
    if outputs.report is not None:
        from gpuscope.views.html import write_report

        write_report(result.runs, outputs.report, outputs.lang)
        done.append(outputs.report)
    if outputs.trace is not None:
        done += _write_traces(result, outputs.trace)
    for path in done:
        note(tr("Wrote {path}", outputs.lang, path=path), outputs.quiet)


def _write_traces(result: Result, path: Path) -> list[Path]:
    """One trace a run; several get the device's name before the ending."""
    from gpuscope.timeline.perfetto import write_chrome_trace
    from gpuscope.views.compare import distinct_names

    if len(result.runs) == 1:
        paths = [path]
    else:
        stem, dot, ending = path.name.partition(".")
        paths = [
            path.with_name(f"{stem}-{name.replace(' ', '-')}{dot}{ending}")
            for name in distinct_names(result.runs)
        ]
    for run, each in zip(result.runs, paths, strict=True):
        write_chrome_trace(run.timeline, each, name=run.name)
    return paths


def _show(result: Result, outputs: Outputs) -> None:
    if outputs.as_json:
        if outputs.output is None:
            from gpuscope.views.document import dumps

            typer.echo(dumps(_document(result)))
        return
    from gpuscope.views.terminal import make_console

    console = make_console()
    for part in _story(result, outputs):
        console.print(part)


def _story(result: Result, outputs: Outputs) -> list[Any]:
    from gpuscope.views.compare import side_by_side
    from gpuscope.views.sweep import render_sweep, render_worth
    from gpuscope.views.terminal import render_headline, render_run

    lang = outputs.lang
    if result.field:
        points = list(zip(result.values, result.runs, strict=True))
        worth = [render_worth(result.worth, lang)] if result.worth else []
        return [render_sweep(result.field, points, lang), *worth]
    if len(result.runs) > 1:
        return [side_by_side(result.runs, lang)]
    one = result.runs[0]
    return [render_headline(one, lang) if outputs.quiet else render_run(one, lang)]


def _require_fit(runs: Sequence[Run]) -> None:
    """Refuse runs that need more memory than their device has."""
    for run in runs:
        if run.fits is False:
            from gpuscope.views import units

            story = run.analysis.memory
            capacity = units.size(story.capacity_bytes if story else None)
            raise DoesNotFitError(
                f"{run.name} does not fit {run.target}.",
                f"It needs {units.size(run.peak_memory_bytes)} of {capacity}.",
                "Leave out --must-fit to see what would make it fit.",
            )
