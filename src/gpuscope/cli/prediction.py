"""What `gpuscope predict` does: check everything first, predict, then show and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuscope import api
from gpuscope.cli.progress import progress
from gpuscope.cli.results import Outputs, Result, check_outputs, show_result, write_result
from gpuscope.cli.workload_arguments import names_in
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text, render
from gpuscope.errors import DoesNotFitError, InvalidValueError, UnsupportedError
from gpuscope.hardware import Calibration, Cluster, load_own, parse_overrides, parse_sweep
from gpuscope.hardware.power_limits import check_power_limit
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
    from gpuscope.cli.what_if import Wish
    from gpuscope.sweeping import Sweep
    from gpuscope.views.report.what_if_sizes import Varied
    from gpuscope.views.sweep import Worth

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
        if outputs.report is not None and _has_code(request):
            from gpuscope.cli.answered import answered

            found = answered(
                request.workload,
                result.runs[0],
                places[0].cluster,
                options=request.options,
                calibration=places[0].calibration,
                say=lambda text: say(render(text, outputs.lang)),
            )
            result = replace(result, remedies=found)
    write_result(result, outputs)
    show_result(result, outputs)
    if request.must_fit:
        _require_fit(result.runs)


def _has_code(request: Request) -> bool:
    """Whether the workload is code of the user's own, that advice can write into."""
    return ".py" in request.workload and request.options.parallel is None and not request.sweep


def targets_of(on: str | None, calibration: str | None) -> tuple[str, ...]:
    """The devices to predict on: those named, else the calibration's own, else an H200.

    Raises:
        InputFileError: no such calibration.
    """
    if on is not None:
        return names_in(on)
    return (load_own(calibration).device_id if calibration else "h200",)


# -- checks ---------------------------------------------------------------------------------------


def _checked(request: Request, outputs: Outputs) -> tuple[list[_Place], Sweep | None]:
    """Everything that can be found wrong without torch."""
    check_outputs(outputs)
    if not request.targets:
        raise InvalidValueError(Text("No device is named."), "", Text("Type: --on h200"))
    overrides = parse_overrides(request.settings)
    places = []
    for name in request.targets:
        cluster = api.resolve_target(name)
        for setting in request.settings:
            limits = parse_overrides([setting]).get("tdp_w")
            check_power_limit(cluster.device, setting, () if limits is None else (limits,))
        constants = api.resolve_calibration(name, request.calibration)
        changed = cluster.device.replace(**overrides) if overrides else cluster.device
        places.append(_Place(cluster.with_device(changed) if overrides else cluster, constants))
    swept = _checked_sweep(request, outputs, [place.cluster for place in places])
    check_options(request.options)
    return places, swept


def _checked_sweep(request: Request, outputs: Outputs, clusters: Sequence[Cluster]) -> Sweep | None:
    if request.sweep is None:
        return None
    if len(clusters) > 1:
        raise InvalidValueError(
            Text("A sweep runs on one device."),
            Text("--on names {count}.", count=len(clusters)),
            Text("Name one of them."),
        )
    if outputs.trace is not None or outputs.report is not None:
        raise InvalidValueError(
            Text("A sweep has no trace and no report."),
            Text("They show one run."),
            Text("Leave out --sweep, or save the sweep with --output."),
        )
    from gpuscope.sweeping import checked_sweep

    field, values = parse_sweep(request.sweep)
    check_power_limit(clusters[0].device, request.sweep, values)
    return checked_sweep(request.workload, clusters[0], field, values)


def _checked_wishes(request: Request, outputs: Outputs) -> tuple[Wish, ...]:
    """What to predict with other options; only a report shows it."""
    if not request.what_if:
        return ()
    if outputs.report is None or request.sweep is not None:
        raise InvalidValueError(
            Text("--what-if has nowhere to go."),
            Text("Its curves stand in the report of a run."),
            Text("Add --report FILE.html, or use --sweep for a table.")
            if request.sweep is None
            else Text("Leave out --sweep."),
        )
    from gpuscope.cli.what_if import wishes

    return wishes(request.what_if, request.workload)


def check_options(options: WorkloadOptions) -> None:
    """Refuse names that no model takes; what one model takes is checked when it is built."""
    for kind, value, allowed in (
        ("task", options.task, TASKS),
        ("attention", options.attention, ATTENTIONS),
        ("optimizer", options.optimizer, OPTIMIZERS),
        ("compile mode", options.compile, COMPILE_MODES),
    ):
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
    programs = api.capture_each(
        request.workload,
        clusters,
        request.options,
        request.strict,
        [place.calibration for place in places],
    )
    runs, refused = [], []
    first: UnsupportedError | None = None
    for number, place in enumerate(places, start=1):
        device = place.cluster.device.name
        say(
            tr(
                "Predicting on {device} ({number} of {total}) …",
                lang,
                device=device,
                number=number,
                total=len(places),
            )
        )
        try:
            run = api.predict(
                programs[number - 1],
                place.cluster,
                calibration=place.calibration,
                strict=request.strict,
            )
        except UnsupportedError as error:
            refused.append(api.refused(place.cluster, error))
            first = first or error
            continue
        if run.fits is False and len(places) == 1 and request.try_plans:
            run = _with_fitting(request, place, run, say)
        runs.append(run)
    if first is not None and not runs:
        raise first
    return Result(tuple(runs), refused=tuple(refused))


def _with_fitting(request: Request, place: _Place, run: Run, say: Any) -> Run:
    """A job that does not fit, with the plans that would."""
    from gpuscope.cli.fit_trials import fit_trials, told, trials_on_more

    given = (place.cluster, request.options, place.calibration, say)
    if place.cluster.n_devices == 1:
        return told(run, trials_on_more(request.workload, run, *given))
    return told(run, fit_trials(request.workload, *given))


def _varied(
    request: Request, place: _Place, wished: Sequence[Wish], result: Result, say: Any
) -> tuple[Varied, ...]:
    """The first run's workload with other options, on the same device."""
    from gpuscope.cli.what_if import vary

    def predict(options: WorkloadOptions) -> Run:
        return api.predict(
            request.workload,
            place.cluster,
            options=options,
            calibration=place.calibration,
            strict=request.strict,
        )

    return tuple(
        vary(wish, request.options, request.workload, result.runs[0], predict, say)
        for wish in wished
    )


def _swept(request: Request, place: _Place, sweep: Sweep, say: Any, lang: str) -> Result:
    from gpuscope.sweeping import run_sweep

    def tell(number: int, total: int) -> None:
        if number:
            say(tr("Point {number} of {total} …", lang, number=number, total=total))
        else:
            say(tr("Capturing {workload} …", lang, workload=request.workload))

    given: dict[str, Any] = {"calibration": place.calibration, "strict": request.strict}
    swept = run_sweep(
        request.workload, place.cluster, sweep, options=request.options, on_progress=tell, **given
    )
    worth = _worth(swept.captured, place.cluster, given, say, lang) if swept.captured else ()
    return Result(tuple(run for _, run in swept.points), sweep.field, sweep.values, worth)


def _worth(
    program: Any, cluster: Cluster, given: Mapping[str, Any], say: Any, lang: str
) -> tuple[Worth, ...]:
    """Raise and lower each resource of the device by a tenth."""
    from gpuscope.views.sweep import Worth, elasticity

    found = []
    for resource, change in _resources(cluster).items():
        say(tr("What more {resource} brings …", lang, resource=render(resource, lang)))
        ends = []
        for factor in (1 / _NUDGE, _NUDGE):
            device = cluster.device.replace(**{k: v * factor for k, v in change.items()})
            run = api.predict(program, cluster.with_device(device), **given)
            ends.append((factor, run.step_time_s))
        found.append(Worth(resource, elasticity(*ends)))
    return tuple(found)


def _resources(cluster: Cluster) -> Mapping[Text, Mapping[str, float]]:
    """What a better device could have more of: fields with the values they have now."""
    device = cluster.device
    resources: dict[Text, Mapping[str, float]] = {
        Text("memory bandwidth"): {
            "memory_bandwidth_bytes_per_s": device.memory_bandwidth_bytes_per_s
        },
        # A plain number scales the peaks of all dtypes.
        Text("arithmetic"): {"peak_flops_per_s": 1.0},
    }
    if device.l2_bytes:
        resources[Text("L2 cache")] = {"l2_bytes": device.l2_bytes}
    if device.host_link_bandwidth_bytes_per_s:
        link = device.host_link_bandwidth_bytes_per_s
        resources[Text("host link")] = {"host_link_bandwidth_bytes_per_s": link}
    return resources


def _require_fit(runs: Sequence[Run]) -> None:
    """Refuse runs that need more memory than their device has."""
    for run in runs:
        if run.fits is False:
            story = run.analysis.memory
            capacity = Bytes(story.capacity_bytes if story else None)
            raise DoesNotFitError(
                Text("{run} does not fit {target}.", run=run.name, target=run.target),
                Text(
                    "It needs {peak_memory} of {capacity}.",
                    peak_memory=Bytes(run.peak_memory_bytes),
                    capacity=capacity,
                ),
                Text("Leave out --must-fit to see what would make it fit."),
            )
