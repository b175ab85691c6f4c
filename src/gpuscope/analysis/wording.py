"""Numbers in sentences: times, sizes, rates and shares with three significant digits."""

from __future__ import annotations

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def seconds(time_s: float) -> str:
    """Return "1.23 s", "45.6 ms", "7.89 us"."""
    if time_s >= 1:
        return f"{_digits(time_s)} s"
    if time_s >= 1e-3:
        return f"{_digits(time_s * 1e3)} ms"
    return f"{_digits(time_s * 1e6)} µs"


def size(nbytes: float) -> str:
    """Return "12.3 GiB", in powers of two, as every view shows memory."""
    for scale, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(nbytes) >= scale:
            return f"{_digits(nbytes / scale)} {unit}"
    return f"{_digits(nbytes)} B"


def byte_rate(bytes_per_s: float) -> str:
    """Return "4.80 TB/s"."""
    return _scaled(bytes_per_s, "B/s")


def flop_rate(flops_per_s: float) -> str:
    """Return "989 TFLOP/s"."""
    return _scaled(flops_per_s, "FLOP/s")


def percent(share: float) -> str:
    """Return "45 %", or "0.4 %" below one per cent."""
    value = share * 100
    return f"{value:.1f} %" if 0 < value < 0.95 else f"{value:.0f} %"


def _scaled(value: float, unit: str) -> str:
    for scale, prefix in _PREFIXES:
        if abs(value) >= scale:
            return f"{_digits(value / scale)} {prefix}{unit}"
    return f"{_digits(value)} {unit}"


def _digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


_LIMITERS_ZH = {
    "compute": "运算单元", "issue": "指令发射", "tensor_core": "张量核心", "memory": "显存",
    "l2": "L2 缓存", "latency": "延迟", "launch": "启动", "link": "链路", "host": "主机",
    "unknown": "未知因素",
}  # fmt: skip


def limiter_words(limiter: str) -> tuple[str, str]:
    """What limits a kernel, in words: English and Chinese ("tensor core", "张量核心")."""
    words = limiter.replace("_", " ")
    return words, _LIMITERS_ZH.get(limiter, words)
