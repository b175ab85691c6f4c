"""What a catalogue file may contain: msgspec structs, used when a file is loaded.

Kept apart from `device.py` so that listing names and `gpuscope --help` do not make them. Their
annotations are no text, which would have to be compiled again when the first file is read.
"""

import sys
from collections.abc import Collection
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Positive = Annotated[float, Meta(gt=0, le=sys.float_info.max)]
Count = Annotated[int, Meta(gt=0)]
Size = Annotated[int, Meta(gt=0)]
Confidence = Literal["solid", "mixed", "shaky"]
Origin = Literal["datasheet", "secondary source", "measured", "calibrated", "estimated"]


class Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table that refuses unknown keys, so that a misspelt field is caught."""

    def figures(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the fields with their values."""
        names = (name for name in self.__struct_fields__ if name not in without)
        return {name: getattr(self, name) for name in names}

    def known(self) -> dict[str, Any]:
        """Return the fields that have a value."""
        return {name: value for name, value in self.figures().items() if value is not None}


class PeakTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dense peak rates, FLOP/s or integer operations/s."""

    fp64: Positive | None = None
    fp64_tensor: Positive | None = None
    fp32: Positive | None = None
    fp32_tensor: Positive | None = None
    tf32: Positive | None = None
    bf16: Positive | None = None
    fp16: Positive | None = None
    fp8: Positive | None = None
    int8: Positive | None = None
    fp4: Positive | None = None
    int4: Positive | None = None


class ComputeTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The compute units."""

    compute_units: Count | None = None
    compute_unit_label: str
    boost_clock_hz: Positive | None = None
    structured_sparsity_multiplier: Annotated[float, Meta(ge=1, le=16)] = 1.0
    copy_engines: Count | None = None
    matrix_array_side: Count | None = None
    launch_latency_s: Annotated[float, Meta(gt=0, lt=1e-3)] | None = None
    peak_flops_per_s: PeakTable = PeakTable()


class MemoryTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Memory and caches of the whole device."""

    memory_type: str | None = None
    memory_capacity_bytes: Size
    memory_usable_bytes: Size
    memory_bandwidth_bytes_per_s: Positive
    l2_bytes: Size | None = None
    last_level_cache_bytes: Size | None = None
    on_chip_sram_bytes: Size | None = None


class UnitTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of one compute unit."""

    warp_size: Count | None = None
    max_threads_per_unit: Count | None = None
    max_threads_per_block: Count | None = None
    max_warps_per_unit: Count | None = None
    max_blocks_per_unit: Count | None = None
    registers_per_unit: Count | None = None
    registers_per_thread: Count | None = None
    register_granularity: Count | None = None
    l1_per_unit_bytes: Size | None = None
    shared_memory_per_unit_bytes: Size | None = None
    shared_memory_per_block_bytes: Size | None = None
    shared_memory_reserved_per_block_bytes: Annotated[int, Meta(ge=0)] | None = None
    shared_memory_granularity_bytes: Size | None = None
    fp32_lanes_per_unit: Count | None = None
    fp16_lanes_per_unit: Count | None = None
    bf16_lanes_per_unit: Count | None = None
    fp64_lanes_per_unit: Count | None = None
    special_function_units_per_unit: Count | None = None


class LinkTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Links, by the identifiers of the interconnect files."""

    host: str | None = None
    host_lanes: Literal[1, 2, 4, 8, 16] = 16
    scale_up: str | None = None
    scale_up_bytes_per_s: Positive | None = None
    scale_up_max_devices: Count | None = None
    scale_up_topology: str | None = None
    scale_out: str | None = None
    scale_out_ports_per_node: Count | None = None
    devices_per_node: Count | None = None
    devices_per_node_options: tuple[Count, ...] = ()


class PowerTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Power of one device."""

    tdp_w: Positive | None = None
    idle_power_w: Positive | None = None


class PriceTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Prices, with the date and place they were read."""

    price_usd_per_hour: Positive | None = None
    price_list_usd: Positive | None = None
    price_note: str | None = None
    price_date: str | None = None


class SliceTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One profile of a device's slices (MIG): what an instance has of the whole."""

    name: str
    compute_units: Count
    memory_bytes: Size
    memory_eighths: Annotated[int, Meta(ge=1, le=8)]
    l2_eighths: Annotated[int, Meta(ge=1, le=8)]
    copy_engines: Count
    most: Annotated[int, Meta(ge=1, le=8)]


class SlicesFile(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file of `catalogue/slices/`, named as the device's."""

    device: str
    sources: tuple[str, ...]
    slice: tuple[SliceTable, ...]


class DeviceFile(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file of `catalogue/devices/`."""

    id: str
    name: str
    vendor: str
    architecture: str
    compute_capability: tuple[int, int] | None = None
    launch_year: Annotated[int, Meta(ge=2010, le=2100)] | None = None
    process: str | None = None
    pytorch_device: str | None = None
    pytorch_devices_per_package: Count = 1
    granularity: str
    confidence: Confidence
    software_stack: tuple[str, ...] = ()
    limits: str | None = None
    compute: ComputeTable
    memory: MemoryTable
    unit: UnitTable = UnitTable()
    links: LinkTable = LinkTable()
    power: PowerTable = PowerTable()
    price: PriceTable = PriceTable()
    origins: dict[str, Origin] = {}
    sources: dict[str, tuple[str, ...]] = {}
    doubtful: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class LimitsFile(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file of `catalogue/limits/`: what all devices of one generation share."""

    id: str
    name: str
    unit: UnitTable
    origins: dict[str, Origin] = {}
    sources: dict[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()


class InterconnectFile(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file of `catalogue/interconnects/`."""

    id: str
    name: str
    kind: Literal[
        "host",
        "coherent-host",
        "scale-up",
        "switch",
        "scale-out",
        "scale-up-and-out",
        "memory-fabric",
    ]
    vendor: str
    bandwidth_bytes_per_s: Positive | None = None
    latency_s: Annotated[float, Meta(gt=0, lt=1)] | None = None
    links_per_device: Count | None = None
    bandwidth_per_link_bytes_per_s: Positive | None = None
    topology: str | None = None
    wiring: Literal["switch", "mesh", "ring", "torus"] = "switch"
    torus_dimensions: Literal[2, 3] | None = None
    torus_plane_devices: Count | None = None
    torus_closed: bool = True
    max_devices: Count | None = None
    bandwidth_origin: Origin | None = None
    latency_origin: Origin | None = None
    confidence: Confidence
    used_by: tuple[str, ...] = ()
    sources: tuple[str, ...]
    notes: tuple[str, ...] = ()


class SourcesFile(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`catalogue/sources.toml`: short identifiers of sources, spelt out, and what they are.

    Attributes:
        sources: by identifier.
        first_hand: those of the maker itself, or read off the device.
        derived: those that are arithmetic or a guess.
    """

    sources: dict[str, str]
    first_hand: tuple[str, ...]
    derived: tuple[str, ...]


class AliasFile(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`catalogue/aliases.toml`: the names that would be ambiguous or wrong by rule alone."""

    aliases: dict[str, str]


class ClockTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dense operations a clock of one core."""

    fp32: Positive
    bf16: Positive | None = None
    int8: Positive | None = None


class ProcessorFile(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One socket, see `gpuscope.hardware.processors`."""

    name: str
    vendor: str
    architecture: str
    launch_year: Count
    cores: Count
    base_clock_hz: Positive
    boost_clock_hz: Positive
    vector_bits: Literal[128, 256, 512]
    l2_bytes: Size
    l3_bytes: Size
    memory_bandwidth_bytes_per_s: Positive
    sources: Annotated[tuple[str, ...], Meta(min_length=1)]
    flops_per_clock: ClockTable
