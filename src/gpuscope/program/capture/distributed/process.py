"""torchrun's environment and `init_process_group`, answered from the `World`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed import distributed_c10d as c10d
from torch.utils._python_dispatch import _disable_current_modes

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError
from gpuscope.program.capture.distributed import functional
from gpuscope.program.capture.distributed.groups import WORLD, Groups
from gpuscope.program.capture.patches import Patches
from gpuscope.program.world import World


def install(patch: Patches, groups: Groups, world: World | None) -> None:
    """Set the environment, and make every process group a fake one until the end.

    Raises:
        WorkloadError: a job is asked for, but this process belongs to one already.
    """
    had_group = dist.is_initialized()
    if world is not None:
        if had_group:
            raise WorkloadError(
                Text("There is a process group already, so no other job can be captured."),
                Text("init_process_group was called before the capture."),
                Text("Call it inside of build(), or dist.destroy_process_group() before."),
            )
        groups.rank, groups.world_size = world.rank, world.size
        patch.environment(world.environment())
    patch.set(c10d, "rendezvous", _rendezvous(world))
    _fake_groups(patch, groups, world)
    _split(patch)
    for module in (dist, c10d):
        patch.set(module, "is_nccl_available", lambda: True)
        if not hasattr(module, "ProcessGroupNCCL"):
            patch.set(module, "ProcessGroupNCCL", _NCCLGroup)
    if not had_group:
        _ended(patch)


class _NCCLGroup:
    """NCCL's group where torch was built without it: code asks whether a group is one."""

    class Options:
        """Its options: any may be set."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.config = SimpleNamespace()


def _ended(patch: Patches) -> None:
    """Destroy what the user's code made, and put back what making it changed."""
    hook = sys.excepthook

    def destroy() -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
        sys.excepthook = hook

    patch.on_undo(destroy)


def _rendezvous(world: World | None) -> Any:
    def rendezvous(url: str, rank: int = -1, world_size: int = -1, **_: Any) -> Iterator[Any]:
        """Nobody to meet: the job is known."""
        if rank < 0:
            rank = world.rank if world else int(os.environ.get("RANK", "0"))
        if world_size < 0:
            world_size = world.size if world else int(os.environ.get("WORLD_SIZE", "1"))
        yield (HashStore(), rank, world_size)

    return rendezvous


def _check(rank: int, size: int, world: World | None) -> None:
    if world is not None and (rank, size) != (world.rank, world.size):
        raise WorkloadError(
            Text(
                "init_process_group was told rank {rank} of {size}, but this is rank {own_rank} of "
                "{own_size}.",
                rank=rank,
                size=size,
                own_rank=world.rank,
                own_size=world.size,
            ),
            Text("The job's size comes from --on (or `world`)."),
            Text(
                "Leave rank and world_size out, or ask for a job of that size: --on {size}xh200.",
                size=size,
            ),
        )
    if not 0 <= rank < size:
        raise WorkloadError(
            Text("There is no rank {rank} in a job of {size}.", rank=rank, size=size),
            "",
            Text("Ranks go from 0 to size - 1."),
        )


def _fake_groups(patch: Patches, groups: Groups, world: World | None) -> None:
    from torch.testing._internal.distributed import fake_pg  # registers the backend

    original = c10d._new_process_group_helper

    def helper(
        group_size: int,
        group_rank: int,
        ranks: Any,
        backend: Any,
        store: Any,
        group_name: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if not ranks:
            _check(group_rank, group_size, world)
            groups.rank, groups.world_size = group_rank, group_size
            functional.install(patch)
        for name in ("backend_options", "pg_options"):
            if name in kwargs:
                kwargs[name] = None
        kwargs["device_id"] = None
        with _disable_current_modes():
            made, prefix = original(
                group_size,
                group_rank,
                ranks,
                dist.Backend("fake"),
                fake_pg.FakeStore(),
                group_name,
                *args,
                **kwargs,
            )
        if made is not c10d.GroupMember.NON_GROUP_MEMBER:
            _as_asked(made, backend)
            members = tuple(int(r) for r in ranks) if ranks else tuple(range(group_size))
            described = "" if ranks else WORLD
            desc = kwargs.get("group_desc")
            if ranks and desc and desc != "undefined" and not str(desc).startswith("mesh_"):
                described = str(desc)
            groups.made(made.group_name, described, members, str(backend))
        return made, prefix

    patch.set(c10d, "_new_process_group_helper", helper)


def _split(patch: Patches) -> None:
    """`split_group` makes the same groups as `new_group`."""

    def split_group(
        parent_pg: Any = None,
        split_ranks: Any = None,
        timeout: Any = None,
        pg_options: Any = None,
        group_desc: Any = None,
        **_: Any,
    ) -> Any:
        if not split_ranks:
            raise ValueError("split_ranks cannot be None or empty")
        parent = dist.get_process_group_ranks(parent_pg or dist.group.WORLD)
        found = None
        for ranks in split_ranks:
            group = dist.new_group([parent[r] for r in ranks], group_desc=group_desc)
            found = group if dist.get_rank() in [parent[r] for r in ranks] else found
        return found

    for module in (dist, c10d):
        patch.set(module, "split_group", split_group, only_if_present=True)


def _as_asked(group: Any, backend: Any) -> None:
    """`get_backend` says what the user asked for."""
    asked = dist.Backend(str(backend))
    _, store = c10d._world.pg_map[group]
    c10d._world.pg_map[group] = (asked, store)
