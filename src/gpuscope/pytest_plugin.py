"""The fixture `gpuscope` of pytest: predictions in tests, held to a figure or to a baseline.

    def test_step(gpuscope):
        assert gpuscope.predict(build, on="h100").step_time_s < 0.2
        gpuscope.hold(build, on="h100")

pytest finds it by its entry point and imports it in every run: nothing heavy may stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.api import Target
    from gpuscope.capturing import Workload
    from gpuscope.guarding.baseline import Baseline, Key
    from gpuscope.guarding.facts import Facts
    from gpuscope.hardware import Calibration
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.run import Run

FILE = "gpuscope-tests.toml"
"""The tests' baseline where `gpuscope_baseline` of the settings names none; beside them."""

UPDATE = "pytest --gpuscope-update"

_HELD = pytest.StashKey[dict["Key", "Facts"]]()
"""Of a session that writes the baseline: what was predicted, by test and device."""


class GpuscopeFixture:
    """Predictions for one test.

    Attributes:
        config: of the session.
        test: the node's id, which names the test in the baseline.
    """

    def __init__(self, config: pytest.Config, test: str) -> None:
        self._config = config
        self._test = test
        self._seen: set[Key] = set()

    def predict(
        self,
        workload: Workload,
        on: Target = "h200",
        *,
        options: WorkloadOptions | None = None,
        calibration: Calibration | str | Path | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Run:
        """Predict a step, without the device; arguments, result and errors as `gs.predict`."""
        from gpuscope.api import predict

        return predict(workload, on, options=options, calibration=calibration, overrides=overrides)

    def hold(
        self,
        workload: Workload,
        on: Target = "h200",
        *,
        name: str = "",
        options: WorkloadOptions | None = None,
        limits: Mapping[str, str | int] | None = None,
    ) -> Run:
        """Predict a step, and fail the test if it is worse than the baseline.

        Args:
            workload, on, options: as `gs.predict` takes them.
            name: tells two workloads of a test on the same device apart.
            limits: as `[limits]` of `gpuscope.toml`: {"step_time": "3%", "findings": "off"}.

        Raises:
            InvalidValueError: a limit that cannot be, or the same name twice on a device.
            InputFileError: no baseline, or a broken one.
            GpuscopeError: else as `gs.predict`.
        """
        from gpuscope.api import resolve_target
        from gpuscope.errors import InvalidValueError
        from gpuscope.guarding.facts import facts_of
        from gpuscope.guarding.settings import COUNTS, SHARES, read_limits

        allowed = read_limits(dict(limits or {}), {**SHARES, **COUNTS}, "limits")
        key = (
            f"{self._test} {name}".rstrip(),
            on if isinstance(on, str) else resolve_target(on).name,
        )
        if key in self._seen:
            raise InvalidValueError(
                Text("This test holds two workloads of one name on {device}.", device=key[1]),
                "",
                Text("Write for example: {code}", code='gpuscope.hold(build, name="second")'),
            )
        self._seen.add(key)
        run = self.predict(workload, on, options=options)
        if self._config.getoption("gpuscope_update"):
            self._config.stash[_HELD][key] = facts_of(run)
        else:
            _judge(key, run, allowed, _path(self._config))
        return run


def _judge(key: Key, run: Run, limits: Mapping[str, float | None], path: Path) -> None:
    from gpuscope.guarding.baseline import Baseline, read_baseline
    from gpuscope.guarding.facts import facts_of, versions
    from gpuscope.guarding.history import History
    from gpuscope.guarding.judge import judge
    from gpuscope.guarding.settings import Guarded, GuardSettings
    from gpuscope.guarding.sources import sources_of
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.views.guard import guard_plain
    from gpuscope.views.i18n import choose_language

    whole = read_baseline(path, Text("Type: {command}", command=UPDATE))
    own = {key: whole.facts[key]} if key in whole.facts else {}
    guarded = Guarded(key[0], "", (key[1],), WorkloadOptions(), limits)
    report = judge(
        GuardSettings(path, path, (guarded,)),
        {key: (facts_of(run), sources_of(run))},
        Baseline(whole.versions, own),
        versions(),
        History(path),
    )
    if report.failed:
        pytest.fail(guard_plain(report, choose_language(None), UPDATE), pytrace=False)


def _path(config: pytest.Config) -> Path:
    return config.rootpath / str(config.getini("gpuscope_baseline"))


@pytest.fixture
def gpuscope(request: pytest.FixtureRequest) -> GpuscopeFixture:
    """Predictions without a GPU: `gpuscope.predict(...)`, `gpuscope.hold(...)`."""
    return GpuscopeFixture(request.config, request.node.nodeid)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--gpuscope-update` and the setting `gpuscope_baseline`."""
    group = parser.getgroup("gpuscope")
    group.addoption(
        "--gpuscope-update",
        action="store_true",
        help="write what gpuscope.hold() predicts into the baseline instead of judging it",
    )
    parser.addini(
        "gpuscope_baseline", f"file that gpuscope.hold() judges by ({FILE})", default=FILE
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin with nothing predicted."""
    config.stash[_HELD] = {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the baseline, or in a process of pytest-xdist hand its part to the one that does."""
    held = session.config.stash.get(_HELD, {})
    if not held:
        return
    from gpuscope.guarding.baseline import Baseline, baseline_text
    from gpuscope.guarding.facts import versions

    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["gpuscope"] = baseline_text(Baseline(versions(), held))
    else:
        _write(_path(session.config), Baseline(versions(), held))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process of pytest-xdist predicted."""
    text = getattr(node, "workeroutput", {}).get("gpuscope")
    if text:
        from gpuscope.guarding.baseline import parse_baseline

        path = _path(node.config)
        node.config.stash[_HELD].update(parse_baseline(text, path).facts)


def _write(path: Path, held: Baseline) -> None:
    """Lay what was predicted over what the file holds of tests that did not run."""
    from gpuscope.guarding.baseline import Baseline, read_baseline, write_baseline

    before = read_baseline(path).facts if path.exists() else {}
    write_baseline(Baseline(held.versions, {**before, **held.facts}), path)
