"""PyTorch, driver and device that do not fit each other."""

from __future__ import annotations

import re

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Diagnosis
from gpuscope.explain.types import Column, Fact, Table, Words

_COMPATIBILITY = "NVIDIA, CUDA Compatibility (docs.nvidia.com/deploy/cuda-compatibility)."
_DRIVERS = Table(
    Words("Oldest Linux driver for each CUDA", "各 CUDA 版本所需的最低 Linux 驱动"),
    (Column(Words("CUDA", "CUDA")), Column(Words("driver at least", "最低驱动"))),
    (("11.x", "450.80.02"), ("12.x", "525.60.13"), ("13.x", "580.65.06")),
    note=Words(
        "With minor version compatibility; nvidia-smi shows the driver, torch.version.cuda what "
        "PyTorch was built for.",
        "依靠小版本兼容；nvidia-smi 显示驱动版本，torch.version.cuda 显示 PyTorch 的构建版本。",
    ),
)
_UPDATE = Words(
    "Update the driver of the host (a container uses the host's), or install a PyTorch built for "
    "an older CUDA: pick it on pytorch.org.",
    "更新主机驱动（容器使用主机的驱动），或安装为更旧 CUDA 构建的 PyTorch：可在 pytorch.org 选择。",
)


@error_reader
def read_driver(log: Log) -> Diagnosis | None:
    """Read a driver that is too old for PyTorch's CUDA."""
    found = log.search(
        r"driver version is insufficient for CUDA runtime version"
        r"|NVIDIA driver on your system is too old|CUDA_ERROR_INSUFFICIENT_DRIVER"
        r"|cudaErrorInsufficientDriver|unsupported toolchain|provided PTX was compiled with an"
    )
    if found is None:
        return None
    version = re.search(r"found version (\d{4,5})", log.text)
    facts: tuple[Fact, ...] = ()
    if version:
        number = int(version[1])
        text = f"{number // 1000}.{number % 1000 // 10}"
        facts = (Fact(Words("newest CUDA that the driver knows", "驱动支持的最高 CUDA"), text),)
    return Diagnosis(
        "driver_too_old",
        Words("The driver is older than PyTorch's CUDA", "驱动版本低于 PyTorch 的 CUDA"),
        Words(
            "PyTorch was built for a newer CUDA than the installed driver knows.",
            "PyTorch 所用的 CUDA 比已安装驱动支持的更新。",
        ),
        "certain",
        (
            _UPDATE,
            Words("Then restart, so that the new driver is loaded.", "之后重启以加载新驱动。"),
        ),
        log.line_of(found),
        20,
        facts,
        (_DRIVERS,),
        ("nvidia-smi", "gpuscope doctor"),
        (_COMPATIBILITY,),
    )


@error_reader
def read_forward_compatibility(log: Log) -> Diagnosis | None:
    """Read error 804: a container's compatibility libraries on a device that has none."""
    found = log.search(
        r"forward compatibility was attempted on non supported "
        r"HW|cudaErrorCompatNotSupportedOnDevice"
    )
    if found is None:
        return None
    return Diagnosis(
        "forward_compatibility",
        Words(
            "Compatibility libraries on a device that does not take them", "设备不支持向前兼容库"
        ),
        Words(
            "A newer CUDA brought its own driver libraries (cuda-compat, often inside a "
            "container); only data center devices may use those with an older driver. Or the "
            "driver was updated and its kernel module not yet reloaded.",
            "更新的 CUDA 带来了自己的驱动库（cuda-compat，常见于容器内）；"
            "只有数据中心设备可以搭配旧驱动使用。也可能是驱动已更新但内核模块尚未重新加载。",
        ),
        "likely",
        (
            Words(
                "Update the host's driver, or use an image with an older CUDA.",
                "更新主机驱动，或使用 CUDA 更旧的镜像。",
            ),
            Words(
                "After a driver update: reboot (nvidia-smi must not say “version mismatch”).",
                "更新驱动后：重启（nvidia-smi 不应提示版本不匹配）。",
            ),
            Words(
                "Take /usr/local/cuda/compat out of LD_LIBRARY_PATH.",
                "从 LD_LIBRARY_PATH 中去掉 /usr/local/cuda/compat。",
            ),
        ),
        log.line_of(found),
        20,
        (),
        (_DRIVERS,),
        ("nvidia-smi",),
        (_COMPATIBILITY,),
    )


@error_reader
def read_not_initialized(log: Log) -> Diagnosis | None:
    """Read error 802: the fabric manager of NVSwitch machines is not running."""
    found = log.search(r"system not yet initialized|cudaErrorSystemNotReady")
    if found is None:
        return None
    return Diagnosis(
        "fabric_manager",
        Words("The machine's NVSwitch is not set up", "NVSwitch 尚未初始化"),
        Words(
            "On machines with NVSwitch (HGX, DGX) CUDA starts only once the fabric manager runs, "
            "in the very version of the driver.",
            "带 NVSwitch 的机器（HGX、DGX）上，只有与驱动版本一致的 fabric manager 运行后 CUDA "
            "才能启动。",
        ),
        "likely",
        (
            Words(
                "systemctl status nvidia-fabricmanager; install the version of your driver and "
                "start it.",
                "systemctl status nvidia-fabricmanager；安装与驱动同版本的服务并启动。",
            ),
        ),
        log.line_of(found),
        20,
        sources=("NVIDIA Fabric Manager user guide.",),
    )


@error_reader
def read_no_kernel_image(log: Log) -> Diagnosis | None:
    """Read code that was built for other devices than this one."""
    found = log.search(
        r"no kernel image is available for execution|CUDA_ERROR_NO_BINARY_FOR_GPU"
        r"|is not compatible with the current PyTorch installation"
        r"|hipErrorNoBinaryForGpu|HIP error: invalid device function|hipErrorInvalidDeviceFunction"
    )
    if found is None:
        return None
    amd = "hip" in found[0].lower()
    return Diagnosis(
        "no_kernel_image",
        Words("The code was not built for this device", "代码不是为该设备构建的"),
        Words(
            "A binary holds machine code for some architectures; this device's is not among them. "
            "Either PyTorch itself is too old or too new for the device, or an extension was "
            "built for another one.",
            "二进制只包含若干架构的机器码，其中没有该设备的架构。要么 PyTorch 对该设备太旧或太新，"
            "要么某个扩展是为别的设备构建的。",
        ),
        "certain",
        _amd_tries() if amd else _nvidia_tries(),
        log.line_of(found),
        20,
        _architectures(log),
        commands=(
            'python -c "import torch; print(torch.__version__, torch.cuda.get_arch_list())"',
        ),
        sources=(
            "AMD ROCm, system requirements; HSA_OVERRIDE_GFX_VERSION."
            if amd
            else "CUDA C++ Programming Guide, binary compatibility.",
        ),
    )


def _nvidia_tries() -> tuple[Words, ...]:
    return (
        Words(
            "Compare torch.cuda.get_arch_list() with torch.cuda.get_device_capability(): if the "
            "device's is missing, install another build from pytorch.org (a newer CUDA for new "
            "devices, an older one for old devices).",
            "比较 torch.cuda.get_arch_list() 与 torch.cuda.get_device_capability()：若缺少该设备，"
            "请在 pytorch.org 安装其他构建（新设备用更新的 CUDA，旧设备用更旧的）。",
        ),
        Words(
            "If an extension is named in the traceback, build it again with TORCH_CUDA_ARCH_LIST "
            "set to the device's capability.",
            "若回溯中出现扩展，请设置 TORCH_CUDA_ARCH_LIST 为该设备的计算能力后重新构建。",
        ),
    )


def _amd_tries() -> tuple[Words, ...]:
    return (
        Words(
            "See rocminfo for the device's name (gfx...): it must be among those that your "
            "PyTorch for ROCm supports.",
            "用 rocminfo 查看设备名（gfx...）：它必须在该 ROCm 版 PyTorch 支持的列表中。",
        ),
        Words(
            "For a close relative of a supported device, HSA_OVERRIDE_GFX_VERSION=10.3.0 (RDNA 2) "
            "or 11.0.0 (RDNA 3) often works, without guarantee.",
            "若与受支持设备相近，可尝试 HSA_OVERRIDE_GFX_VERSION=10.3.0（RDNA 2）或 11.0.0（RDNA "
            "3），通常有效但不保证。",
        ),
    )


def _architectures(log: Log) -> tuple[Fact, ...]:
    device = re.search(r"CUDA capability (sm_\d+)", log.text)
    built = re.search(r"supports CUDA capabilities ((?:sm_\d+[a-z]?[ ,]*)+)", log.text)
    facts = []
    if device:
        facts.append(Fact(Words("this device", "该设备"), device[1]))
    if built:
        facts.append(Fact(Words("PyTorch was built for", "PyTorch 支持"), built[1].strip(" ,")))
    return tuple(facts)


@error_reader
def read_no_cuda(log: Log) -> Diagnosis | None:
    """Read a PyTorch without CUDA, and a machine without a usable device."""
    found = log.search(r"Torch not compiled with CUDA enabled")
    if found is not None:
        return Diagnosis(
            "not_compiled_with_cuda",
            Words("This PyTorch has no CUDA", "该 PyTorch 不含 CUDA"),
            Words(
                "The installed build is for the CPU alone, but the program asks for “cuda”.",
                "安装的是纯 CPU 版本，但程序请求使用 cuda。",
            ),
            "certain",
            (
                Words(
                    "Install a build with CUDA from pytorch.org (torch.__version__ then ends in "
                    "+cu...), and look that another package did not put the CPU build back.",
                    "从 pytorch.org 安装带 CUDA 的构建（torch.__version__ 以 +cu 结尾），"
                    "并确认没有其他包把 CPU 版本装回来。",
                ),
                Words(
                    'Without a GPU: choose device="cpu"; gpuscope predict needs no GPU.',
                    '没有 GPU 时：使用 device="cpu"；gpuscope predict 不需要 GPU。',
                ),
            ),
            log.line_of(found),
            20,
            commands=('python -c "import torch; print(torch.__version__, torch.version.cuda)"',),
        )
    found = log.search(
        r"No CUDA GPUs are available|no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE"
        r"|Found no NVIDIA driver on your system|No HIP GPUs are available|invalid device ordinal"
        r"|CUDA-capable device\(s\) is/are busy or unavailable"
    )
    if found is None:
        return None
    return _no_device(log, found)


def _no_device(log: Log, found: re.Match[str]) -> Diagnosis:
    busy, ordinal = "busy" in found[0], "ordinal" in found[0]
    if busy:
        cause = Words(
            "The device is there but takes no further process: exclusive mode, or one that hangs.",
            "设备存在但不接受新的进程：处于独占模式，或有进程卡死。",
        )
    elif ordinal:
        cause = Words(
            "A device number was asked for that this process does not see.",
            "请求了该进程看不到的设备编号。",
        )
    else:
        cause = Words("This process sees no device.", "该进程看不到任何设备。")
    return Diagnosis(
        "no_device",
        Words("No usable device", "没有可用的设备"),
        cause,
        "certain",
        (
            Words(
                "Look at nvidia-smi -L and at CUDA_VISIBLE_DEVICES (an empty or wrong value hides "
                "all).",
                "查看 nvidia-smi -L 和 CUDA_VISIBLE_DEVICES（空值或错误值会隐藏所有设备）。",
            ),
            Words(
                "In a container: docker run --gpus all; under Slurm: --gres=gpu:1.",
                "容器：docker run --gpus all；Slurm：--gres=gpu:1。",
            ),
        ),
        log.line_of(found),
        20,
        commands=("nvidia-smi -L", "gpuscope doctor"),
    )
