"""One workload on one device: its step, its memory, and the same with other options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuscope.api import Target, capture, predict, resolve_target
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InvalidValueError
from gpuscope.hardware import Device
from gpuscope.program.types import Category, Program
from gpuscope.run import Run
from gpuscope.timeline.memory import MemoryTrace, simulate_memory

if TYPE_CHECKING:
    from gpuscope.program.workload import WorkloadOptions

Build = Callable[[], Callable[[], object]]


@dataclass(frozen=True)
class MemoryCase:
    """A predicted step with its memory.

    Attributes:
        workload: as the user gave it.
        options: of a workload given by name.
        on: the target.
        run: the predicted step; its program knows the device's workspaces.
        title: what a step does, one line.
        sizes: "batch" and "seq" (or "context") as settled, where they can be changed.
    """

    workload: Build | str | Program
    options: WorkloadOptions
    on: Target
    run: Run
    title: str
    sizes: Mapping[str, int]

    @property
    def program(self) -> Program:
        """The captured step."""
        assert self.run.program is not None
        return self.run.program

    @property
    def device(self) -> Device:
        """What it runs on."""
        return resolve_target(self.on).device

    @property
    def capacity_bytes(self) -> int:
        """What a program can have of the device's memory."""
        return self.device.memory_usable_bytes

    @cached_property
    def trace(self) -> MemoryTrace:
        """The allocator's story of the step, with categories at each point."""
        return simulate_memory(self.program, capacity_bytes=self.capacity_bytes)

    @property
    def peak_bytes(self) -> int:
        """Most bytes of tensors at once."""
        return self.trace.peak_allocated_bytes

    @property
    def fits(self) -> bool:
        """Whether every request finds room."""
        return self.trace.fits and self.peak_bytes <= self.capacity_bytes

    @property
    def can_change(self) -> bool:
        """Whether the workload takes options."""
        return bool(self.sizes)

    def fits_on(self, device: Device) -> bool:
        """Whether the step would fit another device's memory."""
        capacity = device.memory_usable_bytes
        if self.peak_bytes > capacity:
            return False
        return simulate_memory(self.program, capacity_bytes=capacity).fits

    def at_peak(self, category: Category) -> int:
        """Bytes of a category at the peak."""
        return dict(self.trace.at_peak).get(category, 0)

    def most(self, category: Category) -> int:
        """Most bytes of a category at any point of the step."""
        curves = dict(self.trace.by_category)
        return int(curves[category].max()) if category in curves else 0

    def probe(self, **options: Any) -> tuple[int, bool] | None:
        """Peak of the same step with other options, and whether it fits; without its time.

        None where that cannot be.
        """
        from gpuscope.cost.workspace import with_workspaces
        from gpuscope.program.fusion import fuse

        try:
            program = capture(self.workload, options=replace(self.options, **options))
        except GpuscopeError:
            return None
        device = self.device
        program = with_workspaces(fuse(program) if program.compiled else program, device)
        trace = simulate_memory(program, capacity_bytes=self.capacity_bytes)
        peak = trace.peak_allocated_bytes
        return peak, trace.fits and peak <= self.capacity_bytes

    def resident_bytes(self) -> int:
        """What is there whatever the batch: parameters, their states, buffers, workspaces."""
        fixed: tuple[Category, ...] = ("parameter", "optimizer_state", "buffer", "workspace")
        return sum(self.at_peak(category) for category in fixed)

    def changed(self, **options: Any) -> MemoryCase | None:
        """The same with other options, captured anew; None where that cannot be."""
        try:
            wanted = replace(self.options, **options)
            run = predict(self.workload, self.on, options=wanted)
            title, sizes = _settled(self.workload, wanted)
        except GpuscopeError:
            return None
        return MemoryCase(self.workload, wanted, self.on, run, title, sizes)


def make_case(workload: Build | str | Program, on: Target, options: WorkloadOptions) -> MemoryCase:
    """Capture a workload and predict it.

    Raises:
        UnknownNameError: no such model, device or option.
        WorkloadError: the workload's own code failed.
        InvalidValueError: it holds no device memory.
    """
    run = predict(workload, on, options=options)
    title, sizes = _settled(workload, options)
    case = MemoryCase(workload, options, on, run, title or run.name, sizes)
    if case.peak_bytes <= 0:
        raise InvalidValueError(
            Text("{run} holds no device memory.", run=run.name),
            Text("Its step makes no tensor on a device."),
            Text('Put the model and its data on "cuda".'),
        )
    return case


def _settled(
    workload: Build | str | Program, options: WorkloadOptions
) -> tuple[str, dict[str, int]]:
    """One line on the step, and its sizes where they can be changed."""
    if not isinstance(workload, str):
        return "", {}
    from gpuscope.program.workload import resolve

    found = resolve(workload, options, load=False)
    if found.batch is None:
        return found.title, {}
    sizes = {"batch": found.batch}
    if found.seq is not None:
        sizes["context" if found.task == "decode" else "seq"] = found.seq
    return found.title, sizes
