"""A whole step as one CUDA graph: warmed up, watched, captured once, then replayed.

A graph repeats launches with the very same addresses and numbers (CUDA programming guide, "CUDA
Graphs"; PyTorch, "Whole-network capture"). What a step decides or brings in on the host would be
frozen, so two steps are watched first, operator by operator: they must make the same calls with the
same numbers on the same outside memory, copy nothing between host and device, and wait for nothing.
Random numbers made on the device move on with each replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.graph_marks import compiles, copied, note_graph
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

__all__ = ["CAPTURABLE", "WARM_UP", "WholeStep"]

WARM_UP = 3
"""Steps run as they are; the last two are watched."""

CAPTURABLE = frozenset(
    {"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "ASGD", "RMSprop", "Rprop"}
)
"""Optimizers of torch that count their steps on the device when `capturable=True`."""

STATELESS = frozenset({"SGD"})
"""Optimizers whose step uses no number that changes."""


class WholeStep:
    """A step, replayed from a graph after its warm-up.

    Args:
        live: whose step it is.
        step: as `build` returned it.
    """

    def __init__(self, live: Live, step: Callable[[], object]) -> None:
        self._live = live
        self._step = step
        self._calls = 0
        self._watched: list[_Watch] = []
        self._graph: Any = None
        self._out: Any = None
        self._running = False

    def scheduled(self) -> None:
        """A learning-rate schedule moves on.

        Raises:
            UnsupportedError: inside of the step, where the graph would freeze the rate.
        """
        if self._running:
            raise UnsupportedError(
                Text("The step cannot be one CUDA graph."),
                Text("It moves a learning-rate schedule on, and the graph would freeze the rate."),
                Text("Call the scheduler outside of the step, with the rate in a tensor."),
            )

    def __call__(self) -> object:
        """One step.

        Raises:
            UnsupportedError: the step does something that a graph cannot repeat.
        """
        if self._live.pretended:
            note_graph(compiles(self._live), whole_step=True)
            return self._step()
        if self._graph is not None:
            self._graph.replay()
            return copied(self._out)
        self._calls += 1
        self._running = True
        try:
            if self._calls <= WARM_UP:
                return self._warm(watched=self._calls > WARM_UP - 2)
            return self._capture()
        finally:
            self._running = False

    def _warm(self, watched: bool) -> object:
        import torch

        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        watch = _Watch()
        with torch.cuda.stream(stream):
            if watched:
                with watch.mode():
                    out = self._step()
                self._watched.append(watch)
            else:
                out = self._step()
        torch.cuda.current_stream().wait_stream(stream)
        return out

    def _capture(self) -> object:
        import torch

        first, second = self._watched
        first.must_equal(second)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            self._out = self._step()
        self._graph = graph
        graph.replay()
        return copied(self._out)


class _Watch:
    """What a step calls: names, plain arguments, and tensors that it did not make itself."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        # Memory that a call made stays in the set when it is freed: what lies outside of the step
        # is alive all along, so its place is never one of these.
        self._made: set[int] = set()

    def mode(self) -> Any:
        """A dispatch mode that writes the calls down."""
        from torch.utils._python_dispatch import TorchDispatchMode

        watch = self

        class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                out = func(*args, **(kwargs or {}))
                watch.call(func, args, kwargs or {}, out)
                return out

        return Mode()  # type: ignore[no-untyped-call]

    def call(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Write one call down."""
        import torch
        from torch.utils._pytree import tree_leaves

        given = tree_leaves((args, kwargs))
        made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        name = str(func)
        kinds = {t.device.type for t in (*given, *made) if isinstance(t, torch.Tensor)}
        crosses = {"cpu", "cuda"} <= kinds and "copy" in name
        if "_local_scalar_dense" in name or crosses:
            raise UnsupportedError(
                Text("The step cannot be one CUDA graph."),
                Text(
                    "{name} passes data between host and device, which a graph would freeze.",
                    name=name,
                ),
                Text("Keep inputs on the device, and read results outside of the step."),
            )
        known: list[Any] = [name]
        for value in given:
            if not isinstance(value, torch.Tensor):
                known.append(value if isinstance(value, (int, float, str, bool)) else str(value))
            elif self._place(value) not in self._made:
                known.append((self._place(value), tuple(value.shape), value.storage_offset()))
        self.calls.append(tuple(known))
        for tensor in made:
            if all(
                self._place(tensor) != self._place(g) for g in given if isinstance(g, torch.Tensor)
            ):
                self._made.add(self._place(tensor))

    @staticmethod
    def _place(tensor: Any) -> int:
        return int(tensor.untyped_storage()._cdata)

    def must_equal(self, other: _Watch) -> None:
        """Refuse two steps that differ.

        Raises:
            UnsupportedError: they do, and at which call.
        """
        for one, two in zip(self.calls, other.calls, strict=False):
            if one != two:
                _differs(one[0])
        if len(self.calls) != len(other.calls):
            _differs(f"{len(self.calls)} calls, then {len(other.calls)}")


def _differs(where: str) -> None:
    raise UnsupportedError(
        Text("The step cannot be one CUDA graph."),
        Text(
            "Two steps differ ({where}): other tensors, sizes or numbers, which a graph would "
            "freeze.",
            where=where,
        ),
        Text(
            "Let inputs lie in the same memory at every step, and numbers that change in tensors."
        ),
    )
