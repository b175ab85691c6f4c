"""Kernels that `torch.compile` makes: `triton_poi_fused_add_gelu_3`.

The naming is Inductor's: pytorch/pytorch, torch/_inductor/codegen/triton.py and
torch/_inductor/utils.py (`get_fused_kernel_name`).
"""

from __future__ import annotations

import re

from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.types import KernelName, Piece
from gpuscope.explain.types import Words

_NAME = re.compile(r"triton_(?P<kind>poi|per|red|tem|for|mm|unk|spl|cooperative_red)_(?P<rest>\w+)")

_KINDS = {
    "poi": Words("pointwise: each value by itself", "逐元素"),
    "per": Words(
        "persistent reduction: a row is held whole while it is reduced",
        "持久归约：整行驻留后再归约",
    ),
    "red": Words("reduction that loops over a row", "沿行循环的归约"),
    "cooperative_red": Words("reduction shared by several blocks", "多线程块协作归约"),
    "tem": Words("template: a matrix product or attention", "模板：矩阵乘或注意力"),
    "for": Words("one launch for a list of tensors (foreach)", "一次启动处理多个张量（foreach）"),
    "spl": Words("scan, split over blocks", "分块扫描"),
    "mm": Words("matrix product", "矩阵乘"),
    "unk": Words("another kind", "其他类型"),
}
_OPERATORS = tuple(
    sorted(
        (
            "_to_copy",
            "_unsafe_view",
            "_native_batch_norm_legit_functional",
            "_log_softmax_backward_data",
            "_softmax_backward_data",
            "_log_softmax",
            "_softmax",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "native_layer_norm_backward",
            "native_layer_norm",
            "native_batch_norm_backward",
            "native_batch_norm",
            "native_group_norm_backward",
            "native_group_norm",
            "native_dropout_backward",
            "native_dropout",
            "threshold_backward",
            "convolution_backward",
            "embedding_dense_backward",
            "nll_loss_forward",
            "nll_loss_backward",
            "max_pool2d_with_indices_backward",
            "max_pool2d_with_indices",
            "constant_pad_nd",
            "gelu_backward",
            "silu_backward",
            "slice_backward",
            "select_backward",
            "index_put",
            "index_add",
            "index_select",
            "masked_fill",
            "masked_scatter",
            "scalar_tensor",
            "new_zeros",
            "new_full",
            "new_empty",
            "zeros_like",
            "ones_like",
            "full_like",
            "empty_like",
            "copy_",
            "as_strided",
            "upsample_nearest2d",
            "upsample_bilinear2d",
            "avg_pool2d",
            "avg_pool2d_backward",
            "split_with_sizes",
            "logical_not",
            "logical_and",
            "logical_or",
            "bitwise_and",
            "bitwise_or",
            "bitwise_not",
            "scatter_add",
            "var_mean",
            "linalg_vector_norm",
            "moe_forward",
            "unsqueeze",
            "prepare_softmax_online",
            "rms_norm",
            "pow",
            "where",
        ),
        key=len,
        reverse=True,
    )
)
"""ATen operators whose names hold an underscore: only a list can tell where one ends."""


@reader(
    "triton_poi_fused_add_gelu_3",
    "triton_per_fused__to_copy_add_native_layer_norm_view_2",
    "triton_red_fused__log_softmax_nll_loss_forward_1",
)
def read_triton(symbol: str) -> KernelName | None:
    """Read Inductor's names."""
    found = _NAME.fullmatch(symbol)
    if found is None:
        return None
    body, _, last = found["rest"].rpartition("_")
    number = last if last.isdigit() else ""
    listed = body if number else found["rest"]
    operators = _operators(listed.removeprefix("fused").removeprefix("_"))
    kind = _KINDS[found["kind"]]
    pieces = [
        Piece(
            "triton",
            "library",
            Words("made by torch.compile (Inductor)", "由 torch.compile（Inductor）生成"),
        ),
        Piece(found["kind"], "operation", kind),
    ]
    pieces += [Piece(op, "fused", Words(f"aten::{op}", f"aten::{op}")) for op in operators]
    if number:
        meaning = Words(f"kernel {number} of its graph", f"图中第 {number} 个内核")
        pieces.append(Piece(number, "number", meaning))
    listed_words = ", ".join(operators) or "no named operator"
    return KernelName(
        symbol,
        Words("PyTorch Inductor (Triton)", "PyTorch Inductor（Triton）"),
        Words(
            f"A fused kernel of torch.compile, {kind.en}: {listed_words}.",
            f"torch.compile 的融合内核，{kind.zh}：{'、'.join(operators) or '无具名算子'}。",
        ),
        tuple(pieces),
        note=Words(
            "Inductor lists the operators in alphabetical order, each once, not in the order in "
            "which they run. TORCH_LOGS=output_code prints the source.",
            "Inductor 按字母顺序列出算子且不重复，并非执行顺序。TORCH_LOGS=output_code "
            "可打印源码。",
        ),
        source="pytorch/pytorch, torch/_inductor/codegen/triton.py, torch/_inductor/utils.py.",
    )


def _operators(text: str) -> list[str]:
    found = []
    while text:
        text = text if text.startswith(_OPERATORS) else text.lstrip("_")
        known = next((op for op in _OPERATORS if re.match(rf"{op}(?:_|$)", text)), None)
        operator = known or text.partition("_")[0]
        if operator:
            found.append(operator)
        text = text[len(operator) :].removeprefix("_")
    return found
