"""What `gpuscope advise` does: check what was typed, predict, put the explanation together."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope import api
from gpuscope.document.quantities import Number, Seconds
from gpuscope.document.text import Text, plural, verbatim
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.models.settings import WorkloadOptions

if TYPE_CHECKING:
    from gpuscope.advice.results import Advice, Forecast
    from gpuscope.document.blocks import Explanation, Section

__all__ = ["Advised", "Request", "advice_for", "list_changes"]

_OBJECTIVES = ("time", "memory", "energy", "cost")


@dataclass(frozen=True, slots=True)
class Request:
    """What was typed."""

    target: str
    on: str | None
    options: WorkloadOptions
    objective: str = "time"
    allow: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    batch_advice: bool = False
    calibration: str | None = None
    save: str | None = None
    lengths: str | None = None


@dataclass(frozen=True, slots=True)
class Advised:
    """What came out.

    Attributes:
        explanation: of the advice.
        advice: with the run that it is about; None where there is nothing to draw beside it.
    """

    explanation: Explanation
    advice: Advice | None = None

    def write(self, path: Path, lang: str) -> None:
        """Write it as a page, with the step as it is and as it would be.

        Raises:
            InputFileError: the file cannot be written.
        """
        from gpuscope.views.html import write_explanation, write_report

        if self.advice is None:
            write_explanation(self.explanation, path, lang)
            return
        from gpuscope.advice.forecast.answers import remedies_of

        write_report(
            self.advice.case.run,
            path,
            lang,
            what_if=False,
            remedies=remedies_of(self.advice),
            advice=self.explanation,
        )


def advice_for(request: Request, quiet: bool, lang: str | None) -> Advised:
    """The advice, explained.

    Raises:
        GpuscopeError: what was typed is wrong, found before anything heavy; or the workload as it
            stands cannot be captured.
    """
    _check(request)
    from gpuscope.cli.progress import showing
    from gpuscope.document.text import render
    from gpuscope.views.i18n import choose_language

    module = request.options.module
    recorded = not module and _is_recording(request.target)
    if module:
        from gpuscope.program.workload import resolve

        resolve(request.target, request.options)  # says whether there is one
    elif recorded:
        _check_recording(request)
    else:
        from gpuscope.program.workload import check_name

        check_name(request.target)
    spoken = choose_language(lang)
    with showing(quiet) as shown:

        def say(text: str) -> None:
            shown.say(render(text, spoken))

        def found(forecast: Forecast) -> None:
            shown.keep(render(_line(forecast), spoken))

        if recorded:
            return Advised(_of_recording(request, say))
        if request.options.parallel is not None:
            return Advised(_of_plan(request, say))
        return _of_workload(request, say, found)


def _line(forecast: Forecast) -> Text:
    """A forecast as a line that is read before all are known."""
    if not forecast.names:
        return Text("As it is: {step}", step=Seconds(forecast.step_time_s or 0.0))
    name = ", ".join(forecast.names)
    if forecast.speedup is None:
        return Text("{name}: {why}", name=name, why=forecast.why)
    return Text(
        "{name}: {gain} times as fast. {why}",
        name=name,
        gain=Number(forecast.speedup, ".2f"),
        why=forecast.why,
    )


def _of_plan(request: Request, say: Any) -> Explanation:
    """A ready-made parallel job has no code to change, but a split."""
    from gpuscope.advice.forecast.plan_advice import advise_plan, explained_plan

    cluster = api.resolve_target(request.on or "h200")
    if cluster.n_devices == 1:
        raise InvalidValueError(
            Text("One device has nothing to split."),
            Text("Options such as --tp are for several."),
            Text("Type for example: --on 8xh200"),
        )
    found = advise_plan(
        request.target,
        request.on or "h200",
        request.options,
        calibration=request.calibration,
        say=say,
    )
    return explained_plan(found)


def list_changes() -> Explanation:
    """All changes, by group."""
    from gpuscope.advice.forecast.explanation import NUMERICS
    from gpuscope.advice.registry import changes
    from gpuscope.document.blocks import Column, Explanation, Section, Table

    by_group: dict[tuple[str, str], list[Any]] = {}
    for change in changes():
        by_group.setdefault((change.door, change.group), []).append(change)
    columns = (Column(Text("name")), Column(Text("what it does")), Column(Text("results")))
    sections = tuple(
        Section(
            _headed(door, _GROUPS.get(group) or verbatim(group)),
            (
                Table(
                    plural("{count} change", "{count} changes", len(found)),
                    columns,
                    tuple((c.name, c.title, NUMERICS[c.numerics]) for c in found),
                ),
            ),
        )
        for (door, group), found in sorted(
            by_group.items(), key=lambda item: (item[0][0] != "torch", item[0])
        )
    )
    return Explanation(
        topic="changes",
        title=Text("Changes that gpuscope knows"),
        summary=(Text("Those that fit a workload are predicted by: gpuscope advise WORKLOAD"),),
        sections=sections,
    )


def _headed(door: str, group: Text) -> Text:
    """A group's heading; PyTorch's go without saying so."""
    from gpuscope.advice.doors import CALLED

    if door == "torch":
        return group
    return Text("{programs}: {group}", programs=CALLED[door], group=group)


_GROUPS = {
    "precision": Text("precision"),
    "compilation": Text("compilation"),
    "operators": Text("operators"),
    "input": Text("input"),
    "memory": Text("memory"),
    "distributed": Text("distributed"),
    "inference": Text("inference"),
}


def _check(request: Request) -> None:
    """Everything that can be found wrong without torch."""
    if request.objective not in _OBJECTIVES:
        raise UnknownNameError(Text("objective"), request.objective, _OBJECTIVES)
    from gpuscope.advice.forecast.combinations import check_names
    from gpuscope.cli.prediction import check_options

    check_names(request.allow, request.only, request.without)
    check_options(request.options)
    if request.lengths is not None and request.options.parallel is not None:
        raise InvalidValueError(
            Text("A plan takes no --lengths."),
            Text("Its sequences are of one length."),
            Text("Leave out --lengths, or the options of the plan."),
        )
    if request.save is not None:
        from gpuscope.atomic import check_writable

        check_writable(Path(request.save))
    if request.on is not None:
        api.resolve_target(request.on)


def _is_recording(target: str) -> bool:
    """Whether the target is a file or folder to load, not code or a model."""
    path = Path(target.partition("*")[0])
    if ".py" in target:
        return False
    if "*" in target:
        return True
    if path.is_dir():
        return not (path / "config.json").exists()
    if path.name.endswith((".json.gz", ".zst", ".sqlite", ".pickle", ".gz")):
        return True
    return path.suffix == ".json" and path.is_file() and not _is_config(path)


def _is_config(path: Path) -> bool:
    """Whether a JSON file is a model's configuration, by its begin."""
    return b'"model_type"' in path.read_bytes()[:20_000]


def _check_recording(request: Request) -> None:
    said = [
        f.name
        for f in fields(request.options)
        if getattr(request.options, f.name) not in (None, f.default)
    ]
    own = "batch-advice" if request.batch_advice else "save" if request.save else ""
    own = "lengths" if request.lengths else own
    if said or own:
        what = said[0] if said else own
        raise InvalidValueError(
            Text("A recording has no option '{what}'.", what=what),
            Text("It was made; only code can be run otherwise."),
            Text("Leave out --{what}.", what=what),
        )


def _of_recording(request: Request, say: Any) -> Explanation:
    from gpuscope.advice.forecast.from_recording import advise_run
    from gpuscope.advice.forecast.recording_explanation import recorded_advice
    from gpuscope.loading import load

    say(Text("Reading {target} …", target=request.target))
    run = load([request.target], on=request.on)
    advice = advise_run(run, request.on, only=request.only, without=request.without)
    return recorded_advice(advice)


def _of_workload(request: Request, say: Any, found: Any) -> Advised:
    from gpuscope.advice.forecast.advise import advise
    from gpuscope.advice.forecast.explanation import explained
    from gpuscope.advice.forecast.workers import processes_here

    options, on = request.options, request.on or "h200"
    if request.lengths is not None:
        from gpuscope.advice.forecast.buckets import check_longest, with_sequence

        longest = check_longest(request.target, request.lengths, options, on)
        if options.seq is None:
            options = with_sequence(request.target, options, longest)
    advice = advise(
        request.target,
        on,
        options=options,
        calibration=request.calibration,
        objective=request.objective,  # type: ignore[arg-type]
        allow=request.allow,
        only=request.only,
        without=request.without,
        on_progress=say,
        on_forecast=found,
        processes=processes_here(),
        save=request.save,
    )
    explanation = explained(advice, _again())
    changes = advice.best.names if advice.best else ()
    more = _further(replace(request, options=options), changes, say)
    told = replace(explanation, sections=(*explanation.sections, *more))
    return Advised(told, advice)


def _further(request: Request, changes: tuple[str, ...], say: Any) -> list[Section]:
    """What was also asked for, with the best changes made: batches, buckets."""
    on, found = request.on or "h200", []
    given = {"options": request.options, "calibration": request.calibration, "say": say}
    if request.batch_advice:
        from gpuscope.advice.forecast.batch import advise_batch, batch_section

        found.append(batch_section(advise_batch(request.target, on, changes=changes, **given)))
    if request.lengths is not None:
        from gpuscope.advice.forecast.buckets import advise_buckets
        from gpuscope.advice.forecast.buckets_explanation import bucket_section

        padded = advise_buckets(request.target, request.lengths, on, changes=changes, **given)
        found.append(bucket_section(padded))
    return found


def _again() -> str:
    """What was typed after the verb, to be typed after another."""
    import shlex

    typed = sys.argv[1:]
    if typed[:1] != ["advise"]:
        return ""
    own = ("--batch-advice", "--json", "--quiet", "-q")
    with_value = ("--report", "--output", "--figures", "--on", "--save")
    kept: list[str] = []
    skip = False
    for part in typed[1:]:
        if skip:
            skip = False
        elif part in with_value:
            skip = True
        elif part not in own and not part.startswith(tuple(f"{w}=" for w in with_value)):
            kept.append(part)
    return " ".join(map(shlex.quote, kept))
