"""Watches kernels of Triton's interpreter (`TRITON_INTERPRET=1`).

The interpreter runs one program at a time on NumPy arrays of pointers; its builder's loads, stores
and atomics are wrapped. Which lane holds which pointer follows from `triton_layout` at the end of
the launch, when all programs' addresses and masks are known.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuscope.kernel_lens.functions import source_function
from gpuscope.kernel_lens.recorder import DeviceMap, Recorder, Requests, Site
from gpuscope.kernel_lens.triton_layout import Reach, blocked, per_lane, reach_of
from gpuscope.kernel_lens.types import Kind
from gpuscope.kernel_lens.visits import is_users

if TYPE_CHECKING:
    from gpuscope.kernel_lens.requests import Active, Addresses

_DEFAULT_WARPS = 4
"""Triton's `num_warps` where none is given."""


class OutsideError(Exception):
    """A lane that is not masked points outside every tensor that was passed."""


@dataclass(frozen=True, slots=True)
class Program:
    """One access of one program: device addresses and mask of its block of elements."""

    block: int
    addresses: Addresses
    mask: Active


@dataclass(frozen=True, slots=True)
class Group:
    """All programs of one site with one shape and element size."""

    site: Site
    element_bytes: int
    programs: list[Program]


def install(recorder: Recorder) -> None:
    """Let every launch of this process's interpreter be recorded.

    Raises:
        ImportError: there is no Triton.
    """
    from triton.runtime import interpreter

    watch = Interpreter(recorder, interpreter.interpreter_builder)
    executor = interpreter.GridExecutor
    call, prepare = executor.__call__, executor._init_args_hst
    executor.__call__ = lambda own, *args, **kwargs: watch.launch(own, call, args, kwargs)

    def prepare_and_note(own: Any, args: Any, kwargs: Any) -> Any:
        on_host = prepare(own, args, kwargs)
        watch.allocate(own.arg_names, own.constexprs, *on_host)
        return on_host

    executor._init_args_hst = prepare_and_note


class Interpreter:
    """Wraps the builder's memory operations.

    Args:
        recorder: takes what the programs do.
        builder: the interpreter's only builder.
    """

    def __init__(self, recorder: Recorder, builder: Any) -> None:
        self.recorder = recorder
        self.builder = builder
        self.groups: dict[tuple[Site, tuple[int, ...], int], Group] = {}
        self.map = DeviceMap(())
        self.exact = True
        self.warps = _DEFAULT_WARPS
        self._wrap("create_masked_load", "load", 0, 1)
        self._wrap("create_masked_store", "store", 0, 2)
        self._wrap("create_atomic_rmw", "atomic", 1, 3)
        self._wrap("create_atomic_cas", "atomic", 0, None)
        for name in ("create_descriptor_load", "create_descriptor_store"):
            self._tell(name, "descriptor")

    def _wrap(self, name: str, kind: Kind, pointers: int, mask: int | None) -> None:
        plain = getattr(self.builder, name)

        def operation(*args: Any, **kwargs: Any) -> Any:
            on = None if mask is None or mask >= len(args) else args[mask]
            self.note(kind, args[pointers], on)
            return plain(*args, **kwargs)

        setattr(self.builder, name, operation)

    def _tell(self, name: str, word: str) -> None:
        plain: Callable[..., Any] | None = getattr(self.builder, name, None)
        if plain is None:
            return

        def operation(*args: Any, **kwargs: Any) -> Any:
            self.recorder.launch.notes[word] = None
            return plain(*args, **kwargs)

        setattr(self.builder, name, operation)

    def launch(self, executor: Any, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A launch of a kernel."""
        self.warps = int(kwargs.get("num_warps") or _DEFAULT_WARPS)
        threads = self.warps * self.recorder.machine.warp_size
        launch = self.recorder.begin(executor.fn.__name__, "triton", (1, 1, 1), (threads, 1, 1))
        launch.notes["triton_layout"] = None
        self._add_function(executor.fn.__code__)
        self.groups = {}
        complete = False
        try:
            result = plain(executor, *args, **kwargs)
            complete = True
        finally:
            launch.grid = tuple(getattr(self.builder, "grid_dim", (1, 1, 1)))
            self._lay_out()
            self.recorder.end(complete)
        return result

    def allocate(self, names: list[str], constants: list[str], args: Any, kwargs: Any) -> None:
        """Learn where the tensors lie, and what the compiler would know of the integers.

        Args:
            names: of the kernel's parameters.
            constants: those that the compiler knows (`tl.constexpr`).
            args, kwargs: what was passed, with tensors in this machine's memory.
        """
        values = dict(zip(names, args, strict=False)) | dict(kwargs)
        self.recorder.launch.take_scalars(values, values.values())
        self.exact = True
        for name, value in values.items():
            if isinstance(value, int) and not isinstance(value, bool) and name not in constants:
                self.exact = self.exact and (value == 1 or value % 16 == 0)
            tensor = getattr(value, "base", value)  # a descriptor's or a wrapped tensor's own
            if hasattr(tensor, "untyped_storage"):
                storage = tensor.untyped_storage()
                self.recorder.allocate(
                    name,
                    storage.data_ptr(),
                    storage.nbytes(),
                    str(tensor.dtype).removeprefix("torch."),
                    tensor.shape,
                )
        self.map = DeviceMap(self.recorder.launch.allocations)

    def note(self, kind: Kind, pointers: Any, mask: Any) -> None:
        """Note one access of one program.

        Raises:
            OutsideError: it would read or write outside all tensors.
        """
        here = np.atleast_1d(pointers.data).astype(np.int64)
        on = np.ones(here.shape, dtype=bool)
        if mask is not None:
            on = np.broadcast_to(np.asarray(getattr(mask, "data", mask), dtype=bool), here.shape)
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        frame = _users_frame(sys._getframe(2))
        line = frame.f_lineno if frame else 0
        file = frame.f_code.co_filename if frame else ""
        self._check(here, on, size, line)
        self.recorder.count(int(on.sum()))
        if not on.any():
            return
        if frame is not None:
            self._add_function(frame.f_code)
        owner = self.map.owner(int(here[on][0]))
        site = Site(file, line, "global", kind, owner.name if owner else "")
        group = self.groups.setdefault((site, here.shape, size), Group(site, size, []))
        x, y, z = self.builder.grid_idx
        nx, ny, _ = self.builder.grid_dim
        number = x + nx * (y + ny * z)
        group.programs.append(Program(number, self.map.on_device(here), on))

    def _check(self, addresses: Addresses, on: Active, size: int, line: int) -> None:
        outside = self.map.outside(addresses, size) & on
        if outside.any():
            raise OutsideError(
                f"program {tuple(self.builder.grid_idx)}: {int(outside.sum())} of {on.size} "
                f"pointers at line {line} lie outside the tensors that were passed"
            )

    def _add_function(self, code: Any) -> None:
        functions = self.recorder.launch.functions
        key = (code.co_filename, code.co_name, code.co_firstlineno)
        if key not in functions:
            functions[key] = source_function(code)

    def _lay_out(self) -> None:
        """Deal all programs' elements to lanes and hand the requests over."""
        groups = list(self.groups.values())
        reaches = [
            reach_of(
                [p.addresses for p in group.programs],
                [p.mask for p in group.programs],
                group.element_bytes,
                self.exact,
            )
            for group in groups
        ]
        for group, reach in zip(groups, reaches, strict=True):
            shape = group.programs[0].addresses.shape
            together = [
                other.elements
                for them, other in zip(groups, reaches, strict=True)
                if them.programs[0].addresses.shape == shape and other.order == reach.order
            ]
            self._deal(group, reach, together)
        self.groups = {}

    def _deal(self, group: Group, reach: Reach, together: list[int]) -> None:
        shape = group.programs[0].addresses.shape
        lanes, is_load = self.recorder.machine.warp_size, group.site.kind == "load"
        size = int(np.prod(shape))
        elements = per_lane(reach.elements, together, size, lanes * self.warps, is_load)
        layout = blocked(shape, reach.order, elements, self.warps, lanes)
        vector = min(elements, reach.elements, reach.mask_elements)
        if group.site.kind == "atomic":
            vector = 1
        if vector < min(elements, reach.elements) and group.site.kind != "atomic":
            self.recorder.launch.notes["mask_splits_vectors"] = None
        index = layout.elements[:, ::vector].reshape(-1, self.warps, lanes)
        # All warps of a program load what they need; only one of several copies is stored.
        allowed = np.ones_like(index, dtype=bool)
        if not is_load:
            allowed = layout.first[:, ::vector].reshape(index.shape)
        warps = np.broadcast_to(np.arange(self.warps)[None, :], index.shape[:2]).reshape(-1)
        for program in group.programs:
            addresses = program.addresses.reshape(-1)[index].reshape(-1, lanes)
            active = (program.mask.reshape(-1)[index] & allowed).reshape(-1, lanes)
            used = active.any(axis=1)
            blocks = np.full(int(used.sum()), program.block, dtype=np.int64)
            self.recorder.add(
                group.site,
                Requests(
                    blocks, warps[used], addresses[used], active[used], group.element_bytes * vector
                ),
            )


def _users_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of the user's own code."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


__all__ = ["Interpreter", "OutsideError", "install"]
