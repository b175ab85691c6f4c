"""`torch.distributed.pipelining` under a capture: what its stages tell each other of shapes.

In the first step ranks vote whether shapes are known, by numbers that a fake tensor does not have;
then they send descriptions of what goes forward and backward. Votes are answered from the rank's
own stages. What goes forward is mail of the rank before; gradients look like what was sent forward.
"""

from __future__ import annotations

import sys
from typing import Any

from gpuscope.program.capture.patches import Patches

__all__ = ["prepare", "prepare_early"]


def prepare_early(patch: Patches) -> None:
    """Let stages that `pipeline()` cut move to their device: they leave fakes where they are."""
    module = sys.modules.get("torch.distributed.pipelining.stage")
    kind = getattr(module, "_PipelineStage", None)
    if not hasattr(kind, "_move_submod_to_device"):
        return

    def move(self: Any) -> None:
        if not any(parameter.is_meta for parameter in self.submod.parameters()):
            self.submod.to(self.device)

    patch.set(kind, "_move_submod_to_device", move)


def prepare(patch: Patches) -> None:
    """Let stages learn their shapes, if the code that was built uses pipelining."""
    module = sys.modules.get("torch.distributed.pipelining.stage")
    schedules = sys.modules.get("torch.distributed.pipelining.schedules")
    if module is None or schedules is None:
        return
    if hasattr(schedules._PipelineSchedule, "_warmup_p2p"):
        _answer_votes(patch, module, schedules)
    if hasattr(module.PipelineStage, "_recv_meta"):
        _derive_gradients(patch, module)


def _answer_votes(patch: Patches, module: Any, schedules: Any) -> None:
    original = schedules._PipelineSchedule._warmup_p2p

    def warm_up(self: Any, stages: Any, has_backward: bool, p2p_done: bool) -> None:
        if not all(isinstance(stage, module.PipelineStage) for stage in stages):
            original(self, stages, has_backward, p2p_done)
            return
        mode = module.InferenceMode
        needed = any(mode.needs_dynamic(stage._user_meta, has_backward) for stage in stages)
        for stage in stages:
            stage._inference_mode = mode.DYNAMIC if needed else mode.STATIC

    patch.set(schedules._PipelineSchedule, "_warmup_p2p", warm_up)


def _derive_gradients(patch: Patches, module: Any) -> None:
    original = module.PipelineStage._recv_meta

    def receive(self: Any, src_stage: int) -> Any:
        metas = self._stage_meta.outputs
        if src_stage < self.stage_index or metas is None:
            return original(self, src_stage)
        derived = module._derive_grad_metas(metas)
        unknown = any(
            meta is None and of.requires_grad for meta, of in zip(derived, metas, strict=True)
        )
        if unknown:
            return original(self, src_stage)
        return module._StageBackwardMeta(backward_metas=derived)

    patch.set(module.PipelineStage, "_recv_meta", receive)
