"""DistributedDataParallel: its Python is the real one, its C++ parts have stand-ins.

The reducer (buckets, hooks, finishing) is in `ddp_reducer`; here are the broadcasts of parameters
and buffers, and what only checks or logs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from gpuscope.program.capture.distributed.ddp_buckets import by_size
from gpuscope.program.capture.distributed.ddp_reducer import Reducer
from gpuscope.program.capture.patches import Patches

_IN_FLIGHT = 2
"""Broadcasts of coalesced tensors that are under way at most (reducer.cpp)."""


def install(patch: Patches, recorder: Any) -> None:
    """Let the C++ parts of DDP run on fakes."""

    class RecordedReducer(Reducer):
        storages = recorder.storages

    # The reducer and the logger know each other, and neither does device work.
    patch.set(dist, "Reducer", RecordedReducer, only_if_present=True)
    patch.set(dist, "Logger", Logger, only_if_present=True)
    replaced = {
        "_verify_params_across_processes": lambda *args, **kwargs: None,
        "_broadcast_coalesced": broadcast_coalesced,
        "_register_comm_hook": lambda reducer, state, hook: reducer.register_hook(state, hook),
        "_register_builtin_comm_hook": lambda reducer, kind: reducer.register_builtin_hook(kind),
    }
    for name, value in replaced.items():
        patch.set(dist, name, value, only_if_present=True)


class Logger:
    """What DDP notes about itself; only the user reads it."""

    def __init__(self, reducer: Any) -> None:
        self._data: dict[str, Any] = {"world_size": reducer.group.size()}

    def set_construction_data_and_log(
        self, name: str, devices: Sequence[int], output: int, buffers: bool, sync: bool, fixed: bool
    ) -> None:
        """The constructor's arguments."""
        self._data |= {
            "module_name": name,
            "broadcast_buffers": int(buffers),
            "has_sync_bn": int(sync),
            "static_graph": int(fixed),
            "rank": dist.get_rank(),
        }

    def _set_comm_hook_name(self, name: str) -> None:
        self._data["comm_hook"] = name

    def _set_static_graph(self) -> None:
        self._data["static_graph"] = 1

    def _set_uneven_input_join(self) -> None:
        self._data["join_uneven_inputs"] = 1

    def set_runtime_stats_and_log(self) -> None:
        """Times, which a capture has none of."""

    def set_error_and_log(self, text: str) -> None:
        """The error is raised, too."""
        self._data["error"] = text

    def _get_ddp_logging_data(self) -> Any:
        words = {name: value for name, value in self._data.items() if isinstance(value, str)}
        numbers = {name: value for name, value in self._data.items() if name not in words}
        return SimpleNamespace(strs_map=words, ints_map=numbers)


def broadcast_coalesced(
    process_group: Any, tensors: Sequence[torch.Tensor], buffer_size: int, src: int = 0
) -> None:
    """Broadcast many tensors in few messages, as `torch::distributed::broadcast_coalesced` does.

    Each message is a concatenation, and what arrives is copied back, on the root as well.

    Args:
        process_group: whose ranks get them.
        tensors: what is sent and received.
        buffer_size: bytes after which a message is full.
        src: the group's rank that sends.
    """
    under_way: deque[tuple[Any, Any, list[torch.Tensor]]] = deque()
    with torch.no_grad():
        for bucket in by_size(tensors, [buffer_size]):
            if len(under_way) == _IN_FLIGHT:
                _arrived(*under_way.popleft())
            parts = [tensors[at] for at in bucket]
            flat = torch.cat([part.reshape(-1) for part in parts])
            options = dist.BroadcastOptions()
            options.rootRank = src
            under_way.append((process_group.broadcast([flat], options), flat, parts))
        while under_way:
            _arrived(*under_way.popleft())


def _arrived(work: Any, flat: torch.Tensor, parts: list[torch.Tensor]) -> None:
    work.wait()
    for part, piece in zip(parts, _pieces(flat, parts), strict=True):
        part.copy_(piece, non_blocking=True)


def _pieces(flat: torch.Tensor, parts: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    at = 0
    for part in parts:
        yield flat.narrow(0, at, part.numel()).view(part.shape)
        at += part.numel()
