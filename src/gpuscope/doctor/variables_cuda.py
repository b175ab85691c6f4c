"""Variables of CUDA and ROCm that change performance.

Sources: NVIDIA, CUDA C++ Programming Guide, "CUDA Environment Variables"; AMD, "Environment
variables" of HIP (HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL).
"""

from __future__ import annotations

from gpuscope.doctor.variables import Setting, below, is_off, is_on
from gpuscope.explain.types import Words

_BLOCKING = Words(
    "The host waits for each kernel: nothing overlaps, small kernels take many times longer.",
    "主机等待每个内核结束：没有任何重叠，小内核慢很多倍。",
)

CUDA: tuple[Setting, ...] = (
    Setting(
        "CUDA_LAUNCH_BLOCKING", is_on, "warning",
        Words("Every kernel launch waits for its end.", "每次内核启动都同步等待。"),
        _BLOCKING, True,
    ),
    Setting(
        "HIP_LAUNCH_BLOCKING", is_on, "warning",
        Words("Every kernel launch waits for its end.", "每次内核启动都同步等待。"),
        _BLOCKING, True,
    ),
    Setting(
        "AMD_SERIALIZE_KERNEL", is_on, "warning",
        Words("Kernels run one after the other.", "内核被串行执行。"), _BLOCKING, True,
    ),
    Setting(
        "CUDA_DEVICE_MAX_CONNECTIONS", below(2), "note",
        Words("One hardware queue for all streams.", "所有流共用一个硬件队列。"),
        Words(
            "Megatron wants it so, to order communication before compute; with FSDP it removes "
            "overlap.",
            "Megatron 需要它来保证通信先于计算；用于 FSDP 则会失去重叠。",
        ),
    ),
    Setting(
        "CUDA_MODULE_LOADING", lambda v: v.strip().upper() == "EAGER", "note",
        Words("All kernels are loaded at the start.", "启动时加载全部内核。"),
        Words(
            "Starting takes seconds longer and device memory holds kernels that are never used.",
            "启动多花数秒，且显存中保留从不使用的内核。",
        ),
    ),
    Setting(
        "CUDA_CACHE_DISABLE", is_on, "note",
        Words("Compiled kernels are not kept.", "不缓存已编译的内核。"),
        Words("Kernels from PTX are compiled at each start.", "每次启动都要重新编译 PTX 内核。"),
    ),
    Setting(
        "CUDA_FORCE_PTX_JIT", is_on, "warning",
        Words("Kernels are compiled from PTX instead of used as built.", "强制从 PTX 编译内核。"),
        Words("Starts slowly, and libraries without PTX fail.", "启动很慢，没有 PTX 的库会失败。"),
        True,
    ),
    Setting(
        "CUDA_DISABLE_PTX_JIT", is_on, "note",
        Words("Kernels may not be compiled from PTX.", "禁止从 PTX 编译内核。"),
        Words(
            "On a device newer than the program: 'no kernel image is available'.",
            "设备比程序新时会报 “no kernel image is available”。",
        ),
    ),
    Setting(
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", is_on, "note",
        Words("Device errors write core dumps.", "设备异常会写 core dump。"),
        Words("A file as large as the memory in use.", "文件与已用显存一样大。"),
    ),
    Setting(
        "NVIDIA_TF32_OVERRIDE", is_off, "warning",
        Words("TF32 is switched off for all libraries.", "所有库的 TF32 被关闭。"),
        Words(
            "Products of float32 run without tensor cores, whatever PyTorch is told.",
            "无论 PyTorch 如何设置，float32 矩阵乘都不使用张量核心。",
        ),
    ),
    Setting(
        "CUBLAS_WORKSPACE_CONFIG", lambda v: v.strip() in (":4096:8", ":16:8"), "note",
        Words("cuBLAS is held to reproducible results.", "cuBLAS 被限定为可复现结果。"),
        Words("Some products take slower kernels.", "部分矩阵乘会用较慢的内核。"),
    ),
    Setting(
        "HSA_ENABLE_SDMA", is_off, "note",
        Words("Copies do not use the copy engines.", "拷贝不使用专用引擎。"),
        Words("They take compute units from kernels.", "拷贝会占用内核的计算单元。"),
    ),
    Setting(
        "HSA_OVERRIDE_GFX_VERSION", is_on, "note",
        Words("ROCm takes the device for another one.", "ROCm 把设备当作另一型号。"),
        Words(
            "Works on near relatives; a wrong guess crashes kernels.",
            "近亲型号可用；若不符，内核会崩溃。",
        ),
    ),
)  # fmt: skip
