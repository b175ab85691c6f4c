"""Nothing runs in a page but its own script, and the page itself asks for nothing else."""

from __future__ import annotations

import pytest
from browser_pages import PAGE_NAMES
from test_every_page import scroll_through

pytestmark = pytest.mark.slow

LISTEN = """() => { window.refused = [];
  document.addEventListener("securitypolicyviolation",
    (e) => window.refused.push(e.violatedDirective + " " + e.blockedURI)); }"""

INJECTED = """<script>window.ran = "script"</script>
<img src="data:," onerror="window.ran = 'handler'">
<svg onload="window.ran = 'svg'"></svg>
<style>#page { display: none }</style>
<p id="styled" style="position: fixed">x</p>
<iframe srcdoc="<script>parent.ran = 'frame'</script>"></iframe>
<base href="https://example.org/">
<script src="https://example.org/x.js"></script>"""


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_what_the_page_does_itself_is_allowed(name, pages, browse) -> None:
    """Also what is drawn late, tooltips over every chart, the other language and theme, paper."""
    opened = browse(pages[name])
    page = opened.page
    page.evaluate(LISTEN)
    scroll_through(page)
    charts = page.locator("main .chart")
    for i in range(min(charts.count(), 12)):
        charts.nth(i).scroll_into_view_if_needed()
        box = charts.nth(i).bounding_box()
        if box:
            page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            page.wait_for_timeout(30)
    page.click("#language")
    page.click("#theme")
    scroll_through(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("window.refused") == []
    assert opened.errors == []


def test_a_chart_s_tooltip_names_the_series_and_their_values(pages, browse) -> None:
    page = browse(pages["explanation"]).page
    scroll_through(page)
    chart = page.locator("main .chart").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = chart.locator("> div", has=page.locator("i.swatch"))
    tip.wait_for(state="visible")
    lines = tip.inner_text().splitlines()
    assert len(lines) > 1
    assert all(any(sign.isdigit() for sign in line) for line in lines)


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_markup_that_got_into_a_page_does_nothing(name, pages, browse, tmp_path) -> None:
    path = tmp_path / "page.html"
    text = pages[name].read_text("utf-8")
    path.write_text(text.replace('<div id="page">', INJECTED + '<div id="page">', 1), "utf-8")
    opened = browse(path)
    page = opened.page
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.getElementById('page')).display") == "block"
    assert page.evaluate("getComputedStyle(document.getElementById('styled')).position") == "static"
    assert page.evaluate("document.baseURI") == path.as_uri()
    refused = [said for said in opened.errors if "Content Security Policy" in said]
    assert len(refused) >= 5
    assert any("https://example.org/x.js" in said for said in refused)


def test_the_bench_s_page_is_drawn_as_it_says(chromium, tmp_path) -> None:
    from test_bench_view import result

    from gpuscope.views.bench_page import write_bench_page

    path = tmp_path / "bench.html"
    write_bench_page(result(), path, "en")
    context = chromium.new_context()
    try:
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda m: said.append(m.text))
        page.goto(path.as_uri())
        wide = "getComputedStyle(document.querySelector('meter')).width"
        assert page.evaluate(wide) == "128px"
        assert said == []
    finally:
        context.close()
