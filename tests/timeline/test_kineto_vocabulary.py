"""Names of calls, marks and categories as several recorders write them."""

import pytest

from gpuscope.timeline.kineto.collectives import call_name, described
from gpuscope.timeline.kineto.inputs import tensors_of, torch_dtype
from gpuscope.timeline.kineto.vocabulary import (
    PHASES,
    device_kind,
    host_kind,
    phase_mark,
    runtime_kind,
    sort_of,
    step_rank,
)
from gpuscope.timeline.types import EVENT_KINDS, Collective


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            "launch",
            "cudaLaunchKernel cudaLaunchKernelExC cuLaunchKernel cuLaunchKernelEx "
            "cudaLaunchCooperativeKernel cudaGraphLaunch cudaMemcpyAsync cudaMemsetAsync "
            "cudaMemset "
            "hipLaunchKernel hipExtModuleLaunchKernel hipModuleLaunchKernel hipGraphLaunch "
            "hipMemcpyAsync hipMemsetAsync cudaMemcpy2DAsync cuMemcpyDtoDAsync_v2 "
            "urEnqueueKernelLaunch zeCommandListAppendLaunchKernel",
        ),
        (
            "sync",
            "cudaDeviceSynchronize cudaStreamSynchronize cudaEventSynchronize "
            "hipDeviceSynchronize hipStreamSynchronize hipEventSynchronize cudaMemcpy hipMemcpy "
            "hipMemcpyWithStream cuCtxSynchronize cuStreamSynchronize synchronizeStream "
            "urQueueFinish zeEventHostSynchronize",
        ),
        (
            "other",
            "cudaStreamWaitEvent cudaEventRecord cudaEventQuery cudaMalloc cudaFree "
            "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaStreamIsCapturing "
            "hipPointerGetAttribute cudaFuncSetAttribute hipStreamWaitEvent recordEvent",
        ),
    ],
)
def test_runtime_calls(kind, names):
    for name in names.split():
        assert EVENT_KINDS[runtime_kind(name)] == kind, name


def test_categories():
    assert sort_of("Kernel") == sort_of("kernel") == "device"
    assert sort_of("Memcpy") == sort_of("gpu_memcpy") == "device"
    assert sort_of("Runtime") == sort_of("cuda_runtime") == sort_of("xpu_runtime") == "runtime"
    assert sort_of("cuda_driver") == sort_of("privateuse1_runtime") == "runtime"
    assert sort_of("Operator") == sort_of("cpu_op") == "operator"
    assert sort_of("gpu_user_annotation") == sort_of("cuda_sync") == "on_device"
    assert sort_of("") == sort_of("overhead") == "other"


def test_what_lies_on_a_device_row_is_not_all_work():
    assert EVENT_KINDS[device_kind("cuda_sync", "Stream Wait Event")] == "sync"
    assert EVENT_KINDS[device_kind("gpu_user_annotation", "nccl:all_reduce")] == "other"
    assert EVENT_KINDS[device_kind("Kernel", "ncclKernel_AllReduce")] == "communication"
    assert EVENT_KINDS[device_kind("mtia_ccp_events", "event_record")] == "sync"


@pytest.mark.parametrize(
    ("rank", "names"),
    [
        (3, ["gpuscope.step"]),
        (2, ["ProfilerStep#0", "ProfilerStep#12"]),
        (
            1,
            [
                "step 3",
                "train_step",
                "iteration 7",
                "Training Step",
                "batch_12",
                "decode_step",
                "step[DECODE bs=32]",
                "iter#4",
            ],
        ),
        (
            0,
            [
                "Optimizer.step#SGD.step",
                "step_size_update",
                "aten::add",
                "batch_norm",
                "forward",
                "ProfilerStepper",
                "gpuscope.module:step",
                "stepwise",
            ],
        ),
    ],
)
def test_steps(rank, names):
    assert {name: step_rank(name) for name in names} == dict.fromkeys(names, rank)


@pytest.mark.parametrize(
    ("phase", "names"),
    [
        (
            "backward",
            [
                "autograd::engine::evaluate_function: MmBackward0",
                "AddmmBackward0",
                "torch::autograd::AccumulateGradBackward",
                "AddmmBackward",
                "torch/_tensor.py(540): backward",
            ],
        ),
        (
            "optimizer",
            [
                "Optimizer.step#AdamW.step",
                "Optimizer.zero_grad#SGD.zero_grad",
                "torch/optim/sgd.py(84): step",
            ],
        ),
        (
            "input",
            [
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                "torch/utils/data/dataloader.py(628): __next__",
            ],
        ),
        ("forward", ["aten::mm", "aten::convolution_backward", "backward_hook", "zero_grad"]),
    ],
)
def test_phases(phase, names):
    assert {name: PHASES[phase_mark(name)] for name in names} == dict.fromkeys(names, phase)


def test_modules_and_frames():
    assert EVENT_KINDS[host_kind("python", "nn.Module: Linear_0")] == "module"
    assert EVENT_KINDS[host_kind("python", "torch/nn/modules/linear.py(124): forward")] == "python"
    assert EVENT_KINDS[host_kind("operator", "gpuscope.module:a.b")] == "module"
    assert EVENT_KINDS[host_kind("operator", "ProfilerStep#1")] == "step"
    assert EVENT_KINDS[host_kind("mark", "whatever")] == "other"


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("_allgather_base", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("allreduce", "all_reduce"),
        ("alltoall_base", "all_to_all"),
        ("broadcast", "broadcast"),
        ("nccl:all_to_all", "all_to_all"),
        ("allreduce_coalesced", "all_reduce"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)", "all_gather"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "send_recv"),
        ("void vllm::cross_device_reduce_1stage<float, 8>(A)", "all_reduce"),
        ("recv", "recv"),
        ("barrier", "barrier"),
        ("ncclDevKernel_Generic_1(X)", ""),
    ],
)
def test_collective_names(name, call):
    assert call_name(name) == call


def test_a_group_told_by_its_first_rank_and_stride():
    text = (
        b'{"Collective name": "_allgather_base", "Process Group Ranks": "[8, 10, ..., 14]", '
        b'"Group size": 4, "Global rank start": 8, "Global rank stride": 2, "dtype": "Float", '
        b'"In msg nelems": 10, "Out msg nelems": 40, "Process Group Name": "tp"}'
    )
    got = described(text, {})
    assert got.sequence == -1
    assert got.collective == Collective("all_gather", "tp", 4, (8, 10, 12, 14), "float32", 10, 40)
    header = described(text.replace(b"Global rank", b"Other"), {"tp": (8, 10, 12, 14)})
    assert header.collective.group_ranks == (8, 10, 12, 14)


def test_what_a_collective_does_not_say_is_unknown():
    got = described(b'{"Collective name": "wait"}', {}).collective
    assert got == Collective("wait")
    assert (got.group_size, got.in_elements) == (None, None)


def test_dtypes():
    words = {
        "c10::BFloat16": "bfloat16",
        "BFloat16": "bfloat16",
        "float": "float32",
        "Half": "float16",
        "long int": "int64",
        "unsigned char": "uint8",
        "c10::Float8_e4m3fn": "float8_e4m3fn",
        "Scalar": "",
        "ScalarList": "",
        "": "",
        "TensorList": "",
    }
    assert {word: torch_dtype(word) for word in words} == words


def test_inputs_of_lists_and_numbers():
    spec = (
        b"[[2, 3], [[4], [5, 6]], [], [], [7]]",
        b'["float", "TensorList", "Scalar", "float", "c10::Half"]',
        b"[[1, 2], [[1], [6, 1]], [], [], []]",
        b"",
    )
    assert [(t.shape, t.stride, t.dtype) for t in tensors_of(spec)] == [
        ((2, 3), (1, 2), "float32"),
        ((4,), (1,), "unknown"),
        ((5, 6), (6, 1), "unknown"),
        ((), (), "float32"),
        ((7,), (1,), "float16"),
    ]
    assert tensors_of((b"{broken", b"", b"", b"")) == ()
    assert tensors_of((b'[[-1], ["x"], 5]', b"[]", b"", b"")) == ()
