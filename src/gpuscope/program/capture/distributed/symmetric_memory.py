"""Symmetric memory: buffers that the ranks of a group read and write in each other's memory."""

from __future__ import annotations

from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError
from gpuscope.program.capture.calls import Facts
from gpuscope.program.capture.distributed.groups import group_name
from gpuscope.program.capture.distributed.sites import site
from gpuscope.program.capture.patches import Patches


def install(patch: Patches, recorder: Any) -> None:
    """Let symmetric tensors be ordinary fakes, and their handles know only sizes."""
    try:
        import torch.distributed._symmetric_memory as symmetric
    except ImportError:  # a torch without it
        return

    def empty(*size: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
        shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
        made = torch.empty(tuple(shape), dtype=dtype, device=device)
        recorder.storages.mark(made, "communication", "symmetric memory")
        return made

    def rendezvous(tensor: Any, group: Any) -> _Handle:
        return _Handle(recorder, tensor, group_name(group))

    def workspace(name: Any, min_size: int) -> _Handle:
        return _Handle(recorder, empty(min_size, dtype=torch.uint8, device="cuda"), str(name))

    patch.set(symmetric, "empty", empty, only_if_present=True)
    patch.set(symmetric, "rendezvous", rendezvous, only_if_present=True)
    patch.set(symmetric, "get_symm_mem_workspace", workspace, only_if_present=True)
    patch.set(symmetric, "enable_symm_mem_for_group", lambda name: None, only_if_present=True)
    patch.set(symmetric, "is_symm_mem_enabled_for_group", lambda name: True, only_if_present=True)
    patch.set(symmetric, "set_backend", lambda name: None, only_if_present=True)


class _Handle:
    """What `rendezvous` returns: sizes, other ranks' buffers, and signals."""

    def __init__(self, recorder: Any, tensor: torch.Tensor, group: str) -> None:
        ranks = recorder.groups.ranks(group)
        self._recorder, self._tensor, self._group = recorder, tensor, group
        self.rank, self.world_size = ranks.index(recorder.groups.rank), len(ranks)
        self.buffer_size = tensor.untyped_storage().nbytes()
        self.signal_pad_size, self.multicast_ptr, self.offset = 2048, 0, 0
        self.device = tensor.device

    def get_buffer(
        self, rank: int, sizes: Any, dtype: torch.dtype, storage_offset: int = 0
    ) -> torch.Tensor:
        """A rank's buffer: this one's, or memory that is not of this device."""
        if rank == self.rank:
            return self._tensor.view(-1).view(dtype)[: torch.Size(sizes).numel()].view(sizes)
        return torch.empty(sizes, dtype=dtype, device=self.device)

    def get_remote_tensor(self, rank: int, sizes: Any, dtype: torch.dtype) -> torch.Tensor:
        """As `get_buffer`."""
        return self.get_buffer(rank, sizes, dtype)

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """A kernel that waits for every rank's."""
        self._signal("symm_mem::barrier", -1)

    def put_signal(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """A kernel that tells another rank."""
        self._signal("symm_mem::put_signal", dst_rank)

    def wait_signal(self, src_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """A kernel that waits to be told by another rank."""
        self._signal("symm_mem::wait_signal", src_rank)

    def _signal(self, name: str, rank: int) -> None:
        groups = self._recorder.groups
        index, peer = groups.index(self._group), groups.global_rank(self._group, rank)
        spec = self._recorder.spec(self._tensor)
        self._recorder.append(name, "default", (spec,), (), {}, group=index, peer=peer, site=site())


def result(func: Any, facts: Facts, named: dict[str, Any], args: Any, kwargs: Any) -> Any:
    """What a functional collective or an operator on symmetric memory returns.

    Raises:
        CaptureError: the operator has no shape rule.
    """
    has_shapes = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "Meta")
    if has_shapes or not facts.name.startswith("symm_mem::"):
        return func(*args, **kwargs)
    written = [a.name for a in func._schema.arguments if a.alias_info and a.alias_info.is_write]
    written += [name for name in ("out", "output") if name in named]
    if written:
        return named[written[0]] if func._schema.returns else None
    if "all_reduce" in facts.name:
        return torch.empty_like(args[0])
    raise CaptureError(
        Text("The operator '{operator}' cannot be captured.", operator=facts.name),
        Text("PyTorch has no shape rule (no meta kernel) for it."),
        Text("Give it one with torch.library.register_fake, or use an ordinary collective."),
    )
