"""`torch.compile` while capturing: what is compiled is marked, call by call, and runs under fakes.

The compiler itself does not run. Code inside of a compiled call hears that it is being compiled
(`torch.compiler.is_compiling()`), so that it takes the path that Dynamo would trace: transformers
then builds its masks as tensors, which decides the attention kernel. Every operator carries the
number of the compiled call that it belongs to (`Op.region`), in the backward pass by the autograd
node that it runs in; `gpuscope.program.fusion` makes kernels of it.
"""

from __future__ import annotations

import functools
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.program.capture.left_frames import Rest, user_frame
from gpuscope.program.capture.operators import Traced
from gpuscope.program.capture.patches import Patches, here
from gpuscope.program.types import OPTIMIZER_ISSUED, RETURNED, GraphBreak, Program

Entered = Callable[[], AbstractContextManager[None]]

GRAPHED = "cudagraphs"
"""The mode of code that is replayed from graphs, not compiled."""

_GRAPHLESS = ("default", "max-autotune-no-cudagraphs")

_READS_A_VALUE = "aten::_local_scalar_dense"

_REASONS = {
    "item": Text("the value of a tensor is read (.item(), float(), if tensor:)"),
    "equal": Text("torch.equal is read on the host"),
    "nonzero": Text("the size of a result depends on data"),
    "blocking_copy": Text("a tensor is copied to the host"),
    "synchronize": Text("the host waits for the device"),
}


class Regions:
    """Compiled calls of the recorded step, numbered from 1; 0 is eager code.

    Args:
        recorder: its operators are marked.
    """

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.depth = 0
        self.count = 0
        self.asked = self.latest = 0
        self.breaks: dict[tuple[str, str], int] = {}
        self.modes: dict[int, tuple[int, str]] = {}
        """Of each compiled call of the step: the asking's number, and the mode."""
        self._rests: list[Rest] = []
        self._recording = False
        self._numbers: list[int] = []
        self._owners: list[int] = []

    @property
    def active(self) -> bool:
        """Whether compiled code is being run."""
        return self.depth > 0 and (not self._rests or bool(self.current()))

    def is_traced(self, *_: Any, **__: Any) -> bool:
        """What code that asks whether it is traced hears.

        Optimizers hear no: their list operators are recorded, and merged when fused.
        """
        return self.active and not self.recorder.in_optimizer

    def use(self, mode: str, asked: int) -> None:
        """Something that was asked to be compiled in this mode runs; of several, that which was
        asked for last gives the program's."""
        if asked >= self.latest:
            self.latest, self.recorder.compiled = asked, mode

    @contextmanager
    def call(self, mode: str, asked: int) -> Iterator[None]:
        """One call of a compiled function; a call inside of another is part of it."""
        self.use(mode, asked)
        if not self.depth:
            if self.recorder.recording and not self._recording:
                self._recording, self.count = True, 0
                self._numbers.clear()
                self._owners.clear()
                self.modes.clear()
            self.count += 1
            self.modes[self.count] = asked, mode
            self._mark(self.count)
            if torch.is_autocast_enabled("cuda"):
                Traced.autocast = torch.get_autocast_dtype("cuda")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if not self.depth:
                self._rests.clear()
                Traced.autocast = None
                self._mark(0)

    def _mark(self, owner: int, back: int = 0) -> None:
        """From this autograd number on, nodes belong to `owner`; from the one before where an
        operator is under way, which has its node already."""
        number = torch._C._autograd._get_sequence_nr() - back
        if self._numbers and self._numbers[-1] == number:
            self._owners[-1] = owner
        else:
            self._numbers.append(number)
            self._owners.append(owner)

    def current(self) -> int:
        """The compiled call that an operator belongs to now; 0 for eager code."""
        if self.depth:
            return self._among_rests() if self._rests else self.count
        node = torch._C._current_autograd_node()
        if node is None or not self._numbers:
            return 0
        number = node._sequence_nr() if hasattr(node, "_sequence_nr") else None
        if number is None or number > self._numbers[-1] + 10**9:
            return 0  # accumulation of a gradient
        at = bisect_right(self._numbers, number) - 1
        return self._owners[at] if at >= 0 else 0

    def broken(self, reason: str) -> None:
        """The host needs a value in the middle of a compiled call: Dynamo breaks its graph.

        What follows is a graph of its own, forward and backward.
        """
        if self.depth and self.recorder.recording:
            key = (_user_line(), _REASONS.get(reason, reason))
            self.breaks[key] = self.breaks.get(key, 0) + 1
            self.count += 1
            self._mark(self.count)

    @contextmanager
    def left(self, reason: str) -> Iterator[None]:
        """Code that Dynamo does not trace, and with it the rest of the function that calls it."""
        if self.recorder.recording:
            key = (_user_line(), reason)
            self.breaks[key] = self.breaks.get(key, 0) + 1
        rest = Rest(user_frame(sys._getframe(1)))
        self._rests.append(rest)
        depth, self.depth = self.depth, 0
        autocast, Traced.autocast = Traced.autocast, None
        self._mark(0)
        try:
            yield
        finally:
            self.depth, Traced.autocast = depth, autocast

    def _among_rests(self) -> int:
        """As `current`, where a function that is being run was left to its end."""
        ended = False
        while self._rests and self._rests[-1].ended:
            self._rests.pop()
            ended = True
        if not self._rests:
            return self._begun() if ended else self.count
        called = self._rests[-1].called(sys._getframe(1))
        if called is None:
            if self._owners and self._owners[-1]:
                self._mark(0, 1)
            return 0
        return self._begun() if called else self.count

    def _begun(self) -> int:
        """A graph of its own, from the operator on that is being recorded."""
        self.count += 1
        self._mark(self.count, 1)
        return self.count

    def found(self) -> tuple[GraphBreak, ...]:
        """The graph breaks of the recorded step, each line once."""
        return tuple(GraphBreak(site, why, n) for (site, why), n in self.breaks.items())


def _user_line() -> str:
    """ "file.py:12" of the innermost frame that is neither torch's nor gpuscope's."""
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"


def mode_of(mode: str | None, backend: object, options: Mapping[str, Any] | None) -> str:
    """`Program.compiled` for arguments of `torch.compile`; "" where nothing is generated."""
    if backend == "cudagraphs":
        return GRAPHED
    if backend not in ("inductor", None):
        return ""
    options = options or {}
    graphs = bool(options.get("triton.cudagraphs"))
    if options.get("max_autotune"):
        return "max-autotune" if graphs else "max-autotune-no-cudagraphs"
    return "reduce-overhead" if graphs else (mode or "default")


def of_model_and_optimizer(program: Program, modes: Mapping[int, tuple[int, str]]) -> Program:
    """The program with its model's mode, where optimizers are compiled by calls of their own.

    Args:
        program: as it was recorded, with the mode that was asked for last.
        modes: of the step's compiled calls, see `Regions.modes`.
    """
    phases: dict[int, set[str]] = {}
    for op in program.ops:
        if op.region:
            phases.setdefault(op.region, set()).add(op.phase)
    own = {number for number, found in phases.items() if found == {"optimizer"}}
    models = [modes[n] for n in phases if n not in own and n in modes]
    if not own or not models or program.compiled in ("", GRAPHED):
        return program
    mode = max(models)[1]
    issued = mode not in _GRAPHLESS and all(modes[n][1] in _GRAPHLESS for n in own if n in modes)
    settings = {**program.settings, OPTIMIZER_ISSUED: True} if issued else program.settings
    return replace(program, compiled=mode, settings=settings)


def install(patch: Patches, recorder: Any) -> None:
    """Make `torch.compile` and `Module.compile` mark what they compile; note the mode."""
    recorder.compiled = ""
    recorder.switches = {}
    regions = recorder.regions = Regions(recorder)
    recorder.is_traced = regions.is_traced
    _mark_operators(recorder, regions)

    def compile_(
        model: Any = None,
        *,
        mode: str | None = None,
        backend: Any = "inductor",
        options: Any = None,
        disable: bool = False,
        **kwargs: Any,
    ) -> Any:
        how = "" if disable else mode_of(mode, backend, options)

        def wrapped(target: Any) -> Any:
            regions.asked += 1
            if how == GRAPHED:
                regions.use(how, regions.asked)
            if how in ("", GRAPHED):
                return target
            call = functools.partial(regions.call, how, regions.asked)
            if isinstance(target, torch.nn.Module):
                return _compile_module(patch, target, regions, call)
            return _entering(target, regions, call)

        return wrapped if model is None else wrapped(model)

    def module_compile(self: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        compile_(self, **kwargs)

    def graphed(callables: Any, *args: Any, whole_step: bool = False, **kwargs: Any) -> Any:
        regions.asked += 1
        regions.use(GRAPHED, regions.asked)
        if whole_step:
            recorder.switches["step_graph"] = True
        return callables

    patch.set(torch, "compile", compile_)
    patch.set(torch.nn.Module, "compile", module_compile, only_if_present=True)
    patch.set(torch.nn.Module, "_orig_mod", _WhatWasCompiled())
    patch.set(torch.cuda, "make_graphed_callables", graphed, only_if_present=True)
    for name in ("is_compiling", "is_dynamo_compiling"):
        patch.set(torch.compiler, name, regions.is_traced, only_if_present=True)
    for cls in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU):
        patch.set(cls, "forward", _uncompiled(cls.forward, regions))


def _uncompiled(forward: Callable[..., Any], regions: Regions) -> Callable[..., Any]:
    """A recurrent layer's forward pass, which Dynamo does not trace (its `allow_rnn` is off by
    default, torch/_dynamo/config.py). It gives up where the layer is read, not where it is called:
    there it cannot resume, so the rest of that function runs as it is."""

    @functools.wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not regions.active:
            return forward(*args, **kwargs)
        with regions.left(Text("recurrent layers (RNN, LSTM, GRU) are not compiled")):
            return forward(*args, **kwargs)

    return call


def _mark_operators(recorder: Any, regions: Regions) -> None:
    """Every operator written down from now on says which compiled call it belongs to."""
    append = recorder.append

    def marked(*args: Any, **kwargs: Any) -> Any:
        # A value on the host is read without waiting, but as little known to the compiler.
        reason = kwargs.get("sync") or ("item" if args[0] == _READS_A_VALUE else "")
        inside = torch._C._current_autograd_node() is not None or recorder.in_optimizer
        if reason and not inside:
            number = append(*args, **kwargs)
            regions.broken(reason)
            return number
        return append(*args, region=regions.current(), **kwargs)

    recorder.append = marked


def _entering(
    function: Callable[..., Any], regions: Regions, entered: Entered
) -> Callable[..., Any]:
    """A function whose calls are compiled calls."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not here():  # a model that is in use elsewhere, too
            return function(*args, **kwargs)
        with entered():
            out = function(*args, **kwargs)
            if regions.depth == 1:
                _note_returned(regions.recorder, out)
        return out

    return call


def _compile_module(
    patch: Patches, module: torch.nn.Module, regions: Regions, entered: Entered
) -> Any:
    """A module whose calls are compiled calls, as `Module.compile` makes it."""
    patch.everywhere(module, "_compiled_call_impl", _entering(module._call_impl, regions, entered))
    return module


class _WhatWasCompiled:
    """`torch.compile(model)._orig_mod`: here the model itself, whose calls are compiled.

    No `property`: TorchScript compiles those of a class.
    """

    def __get__(self, module: torch.nn.Module | None, owner: type) -> Any:
        if module is None:
            return self
        if module.__dict__.get("_compiled_call_impl") is None:
            raise AttributeError("_orig_mod")  # nn.Module says it in full
        return module


def _note_returned(recorder: Any, out: Any) -> None:
    """Mark what the call returns with a gradient to come: what gets none is filled with zeros."""
    if not recorder.recording or not torch.is_grad_enabled():
        return
    specs = [recorder.spec(t) for t in _tensors(out) if t.requires_grad]
    if specs:
        recorder.append(RETURNED, "default", tuple(specs), (), {}, view=True, phase="forward")


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
