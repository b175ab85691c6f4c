"""The figures of a verdict as parts of its sentence; None where a figure was not read."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.explain.types import Words
from gpuscope.watch import thresholds as at
from gpuscope.watch.window import Window

NOTHING_READ = Words(
    "the device tells neither utilisation nor power", "设备既不提供利用率，也不提供功耗"
)
ONLY_POWER = Words("it tells nothing else", "没有其他读数")
WAITS_FOR_RANK = Words(
    "a kernel is there but nothing moves: perhaps a collective that waits for another rank",
    "一直有内核驻留，却几乎没有工作：可能是集合通信在等待另一个 rank",
)
SMALL_KERNELS = Words(
    "kernels too small to fill the device", "内核太小，填不满设备"
)  # fmt: skip
GAPS = Words("gaps between kernels", "内核之间有空隙")
NO_TENSOR = Words("work on the SMs, little of it on tensor cores", "SM 在工作，但很少用到张量核心")
NO_COUNTERS = Words("this device does not tell which unit is busy", "该设备不提供各单元的活动计数")
LOW_POWER_MEANS = Words(
    "kernels run all the time, but do little for their power",
    "一直有内核在运行，但功耗说明工作很少",
)


def sentence(head: Words, evidence: Sequence[Words | None]) -> Words:
    """Return "Head: one, two, three" in both languages; parts that are None are left out."""
    told = [each for each in evidence if each is not None]
    if not told:
        return head
    return Words(
        f"{head.en}: " + ", ".join(each.en for each in told),
        f"{head.zh}：" + "，".join(each.zh for each in told),
    )


def busy(w: Window) -> Words | None:
    """Utilisation, and whether it comes in bursts."""
    if w.busy is None:
        return None
    share = _percent(w.busy)
    if w.busy < at.STEADY and (w.swing or 0.0) >= at.BURSTS:
        return Words(f"utilisation {share} in bursts", f"利用率 {share}，时高时低")
    return Words(f"utilisation {share}", f"利用率 {share}")


def units(w: Window) -> tuple[Words | None, ...]:
    """SMs, tensor cores and memory."""
    return (
        _share("SMs {}", "SM {}", w.sm),
        _share("tensor cores {}", "张量核心 {}", w.tensor),
        _share("memory bandwidth {}", "显存带宽 {}", w.memory_bandwidth),
    )


def sm_while_busy(w: Window) -> Words | None:
    """How many SMs worked while any did."""
    return _share("{} of the SMs at work while it runs", "运行时 {} 的 SM 在工作", w.sm_while_busy)


def power(w: Window) -> Words | None:
    """Power against its limit."""
    if w.power_share is None:
        if w.power_w is None:
            return None
        return Words(f"power {w.power_w:.0f} W", f"功耗 {w.power_w:.0f} W")
    share = _percent(w.power_share)
    if w.power_share < at.POWER_LOW:
        return Words(f"power low ({share} of its limit)", f"功耗低（上限的 {share}）")
    return Words(f"power {share} of its limit", f"功耗为上限的 {share}")


def power_held(w: Window) -> Words | None:
    """How often the power limit held the clock."""
    return _share(
        "clock held down {} of the time", "{} 的时间被降频", w.power_held
    )  # fmt: skip


def heat_held(w: Window) -> Words | None:
    """How often heat held the clock."""
    return _share("clock held down {} of the time", "{} 的时间被降频", w.heat_held)


def temperature(w: Window) -> Words | None:
    """The highest temperature."""
    if w.temperature_c is None:
        return None
    return Words(f"{w.temperature_c:.0f} °C", f"{w.temperature_c:.0f} °C")


def no_kernel(w: Window) -> Words:
    """For how long nothing ran."""
    if w.n < at.FEW_SAMPLES:
        return Words("no kernel runs now", "当前没有内核运行")
    return Words(f"no kernel for {w.seconds:.0f} s", f"{w.seconds:.0f} 秒内没有内核运行")


def held_memory(w: Window) -> Words | None:
    """Memory that processes hold though nothing runs."""
    if not w.n_processes or not w.memory_used_bytes:
        return None
    held = f"{w.memory_used_bytes / 2**30:.1f} GiB"
    en = "process holds" if w.n_processes == 1 else "processes hold"
    return Words(f"{w.n_processes} {en} {held}", f"{w.n_processes} 个进程占用 {held}")


def pcie(w: Window) -> Words | None:
    """Input over the host link."""
    if w.pcie_rx_bytes_per_s is None:
        return None
    rate = _rate(w.pcie_rx_bytes_per_s)
    if (w.pcie_rx_share or 0.0) >= at.PCIE_BUSY:
        return Words(f"PCIe busy ({rate} in)", f"PCIe 繁忙（流入 {rate}）")
    return Words(f"PCIe quiet ({rate} in)", f"PCIe 空闲（流入 {rate}）")


def nvlink(w: Window) -> Words | None:
    """Traffic between devices."""
    if w.nvlink_bytes_per_s is None:
        return None
    rate = _rate(w.nvlink_bytes_per_s)
    if w.nvlink_share is not None and w.nvlink_share >= at.LINKS_BUSY:
        share = _percent(w.nvlink_share)
        return Words(f"links {rate} ({share} of their rate)", f"设备互连 {rate}（峰值的 {share}）")
    return Words(f"links {rate}", f"设备互连 {rate}")


def host(w: Window) -> Words | None:
    """The processors, where they are at their end; else nothing worth a word."""
    if w.host_cpu is None or w.host_cpu < at.HOST_BUSY:
        return None
    share = _percent(w.host_cpu)
    return Words(f"processors {share} busy", f"CPU 占用 {share}")


def _share(en: str, zh: str, value: float | None) -> Words | None:
    if value is None:
        return None
    share = _percent(value)
    return Words(en.format(share), zh.format(share))


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _rate(bytes_per_s: float) -> str:
    for scale, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if bytes_per_s >= scale:
            return f"{bytes_per_s / scale:.3g} {unit}"
    return f"{bytes_per_s:.0f} B/s"
