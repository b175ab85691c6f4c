"""What the fast path of plain encoders launches beside products and attention.

Queries, keys and values leave the product with their bias and, queries, their scale; padding is
taken away and put back by kernels of 16 blocks a sequence whose threads go on from element to
element, each after the load of the one before (aten/src/ATen/native/transformers/cuda/attention.cu;
nested/cuda/NestedTensorTransformerFunctions.cu).
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, reads, written
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

_VECTOR = 4
_BLOCKS_OF_A_SEQUENCE, _THREADS = 16, 256


@kernel_model("aten::_transform_bias_rescale_qkv")
def heads_apart(work: Work) -> tuple[Kernel, ...]:
    """[B, T, 3 D] to three times [B, H, T, D / H]: a block for each place."""
    batch, length, width = work.op.inputs[0].shape
    read = reads(work)
    return (
        kernel(
            work,
            Launch(
                "transform_bias_rescale_qkv",
                "pointwise",
                read.cold,
                read.hot,
                written(work),
                grid=batch * length,
                block=max(1, min(1024, width // 3 // _VECTOR)),
                loads=2,
                chain_s=work.constants.value("attention.heads_apart.base_s"),
                dtype=work.op.inputs[0].dtype,
            ),
        ),
    )


@kernel_model("gpuscope::without_padding", "gpuscope::with_padding")
def padding(work: Work) -> tuple[Kernel, ...]:
    """Rows from [B, T, D], or back: a thread walks its share of a sequence one by one."""
    padded = work.op.inputs[0] if work.op.name.endswith("without_padding") else work.op.outputs[0]
    batch, length, width = padded.shape
    read = reads(work)
    return (
        kernel(
            work,
            Launch(
                work.op.name.removeprefix("gpuscope::"),
                "copy",
                read.cold,
                read.hot,
                written(work),
                grid=batch * _BLOCKS_OF_A_SEQUENCE,
                block=_THREADS,
                loads=ceil(length * width / (_BLOCKS_OF_A_SEQUENCE * _THREADS)),
                dtype=padded.dtype,
            ),
        ),
    )
