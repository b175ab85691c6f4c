"""Programs that are no PyTorch code, under changes: a graph with its engine, a JAX step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.doors import JaxChange, OnnxChange
from gpuscope.capturing import capture_job, capture_resolved

if TYPE_CHECKING:
    from gpuscope.advice.change import Change
    from gpuscope.capturing import Workload
    from gpuscope.hardware import Cluster
    from gpuscope.program.jax.arguments import BuildArguments
    from gpuscope.program.onnx.workload import OnnxBuild
    from gpuscope.program.types import Program
    from gpuscope.program.workload import Workload as Resolved
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.program.world import RankPrograms

__all__ = ["graph_captured", "jax_captured"]


def graph_captured(
    found: Resolved, build: OnnxBuild, changes: Iterable[Change], cluster: Cluster
) -> Program | RankPrograms:
    """A graph with these changes, as its engine runs it.

    Args:
        found: the workload as it stands.
        build: its graph.
        changes: in the order in which they are made.
        cluster: what it runs on.
    """
    for change in changes:
        assert isinstance(change, OnnxChange)
        build = change.changed(build)
    changed = replace(
        found, build=build, onnx=build, title=build.title, batch=build.batch, samples=build.batch
    )
    return capture_resolved(changed, cluster)


def jax_captured(
    workload: Workload,
    arguments: BuildArguments,
    options: WorkloadOptions,
    changes: Iterable[Change],
    cluster: Cluster,
) -> Program | RankPrograms:
    """A JAX step whose build function is asked for what these changes say; compiled anew.

    Args:
        workload: as `capture_job` takes it.
        arguments: of its build function.
        options: as asked without the changes.
        changes: in the order in which they are made.
        cluster: what it runs on.
    """
    for change in changes:
        assert isinstance(change, JaxChange)
        options = change.asked(options, arguments)
    return capture_job(workload, cluster, options)
