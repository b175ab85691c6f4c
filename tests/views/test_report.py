"""The report as a file: self-contained, safe to embed anything, written in full or not at all."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from run_builders import bare_run, gpt_run

from gpuscope.document.language import LANGUAGES
from gpuscope.document.text import render
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.run.document import run_document
from gpuscope.views.figures import distinct_names
from gpuscope.views.html import COMPRESS_ABOVE, embedded, read_embedded, render_report, write_report
from gpuscope.views.words import word


class Page(HTMLParser):
    """Collects tags, attributes and the texts of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.title = ""
        self._inside = ""
        self._attributes: dict[str, str | None] = {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attributes = dict(attrs)
        self.links += [attributes[name] for name in ("src", "href") if attributes.get(name)]
        self._inside, self._attributes = tag, attributes

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts.append((self._attributes, data))
        elif self._inside == "title":
            self.title += data


def data_of(page: Page) -> dict:
    (text,) = (text for attributes, text in page.scripts if attributes.get("id") == "data")
    return read_embedded(text)["report"]


def test_the_file_needs_no_network() -> None:
    text = render_report(gpt_run(), "en")
    page = Page(text)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert '<link rel="stylesheet"' not in text
    assert not re.search(r"@import|url\(http|fetch\(", text)
    assert "default-src 'none'" in text


def test_the_data_is_the_document() -> None:
    run = gpt_run()
    page = Page(render_report(run, "zh"))
    shown = data_of(page)["runs"][0]
    energy = run.analysis.energy
    assert energy is not None
    chinese = read_embedded(page.scripts[-1][1])["strings"]["zh"]
    assert chinese[energy.source] == render(energy.source, "zh") != energy.source
    assert chinese["tensor core"] == word("tensor_core", "zh")
    document = json.loads(json.dumps(run_document(run)))
    del document["texts"]  # the page has its own strings in every language
    assert {name: shown[name] for name in document} == document
    assert len(shown["modules_folded"]) < len(run.analysis.modules)


def test_the_page_s_own_texts_come_in_every_language() -> None:
    """Texts stand before the data, so that a page whose data are cut off can say so."""
    texts = read_embedded(Page(render_report(gpt_run(), "en")).scripts[-2][1])
    assert list(texts) == [lang for lang in LANGUAGES if lang != "en"]
    assert texts["zh"]["Show all {n}"] == "显示全部 {n} 项"


def test_kernels_and_their_groups_have_one_name() -> None:
    """What links the views: a task, a point of the roofline and their kernels share a key."""
    shown = data_of(Page(render_report(gpt_run(), "en")))["runs"][0]
    kernels = {kernel["group"] for kernel in shown["timeline"]["kernels"]}
    assert {task["group"] for task in shown["analysis"]["tasks"]} <= kernels
    assert {point["group"] for point in shown["analysis"]["roofline"]["points"]} <= kernels


def test_names_cannot_break_out_of_the_page() -> None:
    evil = "</script><script>alert(1)</script><!--\u2028GPUSCOPE_DATA GPUSCOPE_TITLE & <b>"
    page = Page(render_report(replace(gpt_run(), name=evil), "en"))
    assert len(page.scripts) == 4  # what runs, licences, texts, data
    assert page.tags.count("script") == 4
    assert data_of(page)["runs"][0]["name"] == evil.replace("\u2028", "\\u2028")
    assert page.title.startswith("</script>")


def test_much_data_is_compressed() -> None:
    data = {"text": "<&\u2028" + "x" * COMPRESS_ABOVE}
    packed = embedded(data)
    assert len(packed) < COMPRESS_ABOVE / 100
    assert "<" not in packed
    assert read_embedded(packed) == data
    assert embedded(data) == packed  # equal data make equal pages
    assert read_embedded(embedded({"small": "<"})) == {"small": "<"}


def test_several_runs_and_bare_ones() -> None:
    data = data_of(Page(render_report([gpt_run(), bare_run()], "en")))
    assert len(data["runs"]) == len(data["names"]) == 2
    with pytest.raises(InvalidValueError):
        render_report([], "en")


def test_names_are_in_the_language_of_the_page() -> None:
    both = [gpt_run(), replace(gpt_run(), origin="measured")]
    data = data_of(Page(render_report(both, "zh")))
    assert data["names"] == distinct_names(both)


def test_written_in_full_or_not_at_all(tmp_path) -> None:
    path = tmp_path / "report.html"
    write_report(gpt_run(), path, "en")
    assert path.read_text("utf-8").rstrip().endswith("</html>")
    with pytest.raises(InputFileError):
        write_report(gpt_run(), tmp_path / "no" / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
