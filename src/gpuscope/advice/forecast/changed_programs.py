"""The programs that a workload becomes under changes: captured once for each set of changes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.forecast.asked_programs import graph_captured, jax_captured
from gpuscope.advice.registry import plan
from gpuscope.advice.types import Door, Seen
from gpuscope.advice.user_changes import load_own, loaded
from gpuscope.capturing import capture_elsewhere, capture_job, capture_resolved, for_cluster
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Cluster
from gpuscope.program.capture.patches import alone
from gpuscope.program.jax.arguments import arguments_of
from gpuscope.program.jax.workload import is_jax
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms

if TYPE_CHECKING:
    from gpuscope.capturing import Workload
    from gpuscope.program.jax.arguments import BuildArguments
    from gpuscope.program.onnx.workload import OnnxBuild
    from gpuscope.program.workload import Workload as Resolved
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["Captured", "ChangedPrograms"]

Captured = Program | RankPrograms
Names = frozenset[str]


class ChangedPrograms:
    """A workload's programs, by the names of the changes that were made to its code.

    Args:
        workload: as `gpuscope.capture` takes it. Programs captured before have no code: only
            changes with a `transform` can be made to them.
        cluster: what it runs on; one rank a device.
        options: of a workload given by name.

    Attributes:
        door: what of changes it takes, see `Change.door`.
        onnx, jax: the graph; arguments of a JAX step's build function.
    """

    def __init__(
        self, workload: Workload, cluster: Cluster, options: WorkloadOptions | None = None
    ) -> None:
        self.cluster = cluster
        self.seen: Seen | None = None
        """What was seen of the code as it stands; None before the first capture, and without."""
        self.resolved: Resolved | None = None
        self.door: Door = "torch"
        self.onnx: OnnxBuild | None = None
        self.jax: BuildArguments | None = None
        self._workload, self._options = workload, options
        self._known: dict[Names, Captured] = {}
        if isinstance(workload, (Program, RankPrograms)):
            self._known[frozenset()] = workload
        elif is_jax(workload):
            self.door, self.jax = "jax", arguments_of(workload, options)
        elif not callable(workload):
            from gpuscope.program.workload import WorkloadOptions, resolve

            laid = for_cluster(options, cluster) or WorkloadOptions()
            self.resolved = resolve(workload, laid, load=False)
            self.onnx = self.resolved.onnx
            self.door = "torch" if self.onnx is None else "onnx"

    def of(self, names: Iterable[str] = ()) -> Captured:
        """The program with these changes.

        Raises:
            GpuscopeError: a change cannot be made, or the changed code fails.
        """
        wanted = frozenset(names)
        if wanted not in self._known:
            self._known[wanted] = self._made(wanted) or self._captured(wanted)
        return self._known[wanted]

    def known(self, names: Iterable[str]) -> bool:
        """Whether the program with these changes is here already."""
        return frozenset(names) in self._known

    def take(self, names: Iterable[str], captured: Captured) -> None:
        """Take a program that another process captured."""
        self._known.setdefault(frozenset(names), captured)

    def sources(self, names: Iterable[str]) -> frozenset[Names]:
        """The sets of changes whose captures the program with these changes is made of."""
        wanted = frozenset(names)
        for change in plan(wanted):
            needed = self._needed(wanted, change)
            if needed:
                return frozenset().union(*map(self.sources, needed))
        return frozenset({wanted})

    def _needed(self, names: Names, change: Change) -> tuple[Names, ...]:
        """What a change of a set needs to make the set's program without a capture; () if it
        cannot."""
        kind, rest = type(change), names - {change.name}
        if kind.transform is not Change.transform and (not change.variant_of or self._trains()):
            return (rest | {change.variant_of} if change.variant_of else rest,)
        if kind.again is not Change.again and rest and self._trains():
            return frozenset(), frozenset({change.name}), rest
        return ()

    def _trains(self) -> bool:
        plain = self._known.get(frozenset())
        return isinstance(plain, Program) and any(op.phase == "backward" for op in plain.ops)

    def _made(self, names: Names) -> Captured | None:
        """By way of a change that says what becomes of programs, from those that it needs."""
        for change in plan(names):
            needed = self._needed(names, change)
            found = [self.of(each) for each in needed]
            made: Captured | None = None
            if len(found) == 1:
                made = _each(found[0], change.transform)
            elif found and all(isinstance(each, Program) for each in found):
                made = change.again(*found)  # type: ignore[arg-type]
            if made is not None:
                return made
        return None

    def _captured(self, names: Names) -> Captured:
        if self.resolved is not None and self.onnx is not None:
            return graph_captured(self.resolved, self.onnx, plan(names), self.cluster)
        if self.jax is not None:
            from gpuscope.program.models.settings import WorkloadOptions

            options = self._options or WorkloadOptions()
            return jax_captured(self._workload, self.jax, options, plan(names), self.cluster)
        with alone():
            live = Live(plan(names))
            try:
                return self._capture(live, first=not names)
            finally:
                live.close()

    def _capture(self, live: Live, first: bool) -> Captured:
        if self.resolved is None:
            if not callable(self._workload):
                raise UnsupportedError(
                    Text("The code of this workload is not at hand."),
                    Text("It was captured before; this change acts on running code."),
                    Text("Give the build function, or file.py:build."),
                )
            program = capture_job(live.wrap(self._workload), self.cluster)
            if first:
                self.seen = live.seen(*_where(self._workload))
            return program
        found = self.resolved
        if found.job is not None and found.job.plan.pp > 1:
            if live.changes:
                raise UnsupportedError(
                    Text("The stages of a ready-made pipeline take no changes."),
                    Text("They are put together from blocks, not run by code of yours."),
                    Text("Give your own training script as file.py:build."),
                )
            return capture_resolved(found, self.cluster)
        if found.script is None and found.file is None:
            captured, seen = _of_build(found, self.cluster, live)
        else:
            changes = tuple(change.name for change in live.changes)
            captured, seen = capture_elsewhere(found, _of_file, self.cluster, changes, loaded())
        if first:
            self.seen = seen
        return captured


def _of_file(
    found: Resolved, cluster: Cluster, names: tuple[str, ...], own_changes: tuple[str, ...]
) -> tuple[Captured, Seen]:
    """A program of a user's file with changes, and what was seen of the code; in a process of its
    own."""
    load_own(own_changes)
    live = Live(plan(names))
    if found.script is None:
        return _of_build(found, cluster, live)
    script = replace(found.script, begins=live.start, step_ends=live.step_ended)
    captured = capture_resolved(replace(found, build=script, script=script), cluster)
    return captured, live.seen(str(script.file.resolve()))


def _of_build(found: Resolved, cluster: Cluster, live: Live) -> tuple[Captured, Seen]:
    """A build's program with changes, and what was seen of the code."""
    watch, depth = _Watch(live), found.at_depth
    changed = replace(
        found,
        build=watch.whole(found.build),
        at_depth=None if depth is None else lambda n: watch.part(depth(n)),
    )
    captured = capture_resolved(changed, cluster)
    file, function = _named(found.name)
    return captured, replace(watch.seen(), file=file, function=function)


class _Watch:
    """Sees the whole model, which a folded capture builds but does not run."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._whole: Seen | None = None
        self._part_last = False

    def whole(self, build: Callable[[], Any]) -> Callable[[], Any]:
        """The changed build, that notes what it made."""
        wrapped = self._live.wrap(build)

        def noted() -> Any:
            step = wrapped()
            self._whole, self._part_last = self._live.seen(), False
            return step

        noted.__name__ = getattr(build, "__name__", "workload")
        return noted

    def part(self, build: Callable[[], Any]) -> Callable[[], Any]:
        """The changed build of fewer layers."""
        self._part_last = True
        return self._live.wrap(build)

    def seen(self) -> Seen:
        """Of the whole; where the whole was run, with what its steps made."""
        return self._whole if self._part_last and self._whole else self._live.seen()


def _each(captured: Captured, transform: Callable[[Program], Program | None]) -> Captured | None:
    """A change made to every distinct rank; None where it cannot be."""
    if isinstance(captured, Program):
        return transform(captured)
    if captured.pipeline is not None:
        return None
    made = [transform(program) for program in captured.programs]
    if any(program is None for program in made):
        return None
    return replace(captured, programs=tuple(p for p in made if p is not None))


def _named(name: str) -> tuple[str, str]:
    """Path and function of "file.py:build"; empty for a built-in model."""
    path, _, function = name.rpartition(":")
    file = path if path.endswith(".py") else name if name.endswith(".py") else ""
    if not file:
        return "", ""
    return str(Path(file).resolve()), function if path else "build"


def _where(build: Callable[..., Any]) -> tuple[str, str]:
    """File and name of a function; empty where it is not known."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(build)) or ""
    except TypeError:
        file = ""
    return file, getattr(build, "__name__", "")
