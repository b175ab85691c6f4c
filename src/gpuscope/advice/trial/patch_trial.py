"""The patch, written and then run: what a user is given has been measured itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from gpuscope.advice.results import Limits, Trial
from gpuscope.advice.source.locating import Located
from gpuscope.advice.trial.outcomes import OVER
from gpuscope.advice.trial.patched_source import PATCHED, PatchedSource, write_both
from gpuscope.advice.types import Seen
from gpuscope.document.quantities import Ratio
from gpuscope.document.text import Text, sentences
from gpuscope.errors import GpuscopeError

__all__ = ["NOT_RUN", "PatchMade", "apply_note", "patch_and_try"]

NOT_RUN = Text("The patch was not run: it was stopped before that was over.")
_SAME_SPEED = 0.95
"""The patched source has to reach this share of what was measured with the changes made live."""

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PatchMade:
    """A patch.

    Attributes:
        diff: unified diff; "" where none can be given.
        trial: the patched source against the original; None where it was not run.
        note: for the reader.
        stopped: the user ended its run.
    """

    diff: str = ""
    trial: Trial | None = None
    note: Text | None = None
    stopped: bool = False


def patch_and_try(
    names: Names,
    seen: Seen,
    located: Located,
    folder: Path,
    limits: Limits,
    *,
    device: str | None = None,
    gain: tuple[float, float, float] | None = None,
    step_s: float | None = None,
    caches: Path | None = None,
    processes: int = 1,
    share: Path | None = None,
    allow_writes: bool = False,
    say: Callable[[str], None] = lambda text: None,
    left_s: Callable[[], float] = lambda: inf,
) -> PatchMade:
    """Write changes into the user's source, and try the patched source against the original.

    Args:
        names: what was kept.
        seen: of the code as it is.
        located: the user's code.
        folder: the patched files go below it, into `patched`.
        limits: of the trial.
        device: see `optimize`.
        gain: what the changes gained when they were made live (low, middle, high).
        step_s: how long their step took then.
        caches: folder of compiled code.
        processes, share, allow_writes: see `optimize`.
        say: told what is being done.
        left_s: seconds until its run is ended, however far it is; the patch is given all the same.
    """
    from gpuscope.advice.registry import plan, register
    from gpuscope.advice.source.patches import patch_of
    from gpuscope.advice.trial.tolerances import loosest

    patch = patch_of(names, seen)
    if not patch.diff or located.file is None:
        return PatchMade(note=apply_note(names, located.function))
    changes = plan(names)
    numerics = loosest(change.numerics for change in changes)
    redraws = any(change.redraws for change in changes)
    register(PatchedSource(numerics, redraws))
    both = write_both(
        folder / "patched",
        located.file,
        located.target,
        located.function,
        patch.files,
        numerics,
        redraws,
    )
    if both is None:
        note = Text("The patch was not run: it changes files outside of the code's folder.")
        return PatchMade(patch.diff, note=note)
    target, registers = both
    from gpuscope.advice.trial.trials import Trials

    try:
        with Trials(
            target,
            limits,
            device=device,
            own_changes=(str(registers),),
            folder=caches,
            processes=processes,
            share=share,
            allow_writes=allow_writes,
            say=say,
        ) as trials:
            trials.left_s = left_s
            trial = trials.contest((), (PATCHED,))
    except GpuscopeError as error:
        return PatchMade(note=_failed(sentences(error.what, error.why), names, located.function))
    except KeyboardInterrupt:
        # Its changes were measured live; only the text was not.
        return PatchMade(patch.diff, note=NOT_RUN, stopped=True)
    if trial.outcome == "skipped":
        return PatchMade(patch.diff, note=sentences(NOT_RUN, OVER))
    trial = replace(trial, names=names, added=names, against=(), purpose="patch")
    problem = _problem(trial, gain, step_s)
    if problem is not None:
        return PatchMade(trial=trial, note=_failed(problem, names, located.function))
    return PatchMade(patch.diff, trial)


def _problem(
    trial: Trial, gain: tuple[float, float, float] | None, step_s: float | None
) -> Text | None:
    """What is wrong with a patched source; None where nothing is.

    The original's own pace moves between two trials where its host sets it, so a patched step that
    is as short as the changed one was is as good as a gain that is as large.
    """
    if trial.outcome != "kept" or trial.speedup is None:
        return trial.why
    if gain is None or (trial.high or trial.speedup) >= _SAME_SPEED * gain[0]:
        return None
    taken = trial.measured.step_s if trial.measured is not None else None
    if step_s is not None and taken is not None and taken * _SAME_SPEED <= step_s:
        return None
    return Text("{gain} instead of {wanted}.", gain=Ratio(trial.speedup), wanted=Ratio(gain[1]))


def _failed(problem: Text, names: Names, function: str) -> Text:
    return sentences(
        Text(
            "The patched source did not hold what the changes promise: {problem}", problem=problem
        ),
        apply_note(names, function),
    )


def apply_note(names: Names, function: str) -> Text:
    """How to use what was kept where there is no patch.

    Args:
        names: of the changes.
        function: that builds the workload; "" for a whole script.
    """
    listed = ", ".join(f'"{name}"' for name in names)
    if not function:
        line = f"gs.apply({listed}).start()"
        return Text(
            "No patch is given; write at the top of the script: import gpuscope as gs; {line}",
            line=line,
        )
    return Text(
        "No patch is given; write above {function}: @gs.apply({changes})",
        function=function,
        changes=listed,
    )
