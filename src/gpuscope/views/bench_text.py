"""The figures of a bench in words: what, how much, and of which case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuscope.document import format as units
from gpuscope.document.text import Text, render
from gpuscope.measurement.bench.figures import Figure
from gpuscope.measurement.bench.types import Value
from gpuscope.views.i18n import tr

_OPS: Mapping[str, Text] = {
    "ws_read": Text("read"),
    "ws_write": Text("write"),
    "ws_copy": Text("copy"),
    "fwd": Text("forward"),
    "bwd": Text("backward"),
    "dgrad": Text("data gradient"),
    "wgrad": Text("weight gradient"),
    "h2d_pinned": Text("host to device, pinned"),
    "d2h_pinned": Text("device to host, pinned"),
    "h2d_pageable": Text("host to device, pageable"),
    "d2h_pageable": Text("device to host, pageable"),
    "both_pinned": Text("both ways at once, pinned"),
    "idle_with_context": Text("idle"),
    "matmul_bf16": Text("bf16 products"),
    "copy_hbm": Text("memory copies"),
    "to": Text("to"),
    "from": Text("from"),
}
"""Words of the data as a reader knows them."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a card.

    Attributes:
        label: what was measured.
        value: how much, with its unit.
        fraction: of the physical limit, 0..1; None if there is no stated one.
        limit: what the limit is, in words; "" without one.
        case: at which sizes.
    """

    label: str
    value: str
    fraction: float | None
    limit: str
    case: str


def line(figure: Figure, lang: str) -> Line:
    """Return a figure in words."""
    make = _LINES.get(figure.key, _plain)
    label, limit, case = make(figure.detail, lang)
    if figure.fraction is None:
        limit = ""
    return Line(label, value(figure, lang), figure.fraction, limit, case)


def value(figure: Figure, lang: str) -> str:
    """Return the figure's value with its unit."""
    shown: dict[str, Callable[[float | None, str], str]] = {
        "flops_per_s": units.flop_rate,
        "bytes_per_s": units.byte_rate,
        "s": units.time,
        "w": units.power,
        "hz": _clock,
        "x": units.ratio,
    }
    if figure.detail.get("dtype") == "int8":
        return units.flop_rate(figure.value, lang).replace("FLOP/s", "OP/s")
    return shown[figure.unit](figure.value, lang)


def word(text: Value, lang: str) -> str:
    """Return a word of the data as a reader knows it."""
    return render(_OPS.get(str(text), str(text)), lang)


def _clock(value_hz: float | None, lang: str) -> str:
    return tr("not available", lang) if value_hz is None else f"{value_hz / 1e6:.0f} MHz"


def _matmul(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    m, n, k = d["m"], d["n"], d["k"]
    case = f"{m}³" if m == n == k else f"{m} × {n} × {k}"
    dtype = d["dtype"]
    label = tr("Matrix product, {dtype}", lang, dtype=dtype)
    return label, tr("of its {dtype} peak", lang, dtype=dtype), case


def _attention(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    case = f"{d['b']} × {d['h']} × {d['sq']} × {d['d']}"
    if d["causal"]:
        case += " " + tr("causal", lang)
    label = tr(
        "Attention {direction}, {dtype}", lang, direction=word(d["dir"], lang), dtype=d["dtype"]
    )
    return label, tr("of its {dtype} peak", lang, dtype=d["dtype"]), case


def _decode(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    case = f"{d['b']} × {d['hkv']} × {d['skv']} × {d['d']}"
    return tr("Attention, decode", lang), tr("of its memory bandwidth", lang), case


def _convolution(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    layout = {"nhwc": "NHWC", "nchw": "NCHW"}.get(str(d["layout"]), str(d["layout"]))
    return (
        tr("Convolution, {dtype} {layout}", lang, dtype=d["dtype"], layout=layout),
        tr("of its {dtype} peak", lang, dtype=d["dtype"]),
        word(d["dir"], lang),
    )


def _memory(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    return (
        tr("Device memory, {op}", lang, op=word(d["op"], lang)),
        tr("of its memory bandwidth", lang),
        f"{d['mib']} MiB",
    )


def _cache(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    return tr("L2 cache, {op}", lang, op=word(d["op"], lang)), "", f"{d['mib']} MiB"


def _link(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    both = d["op"] == "both_pinned"
    limit = tr("of both directions", lang) if both else tr("of the link", lang)
    return (
        tr("Copy, {op}", lang, op=word(d["op"], lang)),
        limit,
        units.size(float(d["bytes"]), lang),
    )


def _beside(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    return tr("Products beside a copy", lang), "", word(d["copy"], lang)


def _peer(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    ends = (d["here"], d["there"]) if d["op"] == "to" else (d["there"], d["here"])
    return (
        tr("Copy, device {a} to device {b}", lang, a=ends[0], b=ends[1]),
        tr("of the link", lang),
        "",
    )


def _power(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    return tr("Power, {load}", lang, load=word(d["load"], lang)), "", ""


def _sustained(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    return (
        tr("Sustained products, {dtype}", lang, dtype=d["dtype"]),
        tr("of its {dtype} peak", lang, dtype=d["dtype"]),
        tr("for a second", lang),
    )


def _clock_line(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    return tr("Clock, {load}", lang, load=word(d["load"], lang)), "", ""


def _dispatch(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    return tr("Host, one operator", lang), "", f"{d['name']}, {d['variant']}"


def _launch(_d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    return tr("Launch call to kernel start", lang), "", ""


def _collective(d: Mapping[str, Value], lang: str) -> tuple[str, str, str]:
    label = tr("{operation}, {ranks} ranks", lang, operation=d["operation"], ranks=d["ranks"])
    return label, tr("of the link", lang), ""


def _plain(_d: Mapping[str, Value], _lang: str) -> tuple[str, str, str]:
    return "", "", ""


_LINES: Mapping[str, Callable[[Mapping[str, Value], str], tuple[str, str, str]]] = {
    "matmul": _matmul,
    "attention": _attention,
    "decode": _decode,
    "convolution": _convolution,
    "memory": _memory,
    "cache": _cache,
    "link": _link,
    "beside_copy": _beside,
    "peer": _peer,
    "power": _power,
    "sustained": _sustained,
    "clock": _clock_line,
    "dispatch": _dispatch,
    "launch": _launch,
    "collective": _collective,
}


def headline(figures: tuple[Figure, ...], device: str, lang: str) -> str:
    """Return one sentence: only what was measured is in it.

    >>> # "NVIDIA H200 reaches 80 % of its bf16 peak at 8192³; 92 % of its memory bandwidth; ..."
    """
    parts = []
    product = next((f for f in figures if f.key == "matmul" and f.detail["dtype"] == "bf16"), None)
    product = product or next((f for f in figures if f.key == "matmul"), None)
    if product is not None:
        case = _matmul(product.detail, lang)[2]
        if product.fraction is not None:
            parts.append(
                tr(
                    "{share} of its {dtype} peak at {case}",
                    lang,
                    share=units.share(product.fraction, lang),
                    dtype=product.detail["dtype"],
                    case=case,
                )
            )
        else:
            parts.append(f"{value(product, lang)} ({product.detail['dtype']}, {case})")
    bandwidth = {f.detail["op"]: f for f in figures if f.key == "memory"}
    memory = next(
        (bandwidth[op] for op in ("ws_read", "ws_copy", "ws_write") if op in bandwidth), None
    )
    if memory is not None and memory.fraction is not None:
        parts.append(
            tr("{share} of its memory bandwidth", lang, share=units.share(memory.fraction, lang))
        )
    elif memory is not None:
        parts.append(tr("{rate} from memory", lang, rate=value(memory, lang)))
    host = next((f for f in figures if f.key == "dispatch"), None)
    text = ""
    if parts:
        reached = tr("; ", lang).join(parts)
        text = tr("{device} reaches {what}", lang, device=device, what=reached)
    if host is not None:
        spent = value(host, lang)
        if text:
            text += tr("; ", lang)
            text += tr("its host dispatches an operator in {time}", lang, time=spent)
        else:
            text = tr("This host dispatches an operator in {time}", lang, time=spent)
    return text + tr(".", lang) if text else ""
