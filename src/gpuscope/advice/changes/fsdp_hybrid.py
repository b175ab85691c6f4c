"""FSDP2 sharded within a node and replicated between nodes (hybrid sharding, HSDP).

A mesh of two dimensions given to `fully_shard` (PyTorch documentation): parameters are gathered
over the links inside of a node; only gradients cross the fabric. Each node holds all states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.wrappers import needs_ranks
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["FSDPHybrid"]


class FSDPHybrid(Change):
    """Shard over a node's devices, replicate over nodes."""

    name = "fsdp-hybrid"
    title = Text("FSDP sharded within a node")
    group = "distributed"
    numerics = "reordered"
    needs_gpu = False

    def fits(self, case: ChangeCase) -> Fit:
        """It needs FSDP2 over several whole nodes."""
        refused = needs_ranks(case, "fully_shard")
        if refused is not None:
            return refused
        if case.cluster.n_devices <= case.cluster.devices_per_node:
            why = Text("All devices are in one node.")
            return Fit(False, why, relevant=False)
        if case.program is not None and len(case.program.mesh) > 1:
            why = Text("The job has a mesh of several dimensions.")
            return Fit(False, why)
        return Fit(True, Text("Parameters are gathered across nodes."))

    def install(self, live: Live) -> None:
        """Give each call a mesh of nodes and their devices."""
        meshes: list[Any] = []

        def edit(kind: str, keywords: dict[str, Any]) -> None:
            if kind != "fully_shard":
                return
            given = keywords.get("mesh")
            if given is not None and given.ndim > 1:
                raise UnsupportedError(
                    Text("This code shards over a mesh of its own."),
                    Text(
                        "Its dimensions are {mesh_dim_names}.", mesh_dim_names=given.mesh_dim_names
                    ),
                    Text("Leave out fsdp-hybrid."),
                )
            if not meshes:
                meshes.append(_mesh())
            keywords["mesh"] = meshes[0]

        live.on_wrap(edit)

    def price(self, case: ChangeCase) -> Text:
        """All states on each node."""
        nodes = -(-case.cluster.n_devices // case.cluster.devices_per_node)
        return Text(
            "{nodes} times the memory for parameters, gradients and optimizer states.", nodes=nodes
        )


def _mesh() -> Any:
    """(nodes, devices of a node) as torchrun says it."""
    import os

    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    world = dist.get_world_size()
    local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    if world % local or world == local:
        raise UnsupportedError(
            Text("{world} ranks are not several whole nodes of {local}.", world=world, local=local),
            "",
            Text("Leave out fsdp-hybrid."),
        )
    return init_device_mesh("cuda", (world // local, local), mesh_dim_names=("replicate", "shard"))


register(FSDPHybrid())
