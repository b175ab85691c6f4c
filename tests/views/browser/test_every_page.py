"""What holds for every sort of page: it opens from disk, alone, for everyone, on every screen."""

from __future__ import annotations

import re

import pytest
from browser_pages import PAGE_NAMES

from gpuscope.views.html import PAGE_VERSION, embedded, read_embedded

pytestmark = pytest.mark.slow

OPENS_WITHIN_S = 2.0


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_it_opens_at_once_without_errors_and_without_a_network(name, pages, browse) -> None:
    opened = browse(pages[name])
    scroll_through(opened.page)
    assert opened.errors == []
    assert opened.requests == [pages[name].as_uri()]
    assert opened.ready_s < OPENS_WITHIN_S
    assert pages[name].stat().st_size <= 2.5e6


@pytest.mark.parametrize(
    ("lang", "width", "dark"),
    [
        ("en", 1440, False),
        ("en", 1440, True),
        ("zh", 1440, True),
        ("en", 390, True),
        ("zh", 390, False),
    ],
)
@pytest.mark.parametrize("name", PAGE_NAMES)
def test_nothing_stands_in_anyone_s_way(name, lang, width, dark, pages, browse) -> None:
    """The axe rules for accessibility, with everything drawn, at a moment where there is one."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = browse(pages[name], width=width, dark=dark).page
    if lang == "zh":
        page.click("#language")
    scroll_through(page)
    page.evaluate("(({ cursor } = {}) => cursor?.set(cursor.high / 2))(window.play)")
    found = axe.run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", PAGE_NAMES)
def test_a_narrow_screen_need_not_scroll_sideways(name, lang, pages, browse) -> None:
    opened = browse(pages[name], width=390, height=844)
    if lang == "zh":
        opened.page.click("#language")
    scroll_through(opened.page)
    wide = opened.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390, f"{name} is {wide} pixels wide"
    assert opened.errors == []


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_the_language_switches_everything(name, pages, browse) -> None:
    opened = browse(pages[name])
    page = opened.page
    scroll_through(page)
    before = headings(page)
    page.click("#language")
    assert page.get_attribute("html", "lang") == "zh"
    scroll_through(page)
    after = headings(page)
    assert len(after) == len(before)
    words = [t for t in after if re.search(r"[a-z]{4,} [a-z]{3,} [a-z]{3,}", t)]
    # Names of models, devices and operators stay as they are.
    assert [t for t in words if t in before and not t.startswith(("gpt2", "NVIDIA"))] == []
    page.click("#language")
    scroll_through(page)
    assert headings(page) == before
    assert opened.errors == []


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_the_theme_follows_the_system_and_the_reader(name, pages, browse) -> None:
    page = browse(pages[name], dark=True).page
    assert page.get_attribute("html", "data-theme") == "dark"
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "light"


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_it_prints(name, pages, browse, tmp_path) -> None:
    opened = browse(pages[name])
    scroll_through(opened.page)
    opened.page.pdf(path=str(tmp_path / "page.pdf"))
    assert (tmp_path / "page.pdf").stat().st_size > 20_000
    assert opened.errors == []


def test_what_cannot_be_read_says_so_in_both_languages(pages, browse, tmp_path) -> None:
    whole = pages["explanation"].read_text("utf-8")
    before, data, after = re.split(r'(?<=id="data">)(.*?)(?=</script>)', whole, maxsplit=1)
    newer = tmp_path / "newer.html"
    content = read_embedded(data) | {"version": PAGE_VERSION + 1}
    newer.write_text(before + embedded(content) + after, "utf-8")
    broken = tmp_path / "broken.html"
    broken.write_text(before + data[:5000] + after, "utf-8")
    for path, english in ((newer, "newer gpuscope"), (broken, "cut off or damaged")):
        page = browse(path).page
        told = page.inner_text("main")
        assert english in told
        assert re.search(r"[一-鿿]", told)


def scroll_through(page) -> None:
    """Let everything that is drawn late be drawn."""
    page.evaluate(
        """async () => {
          for (let y = 0; y < document.documentElement.scrollHeight; y += 600) {
            scrollTo(0, y);
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)));
          }
          scrollTo(0, 0);
        }"""
    )


def headings(page) -> list[str]:
    return page.eval_on_selector_all(
        "h1, h2, h3, figcaption", "all => all.map((e) => e.textContent.trim())"
    )
