"""Distributed code as one rank of any job, on one CPU, without a network.

The user's real code runs: `init_process_group`, meshes, `fully_shard`, DTensors, collectives. Its
process groups belong to torch's `fake` backend, which moves nothing; each collective becomes one
`Op` with its group, its peer and the user's line (see `gpuscope.program.types`).
"""

from __future__ import annotations

from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError
from gpuscope.program.capture.patches import Patches
from gpuscope.program.world import World

__all__ = ["built", "install"]


def install(patch: Patches, recorder: Any, world: World | None) -> None:
    """Let distributed code run as rank `world.rank` of `world.size`.

    Args:
        patch: where the replacements are remembered.
        recorder: the recorder of this capture; gets its `groups`.
        world: the job; None: as the code says, else one rank.

    Raises:
        WorkloadError: there is a process group already.
        CaptureError: a job is asked for, but this PyTorch cannot stand for one.
    """
    import torch
    import torch.distributed as dist

    if not dist.is_available() or not hasattr(torch._C._distributed_c10d, "FakeWork"):
        _refuse(patch, dist, world)
        return
    from gpuscope.program.capture.distributed import (
        ddp,
        fsdp1,
        fully_sharded,
        meshes,
        objects,
        point_to_point,
        process,
        stages,
        symmetric_memory,
        works,
    )

    process.install(patch, recorder.groups, world)
    works.install(patch, recorder)
    meshes.install(patch, recorder)
    fully_sharded.install(patch, recorder)
    fsdp1.install(patch, recorder)
    ddp.install(patch, recorder)
    objects.install(patch, recorder)
    symmetric_memory.install(patch, recorder)
    point_to_point.install(patch, recorder)
    stages.prepare_early(patch)


def _refuse(patch: Patches, dist: Any, world: World | None) -> None:
    """Say that jobs are beyond this PyTorch: now if one is asked for, else where one begins."""
    import torch

    error = CaptureError(
        Text(
            "PyTorch {version} cannot capture a job of several processes.",
            version=torch.__version__,
        ),
        Text("It lacks the stand-in for collectives (FakeWork) that later versions have."),
        Text("Install a later one: pip install --upgrade torch. One device is predicted without."),
    )
    if world is not None:
        raise error

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise error

    patch.set(dist, "init_process_group", refuse, only_if_present=True)


def built(patch: Patches) -> None:
    """The user's `build` is over: what it imported can be prepared for the first step."""
    from gpuscope.program.capture.distributed import stages

    stages.prepare(patch)
