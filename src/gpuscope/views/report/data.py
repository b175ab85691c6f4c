"""The data of a report's page: documents of the runs and what the views compute beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuscope.analysis import fold_layers
from gpuscope.analysis.compare import compare
from gpuscope.analysis.mesh import mesh
from gpuscope.analysis.pipeline import pipeline
from gpuscope.analysis.use_over_time import use_over_time
from gpuscope.explain.types import Block
from gpuscope.run import Run
from gpuscope.views.compare import distinct_names
from gpuscope.views.document import comparison_document, plain, run_document
from gpuscope.views.explanation import block_document
from gpuscope.views.report.collective_waits import collective_waits
from gpuscope.views.report.device_facts import device_facts, device_of_run
from gpuscope.views.report.idle_gaps import idle_gaps
from gpuscope.views.report.job_blocks import job_blocks
from gpuscope.views.report.kernels import kernels_explained
from gpuscope.views.report.memory_curve import memory_curve
from gpuscope.views.report.what_if import what_if_blocks
from gpuscope.views.report.what_if_sizes import Varied
from gpuscope.views.scaling import scaling_blocks
from gpuscope.views.sentences import sentence

MAX_EVENTS = 200_000
"""Most timeline events that a page holds for one run."""


def report_data(
    runs: Sequence[Run], lang: str, *, what_if: bool = True, varied: Sequence[Varied] = ()
) -> dict[str, Any]:
    """Return what the page draws of one run or several.

    Args:
        runs: at least one.
        lang: language of the runs' names.
        what_if: compute what other devices, sizes and rates would give.
        varied: options of the first run's workload that were predicted with other values.
    """
    share = MAX_EVENTS // len(runs)
    return {
        "names": distinct_names(runs, lang),
        "runs": [_run(run, share) for run in runs],
        "comparisons": [comparison_document(compare(runs[0], run)) for run in runs[1:]],
        "what_if": [block_document(b) for b in _what_if(runs, varied)] if what_if else [],
    }


def _what_if(runs: Sequence[Run], varied: Sequence[Varied]) -> tuple[Block, ...]:
    return (*scaling_blocks(runs), *what_if_blocks(runs[0], varied))


def _run(run: Run, max_events: int) -> dict[str, Any]:
    return {
        **run_document(run, max_events=max_events),
        "modules_folded": plain(fold_layers(run.analysis.modules)),
        "sentences_zh": _sentences_zh(run),
        "device": plain(device_facts(run)),
        "memory_curve": plain(memory_curve(run)),
        "use": plain(use_over_time(run.timeline, device_of_run(run))),
        "collective_waits": plain(collective_waits(run.timeline)),
        "idle_gaps": [plain(gaps) for gaps in idle_gaps(run.timeline)],
        "mesh": plain(mesh(run.timeline, run.analysis.ranks, _compute_s(run), _node(run))),
        "pipeline": plain(pipeline(run.timeline)),
        "job_blocks": [block_document(block) for block in job_blocks(run)],
        "kernels_explained": {
            group: [block_document(block) for block in blocks]
            for group, blocks in kernels_explained(run).items()
        },
    }


def _compute_s(run: Run) -> dict[int, float]:
    return {rank: time.compute_s for rank, time in run.analysis.time.items()}


def _node(run: Run) -> int:
    """Devices of a node of a predicted job; 0 where nothing says."""
    return run.place.devices_per_node if run.place is not None else 0


def _sentences_zh(run: Run) -> dict[str, str]:
    """Finished sentences of a run in Chinese, by the English one: the reader can switch."""
    energy, used = run.analysis.energy, run.analysis.utilisation
    told = [*run.assumptions]
    told += [energy.source] if energy is not None else []
    told += [used.definition] if used is not None else []
    chinese = {text: sentence(text, "zh") for text in told}
    return {text: said for text, said in chinese.items() if said != text}
