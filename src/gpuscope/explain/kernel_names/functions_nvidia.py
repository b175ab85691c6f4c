"""Kernels of cuBLAS, cuDNN and CUB by their function.

cuBLAS and cuDNN document none of them: the functions' own words tell. CUB: NVIDIA/cccl, cub/device.
"""

from __future__ import annotations

from gpuscope.explain.kernel_names.functions import (
    ACC,
    IN,
    OUT,
    THREADS,
    TYPE,
    Function,
)
from gpuscope.explain.types import Words

CUBLAS: tuple[Function, ...] = (
    Function(
        "splitKreduce_kernel",
        Words(
            "Adds up the parts of a product whose K was split over blocks.",
            "对沿 K 切分的矩阵乘结果求和。",
        ),
        (),
    ),
    Function(
        "gemv2[TN]_kernel_val|gemv\\w*|gemvNSP_kernel",
        Words(
            "Matrix times vector: reads the whole matrix once, so memory sets its time.",
            "矩阵乘向量：整个矩阵读一遍，时间由显存决定。",
        ),
        (),
    ),
    Function(
        "gemvx::kernel",
        Words(
            "Matrix times vector: reads the whole matrix once, so memory sets its time.",
            "矩阵乘向量：整个矩阵读一遍，时间由显存决定。",
        ),
        (),
    ),
    Function("gemmSN_\\w+", Words("Product with a small N.", "N 很小的矩阵乘。"), (TYPE, THREADS)),
    Function(
        "gemmk1_kernel",
        Words("Product with K = 1 (an outer product).", "K = 1 的矩阵乘（外积）。"),
        (),
    ),
    Function("dot_kernel", Words("Dot product, the parts.", "点积（部分和）。"), (TYPE, THREADS)),
    Function(
        "reduce_1Block_kernel",
        Words("Dot product, the sum of the parts.", "点积（部分和求和）。"),
        (TYPE, THREADS),
    ),
    Function(
        "globalKernel",
        Words(
            "What is done with the result of a product (bias, activation), by itself.",
            "单独执行的矩阵乘尾处理（偏置、激活）。",
        ),
        (),
    ),
    Function(
        "sgemm_largek\\w*", Words("fp32 product with a long K.", "K 很长的 fp32 矩阵乘。"), ()
    ),
    Function("scal_kernel", Words("Scales a matrix.", "缩放矩阵。"), (TYPE,)),
    Function(
        "region_transform_\\w+", Words("Copies a matrix into another layout.", "矩阵布局转换。"), ()
    ),
    Function(
        "magma_\\w+", Words("Matrix product (MAGMA's algorithm).", "矩阵乘（MAGMA 算法）。"), ()
    ),
)

CUDNN: tuple[Function, ...] = (
    Function(
        "nchwTo\\w*[nN]hwcKernel|nhwcTo\\w*[nN]chwKernel|nchwToNhwcKernel",
        Words(
            "Changes a tensor's layout before or after a convolution. channels_last saves it.",
            "卷积前后的布局转换；使用 channels_last 可省去。",
        ),
        (IN, OUT, ACC),
    ),
    Function(
        "nhwcAddPaddingKernel",
        Words("Adds channels of zeros so that a faster kernel fits.", "补零通道以使用更快的内核。"),
        (IN, OUT),
    ),
    Function("bn_fw\\w*", Words("Batch norm, forward.", "批归一化前向。"), (TYPE,)),
    Function("bn_bw\\w*", Words("Batch norm, backward.", "批归一化反向。"), (TYPE,)),
    Function(
        "tensorTransform\\w*|convertTensor\\w*|scalePackedTensor\\w*",
        Words("Copies or scales a tensor.", "张量拷贝或缩放。"),
        (),
    ),
    Function(
        "implicit_convolve_sgemm|precomputed_convolve_sgemm|explicit_convolve_sgemm|convolve_common_engine\\w*",
        Words(
            "Convolution as a matrix product on ordinary units.", "普通运算单元上的矩阵乘式卷积。"
        ),
        (IN,),
    ),
    Function(
        "dgrad\\w*", Words("Convolution, gradient of the input.", "卷积的输入梯度。"), (TYPE,)
    ),
    Function(
        "wgrad\\w*|reduce_wgrad\\w*",
        Words("Convolution, gradient of the weight.", "卷积的权重梯度。"),
        (TYPE,),
    ),
    Function(
        "winograd\\w*|generateWinograd\\w*",
        Words("Convolution by Winograd's method, a step of it.", "Winograd 卷积的一步。"),
        (),
    ),
    Function(
        "fft2d_\\w+|flip_filter|pointwise_mult\\w*",
        Words("Convolution by Fourier transforms, a step of it.", "傅里叶卷积的一步。"),
        (),
    ),
    Function(
        "im2col\\w*|col2im\\w*",
        Words("Writes out the input of a convolution as a matrix.", "把卷积输入展开为矩阵。"),
        (),
    ),
    Function(
        "compute_dot_do_o\\w*|convert_dq\\w*|fmha_reduce_head",
        Words("A step of cuDNN's attention, backward.", "cuDNN 注意力反向的一步。"),
        (),
    ),
    Function(
        "elemWiseRNN\\w*|LSTM_\\w+|GRU_\\w+|RNN_\\w+|persist\\w*",
        Words("A step of a recurrent network.", "循环网络的一步。"),
        (TYPE,),
    ),
    Function(
        "compute\\w*Offsets\\w*|kern_precompute_indices|init_device_workspace_kernel",
        Words("Prepares addresses for a convolution.", "为卷积准备地址。"),
        (),
    ),
    Function("Kernel2?", Words("A CUTLASS kernel inside cuDNN.", "cuDNN 内的 CUTLASS 内核。"), ()),
    Function("lean_reduction_kernel", Words("Sums inside a fused plan.", "融合方案内的归约。"), ()),
    Function("dropout_\\w+", Words("Dropout of a recurrent network.", "循环网络的 dropout。"), ()),
    Function("conv2d_c1_k1\\w*", Words("Depthwise convolution.", "逐通道卷积。"), ()),
)

CUB: tuple[Function, ...] = (
    Function(
        "DeviceRadixSort\\w*|DeviceSegmentedRadixSort\\w*",
        Words("Radix sort, a step of it.", "基数排序的一步。"),
        (),
    ),
    Function("DeviceScan\\w*", Words("Running sums (scan).", "前缀和（scan）。"), ()),
    Function(
        "DeviceReduceByKey\\w*|DeviceSegmentedReduce\\w*|DeviceReduce\\w*",
        Words("Sums.", "归约。"),
        (),
    ),
    Function(
        "DeviceSelect\\w*|DeviceCompact\\w*|DeviceUniqueByKey\\w*|DevicePartition\\w*",
        Words("Keeps the values that fit a condition.", "筛选满足条件的值。"),
        (),
    ),
    Function("DeviceMergeSort\\w*", Words("Merge sort, a step of it.", "归并排序的一步。"), ()),
    Function("\\w*[hH]istogram\\w*", Words("Counts values in bins.", "直方图统计。"), ()),
)
