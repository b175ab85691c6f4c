"""Is the driver new enough for the CUDA that PyTorch was built with?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import nvml, torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import SOURCE, least_driver, shipped_driver, version
from gpuscope.explain.types import Words

_BY = "torch.version.cuda; NVML"


@check("cuda_runtime", "software", "The driver against the CUDA that PyTorch was built with")
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the two by NVIDIA's rules: backward, minor-version and forward compatibility."""
    torch, driver = torch_facts(machine), nvml(machine)
    built = version((torch or {}).get("cuda_build"))
    most = version((driver or {}).get("cuda_driver"))
    if not torch or not driver or not built or not most:
        return
    cuda, installed = str(torch["cuda_build"]), str(driver["driver"])
    values = {
        "cuda_build": cuda, "cuda_driver": str(driver["cuda_driver"]), "driver": installed,
        "least_driver": least_driver(cuda), "shipped_driver": shipped_driver(cuda),
    }  # fmt: skip
    told = Words(
        f"PyTorch is built with CUDA {cuda}; driver {installed} runs CUDA up to "
        f"{driver['cuda_driver']}.",
        f"PyTorch 用 CUDA {cuda} 构建；驱动 {installed} 支持 CUDA 至 {driver['cuda_driver']}。",
    )
    if built[:2] <= most[:2]:
        title = Words("The driver is new enough for this PyTorch.", "驱动满足 PyTorch 的要求。")
        yield Finding("cuda_runtime", "ok", title, told, known_by=_BY, values=values)
    elif built[0] == most[0]:
        yield _minor(cuda, told, values)
    else:
        yield _too_old(machine, cuda, told, values)


def _minor(cuda: str, told: Words, values: dict[str, str | None]) -> Finding:
    whole = shipped_driver(cuda)
    return Finding(
        "cuda_runtime", "note",
        Words(
            f"This PyTorch is built with a newer CUDA {cuda[:2]}.x than the driver's.",
            f"PyTorch 构建所用的 CUDA {cuda[:2]}.x 比驱动的更新。",
        ),
        Words(
            f"{told.en} That works within one major version, except for new features and code that "
            "is compiled from PTX when it runs.",
            f"{told.zh}同一主版本内可以运行，但新功能以及运行时由 PTX 编译的代码除外。",
        ),
        fix=Words(
            f"Driver {whole} or newer has everything.", f"驱动 {whole} 或更新版本支持全部功能。"
        ) if whole else None,
        known_by=f"{_BY}; {SOURCE}",
        values=values,
    )  # fmt: skip


def _too_old(machine: Machine, cuda: str, told: Words, values: dict[str, str | None]) -> Finding:
    torch = torch_facts(machine) or {}
    if torch.get("available"):  # it works all the same: by the forward compatibility package
        return Finding(
            "cuda_runtime", "note",
            Words(
                "This PyTorch works on an older driver by the forward compatibility package.",
                "借助前向兼容包，PyTorch 可在较旧的驱动上运行。",
            ),
            told, known_by=f"{_BY}; {SOURCE}", values=values,
        )  # fmt: skip
    least = least_driver(cuda)
    major = version(str(values["cuda_driver"]))[0]
    return Finding(
        "cuda_runtime", "error",
        Words("The driver is too old for this PyTorch.", "驱动过旧，不支持此 PyTorch。"),
        told,
        Words(
            "CUDA cannot be initialised: a driver runs programs of its own and older major "
            "versions.",
            "CUDA 无法初始化：驱动只能运行同一主版本及更旧版本的程序。",
        ),
        Words(
            f"Install driver {least or 'of CUDA ' + cuda} or newer, or a PyTorch for CUDA {major}.",
            f"安装驱动 {least or 'CUDA ' + cuda + ' 所需版本'} 或更新版本，"
            f"或安装面向 CUDA {major} 的 PyTorch。",
        ),
        ("nvidia-smi", "python -m torch.utils.collect_env"),
        f"{_BY}; {SOURCE}", values=values,
    )  # fmt: skip
