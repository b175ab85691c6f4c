"""What a trace says of its collectives, on kernels or on the operators that launched them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gpuscope.program.types import TensorSpec
from gpuscope.timeline.kineto.arguments import plain_arguments
from gpuscope.timeline.kineto.header import rank_list, whole
from gpuscope.timeline.kineto.inputs import tensors_of, torch_dtype
from gpuscope.timeline.kineto.table import Spec
from gpuscope.timeline.types import Collective, Ints

_WORDS = (
    (r"reduce_?scatter", "reduce_scatter"),
    (r"all_?reduce|cross_device_reduce", "all_reduce"),
    (r"all_?gather", "all_gather"),
    (r"all_?to_?all", "all_to_all"),
    (r"send_?recv", "send_recv"),
    (r"broadcast", "broadcast"),
    (r"barrier", "barrier"),
    (r"scatter", "scatter"),
    (r"gather", "gather"),
    (r"reduce", "reduce"),
    (r"recv|receive", "recv"),
    (r"send", "send"),
    (r"dispatch", "dispatch"),
    (r"combine", "combine"),
)
_CALL = re.compile("|".join(f"({pattern})" for pattern, _ in _WORDS), re.I)


def call_name(text: str) -> str:
    """The collective that a call's or kernel's name speaks of; "" for none."""
    head = text[:2048].replace("(anonymous namespace)::", "").split("(", 1)[0].split("<", 1)[0]
    found = _CALL.search(head)
    return _WORDS[found.lastindex - 1][1] if found and found.lastindex else ""


@dataclass(frozen=True, slots=True)
class Described:
    """A collective as some `args` describe it, with its number within the group (-1: unknown)."""

    collective: Collective
    sequence: int = -1


def described(text: bytes, groups: Mapping[str, tuple[int, ...]]) -> Described:
    """Read the `args` that hold NCCL's metadata (`ParamCommsUtils` of PyTorch)."""
    args = plain_arguments(msgspec.Raw(text))
    group = str(args.get("Process Group Name") or "")
    size = whole(args.get("Group size"))
    ranks = rank_list(args.get("Process Group Ranks")) or groups.get(group, ())
    if not ranks:
        ranks = _strided(args, size)
    name = str(args.get("Collective name") or "")
    sequence = whole(args.get("Seq"), -1)
    return Described(
        Collective(
            name=call_name(name) or name,
            group=group,
            group_size=size if size is not None and size > 0 else (len(ranks) or None),
            group_ranks=ranks,
            dtype=torch_dtype(str(args.get("dtype") or "")),
            in_elements=_count(args.get("In msg nelems")),
            out_elements=_count(args.get("Out msg nelems")),
        ),
        -1 if sequence is None else sequence,
    )


def _strided(args: Mapping[str, Any], size: int | None) -> tuple[int, ...]:
    """The ranks of a group that is told by its first rank and the distance between its ranks."""
    start, stride = whole(args.get("Global rank start")), whole(args.get("Global rank stride"))
    if start is None or stride is None or size is None or not 0 < size <= 1 << 20 or stride <= 0:
        return ()
    return tuple(range(start, start + stride * size, stride))


def _count(value: object) -> int | None:
    number = whole(value)
    return number if number is not None and number >= 0 else None


_MARK = re.compile(r"^(?:nccl|gloo|mpi|ucc|xccl|ccl|hccl):\w+", re.I)


def is_mark(name: str) -> bool:
    """Whether a range is one that c10d opens around a call, such as "nccl:all_reduce"."""
    return _MARK.match(name) is not None


def _of_mark(mark: str, tensors: Sequence[TensorSpec]) -> Described:
    word = mark.split(":", 1)[1]
    dtypes = {tensor.dtype for tensor in tensors}
    return Described(
        Collective(
            name=call_name(word) or word,
            dtype=next(iter(dtypes)) if len(dtypes) == 1 and "unknown" not in dtypes else "",
            in_elements=sum(tensor.numel for tensor in tensors) if tensors else None,
        )
    )


class CollectiveReader:
    """Collects what is known of each device event's collective; equal ones share one entry.

    Args:
        texts: the `args` that describe collectives.
        groups: process groups of the header.
    """

    def __init__(self, texts: Sequence[bytes], groups: Mapping[str, tuple[int, ...]]) -> None:
        self._texts, self._groups = texts, groups
        self._known: dict[int, Described] = {}
        self._number: dict[Collective, int] = {}
        self._found: dict[int, tuple[int, int]] = {}
        self._seen: dict[tuple[str, int], Described] = {}

    def told(self, at: int, text: int) -> None:
        """Event `at` is described by text `text`."""
        if text not in self._known:
            self._known[text] = described(self._texts[text], self._groups)
        self._put(at, self._known[text])

    def marked(self, at: int, mark: str, spec: int, specs: Sequence[Spec]) -> None:
        """Event `at` was launched within c10d's range `mark`, which was given these inputs."""
        key = mark, spec
        if key not in self._seen:
            self._seen[key] = _of_mark(mark, tensors_of(specs[spec]) if spec >= 0 else ())
        self._put(at, self._seen[key])

    def named(self, at: int, kernel: str) -> None:
        """Of event `at` only the kernel's name is known."""
        key = kernel, -1
        if key not in self._seen:
            self._seen[key] = Described(Collective(name=call_name(kernel)))
        self._put(at, self._seen[key])

    def _put(self, at: int, what: Described) -> None:
        number = self._number.setdefault(what.collective, len(self._number))
        self._found[at] = (number, what.sequence)

    def columns(self, count: int) -> tuple[Ints, Ints, tuple[Collective, ...]]:
        """Number of the collective and of the call within its group, for `count` events."""
        number, sequence = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        for at, (which, n) in self._found.items():
            number[at], sequence[at] = which, n
        return number, sequence, tuple(self._number)
