"""In a container: is the driver's library that programs load the host's own?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.doctor.accelerators import nvml, torch_facts
from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_LIBCUDA = re.compile(r"libcuda\.so\.(\d+(?:\.\d+)+)$")
_BY = "libcuda in /proc/self/maps; NVML"


@check("mounted_driver", "container", "libcuda as programs load it against the host's driver")
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the version in the file's name with the driver's."""
    driver = (nvml(machine) or {}).get("driver")
    loaded = (torch_facts(machine) or {}).get("loaded") or ()
    match = next(
        ((p, m.group(1)) for p in loaded if (m := _LIBCUDA.search(str(p)))), None
    )  # fmt: skip
    if driver is None or match is None:
        return
    path, library = match
    values = {"libcuda": library, "libcuda_path": path, "driver": driver}
    told = Words(f"{path}; driver {driver}", f"{path}；驱动 {driver}")
    if library == driver:
        title = Words("libcuda is the driver's own.", "libcuda 即驱动自带的版本。")
        short = Words(library, library)
        yield Finding("mounted_driver", "ok", title, short, known_by=_BY, values=values)
    elif "/compat" in path:
        yield _compatible(told, values)
    else:
        yield _other(told, values, bool(container(machine)))


def _compatible(told: Words, values: dict[str, str]) -> Finding:
    return Finding(
        "mounted_driver", "note",
        Words(
            "Programs use the forward compatibility library instead of the driver's own.",
            "程序使用前向兼容库，而非驱动自带的库。",
        ),
        told,
        fix=Words(
            "It is meant for data center GPUs with an older driver; where the driver is new "
            "enough, take it off LD_LIBRARY_PATH.",
            "它用于驱动较旧的数据中心 GPU；若驱动足够新，请将其从 LD_LIBRARY_PATH 中去掉。",
        ),
        known_by=_BY, values=values,
    )  # fmt: skip


def _other(told: Words, values: dict[str, str], inside: bool) -> Finding:
    return Finding(
        "mounted_driver", "warning",
        Words("libcuda is of another version than the driver.", "libcuda 与驱动的版本不同。"),
        told,
        Words(
            "A library baked into an image, or left by an old driver: CUDA fails with "
            "'driver version mismatch' or 'unknown error'.",
            "镜像内自带或旧驱动遗留的库：CUDA 报 'driver version mismatch' 等错误。",
        ),
        Words(
            "Remove it from the image; the container runtime mounts the right one.",
            "从镜像中删除；容器运行时会挂载正确的版本。",
        ) if inside else Words("Remove the old one.", "删除旧的版本。"),
        ("ldconfig -p | grep libcuda.so",), _BY, values=values,
    )  # fmt: skip
