"""Errors of cuBLAS, cuDNN and their AMD likes: what the status says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Certainty, Diagnosis
from gpuscope.explain.types import Fact, Words

_STATUS = re.compile(
    r"(?P<library>CUBLAS|CUDNN|CUSPARSE|CUSOLVER|ROCBLAS|rocblas|HIPBLAS|MIOPEN|miopen)"
    r"_?(?:STATUS_|status|Status)_?(?P<status>[A-Za-z_]+)"
)

_MEMORY = Words(
    "Free device memory first (a smaller batch): these libraries need some hundred MiB of their "
    "own besides PyTorch's.",
    "先腾出显存（减小 batch）：这些库在 PyTorch 之外还需要数百 MiB。",
)
_CPU = Words(
    "Run the step on the CPU once: an index out of range (a token id, a label) often shows only "
    "as this error.",
    "在 CPU 上跑一次：索引越界（token id、标签）常常只表现为这个错误。",
)
_EARLIER = Words(
    "Look for an earlier CUDA error in the log; run with CUDA_LAUNCH_BLOCKING=1.",
    "在日志中查找更早的 CUDA 错误；用 CUDA_LAUNCH_BLOCKING=1 运行。",
)
_BUILD = Words(
    "Look that only one CUDA is there: LD_LIBRARY_PATH must not bring other cuBLAS or cuDNN "
    "libraries than PyTorch's own.",
    "确认只有一套 CUDA：LD_LIBRARY_PATH 不应引入 PyTorch 自带之外的 cuBLAS、cuDNN。",
)

_CAUSES: Mapping[str, tuple[Words, Certainty, tuple[Words, ...]]] = {
    "ALLOC_FAILED": (
        Words(
            "The library could not get device memory: nearly all of it is taken.",
            "库无法申请显存：显存几乎已被占满。",
        ),
        "likely",
        (_MEMORY, _CPU),
    ),
    "NOT_INITIALIZED": (
        Words(
            "The library could not start on the device: mostly too little memory is left for it, "
            "sometimes an earlier error broke the context, or versions do not fit.",
            "库无法在设备上初始化：多半是剩余显存不足，有时是此前的错误破坏了上下文，或版本不匹配。",
        ),
        "possible",
        (_MEMORY, _CPU, _EARLIER, _BUILD),
    ),
    "EXECUTION_FAILED": (
        Words(
            "A kernel of the library broke off: mostly an earlier error (an illegal address, an "
            "index) that is only noticed here.",
            "库的内核执行失败：多半是更早的错误（非法地址、索引越界）到这里才被发现。",
        ),
        "possible",
        (_EARLIER, _CPU, _BUILD, _MEMORY),
    ),
    "INTERNAL_ERROR": (
        Words(
            "The library failed inside: too little memory, an earlier error, or a version that "
            "does not fit the driver.",
            "库内部失败：显存不足、更早的错误，或版本与驱动不匹配。",
        ),
        "possible",
        (_MEMORY, _EARLIER, _BUILD),
    ),
    "INVALID_VALUE": (
        Words(
            "The library was given sizes or strides that it refuses, often an empty tensor, or "
            "another version of the library was loaded than PyTorch was built with.",
            "传给库的尺寸或步幅不被接受，常见于空张量，或加载的库版本与 PyTorch 构建时不同。",
        ),
        "possible",
        (_BUILD, _EARLIER),
    ),
    "NOT_SUPPORTED": (
        Words(
            "The library has no kernel for this mix of dtype, layout and shape on this device.",
            "库在该设备上没有对应此类型、布局和形状组合的内核。",
        ),
        "likely",
        (
            Words(
                "Try another dtype or x.contiguous(); for cuDNN also torch.backends.cudnn.enabled "
                "= False once.",
                "换一种类型或使用 x.contiguous()；对 cuDNN 可临时设 torch.backends.cudnn.enabled "
                "= False。",
            ),
            _BUILD,
        ),
    ),
    "ARCH_MISMATCH": (
        Words(
            "The device is too old for this function of the library.",
            "设备过旧，不支持库的该功能。",
        ),
        "certain",
        (Words("Use another dtype or device.", "更换类型或设备。"),),
    ),
    "MAPPING_ERROR": (
        Words(
            "The library could not reach its memory after an earlier error.",
            "更早的错误之后，库无法访问其内存。",
        ),
        "possible",
        (_EARLIER, _CPU),
    ),
    "BAD_PARAM": (
        Words(
            "The library was given sizes that it refuses, often an empty tensor.",
            "传给库的尺寸不被接受，常见于空张量。",
        ),
        "possible",
        (_EARLIER,),
    ),
    "VERSION_MISMATCH": (
        Words(
            "Parts of cuDNN of different versions were loaded together.",
            "同时加载了不同版本的 cuDNN 组件。",
        ),
        "certain",
        (_BUILD,),
    ),
}
_ANY = (
    Words(
        "The library refused a call; its status does not tell why.",
        "库拒绝了一次调用；状态码未说明原因。",
    ),
    _EARLIER,
    _BUILD,
)


@error_reader
def read_library(log: Log) -> Diagnosis | None:
    """Read the first status of a library that is not success."""
    for found in _STATUS.finditer(log.text):
        status = found["status"].upper().strip("_")
        if "SUCCESS" in status:
            continue
        return _said(log, found, status)
    return None


def _said(log: Log, found: re.Match[str], status: str) -> Diagnosis:
    key = next((name for name in _CAUSES if status.startswith(name)), "")
    if not key and status.replace("_", "") in {name.replace("_", "") for name in _CAUSES}:
        key = next(n for n in _CAUSES if n.replace("_", "") == status.replace("_", ""))
    cause, certainty, tries = _CAUSES.get(key, (_ANY[0], "possible", _ANY[1:]))
    call = re.search(rf"{re.escape(found[0])}\w*,? when calling [`'](?P<call>\w+)", log.text)
    name = found["library"].upper().replace("CU", "cu", 1).replace("BLAS", "BLAS")
    facts = [Fact(Words("status", "状态码"), found[0])]
    if call:
        facts.append(Fact(Words("the call", "调用"), call["call"]))
    return Diagnosis(
        f"{found['library'].lower()}_error",
        Words(f"{name} refused a call", f"{name} 调用失败"),
        cause,
        certainty,
        tries,
        log.line_of(found),
        35,
        tuple(facts),
        sources=("NVIDIA cuBLAS and cuDNN API references, status codes.",),
    )
