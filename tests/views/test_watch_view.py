"""The screen of `watch`: what stands on it, in both languages, wide and narrow."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from watch_screens import busy_pair, filled, four_devices, samples, training

from gpuscope.measurement.sensors.nvidia import REASONS
from gpuscope.measurement.sensors.types import ProcessUse, Reading, SensorInfo
from gpuscope.views.watch import all_devices, overview, render_watch
from gpuscope.views.watch_curve import curve_text
from gpuscope.views.watch_device import SPANS_S, Look
from gpuscope.views.watch_help import help_panel
from gpuscope.views.watch_processes import process_rows, process_table
from gpuscope.views.words import word
from gpuscope.watch.history import History
from gpuscope.watch.types import Activity, DeviceSample


def printed(what, width: int = 100) -> str:
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(what)
    return file.getvalue()


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_nothing_is_wider_than_the_terminal(lang: str, width: int) -> None:
    for history in (busy_pair(), four_devices()):
        text = printed(render_watch(history, Look(lang, width)), width)
        assert max(cell_len(line) for line in text.splitlines()) <= width


def test_a_device_in_full() -> None:
    text = printed(render_watch(busy_pair(), Look("en", 100)))
    for said in (
        "Compute bound: SMs",
        "power 9",
        "tensor cores",
        "/ 700 W",
        "100 GiB / 141 GiB",
        "generation 5 × 16",
        "not throttled",
        "last 2 minutes",
        "python train.py",
        "99.0 GiB",
        "processors 10.0 %",
    ):
        assert said in text


def test_many_devices_are_a_line_each() -> None:
    text = printed(render_watch(four_devices(), Look("en", 100)))
    assert text.count("Compute bound") == 6  # a line and a sentence each
    assert text.count("Idle") == 2
    assert "╭" not in text


def test_a_narrow_screen_has_no_curves() -> None:
    narrow = printed(render_watch(busy_pair(), Look("en", 60)), 60)
    assert "last 2 minutes" not in narrow
    assert "tensor cores" in narrow


def test_chinese_has_no_english_left() -> None:
    text = printed(render_watch(four_devices(), Look("zh", 100)))
    for english in ("utilisation", "power", "sure", "bound", "Processes", "minutes"):
        assert english not in text
    assert "受算力限制" in text


def test_no_device_is_calm() -> None:
    text = printed(render_watch(filled(lambda n: [], 5), Look("en", 100)))
    assert "No accelerator is seen on this host." in text
    assert "gpuscope doctor" in text
    assert "Processes" not in text


def test_what_was_not_read_is_said_and_never_zero() -> None:
    blind = DeviceSample(SensorInfo("x", 0, "chip"), Reading(0.0, utilisation=0.5), Activity())
    text = printed(render_watch(filled(lambda n: blind, 5), Look("en", 100)))
    assert "Not available: SMs, tensor cores, memory bandwidth, power, memory, PCIe in," in text
    assert "0 W" not in text
    nothing = DeviceSample(SensorInfo("x", 0, "chip"), Reading(0.0), Activity())
    line = printed(overview(filled(lambda n: nothing, 5), Look("en", 100)))
    assert "–" in line
    assert "0 %" not in line


def test_a_part_is_told_without_its_whole() -> None:
    """A log of nvidia-smi may lack the limit, or the memory that there is."""
    reading = Reading(0.0, power_w=137.0, memory_used_bytes=2**30)
    device = DeviceSample(SensorInfo("nvidia", 0, "T4"), reading, Activity())
    text = printed(render_watch(filled(lambda _: device, 3), Look("en", 100)))
    assert "power 137 W" in text
    assert "memory 1.00 GiB" in text
    assert "tensor cores, memory bandwidth, PCIe in" in text  # not available


def test_a_throttled_device_says_why() -> None:
    def hot(n):
        made = training(n)
        return replace(
            made, reading=replace(made.reading, throttle_reasons=("hardware thermal slowdown",))
        )

    for lang, said in (("en", "hardware thermal slowdown"), ("zh", "硬件过热降频")):
        assert said in printed(render_watch(filled(hot, 12), Look(lang, 100)))


def test_every_reason_of_a_driver_is_translated() -> None:
    assert [name for _, name in REASONS if word(name, "zh") == name] == []


def test_a_silent_host_is_told_and_its_old_figures_are_gone() -> None:
    history = History()
    a, b = samples(training, 2, host="a"), samples(training, 1, host="b")
    history.add((a[0], b[0]))
    history.add((a[1],))
    text = printed(render_watch(history, Look("en", 100)))
    assert "b  does not answer" in text
    assert all_devices(history) == [("a", 0)]
    assert text.count("NVIDIA H200") == 1


def test_processes_are_sorted_by_what_they_hold() -> None:
    made = busy_pair().latest("node1").devices[0]
    several = (ProcessUse(1, "a", 5), ProcessUse(2, "b", None), ProcessUse(3, "c", 9))
    device = replace(made, reading=replace(made.reading, processes=several))
    history = filled(lambda n: device, 2)
    assert [row[2].pid for row in process_rows(history)] == [3, 1, 2]
    text = "".join(printed(part) for part in process_table(history, "en", most=2))
    assert "and 1 more" in text
    none = replace(made, reading=replace(made.reading, processes=()))
    text = "".join(printed(p) for p in process_table(filled(lambda n: none, 2), "en"))
    assert "No process is on a device." in text


def test_curves_by_hand() -> None:
    assert curve_text([0.0, 0.5, 1.0, None, 7.0]) == "▁▄▇ ▇"
    assert curve_text([5.0], top=10.0) == "▄"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_help_explains_every_verdict(lang: str) -> None:
    text = printed(help_panel(Look(lang, 100)))
    assert ("Waiting for input" if lang == "en" else "等待输入数据") in text
    assert ("torch.compile") in text


def test_spans_have_names() -> None:
    assert [Look("en", 80, s).span for s in SPANS_S] == [
        "last minute",
        "last 2 minutes",
        "last 5 minutes",
        "last 10 minutes",
    ]
