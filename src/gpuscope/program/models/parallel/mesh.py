"""The mesh of ranks, and which of its dimensions each kind of parallelism uses."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from gpuscope.program.models.parallel.options import Parallelism


@dataclass(frozen=True, slots=True)
class Meshes:
    """The ranks by what they share.

    Attributes:
        world: all ranks; dimensions "pp", "replicate", "dp", "cp", "tp", those of one rank left
            out, "dp" always there.
        data: ranks that hold other tokens of the same layers (dp and cp): what FSDP shards over;
            two dimensions where it is hybrid.
        tp, cp, pp, ep: that dimension; None where it has one rank.
        experts: ranks that hold the same experts: what FSDP shards experts over; None without ep.
    """

    world: DeviceMesh
    data: DeviceMesh
    tp: DeviceMesh | None
    cp: DeviceMesh | None
    pp: DeviceMesh | None
    ep: DeviceMesh | None
    experts: DeviceMesh | None


def join_job(device: str) -> torch.device:
    """Join the job that `torchrun` started, unless that is done, and choose this rank's device.

    Args:
        device: "cuda" or "cpu".
    """
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    if device != "cuda":
        return torch.device(device)
    local = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def make_meshes(plan: Parallelism, device: str) -> Meshes:
    """The meshes of a plan; every rank of the job calls it.

    Args:
        plan: checked, for the job's number of ranks.
        device: "cuda" or "cpu".
    """
    replicas = plan.dp // plan.shard if plan.fsdp == "hybrid" else 1
    sizes = {
        "pp": plan.pp,
        "replicate": replicas,
        "dp": plan.dp // replicas,
        "cp": plan.cp,
        "tp": plan.tp,
    }
    kept = {name: size for name, size in sizes.items() if size > 1 or name == "dp"}
    world = init_device_mesh(device, tuple(kept.values()), mesh_dim_names=tuple(kept))

    def part(name: str) -> DeviceMesh | None:
        return world[name] if name in kept else None

    data = world["dp"]
    if "cp" in kept:
        data = world["dp", "cp"]._flatten("dp_cp")
    if "replicate" in kept:
        data = world["replicate", data.mesh_dim_names[0]] if data.mesh_dim_names else data
    spread = plan.world_size // plan.pp // plan.ep
    experts = ep = None
    if plan.ep > 1:
        shape = {"stage": plan.pp, "edp": spread, "ep": plan.ep}
        if plan.pp == 1:
            del shape["stage"]
        by_expert = init_device_mesh(device, tuple(shape.values()), mesh_dim_names=tuple(shape))
        experts, ep = by_expert["edp"], by_expert["ep"]
    return Meshes(world, data, part("tp"), part("cp"), part("pp"), ep, experts)
