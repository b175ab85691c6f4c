"""Small traces written by hand, in the words of several recorders."""

import gzip
import json
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"
RECORDED = Path(__file__).resolve().parents[1] / "data" / "traces"


def event(cat: str, name: str, ts: Any, dur: Any, *, pid: Any = 1, tid: Any = 1, **args: Any):
    """A complete event; underscores in argument names stand for spaces."""
    named = {key.replace("__", " "): value for key, value in args.items()}
    record = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return {**record, "args": named} if named else record


def thread(name: str, *, pid: Any = 1, tid: Any = 1):
    return {
        "ph": "M",
        "name": "thread_name",
        "pid": pid,
        "tid": tid,
        "ts": 0,
        "args": {"name": name},
    }


def training() -> list[dict[str, Any]]:
    """One step: a linear layer forward and backward, a copy in, an all-reduce, an optimizer."""
    seq = {"Sequence number": 7}
    dims = {
        "Input Dims": [[8, 4], [4, 2]],
        "Input type": ["c10::BFloat16", "c10::BFloat16"],
        "Input Strides": [[4, 1], [1, 4]],
        "Concrete Inputs": ["", ""],
    }
    comms = {
        "Collective name": "allreduce",
        "In msg nelems": 64,
        "Out msg nelems": 64,
        "dtype": "BFloat16",
        "Group size": 4,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1, 2, 3]",
        "Seq": 12,
    }
    shape = {
        "grid": [2, 3, 1],
        "block": [128, 1, 1],
        "registers per thread": 40,
        "shared memory": 1024,
        "est. achieved occupancy %": 25,
    }
    dev = {"device": 0, "stream": 7}
    return [
        thread("thread 1 (python)"),
        thread("thread 2 (pt_autograd_0)", tid=2),
        event("user_annotation", "ProfilerStep#3", 100, 1000),
        event("cpu_op", "aten::copy_", 110, 20),
        event("cuda_runtime", "cudaMemcpyAsync", 112, 5, correlation=1),
        event(
            "gpu_memcpy",
            "Memcpy HtoD (Pinned -> Device)",
            125.25,
            10.5,
            pid=0,
            tid=7,
            correlation=1,
            bytes=4096,
            **dev,
        ),
        event("python_function", "nn.Module: Net_0", 140, 100),
        event("python_function", "nn.Module: Linear_0", 150, 80),
        {**event("cpu_op", "aten::linear", 160, 60), "args": {**seq, **dims}},
        {**event("cpu_op", "aten::addmm", 165, 50), "args": {**seq, **dims}},
        event("cuda_runtime", "cudaLaunchKernel", 170, 10, correlation=2),
        {
            **event("kernel", "gemm", "200.001", 30, pid=0, tid=7),
            "args": {"correlation": 2, **dev, **shape},
        },
        {
            **event(
                "cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 300, 100, tid=2
            ),
            "args": seq,
        },
        {**event("cpu_op", "AddmmBackward0", 305, 90, tid=2), "args": seq},
        event("cpu_op", "aten::mm", 310, 60, tid=2),
        event("cuda_driver", "cuLaunchKernelEx", 320, 10, tid=2, correlation=3),
        event("kernel", "gemm_t", 340, 40, pid=0, tid=7, correlation=3, **dev),
        {**event("cpu_op", "record_param_comms", 420, 40, tid=2), "args": comms},
        event("cuda_runtime", "cudaLaunchKernelExC", 425, 10, tid=2, correlation=4),
        event(
            "kernel",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)",
            450,
            100,
            pid=0,
            tid=20,
            correlation=4,
            device=0,
            stream=20,
        ),
        event("user_annotation", "Optimizer.step#SGD.step", 600, 200),
        event("cpu_op", "aten::_foreach_add_", 610, 100),
        event("cuda_runtime", "cudaLaunchKernel", 620, 10, correlation=5),
        event("kernel", "multi_tensor", 640, 20, pid=0, tid=7, correlation=5, **dev),
        event("gpu_user_annotation", "ProfilerStep#3", 125, 535, pid=0, tid=7),
        event("cuda_sync", "Context Sync", 850, 100, pid=0, tid=7, cuda_sync_kind="Context Sync"),
        event("cuda_runtime", "cudaDeviceSynchronize", 850, 200, correlation=6),
        event("kernel", "unlinked", 700, 10, pid=0, tid=7, correlation=99, **dev),
        event("Trace", "PyTorch Profiler (0)", 0, 5000, pid="Spans", tid="PyTorch Profiler"),
        {"ph": "s", "id": 2, "pid": 1, "tid": 1, "ts": 170, "cat": "ac2g", "name": "ac2g"},
        {
            "ph": "f",
            "id": 2,
            "pid": 0,
            "tid": 7,
            "ts": 200,
            "cat": "ac2g",
            "name": "ac2g",
            "bp": "e",
        },
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": 115,
            "args": {
                "Total Reserved": 2048,
                "Total Allocated": 512,
                "Bytes": 512,
                "Device Id": 0,
                "Device Type": 1,
            },
        },
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": 116,
            "args": {
                "Total Reserved": 0,
                "Total Allocated": 9,
                "Bytes": 9,
                "Device Id": -1,
                "Device Type": 0,
            },
        },
    ]


HEADER = {
    "schemaVersion": 1,
    "deviceProperties": [
        {
            "id": 0,
            "name": "NVIDIA H200",
            "totalGlobalMem": 1 << 37,
            "computeMajor": 9,
            "computeMinor": 0,
            "numSms": 132,
            "warpSize": 32,
        }
    ],
    "distributedInfo": {
        "backend": "nccl",
        "rank": 2,
        "world_size": 4,
        "pg_config": [{"pg_name": "0", "pg_size": 4, "ranks": [0, 1, 2, 3]}],
    },
    "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    "host_name": "node-1",
    "with_stack": 1,
}


def document(events: list[dict[str, Any]] | None = None, **header: Any) -> dict[str, Any]:
    listed = training() if events is None else events
    return {**(header or HEADER), "traceEvents": listed, "traceName": "t"}


def write(path: Path, content: Any, *, indent: int | None = None) -> Path:
    """Write a document (or text, or bytes) as it is; gzip-compressed for a name that says so."""
    if not isinstance(content, bytes | str):
        content = json.dumps(content, indent=indent)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
