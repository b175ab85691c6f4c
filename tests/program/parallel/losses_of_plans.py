"""Losses of three steps under several plans, on Gloo; a program of its own, one a rank.

Usage: losses_of_plans.py RANK RANKS STORE PLANS: prints rank 0's losses as JSON. PLANS is a JSON
list of [kind of decoder, fields of `Parallelism`, fields of `Software`].
"""

from __future__ import annotations

import json
import sys
import warnings

import tiny_decoders
import torch
import torch.distributed as dist

from gpuscope.program.models.parallel import build
from gpuscope.program.models.parallel.options import Job, Parallelism, Software

TOKENS, BATCH = 16, 4


def losses(kind: str, plan: Parallelism, software: Software) -> list[float]:
    """The mean loss of the whole batch in three steps of gradient descent."""
    torch.manual_seed(1)
    whole = torch.randint(0, 64, (2, BATCH, TOKENS))
    replica = dist.get_rank() // (plan.tp * plan.cp)
    each = plan.microbatch
    mine = whole[:, replica * each * plan.microbatches :][:, : each * plan.microbatches]
    job = Job(
        size=tiny_decoders.KINDS[kind],
        plan=plan,
        software=software,
        tokens=TOKENS,
        compute_dtype="float32",
        device="cpu",
    )
    seen: list[torch.Tensor] = []

    def batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
        part = mine[:, number * each : (number + 1) * each]
        return part[0].clone(), part[1].clone()

    torch.manual_seed(0)
    step = build.build_rank(job, batch)
    for _ in range(3):
        loss = step()
        loss = loss.full_tensor() if hasattr(loss, "full_tensor") else loss
        seen.append(loss.detach().clone())
    total = torch.stack(seen)
    dist.all_reduce(total)
    return (total / dist.get_world_size()).tolist()


def main(rank: str, ranks: str, store: str, plans: str) -> None:
    """Run every plan, one after the other, in one job."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    build.make_optimizer = lambda name, groups: torch.optim.SGD(groups, lr=0.5)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(ranks)
    )
    found = [
        losses(kind, Parallelism(**plan), Software(grouped_experts=False, **software))
        for kind, plan, software in json.loads(plans)
    ]
    dist.barrier()
    if rank == "0":
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
