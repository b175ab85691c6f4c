"""A step as it is written down: operators in order, with their module, phase and memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from gpuscope.program.capture.calls import dtype_name, wants_grad
from gpuscope.program.capture.cuda import current_stream
from gpuscope.program.capture.distributed.groups import Groups
from gpuscope.program.capture.distributed.sites import line, site
from gpuscope.program.capture.distributed.works import Works
from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.modules import ModuleTracker
from gpuscope.program.capture.python_work import PythonWork
from gpuscope.program.capture.storages import StorageTracker
from gpuscope.program.capture.streams import Points, Queue, StreamOrder
from gpuscope.program.types import Op, Phase, TensorSpec


class StepWriter:
    """Writes operators down while `recording`; before that it only watches memory and waits.

    Attributes:
        ops: the operators of the recorded step.
        order: what waits for what.
        groups: the process groups.
        works: the collectives that can be waited for.
        batch: number of the batch of sends and receives that is being issued, 0 if none is.
        batches: how many there were in this step.
        capturing: CUDA graphs that are being captured.
        heard: told each operator that is written down.
        python_waits: Python is counted from the first device work on.
    """

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.modules = ModuleTracker()
        self.storages = StorageTracker(lambda: len(self.ops))
        self.python = PythonWork()
        self.order = StreamOrder()
        self.groups = Groups()
        self.works = Works(self.order)
        self.batch = self.batches = 0
        self.capturing: list[object] = []
        self.recording = False
        self.heard: Callable[[Op], None] | None = None
        self.python_waits = False
        self.in_optimizer = False
        self.seen_backward = False
        self.first_backward: int | None = None
        self._shapes: set[object] = set()
        self._earlier: set[object] = set()
        self._specs: dict[Any, TensorSpec] = {}
        self._last_calls = 0
        self._last_node: Any = None
        self.node_began = 0
        self._last_python = 0
        self._last_instructions = 0
        self._last_distributed = 0

    def begin_step(self) -> None:
        """Start writing; what lives now was there before the step."""
        self.ops.clear()
        self._earlier |= self._shapes
        self._shapes.clear()
        self.modules.new_step()
        self._last_calls = self.modules.calls
        self.storages.rebase()
        self.order.begin_step()
        self.groups.begin_step()
        self.batch = self.batches = 0
        self._last_calls = self.modules.calls
        self.seen_backward = False
        self.first_backward = None
        self.recording = True

    def sync(self, reason: str, points: Points | None = None) -> None:
        """The host waits for the device here (for `points` only, if given), by no operator."""
        waits = () if points is None else self.order.relative(points)
        self.python.pause()
        self.append(
            "gpuscope::synchronize", "default", (), (), {}, waits=waits, sync=reason, view=True
        )
        self.python.resume()

    @property
    def attention_anew(self) -> bool:
        """Whether attention has shapes in this step that it had in none before."""
        return not self._shapes <= self._earlier

    def finished(self) -> tuple[Op, ...]:
        """The operators of the recorded step."""
        ops = tuple(self.order.settled(self.ops))
        own = sys.modules.get("gpuscope.program.own_costs")  # met where something was said
        return tuple(own.with_costs(ops)) if own is not None else ops

    def append(
        self,
        name: str,
        overload: str,
        inputs: Any,
        outputs: Any,
        args: Any,
        *,
        module: str | None = None,
        phase: Phase | None = None,
        queue: Queue | None = None,
        waits: tuple[int, ...] = (),
        **rest: Any,
    ) -> int:
        """Write an operator down, if the step is the recorded one.

        Args:
            name, overload, inputs, outputs, args, module, phase, waits, rest: fields of `Op`.
            queue: where it runs, if that is not the current stream.

        Returns:
            Its number on the clock of `order`.
        """
        number = self.order.clock
        stream = current_stream().stream_id
        works = (
            not rest.get("view")
            and name not in _WITHOUT_KERNEL
            and (
                any(s.device == "device" for s in inputs)
                or any(s.device == "device" for s in outputs)
            )
        )
        given = self.order.issue(name, stream, works=works, queue=queue)
        if name == "gpuscope::attention":
            self._shapes.add(tuple((s.shape, s.dtype) for s in inputs[:2]))
        if not self.recording:
            return number
        if works and self.python_waits:
            self.python_waits = False
            self.python.start()
            self.python.pause()  # until this operator is over
        phase = phase or self._phase(())
        if module is None:
            module, rest["recomputed"] = self._module(phase)
        if phase == "backward" and self.first_backward is None:
            self.first_backward = len(self.ops)
        calls = self.modules.calls
        python, instructions = self.python.calls, self.python.instructions
        if rest.get("sync") and "site" not in rest:
            rest["site"] = site()
        node = torch._C._current_autograd_node() if phase == "backward" else None
        entered = int(node is not None and node is not self._last_node)
        if entered:
            self.node_began = len(self.ops)
        self._last_node = node
        op = Op(
            index=len(self.ops),
            name=name,
            overload=overload,
            inputs=inputs,
            outputs=outputs,
            args=args,
            module=module,
            phase=phase,
            module_calls=calls - self._last_calls,
            autograd_nodes=entered,
            python_calls=python - self._last_python,
            python_instructions=instructions - self._last_instructions,
            distributed=self.python.distributed > self._last_distributed,
            stream=stream,
            waits=tuple(sorted({*waits, *given})) if waits else given,
            line=line() if works and phase != "backward" else "",
            **rest,
        )
        self.ops.append(op)
        if self.heard is not None:
            self.heard(op)
        self._last_calls = calls
        self._last_python = python
        self._last_instructions = instructions
        self._last_distributed = self.python.distributed
        return number

    def _phase(self, args: Any) -> Phase:
        if self.in_optimizer and not self._in_closure(args):
            return "optimizer"
        if _in_backward():
            self.seen_backward = True
            return "backward"
        if self.seen_backward and not self.modules.stack:
            # After backward, outside of modules: gradient clipping and the like, unless it
            # builds a graph again (the loss of the next micro-batch).
            builds = torch.is_grad_enabled() and wants_grad(args)
            return "forward" if builds else "optimizer"
        return "forward"

    def _in_closure(self, args: Any) -> bool:
        """An optimizer's own work builds no graph; the closure it is given does."""
        if torch._C._current_autograd_node() is not None:
            return True
        return torch.is_grad_enabled() and (bool(self.modules.stack) or wants_grad(args))

    def _module(self, phase: Phase) -> tuple[str, bool]:
        if phase == "backward":
            if self.modules.stack:
                return self.modules.current, True
            return self.modules.owner(torch._C._current_autograd_node()), False
        return self.modules.current, False

    def spec(
        self, tensor: torch.Tensor, module: str = "", label: str = "", phase: str = "other"
    ) -> TensorSpec:
        """A tensor as plain data; its storage is watched from now on."""
        device = on_device(tensor)
        storage = self.storages.see(tensor, device, module, label, phase)
        key = (tensor.shape, tensor.stride(), tensor.dtype, device, storage)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = TensorSpec(
                tuple(int(s) for s in tensor.shape),
                tuple(int(s) for s in tensor.stride()),
                dtype_name(tensor.dtype),
                "device" if device else "host",
                storage,
                self.storages.lives[storage].pinned,
            )
        return spec


_WITHOUT_KERNEL = frozenset(
    {
        "aten::empty",
        "aten::empty_strided",
        "aten::empty_like",
        "aten::new_empty",
        "aten::new_empty_strided",
        "_c10d_functional::wait_tensor",
    }
)
"""Operators on device tensors that launch nothing."""


def _in_backward() -> bool:
    """Whether autograd runs, also in callbacks after its last node."""
    return torch._C._current_graph_task_id() != -1
