"""What holds for every test: examples drawn, threads, signals, a small heap to search, `Live`s
closed."""

from __future__ import annotations

import gc
import json
import os
import signal
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Tensors are tiny and tests run side by side: threads would only wait for each other. Set before
# anything imports torch, and inherited by the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Every test captures anew, and leaves nothing in the developer's own cache.
os.environ["GPUSCOPE_CACHE"] = "off"

# A shell that starts us in the background has interrupts ignored, `nohup` hang-ups, and so would
# every process that tests start and signal. A handler that does nothing keeps us as deaf, and them
# as usual.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda number, frame: None)

# Property-based tests draw new examples on a developer's machine, the same ones in CI. A busy
# machine is no reason to fail: how long inputs take says nothing of the code.
settings.register_profile(
    "gpuscope",
    derandomize=bool(os.environ.get("CI")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("gpuscope"), max_examples=30)
settings.load_profile("gpuscope")


def pytest_configure(config: pytest.Config) -> None:
    """A third of the examples where slow tests are left out."""
    if "not slow" in config.option.markexpr:
        settings.load_profile("quick")


# Thousands of tests are collected, and all of them stay: looking for garbage among them, again and
# again as they grow, was a third of the collection.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, though seldom, as in a command."""
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


def moved() -> set[str]:
    """Names of the tests that `slow.toml` moves to `make test-all`."""
    kinds = tomllib.loads(Path(__file__).with_name("slow.toml").read_text("utf-8"))["moved"]
    return {name for kind in kinds for name in kind["tests"]}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them, before pytest leaves out what is marked."""
    names = moved()
    for item in items:
        if item.nodeid in names or item.nodeid.partition("[")[0] in names:
            item.add_marker(pytest.mark.slow)


SEARCHED = 20_000
"""From so many objects on, those of earlier files step aside."""


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> None:
    """What was there before a file's tests is not searched by them.

    The package looks through all objects for models (`gc.get_objects`), Python for garbage. Ten
    thousand collected tests and their imports are a million objects: a second for each change that
    a test makes. What earlier files have left over is freed first, once.
    """
    if len(gc.get_objects()) < SEARCHED:
        return
    gc.collect()
    gc.freeze()
    # A capture asks it whether anything is frozen; Python would count a million objects for it.
    gc.get_freeze_count = lambda: 1


@pytest.fixture(autouse=True, scope="session")
def _patient_server() -> None:
    """The process that runs users' code waits for the next test that needs it, however late: it has
    imported PyTorch, which another would have to do again."""
    from gpuscope.program.guard import elsewhere

    elsewhere.IDLE_S = 3600.0


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every `Live` of a test is closed at its end, also where the test expects an error or runs an
    example that leaves it at work: it would slow and spoil those after it."""
    from gpuscope.advice.changes.hooks.live import Live

    held: list[Live] = []
    start = Live.start

    def started(live: Live) -> None:
        held.append(live)
        start(live)

    monkeypatch.setattr(Live, "start", started)
    yield
    for live in reversed(held):
        live.close()


@pytest.fixture
def fits_schema() -> Callable[[str], dict[str, Any]]:
    """Reads what `--json` printed, and holds it against the schema of its document."""
    validators = pytest.importorskip("jsonschema")
    from gpuscope.views.schemas import json_schema

    def check(printed: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(printed)
        validator = validators.Draft202012Validator(json_schema(document["schema"]))
        wrong = [f"{e.json_path}: {e.message[:200]}" for e in validator.iter_errors(document)]
        assert wrong == []
        return document

    return check
