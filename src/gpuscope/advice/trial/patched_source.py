"""The patched source itself as a change, so that it is tried like one: in pairs, with parity.

A small file beside the patched source stands for both: its `build` is the original's, or the
patched one's where the change is made; of a whole script it runs the one or the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.results import Target
from gpuscope.advice.types import ChangeCase, Fit, Numerics
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["PATCHED", "PatchedSource", "build_of", "run_either", "write_both"]

PATCHED = "patched-source"
_BOTH = "gpuscope_both.py"
_REGISTERS = "gpuscope_patched.py"


class PatchedSource(Change):
    """Run the patched source instead of the original.

    Args:
        numerics: the loosest of what the patch changes.
        redraws: one of its changes draws other random numbers.
    """

    name = PATCHED
    title = Text("the patched source")
    group = "operators"
    needs_gpu = False
    wanted = False
    """Whether the patched source is to be built in this process."""

    def __init__(self, numerics: Numerics = "exact", redraws: bool = False) -> None:
        self.numerics = numerics
        self.redraws = redraws

    def fits(self, case: ChangeCase) -> Fit:
        """It is no advice."""
        return Fit(False, Text("It is only for trials."), relevant=False)

    def install(self, live: Live) -> None:
        """Have `build_of` take the patched file."""
        live.set(PatchedSource, "wanted", True)


def build_of(
    original: str,
    patched: str,
    function: str,
    options: Mapping[str, object],
    numerics: Numerics,
    redraws: bool = False,
) -> Callable[[], Callable[[], object]]:
    """A build that is the original's, or the patched one's where `PatchedSource` is installed.

    Args:
        original, patched: paths of the two files.
        function: which builds the workload.
        options: of the workload.
        numerics, redraws: of the patch.
    """
    register(PatchedSource(numerics, redraws))

    def build() -> Callable[[], object]:
        from gpuscope.program.models.user_file import user_build
        from gpuscope.program.workload import WorkloadOptions

        chosen = _chosen(original, patched)
        return user_build(chosen, function, WorkloadOptions(**options))()  # type: ignore[arg-type]

    return build


def run_either(original: str, patched: str) -> None:
    """Run the original script, or the patched one where `PatchedSource` is installed.

    Either finds its data beside the original: `__file__` and `sys.argv[0]` say that it is there.

    Args:
        original, patched: paths of the two files.
    """
    chosen = _chosen(original, patched)
    if not PatchedSource.wanted:
        sys.path.insert(0, str(Path(original).parent))
    sys.argv[0] = original
    main = sys.modules["__main__"].__dict__
    main["__file__"] = original
    exec(compile(chosen.read_bytes(), str(chosen), "exec"), main)


def _chosen(original: str, patched: str) -> Path:
    """Which of the two to run; what the patch leaves alone lies beside the original."""
    if not PatchedSource.wanted:
        return Path(original)
    here, home = str(Path(patched).parent), str(Path(original).parent)
    sys.path[:] = [here, home, *(p for p in sys.path if p not in (here, home))]
    return Path(patched)


def write_both(
    folder: Path,
    original: Path,
    of: Target,
    function: str,
    files: Mapping[str, str],
    numerics: Numerics,
    redraws: bool = False,
) -> tuple[Target, Path] | None:
    """Write patched files, and the file that stands for both.

    Args:
        folder: where to; made where it is missing.
        original: the user's file.
        of: the target as it was given.
        function: which builds the workload; "" for a whole script.
        files: path -> patched text.
        numerics, redraws: of the patch.

    Returns:
        what to try, and the file that registers the change; None where a file that the patch
        changes lies outside of the original's folder.
    """
    from gpuscope.atomic import write_atomically

    root = original.resolve().parent
    inside = {Path(path).resolve(): text for path, text in files.items()}
    inside.setdefault(original.resolve(), original.read_text(encoding="utf-8"))
    if not all(path.is_relative_to(root) for path in inside):
        return None
    for path, text in {**_packages(inside, root), **inside}.items():
        place = folder.resolve() / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, text)
    both = folder.resolve() / _BOTH
    two = (str(original.resolve()), str(folder.resolve() / original.name))
    if function:
        known = (function, dict(of.options), numerics, redraws)
        write_atomically(both, _file("build_of", two, *known))
        return Target("build", f"{both}:build"), both
    registers = folder.resolve() / _REGISTERS
    write_atomically(both, _file("run_either", two))
    write_atomically(
        registers,
        '"""The patched source, as a change."""\n\n'
        "from gpuscope.advice.trial.patched_source import PatchedSource\n"
        "from gpuscope.advice.registry import register\n\n"
        f"register(PatchedSource({numerics!r}, {redraws!r}))\n",
    )
    return Target("script", str(both), arguments=of.arguments), registers


def _file(function: str, two: tuple[str, str], *others: object) -> str:
    """The text of the file that stands for both."""
    call = ", ".join(repr(each) for each in (*two, *others))
    made = f"{function}({call})"
    return (
        '"""The original and the patched source, for trials."""\n\n'
        f"from gpuscope.advice.trial.patched_source import {function}\n\n"
        f"{f'build = {made}' if others else made}\n"
    )


def _packages(changed: Mapping[Path, str], root: Path) -> dict[Path, str]:
    """All modules of the packages that hold a changed file: part of a package is not imported."""
    folders = {f for path in changed for f in path.parents if f.is_relative_to(root) and f != root}
    return {
        file: file.read_text(encoding="utf-8") for folder in folders for file in folder.glob("*.py")
    }
