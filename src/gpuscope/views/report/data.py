"""The data of a report's page: documents of the runs and what the views compute beside them."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuscope.analysis import fold_layers
from gpuscope.analysis.unit_limits import use_by_group
from gpuscope.analysis.use_over_time import use_over_time
from gpuscope.analysis.window import talks
from gpuscope.document.blocks import Block, Code, CodeLine
from gpuscope.document.plain import plain
from gpuscope.outcomes import simulated
from gpuscope.program.types import Program
from gpuscope.run import Refused, Remedy, Run
from gpuscope.run.document import comparison_document, run_document
from gpuscope.run.timeline_document import thin_timeline
from gpuscope.views.explanation import block_document
from gpuscope.views.figures import distinct_names
from gpuscope.views.report.device_facts import device_facts, device_of_run
from gpuscope.views.report.idle_gaps import idle_gaps
from gpuscope.views.report.kernels import kernels_explained
from gpuscope.views.report.memory_blocks import memory_block_columns
from gpuscope.views.report.memory_curve import memory_curve
from gpuscope.views.report.what_if import what_if_blocks
from gpuscope.views.run_figures.account import account, shown_terms
from gpuscope.views.words import printed_words, whose

if TYPE_CHECKING:
    from gpuscope.views.report.what_if_sizes import Varied

MOST = 8
"""Most changes of a run that are drawn: one more adds 20 to 60 kB to a page."""

AROUND = 2
"""Lines of source shown before and after one that is named."""

MAX_EVENTS = 200_000
"""Most timeline events that a page holds for one run."""


def report_data(
    runs: Sequence[Run],
    lang: str,
    *,
    what_if: bool = True,
    varied: Sequence[Varied] = (),
    refused: Sequence[Refused] = (),
    remedies: Sequence[Remedy] | None = None,
) -> dict[str, Any]:
    """Return what the page draws of one run or several.

    Args:
        runs: at least one.
        lang: language of the runs' names.
        what_if: compute what other devices, sizes and rates would give.
        varied: options of the first run's workload that were predicted with other values.
        refused: devices that cannot run it.
        remedies: changes of the first run; None: those that its findings were simulated with.
    """
    share = MAX_EVENTS // len(runs)
    return {
        "names": distinct_names(runs),
        "runs": [_run(run, share, remedies if at == 0 else None) for at, run in enumerate(runs)],
        "refused": [plain(each) for each in refused],
        "comparisons": _comparisons(runs),
        "what_if": [block_document(b) for b in _what_if(runs, varied)] if what_if else [],
    }


def _what_if(runs: Sequence[Run], varied: Sequence[Varied]) -> tuple[Block, ...]:
    blocks = what_if_blocks(runs[0], varied)
    if len(runs) == 1:
        return blocks
    from gpuscope.views.scaling import scaling_blocks

    return (*scaling_blocks(runs), *blocks)


def _comparisons(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The first run against each other one."""
    if len(runs) == 1:
        return []
    from gpuscope.analysis.compare import compare

    return [comparison_document(compare(runs[0], run)) for run in runs[1:]]


def _run(run: Run, max_events: int, remedies: Sequence[Remedy] | None) -> dict[str, Any]:
    told = run.analysis.account
    return {
        **run_document(run, max_events=max_events),
        "texts": {},  # the page has its own strings in every language
        "modules_folded": plain(fold_layers(run.analysis.modules)),
        "device": plain(device_facts(run)),
        "remedies": remedies_document(run, remedies),
        "source_lines": source_lines(run),
        "memory_curve": plain(memory_curve(run)),
        "memory_blocks": plain(memory_block_columns(run)),
        "use_by_group": plain(use_by_group(run.timeline, device_of_run(run))),
        "use": plain(use_over_time(run.timeline, device_of_run(run), work_j=_work_j(run))),
        "idle_gaps": [plain(gaps) for gaps in idle_gaps(run.timeline)],
        "whose": whose(run),
        **_between_ranks(run),
        "printed_block": _printed(run),
        "account_block": block_document(figure) if (figure := account(run)) else None,
        "account_keys": [term.key for term in shown_terms(told)] if told else [],
        "kernels_explained": {
            group: [block_document(block) for block in blocks]
            for group, blocks in kernels_explained(run).items()
        },
    }


def _printed(run: Run) -> dict[str, Any] | None:
    """What a whole script said, on the predicted clock."""
    printed = run.program.printed if run.program is not None else None
    if printed is None:
        return None
    lines = (CodeLine(at, line) for at, line in enumerate(printed.text.split("\n"), start=1))
    title, note = printed_words(printed.device)
    return block_document(Code(title, "text", tuple(lines), note))


def _work_j(run: Run) -> float | None:
    """Energy of a predicted step above rest; None where the curve follows from the kernels."""
    energy = run.analysis.energy if run.origin == "predicted" else None
    if energy is None or energy.total_j is None or energy.idle_j is None:
        return None
    return energy.total_j - energy.idle_j


def _between_ranks(run: Run) -> dict[str, Any]:
    """What ranks do with each other; nothing where none talks."""
    if not talks(run.timeline) and run.analysis.job is None:
        return {"collective_waits": None, "mesh": None, "pipeline": None, "job_blocks": []}
    from gpuscope.views.report.between_ranks import between_ranks

    return between_ranks(run)


# -- beside findings ------------------------------------------------------------------------------


def remedies_document(run: Run, remedies: Sequence[Remedy] | None) -> list[dict[str, Any]]:
    """Return changes of a run as plain values; None: those its findings were simulated with."""
    shown = simulated(run) if remedies is None else remedies
    return [_remedy(each) for each in shown[:MOST]]


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "findings": list(remedy.findings),
        "step_time_s": remedy.step_time_s,
        "change": remedy.change,
        "title": remedy.title,
        "speedup": remedy.speedup,
        "low": remedy.low,
        "high": remedy.high,
        "diff": remedy.diff,
        "numerics": remedy.numerics,
        "price": remedy.price,
        "timeline": thin_timeline(remedy.timeline),
    }


# -- lines of source ------------------------------------------------------------------------------


def source_lines(run: Run) -> dict[str, dict[str, Any]]:
    """Return the source around each line that a finding names ("train.py:12"), by that line.

    Each has `first`, the number of the first of its `lines`.

    Of runs that were predicted here alone: what a recording's lines were, its file may not tell.
    """
    basis = run.basis
    if basis is None:
        return {}
    captured = basis.captured
    programs = (captured,) if isinstance(captured, Program) else captured.programs
    files = {name: path for program in programs for name, path in program.files.items()}
    named = {
        line: None for each in run.analysis.findings if each.about for line in each.about.lines
    }
    linecache.checkcache()
    found = {line: _around(files, line) for line in named}
    return {line: text for line, text in found.items() if text is not None}


def _around(files: dict[str, str], line: str) -> dict[str, Any] | None:
    name, _, number = line.rpartition(":")
    whole, at = linecache.getlines(files[name]) if name in files else [], int(number)
    if at > len(whole):
        return None
    first = max(1, at - AROUND)
    return {"first": first, "lines": [text.rstrip() for text in whole[first - 1 : at + AROUND]]}
