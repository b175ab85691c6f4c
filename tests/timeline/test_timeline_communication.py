"""Kernel names as the libraries write them, and names that only look like communication."""

import pytest

from gpuscope.timeline.communication import communication_family, is_communication

COMMUNICATES = [
    ("nccl", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"),
    ("nccl", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"),
    ("nccl", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    ("nccl", "ncclDevKernel_Generic_1(ncclDevComm*, channelMasks, ncclWork*)"),
    ("nccl", "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymkDevWorkArgs4K)"),
    ("nccl", "void ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)"),
    ("nccl", "mscclKernel_Sum_half_LL_true(ncclDevComm*, mscclAlgo*, mscclWork*)"),
    ("nccl", "ncclBroadcastRingLLKernel_copy_i8(ncclColl)"),
    ("deepep", "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, long*)"),
    ("deepep", "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*)"),
    ("deepep", "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, float*)"),
    ("deepep", "void deep_ep::internode::notify_dispatch<false, 2>(int const*, int*, int)"),
    ("deepep", "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*, long*)"),
    ("deepep", "void dpsk::ep::internode::combine<__nv_bfloat16, 8>(int4*, float*)"),
    ("deepep", "void dpsk::ep::internode::notify_dispatch<false, 4>(int const*, long*, int)"),
    ("deepep", "dpsk::ep::internode::cached_notify(int, int, int)"),
    ("deepep", "void dpsk::ep::internode::dispatch_ll<true>(void*, float*)"),
    ("deepep", "_ZN4dpsk2ep9internode8dispatchILb0ELi8EEEvP4int4"),
    ("nvshmem", "nvshmemi_barrier_all_kernel(int)"),
    ("nvshmem", "void barrier_on_stream_kernel_threadgroup_nvshmemx(int)"),
    ("mscclpp", "void mscclpp::allreduce7<half>(half*, half*, half*, mscclpp::DeviceHandle*)"),
    ("quick_reduce", "void quickreduce::allreduce_prototype_twoshot<quickreduce::CodecFP>(A*)"),
    ("custom_all_reduce", "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(RankData*)"),
    ("custom_all_reduce", "void sglang::cross_device_reduce_2stage<__half, 4>(sglang::RankData*)"),
    ("custom_all_reduce", "void aiter::cross_device_reduce_2stage_naive<__hip_bfloat16, 8>(A)"),
    ("custom_all_reduce", "_ZN4vllm26cross_device_reduce_1stageIfLi8EEEvPNS_8RankDataE"),
    ("symmetric_memory", "void (anonymous namespace)::multimem_all_reduce_kernel<c10::Half, 16>"),
    ("symmetric_memory", "void (anonymous namespace)::two_shot_all_reduce_kernel<float, 16, 8>(f)"),
    ("symmetric_memory", "one_shot_all_reduce_kernel"),
    ("symmetric_memory", "c10d::symmetric_memory::barrier_kernel(unsigned int**, unsigned long)"),
    ("trtllm", "void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8>(AllReduce)"),
    ("trtllm", "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport"),
    ("trtllm", "void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel(Params)"),
    ("trtllm", "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_atomic_fp8<2>(int, int, int)"),
    ("hccl", "HcclAllReduce"),
    ("hccl", "hcom_allReduce__123_0"),
    ("oneccl", "void oneccl_allreduce_large_kernel<sycl::half>"),
    ("other", "void my::ring_all_gather_matmul_p2p(float*)"),
]

COMPUTES = [
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper>>",
    "triton_poi_fused__to_copy_all_reduce_wait_tensor_0",
    "triton_red_fused_all_gather_into_tensor_native_layer_norm_3",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int, at::native::X)",
    "void at::native::elementwise_kernel<128, 2, nccl_like_lambda>(int)",
    "void cub::DeviceReduceKernel<cub::AllReducePolicy>(float*)",
    "Memcpy PtoP (Device -> Device)",
    "Memset (Device)",
    "void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*, int*, int*, bool*)",
    "void dpsk::ep::cuda::get_dispatch_layout<256, 4, 8>(long const*, int*, int*, int*, bool*)",
    "void cdpsk::ep::CUB_200500___CUDA_ARCH_LIST___NS::DeviceScanKernel<float>(float*)",
    "void softmax_blockAllReduce_kernel<float>(float*)",
    "void warp_all_reduce_test(float*)",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(float*)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_bias_TNT",
    "void cancel_all_pending(int)",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128>>(Flash_fwd_params)",
    "void vllm::moe::moe_align_block_size_kernel<int>(int*)",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(int)",
    "split_combine_kernel",
    "",
]


@pytest.mark.parametrize(("family", "name"), COMMUNICATES, ids=lambda text: text[:40])
def test_communication_is_told_with_its_family(family, name):
    assert communication_family(name) == family
    assert is_communication(name)


@pytest.mark.parametrize("name", COMPUTES, ids=lambda text: text[:40])
def test_near_misses_are_compute(name):
    assert communication_family(name) == ""
    assert not is_communication(name)
