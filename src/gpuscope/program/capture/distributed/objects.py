"""Collectives of Python objects: every rank is taken to give what this one gives.

On a real job they are pickled and sent as bytes, twice (sizes, then contents); the host waits for
both.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from gpuscope.document.text import Text
from gpuscope.program.capture.distributed.groups import group_name
from gpuscope.program.capture.patches import Patches

_SAME = Text("Objects exchanged between ranks (all_gather_object, ...) are taken as equal on all.")


def install(patch: Patches, recorder: Any) -> None:
    """Answer the object collectives from this rank's objects."""
    answers = _Objects(recorder)
    for name in (
        "all_gather_object",
        "gather_object",
        "broadcast_object_list",
        "scatter_object_list",
        "send_object_list",
        "recv_object_list",
    ):
        for module in (dist, c10d):
            patch.set(module, name, getattr(answers, name), only_if_present=True)


class _Objects:
    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder

    def _exchange(self, group: Any, value: Any, call: Any) -> None:
        """The collectives of a pickled object: its size, which the host reads, then its bytes."""
        self._recorder.values.assume(_SAME)
        name = group_name(dist.group.WORLD if group is None else group)
        on_host = self._recorder.groups.backend(name) == "gloo"
        device = torch.device("cpu" if on_host else "cuda")
        size = torch.zeros(1, dtype=torch.int64, device=device)
        call(size)
        size.item()
        call(torch.empty(len(pickle.dumps(value)), dtype=torch.uint8, device=device))

    def all_gather_object(self, object_list: Any, obj: Any, group: Any = None) -> None:
        """Everybody's object is this rank's."""

        def gather(part: Any) -> None:
            whole = part.new_empty(part.numel() * dist.get_world_size(group))
            every = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
            every(whole, part, group=group)

        self._exchange(group, obj, gather)
        for at in range(dist.get_world_size(group)):
            object_list[at] = copy.deepcopy(obj)

    def gather_object(
        self,
        obj: Any,
        object_gather_list: Any = None,
        dst: Any = None,
        group: Any = None,
        group_dst: Any = None,
    ) -> None:
        """As `all_gather_object`, on one rank."""
        self.all_gather_object([None] * dist.get_world_size(group), obj, group)
        for at in range(len(object_gather_list or ())):
            object_gather_list[at] = copy.deepcopy(obj)

    def broadcast_object_list(
        self,
        object_list: Any,
        src: Any = None,
        group: Any = None,
        device: Any = None,
        group_src: Any = None,
    ) -> None:
        """The list stays as this rank has it."""
        root = 0 if src is None and group_src is None else src
        named = {"src": root} if root is not None else {"group_src": group_src}
        self._exchange(
            group, list(object_list), lambda part: dist.broadcast(part, group=group, **named)
        )

    def scatter_object_list(
        self,
        scatter_object_output_list: Any,
        scatter_object_input_list: Any = None,
        src: Any = None,
        group: Any = None,
        group_src: Any = None,
    ) -> None:
        """This rank's part of what it would give itself; None where it has nothing to give."""
        given = scatter_object_input_list
        mine = given[dist.get_rank(group)] if given else None
        self._exchange(group, mine, lambda part: dist.broadcast(part, src=src or 0, group=group))
        scatter_object_output_list[0] = mine

    def send_object_list(
        self, object_list: Any, dst: Any = None, group: Any = None, device: Any = None, **_: Any
    ) -> None:
        """Sizes, then bytes, to one rank."""
        from gpuscope.program.capture.distributed.mail import office

        mail = office()
        if mail is not None and dst is not None:
            mail.send(dist.get_rank(), dst, list(object_list))
        self._exchange(group, object_list, lambda part: dist.send(part, dst, group=group))

    def recv_object_list(
        self, object_list: Any, src: Any = None, group: Any = None, device: Any = None, **_: Any
    ) -> Any:
        """What the sender posted; where ranks are captured alone, the list stays as it is."""
        from gpuscope.program.capture.distributed.mail import office

        mail = office()
        if mail is not None and src is not None:
            object_list[:] = mail.receive(src, dist.get_rank())
        self._exchange(group, object_list, lambda part: dist.recv(part, src, group=group))
        return src
