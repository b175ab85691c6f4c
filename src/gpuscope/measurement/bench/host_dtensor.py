"""What DTensor adds to an operator: the same calls on plain tensors and on a mesh of one rank.

A mesh of one needs no launcher and moves nothing, so that what is left is Python's way through
DTensor's dispatch (finding the placement of the result, unwrapping, wrapping).
"""

from __future__ import annotations

from functools import partial

import torch

from gpuscope.measurement.bench.host_timing import HostTimer


def measure_dtensor(timer: HostTimer) -> None:
    """Calls on sharded tensors, and on what they hold; nothing where a group is already there."""
    import torch.distributed as dist

    if not dist.is_available() or dist.is_initialized():
        return
    from torch.testing._internal.distributed.fake_pg import FakeStore

    # NCCL's own set-up takes seconds, and one rank has nobody to talk to.
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    try:
        _measure(timer)
    except (RuntimeError, ImportError) as error:
        timer.failures.append(f"dtensor,mesh,: {type(error).__name__}: {error}"[:300])
    finally:
        dist.destroy_process_group()


def _measure(timer: HostTimer) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(torch.device(timer.device).type, (1,))
    x, w = (torch.randn(64, 64, device=timer.device) for _ in range(2))
    rows = distribute_tensor(x, mesh, [Shard(0)])
    whole = distribute_tensor(w, mesh, [Replicate()])
    for variant, a, b in (("plain", x, w), ("dtensor", rows, whole)):
        with torch.no_grad():
            timer.calls("dtensor", "add", variant, partial(torch.add, a, a))
            timer.calls("dtensor", "mm", variant, partial(torch.mm, a, b))
        _trained(timer, variant, a.detach(), b.detach().requires_grad_())


def _trained(timer: HostTimer, variant: str, x: torch.Tensor, w: torch.Tensor) -> None:
    """A linear layer's forward call recording autograd, and the same with its backward pass."""
    forward = partial(torch.nn.functional.linear, x, w)
    ones = torch.ones_like(forward().detach())

    def both() -> None:
        w.grad = None
        torch.autograd.backward(forward(), ones)

    timer.calls("dtensor", "linear", variant, forward)
    timer.calls("dtensor", "linear_backward", variant, both)
