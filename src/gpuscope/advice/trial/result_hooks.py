"""Collect a variant's results by hooks that know nothing of the code.

Losses are the roots of backward passes; the gradient's norm is taken just before an optimizer
steps; outputs are those of root modules where a step has no backward pass, or what a step returns.
It is done by a `Change` that is installed after all others, so that it sees what the user's own
lines see: a loss before a change scales it.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.hooks.module_calls import taken_over
from gpuscope.advice.trial.dropout import switch_off
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live
    from gpuscope.advice.trial.workloads import Subject

__all__ = ["Watching"]

SAMPLES = 512
"""Elements taken of an output, evenly spread."""

MOST_SKIPS = 20
"""Steps that a gradient scaler skips and that are taken again: it halves its scale after each."""

UPDATE_SAMPLES = 65_536
"""Elements taken of a parameter, evenly spread."""


class Watching(Change):
    """Collects losses, gradient norms, outputs and updates; switches dropout off.

    Args:
        perturb: relative noise put on every weight before the first step.
        noise: which draw of that noise.
    """

    name = "watching"
    title = Text("watch the results")
    group = "operators"
    rank = 1000

    def __init__(self, perturb: float = 0.0, noise: int = 0) -> None:
        self._perturb, self._noise = perturb, noise
        self._outside = False
        self._fed: dict[int, Any] = {}
        self._updates = 0
        self._skipped = False
        self._precisions: set[str] = set()
        self._losses: list[Any] = []
        self._norms: list[Any] = []
        self._outputs: dict[int, Any] = {}
        self._found: dict[str, list[tuple[float, ...] | None]] = {
            "loss": [],
            "gradient norm": [],
            "output": [],
            "result": [],
            "fed": [],
        }
        self._dropped = [0]

    def fits(self, case: ChangeCase) -> Fit:
        """It always does."""
        return Fit(True, self.title)

    def install(self, live: Live) -> None:
        """Put the hooks in place."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._live = live
        self._dropped = switch_off(live)
        live.on_model(self._model)
        self._outside = live.around_calls(self._watch_call)
        live.on_backward(self._watch_backward)
        scaler: Any = torch.amp.GradScaler
        live.set(scaler, "step", self._watch_scaler(scaler.step))
        handle = register_optimizer_step_pre_hook(_untraced(self._before_optimizer))
        live.at_end(handle.remove)

    # -- the hooks ---------------------------------------------------------------------------------

    def _model(self, module: Any) -> None:
        self._precisions |= {str(p.dtype).removeprefix("torch.") for p in module.parameters()}
        if self._perturb:
            _perturb(module, self._perturb, self._noise)
        if not self._outside and taken_over(module):
            # The code itself applies changes that wrap calls (`gs.apply`).
            self._live.on_call(self._watch_call)
            self._outside = True
        if self._outside:
            return
        compiled = getattr(module, "_compiled_call_impl", None)
        if compiled is None:
            hook = _untraced(lambda m, args, named, out: self._output(m, (args, named), out))
            self._live.at_end(module.register_forward_hook(hook, with_kwargs=True).remove)
            return

        def called(*args: Any, **kwargs: Any) -> Any:
            output = compiled(*args, **kwargs)
            self._output(module, (args, kwargs), output)
            return output

        module._compiled_call_impl = called

    def _watch_call(self, module: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        """Outside of changes that wrap calls: a graph that is replayed runs no forward hook."""

        def called(*args: Any, **kwargs: Any) -> Any:
            output = call(*args, **kwargs)
            if not _capturing():
                self._output(module, (args, kwargs), output)
            return output

        return called

    def _output(self, module: Any, given: Any, output: Any) -> None:
        """Of each root module, its first call in a step: later ones may follow from tokens that
        were chosen by a hair's breadth. What whole numbers it was fed is kept, too: where those
        differ, tokens were chosen differently in an earlier step."""
        import torch

        for kind in ("cuda", "cpu"):
            if torch.is_autocast_enabled(kind):
                self._precisions.add(str(torch.get_autocast_dtype(kind)).removeprefix("torch."))
        if id(module) not in self._outputs and not _capturing():
            found = next(iter(_floating(output)), None)
            if found is not None:
                self._outputs[id(module)] = _sampled(found, SAMPLES)
                fed = next((t for t in _tensors(given) if _whole(t)), None)
                if fed is not None:
                    self._fed[id(module)] = fed.detach().clone()

    def _watch_backward(self, called: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not _capturing():
                self._losses.append(tensor.detach().float().sum())
            return called(tensor, *args, **kwargs)

        return backward

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        import torch

        if _capturing():
            return
        found_inf = getattr(optimizer, "found_inf", None)
        if found_inf is not None and float(found_inf) > 0:
            return  # the gradient scaler skips this step
        self._updates += 1
        gradients = [
            _local(p.grad)
            for group in optimizer.param_groups
            for p in group["params"]
            if p.grad is not None
        ]
        if not gradients:
            return
        norms = torch.stack([_norm(each) for each in gradients])
        scale = getattr(optimizer, "grad_scale", None)  # fused optimizers unscale by themselves
        total = norms.double().square().sum()
        self._norms.append(total if scale is None else total / scale.double().square())

    def _watch_scaler(self, called: Callable[..., Any]) -> Callable[..., Any]:
        """A scaler skips steps until it has found its scale: by design, not by mistake."""

        @functools.wraps(called)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._updates
            result = called(scaler, optimizer, *args, **kwargs)
            self._skipped |= self._updates == before and not _capturing()
            return result

        return step

    # -- the steps ---------------------------------------------------------------------------------

    def observe(
        self,
        subject: Subject,
        steps: int,
        seed: int,
        around: Callable[[int], AbstractContextManager[Any]] = lambda number: nullcontext(),
    ) -> dict[str, Any]:
        """Run steps, each from a seed of its own, and return what they gave as plain data.

        Args:
            subject: runs them.
            steps: how many.
            seed: of the first one but one.
            around: entered around each step, told its number.
        """
        from gpuscope.advice.trial.seeding import seed_all

        if self._losses or self._norms or self._outputs:
            self._end_step(None)  # a script has taken its first one
        before = self._parameters() or None
        self._skipped, skips = False, MOST_SKIPS
        for number in range(steps):
            with around(number):
                seed_all(seed + 1 + number)
                subject.advance(1)
                while self._skipped and skips:
                    self._take()
                    skips -= 1
                    seed_all(seed + 1 + number)
                    subject.advance(1)
                self._end_step(subject.result)
        quantities: dict[str, Any] = {k: v for k, v in self._found.items() if any(v)}
        update = self._update(before)
        if update is not None:
            quantities["update"] = [update]
        if quantities.get("loss"):
            quantities.pop("output", None)
            quantities.pop("fed", None)
        return {
            "quantities": quantities,
            "precision": self._precision(),
            "dropout": self._dropped[0] > 0,
        }

    def _end_step(self, result: object) -> None:
        losses, norms, outputs, fed = self._take()
        found = self._found
        found["loss"].append((sum(float(each) for each in losses),) if losses else None)
        found["gradient norm"].append(
            (math.sqrt(sum(float(each) for each in norms)),) if norms else None
        )
        found["output"].append(
            tuple(x for each in outputs.values() for x in each.tolist()) if outputs else None
        )
        found["result"].append(_result(result))
        found["fed"].append(tuple(_digest(each) for each in fed.values()) if fed else None)

    def _take(self) -> tuple[list[Any], list[Any], dict[int, Any], dict[int, Any]]:
        """What this step has given; the next one begins."""
        taken = self._losses, self._norms, self._outputs, self._fed
        self._losses, self._norms, self._outputs, self._fed = [], [], {}, {}
        self._skipped = False
        return taken

    def _parameters(self) -> list[tuple[Any, Any]]:
        owned = {
            id(p): p
            for optimizer in self._live.optimizers
            for group in optimizer.param_groups
            for p in group["params"]
        }
        return [(p, _sampled(_local(p), UPDATE_SAMPLES)) for p in owned.values()]

    def _update(self, before: list[tuple[Any, Any]] | None) -> tuple[float, ...] | None:
        if before is None:
            return None
        total = 0.0
        for parameter, was in before:
            now = _sampled(_local(parameter), UPDATE_SAMPLES)
            share = parameter.numel() / max(1, was.numel())
            total += float((now - was).double().square().sum()) * share
        return (math.sqrt(total),)

    def _precision(self) -> str:
        import torch

        for name in ("bfloat16", "float16"):
            if name in self._precisions:
                return name
        return "tf32" if torch.get_float32_matmul_precision() != "highest" else "float32"


def _untraced(hook: Callable[..., Any]) -> Any:
    """A hook that a compiler leaves alone."""
    import torch

    dynamo: Any = torch._dynamo
    return dynamo.disable(hook)


def _perturb(module: Any, relative: float, draw: int) -> None:
    """Noise from a generator of its own: the workload's own draws stay what they are."""
    import torch

    generators: dict[Any, Any] = {}
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.is_floating_point():
                continue
            local, device = _local(parameter), parameter.device
            if device not in generators:
                generators[device] = torch.Generator(device).manual_seed(20_260 + draw)
            noise = torch.randn(
                local.shape, generator=generators[device], device=device, dtype=torch.float32
            )
            local.copy_(local * (1 + relative * noise))


def _local(tensor: Any) -> Any:
    """This rank's part of a distributed tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _norm(gradient: Any) -> Any:
    gradient = gradient.detach()
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return values.float().norm()


def _sampled(tensor: Any, most: int) -> Any:
    """A copy of evenly spread elements, float32."""
    flat = tensor.detach().reshape(-1)
    if flat.numel() > most:
        import torch

        at = torch.linspace(0, flat.numel() - 1, most, device=flat.device, dtype=torch.float64)
        flat = flat[at.long()]
    return flat.float().clone()


def _floating(value: Any) -> Iterable[Any]:
    """Floating tensors in a module's output, first ones first."""
    return (tensor for tensor in _tensors(value) if tensor.is_floating_point())


def _tensors(value: Any) -> Iterable[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)


def _whole(tensor: Any) -> bool:
    """Whether it holds whole numbers: tokens, not a mask of booleans."""
    import torch

    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _digest(tensor: Any) -> float:
    """A number that other whole numbers would hardly give (CRC-32)."""
    return float(zlib.crc32(_local(tensor).long().contiguous().cpu().numpy().tobytes()))


def _result(result: object) -> tuple[float, ...] | None:
    """What a step returned, where it is a number or a tensor of them."""
    if isinstance(result, (int, float)) and not isinstance(result, bool):
        return (float(result),)
    with suppress(RuntimeError):
        found = next(iter(_floating(result)), None)
        if found is not None:
            return tuple(_sampled(found, SAMPLES).tolist())
    return None


def _capturing() -> bool:
    import torch

    if torch.compiler.is_compiling():
        return True
    cuda: Any = torch.cuda  # untyped in torch
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())
