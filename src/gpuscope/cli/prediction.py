"""What `gpuscope predict` does: check everything first, predict, then show and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuscope import api
from gpuscope.cli.progress import progress
from gpuscope.cli.results import Outputs, Result, check_outputs, show_result, write_result
from gpuscope.cli.what_if import Wish, vary, wishes
from gpuscope.cli.workload_arguments import names_in
from gpuscope.errors import DoesNotFitError, InvalidValueError
from gpuscope.hardware import (
    Calibration,
    Cluster,
    load_own,
    parse_overrides,
    parse_sweep,
    parse_target,
)
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
from gpuscope.views.i18n import tr

if TYPE_CHECKING:
    from gpuscope.views.report.what_if_sizes import Varied
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
    calibration: str | None = None
    what_if: tuple[str, ...] = ()
    try_plans: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    """What to predict on: a cluster, and constants other than the catalogue's where there are."""

    cluster: Cluster
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class _Sweep:
    """A checked sweep: the field and its values."""

    field: str
    values: tuple[float, ...]


def run_request(request: Request, outputs: Outputs) -> None:
    """Predict, print, write.

    Raises:
        GpuscopeError: wrong input, found before anything heavy is done; a workload that cannot be
            captured; a result that does not fit, under `must_fit`.
    """
    places, swept = _checked(request, outputs)
    wished = _checked_wishes(request, outputs)
    # The headline alone does not show what would fit.
    whole = not outputs.quiet or outputs.as_json or bool(outputs.output or outputs.report)
    request = replace(request, try_plans=whole)
    with progress(outputs.quiet) as say:
        result = (
            _swept(request, places[0], swept, say, outputs.lang)
            if swept
            else _predicted(request, places, say, outputs.lang)
        )
        if wished:
            result = replace(result, varied=_varied(request, places[0], wished, result, say))
    write_result(result, outputs)
    show_result(result, outputs)
    if request.must_fit:
        _require_fit(result.runs)


def targets_of(on: str | None, calibration: str | None) -> tuple[str, ...]:
    """The devices to predict on: those named, else the calibration's own, else an H200.

    Raises:
        InputFileError: no such calibration.
    """
    if on is not None:
        return names_in(on)
    return (load_own(calibration).device_id if calibration else "h200",)


# -- checks ---------------------------------------------------------------------------------------


def _checked(request: Request, outputs: Outputs) -> tuple[list[_Place], _Sweep | None]:
    """Everything that can be found wrong without torch."""
    check_outputs(outputs)
    if not request.targets:
        raise InvalidValueError("No device is named.", "", "Type: --on h200")
    overrides = parse_overrides(request.settings)
    places = []
    for name in request.targets:
        cluster = api.resolve_target(name)
        constants = api.resolve_calibration(name, request.calibration)
        changed = cluster.device.replace(**overrides) if overrides else cluster.device
        places.append(_Place(cluster.with_device(changed) if overrides else cluster, constants))
    swept = _checked_sweep(request, outputs, [place.cluster for place in places])
    check_options(request.options)
    return places, swept


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


def _checked_wishes(request: Request, outputs: Outputs) -> tuple[Wish, ...]:
    """What to predict with other options; only a report shows it."""
    if not request.what_if:
        return ()
    if outputs.report is None or request.sweep is not None:
        raise InvalidValueError(
            "--what-if has nowhere to go.", "Its curves stand in the report of a run.",
            "Add --report FILE.html, or use --sweep for a table."
            if request.sweep is None else "Leave out --sweep.",
        )  # fmt: skip
    return wishes(request.what_if, request.workload)


def check_options(options: WorkloadOptions) -> None:
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


def _predicted(request: Request, places: Sequence[_Place], say: Any, lang: str) -> Result:
    say(tr("Capturing {workload} …", lang, workload=request.workload))
    clusters = [place.cluster for place in places]
    programs = api.capture_each(request.workload, clusters, request.options, request.strict)
    runs = []
    for number, place in enumerate(places, start=1):
        device = place.cluster.device.name
        say(tr("Predicting on {device} ({number} of {total}) …", lang, device=device,
               number=number, total=len(places)))  # fmt: skip
        run = api.predict(
            programs[number - 1], place.cluster, calibration=place.calibration,
            strict=request.strict,
        )  # fmt: skip
        if run.fits is False and len(places) == 1 and request.try_plans:
            run = _with_fitting(request, place, run, say)
        runs.append(run)
    return Result(tuple(runs))


def _with_fitting(request: Request, place: _Place, run: Run, say: Any) -> Run:
    """A job that does not fit, with the plans that would."""
    from gpuscope.cli.fit_trials import fit_trials, told

    trials = fit_trials(
        request.workload, place.cluster, request.options, place.calibration, say
    )
    return told(run, trials)


def _varied(
    request: Request, place: _Place, wished: Sequence[Wish], result: Result, say: Any
) -> tuple[Varied, ...]:
    """The first run's workload with other options, on the same device."""

    def predict(options: WorkloadOptions) -> Run:
        return api.predict(
            request.workload, place.cluster, options=options, calibration=place.calibration,
            strict=request.strict,
        )  # fmt: skip

    return tuple(
        vary(wish, request.options, request.workload, result.runs[0], predict, say)
        for wish in wished
    )


def _swept(request: Request, place: _Place, sweep: _Sweep, say: Any, lang: str) -> Result:
    runs = []
    cluster = place.cluster
    given: dict[str, Any] = {"calibration": place.calibration, "strict": request.strict}
    places = _clusters_of(sweep, cluster)
    programs = None
    if places:
        say(tr("Capturing {workload} …", lang, workload=request.workload))
        programs = api.capture_each(request.workload, places, request.options, request.strict)
    for number, value in enumerate(sweep.values, start=1):
        say(tr("Point {number} of {total} …", lang, number=number, total=len(sweep.values)))
        if programs is None:
            size: dict[str, Any] = {sweep.field: int(value)}
            options = replace(request.options, **size)
            run = api.predict(request.workload, cluster, options=options, **given)
        else:
            run = api.predict(programs[number - 1], places[number - 1], **given)
        runs.append(run)
    one = programs is not None and all(program is programs[0] for program in programs)
    worth = _worth(programs[0], cluster, given, say, lang) if programs and one else ()
    return Result(tuple(runs), sweep.field, sweep.values, worth)


def _clusters_of(sweep: _Sweep, cluster: Cluster) -> list[Cluster]:
    """Where each point runs; () where a point is another workload on the same cluster."""
    if sweep.field in OPTION_SWEEPS:
        return []
    if sweep.field == "devices":
        names = [f"{int(value)}x{cluster.device.id}" for value in sweep.values]
        return [parse_target(name).with_device(cluster.device) for name in names]
    return [
        cluster.with_device(cluster.device.replace(**_override(sweep.field, value)))
        for value in sweep.values
    ]


def _worth(
    program: Any, cluster: Cluster, given: Mapping[str, Any], say: Any, lang: str
) -> tuple[Worth, ...]:
    """Raise and lower each resource of the device by a tenth."""
    from gpuscope.views.sweep import Worth, elasticity

    found = []
    for resource, change in _resources(cluster).items():
        say(tr("What more {resource} brings …", lang, resource=tr(resource, lang)))
        ends = []
        for factor in (1 / _NUDGE, _NUDGE):
            device = cluster.device.replace(**{k: v * factor for k, v in change.items()})
            run = api.predict(program, cluster.with_device(device), **given)
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
