"""The pace of this machine's own host, measured before `optimize` predicts for it.

The catalogue's host constants are those of one host for each device. Where the host sets the pace
(a model that decodes token by token, many small kernels), another host is up to several times
slower or faster, and predicted gains are off with it. So the benches of the host's calls and of
launches run first, with few points, in a process of their own: a context on the device would
otherwise stay for all trials, and a bench that hangs is ended with its process.

Only constants of the host and of launches come of it; kernels and copies keep the catalogue's (a
quick bench of copies has too few points for a fit). They are kept beside the ladder, not as this
machine's own calibration, which is the user's to make.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope import children
from gpuscope.advice.trial.device_sharing import Sharing
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InputFileError, UnsupportedError
from gpuscope.hardware.own import is_this, load_own

if TYPE_CHECKING:
    from gpuscope.measurement.accelerator import Accelerator

__all__ = ["BENCHED", "FILE", "LEAST_BUDGET_S", "SAVED", "HostBench", "Pace", "catalogue_words"]

FILE = "host-calibration.toml"
"""In the ladder's folder: what was measured, as `gpuscope predict --calibration` takes it."""

LEAST_BUDGET_S = 300.0
"""A smaller budget is spent on trials alone."""

_BENCHES = ("host", "launch")
_OF_THE_HOST = ("host.", "launch.")
_MODULE = "gpuscope.advice.trial.host_pace"

_LIMIT_S = 120.0
"""After which the bench is ended: it takes 20 to 30 s, on a slow and busy host twice that."""

_LONGEST_REASON = 300

SAVED = Text("Predictions are for this machine as gpuscope bench --save measured it.")
BENCHED = Text(
    "Predictions are for this machine's own host: its calls and launches were measured before "
    "predicting ({file}, beside the ladder). gpuscope bench --quick --save measures the device, "
    "too, and keeps it for all commands.",
    file=FILE,
)

Say = Callable[[str], None]


def catalogue_words(reason: Text) -> Text:
    """That predictions are for the catalogue's host, and why.

    Args:
        reason: "a budget below 5 minutes leaves no time to measure this one".
    """
    return Text(
        "Predictions are for the host on which the catalogue's constants were measured: {reason}. "
        "gpuscope bench --quick --save measures this one.",
        reason=reason,
    )


_LEFT_OUT = Text("measuring this one was left out (--no-bench)")
_SHORT = Text(
    "a budget below {least_budget} minutes leaves no time to measure this one",
    least_budget=Number(LEAST_BUDGET_S / 60, ".0f"),
)
_NOT_BEFORE = Text("the run that is gone on with had not measured this one")


def _failed(error: GpuscopeError) -> Text:
    said = " ".join(part for part in (error.what, error.why) if part).rstrip(".")
    return Text("measuring this one failed ({said})", said=said)


@dataclass(frozen=True, slots=True)
class Pace:
    """Which host is predicted for.

    Attributes:
        calibration: constants of the host that are laid over the catalogue's; None for none.
        note: in words, for the ladder.
    """

    calibration: Path | None
    note: Text


@dataclass(frozen=True, slots=True)
class HostBench:
    """What is needed to measure the host, where that is wanted.

    Attributes:
        folder: of the ladder; what is measured is kept there.
        budget_s: seconds for the whole ladder.
        wanted: the user did not leave it out.
        going_on: an earlier ladder is gone on with; its predictions' host stays, too.
        share: see `gpuscope.advice.trial.device_sharing`: nobody else's steps run while calls are
            timed.
        say: told what is being done.
    """

    folder: Path
    budget_s: float
    wanted: bool = True
    going_on: bool = False
    share: Path | None = None
    say: Say = lambda text: None

    @property
    def may_measure(self) -> bool:
        """Whether calls of this host may be timed: until then nothing else is to run."""
        return self.wanted and not self.going_on and self.budget_s >= LEAST_BUDGET_S

    def pace(self, accelerator: Accelerator, on: str) -> Pace:
        """The host to predict for; a bench that fails is told, and is no error.

        Args:
            accelerator: the device that runs.
            on: what is predicted for; "this" where the user benched this machine.
        """
        if is_this(on):
            return Pace(None, SAVED)
        if not self.wanted:
            return Pace(None, catalogue_words(_LEFT_OUT))
        path = self.folder / FILE
        if self.going_on:
            return self._kept(path, accelerator)
        if self.budget_s < LEAST_BUDGET_S:
            return Pace(None, catalogue_words(_SHORT))
        self.say(Text("Measuring this machine's host, about 20 s …"))
        try:
            with Sharing(self.share).timing() if self.share is not None else nullcontext():
                _benched(accelerator, path)
            return _found(path, accelerator)
        except GpuscopeError as error:
            return Pace(None, catalogue_words(_failed(error)))

    def _kept(self, path: Path, accelerator: Accelerator) -> Pace:
        if not path.is_file():
            return Pace(None, catalogue_words(_NOT_BEFORE))
        try:
            return _found(path, accelerator)
        except GpuscopeError as error:
            return Pace(None, catalogue_words(_failed(error)))


def _found(path: Path, accelerator: Accelerator) -> Pace:
    """What lies there, if it is of this device."""
    device, own = accelerator.catalogue_device(), load_own(path)
    if device is None or own.device_id != device.id:
        raise InputFileError(
            Text("{path} is of another device.", path=path),
            Text("It is of {device_id}.", device_id=own.device_id),
        )
    return Pace(path, BENCHED)


def _benched(accelerator: Accelerator, path: Path) -> None:
    """Run `measure_host` in a process of its own.

    Raises:
        UnsupportedError: it failed, or took too long.
    """
    words = children.python(_MODULE, accelerator.torch_name, str(path))
    try:
        ended = subprocess.run(
            words,
            env=children.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise UnsupportedError(
            Text("It took longer than {limit} s.", limit=Number(_LIMIT_S, ".0f"))
        ) from error
    except OSError as error:
        raise UnsupportedError(str(error)) from error
    if ended.returncode != 0 or not path.is_file():
        lines = [line.strip() for line in ended.stdout.splitlines() if line.strip()]
        if lines:
            raise UnsupportedError(lines[-1][:_LONGEST_REASON])
        raise UnsupportedError(Text("exit status {code}", code=ended.returncode))


def measure_host(device: str, path: Path) -> None:
    """Bench the host and launches with few points, and write what they say of the host.

    Args:
        device: "cuda:0".
        path: of the calibration to write.

    Raises:
        UnsupportedError: no such device, not in the catalogue, or its host gave no points.
        InvalidValueError: no point says anything of a constant.
        InputFileError: it cannot be written there.
    """
    from gpuscope.measurement.accelerator import choose_accelerator
    from gpuscope.measurement.bench.run import Options, run_bench
    from gpuscope.measurement.calibrate import calibrate, measured_with, save_calibration

    known = choose_accelerator(device).catalogue_device()
    if known is None:
        raise UnsupportedError(Text("This device is not in the catalogue."))
    result = run_bench(Options(_BENCHES, quick=True, device=device))
    # Launches alone would leave the calls of the catalogue's host, told as this one's.
    if not any(point.bench == "host" and point.family == "op" for point in result.points):
        reasons = [run.skipped for run in result.runs if run.skipped]
        raise UnsupportedError(Text("No call of the host could be timed."), " ".join(reasons))
    found = calibrate(result.points, known, measured_with=measured_with(result))
    entries = tuple(entry for entry in found.entries if entry[0].startswith(_OF_THE_HOST))
    save_calibration(replace(found, entries=entries), path)


def main() -> None:
    """Measure the host: `python -m gpuscope.advice.trial.host_pace DEVICE FILE`."""
    device, path = sys.argv[1:3]
    try:
        measure_host(device, Path(path))
    except GpuscopeError as error:
        print(" ".join(part for part in (error.what, error.why) if part))
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
