"""What a report's page draws of ranks that talk: waits, mesh, pipeline, the job's figures."""

from __future__ import annotations

from typing import Any

from gpuscope.analysis.mesh import mesh
from gpuscope.analysis.pipeline import pipeline
from gpuscope.document.plain import plain
from gpuscope.document.translations import spoken
from gpuscope.run import Run
from gpuscope.views.explanation import block_document
from gpuscope.views.report.collective_waits import collective_waits
from gpuscope.views.report.job_blocks import job_blocks


def between_ranks(run: Run) -> dict[str, Any]:
    """Return these parts of the page's data by their names; None where one does not apply."""
    return {
        "collective_waits": plain(collective_waits(run.timeline)),
        "mesh": plain(mesh(run.timeline, run.analysis.ranks, _compute_s(run), _node(run))),
        "pipeline": spoken(plain(pipeline(run.timeline))),
        "job_blocks": [block_document(block) for block in job_blocks(run)],
    }


def _compute_s(run: Run) -> dict[int, float]:
    return {rank: time.compute_s for rank, time in run.analysis.time.items()}


def _node(run: Run) -> int:
    """Devices of a node of a predicted job; 0 where nothing says."""
    return run.place.devices_per_node if run.place is not None else 0
