"""Tensor and sequence parallelism: how each layer of the network is cut over the tp ranks.

The plan is that of Megatron-LM (Shoeybi et al. 2019; Korthikanti et al. 2022 for tokens shared
between layers), written with PyTorch's `parallelize_module`.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel.style import ParallelStyle

from gpuscope.program.models.networks.transformer import HybridBlock, Transformer
from gpuscope.program.models.networks.transformer_attention import LatentAttentionBlock
from gpuscope.program.models.networks.transformer_experts import MixtureOfExperts

Plan = dict[str, ParallelStyle]


class Spread(ParallelStyle):
    """The same tensor on all ranks, used by each for its own heads: gradients are summed."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def come(module: nn.Module, inputs: Any, mesh: DeviceMesh) -> Any:
            return DTensor.from_local(inputs[0], mesh, (Replicate(),), run_check=False)

        def leave(module: nn.Module, out: Any, mesh: DeviceMesh) -> Any:
            return out.to_local(grad_placements=(Partial(),))

        return distribute_module(module, device_mesh, None, come, leave)


class OwnPlaces(ParallelStyle):
    """A table of positions on all ranks; each looks up the positions of its own tokens."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def come(module: nn.Module, inputs: Any, mesh: DeviceMesh) -> Any:
            whole = DTensor.from_local(inputs[0], mesh, (Replicate(),), run_check=False)
            return whole.redistribute(placements=(Shard(0),))

        def leave(module: nn.Module, out: Any, mesh: DeviceMesh) -> Any:
            return out.to_local()

        return distribute_module(module, device_mesh, None, come, leave)


def apply_tensor_parallel(model: Transformer, mesh: DeviceMesh, *, sequence: bool) -> None:
    """Cut the layers over the ranks of `mesh`.

    Args:
        model: on its device, not yet sharded in another way.
        mesh: the tp ranks, one dimension.
        sequence: between the layers each rank has a part of the tokens.
    """
    tied = (
        model.embedding is not None
        and model.output is not None
        and (model.output.weight is model.embedding.weight)
    )
    between = Shard(1) if sequence else Replicate()
    ends: Plan = {}
    if model.embedding is not None:
        ends["embedding"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
    if model.positions is not None and sequence:
        ends["positions"] = OwnPlaces()
    if model.norm is not None and sequence:
        ends["norm"] = SequenceParallel()
    if model.output is not None:
        ends["output"] = ColwiseParallel(
            input_layouts=between, output_layouts=Shard(-1), use_local_output=False
        )
    parallelize_module(model, mesh, ends)
    if tied and model.embedding is not None and model.output is not None:
        model.output.weight = model.embedding.weight
    for block in model.layers:
        if isinstance(block, HybridBlock) and block.mixer is not None:
            parallelize_module(block.mixer, mesh, OwnHeads())
        parallelize_module(block, mesh, _block_plan(block, between, sequence))


class OwnHeads(ParallelStyle):
    """A state-space mixer: each rank has the parameters of its own groups of heads."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        for name, parameter in list(module.named_parameters(recurse=False)):
            part = nn.Parameter(distribute_tensor(parameter, device_mesh, [Shard(0)]))
            module.register_parameter(name, part)
        return module


def _hybrid_plan(block: HybridBlock, between: Any, sequence: bool) -> Plan:
    plan: Plan = {"norm": SequenceParallel()} if sequence else {}
    if block.attention is not None:
        plan["attention"] = _gathered(between, 2)
        plan |= {f"attention.{name}": s for name, s in _attention(block, between).items()}
    elif block.feed is not None:
        plan |= _feed("feed", block.feed, between)
    else:
        plan["mixer"] = _gathered(between, 1)
        plan |= {
            "mixer.into": ColwiseParallel(),
            "mixer.out": RowwiseParallel(output_layouts=between),
        }
    return plan


def _block_plan(block: Any, between: Any, sequence: bool) -> Plan:
    if isinstance(block, HybridBlock):
        return _hybrid_plan(block, between, sequence)
    latent = isinstance(block.attention, LatentAttentionBlock)
    plan: Plan = {"attention": _gathered(between, 2, local=latent)}
    if sequence:
        plan |= {"attention_norm": SequenceParallel(), "feed_norm": SequenceParallel()}
        if block.attention_end is not None:
            after = SequenceParallel(use_local_output=True)  # it is added to what is local
            plan |= {"attention_end": after, "feed_end": after}
    plan |= {f"attention.{name}": style for name, style in _attention(block, between).items()}
    return plan | _feed("feed", block.feed, between)


def _feed(path: str, feed: nn.Module, between: Any) -> Plan:
    if not isinstance(feed, MixtureOfExperts):
        return _feed_forward(path, feed, between)
    # Experts work on each rank's own tokens, laid out in one row: (tokens, hidden).
    plan: Plan = {path: _local_tokens(between)}
    plan[f"{path}.router"] = SequenceParallel(sequence_dim=0, use_local_output=True)
    if feed.shared_gate is not None:
        plan[f"{path}.shared_gate"] = SequenceParallel(sequence_dim=0, use_local_output=True)
    if feed.shared is not None:
        plan |= _feed_forward(f"{path}.shared", feed.shared, Shard(0))
    return plan


def _attention(block: Any, between: Any) -> Plan:
    attention = block.attention
    out = RowwiseParallel(output_layouts=between)
    if isinstance(attention, LatentAttentionBlock):
        return {
            "query": ColwiseParallel(),
            "up": ColwiseParallel(),
            "rope_key": Spread(),
            "out": out,
        }
    names = ("qkv",) if hasattr(attention, "qkv") else ("query", "key", "value")
    plan: Plan = {name: ColwiseParallel() for name in names}
    plan["out"] = out
    if attention.query_norm is not None:
        heads = SequenceParallel(sequence_dim=2, use_local_output=True)
        plan |= {"query_norm": heads, "key_norm": heads}
    return plan


def _feed_forward(path: str, feed: nn.Module, between: Any) -> Plan:
    plan: Plan = {path: _gathered(between, 1), f"{path}.up": ColwiseParallel()}
    if getattr(feed, "gate", None) is not None:
        plan[f"{path}.gate"] = ColwiseParallel()
    plan[f"{path}.down"] = RowwiseParallel(output_layouts=between)
    return plan


def _gathered(between: Any, inputs: int, *, local: bool = False) -> ParallelStyle:
    """All tokens on every rank; the second input (positions) stays as it is.

    They stay a DTensor unless `local`: so the projections' partial gradients are added up first,
    and summed over ranks once.
    """
    rest = (None,) * (inputs - 1)
    return PrepareModuleInput(
        input_layouts=(between, *rest),
        desired_input_layouts=(Replicate(), *rest),
        use_local_output=local,
    )


def _local_tokens(between: Any) -> ParallelStyle:
    return PrepareModuleInput(
        input_layouts=(between,), desired_input_layouts=(between,), use_local_output=True
    )
