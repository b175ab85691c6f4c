"""Kernel models by operator name: one small file a kind, each registering itself.

A model is a function `(work: Work) -> tuple[Kernel, ...]`: what the operator launches on the
device, in order, each kernel with its time and what sets it. Write one, decorate it with the
operators it serves, put it in a room of this folder; nothing else needs to change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.hardware import CalibratedValue, Calibration, Cluster, Device, Distance
from gpuscope.program.types import Op, ProcessGroup, TensorSpec
from gpuscope.registry import Registry

KernelModel = Callable[["Work"], tuple[Kernel, ...]]

_COMMUNICATION = ("c10d::", "_c10d_functional::", "symm_mem::")

_BATCH_NORMS = tuple(
    f"aten::{name}"
    for name in (
        "native_batch_norm",
        "_native_batch_norm",
        "cudnn_batch_norm",
        "miopen_batch_norm",
        "_batch_norm",
        "batch_norm",
    )
)
_CONVOLUTIONS = ("aten::convolution", "aten::_convolution", "aten::cudnn_convolution")
_OPTIMIZERS = (
    "aten::_foreach_",
    "aten::_fused_ada",
    "aten::_fused_sgd",
    "aten::_amp_",
    "gpuscope::adamw_8bit",
)
_RECURRENT = (
    "gpuscope::rnn",
    "gpuscope::lstm_cell",
    "gpuscope::gru_cell",
    "aten::lstm",
    "aten::gru",
    "aten::rnn_",
    "aten::_cudnn_rnn",
    "aten::miopen_rnn",
    "aten::_thnn_fused_",
)
_POOLS = tuple(
    f"aten::{name}"
    for name in ("max_pool", "avg_pool", "fractional_max_pool", "adaptive_", "_adaptive_")
)
_RESAMPLED = tuple(
    f"aten::{name}"
    for name in (
        "upsample_",
        "_upsample_",
        "grid_sampler_",
        "cudnn_grid_sampler",
        "affine_grid_generator",
        "im2col",
        "col2im",
        "reflection_pad",
        "replication_pad",
    )
)

_FACTORIZATIONS = tuple(
    f"aten::{name}"
    for name in (
        "_linalg_",
        "cholesky",
        "geqrf",
        *(
            f"linalg_{way}"
            for way in "cholesky eig householder inv lstsq lu matrix_exp pinv qr".split()
        ),
    )
)
_PADDED = ("aten::_transform_bias", "gpuscope::with_padding", "gpuscope::without_padding")

TRITON = "triton::"
"""How the names of the user's own Triton kernels begin; one model serves all."""

MODELS = Registry[KernelModel](
    Text("kernel model"),
    "gpuscope.cost",
    apart={
        "attention.encoders": _PADDED,
        "collective": _COMMUNICATION,
        "convolution": _CONVOLUTIONS,
        "fourier": ("aten::_fft_",),
        "host": (),
        "image.grid_sample": (),
        "image.pool": _POOLS,
        "image.resample": _RESAMPLED,
        "indexing.coalesce": ("aten::_coalesce",),
        "indexing.index_sums": (),
        "matmul.added_matrix": (),
        "matmul.factorization": _FACTORIZATIONS,
        "matmul.sparse": ("aten::mm.sparse", "aten::_sparse_addmm", "aten::addmm.sparse"),
        "matmul.triangular": ("aten::linalg_solve_triangular", "aten::triangular_solve"),
        "norm.batch": _BATCH_NORMS,
        "norm.channel": (),
        "norm.group": ("aten::native_group_norm", "aten::group_norm"),
        "one_by_one": (),
        "optimizer": _OPTIMIZERS,
        "own_models": (),
        "processor": (),
        "recurrent": _RECURRENT,
        "reduction.ctc": ("aten::_ctc_loss",),
        "reduction.distance": ("aten::_cdist_",),
        "recurrent.state_space": ("gpuscope_networks::",),
        "triton_launch": (TRITON,),
    },
    rooms=True,
)
"""What one device runs needs no collective, and many a model no pool: those files load with the
first operator of theirs, that of users' own models with the first of them."""


class Constants:
    """A calibration's constants by name, quick to look up.

    What the calibration lacks is lent by the device's relatives (`gpuscope.hardware.calibration`);
    nothing here takes a default. A look-up by several names takes the first that is known: the
    special one first, then the more general ones.

    Attributes:
        calibration: where they come from.
    """

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self._entries = dict(calibration.entries)

    def entry(self, *names: str) -> CalibratedValue:
        """The first of the constants that is known, with its interval.

        Raises:
            UnknownNameError: no device of the catalogue has any of them.
        """
        for name in names:
            found = self._entries.get(name)
            if found is not None:
                return found
        return self.calibration.entry(*names)

    def value(self, *names: str) -> float:
        """The value of the first of the constants that is known; see `entry`."""
        return self.entry(*names).value

    def spread(self, *names: str) -> float:
        """Relative 80 % half-width of the first of the constants that is known; see `entry`."""
        return self.entry(*names).spread

    def sides(self, *names: str) -> tuple[float, float]:
        """Relative distances of a constant's value from its low and from its high end."""
        entry = self.entry(*names)
        return 1 - entry.low / entry.value, entry.high / entry.value - 1

    def known(self, name: str) -> bool:
        """Whether the calibration has the constant, its own or carried."""
        return name in self._entries

    def found(self, name: str) -> bool:
        """Whether the constant itself was found on this device, not judged or carried."""
        entry = self._entries.get(name)
        return entry is not None and entry.origin != "estimated"

    def own(self, name: str) -> bool:
        """Whether the constant was found on this very device, not carried from another."""
        return self.calibrated or self.found(name)

    def measured(self, name: str) -> bool:
        """Whether the constant itself was measured on the very machine, not fitted or carried."""
        entry = self._entries.get(name)
        return entry is not None and entry.origin == "measured"

    @property
    def calibrated(self) -> bool:
        """Whether the constants were measured on this very device."""
        return self.calibration.distance is Distance.SAME_DEVICE


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
    def clock_hz(self) -> float:
        """Clock of the multiprocessors; 1.5 GHz where the catalogue does not know."""
        return self.device.clock_hz or 1.5e9

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
            MODELS.add(name, model)
        return model

    return register


def model_for(name: str) -> KernelModel | None:
    """The model of operator `name`; None if nobody wrote one."""
    found = MODELS.find(name)
    return MODELS.find(TRITON) if found is None and name.startswith(TRITON) else found


def known_operators() -> tuple[str, ...]:
    """Names of all operators that have a model."""
    return MODELS.names()
