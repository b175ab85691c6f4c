"""The roofs of a device: the least time that a piece of work can take on it."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.columns import Floats, KernelColumns
from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.hardware.device import Device

MATRIX_KINDS = frozenset({"matmul", "attention", "convolution", "recurrent"})
"""Kernel families whose arithmetic runs on the matrix units (tensor cores) where there are any."""

_ROOF_DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16", "float8_e4m3fn", "int8", "fp4")


class Roofs:
    """Peak rates of one device, looked up once per dtype. Without a device all are unknown."""

    def __init__(self, device: Device | None) -> None:
        self.device = device
        self._peaks: dict[tuple[str, bool], float | None] = {}

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """Device memory bandwidth; None without a device."""
        return self.device.memory_bandwidth_bytes_per_s if self.device else None

    def peak_flops_per_s(self, dtype: str, kind: str = "matmul") -> float | None:
        """Return the dense peak that a kernel of this dtype and family could reach.

        Matrix families get the matrix units' rate; others the vector lanes', or float32's where
        the dtype has no vector rate of its own. None where nothing is stated.
        """
        key = (dtype, kind in MATRIX_KINDS)
        if key not in self._peaks:
            self._peaks[key] = self._look_up(*key)
        return self._peaks[key]

    def _look_up(self, dtype: str, matrix: bool) -> float | None:
        if self.device is None or not dtype:
            return None
        for name in (dtype,) if matrix else (dtype, "float32"):
            try:
                return self.device.peak_flops_per_s(name, tensor_core=matrix)
            except (UnknownNameError, UnsupportedError):
                continue
        return None

    def peaks(self) -> dict[str, float]:
        """Return the dense matrix peak of every dtype that has one."""
        found = {dtype: self.peak_flops_per_s(dtype) for dtype in _ROOF_DTYPES}
        return {dtype: peak for dtype, peak in found.items() if peak is not None}

    def best_s(self, kernels: KernelColumns) -> Floats:
        """Return each kernel's time at the roofline: max(flops / peak, least bytes / bandwidth).

        Copies to and from the host are held against the host link. NaN where the roof is unknown
        or the kernel states no work at all (a collective's best needs the whole group).
        """
        count = len(kernels.flops)
        if self.device is None:
            return np.full(count, np.nan)
        peak = self._per_kernel_peak(kernels)
        with np.errstate(invalid="ignore", divide="ignore"):
            compute = np.where(kernels.flops > 0, kernels.flops / peak, 0.0)
        memory = kernels.least_bytes / self.device.memory_bandwidth_bytes_per_s
        best = np.fmax(compute, memory)
        kinds = np.array(kernels.kind.table)[kernels.kind.code]
        link = self.device.host_link_bandwidth_bytes_per_s
        over_link = kernels.least_bytes / link if link else np.full(count, np.nan)
        best = np.where(kinds == "transfer", over_link, best)
        return np.where((best > 0) & (kinds != "collective"), best, np.nan)

    def _per_kernel_peak(self, kernels: KernelColumns) -> Floats:
        """Peak of each kernel, NaN where unknown; looked up once per (dtype, kind)."""
        dtypes, kinds = kernels.dtype.table, kernels.kind.table
        table = np.array(
            [[self.peak_flops_per_s(d, k) or np.nan for k in kinds] for d in dtypes], np.float64
        )
        return np.asarray(table[kernels.dtype.code, kernels.kind.code], np.float64)
