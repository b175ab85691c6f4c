"""Kernels of PyTorch and FBGEMM (pytorch/pytorch, aten/src/ATen/native/cuda; pytorch/FBGEMM)."""

from __future__ import annotations

from gpuscope.explain.kernel_names.functions import (
    ACC,
    FUNCTOR,
    IN,
    INDEX,
    OUT,
    THREADS,
    TYPE,
    VALUES,
    WIDE,
    Argument,
    Function,
)
from gpuscope.explain.types import Words

ATEN: tuple[Function, ...] = (
    Function(
        "vectorized_elementwise_kernel",
        Words(
            "Each value by itself; neighbouring values are read and written in one wide access, "
            "so the tensors are contiguous and aligned.",
            "逐元素；相邻元素合并为宽访问，说明张量连续且对齐。",
        ),
        (WIDE, FUNCTOR, None),
    ),
    Function(
        "unrolled_elementwise_kernel",
        Words(
            "Each value by itself, in loops; taken where the dtypes differ or wide accesses do "
            "not fit.",
            "逐元素的展开循环；在类型不同或无法宽访问时使用。",
        ),
        (FUNCTOR,),
    ),
    Function(
        "elementwise_kernel(_manual_unroll)?",
        Words(
            "Each value by itself with computed addresses: a tensor is not contiguous, or is "
            "broadcast.",
            "逐元素，逐个计算地址：张量不连续或有广播。",
        ),
        (THREADS, VALUES, FUNCTOR),
    ),
    Function(
        "unrolled_elementwise_kernel_for_multi_outputs",
        Words("Each value by itself, with several results.", "逐元素，多个输出。"),
        (Argument("variant", "{} results", "{} 个输出"), FUNCTOR),
    ),
    Function(
        "elementwise_kernel_with_index",
        Words(
            "Fills a tensor from the position of each value (arange, linspace).",
            "按位置填充张量（arange、linspace）。",
        ),
        (INDEX, FUNCTOR),
    ),
    Function(
        "compute_num_of_partial_segments|compute_\\w*segment\\w*",
        Words("A step of an embedding's gradient.", "嵌入梯度的一步。"),
        (),
    ),
    Function(
        "tensor_kernel_scan\\w*", Words("Running sums (cumsum).", "前缀和（cumsum）。"), (TYPE,)
    ),
    Function(
        "searchsorted_\\w+",
        Words("Finds places in sorted values.", "在有序数组中查找位置。"),
        (TYPE,),
    ),
    Function("spin_kernel", Words("Waits on the device.", "在设备上空转等待。"), ()),
    Function("kernelHistogram1D", Words("Counts values in bins.", "直方图统计。"), ()),
    Function(
        "_assert_async_cuda_kernel",
        Words("Checks a condition on the device.", "在设备上检查条件。"),
        (),
    ),
    Function(
        "unpack_cudnn", Words("Reads the state of the random numbers.", "读取随机数状态。"), ()
    ),
    Function(
        "(index|_scatter_gather)_elementwise_kernel",
        Words("Reads or writes at positions that an index gives.", "按索引读写。"),
        (THREADS, VALUES, FUNCTOR),
    ),
    Function(
        "reduce_kernel",
        Words("Sums (or another reduction) over some dimensions.", "沿若干维归约（求和等）。"),
        (
            Argument("threads", "at most {}", "最多 {}"),
            Argument("vector", "{} outputs for each thread", "每线程 {} 个输出"),
            FUNCTOR,
        ),
    ),
    Function(
        "multi_tensor_apply_kernel",
        Words(
            "One launch over a list of tensors (foreach, fused optimizers).",
            "一次启动处理多个张量（foreach、融合优化器）。",
        ),
        (None, FUNCTOR),
    ),
    Function(
        "softmax_warp_forward",
        Words(
            "Softmax of short rows, each by one warp in registers.",
            "短行的 softmax，每行由一个 warp 在寄存器内完成。",
        ),
        (
            IN,
            OUT,
            ACC,
            Argument("variant", "rows of up to 2^{} values", "每行至多 2^{} 个"),
            Argument("variant", "log-softmax: {}", "log-softmax：{}"),
            Argument("mask", "masked: {}", "掩码：{}"),
        ),
    ),
    Function(
        "softmax_warp_backward",
        Words(
            "Gradient of softmax of short rows, each by one warp.",
            "短行 softmax 的梯度，每行一个 warp。",
        ),
        (
            IN,
            OUT,
            ACC,
            Argument("variant", "rows of up to 2^{} values", "每行至多 2^{} 个"),
            Argument("variant", "log-softmax: {}", "log-softmax：{}"),
            Argument("mask", "masked: {}", "掩码：{}"),
        ),
    ),
    Function(
        "cunn_SoftMax(Forward|Backward)(Smem|Reg)?\\w*",
        Words("Softmax of long rows, a row for each block.", "长行的 softmax，每行一个线程块。"),
        (),
    ),
    Function(
        "vectorized_layer_norm_kernel",
        Words("Layer norm, forward, with wide accesses.", "层归一化前向，宽访问。"),
        (TYPE, ACC, Argument("variant", "RMS norm: {}", "RMS 归一化：{}")),
    ),
    Function(
        "layer_norm_grad_input_kernel\\w*",
        Words("Layer norm: gradient of the input.", "层归一化：输入梯度。"),
        (TYPE, ACC),
    ),
    Function(
        "GammaBetaBackward\\w*",
        Words(
            "Layer norm: gradients of weight and bias, summed over the rows.",
            "层归一化：权重与偏置的梯度，沿行求和。",
        ),
        (TYPE, ACC),
    ),
    Function(
        "CatArrayBatchedCopy\\w*",
        Words(
            "Joins tensors into one (torch.cat, torch.stack).",
            "拼接张量（torch.cat、torch.stack）。",
        ),
        (TYPE, INDEX, Argument("variant", "{} dimensions", "{} 维")),
    ),
    Function(
        "fused_dropout_kernel\\w*",
        Words("Dropout: random mask and scaling in one kernel.", "dropout：随机掩码与缩放合一。"),
        (TYPE, ACC, INDEX),
    ),
    Function(
        "distribution_elementwise_grid_stride_kernel",
        Words("Fills a tensor with random numbers.", "用随机数填充张量。"),
        (TYPE, VALUES),
    ),
    Function(
        "nll_loss_\\w+",
        Words(
            "Cross-entropy's last step: picks the labels' scores.", "交叉熵末步：取标签处的得分。"
        ),
        (TYPE,),
    ),
    Function(
        "embedding_backward\\w*|compute_grad_weight\\w*|sum_and_scatter|krn_partial\\w*",
        Words("Gradient of an embedding table.", "嵌入表的梯度。"),
        (TYPE,),
    ),
    Function(
        "EmbeddingBag\\w*",
        Words("Embedding bag: sums rows of a table.", "EmbeddingBag：对表的多行求和。"),
        (TYPE, INDEX),
    ),
    Function("batch_norm\\w*", Words("Batch norm.", "批归一化。"), ()),
    Function("(max|avg|adaptive)\\w*pool\\w*", Words("Pooling.", "池化。"), (TYPE,)),
    Function("upsample\\w*", Words("Resizes an image.", "图像缩放（插值）。"), (TYPE,)),
    Function("conv_depthwise2d\\w*", Words("Depthwise convolution.", "逐通道卷积。"), ()),
    Function(
        "radixSortKVInPlace|bitonicSortKVInPlace|sbtopk::\\w+|gatherTopK|radixFindKthValues|\\w*[tT]opK\\w*",
        Words("Sorts, or finds the largest values.", "排序或取最大值。"),
        (),
    ),
    Function(
        "index\\w*|gather\\w*|scatter\\w*|vectorized_gather_kernel|write_indices",
        Words("Reads or writes at positions that an index gives.", "按索引读写。"),
        (),
    ),
    Function(
        "roll_cuda_kernel|triu_tril_kernel|chunk_cat\\w*",
        Words("Moves values about.", "搬移数据。"),
        (TYPE,),
    ),
    Function(
        "RowwiseMoments\\w*|ComputeInternalGradients\\w*|Compute\\w*FusedParams\\w*|GroupNorm\\w*",
        Words("Group norm: a step of it.", "组归一化的一步。"),
        (TYPE,),
    ),
    Function(
        "multi_tensor_\\w+|lpnorm\\w*",
        Words("One launch over a list of tensors.", "一次启动处理多个张量。"),
        (),
    ),
    Function("amp_\\w+", Words("Gradient scaling of mixed precision.", "混合精度的梯度缩放。"), ()),
    Function(
        "prepare_grouped_gemm_data",
        Words("Prepares pointers of a grouped product.", "准备分组矩阵乘的指针。"),
        (),
    ),
)
"""PyTorch's own kernels (namespace at::native)."""

FBGEMM: tuple[Function, ...] = (
    Function(
        "(split|dense)_embedding_(codegen_)?forward\\w*",
        Words("Embedding tables, forward: gathers rows.", "嵌入表前向：收集行。"),
        (TYPE,),
    ),
    Function(
        "(split|dense)_embedding_(backward|codegen_grad)\\w*",
        Words(
            "Embedding tables, backward, the optimizer's step included.",
            "嵌入表反向，含优化器更新。",
        ),
        (TYPE,),
    ),
    Function(
        "permute_\\w+|recat_\\w+|_?offsets_range\\w*|bounds_check_indices\\w*|linearize_index\\w*",
        Words("Prepares indices of embedding tables.", "准备嵌入表的索引。"),
        (),
    ),
)
"""FBGEMM's embedding kernels."""
