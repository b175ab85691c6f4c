"""FSDP2 sharded within a node and replicated between nodes (hybrid sharding, HSDP).

A mesh of two dimensions given to `fully_shard` (PyTorch documentation): parameters are gathered
over the links inside of a node; only gradients cross the fabric. Each node holds all states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.advice.wrappers import needs_ranks
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["FSDPHybrid"]


class FSDPHybrid(Change):
    """Shard over a node's devices, replicate over nodes."""

    name = "fsdp-hybrid"
    title = Words("FSDP sharded within a node", "FSDP 只在节点内切分（HSDP）")
    group = "distributed"
    numerics = "reordered"
    needs_gpu = False

    def fits(self, case: Case) -> Fit:
        """It needs FSDP2 over several whole nodes."""
        refused = needs_ranks(case, "fully_shard")
        if refused is not None:
            return refused
        if case.cluster.n_devices <= case.cluster.devices_per_node:
            why = Words("All devices are in one node.", "所有卡在同一节点。")
            return Fit(False, why, relevant=False)
        if case.program is not None and len(case.program.mesh) > 1:
            why = Words("The job has a mesh of several dimensions.", "作业已使用多维网格。")
            return Fit(False, why)
        return Fit(True, Words("Parameters are gathered across nodes.", "参数跨节点收集。"))

    def install(self, live: Live) -> None:
        """Give each call a mesh of nodes and their devices."""
        meshes: list[Any] = []

        def edit(kind: str, keywords: dict[str, Any]) -> None:
            if kind != "fully_shard":
                return
            told = keywords.get("mesh")
            if told is not None and told.ndim > 1:
                raise UnsupportedError(
                    "This code shards over a mesh of its own.",
                    f"Its dimensions are {told.mesh_dim_names}.", "Leave out fsdp-hybrid.",
                )  # fmt: skip
            if not meshes:
                meshes.append(_mesh())
            keywords["mesh"] = meshes[0]

        live.on_wrap(edit)

    def price(self, case: Case) -> Words:
        """All states on each node."""
        nodes = -(-case.cluster.n_devices // case.cluster.devices_per_node)
        return Words(
            f"{nodes} times the memory for parameters, gradients and optimizer states.",
            f"参数、梯度与优化器状态的显存变为 {nodes} 倍。",
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
            f"{world} ranks are not several whole nodes of {local}.", "",
            "Leave out fsdp-hybrid.",
        )  # fmt: skip
    return init_device_mesh("cuda", (world // local, local), mesh_dim_names=("replicate", "shard"))


register(FSDPHybrid())
