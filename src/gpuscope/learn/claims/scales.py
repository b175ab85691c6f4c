"""Units that claims are stated in, and numbers as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.explain.types import Words


@dataclass(frozen=True, slots=True)
class Scale:
    """One unit: how many SI units it is, and what is written after the number.

    Chinese counts large numbers in 万 and 亿, so it may have a size of its own.
    """

    size: float
    en: str
    zh: str
    size_zh: float | None = None


def _same(size: float, *texts: str) -> dict[str, Scale]:
    return {text: Scale(size, f" {text}", f" {text}") for text in texts}


SCALES: Mapping[str, Scale] = {
    "": Scale(1, "", ""),
    "x": Scale(1, "×", " 倍"),
    "%": Scale(0.01, " %", " %"),
    **_same(1, "SM", "W", "s", "bit", "FLOP", "FLOP/byte", "°C"),
    **_same(1e3, "kW"), **_same(1e6, "MW"),
    **_same(1e-3, "ms"), **_same(1e-6, "µs"), **_same(1e-9, "nm"), **_same(1e-12, "pJ"),
    **_same(1e6, "MB", "MFLOP"), **_same(1e9, "GB", "GB/s", "GHz", "GFLOP", "GT/s"),
    **_same(1e12, "TB", "TB/s", "TFLOPS"), **_same(1e15, "PFLOPS"), **_same(1e18, "EFLOPS"),
    **_same(2**20, "MiB"), **_same(2**30, "GiB"),
    **_same(1e9 / 8, "Gb/s"),
    "TFLOPS/W": Scale(1e12, " TFLOPS/W", " TFLOPS/W"),
    "FLOP/s": Scale(1, " FLOP/s", " FLOP/s"),
    "mm2": Scale(1, " mm²", " mm²"),
    "USD": Scale(1, " USD", " 美元"),
    "million USD": Scale(1e6, " million USD", " 万美元", 1e4),
    "USD/month": Scale(1, " USD a month", " 美元/月"),
    "billion": Scale(1e9, " billion", " 亿", 1e8),
    "million": Scale(1e6, " million", " 万", 1e4),
    "year": Scale(1, "", " 年"),
    "h": Scale(3600, " h", " 小时"),
    "threads": Scale(1, " threads", " 个线程"),
    "cores": Scale(1, " cores", " 个核心"),
    "units": Scale(1, " units", " 个单元"),
    "blocks": Scale(1, " blocks", " 个线程块"),
    "tiles": Scale(1, " tiles", " 个分块"),
    "chips": Scale(1, " chips", " 颗芯片"),
    "GPUs": Scale(1, " GPUs", " 块 GPU"),
    "stacks": Scale(1, " stacks", " 个堆栈"),
    "sites": Scale(1, " sites", " 个位置"),
    "channels": Scale(1, " channels", " 个通道"),
    "links": Scale(1, " links", " 条链路"),
    "instances": Scale(1, " instances", " 个实例"),
    "FMA": Scale(1, " FMA/clock", " FMA/周期"),
    "products": Scale(1, " products", " 次矩阵乘"),
    "tokens": Scale(1, " tokens", " 个 token"),
    "bytes/parameter": Scale(1, " bytes/parameter", " 字节/参数"),
    "characters/min": Scale(1, " characters a minute", " 字/分钟"),
}
"""By name. A value in SI units divided by `size` is the value in the unit."""


def show(value: float, unit: str, lang: str) -> str:
    """A value in SI units as text in a unit, e.g. "2,039 GB/s".

    Args:
        value: in SI units.
        unit: a key of `SCALES`.
        lang: "en" or "zh".
    """
    scale = SCALES[unit]
    size = (scale.size_zh if lang == "zh" else None) or scale.size
    text = number(value / size, grouped=unit != "year").replace("-", "−")
    return text + (scale.zh if lang == "zh" else scale.en)


def both(value: float, unit: str) -> Words:
    """A value in SI units as text in both languages."""
    return Words(show(value, unit, "en"), show(value, unit, "zh"))


def number(value: float, grouped: bool = True) -> str:
    """Three significant digits (four from 100 on), whole numbers in full, mostly no exponent."""
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}" if grouped else f"{value:.0f}"
    if abs(value) >= 1e15 or 0 < abs(value) < 1e-4:
        return f"{value:.3g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


class Quantity(float):
    """A number that a template can ask for in a unit: "{rate:GB/s}", or plainly "{n:.1f}"."""

    lang: str = "en"

    def __format__(self, spec: str) -> str:
        """In a unit of `SCALES`, as a plain number, or as Python formats floats."""
        if spec in SCALES:
            return show(float(self), spec, self.lang)
        return format(float(self), spec)


def fill(template: Words, values: Mapping[str, float]) -> Words:
    """Fill a template's {names} in both languages.

    Raises:
        KeyError: the template names a value that is not there.
    """
    texts = []
    for lang, text in (("en", template.en), ("zh", template.zh)):
        kind = type("Quantity", (Quantity,), {"lang": lang})
        texts.append(text.format(**{name: kind(value) for name, value in values.items()}))
    return Words(*texts)
