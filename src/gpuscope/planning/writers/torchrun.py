"""The line that starts one process a device: `torchrun`."""

from __future__ import annotations

from gpuscope.hardware import Cluster
from gpuscope.planning.types import Plan
from gpuscope.planning.writers.registry import writer


@writer("torchrun")
def torchrun(plan: Plan) -> str:
    """One line; the script is the user's own, and has to split the model as the plan says."""
    return launched(plan.best.candidate.cluster, "train.py")


def launched(cluster: Cluster, file: str) -> str:
    """The line that starts a file on every device of a cluster."""
    nodes = f"--nnodes {cluster.nodes}" if cluster.nodes > 1 else "--standalone"
    meet = " --rdzv-backend c10d --rdzv-endpoint HOST:29500" if cluster.nodes > 1 else ""
    return f"torchrun {nodes} --nproc-per-node {cluster.devices_per_node}{meet} {file}"
