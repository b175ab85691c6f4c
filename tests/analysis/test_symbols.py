"""Device symbols: families and short names of real kernels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.symbols import LONGEST, kernel_family, short_symbol

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
COPY = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#3}::operator()() const, std::array<char*, 2ul>, 4>"
)
SUM = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
    "at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()>"
)


@pytest.mark.parametrize(
    ("symbol", "family", "short"),
    [
        (ADD, "pointwise", "elementwise add"),
        (COPY, "copy", "elementwise copy"),
        (SUM, "reduction", "reduce sum"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "matmul",
         "nvjet bf16 256x128 cluster 1x2"),
        ("nvjet_sm90_tst_128x128_64x6_1x2_h_bz_splitK_NTT", "matmul",
         "nvjet bf16 128x128 cluster 1x2 split-K"),
        ("volta_sgemm_128x64_nn", "matmul", "volta_sgemm_128x64_nn"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN", "matmul",
         "Tensile gemm 256x192x64"),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "convolution", None),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc", "convolution", None),
        ("igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x32", "convolution", None),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >(int)",
         "attention", "flash_fwd_kernel"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention)", "attention", None),
        ("void paged_attention_ll4mi_QKV_mfma16_kernel<bf16>(int)", "attention", None),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float>(float)", "normalization",
         "bn_bw_1C11_kernel_new"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)",
         "normalization", "vectorized_layer_norm_kernel"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         "collective", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
        ("Memset (Device)", "memset", None),
        ("Memcpy HtoD (Pageable -> Device)", "transfer", None),
        ("triton_poi_fused_gelu_view_13", "fused", "triton gelu_view_13"),
        ("void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<int>(int)", "sort",
         "DeviceRadixSortOnesweepKernel"),
        ("void at::native::(anonymous namespace)::fused_dropout_kernel_vec<bf16>(int)", "random",
         None),
        ("elemWiseRNNcell", "recurrent", None),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
         "TensorListMetadata<4>, at::native::FusedAdamMathFunctor<float, 4> >(int)", "optimizer",
         "multi-tensor fused adam"),
        ("my_own_kernel(int*)", "other", "my_own_kernel"),
    ],
)  # fmt: skip
def test_known_kernels(symbol: str, family: str, short: str | None) -> None:
    assert kernel_family(symbol) == family
    if short is not None:
        assert short_symbol(symbol) == short


def test_a_lambda_is_no_lamb_optimizer() -> None:
    assert kernel_family("void at::native::elementwise_kernel<4, silu::{lambda(float)#1}>") == (
        "pointwise"
    )


@given(st.text(max_size=300))
def test_any_text_gets_a_short_name(symbol: str) -> None:
    assert len(short_symbol(symbol)) <= LONGEST
    assert kernel_family(symbol)
