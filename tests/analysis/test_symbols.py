"""Families and short names of device symbols that real traces hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.symbols import (
    LONGEST,
    kernel_family,
    short_symbol,
    symbol_dtype,
    symbol_tile,
)

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>)"
)
GELU = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl("
    "at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}>"
)
CUTLASS = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)"
)
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::"
    "BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>, std::plus<float>, float>"
)
XMMA = (
    "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_segment_k"
    "_off_kernel__5x_cublas"
)

KNOWN = [
    ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "matmul", "nvjet bf16 256x128 cluster 1x2"),
    (CUTLASS, "matmul", "cutlass gemm bf16 256x128x32"),
    (XMMA, "matmul", "xmma gemm tf32 64x64x32"),
    ("volta_sgemm_128x64_nn", "matmul", "volta_sgemm_128x64_nn"),
    (
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1",
        "matmul",
        "Tensile gemm 256x192x64",
    ),
    (ADD, "pointwise", "elementwise add"),
    (GELU, "pointwise", "elementwise gelu"),
    (FOREACH, "pointwise", "multi-tensor add"),
    (
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_cga1x1x1"
        "_kernel0_0",
        "attention",
        "cuDNN attention backward 64x64x128",
    ),
    (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128>>",
        "attention",
        "flash attention forward",
    ),
    (
        "fmha_cutlassB_f32_aligned_64x64_k64_dropout_sm80(PyTorchMemEffAttention::X)",
        "attention",
        "efficient attention backward",
    ),
    (
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(cudnnTensorStruct)",
        "normalization",
        "bn_fw_tr_1C11_kernel_NCHW",
    ),
    (
        "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt128x256x32_wt32x32x8",
        "convolution",
        "MIOpen conv weight gradient bf16 128x256x32",
    ),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "collective",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    ),
    ("triton_poi_fused_add_mul_3", "fused", "triton add_mul_3"),
    (
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float>",
        "reduction",
        "softmax forward",
    ),
    ("void cub::DeviceRadixSortOnesweepKernel<cub::Policy>(int*)", "sort", "radix sort"),
    ("Memcpy HtoD (Pageable -> Device)", "transfer", None),
    ("Memset (Device)", "memset", None),
    ("pe_exe", "other", "pe_exe"),
]


@pytest.mark.parametrize(("symbol", "family", "short"), KNOWN)
def test_symbols_in_words(symbol: str, family: str, short: str | None) -> None:
    assert kernel_family(symbol) == family
    if short is not None:
        assert short_symbol(symbol) == short


def test_tiles_and_dtypes() -> None:
    assert symbol_tile(CUTLASS) == (256, 128, 32)
    assert symbol_tile("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT") == (256, 128, 64)
    assert symbol_tile("volta_sgemm_128x64_nn") == (128, 64)
    assert symbol_tile(ADD) == ()
    assert symbol_dtype(FOREACH) == "bfloat16"
    assert symbol_dtype("void CatArrayBatchedCopy<OpaqueType<4u>>") == "float32"
    assert symbol_dtype("merge") == ""


@given(st.text(alphabet="abcXYZ0_:<>(), ~*&", max_size=400))
def test_any_text_is_a_symbol(symbol: str) -> None:
    assert len(short_symbol(symbol)) <= LONGEST
    assert kernel_family(symbol)
    symbol_tile(symbol)
