"""`batch_isend_irecv` as NCCL runs it: one group of sends and receives, one `Work` for all."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from gpuscope.program.capture.patches import Patches


def install(patch: Patches, recorder: Any) -> None:
    """Mark sends and receives that are issued together (`Op.args["batch"]`)."""

    def batch(p2p_op_list: Any) -> list[Any]:
        c10d._check_p2p_op_list(p2p_op_list)
        recorder.batches += 1
        recorder.batch = recorder.batches
        try:
            works = [_issue(op) for op in p2p_op_list]
        finally:
            recorder.batch = 0
        return [recorder.works.joined([work for work in works if work is not None])]

    patch.set(dist, "batch_isend_irecv", batch)
    patch.set(c10d, "batch_isend_irecv", batch)


def _issue(op: Any) -> Any:
    sends = op.op in (dist.isend, c10d.isend) or op.op.__name__ == "isend"
    peer = (
        {"group_dst" if sends else "group_src": op.group_peer}
        if hasattr(op, "group_peer")
        else {"dst" if sends else "src": op.peer}
    )
    return op.op(op.tensor, group=op.group, tag=op.tag, **peer)
