"""Gradients clipped to a norm where parameters are spread over different meshes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor


def clip_gradients(
    parameters: Iterable[nn.Parameter], limit: float = 1.0, stages: dist.ProcessGroup | None = None
) -> None:
    """Scale all gradients down so that their norm together is `limit` at most.

    PyTorch's `clip_grad_norm_` refuses gradients of different meshes (experts, or parameters that
    tensor parallel ranks repeat): here each mesh sums up its own, and the sums are added.

    Args:
        parameters: of one rank; those without a gradient are left out.
        limit: largest norm.
        stages: ranks that hold the other stages of a pipeline, whose squares are added
            (torchtitan's `clip_grad_norm_`).
    """
    groups: dict[Any, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            mesh = parameter.grad.device_mesh if isinstance(parameter.grad, DTensor) else None
            groups.setdefault(mesh, []).append(parameter)
    norms = []
    for members in groups.values():
        norm = torch.nn.utils.get_total_norm(
            [member.grad for member in members if member.grad is not None]
        )
        norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    if not norms:
        return
    total = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
    if stages is not None:
        total **= 2.0
        dist.all_reduce(total, group=stages)
        total **= 0.5
    for members in groups.values():
        torch.nn.utils.clip_grads_with_norm_(members, limit, total)
