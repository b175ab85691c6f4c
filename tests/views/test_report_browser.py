"""The report in a real browser: draws without errors, reacts, and stays fast.

Each test appends a script to the page that acts and leaves its findings in the document, which
headless Chromium then prints. Skipped where there is no Chromium.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from run_builders import bare_run, gpt_run

import gpuscope as gs
from gpuscope.views import units
from gpuscope.views.html import render_report
from gpuscope.views.sentences import sentence

for _room in ("loading", "timeline"):
    sys.path.insert(0, str(Path(__file__).parents[1] / _room))

from recordings import folder, trace, write  # noqa: E402
from snapshots import training  # noqa: E402

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
        if (found := shutil.which(name))
    ),
    None,
)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.slow,
]

_PROBE = """
<script>
"use strict";
const errors = [];
addEventListener("error", (e) => errors.push(e.message));
</script>
"""


@pytest.fixture
def browse(tmp_path):
    """Open a page, run a script in it, and return what the script returns."""

    def open_page(html: str, script: str, width: int = 1440) -> dict:
        page = tmp_path / "page.html"
        act = (
            "<script>{const found = (() => {" + script + "})();"
            "document.body.innerHTML = '<pre id=probe></pre>';"
            "document.getElementById('probe').textContent ="
            " JSON.stringify({...found, errors});}</script></body>"
        )
        text = html.replace("<head>", "<head>" + _PROBE, 1)
        head, _, tail = text.rpartition("</body>")
        page.write_text(head + act + tail, "utf-8")
        printed = _dump(page, tmp_path / "profile", width)
        match = re.search(r'<pre id="probe">(.*?)</pre>', printed, re.DOTALL)
        assert match, printed[-500:]
        found = json.loads(unescape(match[1]))
        assert found["errors"] == []
        return found

    return open_page


def _dump(page: Path, profile: Path, width: int) -> str:
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", f"--user-data-dir={profile}", f"--window-size={width},1000",
        "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ}
    )
    return run.stdout


def test_every_panel_is_there_and_speaks_both_languages(browse) -> None:
    found = browse(
        render_report(gpt_run(12), "en"),
        """
        const ids = [...document.querySelectorAll("section")].map((s) => s.id);
        const title = () => document.querySelector("#time h2").textContent;
        const english = title();
        document.getElementById("language").click();
        return { ids, english, chinese: title(), lang: document.documentElement.lang,
                 left: document.body.innerText.match(/\\{\\w+\\}|undefined|NaN/g) };
        """,
    )
    assert set(found["ids"]) == {
        "findings", "time", "pace", "families", "phases", "timeline", "roofline", "modules",
        "memory", "tasks", "operators", "notes", "idle", "path", "launches", "copies",
    }  # fmt: skip
    assert found["english"] == "Where the time goes"
    assert found["chinese"] == "时间花在哪里"
    assert found["lang"] == "zh-CN"
    assert found["left"] is None


def test_a_run_on_the_processor_shows_no_launches_and_no_waves(browse) -> None:
    run = gpt_run()
    assert run.analysis.launches is not None
    nothing = replace(run.analysis.launches, count=0)
    flat = tuple(replace(task, waves=0.0) for task in run.analysis.tasks)
    run = replace(run, analysis=replace(run.analysis, launches=nothing, tasks=flat))
    found = browse(
        render_report(run, "en"),
        "return { ids: [...document.querySelectorAll('section')].map((s) => s.id) };",
    )
    assert not {"launches", "tasks"} & set(found["ids"])
    assert {"time", "operators"} <= set(found["ids"])


def test_notes_are_in_the_readers_language(browse) -> None:
    note = "1 file(s) were named twice and count once."
    assert sentence(note, "zh") != note
    run = replace(gpt_run(), assumptions=(note, "Only English has this."))
    found = browse(
        render_report(run, "zh"),
        """
        const notes = () => [...document.querySelectorAll("#notes li")].map((e) => e.textContent);
        const chinese = notes();
        const about = document.getElementById("notes").innerText;
        document.getElementById("language").click();
        return { chinese, about, english: notes() };
        """,
    )
    assert found["english"] == [note, "Only English has this."]
    assert found["chinese"] == [sentence(note, "zh"), "Only English has this."]
    assert run.analysis.energy is not None
    assert sentence(run.analysis.energy.source, "zh") in found["about"]


def test_a_bare_run_shows_what_it_has(browse) -> None:
    found = browse(
        render_report(bare_run(), "en"),
        """
        return { ids: [...document.querySelectorAll("section")].map((s) => s.id),
                 text: document.getElementById("summary").innerText,
                 left: document.body.innerText.match(/undefined|NaN|null/g) };
        """,
    )
    assert "timeline" in found["ids"]
    assert "memory" not in found["ids"]
    assert found["text"].count("not available") == 4
    assert found["left"] is None


def test_the_timeline_finds_every_event_and_selects_it(browse) -> None:
    run = gpt_run(12)
    found = browse(
        render_report(run, "en"),
        """
        const tl = document.querySelector("canvas").timeline;
        tl.draw();
        let hits = 0, device = 0, overlaps = 0;
        for (const { row, lane } of tl.rows) {
          for (let k = 1; k < row.length; k++) if (tl.d.end[row[k - 1]] > tl.d.start[row[k]]) overlaps++;
        }
        for (const { y, row, lane } of tl.rows) {
          if (lane.kind !== "stream") continue;
          for (const i of row) {
            device++;
            tl.show(tl.d.start[i], tl.d.end[i]);
            if (tl.hit((tl.left + tl.width) / 2, y + 3) === i) hits++;
          }
        }
        tl.fit();
        const i = tl.rows.find((r) => r.lane.kind === "stream").row[10];
        tl.select(i);
        const facts = document.querySelector("#timeline .detail").innerText;
        const rows = [...document.querySelectorAll("#operators tr[aria-selected] th")].map((x) => x.textContent);
        tl.canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "]" }));
        const next = tl.selected;
        const before = tl.view[1] - tl.view[0];
        tl.canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
        return { hits, device, overlaps, facts, rows, moved: next !== i, zoomed: (tl.view[1] - tl.view[0]) / before };
        """,  # noqa: E501
    )
    kernels = sum(1 for k in run.timeline.events.kind if k < 4) - 1  # one is the upload
    assert found["device"] == found["hits"] == kernels
    assert found["overlaps"] == 0
    assert "limited by" in found["facts"]
    assert len(found["rows"]) == 1
    assert found["moved"]
    assert found["zoomed"] == pytest.approx(0.6)


def test_modules_open_tasks_and_operators_react(browse) -> None:
    found = browse(
        render_report(gpt_run(12), "en"),
        """
        const cells = () => [...document.querySelectorAll(".icicle button")];
        const before = cells().length;
        cells().find((c) => c.textContent === "mlp").click();
        const trail = document.querySelector("#modules .crumbs").innerText;
        const picture = () => document.querySelector("#tasks .detail").innerText;
        const first = picture();
        document.querySelectorAll("#tasks tbody tr")[1].click();
        const second = picture();
        const search = document.querySelector("#operators input");
        search.value = "gelu";
        search.dispatchEvent(new Event("input"));
        const rows = [...document.querySelectorAll("#operators tbody th")].map((x) => x.textContent);
        return { before, after: cells().length, trail, first, second, rows };
        """,  # noqa: E501
    )
    assert found["after"] < found["before"]
    assert found["trail"].startswith("step › model › h › 0…11 ×12 › mlp")
    assert "192 blocks run in 2 waves of 132" in found["first"]
    assert found["second"] != found["first"]
    assert found["rows"] == ["gelu", "gelu_backward"]


def test_switching_between_runs(browse) -> None:
    found = browse(
        render_report([gpt_run(), gpt_run(gpu="h100")], "en"),
        """
        const where = () => document.querySelector(".where b").textContent;
        const first = where();
        document.querySelectorAll(".runs button")[1].click();
        return { first, second: where(), table: document.querySelectorAll("#devices tbody tr").length };
        """,  # noqa: E501
    )
    assert "H200" in found["first"]
    assert "H100" in found["second"]
    assert found["table"] == 2


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_sticks_out_sideways(browse, width, tmp_path) -> None:
    """A window has a least width, so the page is looked at through a frame."""
    inner = tmp_path / "inner.html"
    inner.write_text(render_report(gpt_run(12), "en"), "utf-8")
    frame = (
        "<!doctype html><html><head></head><body style='margin:0'>"
        f"<iframe id=f style='width:{width}px;height:900px;border:0'></iframe></body></html>"
    )
    found = browse(
        frame,
        f"""
        const f = document.getElementById("f");
        f.contentDocument.write({json.dumps(inner.read_text("utf-8")).replace("</", "<" + chr(92) + "/")});
        f.contentDocument.close();
        const root = f.contentDocument.documentElement;
        return {{ client: root.clientWidth, scroll: root.scrollWidth }};
        """,  # noqa: E501
    )
    assert found["scroll"] <= found["client"]


def test_figures_read_as_on_the_terminal(browse) -> None:
    """The page formats figures itself: both must say the same."""
    values = [0, 1, 3, 999.7, 1000, 1024, 12345, 157_000, 1.24e9, 4.8e12, 9.894e14, 2.5e-6, 0.0123]
    html = render_report(gpt_run(), "en")
    names = "time, size, byteRate, flopRate, energy, power, count, percent, money, ratio"
    exposed = html.replace("startTheme();", f"window.shown = {{ {names} }};\nstartTheme();")
    found = browse(
        exposed,
        f"""
        const values = {json.dumps(values)};
        return {{ shown: Object.fromEntries(Object.entries(window.shown).map(([name, show]) => [name, values.map(show)])) }};
        """,  # noqa: E501
    )
    python = {
        "time": units.time, "size": units.size, "byteRate": units.byte_rate,
        "flopRate": units.flop_rate, "energy": units.energy, "power": units.power,
        "count": units.count, "percent": units.percent, "money": units.money, "ratio": units.ratio,
    }  # fmt: skip
    for name, show in python.items():
        assert found["shown"][name] == [show(value) for value in values], name


def test_twenty_thousand_events_stay_smooth(browse) -> None:
    run = gpt_run(320)
    assert len(run.timeline.events) > 20_000
    found = browse(
        render_report(run, "en"),
        """
        const tl = document.querySelector("canvas").timeline;
        const times = [];
        for (let i = 0; i < 20; i++) {
          const begin = performance.now();
          tl.zoom(i < 10 ? 0.7 : 1 / 0.7, 500);
          tl.draw();
          times.push(performance.now() - begin);
        }
        return { median: times.sort((a, b) => a - b)[10] };
        """,
    )
    # Two frames at 60 Hz, on a slow machine without a GPU.
    assert found["median"] < 33


def test_a_recording_of_many_ranks(browse, tmp_path) -> None:
    """Trust first, then who waits for whom; the timeline shows one rank at a time."""
    run = gs.load(folder(tmp_path))
    found = browse(
        render_report(run, "en"),
        """
        const ids = [...document.querySelectorAll("section")].map((s) => s.id);
        const lanes = () => document.querySelector("canvas").timeline.d.lanes.map((l) => l.rank);
        const before = lanes();
        document.querySelectorAll("#timeline .chip")[3].click();
        const after = lanes();
        const waits = [...document.querySelectorAll("#ranks tbody tr[tabindex]")];
        waits[0].click();
        return { ids, before, after, late: lanes(), rows: document.querySelectorAll("#rank-times tbody tr").length,
                 summary: document.getElementById("summary").innerText,
                 left: document.body.innerText.match(/\\{\\w+\\}|undefined|NaN/g) };
        """,  # noqa: E501
    )
    assert found["ids"][0] == "trust"
    assert {"rank-times", "ranks", "idle", "path", "launches", "symbols"} <= set(found["ids"])
    assert set(found["before"]) == {0}
    assert set(found["after"]) == {3}
    assert set(found["late"]) == {2}
    assert found["rows"] == 4
    assert "median of 3 marked step(s)" in found["summary"]
    assert found["left"] is None


def test_recordings_with_little_in_them(browse, tmp_path) -> None:
    """A snapshot has no times, a host's trace no device: both draw what they have."""
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(training()))
    document = trace(0)
    document["traceEvents"] = [e for e in document["traceEvents"] if e["cat"] == "cpu_op"]
    runs = gs.load(path), gs.load(write(tmp_path / "cpu.json", document))
    wanted = ({"memory", "findings", "notes"}, {"trust", "host", "findings", "timeline", "notes"})
    for run, panels in zip(runs, wanted, strict=True):
        found = browse(
            render_report(run, "zh"),
            """
            return { ids: [...document.querySelectorAll("section")].map((s) => s.id),
                     left: document.body.innerText.match(/\\{\\w+\\}|undefined|NaN|null/g) };
            """,
        )
        assert set(found["ids"]) == panels
        assert found["left"] is None
