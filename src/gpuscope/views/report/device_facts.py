"""What the catalogue and its calibrations know of a run's device, for the picture of its parts."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.unit_limits import l2_bytes_per_s
from gpuscope.cost.power import power_model
from gpuscope.errors import UnknownNameError
from gpuscope.hardware import Calibration, Device, Interconnect, calibration_for, device
from gpuscope.run import Run


@dataclass(frozen=True, slots=True)
class Peak:
    """Dense peak of one dtype; `tensor` tells the matrix units from the vector lanes."""

    dtype: str
    flops_per_s: float
    tensor: bool
    origin: str


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """One link of the device: one direction, all lanes together; None where not stated."""

    name: str
    bandwidth_bytes_per_s: float | None
    origin: str
    latency_s: float | None
    topology: str | None
    max_devices: int | None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Figures of a device; None where the catalogue does not know.

    Attributes:
        id, name, vendor, architecture: in words.
        compute_units, compute_unit_label: SMs, CUs or cores, and what they are called.
        clock_hz: the highest.
        peaks: dense rates by dtype, fastest first.
        tensor_flops_per_clock: of one unit in bf16 (fp16 where there is none).
        max_threads_per_unit, max_warps_per_unit, max_blocks_per_unit, warp_size: of one unit.
        l2_bytes, l1_bytes_per_unit, shared_bytes_per_unit, registers_per_unit: sizes.
        l2_bytes_per_s: what L2 hands to all units together; calibrated.
        l2_unit_bytes_per_s: what one unit can draw from it for matrix products; calibrated.
        memory_type, memory_bytes, memory_usable_bytes, memory_bandwidth_bytes_per_s: device memory.
        read_share, write_share: of that bandwidth, what streaming kernels reach; calibrated.
        host_link, scale_up, scale_out: its links.
        copy_engines: how many copies can run at once.
        power_limit_w, power_idle_w: limit of the board; at rest with a context open.
        price_usd_per_hour: for rent.
        calibrated_on, calibration: the device whose measurements apply, and how near it is.
        origins: field name -> datasheet, measured, calibrated, estimated.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    compute_units: int | None
    compute_unit_label: str
    clock_hz: float | None
    peaks: tuple[Peak, ...]
    tensor_flops_per_clock: float | None
    max_threads_per_unit: int | None
    max_warps_per_unit: int | None
    max_blocks_per_unit: int | None
    warp_size: int | None
    l2_bytes: int | None
    l1_bytes_per_unit: int | None
    shared_bytes_per_unit: int | None
    registers_per_unit: int | None
    l2_bytes_per_s: float | None
    l2_unit_bytes_per_s: float | None
    memory_type: str | None
    memory_bytes: int
    memory_usable_bytes: int
    memory_bandwidth_bytes_per_s: float
    read_share: float | None
    write_share: float | None
    host_link: LinkFacts | None
    scale_up: LinkFacts | None
    scale_out: LinkFacts | None
    copy_engines: int | None
    power_limit_w: float | None
    power_idle_w: float | None
    price_usd_per_hour: float | None
    calibrated_on: str | None
    calibration: str
    origins: dict[str, str]


def device_facts(run: Run) -> DeviceFacts | None:
    """Return the facts of a run's device; None where it is not in the catalogue."""
    found = device_of_run(run)
    return None if found is None else facts_of(found)


def device_of_run(run: Run) -> Device | None:
    """Return the catalogue's device that a run is of; None where it has none."""
    try:
        return device(run.device_id) if run.device_id else None
    except UnknownNameError:
        return None


def facts_of(found: Device, calibration: Calibration | None = None) -> DeviceFacts:
    """Return the facts of a device under a calibration, the catalogue's own by default."""
    known = calibration or calibration_for(found)
    power = power_model(found, known)
    per_unit = "matmul.bf16.l2_bytes_per_clock_per_unit"
    clocked = found.clock_hz is not None and per_unit in known
    return DeviceFacts(
        id=found.id,
        name=found.name,
        vendor=found.vendor,
        architecture=found.architecture,
        compute_units=found.compute_units,
        compute_unit_label=found.compute_unit_label,
        clock_hz=found.clock_hz,
        peaks=_peaks(found),
        tensor_flops_per_clock=_per_clock(found),
        max_threads_per_unit=found.max_threads_per_unit,
        max_warps_per_unit=found.max_warps_per_unit,
        max_blocks_per_unit=found.max_blocks_per_unit,
        warp_size=found.warp_size,
        l2_bytes=found.l2_bytes,
        l1_bytes_per_unit=found.l1_per_unit_bytes,
        shared_bytes_per_unit=found.shared_memory_per_unit_bytes,
        registers_per_unit=found.registers_per_unit,
        l2_bytes_per_s=l2_bytes_per_s(found, known),
        l2_unit_bytes_per_s=known.value(per_unit) * (found.clock_hz or 0.0) if clocked else None,
        memory_type=found.memory_type,
        memory_bytes=found.memory_bytes,
        memory_usable_bytes=found.memory_usable_bytes,
        memory_bandwidth_bytes_per_s=found.memory_bandwidth_bytes_per_s,
        read_share=_constant(known, "bandwidth.read_efficiency"),
        write_share=_constant(known, "bandwidth.write_efficiency"),
        host_link=_link(found.host_link),
        scale_up=_link(found.scale_up),
        scale_out=_link(found.scale_out),
        copy_engines=found.copy_engines,
        power_limit_w=found.tdp_w,
        power_idle_w=power.idle_w if power is not None else found.idle_power_w,
        price_usd_per_hour=found.price_usd_per_hour,
        calibrated_on=known.measured_on,
        calibration=known.distance,
        origins=_origins(found, known, power is not None),
    )


def _peaks(found: Device) -> tuple[Peak, ...]:
    peaks = [
        Peak(dtype, rate, True, _peak_origin(found, dtype))
        for dtype, rate in Roofs(found).peaks().items()
    ]
    vector = Roofs(found).peak_flops_per_s("float32", "pointwise")
    if vector is not None and not any(
        p.dtype == "float32" and p.flops_per_s == vector for p in peaks
    ):
        peaks.append(Peak("float32", vector, False, found.origin("fp32") or "datasheet"))
    return tuple(sorted(peaks, key=lambda p: -p.flops_per_s))


def _peak_origin(found: Device, dtype: str) -> str:
    from gpuscope.hardware import rate_name

    rate = rate_name(dtype)
    stated = dict(found.peaks)
    return found.origin(f"{rate}_tensor" if f"{rate}_tensor" in stated else rate) or ""


def _per_clock(found: Device) -> float | None:
    if found.clock_hz is None or not found.compute_units:
        return None
    for dtype in ("bfloat16", "float16", "float32"):
        if found.supports(dtype):
            return found.flops_per_clock_per_unit(dtype)
    return None


def _constant(known: Calibration, name: str) -> float | None:
    return known.value(name) if name in known else None


def _link(link: Interconnect | None) -> LinkFacts | None:
    if link is None:
        return None
    return LinkFacts(
        link.name,
        link.bandwidth_bytes_per_s,
        link.bandwidth_origin,
        link.latency_s,
        link.topology,
        link.max_devices,
    )


_CATALOGUED = {
    "compute_units": "compute_units",
    "clock_hz": "clock_hz",
    "l2_bytes": "l2_bytes",
    "l1_bytes_per_unit": "l1_per_unit_bytes",
    "shared_bytes_per_unit": "shared_memory_per_unit_bytes",
    "registers_per_unit": "registers_per_unit",
    "memory_bytes": "memory_bytes",
    "memory_usable_bytes": "memory_usable_bytes",
    "memory_bandwidth_bytes_per_s": "memory_bandwidth_bytes_per_s",
    "copy_engines": "copy_engines",
    "power_limit_w": "tdp_w",
    "price_usd_per_hour": "price_usd_per_hour",
}

_CALIBRATED = {
    "l2_bytes_per_s": "bandwidth.l2_bytes_per_clock",
    "l2_unit_bytes_per_s": "matmul.bf16.l2_bytes_per_clock_per_unit",
    "read_share": "bandwidth.read_efficiency",
    "write_share": "bandwidth.write_efficiency",
}


def _origins(found: Device, known: Calibration, powered: bool) -> dict[str, str]:
    origins = {name: found.origin(field) for name, field in _CATALOGUED.items()}
    origins |= {
        name: known.origin(constant) for name, constant in _CALIBRATED.items() if constant in known
    }
    if powered and "power.idle_share" in known:
        origins["power_idle_w"] = known.origin("power.idle_share")
    return {name: origin for name, origin in origins.items() if origin}
