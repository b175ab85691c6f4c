"""What may run in a page, and whose code it holds: both are said in the page itself."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from test_bench_view import result

from gpuscope.views.bench_page import render_bench_page
from gpuscope.views.html import page

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = files("gpuscope.views").joinpath("page", "page.html").read_text("utf-8")
NOTICES = (ROOT / "THIRD-PARTY-NOTICES").read_text("utf-8")


class _Page(HTMLParser):
    """Scripts that would run, styles, attributes that would run or style, and the policy."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.policy: dict[str, list[str]] = {}
        self.found: dict[str, list[str]] = {"script": [], "style": []}
        self.notices, self.attributes = "", set()
        self._at: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag, attributes) -> None:
        given = dict(attributes)
        self.attributes |= {n for n in given if n == "style" or n.startswith("on")}
        if given.get("http-equiv") == "Content-Security-Policy":
            rules = (rule.split() for rule in given["content"].split(";"))
            self.policy = {name: sources for name, *sources in rules}
        self._at = {"tag": tag, **given} if tag in self.found else None

    def handle_data(self, text: str) -> None:
        at, self._at = self._at, None
        if at is None:
            return
        if at.get("id") == "notices":
            self.notices = text
        if at["tag"] == "style" or at.get("type") in (None, "module", "text/javascript"):
            self.found[at["tag"]].append(text)


def _hashes(texts: list[str]) -> list[str]:
    digests = (hashlib.sha256(text.encode("utf-8")).digest() for text in texts)
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]


@pytest.mark.parametrize(
    "text",
    [page("claims", {"name": "<script>x()</script>"}, "a <b> title", "en"), TEMPLATE],
    ids=["written", "template"],
)
def test_only_the_page_s_own_script_and_style_may_run(text: str) -> None:
    read = _Page(text)
    assert read.policy["default-src"] == ["'none'"]
    assert read.policy["script-src"] == _hashes(read.found["script"])
    assert read.policy["style-src"] == _hashes(read.found["style"])
    assert len(read.found["script"]) == len(read.found["style"]) == 1
    assert "unsafe" not in str(read.policy)
    assert read.attributes == set()


def test_the_bench_s_page_has_a_style_and_no_script() -> None:
    read = _Page(render_bench_page(result(), "en"))
    assert read.policy["default-src"] == ["'none'"]
    assert read.policy["style-src"] == _hashes(read.found["style"])
    assert "script-src" not in read.policy
    assert read.found["script"] == []
    assert read.attributes == set()


def test_every_page_carries_the_notices_of_what_it_holds() -> None:
    assert _Page(TEMPLATE).notices.replace("\\u003c", "<") == NOTICES
    banner = TEMPLATE.partition("<html")[0]
    for name, licence in (("echarts", "Apache-2.0"), ("zrender", "BSD-3-Clause")):
        assert re.search(rf"{name} [\d.]+ \({licence}\)", banner)
        assert re.search(rf"^{name} [\d.]+ \({licence}\)", NOTICES, re.M)
    for words in (
        "Apache License",
        "Copyright 2017-2026 The Apache Software Foundation",  # echarts' NOTICE
        "Copyright (c) 2017, Baidu Inc.",  # zrender's licence
        "Copyright 2010-2016 Mike Bostock",  # d3, within echarts
    ):
        assert words in NOTICES


def test_the_wheel_carries_them_too() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(project["license-files"]) == {"LICENSE", "THIRD-PARTY-NOTICES"}
