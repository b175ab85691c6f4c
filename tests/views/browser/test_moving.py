"""Going about a page that was just opened: what is asked for is what one sees, on every screen."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

HEADER_PX = 52
VIEWS = ("story", "time", "resources", "tasks", "whatif")


def settled_top(page, target: str) -> float:
    """Where an element stands in the window once nothing moves any more."""
    return page.evaluate(
        """async (id) => {
          const top = () => document.getElementById(id).getBoundingClientRect().top;
          let same = 0, last = NaN;
          for (let i = 0; i < 300 && same < 20; i++) {
            await new Promise((done) => setTimeout(done, 50));
            same = top() === last ? same + 1 : 0;
            last = top();
          }
          return last;
        }""",
        target,
    )


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["predicted", "ranks"])
def test_a_view_is_gone_to_on_a_fresh_page(name, view, width, pages, browse) -> None:
    """Panels above it are drawn late and grow; the heading must stand under the header."""
    opened = browse(pages[name], width=width, height=844, moves=True)
    page = opened.page
    link = page.locator(f"nav a[href='#{view}']")
    if not link.count():
        pytest.skip(f"{name} has no {view}")
    assert link.is_visible()
    link.click()
    top = settled_top(page, view)
    whole = page.evaluate("document.documentElement.scrollHeight - innerHeight - scrollY")
    assert HEADER_PX <= top < HEADER_PX + 40 or whole < 2  # the last view may be short
    assert page.get_attribute("nav a[aria-current]", "href") == f"#{view}" or whole < 2
    assert opened.errors == []


def test_an_address_with_a_place_opens_there(pages, browse) -> None:
    page = browse(pages["predicted"], anchor="roofline", moves=True).page
    assert HEADER_PX <= settled_top(page, "roofline") < HEADER_PX + 40


def test_the_story_begins_with_the_headline(pages, browse) -> None:
    page = browse(pages["predicted"]).page
    page.click("nav a[href='#tasks']")
    page.click("nav a[href='#story']")
    settled_top(page, "story")
    box = page.locator("#summary h1").bounding_box()
    assert box["y"] >= HEADER_PX
    assert box["y"] + box["height"] < 1000


@pytest.mark.parametrize("width", [1440, 390])
def test_the_contents_name_every_panel_and_lead_there(width, pages, browse) -> None:
    opened = browse(pages["predicted"], width=width, height=844, moves=True)
    page = opened.page
    page.click(".menu summary")
    named = page.eval_on_selector_all(".menu a", "all => all.map((e) => e.hash.slice(1))")
    panels = page.eval_on_selector_all("section.panel", "all => all.map((e) => e.id)")
    assert set(panels) <= set(named)
    page.click(".menu a[href='#kernels']")
    assert HEADER_PX <= settled_top(page, "kernels") < HEADER_PX + 40
    assert not page.locator(".menu-list").is_visible()
    assert opened.errors == []
