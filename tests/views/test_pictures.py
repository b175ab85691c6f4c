"""Static pictures: whole, repeatable, and true to the figures they draw."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from both import both
from figure_samples import AMOUNTS, BARS, EXPLAINED, EXPLORER, FIGURE_BLOCKS, LINES, RING, SORTS

from gpuscope.document.blocks import Explanation, HeatMap, Paragraph
from gpuscope.errors import InputFileError, InvalidValueError, MissingPackageError
from gpuscope.views import pictures
from gpuscope.views.line_breaks import columns
from gpuscope.views.pictures import drawing, explorer, fonts
from gpuscope.views.pictures.style import colours, shade, shortened, wrapped

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("block", FIGURE_BLOCKS, ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_each_sort_of_figure_becomes_svg(block, lang) -> None:
    text = pictures.svg(block, lang)
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert "date" not in text.lower()  # nothing that changes from day to day


def test_equal_figures_are_equal_files() -> None:
    assert pictures.svg(BARS) == pictures.svg(BARS)
    assert pictures.png(LINES) == pictures.png(LINES)
    assert pictures.svg(BARS) != pictures.svg(dataclasses.replace(BARS, limit=5e-3))


def test_files_are_numbered_and_named(tmp_path: Path) -> None:
    section = dataclasses.replace(EXPLAINED.sections[0], blocks=FIGURE_BLOCKS[:3])
    few = dataclasses.replace(EXPLAINED, sections=(section,))
    files = pictures.write_pictures(few, tmp_path / "figures", "en")
    assert len(files) == 2 * 3
    assert all(file.is_file() and file.stat().st_size > 1000 for file in files)
    assert files[0].name == "01-where-12-ms-go-at-0-10-and-0-20.svg"
    assert files[3].name == "02-reach-by-size.png"
    assert {p.name for p in tmp_path.iterdir()} == {"figures"}  # nothing temporary stays


def test_an_old_folder_keeps_what_else_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    written = pictures.write_blocks([Paragraph(both("a", "b")), BARS], tmp_path)
    assert [file.suffix for file in written] == [".svg", ".png"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_no_figure_no_file(tmp_path: Path) -> None:
    plain = Explanation("x", both("x", "x"), (), ())
    assert pictures.write_pictures(plain, tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_all_or_nothing(tmp_path: Path, monkeypatch) -> None:
    """A figure that cannot be drawn leaves no folder with half of them."""

    def broken(block, lang):
        raise ValueError("cannot")

    monkeypatch.setitem(drawing.FIGURES, HeatMap, broken)
    with pytest.raises(ValueError, match="cannot"):
        pictures.write_pictures(EXPLAINED, tmp_path / "figures")
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputFileError, match="is a file"):
        pictures.write_pictures(EXPLAINED, file)
    with pytest.raises(InputFileError, match="does not exist"):
        pictures.check_folder(tmp_path / "a" / "b")


def test_words_are_no_figure() -> None:
    with pytest.raises(InvalidValueError, match="not a figure"):
        pictures.picture(Paragraph(both("a", "b")))


def test_without_matplotlib_it_says_what_to_install(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"gpuscope\[figures\]"):
        pictures.picture(BARS)
    with pytest.raises(MissingPackageError):
        pictures.write_pictures(EXPLAINED, tmp_path / "figures")


def test_the_users_own_settings_stay() -> None:
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 23.0}):
        pictures.svg(BARS)
        assert mpl.rcParams["font.size"] == 23.0


def test_bars_are_as_long_as_their_values() -> None:
    axes = pictures.picture(BARS).axes[0]
    by_row: dict[int, float] = {}
    for drawn in axes.collections:
        for path in drawn.get_paths():
            box = path.get_extents()
            row = round((box.y0 + box.y1) / 2)
            by_row[row] = by_row.get(row, 0.0) + box.width
    assert by_row == pytest.approx({0: 4e-3, 1: 6e-3, 2: 0.0})
    texts = [text.get_text() for text in axes.texts]
    assert {"4.00 ms", "6.00 ms", "0 s", "at best: 4.50 ms"} <= set(texts)


def test_lines_keep_their_points_and_gaps() -> None:
    axes = pictures.picture(LINES).axes[0]
    x, y = axes.lines[0].get_data()
    assert list(x) == list(LINES.series[0].x)
    assert y[3] != y[3]
    assert y[5] == 3.5e12
    assert axes.get_xscale() == "log"
    assert axes.get_ylim()[0] == 0


def test_the_first_row_of_a_map_is_on_top() -> None:
    for block in (SORTS, AMOUNTS):
        axes = pictures.picture(block).axes[0]
        bottom, top = axes.get_ylim()
        assert bottom > top
    assert "1.91 MiB" in {t.get_text() for t in axes.texts}


def test_a_long_algorithm_shows_its_first_steps_and_says_so() -> None:
    figure = pictures.picture(RING, "en")
    assert len(figure.axes) == 8
    assert any("2 more steps" in text.get_text() for text in figure.texts)


def test_a_rate_that_all_ways_share_is_said_once() -> None:
    texts = [text.get_text() for text in pictures.picture(RING).texts]
    assert "Each way carries 400 GB/s." in texts
    inside = [text.get_text() for axes in pictures.picture(RING).axes for text in axes.texts]
    assert "part 1" in inside
    assert not any("GB/s" in text for text in inside)


def test_an_explorer_is_drawn_where_it_starts() -> None:
    """The last slider runs fastest, and begins at its second stop (bf16)."""
    time, rate = explorer.curves(EXPLORER)
    assert time.series[0].y == (5e-4, 2e-3, 8e-3)
    assert time.series[0].low == (4e-4, 1e-3, 6e-3)
    assert rate.series[0].y == (4e12, 8e12, 1.6e13)
    other = dataclasses.replace(EXPLORER, x="dtype")
    assert explorer.curves(other)[0].series[0].y == (4e-3, 2e-3)
    assert [mark.label for mark in explorer.curves(other)[0].marks] == ["fp32", "bf16"]


def test_a_missing_font_is_said_once(monkeypatch) -> None:
    monkeypatch.setattr(fonts, "chinese_font", lambda: None)
    assert fonts.missing_font("en") is None
    assert "Noto Sans CJK" in (fonts.missing_font("zh") or "")
    assert fonts.families() == ["DejaVu Sans"]


def test_text_fits_its_room() -> None:
    assert columns("ab显存") == 6
    chinese = wrapped("显存带宽决定了这一步，" * 5, 20)
    assert all(columns(line) <= 22 for line in chinese.splitlines())
    assert shortened("a" * 50, 20).count("a") == 19
    assert columns(shortened("显存" * 20, 20)) <= 21
    assert len({shade("#3b76d9", n) for n in range(6)}) == 6
    assert re.fullmatch(r"#[0-9a-f]{6}", shade("#3b76d9", 30))


def test_parts_of_one_bar_never_share_a_colour() -> None:
    named = [("a", "compute"), ("b", "tensor"), ("c", "compute"), ("d", "memory")]
    assert len(set(colours(named).values())) == 4


def test_nothing_is_drawn_at_import() -> None:
    code = "import sys, gpuscope.views.pictures; print('matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
