"""Kernel models by operator name: one small file a kind, each registering itself.

A model is a function `(work: Work) -> tuple[Kernel, ...]`: what the operator launches on the
device, in order, each kernel with its time and what sets it. Write one, decorate it with the
operators it serves, put it in this folder; nothing else needs to change.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, Cluster, Device
from gpuscope.program.types import Op, ProcessGroup, TensorSpec

KernelModel = Callable[["Work"], tuple[Kernel, ...]]

_MODELS: dict[str, KernelModel] = {}
_loaded = False


class Constants:
    """A calibration's constants by name, quick to look up, with defaults that say so.

    Attributes:
        calibration: where they come from.
    """

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self._entries = dict(calibration.entries)

    def get(self, name: str, default: float) -> float:
        """The constant `name`, or `default` where nobody measured it."""
        entry = self._entries.get(name)
        return default if entry is None else entry.value

    def spread(self, name: str, default: float = 0.25) -> float:
        """Relative 80 % half-width of the constant; `default` where nobody measured it."""
        entry = self._entries.get(name)
        return default if entry is None else entry.spread

    def sides(self, name: str, default: float = 0.25) -> tuple[float, float]:
        """Relative distances of the constant's value from its low and from its high end."""
        entry = self._entries.get(name)
        if entry is None or not entry.value:
            return default, default
        return 1 - entry.low / entry.value, entry.high / entry.value - 1

    def own(self, name: str) -> bool:
        """Whether the constant was found on this very device, not carried from another."""
        entry = self._entries.get(name)
        return self.calibrated or (entry is not None and entry.origin != "estimated")

    def measured(self, name: str) -> bool:
        """Whether the constant itself was measured on the very machine, not fitted or carried."""
        entry = self._entries.get(name)
        return entry is not None and entry.origin == "measured"

    @property
    def calibrated(self) -> bool:
        """Whether the constants were measured on this very device."""
        return self.calibration.distance == "same device"


@dataclass(frozen=True)
class Work:
    """What a kernel model is given.

    Attributes:
        op: the operator.
        device: what it runs on.
        constants: calibrated constants.
        settings: the program's switches ("tf32_matmul", "tf32_cudnn", "cudnn_benchmark").
        hot: for each of `op.inputs`, whether it was used so recently that it is likely still in
            the L2 cache (small working set since its last use).
        cluster: what collectives run on; None for a device by itself.
        group: the ranks that the operator joins; None where it is no communication, or the program
            does not say.
        rank: which rank of the job runs it; -1 where nobody says.
    """

    op: Op
    device: Device
    constants: Constants
    settings: tuple[tuple[str, bool], ...] = ()
    hot: tuple[bool, ...] = ()
    cluster: Cluster | None = None
    group: ProcessGroup | None = None
    rank: int = -1

    @cached_property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Tensor inputs that live on the device."""
        return tuple(t for t in self.op.inputs if t.device == "device")

    @cached_property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Tensor outputs that live on the device."""
        return tuple(t for t in self.op.outputs if t.device == "device")

    def setting(self, name: str, default: bool = False) -> bool:
        """A switch of the program."""
        return dict(self.settings).get(name, default)

    @property
    def units(self) -> int:
        """Multiprocessors (SMs, CUs, cores); 1 where the catalogue does not know."""
        return self.device.compute_units or 1

    @property
    def l2_bytes(self) -> float:
        """Size of the last cache level shared by all multiprocessors; 0 if unknown."""
        return float(self.device.l2_bytes or 0)

    @property
    def bandwidth(self) -> float:
        """Datasheet memory bandwidth, bytes/s."""
        return self.device.memory_bandwidth_bytes_per_s


def kernel_model(*names: str) -> Callable[[KernelModel], KernelModel]:
    """Register a model for operators, named "aten::mm" and so on (without overload)."""

    def register(model: KernelModel) -> KernelModel:
        for name in names:
            if name in _MODELS and _MODELS[name] is not model:
                raise ValueError(f"two kernel models for {name}")
            _MODELS[name] = model
        return model

    return register


def model_for(name: str) -> KernelModel | None:
    """The model of operator `name`; None if nobody wrote one."""
    global _loaded
    if not _loaded:
        import gpuscope.cost as package

        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"gpuscope.cost.{module.name}")
        _loaded = True
    return _MODELS.get(name)


def known_operators() -> tuple[str, ...]:
    """Names of all operators that have a model."""
    model_for("")
    return tuple(sorted(_MODELS))
