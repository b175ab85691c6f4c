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

from gpuscope.advice.sharing import Sharing
from gpuscope.errors import GpuscopeError, InputFileError, UnsupportedError
from gpuscope.explain.types import Words
from gpuscope.hardware.own import is_this, load_own

if TYPE_CHECKING:
    from gpuscope.measure.accelerator import Accelerator

__all__ = ["BENCHED", "FILE", "LEAST_BUDGET_S", "SAVED", "HostBench", "Pace", "catalogue_words"]

FILE = "host-calibration.toml"
"""In the ladder's folder: what was measured, as `gpuscope predict --calibration` takes it."""

LEAST_BUDGET_S = 300.0
"""A smaller budget is spent on trials alone."""

_BENCHES = ("host", "launch")
_OF_THE_HOST = ("host.", "launch.")
_MODULE = "gpuscope.advice.host_pace"

_LIMIT_S = 120.0
"""After which the bench is ended: it takes 20 to 30 s, on a slow and busy host twice that."""

_LONGEST_REASON = 300

SAVED = Words(
    "Predictions are for this machine as gpuscope bench --save measured it.",
    "预测基于 gpuscope bench --save 所存的本机实测。",
)
BENCHED = Words(
    "Predictions are for this machine's own host: its calls and launches were measured before"
    f" predicting ({FILE}, beside the ladder). gpuscope bench --quick --save measures the device,"
    " too, and keeps it for all commands.",
    f"预测基于本机主机：预测前测量了它的调用与启动开销（{FILE}，与阶梯在同一文件夹）。"
    "gpuscope bench --quick --save 还会测量设备，并保存给所有命令使用。",
)

Say = Callable[[str], None]


def catalogue_words(reason: Words) -> Words:
    """That predictions are for the catalogue's host, and why.

    Args:
        reason: "a budget below 5 minutes leaves no time to measure this one".
    """
    return Words(
        "Predictions are for the host on which the catalogue's constants were measured:"
        f" {reason.en}. gpuscope bench --quick --save measures this one.",
        f"预测基于目录常数所测的主机：{reason.zh}。gpuscope bench --quick --save 可测出本机。",
    )


_LEFT_OUT = Words(
    "measuring this one was left out (--no-bench)", "已跳过对本机的测量（--no-bench）"
)
_SHORT = Words(
    f"a budget below {LEAST_BUDGET_S / 60:.0f} minutes leaves no time to measure this one",
    f"预算不足 {LEAST_BUDGET_S / 60:.0f} 分钟，没有时间测量本机",
)
_NOT_BEFORE = Words(
    "the run that is gone on with had not measured this one", "所继续的那次运行没有测量本机"
)


def _failed(error: GpuscopeError) -> Words:
    said = " ".join(part for part in (error.what, error.why) if part).rstrip(".")
    return Words(f"measuring this one failed ({said})", f"测量本机失败（{said}）")


@dataclass(frozen=True, slots=True)
class Pace:
    """Which host is predicted for.

    Attributes:
        calibration: constants of the host that are laid over the catalogue's; None for none.
        note: in words, for the ladder.
    """

    calibration: Path | None
    note: Words


@dataclass(frozen=True, slots=True)
class HostBench:
    """What is needed to measure the host, where that is wanted.

    Attributes:
        folder: of the ladder; what is measured is kept there.
        budget_s: seconds for the whole ladder.
        wanted: the user did not leave it out.
        going_on: an earlier ladder is gone on with; its predictions' host stays, too.
        share: see `gpuscope.advice.sharing`: nobody else's steps run while calls are timed.
        say: told what is being done.
    """

    folder: Path
    budget_s: float
    wanted: bool = True
    going_on: bool = False
    share: Path | None = None
    say: Say = lambda text: None

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
        self.say("Measuring this machine's host, about 20 s …")
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
        raise InputFileError(f"{path} is of another device.", f"It is of {own.device_id}.")
    return Pace(path, BENCHED)


def _benched(accelerator: Accelerator, path: Path) -> None:
    """Run `measure_host` in a process of its own.

    Raises:
        UnsupportedError: it failed, or took too long.
    """
    words = [sys.executable, "-m", _MODULE, accelerator.torch_name, str(path)]
    try:
        ended = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=_LIMIT_S, check=False, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise UnsupportedError(f"It took longer than {_LIMIT_S:.0f} s.") from error
    except OSError as error:
        raise UnsupportedError(str(error)) from error
    if ended.returncode != 0 or not path.is_file():
        told = [line.strip() for line in ended.stdout.splitlines() if line.strip()]
        why = told[-1][:_LONGEST_REASON] if told else f"exit status {ended.returncode}"
        raise UnsupportedError(why)


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
    from gpuscope.measure.accelerator import choose_accelerator
    from gpuscope.measure.bench.run import Options, run_bench
    from gpuscope.measure.calibrate import calibrate, measured_with, save_calibration

    known = choose_accelerator(device).catalogue_device()
    if known is None:
        raise UnsupportedError("This device is not in the catalogue.")
    result = run_bench(Options(_BENCHES, quick=True, device=device))
    # Launches alone would leave the calls of the catalogue's host, told as this one's.
    if not any(point.bench == "host" and point.family == "op" for point in result.points):
        reasons = [run.skipped for run in result.runs if run.skipped]
        raise UnsupportedError("No call of the host could be timed.", " ".join(reasons))
    found = calibrate(result.points, known, measured_with=measured_with(result))
    entries = tuple(entry for entry in found.entries if entry[0].startswith(_OF_THE_HOST))
    save_calibration(replace(found, entries=entries), path)


def main() -> None:
    """Measure the host: `python -m gpuscope.advice.host_pace DEVICE FILE`."""
    device, path = sys.argv[1:3]
    try:
        measure_host(device, Path(path))
    except GpuscopeError as error:
        print(" ".join(part for part in (error.what, error.why) if part))
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
