"""Kernels that could not start, or that broke off: illegal addresses, too many resources, ..."""

from __future__ import annotations

from typing import NamedTuple

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Certainty, Diagnosis
from gpuscope.explain.types import Words

_BLOCKING = Words(
    "Run again with CUDA_LAUNCH_BLOCKING=1: without it the traceback may point to a later, "
    "innocent line.",
    "用 CUDA_LAUNCH_BLOCKING=1 重跑：否则回溯可能指向更靠后的无辜代码。",
)
_SANITIZER = Words(
    "compute-sanitizer --tool memcheck python train.py names the kernel, the thread and the "
    "address (slow: use a small case).",
    "compute-sanitizer --tool memcheck python train.py 可指出内核、线程和地址（很慢，"
    "请用小规模复现）。",
)


class _Kind(NamedTuple):
    kind: str
    pattern: str
    title: Words
    cause: Words
    certainty: Certainty
    tries: tuple[Words, ...]


_KINDS = (
    _Kind(
        "illegal_memory_access",
        r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS"
        r"|cudaErrorIllegalAddress",
        Words("A kernel reached outside of its memory", "内核访问了非法地址"),
        Words(
            "A kernel read or wrote an address that belongs to no tensor: most often a custom or "
            "third-party kernel with a wrong size or stride, an index that nobody checked, or "
            "32-bit indexes with a tensor of more than 2^31 elements.",
            "某个内核读写了不属于任何张量的地址：最常见的是自定义或第三方内核的尺寸、步幅有误，"
            "未检查的索引，或超过 2^31 个元素的张量使用了 32 位索引。",
        ),
        "possible",
        (
            _BLOCKING,
            _SANITIZER,
            Words(
                "Take out custom kernels one at a time (fused attention, fused optimizers, "
                "extensions), and update the package whose kernel it is.",
                "逐一去掉自定义内核（融合注意力、融合优化器、扩展），并更新出错内核所在的包。",
            ),
            Words(
                "If it comes and goes on one device only, look in dmesg for Xid lines: it may be "
                "the hardware.",
                "如果只在某一块设备上时有时无，请在 dmesg 中查找 Xid：可能是硬件问题。",
            ),
        ),
    ),
    _Kind(
        "misaligned_address",
        r"misaligned address",
        Words("A kernel used a misaligned address", "内核使用了未对齐的地址"),
        Words(
            "A wide access (8 or 16 bytes at once) began at an address that is no multiple of its "
            "width: often a sliced tensor given to a kernel that assumes a fresh one.",
            "宽访问（一次 8 或 16 字节）的起始地址不是其宽度的整数倍："
            "常见于把切片后的张量传给假定完整张量的内核。",
        ),
        "likely",
        (
            Words(
                "Pass x.contiguous() or x.clone() to that kernel.",
                "给该内核传入 x.contiguous() 或 x.clone()。",
            ),
            _BLOCKING,
            _SANITIZER,
        ),
    ),
    _Kind(
        "too_many_resources",
        r"too many resources requested for "
        r"launch|LAUNCH_OUT_OF_RESOURCES|cudaErrorLaunchOutOfResources",
        Words("A kernel asks for more than a multiprocessor has", "内核请求的资源超过多处理器"),
        Words(
            "Threads of a block × registers of a thread exceed the registers of a multiprocessor "
            "(or a debug build needs more of them).",
            "每块线程数 × 每线程寄存器数超过了多处理器的寄存器（或调试构建需要更多寄存器）。",
        ),
        "likely",
        (
            Words(
                "Launch fewer threads in a block, or bound the registers: __launch_bounds__(256), "
                "nvcc -maxrregcount=64.",
                "减少每块线程数，或限制寄存器：__launch_bounds__(256)、nvcc -maxrregcount=64。",
            ),
        ),
    ),
    _Kind(
        "invalid_configuration",
        r"invalid configuration argument",
        Words("A launch with an impossible grid or block", "启动参数（网格或线程块）不合法"),
        Words(
            "The grid or the block is empty or too large: more than 1024 threads in a block, more "
            "than 65,535 blocks in y or z, or an empty tensor.",
            "网格或线程块为空或过大：每块超过 1024 个线程、y 或 z 方向超过 65535 个块，"
            "或张量为空。",
        ),
        "likely",
        (
            Words(
                "Look for empty tensors and very large batch dimensions before that call.",
                "检查该调用之前是否有空张量或过大的批维度。",
            ),
            _BLOCKING,
        ),
    ),
    _Kind(
        "launch_timeout",
        r"the launch timed out and was terminated|cudaErrorLaunchTimeout",
        Words(
            "A kernel ran too long for a device with a display", "内核运行时间超过显示设备的限制"
        ),
        Words(
            "The device also drives a display, whose watchdog ends kernels after some seconds.",
            "该设备同时驱动显示器，看门狗会在数秒后终止内核。",
        ),
        "likely",
        (Words("Use another device, or smaller pieces of work.", "换一块设备，或把工作切小。"),),
    ),
    _Kind(
        "launch_failure",
        r"unspecified launch failure|CUDA_ERROR_LAUNCH_FAILED|cudaErrorLaunchFailure",
        Words("A kernel broke off", "内核异常终止"),
        Words(
            "A kernel stopped without telling why: most often an illegal address, sometimes a "
            "stack that overflowed, or the hardware.",
            "内核未说明原因就终止：最常见的是非法地址，有时是栈溢出或硬件问题。",
        ),
        "possible",
        (_BLOCKING, _SANITIZER, Words("Look in dmesg for Xid lines.", "在 dmesg 中查找 Xid。")),
    ),
    _Kind(
        "ecc_error",
        r"uncorrectable ECC error|CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable",
        Words("The device's memory has an error", "设备显存出现不可纠正的错误"),
        Words(
            "A bit of the device's memory changed by itself and could not be corrected.",
            "设备显存中的某一位自行改变且无法纠正。",
        ),
        "certain",
        (
            Words(
                "Restart the job; see nvidia-smi -q -d ECC,ROW_REMAPPER and reset the device.",
                "重启任务；查看 nvidia-smi -q -d ECC,ROW_REMAPPER，并重置设备。",
            ),
            Words("If it comes again, have the device replaced.", "若再次出现，请更换设备。"),
        ),
    ),
)


@error_reader
def read_launch(log: Log) -> Diagnosis | None:
    """Read an error of a launch; of several the first in the text."""
    found = [(match, kind) for kind in _KINDS if (match := log.search(kind.pattern)) is not None]
    if not found:
        return None
    match, kind = min(found, key=lambda item: item[0].start())
    return Diagnosis(
        kind.kind,
        kind.title,
        kind.cause,
        kind.certainty,
        kind.tries,
        log.line_of(match),
        15 if kind.kind == "ecc_error" else 25,
        sources=("CUDA Runtime API, error codes (docs.nvidia.com/cuda/cuda-runtime-api).",),
    )
