"""The card of a bench, its page, its document, and two benches side by side."""

from __future__ import annotations

import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "measurement" / "bench"))

from bench_builders import dispatch, result, slowed

from gpuscope.measurement.bench.compare import compare_benches
from gpuscope.measurement.bench.figures import figures
from gpuscope.measurement.bench.types import BenchRun, Failure
from gpuscope.views.bench import bench_card
from gpuscope.views.bench_chart import Curve, chart
from gpuscope.views.bench_compare import comparison_card, comparison_document, verdict
from gpuscope.views.bench_document import bench_document
from gpuscope.views.bench_page import render_bench_page
from gpuscope.views.bench_text import _LINES, headline, line
from gpuscope.views.i18n import tr
from gpuscope.views.terminal import make_console


def printed(renderable) -> str:
    out = io.StringIO()
    make_console(out).print(renderable)
    return out.getvalue()


def test_the_sentence_has_what_was_measured() -> None:
    made = result()
    text = headline(figures(made), "NVIDIA H200", "en")
    assert text == (
        "NVIDIA H200 reaches 80.0 % of its bf16 peak at 8192³; 92.0 % of its memory bandwidth; "
        "its host dispatches an operator in 4.10 µs."
    )
    assert "bf16" in headline(figures(made), "NVIDIA H200", "zh")


def test_the_sentence_has_nothing_else() -> None:
    only_host = result(points=(dispatch("add", 4.1e-6),))
    assert headline(figures(only_host), "CPU", "en") == (
        "This host dispatches an operator in 4.10 µs."
    )
    assert headline((), "NVIDIA H200", "en") == ""


def test_a_device_without_limits_gets_rates_not_shares() -> None:
    from dataclasses import replace

    points = tuple(replace(p, bound="", bound_s=None) for p in result().points)
    text = headline(figures(result(points=points)), "Someone's GPU", "en")
    assert "792 TFLOP/s" in text
    assert "%" not in text


def test_the_card_shows_figures_limits_and_benches() -> None:
    text = printed(bench_card(result(), "en", "out"))
    for part in (
        "792 TFLOP/s",
        "80.0 %",
        "of its bf16 peak",
        "8192³",
        "4.28 TB/s",
        "L2 cache",
        "55.5 GB/s",
        "pageable",
        "687 W",
        "1490 MHz",
        "4.10 µs",
        "driver 580.1",
        "software power cap",
        "Saved in out.",
    ):
        assert part in text, part


def test_the_card_tells_what_is_missing() -> None:
    made = result(
        interrupted=True,
        warnings=("Another process is on the device.",),
        failures=(Failure("matmul", "mm", {}, "Out of memory."),) * 2,
        runs=(BenchRun("matmul", 1.0, 4, 7), BenchRun("peer", 0, 0, 0, "It needs two GPUs.")),
    )
    text = printed(bench_card(made, "en"))
    for part in (
        "Interrupted",
        "--resume",
        "Another process",
        "2 not measured: Out of memory.",
        "It needs two GPUs.",
        "7",
    ):
        assert part in text, part


def test_the_card_in_chinese_is_chinese() -> None:
    text = printed(bench_card(result(), "zh"))
    for english in ("Device memory", "reached", "The benches", "Sustained", "of its"):
        assert english not in text
    assert "显存" in text


def test_every_kind_of_figure_has_its_line() -> None:
    shown = {figure.key for figure in figures(result())}
    assert shown <= set(_LINES)
    for figure in figures(result()):
        each = line(figure, "en")
        assert each.label
        assert each.value
        assert bool(each.limit) == (figure.fraction is not None)


def test_the_document_is_strict_json_with_everything() -> None:
    made = result(failures=(Failure("matmul", "mm", {"m": 1}, "no"),))
    document = json.loads(json.dumps(bench_document(made), allow_nan=False))
    assert (document["schema"], document["version"]) == ("gpuscope.bench", 1)
    assert len(document["points"]) == len(made.points)
    assert document["points"][0]["fraction"] == pytest.approx(0.8)
    assert document["failures"][0]["error"] == "no"
    assert document["headline"].startswith("NVIDIA H200 reaches")
    assert document["figures"][0]["key"] == "matmul"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attributes) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "line", "circle", "polyline", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_is_whole_and_needs_nothing_else(lang: str) -> None:
    machine = dict(result().machine) | {"host": "<b>node</b> & </script>"}
    text = render_bench_page(result(machine=machine), lang)
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.seen.count("svg") == 3
    assert "b" not in page.seen
    assert not re.search(r'(?:src|href)="', text)
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["machine"]["host"] == machine["host"]
    assert tr("What this machine reaches", lang) in text


def test_a_chart_places_its_points() -> None:
    drawn = chart([Curve("a", ((1.0, 0.0), (4.0, 10.0)))], x_text=str, y_text=str, x_label="size")
    (points,) = re.findall(r'points="([^"]*)"', drawn)
    (x0, y0), (x1, y1) = (map(float, p.split(",")) for p in points.split())
    assert x0 < x1
    assert y0 > y1  # upwards is less in SVG
    assert chart([], x_text=str, y_text=str, x_label="") == ""
    assert chart([Curve("one", ((8.0, 1.0),))], x_text=str, y_text=str, x_label="")


NAMES = ("a", "b")


def test_the_verdict_names_the_machine_and_the_place() -> None:
    found = compare_benches(result(), slowed(result(), "matmul", 1.3, clock=0.77))
    text = verdict(found, NAMES, "en")
    assert text.startswith("b is slower: arithmetic 1.30×")
    assert "(its clock is lower)" in text
    assert verdict(compare_benches(result(), result()), NAMES, "en") == (
        "Neither machine is slower beyond the noise."
    )
    assert "no point in common" in verdict(
        compare_benches(result(points=()), result()), NAMES, "en"
    )
    other = result(machine={"device": "NVIDIA H100"})
    assert "expected" in verdict(compare_benches(result(), other), NAMES, "en")


def test_the_comparison_card_and_document() -> None:
    found = compare_benches(result(), slowed(result(), "memory", 1.5))
    text = printed(comparison_card(found, NAMES, "en"))
    for part in ("b is slower", "By family", "memory · working_set", "1.50×"):
        assert part in text
    assert "memory · working_set" in printed(comparison_card(found, NAMES, "zh"))
    document = json.loads(json.dumps(comparison_document(found), allow_nan=False))
    assert document["ill"] == "second"
    assert document["families"][0]["ratio"] == pytest.approx(1.5)
