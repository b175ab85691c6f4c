"""One stage's work on two microbatches, run by PyTorch's own `PipelineStage`, with marks between.

A stage that is captured this way gives the blocks of which the step of a whole pipeline is
composed (`gpuscope.program.pipeline.blocks`): the first microbatch's passes, those of any later one
(which add to gradients that are there), the synchronisation of gradients, and the end of the step.
Nothing is sent: the receive buffers of the stage stand for what its neighbours send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from gpuscope.program.pipeline.blocks import MARK

__all__ = ["StageParts", "mark", "stage_step"]


@dataclass(frozen=True)
class StageParts:
    """One stage of a pipeline, as ordinary PyTorch, on its rank and device.

    Attributes:
        module: the stage, sharded and wrapped as it is to run.
        stage, stages: its number, and how many the pipeline has.
        inputs: arguments of one microbatch; on any but the first stage what the stage before sends.
        outputs: tensors of the shape and dtype that it sends on; () on the last stage.
        finish: ends the step: clipping, `optimizer.step()`, `optimizer.zero_grad()`.
        loss: of the last stage's output; None elsewhere.
        group: the pipeline's process group.
        split: whether the backward is split into that of inputs and that of weights.
        more: keyword arguments of the module, which are on every stage that needs them (labels).
        scale: gradients are divided by the number of microbatches at the end (`scale_grads` of
            PyTorch's schedules); False where the loss is.
        around: makes what holds around the passes of a step (`loss_parallel` and the like).
    """

    module: Any
    stage: int
    stages: int
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    finish: Callable[[], object]
    loss: Callable[[Any], Any] | None = None
    group: Any = None
    split: bool = False
    scale: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)
    around: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def first(self) -> bool:
        """Whether it has no stage before it."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Whether it has no stage after it."""
        return self.stage == self.stages - 1


def mark(kind: str, microbatch: int = -1, *tensors: Any) -> None:
    """Note in the capture that runs, if any, that a block begins here, or which tensors matter."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    from gpuscope.program.capture.recorder import Recorder

    for mode in reversed(_get_current_dispatch_mode_stack()):
        if isinstance(mode, Recorder):
            if mode.recording:
                specs = tuple(mode.spec(t) for t in tensors)
                what = {"kind": kind, "microbatch": microbatch}
                mode.append(MARK, "default", specs, (), what, view=True)
            return


def stage_step(parts: StageParts) -> Callable[[], None]:
    """A step of two microbatches on one stage; capture it, and split it into blocks.

    Args:
        parts: the stage.

    Returns:
        The step, for `build` to return. Runs under a capture with a process group only; its
        first call works on one microbatch.
    """
    stage = _prepared(parts)
    microbatches = 1  # enough for the first step, which only makes optimizer states and buffers

    def step() -> None:
        nonlocal microbatches
        with parts.around():
            mark("begin")
            stage.clear_runtime_states()
            for microbatch in range(microbatches):
                loss = _forward(parts, stage, microbatch)
                _backward(parts, stage, microbatch, loss)
                del loss
        mark("reduce")
        stage.perform_reduce_grad(2 if parts.scale else 1)
        mark("finish")
        parts.finish()
        mark("end")
        microbatches = 2

    return step


def _prepared(parts: StageParts) -> Any:
    """The `PipelineStage` with buffers for two microbatches; shapes are given, so none are sent."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining import stage as module

    device = parts.inputs[0].device
    # A last stage sends nothing on, so what it is said to give does not matter.
    outputs = tuple(t.detach().requires_grad_() for t in parts.outputs) or parts.inputs
    stage = PipelineStage(
        parts.module,
        parts.stage,
        parts.stages,
        device,
        input_args=parts.inputs,
        output_args=outputs,
        group=parts.group,
    )
    stage.has_backward = True
    mode = getattr(module, "InferenceMode", None)
    if mode is None:  # torch up to 2.9
        stage._prepare_forward_infra(2, parts.inputs, {})
    else:
        stage._inference_mode = mode.STATIC
        stage._prepare_forward_infra(2, parts.inputs, {}, has_backward=True)
    stage._prepare_backward_infra(2)
    return stage


def _forward(parts: StageParts, stage: Any, microbatch: int) -> Any:
    received = () if parts.first else _buffers(stage.args_recv_info, microbatch)
    mark("forward", microbatch, *received)
    arguments = parts.inputs if parts.first else ()
    output = stage.forward_one_chunk(
        microbatch, arguments, dict(parts.more), save_forward_output=False
    )
    loss = parts.loss(output) if parts.last and parts.loss is not None else None
    if not parts.last:
        sent = output if isinstance(output, (tuple, list)) else (output,)
        mark("send_activation", microbatch, *map(_arrived, sent))
    return loss


def _backward(parts: StageParts, stage: Any, microbatch: int, loss: Any) -> None:
    received = () if parts.last else _buffers(stage.grad_recv_info, microbatch)
    final = microbatch == 1
    mark("backward_input" if parts.split else "backward", microbatch, *received)
    stage.backward_one_chunk(
        microbatch,
        loss=loss,
        full_backward=not parts.split,
        last_backward=final and not parts.split,
    )
    del loss
    if not parts.first:
        sent = [g for g in stage.bwd_cache.pop(microbatch) if g is not None]
        mark("send_gradient", microbatch, *sent)
        del sent
    else:
        stage.bwd_cache.pop(microbatch, None)
    if parts.split:
        mark("backward_weight", microbatch)
        stage.backward_weight_one_chunk(microbatch, last_backward=final)


def _arrived(tensor: Any) -> Any:
    """The tensor itself where a collective gives it (an embedding's part, shared by ranks)."""
    return tensor.trigger_wait() if hasattr(tensor, "trigger_wait") else tensor


def _buffers(infos: Any, microbatch: int) -> tuple[Any, ...]:
    """The stage's receive buffers of a microbatch."""
    return tuple(info.buffer for info in infos[microbatch] if info.buffer is not None)
