"""A real headless Chromium, and pages of every sort, written once for all browser tests."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

for _folder in (Path(__file__).parent, Path(__file__).parents[1]):
    sys.path.insert(0, str(_folder))

import gpuscope as gs  # noqa: E402
from gpuscope.run.reader import load_runs  # noqa: E402
from gpuscope.views.html import write_book, write_claims, write_explanation, write_report  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
TRACES = ROOT / "tests" / "data" / "traces"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@dataclass
class Opened:
    """A page in the browser, with all that it said and asked for.

    Attributes:
        page: Playwright's.
        ready_s: what the page's thread worked until it was there; others' work is not in it.
        errors: what it said on its console.
        requests: addresses that it asked for.
    """

    page: object
    ready_s: float = 0.0
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")  # while it is open no other test may run an event loop
def chromium() -> Iterator[object]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def browse(chromium) -> Iterator[Callable[..., Opened]]:
    """Open a file: `browse(path, width=1440, anchor="roofline")`."""
    contexts = []

    def open_page(
        path: Path,
        width: int = 1440,
        height: int = 1000,
        dark: bool = False,
        moves: bool = False,
        anchor: str = "",
    ) -> Opened:
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="no-preference" if moves else "reduce",
        )
        contexts.append(context)
        page = context.new_page()
        opened = Opened(page)
        page.on("console", lambda m: opened.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: opened.errors.append(str(e)))
        page.on("request", lambda r: opened.requests.append(r.url))
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(path.as_uri() + (f"#{anchor}" if anchor else ""))
        page.wait_for_selector("html[data-ready]")
        opened.ready_s = worked_s(session)
        session.detach()
        return opened

    yield open_page
    for context in contexts:
        context.close()


def worked_s(session) -> float:
    """Time that a page's thread worked since its `Performance.enable`."""
    found = session.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in found if each["name"] == "TaskDuration")


@dataclass(frozen=True)
class Pages:
    """Where the pages lie, by name, and the runs that two of them show."""

    paths: dict[str, Path]
    predicted: gs.Run
    ranks: gs.Run

    def __getitem__(self, name: str) -> Path:
        return self.paths[name]


from browser_pages import PAGE_NAMES  # noqa: E402


@pytest.fixture(scope="session")
def pages(tmp_path_factory) -> Pages:
    """One page of each sort, of real runs."""
    folder = tmp_path_factory.mktemp("pages")
    paths = {name: folder / f"{name}.html" for name in PAGE_NAMES}
    options = gs.WorkloadOptions(task="train", batch=4, seq=256)
    predicted = gs.predict("gpt2", on="h200", options=options)
    ranks = gs.load(TRACES / "4xh200" / "ddp_slow_host")
    measured = load_runs(ROOT / "tests" / "data" / "runs" / "h200-mlp-small.json.gz")[0]
    write_report(predicted, paths["predicted"], "en")
    write_report(ranks, paths["ranks"], "en")
    write_report([measured, gs.load(TRACES / "h200" / "compute_bound")], paths["pair"], "en")
    product = gs.explain("matmul", 4096, 4096, 4096, dtype="bf16", on="h200")
    write_explanation(product, paths["explanation"], "en")
    from gpuscope.serving.story import story

    served = gs.serve("llama-3.1-8b", "h200", rate=25, requests=300, input="100..2000")
    write_explanation(story(served), paths["serving"], "en")
    from gpuscope.planning.explanation import explained

    chosen = gs.plan("gpt2", on="h200", devices="1..2", global_batch=2, seq=128, simulate=3)
    write_explanation(explained(chosen, "recompute=full", "torchrun"), paths["plan"], "en")

    from gpuscope.learn.lessons import book

    write_book(book(), paths["book"], "en")
    write_claims(paths["claims"], "en")
    return Pages(paths, predicted, ranks)
