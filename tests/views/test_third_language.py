"""A third language is one file: its catalogue is seen by the terminal and by the page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.document import language, translations
from gpuscope.document.blocks import Axis, Explanation, Lines, Section, Series
from gpuscope.document.text import Text
from gpuscope.views import html, i18n

pytest.importorskip("babel")

TOOL = Path(__file__).resolve().parents[2] / "tools" / "catalogue.py"


@pytest.fixture
def xx(tmp_path: Path, monkeypatch) -> None:
    """A language in which every text is «its English»."""
    spec = importlib.util.spec_from_file_location("catalogue_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    catalogue = tool.read(tool.LOCALE / "zh.po")
    for message in catalogue:
        if isinstance(message.id, tuple):
            message.string = (f"«{message.id[1]}»",) * catalogue.num_plurals
        elif message.id:
            message.string = f"«{message.id}»"
    (tmp_path / "xx.mo").write_bytes(tool.compiled(catalogue))
    monkeypatch.setattr(language, "FOLDER", tmp_path)
    for module in (language, translations, i18n, html):
        monkeypatch.setattr(module, "LANGUAGES", ("en", "xx"))
    language.catalogue.cache_clear()
    yield
    language.catalogue.cache_clear()


@pytest.mark.usefixtures("xx")
def test_the_terminal_speaks_it(monkeypatch) -> None:
    for arguments, shown in ((["devices"], "«Device»"), (["devices", "h2000"], "«Unknown ")):
        monkeypatch.setattr(sys, "argv", ["gpuscope", *arguments, "--lang", "xx"])
        assert shown in CliRunner().invoke(app, [*arguments, "--lang", "xx"]).output


@pytest.mark.usefixtures("xx")
def test_the_page_has_its_texts_words_and_sentences(tmp_path: Path) -> None:
    axis = Axis(Text("step time"), "s")
    lines = Lines(Text("Step time"), axis, axis, (Series(Text("step time"), (1.0,), (2.0,)),))
    story = Explanation("test", Text("Step time"), (), (Section(Text("Step time"), (lines,)),))
    html.write_explanation(story, tmp_path / "page.html", "xx")
    page = (tmp_path / "page.html").read_text("utf-8")
    texts, data = (
        html.read_embedded(page.split(f'id="{name}">')[1].split("</script>")[0])
        for name in ("texts", "data")
    )
    assert texts["xx"]["Show all {n}"] == "«Show all {n}»"
    assert data["lang"] == "xx"
    assert data["explanation"]["title"] == {"en": "Step time", "xx": "«Step time»"}
    assert "«Step time»" in page.split("<title>")[1].split("</title>")[0]
    assert html.strings({"limiter": "tensor_core"}, "xx") == {"tensor core": "«tensor core»"}
