"""Cards in notebooks: shown by a real IPython, safe, self-contained, true to the values."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from figure_samples import EXPLAINED
from run_builders import bare_run, gpt_run

import gpuscope as gs
from gpuscope.analysis.compare import compare
from gpuscope.document import format as units
from gpuscope.errors import InvalidValueError
from gpuscope.views.html import render_explanation, render_report
from gpuscope.views.notebook import SHOWN, html, inline, load_ipython_extension

_VOID = {"br", "img", "hr", "meta"}


class Reader(HTMLParser):
    """Text and tags of a fragment; fails where a tag is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)


def read(fragment: str) -> Reader:
    reader = Reader()
    reader.feed(fragment)
    reader.close()
    assert reader.open == []
    return reader


def values():
    run = gpt_run()
    return {
        "run": run,
        "bare": bare_run(),
        "comparison": compare(run, gpt_run(layers=2)),
        "device": gs.device("h200"),
        "cpu-less device": gs.device("tpu-v5e"),
        "cluster": gs.parse_target("1024xh100"),
        "explanation": EXPLAINED,
    }


@pytest.mark.parametrize("name", list(values()))
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_cards_are_whole_and_need_nothing(name: str, lang: str) -> None:
    reader = read(html(values()[name], lang))
    assert not {tag for tag, _ in reader.tags} & {"script", "link", "iframe", "style"}
    for _, attributes in reader.tags:
        assert not any(key.startswith("on") for key in attributes)
        source = attributes.get("src") or attributes.get("href") or "data:"
        assert source.startswith("data:")  # no network
    assert "None" not in " ".join(reader.said)
    assert "nan" not in " ".join(reader.said).lower().split()


def test_a_run_shows_its_figures() -> None:
    run = gpt_run()
    said = " ".join(read(html(run, "en")).said)
    assert units.time(run.step_time_s) in said
    low, high = run.step_time_interval_s
    assert f"{units.time(low)} – {units.time(high)}" in said
    assert units.size(run.peak_memory_bytes) in said
    assert run.analysis.findings[0].title in said


def test_the_breakdown_fills_the_bar() -> None:
    widths = [
        float(style.split("width:")[1].split("%")[0])
        for tag, attributes in read(html(gpt_run(), "en")).tags
        if tag == "span" and "%;" in (style := attributes.get("style") or "")
    ]
    assert sum(widths) == pytest.approx(100, abs=0.1)


def test_what_is_missing_is_not_available() -> None:
    said = " ".join(read(html(bare_run(), "en")).said)
    assert "not available" in said
    assert "Energy" not in said


def test_names_cannot_break_out() -> None:
    run = dataclasses.replace(gpt_run(), name='<script>alert("x")</script>')
    shown = html(run, "en")
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_charts_without_matplotlib_say_how(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = " ".join(read(html(EXPLAINED, "en")).said)
    assert "gpuscope[figures]" in said


def test_other_values_have_no_card() -> None:
    with pytest.raises(InvalidValueError, match="no card for a int"):
        html(3)


def test_the_registered_names_exist() -> None:
    import importlib

    from gpuscope.views.notebook import cards

    for (module, name), function in SHOWN.items():
        assert getattr(importlib.import_module(module), name)
        assert callable(getattr(cards, function))


def test_a_real_shell_shows_them() -> None:
    """IPython's own formatter, as a notebook uses it: by `%load_ext`."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell()
    load_ipython_extension(shell)
    for value in values().values():
        data, _ = shell.display_formatter.format(value)
        assert 'class="gpuscope-card"' in data["text/html"]
        assert data["text/plain"]


def test_importing_under_ipython_registers_by_itself() -> None:
    pytest.importorskip("IPython")
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "result = shell.run_cell('import gpuscope as gs; gs.device(\"h200\")')\n"
        "data, _ = shell.display_formatter.format(result.result)\n"
        "import sys\n"
        "print('gpuscope-card' in data['text/html'], 'torch' in sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip().endswith("True False")


def test_importing_without_ipython_loads_no_views() -> None:
    code = "import gpuscope, sys; print(any(m.startswith('gpuscope.views') for m in sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


@pytest.mark.parametrize("value", [gpt_run(), [gpt_run(), gpt_run()], EXPLAINED])
def test_the_whole_page_inline(value) -> None:
    shown = inline(value, "zh", height_px=500)
    ((tag, attributes),) = read(shown._repr_html_()).tags
    assert (tag, attributes["sandbox"]) == ("iframe", "allow-scripts")
    assert attributes["srcdoc"] == shown.page
    render = render_explanation if value is EXPLAINED else render_report
    assert shown.page == render(value, "zh")
    assert "height:500px" in attributes["style"]
    assert len(repr(shown)) < 40


def test_what_no_page_shows_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        inline([])
