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
        tp, cp, pp, ep, etp: that dimension; None where it has one rank.
        spread: the ranks that hold all experts together, (ep, etp) or the one of these that has
            more than one rank; None where each holds all.
        experts: ranks that hold the same of the experts: what FSDP shards them over; None where
            each holds all.
    """

    world: DeviceMesh
    data: DeviceMesh
    tp: DeviceMesh | None
    cp: DeviceMesh | None
    pp: DeviceMesh | None
    ep: DeviceMesh | None
    etp: DeviceMesh | None
    spread: DeviceMesh | None
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
    return Meshes(
        world, data, part("tp"), part("cp"), part("pp"), *_of_experts(plan, device)
    )  # fmt: skip


def _of_experts(
    plan: Parallelism, device: str
) -> tuple[DeviceMesh | None, DeviceMesh | None, DeviceMesh | None, DeviceMesh | None]:
    """Ranks that share experts, their matrices, both, and that hold the same of them."""
    names = tuple(name for name in ("ep", "etp") if getattr(plan, name) > 1)
    if not names:
        return None, None, None, None
    shape = {"stage": plan.pp} if plan.pp > 1 else {}
    shape["edp"] = plan.world_size // plan.pp // plan.ep // plan.etp
    shape |= {name: getattr(plan, name) for name in names}
    made = init_device_mesh(device, tuple(shape.values()), mesh_dim_names=tuple(shape))
    ep, etp = (made[name] if name in names else None for name in ("ep", "etp"))
    return ep, etp, made[names if len(names) > 1 else names[0]], made["edp"]
