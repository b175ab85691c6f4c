"""What Megatron-LM and Transformer Engine make of a captured step that PyTorch's own code does not.

Eight habits, each a fact of the software's documentation or code, each a change of the captured
program that leaves its operators where they are:

- Tokens in the first dimension (Korthikanti et al. 2022): what tensor parallel ranks gather or
  scatter lies together already, so PyTorch's copies after a gather and before a scatter fall away.
- Tensor parallel communication beside its own product (Transformer Engine's "userbuffers",
  `tp_comm_overlap`): a gather is exchanged in a ring, piece by piece, while the product of the
  pieces that are there runs; a reduce-scatter follows its product in pieces, and in the backward
  pass it runs beside the product for the weights. Both hold few multiprocessors, which are set
  aside (1 and 8 to 24; `megatron/bridge/training/comm_overlap.py`).
- A gradient is added to that of the microbatches before inside of the product that makes it
  (`gradient_accumulation_fusion`): the product reads and writes the sum, in the dtype that
  gradients are kept and summed in (`main_grad` in megatron/core/distributed/
  param_and_grad_buffer.py; `wgrad_gemm_accum_fp32` and `wgrad_gemm_accum_fp16`).

- The experts' activation and the cast of its result are part of the grouped product before it, and
  in the backward pass so are the activation's gradient and its cast
  (`NVTE_CUTEDSL_FUSED_GROUPED_MLP`, `use_transformer_engine_op_fuser`); so are the clamped gates
  (`ScaledClampedQGeGLU`) and the last bias.

- The bias of an expert's first product is added by the product, and summed by the product for its
  weights (Transformer Engine's grouped linear layers).

- Attention within a window is cuDNN's where all attention is (Transformer Engine's fused attention
  takes a window; PyTorch has one for FlashAttention alone).

- A block's forward pass, and its backward pass, are each replayed as a CUDA graph
  (`enable_cuda_graph`, `external_cuda_graph`): the host issues one call for it.

What is not told: pieces of a product are less efficient than the whole, and the last piece of a
reduce-scatter stays exposed. So the communication is hidden as well as it can be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuscope.program.models.parallel.casts import cast_once, in_four_bits
from gpuscope.program.models.parallel.exchange import (
    OVERLAPPED,
    exchange_beside,
    groups_of_experts,
    send_once,
)
from gpuscope.program.models.parallel.options import Software
from gpuscope.program.models.parallel.xla import ATTENTION, as_compiled
from gpuscope.program.types import ADDED_TO, Op, Program

__all__ = ["OVERLAPPED", "as_software"]

_PRODUCTS = frozenset(
    {
        "aten::mm",
        "aten::addmm",
        "aten::_scaled_mm",
        "aten::bmm",
        "aten::linear",
        "aten::_grouped_mm",
        "aten::_scaled_grouped_mm",
    }
)
_GATHER = "_c10d_functional::all_gather_into_tensor"
_SCATTER = "_c10d_functional::reduce_scatter_tensor"
_COPIES = frozenset({"aten::cat", "aten::clone", "aten::contiguous"})
_CAST = "gpuscope::cast_transpose"
_BLOCK = re.compile(r"layers\.\d+")
_GROUPED = "aten::_scaled_grouped_mm"
_BIAS = ".experts.first_bias"
_LAST = (".experts.clamp", ".experts.last_bias")
"""Modules of `gpuscope.program.models.networks.biased_experts`."""
_BETWEEN = frozenset({*_COPIES, _CAST, "aten::ones", "aten::div", "aten::add_", "aten::sum"})
"""What may lie between a collective and its product: copies, casts with their factors, a share of
the bias and its gradient, a sum of gradients."""
_AFTER = frozenset({*_BETWEEN, "aten::add"})
"""What may lie between a product and its collective: the bias of a float8 product, too."""


def as_software(program: Program, software: Software, kept_in: str = "float32") -> Program:
    """The program as the software runs it; the same where it has none of these habits.

    Args:
        program: a rank's step, or a pipeline stage's with its marks. Groups are known by their
            labels; "tp" are the tensor parallel ranks.
        software: `tokens_first`, `tp_overlap`, `fused_accumulation`, `cast_once`, `send_once`,
            `exchange_overlap`, `kept`, `sums_beside`, `attention_rows`, `fused_experts`,
            `attention`, `fused_steps`, `matmul` and `graphs` are read.
        kept_in: dtype that gradients are added up in.
    """
    if software.cast_once:
        program = cast_once(program)
    ops = list(program.ops)
    as_compiled(ops, software)
    if software.attention == "cudnn":
        _same_attention(ops)
    if software.fused_steps:
        _take_over(ops, (_BIAS,))
    if software.fused_experts:
        _take_over(ops, _LAST)
        _fuse_experts(ops)
    if software.fused_accumulation:
        _fuse_accumulation(ops, kept_in)
    groups = {index for index, group in enumerate(program.groups) if group.label == "tp"}
    if groups and software.tokens_first:
        _drop_copies(ops, groups)
    if groups and software.tp_overlap:
        _overlap(ops, groups)
    experts = groups_of_experts(ops)
    if experts and software.send_once and software.fused_steps:
        send_once(ops, experts)
    if experts and software.exchange_overlap:
        exchange_beside(ops, experts, max(op.stream for op in ops) + 1)
    if software.matmul == "float4":
        in_four_bits(ops)
    if software.graphs:
        _graph_blocks(ops)
    return replace(program, ops=tuple(ops))


def _same_attention(ops: list[Op]) -> None:
    """Attention within a window by the kernels that all other attention has."""
    for index, op in enumerate(ops):
        if op.name in ATTENTION and op.args.get("window"):
            ops[index] = replace(op, args={**op.args, "backend": "cudnn"})


def _graph_blocks(ops: list[Op]) -> None:
    """Number the replays that bring the blocks' operators to the device."""
    number, before = 0, None
    for index, op in enumerate(ops):
        block = _BLOCK.match(op.module)
        if block is None or op.sync or op.phase not in ("forward", "backward"):
            before = None
            continue
        if (block[0], op.phase) != before:
            number, before = number + 1, (block[0], op.phase)
        ops[index] = replace(op, graph=number)


def _fuse_accumulation(ops: list[Op], kept_in: str) -> None:
    """A sum into a gradient that a product has just made is part of the product."""
    makers: dict[int, int] = {}
    for index, op in enumerate(ops):
        for spec in op.outputs:
            if not op.view:
                makers[spec.storage] = index
        if op.phase != "backward" or op.name != "aten::add_" or len(op.inputs) != 2:
            continue
        at = makers.get(op.inputs[1].storage)
        if at is not None and ops[at].name in _PRODUCTS:
            ops[index] = replace(op, view=True)
            ops[at] = replace(ops[at], args={**ops[at].args, ADDED_TO: kept_in})


def _take_over(ops: list[Op], modules: tuple[str, ...]) -> None:
    """What these modules do is part of a product and makes no work of its own."""
    for index, op in enumerate(ops):
        if op.module.endswith(modules):
            ops[index] = replace(op, view=True)


def _fuse_experts(ops: list[Op]) -> None:
    """What lies between two grouped products of one module, and is cast for the second, is made
    by the first: the activation or its gradient, and the cast."""
    makers: dict[int, int] = {}
    before: dict[str, int] = {}
    for index, op in enumerate(ops):
        if op.name == _CAST and not op.view:
            maker = makers.get(op.inputs[0].storage)
            first = before.get(op.module)
            if maker is not None and first is not None and maker > first and ops[maker].region:
                inside = [*range(first + 1, index)]
                for at in inside:
                    if ops[at].region == ops[maker].region and ops[at].module == op.module:
                        ops[at] = replace(ops[at], view=True)
                ops[index] = replace(op, view=True)
        if op.name == _GROUPED:
            before[op.module] = index
        if not op.view:
            makers.update((spec.storage, index) for spec in op.outputs)


def _drop_copies(ops: list[Op], groups: set[int]) -> None:
    """Copies that put what is gathered together, and what is scattered apart, make no work."""
    gathered: set[int] = set()
    copies: dict[int, int] = {}
    for index, op in enumerate(ops):
        if op.name in _COPIES and not op.view:
            sources = {spec.storage for spec in op.inputs}
            if len(sources) == 1 and sources <= gathered:
                ops[index] = replace(op, view=True)
            for spec in op.outputs:
                copies[spec.storage] = index
        if op.group not in groups:
            continue
        if op.name == _GATHER:
            gathered.update(spec.storage for spec in op.outputs)
        elif op.name == _SCATTER:
            at = copies.get(op.inputs[0].storage)
            if at is not None and len({spec.storage for spec in ops[at].inputs}) == 1:
                ops[at] = replace(ops[at], view=True)


def _overlap(ops: list[Op], groups: set[int]) -> None:
    """Move collectives of `groups` to a stream of their own, beside their products."""
    side = max(op.stream for op in ops) + 1
    for index, op in enumerate(ops):
        if op.group not in groups:
            continue
        if op.name == _GATHER:
            _gather_beside(ops, index, side)
        elif op.name == _SCATTER:
            _scatter_beside(ops, index, side)


def _gather_beside(ops: list[Op], at: int, side: int) -> None:
    """The product that uses what is gathered begins with it; what comes after waits for both."""
    product = _next_product(ops, at)
    if product is None:
        return
    op, before = ops[at], _last_work(ops, at)
    inputs, outputs = op.inputs, op.outputs
    if any(other.name == _CAST for other in ops[at:product]):
        # What is multiplied in float8 is cast first, and gathered in float8.
        inputs = tuple(replace(spec, dtype="float8_e4m3fn") for spec in inputs)
        outputs = tuple(replace(spec, dtype="float8_e4m3fn") for spec in outputs)
    ops[at] = replace(
        op,
        stream=side,
        waits=op.waits if before is None else (*op.waits, before),
        inputs=inputs,
        outputs=outputs,
        args={**op.args, OVERLAPPED: True},
    )
    for index in range(at + 1, product + 1):
        if at in ops[index].waits:
            ops[index] = replace(ops[index], waits=tuple(w for w in ops[index].waits if w != at))
    after = _next_work(ops, product)
    if after is not None:
        ops[after] = replace(ops[after], waits=tuple(sorted({*ops[after].waits, at})))


def _scatter_beside(ops: list[Op], at: int, side: int) -> None:
    """It follows its product in pieces, or runs beside the one that comes after it."""
    near = list(_products_before(ops, at))
    if not near:
        return
    # With one product it is that one's result; with two the first one's, beside the second.
    begins = near[-1] if len(near) > 1 else _last_work(ops, near[0])
    waits = ops[at].waits if begins is None else (*ops[at].waits, begins)
    ops[at] = replace(ops[at], stream=side, waits=waits, args={**ops[at].args, OVERLAPPED: True})


def _next_product(ops: Sequence[Op], at: int) -> int | None:
    """The product right after a gather on its stream."""
    for index in range(at + 1, len(ops)):
        op = ops[index]
        if op.stream != ops[at].stream or op.view or op.name.endswith("wait_tensor"):
            continue
        if op.name in _PRODUCTS:
            return index
        if op.name not in _BETWEEN:
            return None
    return None


def _products_before(ops: Sequence[Op], at: int) -> Iterator[int]:
    """The products right before a scatter on its stream, the last one first; at most two."""
    found = 0
    for index in range(at - 1, -1, -1):
        op = ops[index]
        if op.stream != ops[at].stream or op.view:
            continue
        if op.name in _PRODUCTS:
            yield index
            found += 1
            if found == 2 or op.phase != "backward":
                return
        elif op.name not in _AFTER or (found and op.name == _CAST):
            return


def _last_work(ops: Sequence[Op], at: int) -> int | None:
    """The operator before on the same stream that makes device work."""
    for index in range(at - 1, -1, -1):
        if ops[index].stream == ops[at].stream and _works(ops[index]):
            return index
    return None


def _next_work(ops: Sequence[Op], at: int) -> int | None:
    for index in range(at + 1, len(ops)):
        if ops[index].stream == ops[at].stream and _works(ops[index]):
            return index
    return None


def _works(op: Op) -> bool:
    return not op.view and not op.name.endswith(("wait_tensor", "empty"))
