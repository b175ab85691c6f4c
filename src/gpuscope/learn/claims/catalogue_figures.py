"""Figures of the catalogue of devices and links, as sources for checks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuscope.errors import UnknownNameError
from gpuscope.explain.types import Words
from gpuscope.hardware import Device, Interconnect, device, devices, interconnect
from gpuscope.hardware.device import RATE_DTYPES
from gpuscope.learn.claims.scales import both
from gpuscope.learn.claims.types import Figure, NoFigureError, Source

_FIELDS: Mapping[str, tuple[str, str, str]] = {
    "compute_units": ("compute units", "计算单元数", ""),
    "clock_hz": ("boost clock", "加速频率", "GHz"),
    "memory_bytes": ("memory", "显存", "GiB"),
    "memory_bandwidth_bytes_per_s": ("memory bandwidth", "显存带宽", "GB/s"),
    "l2_bytes": ("L2 cache", "L2 缓存", "MiB"),
    "last_level_cache_bytes": ("last-level cache", "末级缓存", "MiB"),
    "on_chip_sram_bytes": ("on-chip SRAM", "片上 SRAM", "MB"),
    "tdp_w": ("power limit", "功耗上限", "W"),
    "launch_year": ("year of launch", "发布年份", "year"),
    "price_usd_per_hour": ("price an hour", "每小时价格", "USD"),
    "warp_size": ("warp size", "线程束大小", "threads"),
    "max_threads_per_unit": ("resident threads of a unit", "每单元驻留线程数", "threads"),
    "max_blocks_per_unit": ("resident blocks of a unit", "每单元驻留线程块数", "blocks"),
    "fp32_lanes_per_unit": ("FP32 lanes of a unit", "每单元 FP32 通路数", ""),
    "fp16_lanes_per_unit": ("FP16 lanes of a unit", "每单元 FP16 通路数", ""),
    "structured_sparsity_multiplier": ("gain of structured sparsity", "结构化稀疏增益", "x"),
    "scale_up_max_devices": ("devices in one scale-up domain", "单个 scale-up 域的设备数", ""),
    "devices_per_node": ("devices of a node", "每节点设备数", ""),
    "scale_out_ports_per_node": ("fabric ports of a node", "每节点网络端口数", ""),
}
"""Field of `Device` to its name and unit."""

_LINK_FIELDS: Mapping[str, tuple[str, str, str]] = {
    "bandwidth_bytes_per_s": ("one direction", "单向", "GB/s"),
    "bandwidth_per_link_bytes_per_s": ("one link, one direction", "每条链路单向", "GB/s"),
    "links_per_device": ("links of a device", "每设备链路数", ""),
    "max_devices": ("devices that it joins at most", "最多连接设备数", ""),
    "latency_s": ("latency", "延迟", "µs"),
}

_ORIGINS: Mapping[str, str] = {
    "datasheet": "数据手册", "measured": "实测", "calibrated": "标定", "estimated": "估计",
}  # fmt: skip


def catalogue(name: str, field: str, label: tuple[str, str] | None = None) -> Source:
    """A figure of a device: a numeric field of `Device`, or its peak rate by dtype.

    Args:
        name: the device, as `gpuscope.device` takes it.
        field: a field, or "bf16", "fp16", "tf32", ... for the dense peak, FLOP/s.
        label: a short name; the device's own by default.

    The source raises:
        UnknownNameError: no such device or figure.
        NoFigureError: the catalogue has no such figure for the device.
    """

    def compute() -> Figure:
        found = device(name)
        if field in dict(found.peaks):
            value, words = dict(found.peaks)[field], _rate_words(field)
        elif field.removesuffix("_tensor") in RATE_DTYPES:
            raise _not_stated(found.name, *_rate_words(field)[:2])
        elif field not in _FIELDS:
            raise UnknownNameError("figure", field, (*_FIELDS, *RATE_DTYPES))
        else:
            words = _FIELDS[field]
            if getattr(found, field) is None:
                raise _not_stated(found.name, *words[:2])
            value = found.require(field)
        return _figure(found, field, float(value), words, label)

    return compute


def _not_stated(name: str, en: str, zh: str) -> NoFigureError:
    return NoFigureError(
        f"No source of the catalogue states it: {name}, {en}.",
        f"目录没有任何来源给出：{name}，{zh}。",
    )


def _rate_words(field: str) -> tuple[str, str, str]:
    rate = field.upper().replace("_TENSOR", " tensor core")
    return f"dense {rate} peak", f"稠密 {rate} 峰值", "TFLOPS"


def _figure(
    found: Device,
    field: str,
    value: float,
    words: tuple[str, str, str],
    label: tuple[str, str] | None,
) -> Figure:
    en, zh, unit = words
    shown = both(value, unit)
    origin = found.origin(field) or "datasheet"
    return Figure(
        value,
        Words(
            f"{found.name}, {en}: {shown.en} ({origin})",
            f"{found.name}，{zh}：{shown.zh}（{_ORIGINS.get(origin, origin)}）",
        ),
        Words(*(label or (_short(found), _short(found)))),
        "catalogue",
        _sources(found, field),
    )


def _sources(found: Device, field: str) -> tuple[str, ...]:
    return dict(found.sources).get(field, ())


def _short(found: Device) -> str:
    return found.name.removeprefix(f"{found.vendor} ")


def has_rate(name: str, dtype: str) -> Source:
    """1 if the catalogue states a rate of the device for a dtype, else 0."""

    def compute() -> Figure:
        found = device(name)
        rates = {rate.removesuffix("_tensor") for rate, _ in found.peaks}
        stated = dtype in rates
        en = f"{found.name}: {dtype.upper()} rate {'stated' if stated else 'not stated'}"
        zh = f"{found.name}：{'有' if stated else '没有'} {dtype.upper()} 算力"
        return Figure(
            float(stated), Words(en, zh), Words(_short(found), _short(found)), "catalogue",
            _sources(found, dtype),
        )  # fmt: skip

    return compute


def most(field: str, vendor: str = "", architecture: str = "", least: bool = False) -> Source:
    """The largest (or least) value of a field in the whole catalogue, and whose it is."""

    def compute() -> Figure:
        found = [
            d for d in devices()
            if vendor in d.vendor and architecture in d.architecture and _value(d, field)
        ]  # fmt: skip
        best = (min if least else max)(found, key=lambda d: _value(d, field))
        words = _FIELDS.get(field) or _rate_words(field)
        return _figure(best, field, _value(best, field), words, None)

    return compute


def _value(found: Device, field: str) -> float:
    rates = dict(found.peaks)
    return float(rates[field] if field in rates else getattr(found, field, 0) or 0)


def how_many(vendor: str, field: str, value: str) -> Source:
    """The share of a vendor's devices whose text field has a value, 0..1."""

    def compute() -> Figure:
        all_ = [d for d in devices() if d.vendor == vendor]
        hits = [d for d in all_ if getattr(d, field) == value]
        en = f"{len(hits)} of {len(all_)} {vendor} devices have {field} = {value}"
        zh = f"{vendor} 的 {len(all_)} 种设备中有 {len(hits)} 种 {field} = {value}"
        return Figure(len(hits) / len(all_), Words(en, zh), Words(vendor, vendor), "catalogue")

    return compute


def process_nm(name: str) -> Source:
    """The process of a device in metres, read from its name ("TSMC N5", "TSMC 7nm")."""

    def compute() -> Figure:
        found = device(name)
        match = re.search(r"(\d+)\s*nm|\bN(\d)\b", found.process or "")
        if match is None:
            raise _not_stated(found.name, "process", "工艺")
        metres = float(f"{match[1] or match[2]}e-9")
        return Figure(
            metres,
            Words(
                f"{found.name}, process: {found.process}", f"{found.name}，工艺：{found.process}"
            ),
            Words(_short(found), _short(found)),
            "catalogue",
            _sources(found, "process"),
        )

    return compute


def text_is(name: str, field: str, wanted: str) -> Source:
    """1 if a text field of a device is exactly `wanted`, else 0."""

    def compute() -> Figure:
        found = device(name)
        value = str(getattr(found, field))
        said = field.replace("_", " ")
        return Figure(
            float(value == wanted),
            Words(f"{found.name}, {said}: {value}", f"{found.name}，{said}：{value}"),
            Words(_short(found), _short(found)),
            "catalogue",
            _sources(found, field),
        )

    return compute


def link(
    name: str, field: str = "bandwidth_bytes_per_s", label: tuple[str, str] | None = None
) -> Source:
    """A figure of an interconnect, by default its bandwidth in ONE direction, bytes/s."""

    def compute() -> Figure:
        found = interconnect(name)
        return _link_figure(found, field, label or (found.name, found.name))

    return compute


def own_link(name: str, which: str, label: tuple[str, str] | None = None) -> Source:
    """Bandwidth in one direction of a device's own "host_link", "scale_up" or "scale_out"."""

    def compute() -> Figure:
        found = device(name)
        way = getattr(found, which)
        if way is None:
            raise _not_stated(found.name, which.replace("_", " "), "互连")
        figure = _link_figure(way, "bandwidth_bytes_per_s", label or (found.name, found.name))
        how = Words(f"{found.name}, {figure.how.en}", f"{found.name}，{figure.how.zh}")
        return Figure(figure.value, how, figure.label, "catalogue", figure.sources)

    return compute


def _link_figure(found: Interconnect, field: str, label: tuple[str, str]) -> Figure:
    value = getattr(found, field)
    if value is None:
        raise _not_stated(found.name, *_LINK_FIELDS[field][:2])
    en, zh, unit = _LINK_FIELDS[field]
    shown = both(float(value), unit)
    return Figure(
        float(value), Words(f"{found.name}, {en}: {shown.en}", f"{found.name}，{zh}：{shown.zh}"),
        Words(*label), "catalogue", found.sources,
    )  # fmt: skip


def kind_is(name: str, kinds: tuple[str, ...]) -> Source:
    """1 if an interconnect is of one of these kinds ("host", "scale-up", ...), else 0."""

    def compute() -> Figure:
        found = interconnect(name)
        return Figure(
            float(found.kind in kinds),
            Words(f"{found.name}: kind {found.kind}", f"{found.name}：类别 {found.kind}"),
            Words(found.name, found.name),
            "catalogue",
            found.sources,
        )

    return compute


def topology_has(name: str, word: str) -> Source:
    """1 if an interconnect's topology names a word, else 0."""

    def compute() -> Figure:
        found = interconnect(name)
        text = found.topology or "not stated"
        return Figure(
            float(word.lower() in text.lower()),
            Words(f"{found.name}, topology: {text}", f"{found.name}，拓扑：{text}"),
            Words(found.name, found.name),
            "catalogue",
            found.sources,
        )

    return compute
