"""Binaries that do not fit each other: extensions, missing libraries, two parts of a driver."""

from __future__ import annotations

import re

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Diagnosis
from gpuscope.explain.types import Fact, Words


@error_reader
def read_driver_mismatch(log: Log) -> Diagnosis | None:
    """Read a driver whose kernel module and libraries have different versions."""
    found = log.search(r"Driver/library version mismatch|NVML_ERROR_LIB_RM_VERSION_MISMATCH")
    if found is None:
        return None
    version = re.search(r"NVML library version: ([\d.]+)", log.text)
    facts = (Fact(Words("version of the libraries", "库的版本"), version[1]),) if version else ()
    return Diagnosis(
        "driver_mismatch",
        Words("Two versions of the driver at once", "驱动的两部分版本不一致"),
        Words(
            "The driver's libraries were updated (often by the system itself), but the kernel "
            "still runs the old module.",
            "驱动的库已更新（常为系统自动更新），但内核仍在运行旧模块。",
        ),
        "certain",
        (
            Words(
                "Restart the host. Without a restart: end everything that uses the devices, then "
                "unload and load the modules (rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia).",
                "重启主机。若不重启：结束所有使用设备的进程，再卸载并重新加载模块（rmmod "
                "nvidia_uvm nvidia_drm nvidia_modeset nvidia）。",
            ),
            Words(
                "Hold the driver's packages back from automatic updates (apt-mark hold).",
                "禁止自动更新驱动软件包（apt-mark hold）。",
            ),
        ),
        log.line_of(found),
        20,
        facts,
        commands=("cat /proc/driver/nvidia/version", "nvidia-smi"),
    )


@error_reader
def read_undefined_symbol(log: Log) -> Diagnosis | None:
    """Read an extension that was built for another PyTorch."""
    found = log.search(
        r"(?<![\w.+-])(?P<file>[\w.+-]+\.so[\w.]*): undefined symbol: "
        r"(?P<symbol>_ZN?K?(?:3c10|2at|5torch)\w*)"
        r"|DLL load failed while importing (?P<module>\w*cuda\w*|\w*_C)"
    )
    if found is None:
        return None
    facts = []
    if found["file"]:
        facts.append(Fact(Words("built part", "扩展文件"), found["file"]))
        facts.append(Fact(Words("what it misses", "缺失的符号"), found["symbol"][:120]))
    abi = "__cxx1112basic_string" in found[0] or found[0].endswith("ESs")
    if abi:
        told = Words(
            "the symbol holds a C++ string: a build with the other C++ ABI (cxx11abi TRUE or "
            "FALSE)",
            "符号含 C++ 字符串：很可能是 C++ ABI（cxx11abi TRUE/FALSE）不同的构建",
        )
        facts.append(Fact(Words("hint", "线索"), told))
    return Diagnosis(
        "undefined_symbol",
        Words("An extension was built for another PyTorch", "扩展是为另一个 PyTorch 构建的"),
        Words(
            "A compiled package (flash-attn, vLLM, ...) calls a function that the installed "
            "PyTorch does not have: it was built for another version of it, or another C++ ABI.",
            "某个编译好的包（flash-attn、vLLM 等）调用了当前 PyTorch 中不存在的函数："
            "它是为另一个版本或另一种 C++ ABI 构建的。",
        ),
        "certain",
        (
            Words(
                "Install the build whose name states your versions (cu12, torch2.x, cxx11abi, "
                "cp3xx), or build it here: pip install --no-build-isolation --no-binary :all: "
                "PACKAGE.",
                "安装文件名与你的版本一致的构建（cu12、torch2.x、cxx11abi、cp3xx），或在本机构建："
                "pip install --no-build-isolation --no-binary :all: 包名。",
            ),
            Words(
                "After each change of PyTorch install such packages again.",
                "每次更换 PyTorch 后都要重新安装这类包。",
            ),
        ),
        log.line_of(found),
        20,
        tuple(facts),
        commands=(
            'python -c "import torch; print(torch.__version__, torch.version.cuda, '
            'torch._C._GLIBCXX_USE_CXX11_ABI)"',
        ),
    )


@error_reader
def read_missing_library(log: Log) -> Diagnosis | None:
    """Read a shared library of CUDA, cuDNN, NCCL or ROCm that was not found."""
    found = log.search(
        r"(?P<name>lib(?:cu\w+|nccl|nvrtc\w*|nvJitLink|nvToolsExt|c10\w*|torch\w*|amdhip64|roc\w+|"
        r"hip\w+|MIOpen|cupti)[\w-]*\.so[\d.]*)[:\s].{0,60}?cannot open shared object file"
        r"|Could not load library (?P<other>lib\w+\.so[\d.]*)"
    )
    if found is None:
        return None
    name = found["other"] or found["name"]
    driver = name.startswith("libcuda.so")
    if driver:
        cause = Words(
            "libcuda.so belongs to the driver; this machine or container has none.",
            "libcuda.so 属于驱动；这台机器或容器中没有驱动。",
        )
        first = Words(
            "Install the driver on the host; in a container start with --gpus all (the NVIDIA "
            "container toolkit then brings the library).",
            "在主机安装驱动；容器请用 --gpus all 启动（由 NVIDIA 容器工具包提供该库）。",
        )
    else:
        cause = Words(
            "A package was built against a library that is not where the loader looks, or of "
            "which another version is there (the number behind .so counts).",
            "某个包所依赖的库不在加载路径上，或存在的是另一个版本（.so 后的数字表示版本）。",
        )
        first = Words(
            "Import torch before that package (it loads its own CUDA libraries), or install the "
            "build of the package for your CUDA.",
            "在导入该包之前先 import torch（它会加载自带的 CUDA 库），或安装与你的 CUDA "
            "对应的构建。",
        )
    return Diagnosis(
        "missing_library",
        Words(f"{name} was not found", f"找不到 {name}"),
        cause,
        "likely",
        (
            first,
            Words(
                "See which libraries are there: ldconfig -p | grep -E 'cuda|cudnn|nccl', and pip "
                "list | grep nvidia; add the right folder to LD_LIBRARY_PATH.",
                "查看现有的库：ldconfig -p | grep -E 'cuda|cudnn|nccl' 以及 pip list | grep "
                "nvidia；把正确的目录加入 LD_LIBRARY_PATH。",
            ),
        ),
        log.line_of(found),
        20,
        (Fact(Words("library", "库"), name),),
    )
