"""`Device`: what one accelerator can do, and where each figure comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from gpuscope.document.printable import short_repr
from gpuscope.document.quantities import ByteRate, Bytes
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.hardware.interconnect import Interconnect

#: PyTorch's dtype names (and the short ones people type) to the catalogue's rate names.
DTYPE_RATES: Mapping[str, str] = {
    "float64": "fp64",
    "double": "fp64",
    "fp64": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "fp32": "fp32",
    "tf32": "tf32",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp16": "fp16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "fp8",
    "fp8": "fp8",
    "int8": "int8",
    "uint8": "int8",
    "float4_e2m1fn_x2": "fp4",
    "float4_e2m1fn": "fp4",
    "nvfp4": "fp4",
    "mxfp4": "fp4",
    "fp4": "fp4",
    "int4": "int4",
}

#: The rate names as PyTorch writes the dtype.
RATE_DTYPES: Mapping[str, str] = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "tf32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
    "fp4": "fp4",
    "int4": "int4",
}

WHAT_IF = "what-if"


def rate_name(dtype: str) -> str:
    """Return the catalogue's rate name ("bf16") of a dtype ("torch.bfloat16", "bfloat16").

    Raises:
        UnknownNameError: no such dtype.
    """
    key = dtype.lower().removeprefix("torch.")
    if key not in DTYPE_RATES:
        raise UnknownNameError(
            Text("dtype"), dtype, DTYPE_RATES, Text("Type one of PyTorch's dtype names.")
        )
    return DTYPE_RATES[key]


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator as PyTorch sees it: its peaks, limits, links, power and price.

    All rates are dense vendor maxima in SI base units; links count one direction. A figure
    that no source states is None. "Unit" is the device's own compute unit: an SM (NVIDIA), a
    CU (AMD), an Xe core (Intel), a GPU core (Apple), a TensorCore (TPU) and so on, named by
    `compute_unit_label`. Fields of the SIMT execution model (warps, blocks, registers, shared
    memory) are None on accelerators that have none.

    `package_devices` says how many such devices one package is (see `granularity`). Ask
    `origin(field)` and `source(field)` where a figure comes from.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    pytorch_device: str | None
    granularity: str
    confidence: str
    memory_bytes: int
    memory_usable_bytes: int
    memory_bandwidth_bytes_per_s: float
    package_devices: int = 1
    peaks: tuple[tuple[str, float], ...] = ()
    compute_capability: tuple[int, int] | None = None
    launch_year: int | None = None
    process: str | None = None
    software_stack: tuple[str, ...] = ()
    compute_units: int | None = None
    compute_unit_label: str = "unit"
    clock_hz: float | None = None
    matrix_array_side: int | None = None
    structured_sparsity_multiplier: float = 1.0
    memory_type: str | None = None
    l2_bytes: int | None = None
    last_level_cache_bytes: int | None = None
    on_chip_sram_bytes: int | None = None
    l1_per_unit_bytes: int | None = None
    shared_memory_per_unit_bytes: int | None = None
    shared_memory_per_block_bytes: int | None = None
    shared_memory_reserved_per_block_bytes: int | None = None
    shared_memory_granularity_bytes: int | None = None
    registers_per_unit: int | None = None
    registers_per_thread: int | None = None
    register_granularity: int | None = None
    max_threads_per_unit: int | None = None
    max_threads_per_block: int | None = None
    max_warps_per_unit: int | None = None
    max_blocks_per_unit: int | None = None
    warp_size: int | None = None
    fp32_lanes_per_unit: int | None = None
    fp16_lanes_per_unit: int | None = None
    bf16_lanes_per_unit: int | None = None
    fp64_lanes_per_unit: int | None = None
    special_function_units_per_unit: int | None = None
    copy_engines: int | None = None
    launch_latency_s: float | None = None
    tdp_w: float | None = None
    idle_power_w: float | None = None
    price_usd_per_hour: float | None = None
    price_list_usd: float | None = None
    price_note: str | None = None
    price_date: str | None = None
    host_link: Interconnect | None = None
    scale_up: Interconnect | None = None
    scale_up_max_devices: int | None = None
    scale_out: Interconnect | None = None
    scale_out_ports_per_node: int | None = None
    devices_per_node: int | None = None
    devices_per_node_options: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    origins: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, tuple[str, ...]], ...] = ()

    # -- peaks ------------------------------------------------------------------------------

    def __repr__(self) -> str:
        memory = f"{Bytes(self.memory_bytes)} at {ByteRate(self.memory_bandwidth_bytes_per_s)}"
        return short_repr(self, self.id, self.name, memory)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """PyTorch dtype names that the device has a stated rate for, widest first."""
        rates = dict(self.peaks)
        return tuple(
            dtype
            for rate, dtype in RATE_DTYPES.items()
            if rate in rates or f"{rate}_tensor" in rates
        )

    @property
    def compiles_whole_steps(self) -> bool:
        """Whether PyTorch runs there as graphs that the maker's compiler makes of whole steps.

        So it is on TPU, Trainium and Inferentia (XLA), on Gaudi (lazy graphs, or `torch.compile`),
        on MTIA, and on what has no PyTorch device of its own. Others run operator by operator.
        """
        return self.pytorch_device in (None, "xla", "hpu", "mtia")

    def supports(self, dtype: str) -> bool:
        """Return whether the device has a stated rate for `dtype`.

        Raises:
            UnknownNameError: no such dtype.
        """
        return RATE_DTYPES[rate_name(dtype)] in self.dtypes

    def peak_flops_per_s(self, dtype: str, tensor_core: bool = True) -> float:
        """Return the dense peak rate for `dtype`, FLOP/s (or integer operations/s).

        Args:
            dtype: PyTorch's name, "tf32", or a short form such as "bf16".
            tensor_core: True for the matrix unit where there is one ("float32" is still true
                float32: ask for "tf32" to get the tensor cores' rate); False for the vector
                lanes: lanes x 2 FLOP x units x clock.

        Raises:
            UnknownNameError: no such dtype.
            UnsupportedError: the device has no stated rate for it.
        """
        rate = rate_name(dtype)
        found = self._matrix_rate(rate) if tensor_core else self._vector_rate(rate)
        if found is None:
            dtype, names = RATE_DTYPES[rate], ", ".join(self.dtypes)
            lacking = (
                Text("{device} has no stated rate for {dtype}.", device=self.name, dtype=dtype)
                if tensor_core
                else Text(
                    "{device} has no stated vector rate for {dtype}.", device=self.name, dtype=dtype
                )
            )
            raise UnsupportedError(
                lacking,
                Text("It has: {names}.", names=names or Text("none")),
                Text(
                    "Choose one of these, or another device: gpuscope devices --dtype {rate}",
                    rate=rate,
                ),
            )
        return found

    def _matrix_rate(self, rate: str) -> float | None:
        rates = dict(self.peaks)
        return rates.get(f"{rate}_tensor", rates.get(rate))

    def _vector_rate(self, rate: str) -> float | None:
        rates = dict(self.peaks)
        if rate in ("fp32", "fp64") and rate in rates:
            return rates[rate]
        lanes = {
            "fp64": self.fp64_lanes_per_unit,
            "fp32": self.fp32_lanes_per_unit,
            "fp16": self.fp16_lanes_per_unit,
            "bf16": self.bf16_lanes_per_unit,
        }.get(rate)
        if lanes is None or self.compute_units is None or self.clock_hz is None:
            return None
        return 2.0 * lanes * self.compute_units * self.clock_hz

    def flops_per_clock_per_unit(self, dtype: str, tensor_core: bool = True) -> float:
        """Return peak / (units x boost clock), FLOP per clock per unit.

        On Hopper and Blackwell this reads 5-13 % less than the hardware's round number, because
        NVIDIA states tensor peaks at a lower clock than the maximum SM clock (H100: 1.83 GHz
        against 1.98 GHz).

        Raises:
            UnsupportedError: the device lacks the dtype, its unit count or its clock.
        """
        units, clock_hz = self.require("compute_units"), self.require("clock_hz")
        return self.peak_flops_per_s(dtype, tensor_core) / (units * clock_hz)

    # -- figures and their origin -----------------------------------------------------------

    def require(self, field: str) -> float:
        """Return a numeric figure that the caller cannot do without.

        Raises:
            UnknownNameError: the device has no such field.
            UnsupportedError: no source states the figure for this device.
        """
        self._check_field(field)
        value = getattr(self, field)
        if not isinstance(value, (int, float)):
            raise UnsupportedError(
                Text("{device} has no {field} in the catalogue.", device=self.name, field=field),
                Text(
                    "No source states it, or the field does not apply to this kind of accelerator."
                ),
                Text("Give it yourself: --set {field}=...", field=field),
            )
        return float(value)

    def origin(self, field: str) -> str | None:
        """Return where a figure comes from.

        Returns:
            "datasheet" (its maker states it), "secondary source" (only others do), "measured",
            "calibrated", "estimated" or "what-if"; None for a figure that the catalogue does not
            have. Rates are asked for as "bf16", "fp64_tensor".

        Raises:
            UnknownNameError: the device has no such field.
        """
        known = dict(self.origins)
        if field in known:
            return known[field]
        return "datasheet" if self.has(field) else None

    def has(self, field: str) -> bool:
        """Return whether the catalogue has a figure; rates are asked for as "bf16", "fp64_tensor".

        Raises:
            UnknownNameError: the device has no such field.
        """
        if field in dict(self.peaks):
            return True
        self._check_field(field)
        return getattr(self, field) is not None

    def source(self, field: str) -> str | None:
        """Return the source of a figure in words, or None where there is none to name.

        Raises:
            UnknownNameError: the device has no such field.
        """
        known = dict(self.sources)
        if field in known:
            return "; ".join(known[field])
        if field not in dict(self.peaks):
            self._check_field(field)
        return None

    def _check_field(self, field: str) -> None:
        if field not in _FIELD_NAMES:
            rates = (rate for rate, _ in self.peaks)
            raise UnknownNameError(
                Text("device field"),
                field,
                (*_FIELD_NAMES, *rates),
                Text("Type: gpuscope devices --fields"),
            )

    # -- what-if ----------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Device:
        """Return a what-if device: this one with some figures changed.

        Scaling `compute_units` or `clock_hz` scales every peak in proportion, unless
        `peak_flops_per_s` (a mapping of dtype to FLOP/s, a multiplier for all, or a single
        mapping entry) is given too. `memory_bytes` moves `memory_usable_bytes` in proportion.
        Changed figures get the origin "what-if" and the name shows them.

        Raises:
            UnknownNameError: no such field; lists the near ones.
            InvalidValueError: a value that is not a positive number.
        """
        plain = {k: v for k, v in changes.items() if k != "peak_flops_per_s"}
        for field, value in plain.items():
            self._check_field(field)
            if field not in REPLACEABLE:
                raise InvalidValueError(
                    Text("'{field}' cannot be changed.", field=field),
                    Text("Only figures can be changed, not names or origins."),
                    Text("Choose among: {names}.", names=", ".join(REPLACEABLE)),
                )
            _check_positive(field, value)
        new: dict[str, Any] = {k: _like_field(k, v) for k, v in plain.items()}
        if "memory_bytes" in new and "memory_usable_bytes" not in new:
            share = self.memory_usable_bytes / self.memory_bytes
            new["memory_usable_bytes"] = round(new["memory_bytes"] * share)
        if "scale_up_bandwidth_bytes_per_s" in new:
            new["scale_up"] = self._changed_link("scale_up", new)
        if "host_link_bandwidth_bytes_per_s" in new:
            new["host_link"] = self._changed_link("host_link", new)
        peaks = self._scaled_peaks(new, changes.get("peak_flops_per_s"))
        touched = [*new, *(rate for rate, value in peaks if dict(self.peaks).get(rate) != value)]
        origins = {**dict(self.origins), **dict.fromkeys(touched, WHAT_IF)}
        shown = ", ".join(f"{k}={_short(v)}" for k, v in changes.items())
        real = {k: v for k, v in new.items() if k in _DATACLASS_FIELDS}
        return replace(
            self,
            **real,
            peaks=peaks,
            name=f"{self.name} [{shown}]" if changes else self.name,
            origins=tuple(origins.items()),
            sources=tuple((f, s) for f, s in self.sources if f not in touched),
        )

    def _changed_link(self, link: str, new: Mapping[str, Any]) -> Interconnect:
        current: Interconnect | None = getattr(self, link)
        if current is None:
            raise InvalidValueError(
                Text("{device} has no {link} link to change.", device=self.name, link=link),
                "",
                Text("Choose a device that has one."),
            )
        return current.with_bandwidth(new[f"{link}_bandwidth_bytes_per_s"], WHAT_IF)

    def _scaled_peaks(
        self, new: Mapping[str, Any], given: Mapping[str, float] | float | None
    ) -> tuple[tuple[str, float], ...]:
        scale = 1.0
        for field in ("compute_units", "clock_hz"):
            if field in new:
                scale *= new[field] / self.require(field)
        if isinstance(given, (int, float)):
            _check_positive("peak_flops_per_s", given)
            scale, given = float(given), None
        peaks = {rate: value * scale for rate, value in self.peaks}
        for dtype, value in (given or {}).items():
            _check_positive(f"peak_flops_per_s[{dtype}]", value)
            rate = dtype if dtype in peaks else rate_name(dtype)
            peaks[f"{rate}_tensor" if f"{rate}_tensor" in peaks else rate] = float(value)
        return tuple(peaks.items())

    @property
    def scale_up_bandwidth_bytes_per_s(self) -> float | None:
        """All scale-up links of the device together, one direction, bytes/s."""
        return self.scale_up.bandwidth_bytes_per_s if self.scale_up else None

    @property
    def host_link_bandwidth_bytes_per_s(self) -> float | None:
        """The link to the host, one direction, bytes/s."""
        return self.host_link.bandwidth_bytes_per_s if self.host_link else None


_DATACLASS_FIELDS: frozenset[str] = frozenset(f.name for f in fields(Device))
_FIELD_NAMES: frozenset[str] = _DATACLASS_FIELDS | {
    "scale_up_bandwidth_bytes_per_s",
    "host_link_bandwidth_bytes_per_s",
}

#: The figures that `replace` may change.
REPLACEABLE: tuple[str, ...] = (
    "memory_bytes",
    "memory_usable_bytes",
    "memory_bandwidth_bytes_per_s",
    "compute_units",
    "clock_hz",
    "l2_bytes",
    "last_level_cache_bytes",
    "on_chip_sram_bytes",
    "l1_per_unit_bytes",
    "shared_memory_per_unit_bytes",
    "shared_memory_per_block_bytes",
    "registers_per_unit",
    "registers_per_thread",
    "max_threads_per_unit",
    "max_warps_per_unit",
    "max_blocks_per_unit",
    "fp32_lanes_per_unit",
    "special_function_units_per_unit",
    "copy_engines",
    "launch_latency_s",
    "tdp_w",
    "idle_power_w",
    "price_usd_per_hour",
    "scale_up_bandwidth_bytes_per_s",
    "host_link_bandwidth_bytes_per_s",
    "scale_up_max_devices",
    "devices_per_node",
)

_WHOLE = frozenset(
    name for name in REPLACEABLE if not name.endswith(("_per_s", "_s", "_w", "_hz", "_per_hour"))
)


def _like_field(field: str, value: float) -> float | int:
    return round(value) if field in _WHOLE else float(value)


def _check_positive(field: str, value: object) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:  # type: ignore[operator, arg-type]
        raise InvalidValueError(
            Text("{field} = {given} cannot be.", field=field, given=repr(value)),
            Text("It must be a positive number, in SI base units."),
        )


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)
