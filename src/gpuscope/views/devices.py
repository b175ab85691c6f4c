"""Devices on the terminal: a table of many, a card of one, several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpuscope.document.text import Text as Said
from gpuscope.document.text import render, verbatim
from gpuscope.hardware import Device, Interconnect
from gpuscope.hardware.device import RATE_DTYPES, REPLACEABLE
from gpuscope.views.i18n import tr
from gpuscope.views.words import word

SCHEMA_VERSION = 1
_GIB = 2**30
_RATES = ("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4")


@dataclass(frozen=True, slots=True)
class _Row:
    """One figure of a device: its label, field and unit ("bytes", "bytes/s", "count", ...)."""

    label: Said
    field: str
    unit: str = "count"


_GROUPS: tuple[tuple[Said, tuple[_Row, ...]], ...] = (
    (
        Said("General"),
        (
            _Row(Said("Vendor"), "vendor", "text"),
            _Row(Said("Architecture"), "architecture", "text"),
            _Row(Said("Compute capability"), "compute_capability", "version"),
            _Row(Said("Launch year"), "launch_year", "text"),
            _Row(Said("Process"), "process", "text"),
            _Row(Said("PyTorch device"), "pytorch_device", "text"),
            _Row(Said("Granularity"), "granularity", "text"),
        ),
    ),
    (
        Said("Compute"),
        (
            _Row(Said("Compute units"), "compute_units"),
            _Row(Said("Boost clock"), "clock_hz", "Hz"),
            _Row(Said("Sparsity multiplier"), "structured_sparsity_multiplier"),
            _Row(Said("Copy engines"), "copy_engines"),
            _Row(Said("Launch latency"), "launch_latency_s", "s"),
        ),
    ),
    (
        Said("Peak rates"),
        tuple(_Row(verbatim(rate.upper().replace("_", " ")), rate, "rate") for rate in _RATES),
    ),
    (
        Said("Memory"),
        (
            _Row(Said("Memory type"), "memory_type", "text"),
            _Row(Said("Capacity"), "memory_bytes", "bytes"),
            _Row(Said("Usable capacity"), "memory_usable_bytes", "bytes"),
            _Row(Said("Bandwidth"), "memory_bandwidth_bytes_per_s", "bytes/s"),
            _Row(Said("L2 cache"), "l2_bytes", "bytes"),
            _Row(Said("Last-level cache"), "last_level_cache_bytes", "bytes"),
            _Row(Said("On-chip SRAM"), "on_chip_sram_bytes", "bytes"),
        ),
    ),
    (
        Said("One compute unit"),
        (
            _Row(Said("Warp size"), "warp_size"),
            _Row(Said("Threads"), "max_threads_per_unit"),
            _Row(Said("Threads per block"), "max_threads_per_block"),
            _Row(Said("Warps"), "max_warps_per_unit"),
            _Row(Said("Blocks"), "max_blocks_per_unit"),
            _Row(Said("Registers"), "registers_per_unit"),
            _Row(Said("Registers per thread"), "registers_per_thread"),
            _Row(Said("Register granularity"), "register_granularity"),
            _Row(Said("L1 cache"), "l1_per_unit_bytes", "bytes"),
            _Row(Said("Shared memory"), "shared_memory_per_unit_bytes", "bytes"),
            _Row(Said("Shared memory per block"), "shared_memory_per_block_bytes", "bytes"),
            _Row(
                Said("Shared memory reserved per block"),
                "shared_memory_reserved_per_block_bytes",
                "bytes",
            ),
            _Row(Said("Shared memory granularity"), "shared_memory_granularity_bytes", "bytes"),
            _Row(Said("FP32 lanes"), "fp32_lanes_per_unit"),
            _Row(Said("FP16 lanes"), "fp16_lanes_per_unit"),
            _Row(Said("BF16 lanes"), "bf16_lanes_per_unit"),
            _Row(Said("FP64 lanes"), "fp64_lanes_per_unit"),
            _Row(Said("Special function units"), "special_function_units_per_unit"),
        ),
    ),
    (
        Said("Links"),
        (
            _Row(Said("Host link"), "host_link", "link"),
            _Row(Said("Scale-up link"), "scale_up", "link"),
            _Row(Said("Scale-up domain"), "scale_up_max_devices"),
            _Row(Said("Fabric between nodes"), "scale_out", "link"),
            _Row(Said("Devices per node"), "devices_per_node"),
        ),
    ),
    (
        Said("Power and price"),
        (
            _Row(Said("Power limit (TDP)"), "tdp_w", "W"),
            _Row(Said("Idle power"), "idle_power_w", "W"),
            _Row(Said("Price per hour"), "price_usd_per_hour", "USD"),
            _Row(Said("List price"), "price_list_usd", "USD"),
        ),
    ),
)

#: The field that holds the origin and source of a link row.
_LINK_SOURCE = {"scale_up": "scale_up_bandwidth_bytes_per_s"}

_COMPARED = (
    "memory_bytes",
    "memory_bandwidth_bytes_per_s",
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "fp8",
    "int8",
    "fp4",
    "compute_units",
    "clock_hz",
    "l2_bytes",
    "shared_memory_per_unit_bytes",
    "scale_up",
    "scale_up_max_devices",
    "host_link",
    "tdp_w",
    "price_usd_per_hour",
)

_PER_KIND = ("compute_units", "shared_memory_per_unit_bytes")


# -- a table of many ----------------------------------------------------------------------------


def device_table(devices: Sequence[Device], lang: str = "en") -> RenderableType:
    """Return a table with one row a device, at most 100 columns wide."""
    if not devices:
        return Text(tr("No device matches.", lang))
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    table.add_column(tr("Device", lang), no_wrap=True)
    headings = ("GiB", "TB/s", "FP32", "BF16", "FP16", "FP8", tr("Link GB/s", lang), "W", "$/h")
    for heading in (tr("Units", lang), *headings):
        table.add_column(heading, justify="right")
    for device in devices:
        mark = " ?" if device.confidence == "shaky" else ""
        table.add_row(f"{device.id}{mark}", *_table_cells(device))
    about = tr(
        "{count} devices. Rates are dense TFLOP/s; links count one direction; '?' marks doubt.",
        lang,
        count=len(devices),
    )
    return Group(table, Text(f"\n{about}", style="dim"))


def _table_cells(device: Device) -> tuple[str, ...]:
    peaks = dict(device.peaks)
    rates = (peaks.get(rate) for rate in ("fp32", "bf16", "fp16", "fp8"))
    link = device.scale_up_bandwidth_bytes_per_s
    return (
        _count(device.compute_units),
        f"{device.memory_bytes / _GIB:.3g}",
        _compact(device.memory_bandwidth_bytes_per_s / 1e12),
        *(_compact(rate / 1e12 if rate else None) for rate in rates),
        _compact(link / 1e9 if link else None),
        _or_dash(device.tdp_w, "g"),
        _or_dash(device.price_usd_per_hour, ".2f"),
    )


def _count(value: int | None) -> str:
    if value is not None and value >= 100_000:
        return f"{value / 1000:g}k"
    return _or_dash(value, "d")


def _compact(value: float | None) -> str:
    """Four digits, never in the exponent form that Python takes above them."""
    return _or_dash(value, ".4g" if (value or 0) < 1e4 else ".0f")


def _or_dash(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)


# -- one card -----------------------------------------------------------------------------------


def device_card(device: Device, lang: str = "en") -> RenderableType:
    """Return everything the catalogue knows of one device, with origins, sources and doubts."""
    numbers: dict[str, int] = {}
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for heading in (Said("Figure"), Said("Value"), Said("Origin"), Said("Source")):
        table.add_column(render(heading, lang), overflow="fold")
    for group, rows in _GROUPS:
        shown = [row for row in rows if group != "Peak rates" or _value(device, row) is not None]
        table.add_row(Text(render(group, lang), style="bold cyan"))
        for row in shown:
            table.add_row(*_card_cells(device, row, numbers, lang))
    confidence = f"{tr('confidence', lang)}: {word(device.confidence, lang)}"
    title = Text.assemble((device.name, "bold"), f"  {device.id}  ", (confidence, "dim"))
    parts: list[RenderableType] = [title, Text(), table]
    if numbers:
        parts.append(Text(f"\n{tr('Sources', lang)}", style="bold"))
        parts.extend(Text(f"[{number}] {source}") for source, number in numbers.items())
    if device.notes:
        parts.append(Text(f"\n{tr('Notes and doubts', lang)}", style="bold"))
        parts.extend(Text(f"- {note}") for note in device.notes)
    return Group(*parts)


def _card_cells(
    device: Device, row: _Row, numbers: dict[str, int], lang: str
) -> tuple[str | Text, ...]:
    label = f"  {render(row.label, lang)}"
    value = _value(device, row)
    if value is None:
        return label, Text(tr("not available", lang), style="dim"), "", ""
    field = _LINK_SOURCE.get(row.field, row.field)
    cited = []
    for known, sources in device.sources:
        if known == field:
            cited = [numbers.setdefault(source, len(numbers) + 1) for source in sources]
    origin = "" if row.unit in ("text", "version") and not cited else device.origin(field) or ""
    doubt = " ?" if field in device.doubtful else ""
    return (
        label,
        format_figure(value, row.unit) + doubt,
        word(origin, lang),
        " ".join(f"[{number}]" for number in cited),
    )


def _value(device: Device, row: _Row) -> Any:
    if row.unit == "rate":
        return dict(device.peaks).get(row.field)
    return getattr(device, row.field)


def format_figure(value: Any, unit: str) -> str:
    """Return a figure with the unit that suits its size, such as "4.8 TB/s" or "228 KiB"."""
    if isinstance(value, Interconnect):
        rate = value.bandwidth_bytes_per_s
        return f"{value.name}, {_scaled(rate, 'B/s')}" if rate else value.name
    if unit == "version":
        return ".".join(str(part) for part in value)
    if unit == "bytes":
        return _binary(value)
    if unit in ("bytes/s", "Hz", "rate"):
        return _scaled(value, {"bytes/s": "B/s", "Hz": "Hz", "rate": "FLOP/s"}[unit])
    if unit == "s":
        return f"{value * 1e6:.3g} us"
    if unit == "W":
        return f"{value:g} W"
    if unit == "USD":
        return f"${value:,.2f}"
    return str(value) if unit == "text" else f"{value:,g}" if value < 1e6 else f"{value:,.0f}"


def _scaled(value: float, unit: str) -> str:
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def _binary(value: int) -> str:
    for size, prefix in ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if value >= size:
            return f"{value / size:.4g} {prefix}B"
    return f"{value} B"


# -- side by side -------------------------------------------------------------------------------


def comparison_table(devices: Sequence[Device], lang: str = "en") -> RenderableType:
    """Return devices side by side, each figure with its ratio to the first device's."""
    rows = {row.field: row for _, group in _GROUPS for row in group}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(tr("Figure", lang), overflow="fold")
    for device in devices:
        table.add_column(device.id, overflow="fold")
    for field in _COMPARED:
        row = rows[field]
        values = [_value(device, row) for device in devices]
        if all(value is None for value in values):
            continue
        # A ratio of SMs to TensorCores says nothing.
        alike = field not in _PER_KIND or len({d.compute_unit_label for d in devices}) == 1
        cells = [_compared(value, values[0] if alike else None, row.unit, lang) for value in values]
        table.add_row(render(row.label, lang), *cells)
    about = tr("Ratios are to {first}.", lang, first=devices[0].id)
    return Group(table, Text(f"\n{about}", style="dim"))


def _compared(value: Any, first: Any, unit: str, lang: str) -> str:
    if value is None:
        return tr("not available", lang)
    if isinstance(value, Interconnect):
        rate = value.bandwidth_bytes_per_s
        text = _scaled(rate, "B/s") if rate else value.name
        value, first = rate, first.bandwidth_bytes_per_s if first else None
    else:
        text = format_figure(value, unit)
    if value is None or first is None:
        return text
    ratio = value / first
    return f"{text} ({ratio:.2f}x)" if ratio < 100 else f"{text} ({ratio:.0f}x)"


# -- fields, and JSON ---------------------------------------------------------------------------


def field_table(lang: str = "en") -> RenderableType:
    """Return the names of all figures, and which of them a what-if can set."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (Said("Field"), Said("Figure"), Said("Settable")):
        table.add_column(render(heading, lang))
    for group, rows in _GROUPS[1:]:
        for row in rows:
            settable = row.field in REPLACEABLE or row.unit in ("rate", "link")
            name = f"{row.field}_bandwidth_bytes_per_s" if row.unit == "link" else row.field
            if row.field == "scale_out":
                continue
            figure = f"{render(group, lang)}: {render(row.label, lang)}"
            table.add_row(name, figure, tr("yes", lang) if settable else tr("no", lang))
    return table


def figure_fields() -> list[str]:
    """Return the fields of a device that its document has as they are."""
    return [row.field for _, rows in _GROUPS for row in rows if row.unit not in ("rate", "link")]


def device_document(device: Device) -> dict[str, Any]:
    """Return a device as plain JSON values: figures, origins, sources and notes."""
    document: dict[str, Any] = {
        "id": device.id,
        "name": device.name,
        "confidence": device.confidence,
        **{name: getattr(device, name) for name in figure_fields()},
        "compute_unit_label": device.compute_unit_label,
        "peak_flops_per_s": dict(device.peaks),
        "dtypes": [RATE_DTYPES[r] for r in RATE_DTYPES if RATE_DTYPES[r] in device.dtypes],
        "host_link": _link_document(device.host_link),
        "scale_up": _link_document(device.scale_up),
        "scale_out": _link_document(device.scale_out),
        "origins": dict(device.origins),
        "sources": {field: list(sources) for field, sources in device.sources},
        "doubtful": list(device.doubtful),
        "notes": list(device.notes),
    }
    capability = device.compute_capability
    document["compute_capability"] = list(capability) if capability else None
    return document


def _link_document(link: Interconnect | None) -> dict[str, Any] | None:
    if link is None:
        return None
    return {
        "id": link.id,
        "name": link.name,
        "bandwidth_bytes_per_s": link.bandwidth_bytes_per_s,
        "latency_s": link.latency_s,
        "topology": link.topology,
    }


def devices_document(devices: Sequence[Device]) -> dict[str, Any]:
    """Return the versioned document that `gpuscope devices --json` prints."""
    return {
        "schema": "gpuscope.devices",
        "version": SCHEMA_VERSION,
        "devices": [device_document(device) for device in devices],
    }
