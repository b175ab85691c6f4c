"""A serving run over time: batches, the queue, keys and values; and lives of single requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuscope.document.blocks import Axis, Bar, Bars, Block, Lines, Part, Role, Series
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.serving.metrics import e2e_s
from gpuscope.serving.requests import Floats, Ints
from gpuscope.serving.result import FINISHED, Serving

POINTS = 240
"""Of a curve: a screen shows no more."""


def over_time(run: Serving) -> tuple[Block, ...]:
    """Charts of one run; none where its iterations are not known."""
    rows = run.iterations
    if not len(rows) or not np.isfinite(run.served.finished_s).any():
        return ()
    edges = np.linspace(float(rows.start_s.min()), float(np.nanmax(run.served.finished_s)), POINTS)
    if edges[-1] <= edges[0]:
        return ()
    decoding, prompts = np.zeros(POINTS - 1), np.zeros(POINTS - 1)
    for start, end, mine in _replicas(run, float(edges[-1])):
        decoding += _mean(start, end, rows.decode_sequences[mine].astype(float), edges)
        took = np.maximum(end - start, 1e-12)
        prompts += _mean(start, end, rows.prefill_tokens[mine] / took, edges)
    time = Axis(Text("time"), "s")
    x = tuple(((edges[:-1] + edges[1:]) / 2).tolist())
    charts: list[Block] = [
        _chart(Text("Sequences that decode"), Text("sequences"), time, x, decoding, "memory"),
        _chart(Text("Prompt tokens worked on"), Text("tokens/s"), time, x, prompts, "compute"),
        _chart(
            Text("Requests in the queue"), Text("requests"), time, x, _waiting(run, edges), "idle"
        ),
    ]
    shares = _kv(run, edges)
    if shares is not None:
        axis = Axis(Text("share of the room for keys and values"), "share")
        line = Series(Text("fullest replica"), x, tuple(shares.tolist()), "steps", "memory")
        charts.append(Lines(Text("Keys and values in use"), time, axis, (line,)))
    return tuple(charts)


def _replicas(run: Serving, last_s: float) -> list[tuple[Floats, Floats, Ints]]:
    """Of each: when its rows began and ended, and which they are."""
    rows, found = run.iterations, []
    for each in np.unique(rows.replica):
        mine = np.flatnonzero(rows.replica == each)
        start = rows.start_s[mine]
        end = np.append(start[1:], max(last_s, float(start[-1])))
        # What a row takes ends at the next one's begin, unless the replica rests between them.
        busy = rows.device_s[mine] + rows.host_s[mine]
        found.append((start, np.minimum(end, start + np.maximum(busy, 1e-12)), mine))
    return found


def _mean(start: Floats, end: Floats, value: Floats, edges: Floats) -> Floats:
    """Mean over each interval of a value that holds from `start` to `end`, and is 0 between."""
    total = np.concatenate(([0.0], np.cumsum(value * (end - start))))
    moments = np.column_stack((start, end)).ravel()
    sums = np.column_stack((total[:-1], total[1:])).ravel()
    found: Floats = np.diff(np.interp(edges, moments, sums)) / np.diff(edges)
    return found


def _at(run: Serving, column: Ints, edges: Floats) -> list[Floats]:
    """Value of each replica at the end of each interval."""
    rows, found = run.iterations, []
    for each in np.unique(rows.replica):
        mine = np.flatnonzero(rows.replica == each)
        at = np.searchsorted(rows.start_s[mine], edges[1:], side="right") - 1
        found.append(np.where(at >= 0, column[mine][np.maximum(at, 0)], 0).astype(float))
    return found


def _waiting(run: Serving, edges: Floats) -> Floats:
    found: Floats = np.sum(_at(run, run.iterations.waiting, edges), axis=0)
    return found


def _kv(run: Serving, edges: Floats) -> Floats | None:
    if not run.kv_blocks:
        return None
    first = int(run.settings.get("prefill_replicas", 0))  # have rooms of their own
    used = _at(run, run.iterations.kv_blocks_used, edges)[first:]
    return np.asarray(np.max(used, axis=0) / run.kv_blocks, np.float64) if used else None


def _chart(
    title: Text, unit: Text, time: Axis, x: tuple[float, ...], y: Floats, role: Role
) -> Lines:
    return Lines(title, time, Axis(unit), (Series(unit, x, tuple(y.tolist()), "steps", role),))


def lives(run: Serving, causes: Sequence[tuple[str, Text, Role]]) -> Bars | None:
    """What the time of single requests went to: one in the middle, a slow one, the slowest."""
    done = np.flatnonzero(run.served.status == FINISHED)
    known = [each for each in causes if len(getattr(run.served, each[0]))]
    if not len(done) or not known:
        return None
    order = done[np.argsort(e2e_s(run.served)[done], kind="stable")]
    bars = []
    for label, share in ((Text("median"), 0.5), (Text("P90"), 0.9), (Text("slowest"), 1.0)):
        each = int(order[min(len(order) - 1, int(share * len(order)))])
        parts = tuple(
            Part(name, float(getattr(run.served, column)[each]), role)
            for column, name, role in known
            if getattr(run.served, column)[each] > 0
        )
        if not parts:
            continue
        note = Text(
            "request {number}: {prompt} prompt tokens, {answer} of the answer",
            number=each + 1,
            prompt=Number(int(run.served.input_tokens[each]), ","),
            answer=Number(int(run.served.output_tokens[each]), ","),
        )
        bars.append(Bar(label, parts, note))
    return Bars(Text("Lives of single requests"), "s", tuple(bars)) if bars else None
