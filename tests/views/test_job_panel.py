"""A job on the terminal: every panel, wide and narrow, in both languages; the page's blocks."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from test_job_document import small_job

from gpuscope.document.blocks import Bars, Table
from gpuscope.run import JobPlace, Run
from gpuscope.views.report.job_blocks import job_blocks
from gpuscope.views.terminal.headline import headline
from gpuscope.views.terminal.job_panel import job, shown_rows
from gpuscope.views.terminal.mesh_picture import first_groups, link_of, short


@pytest.fixture(scope="module")
def run() -> Run:
    return small_job(tp=2, pp=2, global_batch=8)


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize(
    ("lang", "words"),
    [
        ("en", ("The job", "The mesh", "The pipeline", "pipeline bubble")),
        ("zh", ("整个作业", "设备网格", "流水线", "流水线气泡")),
    ],
)
def test_every_panel_is_there(run: Run, width: int, lang: str, words: tuple[str, ...]) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=width)
    assert run.analysis.job is not None
    for panel in (headline(run, lang), *job(run, run.analysis.job, lang)):
        console.print(panel)
    text = screen.getvalue()
    for word in words:
        assert word in text
    assert "pp1·dp3·tp1" in text


def test_links_follow_the_nodes() -> None:
    place = JobPlace(8, 8, "NVLink", "InfiniBand")
    assert first_groups((("pp", 2), ("dp", 4), ("tp", 2))) == [(0, 8), (0, 2, 4, 6), (0, 1)]
    assert link_of((0, 1), place) == "NVLink"
    assert link_of((0, 8), place) == "InfiniBand"
    assert link_of((0, 4, 8, 12), place) == "NVLink + InfiniBand"
    assert (short((0, 8)), short((0, 1, 2)), short((0, 8, 16))) == ("0, 8", "0–2", "0, 8, … 16")
    assert shown_rows(3) == [0, 1, 2]
    assert (shown_rows(100)[0], shown_rows(100)[-1], len(shown_rows(100))) == (0, 99, 16)


def test_the_blocks_of_the_page_add_up_to_the_step(run: Run) -> None:
    story = run.analysis.job
    assert story is not None
    blocks = job_blocks(run)
    (bars,) = [block for block in blocks if isinstance(block, Bars)]
    for bar in bars.bars:
        assert sum(part.value for part in bar.parts) == pytest.approx(story.step_s, rel=1e-6)
    (mesh,) = [block for block in blocks if isinstance(block, Table)]
    assert [row[0] for row in mesh.rows] == ["pp", "dp", "tp"]
