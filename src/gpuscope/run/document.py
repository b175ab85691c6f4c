"""A run as plain data: the stable, versioned JSON document (docs/json.md describes it).

All figures are in SI base units with the unit in their name; a reading that is missing is null.
`gpuscope.run.reader` turns a document back into a `Run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from gpuscope import __version__
from gpuscope.document.plain import Json, plain
from gpuscope.document.saved_text import texts_of
from gpuscope.program.types import Program
from gpuscope.run.figures import figures
from gpuscope.run.timeline_document import MAX_EVENTS, kept_events, timeline_document
from gpuscope.run.types import SCHEMA_VERSION, Run
from gpuscope.timeline.types import Ints

if TYPE_CHECKING:
    from gpuscope.analysis.compare import Comparison


def run_document(run: Run, *, timeline: bool = True, max_events: int = MAX_EVENTS) -> Json:
    """Return a run as plain values that `json.dumps` takes.

    Sentences stand in English; `texts` holds how each was made.

    Args:
        run: predicted or measured.
        timeline: False leaves the timeline out (null).
        max_events: most events to store.
    """
    analysis = plain(run.analysis)
    if timeline and len(run.timeline.events) > max_events:
        _renumber(analysis["findings"], kept_events(run.timeline.events.duration_ns, max_events))
    return _with_texts(
        {
            "schema": "gpuscope.run",
            "version": SCHEMA_VERSION,
            "gpuscope_version": __version__,
            **_run_fields(run),
            "figures": plain(figures(run)),
            "program": _program(run.program),
            "analysis": analysis,
            "timeline": timeline_document(run.timeline, max_events) if timeline else None,
        }
    )


def _renumber(findings: list[Json], keep: Ints) -> None:
    """Name the events of findings by their rows among those that are kept."""
    row = {old: new for new, old in enumerate(keep.tolist())}
    for each in findings:
        if each["about"] is not None:
            each["about"]["events"] = [row[e] for e in each["about"]["events"] if e in row]


def _with_texts(document: Json) -> Json:
    return {**document, "texts": texts_of(document)}


def runs_document(runs: Sequence[Run], refused: Sequence[object] = ()) -> Json:
    """Return several runs (one workload on several devices) as one document.

    Args:
        runs: what was predicted.
        refused: devices that cannot run it (dataclasses).
    """
    return {
        "schema": "gpuscope.runs",
        "version": SCHEMA_VERSION,
        "gpuscope_version": __version__,
        "runs": [run_document(run) for run in runs],
        "refused": plain(refused),
    }


def sweep_document(
    field: str, points: Sequence[tuple[float, Run]], worth: Sequence[object] = ()
) -> Json:
    """Return a sweep: the value of the field and the run, without its timeline, at each point.

    Args:
        field: what was varied.
        points: value and run.
        worth: what more of each resource of the device brings (dataclasses).
    """
    return {
        "schema": "gpuscope.sweep",
        "version": SCHEMA_VERSION,
        "gpuscope_version": __version__,
        "field": field,
        "points": [
            {"value": value, "run": run_document(run, timeline=False)} for value, run in points
        ],
        "worth": plain(worth),
    }


def comparison_document(comparison: Comparison) -> Json:
    """Return where two runs differ."""
    return _with_texts(
        {
            "schema": "gpuscope.comparison",
            "version": SCHEMA_VERSION,
            "gpuscope_version": __version__,
            **plain(comparison),
        }
    )


NOT_FIELDS = ("timeline", "analysis", "program", "basis", "memory_blocks")
"""Fields of a run that are written apart, or (`basis`, `memory_blocks`) not at all."""


def _run_fields(run: Run) -> Json:
    own = [f.name for f in fields(run) if f.name not in NOT_FIELDS]
    return {name: plain(getattr(run, name)) for name in own}


def _program(program: Program | None) -> Json | None:
    if program is None:
        return None
    return {
        "name": program.name,
        "task": program.task,
        "dtype": program.dtype,
        "compiled": program.compiled,
        "parameters": program.parameters,
        "operators": len(program.ops),
        "samples": program.samples,
        "tokens": program.tokens,
        "settings": plain(program.settings),
        "unsupported": list(program.unsupported),
        "first_step_extra_bytes": program.first_step_extra_bytes,
        "capture_s": program.capture_s,
        **({} if program.printed is None else {"printed": plain(program.printed)}),
    }
