"""The story on the terminal: fits, says what is known, hides nothing that is not."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from run_builders import bare_run, gpt_run

from gpuscope.analysis.launches import Launches
from gpuscope.loading import load
from gpuscope.run import Run
from gpuscope.views.figures import resample
from gpuscope.views.roofline_summary import by_family
from gpuscope.views.terminal import WIDTH, make_console, render_headline, render_run
from gpuscope.views.terminal.layout import Bar, area, bar, bars, left, right, table


def story(run: Run, lang: str = "en", width: int | None = None) -> str:
    console = make_console(io.StringIO())
    if width:
        console.width = width
    console.print(render_run(run, lang))
    return console.file.getvalue()


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("run", [gpt_run(12), bare_run()], ids=["full", "bare"])
def test_fits_a_hundred_columns(run, lang) -> None:
    assert max(cell_len(line) for line in story(run, lang).splitlines()) <= WIDTH


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_frame_closes_under_wide_characters(lang) -> None:
    lines = story(gpt_run(12), lang).splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("╰"))
    assert {cell_len(line) for line in lines[: end + 1]} == {WIDTH}


def tables(text: str) -> str:
    return text.split("Where the time goes")[1].split("What to change first")[0]


FIGURES = re.compile(
    r"(?<![\w.,])[\d.,]+ (?:ns|ms|µs|GiB|MiB|KiB|%|[TGM]FLOP/s|[TGM]B/s|W|J)(?!\w)"
)
TRACES = Path(__file__).parents[1] / "data" / "traces"


def shown(text: str) -> Counter[str]:
    """The figures of a story; names over several lines and the frame do not part them."""
    return Counter(FIGURES.findall(re.sub(r"│\n│ *", " ", text)))


@pytest.fixture(scope="module")
def stories() -> dict[str, Run]:
    """Runs with every panel: predicted, and recorded by one rank and by several."""
    return {
        "predicted": gpt_run(12),
        "ranks": load(TRACES / "4xh200" / "ddp_slow_host"),
        "recorded": load(TRACES / "h200" / "compute_bound"),
    }


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", ["predicted", "ranks", "recorded"])
def test_no_width_cuts_a_figure(name, lang, width, stories) -> None:
    """What stands on a terminal of 160 columns stands on one of 60, whole."""
    run = stories[name]
    text = story(run, lang, width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    wide = shown(story(run, lang, width=160))
    assert sum(wide.values()) > 100
    assert wide - shown(text) == Counter()
    cut = [line for line in text.splitlines() if re.search(r"[\d.,]…(?!\d)", line)]
    # Symbols may be cut; what holds shapes and figures may not.
    assert [line for line in cut if "::" not in line and "nvjet" not in line] == []


def test_a_narrow_table_gives_way_in_its_stated_order() -> None:
    """Bars get shorter, words break, headings break, bars go; then columns continue below."""
    rows = table(left("name"), bars("share of all"), right(), right("a long heading"), right("b"))
    rows.add_row("some long words", Bar(0.5, 20, "blue", "░"), "50.0 %", "1,234,567", "89.0 ms")

    def at(width: int) -> list[str]:
        console = make_console(io.StringIO())
        console.width = width
        console.print(rows)
        return [line.rstrip() for line in console.file.getvalue().splitlines()]

    def bar_cells(lines: list[str]) -> int:
        return max(len(re.findall("[█░]", line)) for line in lines)

    assert bar_cells(at(100)) == 20
    assert 4 <= bar_cells(at(64)) < 20  # shorter, the heading still whole
    assert any("a long heading" in line for line in at(64))
    assert bar_cells(at(52)) >= 4  # now the heading breaks
    assert not any("a long heading" in line for line in at(52))
    assert bar_cells(at(46)) == 0  # the bar is gone, its heading names the figure
    assert len([line for line in at(46) if "some" in line]) == 1
    assert any("share" in line for line in at(46))
    below = at(40)  # columns continue below, under the first one again
    assert len([line for line in below if "some" in line]) == 2
    for figure in ("50.0 %", "1,234,567", "89.0 ms"):
        assert sum(figure in line for line in below) == 1


def test_bars_get_shorter_before_words_break() -> None:
    narrow, wide = (story(gpt_run(12), width=width) for width in (70, 100))
    longest = [max(map(len, re.findall("█+", tables(text)))) for text in (narrow, wide)]
    assert longest[0] < longest[1]
    assert "idle: host synchronising" in narrow


def test_a_pipe_gets_plain_text() -> None:
    assert "\x1b" not in story(gpt_run())


def test_the_headline_figures() -> None:
    run = gpt_run(12)
    text = story(run)
    assert re.search(r"Step time\s+12\.3 ms\s+80 % sure: 11\.\d ms to 13\.\d ms", text)
    assert re.search(r"667 k tokens/s", text)
    assert re.search(r"Peak memory\s+7\.46 GiB of 140 GiB", text)
    assert "Does not fit" not in text
    assert "The host (the CPU that runs Python" in text.replace("│\n│ ", "")


def test_classes_add_up_to_the_step() -> None:
    text = story(gpt_run(12))
    block = text.split("Where the time goes")[1].split("By kernel family")[0]
    shares = [float(share) for share in re.findall(r"([\d.]+) %\s*$", block, re.MULTILINE)]
    assert sum(shares) == pytest.approx(100, abs=0.5)


def test_layers_are_folded() -> None:
    modules = story(gpt_run(12)).split("By module")[1].split("Roofline")[0]
    assert re.search(r"0…11 ×12\s+Block", modules)
    assert len(re.findall(r"c_fc", modules)) == 1


def test_missing_readings_are_said_and_their_panels_left_out() -> None:
    text = story(bare_run())
    for label in ("Peak memory", "Energy", "Cost", "MFU"):
        assert re.search(rf"{label}\s+not available", text), label
    for panel in ("Roofline", "By module", "Memory at the peak", "How the work is split"):
        assert panel not in text
    assert re.search(r"显存峰值\s+不可用", story(bare_run(), "zh"))


def test_work_of_the_host_has_no_waves_and_no_launches() -> None:
    run = gpt_run()
    assert "How the work is split" in story(run)
    flat = tuple(replace(task, waves=0.0) for task in run.analysis.tasks)
    nothing = Launches(
        0, 0.0, 9, 9, None, 0.0, None, None, None, 0, None, None, None, (), (), 0, None, ()
    )
    of_host = replace(run, analysis=replace(run.analysis, tasks=flat, launches=nothing))
    assert "How the work is split" not in story(of_host)
    assert "Launches and their queue" not in story(of_host)
    some = replace(run, analysis=replace(run.analysis, launches=replace(nothing, count=9)))
    assert "Launches and their queue" in story(some)


def test_what_does_not_fit_says_by_how_much() -> None:
    run = gpt_run(12)
    memory = replace(
        run.analysis.memory, fits=False, missing_bytes=3 * 2**30, capacity_bytes=4 * 2**30
    )
    tight = replace(run, fits=False, analysis=replace(run.analysis, memory=memory))
    assert "Does not fit: 3.00 GiB too much." in story(tight)
    assert "放不下：超出 3.00 GiB。" in story(tight, "zh")


def test_quiet_is_the_headline_alone() -> None:
    console = make_console(io.StringIO())
    console.print(render_headline(gpt_run(), "en"))
    text = console.file.getvalue()
    assert "Step time" in text
    assert "Where the time goes" not in text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "    "), (0.5, "██  "), (1, "████"), (2, "████"), (0.125, "▌   "), (1e-9, "▏   ")],
)
def test_bars(share, text) -> None:
    assert bar(share, 4).plain == text


def test_area_is_as_high_as_its_values() -> None:
    assert area([0, 4, 8], 2) == "  █\n ██"
    assert area([0, 0], 2) == ""


def test_resampling_keeps_peaks_and_holds_values() -> None:
    curve = resample([0, 1, 1.01, 9, 10], [1, 100, 2, 3, 3], 10)
    assert curve[1] == 100
    assert curve[5] == 2
    assert max(curve) == 100
    assert resample([0, 0], [5, 7], 3)[0] == 7


def test_roofline_families_stay_under_their_roof() -> None:
    families = by_family(gpt_run(12).analysis.roofline)
    assert [f.time_s for f in families] == sorted((f.time_s for f in families), reverse=True)
    for family in families:
        assert 0 < family.share_of_roof <= 1
    sides = {family.kind: family.compute_side for family in families}
    assert sides["matmul"]
    assert not sides["optimizer"]
