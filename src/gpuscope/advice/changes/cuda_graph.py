"""CUDA graphs without a compiler: the host launches many kernels with one call.

A launch costs the host some microseconds, and each operator in Python more; a graph replays
thousands of kernels with one launch (PyTorch, "Accelerating PyTorch with CUDA Graphs", 2021). The
kernels stay what they are, so the results are the same; shapes, addresses and numbers of the host
are frozen. `cuda-graph` replays a model's call in inference, `whole-step-graph` a whole step,
optimizer included, where the step brings nothing in from the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.step_figures import (
    growing_cache,
    percent,
    waits_for_host_s,
    waits_for_hosts_s,
)
from gpuscope.advice.changes.transforms.step_graph import CAPTURABLE, STATELESS, WholeStep
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live
    from gpuscope.run import Run

__all__ = ["CudaGraph", "WholeStepGraph"]

_GRAPHED = frozenset(
    {
        "compile-reduce-overhead",
        "compile-max-autotune",
        "compile-unmasked-graphs",
        "decode-graph",
        "cuda-graph",
        "whole-step-graph",
    }
)
_VENDORS = frozenset({"nvidia", "amd"})


def _against(case: ChangeCase) -> Fit | None:
    """What rules any graph out."""
    if case.device.vendor.lower() not in _VENDORS:
        name = case.device.name
        return Fit(False, Text("{name} has no such graphs.", name=name))
    if case.program is None:
        return None
    if case.program.compiled in ("reduce-overhead", "max-autotune", "cudagraphs"):
        return Fit(False, Text("A CUDA graph is used already."))
    reasons = [op for op in case.program.ops if op.sync]
    if reasons:
        why = reasons[0].sync
        module = reasons[0].module
        place = Text("{why} in {module}", why=why, module=module) if module else why
        return Fit(
            False,
            Text(
                "The host waits for the device {reasons} times a step ({reason}): a graph "
                "cannot hold that.",
                reasons=len(reasons),
                reason=place,
            ),
        )
    if any(op.group >= 0 for op in case.program.ops):
        return Fit(
            False,
            Text("Ranks talk within the step: their graphs would have to be recorded together."),
        )
    if growing_cache(case):
        return Fit(
            False,
            Text(
                "The key-value cache grows: each token has other shapes. decode-graph brings a "
                "cache that stays."
            ),
        )
    return None


def _why(case: ChangeCase) -> Text:
    waits_s, step_s = waits_for_host_s(case), case.analysis.step_s
    hosts_s = waits_for_hosts_s(case)
    if hosts_s > waits_s + 0.02 * step_s:
        return Text(
            "For {waits}, {share} of the step, the device waits for launches: {own} for its own "
            "host's, the rest in collectives for the hosts of other ranks, which graphs make "
            "faster too.",
            waits=Seconds(hosts_s),
            share=percent(hosts_s, step_s),
            own=Seconds(waits_s),
        )
    if waits_s < 0.02 * step_s:
        return Text(
            "The device waits for the host's launches for only {waits} of the step: a graph has "
            "little to win by itself.",
            waits=percent(waits_s, step_s),
        )
    return Text(
        "For {waits}, {share} of the step, the device waits for the host's launches.",
        waits=Seconds(waits_s),
        share=percent(waits_s, step_s),
    )


def _saving_s(run: Run, case: ChangeCase) -> tuple[float, float] | None:
    """The waits for launches, at most all of them."""
    return (0.0, waits_for_hosts_s(case))


_POOL = Text("The graph keeps its memory for itself, beside what the warm-up has used.")


class CudaGraph(Change):
    """Replay a model's call from a graph, in inference."""

    name = "cuda-graph"
    saves = "launches"
    title = Text("CUDA graph of the model's call")
    group = "compilation"
    excludes = _GRAPHED - {"cuda-graph"}
    rank = 90

    def fits(self, case: ChangeCase) -> Fit:
        """Inference with inputs of fixed shapes, that waits for nothing."""
        if case.training:
            return Fit(
                False,
                Text(
                    "It trains: whole-step-graph and compile-reduce-overhead hold backward passes."
                ),
            )
        against = _against(case)
        return against if against is not None else Fit(True, _why(case))

    def install(self, live: Live) -> None:
        """Capture each root module's call at its fourth call with the same shapes."""
        from gpuscope.advice.changes.transforms.call_graphs import replayed_calls

        live.on_call(replayed_calls(live))

    def price(self, case: ChangeCase) -> Text:
        """Memory of the graph's own."""
        return _POOL

    def saving_s(self, run: Run, case: ChangeCase) -> tuple[float, float] | None:
        """What the device waits for launches."""
        return _saving_s(run, case)


class WholeStepGraph(Change):
    """Replay a whole training step from one graph."""

    name = "whole-step-graph"
    saves = "launches"
    title = Text("one CUDA graph for the whole step")
    group = "compilation"
    excludes = _GRAPHED - {"whole-step-graph"}
    rank = 95

    def fits(self, case: ChangeCase) -> Fit:
        """A `build` that trains, whose step brings nothing in from the host."""
        if case.program is not None and not case.training:
            why = Text("Nothing is trained: see cuda-graph.")
            return Fit(False, why, relevant=False)
        against = _against(case)
        if against is not None:
            return against
        if case.program is not None and (reason := _from_host(case)) is not None:
            return Fit(False, reason)
        if case.seen is not None:
            counted = [
                o.class_name
                for o in case.seen.optimizers
                if o.class_name not in CAPTURABLE | STATELESS
            ]
            if counted:
                names = ", ".join(sorted(set(counted)))
                return Fit(False, Text("{names} counts its steps on the host.", names=names))
            if case.seen.file and not case.seen.function:
                return Fit(
                    False,
                    Text(
                        "A script's loop cannot be replayed: write its step as `build` returns it."
                    ),
                )
        return Fit(True, _why(case))

    def install(self, live: Live) -> None:
        """Let optimizers count on the device; watch, capture and replay the step."""
        from torch.optim.lr_scheduler import LRScheduler

        steps: list[WholeStep] = []

        def edit(cls: type, keywords: dict[str, Any]) -> None:
            if cls.__name__ in CAPTURABLE:
                keywords["capturable"] = True

        def wrap(step: Any) -> Any:
            steps.append(WholeStep(live, step))
            return steps[-1]

        original = LRScheduler.step

        def scheduled(this: Any, *args: Any, **kwargs: Any) -> Any:
            for step in steps:
                step.scheduled()
            return original(this, *args, **kwargs)

        live.on_optimizer(edit)
        live.on_step(wrap)
        live.set(LRScheduler, "step", scheduled)

    def price(self, case: ChangeCase) -> Text:
        """Memory of the graph's own."""
        return _POOL

    def risk(self, case: ChangeCase) -> Text:
        """Everything of the host is frozen."""
        return Text(
            "Everything that the host decides is frozen: learning rate, branches, the batch's "
            "place. Copy each new batch into the same tensors."
        )

    def saving_s(self, run: Run, case: ChangeCase) -> tuple[float, float] | None:
        """What the device waits for launches."""
        return _saving_s(run, case)


def _from_host(case: ChangeCase) -> Text | None:
    """What comes from the host within the step; None for nothing."""
    assert case.program is not None
    for op in case.program.ops:
        devices = {spec.device for spec in (*op.inputs, *op.outputs)}
        if op.phase == "input" or (len(devices) == 2 and "copy" in op.name):
            return Text("The step copies data from the host: a graph would replay the first batch.")
    if case.seen is not None and case.seen.loaders:
        return Text("Batches come from a loader: a graph would replay the first one.")
    return None


register(CudaGraph())
register(WholeStepGraph())
