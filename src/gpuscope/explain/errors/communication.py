"""Errors of NCCL, RCCL and the meeting of ranks, besides the watchdog's timeout."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Certainty, Diagnosis
from gpuscope.explain.types import Fact, Words

_DEBUG = Words(
    "Run again with NCCL_DEBUG=INFO: the first line with WARN, on any rank, tells the reason.",
    "用 NCCL_DEBUG=INFO 重跑：任一 rank 上第一条 WARN 就是原因。",
)


class _Kind(NamedTuple):
    kind: str
    pattern: str
    title: Words
    cause: Words
    certainty: Certainty
    tries: tuple[Words, ...]
    rank: int


_KINDS = (
    _Kind(
        "duplicate_gpu",
        r"Duplicate GPU detected",
        Words("Two ranks use the same device", "两个 rank 使用了同一块设备"),
        Words(
            "Two processes of one group chose the same device; NCCL wants one each.",
            "同组的两个进程选择了同一块设备；NCCL 要求每个进程一块。",
        ),
        "certain",
        (
            Words(
                "At the start of each process: "
                "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])).",
                "在每个进程开头调用 torch.cuda.set_device(int(os.environ['LOCAL_RANK']))。",
            ),
            Words(
                "Start at most as many processes on a host as it has devices.",
                "每台主机启动的进程数不超过设备数。",
            ),
        ),
        30,
    ),
    _Kind(
        "rendezvous",
        r"store->get\('[^']*'\) got error|RendezvousConnectionError|client socket has timed out"
        r"|DistStoreError|connection to the C10d store has failed",
        Words("The ranks did not find each other", "各 rank 未能互相连接"),
        Words(
            "Before any collective the ranks meet at one address (MASTER_ADDR, MASTER_PORT); one "
            "of them did not answer there in time: it had not started, had died, or the port is "
            "closed.",
            "集合通信之前，各 rank 要在同一地址（MASTER_ADDR、MASTER_PORT）会合；"
            "其中一个未及时应答：尚未启动、已退出，或端口不通。",
        ),
        "likely",
        (
            Words(
                "Look whether rank 0 is alive and reached init_process_group; a data set that is "
                "built on rank 0 alone before may take longer than the limit.",
                "检查 rank 0 是否存活并到达 init_process_group；若此前只在 rank 0 上构建数据集，"
                "耗时可能超过时限。",
            ),
            Words(
                "From every host: nc -vz MASTER_ADDR MASTER_PORT; open the port, or name the "
                "right network with NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME.",
                "在每台主机上执行 nc -vz MASTER_ADDR MASTER_PORT；开放端口，或用 "
                "NCCL_SOCKET_IFNAME、GLOO_SOCKET_IFNAME 指定正确的网卡。",
            ),
        ),
        55,
    ),
    _Kind(
        "nccl_system_error",
        r"ncclSystemError|NCCL error:? unhandled system error|unhandled system error",
        Words("A call to the operating system failed inside NCCL", "NCCL 内部的系统调用失败"),
        Words(
            "A socket, shared memory or the network adapter refused: often /dev/shm too small in a "
            "container, a network that was chosen wrongly, or InfiniBand without the right limits.",
            "套接字、共享内存或网卡出错：常见于容器内 /dev/shm 太小、选错网卡，或 InfiniBand "
            "的限制设置不当。",
        ),
        "possible",
        (
            _DEBUG,
            Words(
                "In a container: docker run --shm-size=16g --ulimit memlock=-1 (or --ipc=host).",
                "容器中：docker run --shm-size=16g --ulimit memlock=-1（或 --ipc=host）。",
            ),
            Words(
                "To find the culprit: NCCL_IB_DISABLE=1 (no InfiniBand), NCCL_P2P_DISABLE=1, "
                "NCCL_SHM_DISABLE=1, one at a time.",
                "逐一尝试以定位：NCCL_IB_DISABLE=1（不用 InfiniBand）、NCCL_P2P_DISABLE=1、"
                "NCCL_SHM_DISABLE=1。",
            ),
        ),
        40,
    ),
    _Kind(
        "nccl_cuda_error",
        r"ncclUnhandledCudaError|unhandled cuda error",
        Words("A CUDA call failed inside NCCL", "NCCL 内部的 CUDA 调用失败"),
        Words(
            "CUDA refused something that NCCL asked for: often no memory left for NCCL's buffers, "
            "an earlier error of the device, or a driver too old for this NCCL.",
            "CUDA 拒绝了 NCCL 的请求：常见于没有显存留给 NCCL 的缓冲区、设备此前已出错，"
            "或驱动对该 NCCL 版本过旧。",
        ),
        "possible",
        (
            _DEBUG,
            Words(
                "Leave a GiB or two of device memory free, and look for an error before this one.",
                "留出一两个 GiB 显存，并查找此前的错误。",
            ),
        ),
        40,
    ),
    _Kind(
        "nccl_remote_error",
        r"ncclRemoteError|remote process exited or there was a network error"
        r"|Connection closed by remote peer|Broken pipe",
        Words("Another rank went away", "另一个 rank 已退出"),
        Words(
            "The connection to another rank closed: that rank ended, mostly with an error of its "
            "own.",
            "与另一个 rank 的连接断开：它已退出，多半有自己的错误。",
        ),
        "likely",
        (
            Words("Read the log of the rank that ended first.", "查看最先退出的 rank 的日志。"),
            _DEBUG,
        ),
        65,
    ),
    _Kind(
        "nccl_invalid_usage",
        r"ncclInvalidUsage|ncclInvalidArgument",
        Words("NCCL was called wrongly", "NCCL 调用方式有误"),
        Words(
            "The ranks do not agree on what they call, two ranks share a device, or a "
            "communicator was used in two threads at once.",
            "各 rank 的调用不一致、两个 rank 共用一块设备，或同一通信器被两个线程同时使用。",
        ),
        "possible",
        (_DEBUG,),
        40,
    ),
    _Kind(
        "nccl_internal_error",
        r"ncclInternalError",
        Words("NCCL reports an internal error", "NCCL 报告内部错误"),
        Words(
            "Mostly the network or another rank; seldom a fault of NCCL itself.",
            "多半是网络或其他 rank 的问题，很少是 NCCL 自身的缺陷。",
        ),
        "possible",
        (_DEBUG,),
        45,
    ),
)


@error_reader
def read_communication(log: Log) -> Diagnosis | None:
    """Read NCCL's errors; of several kinds the one closest to the root."""
    found = [(match, kind) for kind in _KINDS if (match := log.search(kind.pattern)) is not None]
    if not found:
        return None
    match, kind = min(found, key=lambda item: (item[1].rank, item[0].start()))
    if kind.kind == "nccl_remote_error" and "NCCL" not in log.text:
        return None  # a broken pipe of something else
    version = re.search(r"NCCL version (\d[\d.]*)", log.text)
    facts = (Fact(Words("NCCL version", "NCCL 版本"), version[1]),) if version else ()
    return Diagnosis(
        kind.kind,
        kind.title,
        kind.cause,
        kind.certainty,
        kind.tries,
        log.line_of(match),
        kind.rank,
        (*facts, *_warning(log)),
        sources=("NVIDIA NCCL user guide, troubleshooting and environment variables.",),
    )


def _warning(log: Log) -> tuple[Fact, ...]:
    """NCCL's own reason: the first line marked WARN."""
    found = log.search(r"NCCL WARN (?P<said>[^\n]{1,200})")
    return (
        (Fact(Words("NCCL's first warning", "NCCL 的首条警告"), found["said"].strip()),)
        if found
        else ()
    )
