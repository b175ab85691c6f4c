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
from gpuscope.advice.evidence import growing_cache, milliseconds, percent, waits_for_host_s
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.advice.whole_step import CAPTURABLE, STATELESS, WholeStep
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live
    from gpuscope.run import Run

__all__ = ["CudaGraph", "WholeStepGraph"]

_GRAPHED = frozenset(
    {"compile-reduce-overhead", "compile-max-autotune", "compile-unmasked-graphs", "decode-graph",
     "cuda-graph", "whole-step-graph"}
)  # fmt: skip
_VENDORS = frozenset({"nvidia", "amd"})


def _against(case: Case) -> Fit | None:
    """What rules any graph out."""
    if case.device.vendor.lower() not in _VENDORS:
        name = case.device.name
        return Fit(False, Words(f"{name} has no such graphs.", f"{name} 没有这种图。"))
    if case.program is None:
        return None
    if case.program.compiled in ("reduce-overhead", "max-autotune", "cudagraphs"):
        return Fit(False, Words("A CUDA graph is used already.", "已经用了 CUDA 图。"))
    reasons = [op for op in case.program.ops if op.sync]
    if reasons:
        why = reasons[0].sync
        place = f" in {reasons[0].module}" if reasons[0].module else ""
        return Fit(
            False,
            Words(
                f"The host waits for the device {len(reasons)} times a step ({why}{place}): a graph"
                " cannot hold that.",
                f"主机每步等待设备 {len(reasons)} 次（{why}{place}）：图中不能有这种等待。",
            ),
        )
    if any(op.group >= 0 for op in case.program.ops):
        return Fit(
            False,
            Words(
                "Ranks talk within the step: their graphs would have to be recorded together.",
                "步内有多卡通信：各卡的图必须一起录制。",
            ),
        )
    if growing_cache(case):
        return Fit(
            False,
            Words(
                "The key-value cache grows: each token has other shapes. decode-graph brings a"
                " cache that stays.",
                "KV 缓存在增长，每个词元形状都不同；decode-graph 自带固定大小的缓存。",
            ),
        )
    return None


def _why(case: Case) -> Words:
    waits_s, step_s = waits_for_host_s(case), case.analysis.step_s
    if waits_s < 0.02 * step_s:
        return Words(
            f"The device waits for the host's launches for only {percent(waits_s, step_s)} of the"
            " step: a graph has little to win by itself.",
            f"设备只有 {percent(waits_s, step_s)} 的时间在等主机下发：单独用图收益很小。",
        )
    return Words(
        f"For {milliseconds(waits_s)}, {percent(waits_s, step_s)} of the step, the device waits for"
        " the host's launches.",
        f"一步中有 {milliseconds(waits_s)}（{percent(waits_s, step_s)}）设备在等主机下发。",
    )


def _saving_s(run: Run, case: Case) -> tuple[float, float] | None:
    """The waits for launches, at most all of them."""
    return (0.0, waits_for_host_s(case))


_POOL = Words(
    "The graph keeps its memory for itself, beside what the warm-up has used.",
    "图独占一块显存池，与预热时用过的显存并存。",
)


class CudaGraph(Change):
    """Replay a model's call from a graph, in inference."""

    name = "cuda-graph"
    title = Words("CUDA graph of the model's call", "用 CUDA 图执行模型前向")
    group = "compilation"
    excludes = _GRAPHED - {"cuda-graph"}
    rank = 90

    def fits(self, case: Case) -> Fit:
        """Inference with inputs of fixed shapes, that waits for nothing."""
        if case.training:
            return Fit(
                False,
                Words(
                    "It trains: whole-step-graph and compile-reduce-overhead hold backward passes.",
                    "这是训练：请用 whole-step-graph 或 compile-reduce-overhead。",
                ),
            )
        against = _against(case)
        return against if against is not None else Fit(True, _why(case))

    def install(self, live: Live) -> None:
        """Capture each root module's call at its fourth call with the same shapes."""
        from gpuscope.advice.call_graphs import replayed_calls

        live.on_call(replayed_calls(live))

    def price(self, case: Case) -> Words:
        """Memory of the graph's own."""
        return _POOL

    def saving_s(self, run: Run, case: Case) -> tuple[float, float] | None:
        """What the device waits for launches."""
        return _saving_s(run, case)


class WholeStepGraph(Change):
    """Replay a whole training step from one graph."""

    name = "whole-step-graph"
    title = Words("one CUDA graph for the whole step", "整个训练步用一个 CUDA 图")
    group = "compilation"
    excludes = _GRAPHED - {"whole-step-graph"}
    rank = 95

    def fits(self, case: Case) -> Fit:
        """A `build` that trains, whose step brings nothing in from the host."""
        if case.program is not None and not case.training:
            why = Words("Nothing is trained: see cuda-graph.", "不是训练：见 cuda-graph。")
            return Fit(False, why, relevant=False)
        against = _against(case)
        if against is not None:
            return against
        if case.program is not None and (reason := _from_host(case)) is not None:
            return Fit(False, reason)
        if case.seen is not None:
            counted = [
                o.class_name for o in case.seen.optimizers
                if o.class_name not in CAPTURABLE | STATELESS
            ]  # fmt: skip
            if counted:
                names = ", ".join(sorted(set(counted)))
                return Fit(
                    False,
                    Words(f"{names} counts its steps on the host.", f"{names} 在主机上计步。"),
                )
            if case.seen.file and not case.seen.function:
                return Fit(
                    False,
                    Words(
                        "A script's loop cannot be replayed: write its step as `build` returns it.",
                        "脚本的循环无法重放：请把一步写成 build 返回的函数。",
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

    def price(self, case: Case) -> Words:
        """Memory of the graph's own."""
        return _POOL

    def risk(self, case: Case) -> Words:
        """Everything of the host is frozen."""
        return Words(
            "Everything that the host decides is frozen: learning rate, branches, the batch's"
            " place. Copy each new batch into the same tensors.",
            "主机上的一切决定都被冻结：学习率、分支、批数据的位置。新数据须拷入同一批张量。",
        )

    def saving_s(self, run: Run, case: Case) -> tuple[float, float] | None:
        """What the device waits for launches."""
        return _saving_s(run, case)


def _from_host(case: Case) -> Words | None:
    """What comes from the host within the step; None for nothing."""
    assert case.program is not None
    for op in case.program.ops:
        devices = {spec.device for spec in (*op.inputs, *op.outputs)}
        if op.phase == "input" or (len(devices) == 2 and "copy" in op.name):
            return Words(
                "The step copies data from the host: a graph would replay the first batch.",
                "每步要从主机拷贝数据：图会一直重放第一批数据。",
            )
    if case.seen is not None and case.seen.loaders:
        return Words(
            "Batches come from a loader: a graph would replay the first one.",
            "数据来自加载器：图会一直重放第一批数据。",
        )
    return None


register(CudaGraph())
register(WholeStepGraph())
