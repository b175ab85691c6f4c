"""The figures of a verdict as parts of its sentence; None where a figure was not read."""

from __future__ import annotations

from gpuscope.document.quantities import ByteRate, Number, Percent
from gpuscope.document.text import Text, plural, verbatim
from gpuscope.watch import thresholds as at
from gpuscope.watch.window import Window

NOTHING_READ = Text("the device tells neither utilisation nor power")
ONLY_POWER = Text("it tells nothing else")
WAITS_FOR_RANK = Text(
    "a kernel is there but nothing moves: perhaps a collective that waits for another rank"
)
SMALL_KERNELS = Text("kernels too small to fill the device")
GAPS = Text("gaps between kernels")
NO_TENSOR = Text("work on the SMs, little of it on tensor cores")
NO_COUNTERS = Text("this device does not tell which unit is busy")
LOW_POWER_MEANS = Text("kernels run all the time, but do little for their power")


def busy(w: Window) -> Text | None:
    """Utilisation, and whether it comes in bursts."""
    if w.busy is None:
        return None
    share = Percent(w.busy)
    if w.busy < at.STEADY and (w.swing or 0.0) >= at.BURSTS:
        return Text("utilisation {share} in bursts", share=share)
    return Text("utilisation {share}", share=share)


def units(w: Window) -> tuple[Text | None, ...]:
    """SMs, tensor cores and memory."""
    return (
        None if w.sm is None else Text("SMs {share}", share=Percent(w.sm)),
        None if w.tensor is None else Text("tensor cores {share}", share=Percent(w.tensor)),
        None
        if w.memory_bandwidth is None
        else Text("memory bandwidth {share}", share=Percent(w.memory_bandwidth)),
    )


def sm_while_busy(w: Window) -> Text | None:
    """How many SMs worked while any did."""
    if w.sm_while_busy is None:
        return None
    return Text("{share} of the SMs at work while it runs", share=Percent(w.sm_while_busy))


def power(w: Window) -> Text | None:
    """Power against its limit."""
    if w.power_share is None:
        if w.power_w is None:
            return None
        return Text("power {power} W", power=Number(w.power_w, ".0f"))
    share = Percent(w.power_share)
    if w.power_share < at.POWER_LOW:
        return Text("power low ({share} of its limit)", share=share)
    return Text("power {share} of its limit", share=share)


def power_held(w: Window) -> Text | None:
    """How often the power limit held the clock."""
    return _held(w.power_held)


def heat_held(w: Window) -> Text | None:
    """How often heat held the clock."""
    return _held(w.heat_held)


def temperature(w: Window) -> Text | None:
    """The highest temperature."""
    if w.temperature_c is None:
        return None
    return verbatim(f"{w.temperature_c:.0f} °C")


def no_kernel(w: Window) -> Text:
    """For how long nothing ran."""
    if w.n < at.FEW_SAMPLES:
        return Text("no kernel runs now")
    return Text("no kernel for {seconds} s", seconds=Number(w.seconds, ".0f"))


def held_memory(w: Window) -> Text | None:
    """Memory that processes hold though nothing runs."""
    if not w.n_processes or not w.memory_used_bytes:
        return None
    return plural(
        "{count} process holds {gib} GiB",
        "{count} processes hold {gib} GiB",
        w.n_processes,
        gib=Number(w.memory_used_bytes / 2**30, ".1f"),
    )


def pcie(w: Window) -> Text | None:
    """Input over the host link."""
    if w.pcie_rx_bytes_per_s is None:
        return None
    rate = ByteRate(w.pcie_rx_bytes_per_s)
    if (w.pcie_rx_share or 0.0) >= at.PCIE_BUSY:
        return Text("PCIe busy ({rate} in)", rate=rate)
    return Text("PCIe quiet ({rate} in)", rate=rate)


def nvlink(w: Window) -> Text | None:
    """Traffic between devices."""
    if w.nvlink_bytes_per_s is None:
        return None
    rate = ByteRate(w.nvlink_bytes_per_s)
    if w.nvlink_share is not None and w.nvlink_share >= at.LINKS_BUSY:
        share = Percent(w.nvlink_share)
        return Text("links {rate} ({share} of their rate)", rate=rate, share=share)
    return Text("links {rate}", rate=rate)


def host(w: Window) -> Text | None:
    """The processors, where they are at their end; else nothing worth a word."""
    if w.host_cpu is None or w.host_cpu < at.HOST_BUSY:
        return None
    return Text("processors {share} busy", share=Percent(w.host_cpu))


def _held(share: float | None) -> Text | None:
    return (
        None if share is None else Text("clock held down {share} of the time", share=Percent(share))
    )
