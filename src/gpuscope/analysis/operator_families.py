"""Operators under one name, whatever a recording or a capture calls them.

A recording names the innermost operator around a launch (`aten::cudnn_convolution`), a capture the
one below autograd (`aten::convolution`). To set runs side by side both need one name.
"""

from __future__ import annotations

from functools import lru_cache

_SAME: dict[str, tuple[str, ...]] = {
    "attention": (
        "_cudnn_attention_forward",
        "_flash_attention_forward",
        "_efficient_attention_forward",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_efficient_attention",
        "scaled_dot_product_attention",
    ),
    "attention_backward": (
        "_cudnn_attention_backward",
        "_flash_attention_backward",
        "_efficient_attention_backward",
        "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_cudnn_attention_backward",
        "_scaled_dot_product_efficient_attention_backward",
    ),
    "convolution": (
        "cudnn_convolution",
        "_conv_depthwise2d",
        "miopen_convolution",
        "thnn_conv2d",
        "_slow_conv2d_forward",
        "_convolution",
        "conv1d",
        "conv2d",
        "conv3d",
        "cudnn_convolution_transpose",
        "miopen_depthwise_convolution",
    ),
    "convolution_backward": (
        "cudnn_convolution_backward",
        "miopen_convolution_backward",
        "_conv_depthwise2d_backward",
    ),
    "native_batch_norm": ("cudnn_batch_norm", "miopen_batch_norm", "batch_norm"),
    "native_batch_norm_backward": ("cudnn_batch_norm_backward", "miopen_batch_norm_backward"),
    "copy": ("_to_copy", "copy_", "clone", "contiguous", "to"),
    "fill": (
        "fill_",
        "zero_",
        "zeros",
        "zeros_like",
        "ones",
        "ones_like",
        "full",
        "full_like",
        "slice_backward",
        "select_backward",
        "constant_pad_nd",
        "new_zeros",
    ),
    "embedding": ("gather", "index_select"),
    "lstm_cell": ("_thnn_fused_lstm_cell",),
    "lstm_cell_backward": ("_thnn_fused_lstm_cell_backward_impl",),
    "gru_cell": ("_thnn_fused_gru_cell",),
    "gru_cell_backward": ("_thnn_fused_gru_cell_backward",),
    "rnn": ("_cudnn_rnn", "miopen_rnn"),
    "rnn_backward": ("_cudnn_rnn_backward", "miopen_rnn_backward"),
    "all_reduce": ("allreduce_", "all_reduce_", "allreduce_coalesced_"),
    "all_gather": (
        "_allgather_base_",
        "all_gather_into_tensor",
        "allgather_into_tensor_coalesced_",
        "all_gather_into_tensor_out",
        "allgather_",
    ),
    "reduce_scatter": (
        "_reduce_scatter_base_",
        "reduce_scatter_tensor",
        "reduce_scatter_tensor_coalesced_",
        "reduce_scatter_tensor_out",
        "reduce_scatter_",
    ),
    "all_to_all": ("all_to_all_single", "alltoall_base_", "alltoall_"),
    "broadcast": ("broadcast_",),
}
"""One name for each family -> what recordings and captures call it."""

_FAMILY = {member: name for name, members in _SAME.items() for member in members}


@lru_cache(maxsize=4096)
def operator_family(name: str) -> str:
    """Return the name under which an operator is compared.

    In-place and out-of-place forms are one ("aten::add_" is "aten::add"); each member of a family
    becomes "aten::<family>" ("gpuscope::attention" too). Other names stay as they are.
    """
    space, _, base = name.rpartition("::")
    if not space:
        return name
    if base not in _FAMILY and not base.startswith("_foreach"):
        base = base.rstrip("_") or base
    base = _FAMILY.get(base, base)
    known = base in _SAME or space in ("c10d", "_c10d_functional", "gpuscope")
    return f"aten::{base}" if known else f"{space}::{base}"


_COLLECTIVES = frozenset(
    f"aten::{name}"
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
)


def is_communication(family: str) -> bool:
    """Whether a family of operators (`operator_family`) sends something to other ranks."""
    return family in _COLLECTIVES or "c10d" in family or family.startswith("fsdp::")
