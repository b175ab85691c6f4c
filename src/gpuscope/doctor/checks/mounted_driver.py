"""In a container: is the driver's library that programs load the host's own?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.doctor.accelerators import nvml, torch_facts
from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, verbatim

_LIBCUDA = re.compile(r"libcuda\.so\.(\d+(?:\.\d+)+)$")
_BY = "libcuda in /proc/self/maps; NVML"


@check("mounted_driver", "container", Text("libcuda as programs load it against the host's driver"))
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the version in the file's name with the driver's."""
    driver = (nvml(machine) or {}).get("driver")
    loaded = (torch_facts(machine) or {}).get("loaded") or ()
    match = next(((p, m.group(1)) for p in loaded if (m := _LIBCUDA.search(str(p)))), None)
    if driver is None or match is None:
        return
    path, library = match
    values = {"libcuda": library, "libcuda_path": path, "driver": driver}
    evidence = Text("{path}; driver {driver}", path=path, driver=driver)
    if library == driver:
        title = Text("libcuda is the driver's own.")
        short = verbatim(library)
        yield Finding("mounted_driver", "ok", title, short, known_by=_BY, values=values)
    elif "/compat" in path:
        yield _compatible(evidence, values)
    else:
        yield _other(evidence, values, bool(container(machine)))


def _compatible(evidence: Text, values: dict[str, str]) -> Finding:
    return Finding(
        "mounted_driver",
        "note",
        Text("Programs use the forward compatibility library instead of the driver's own."),
        evidence,
        fix=Text(
            "It is meant for data center GPUs with an older driver; where the driver is new "
            "enough, take it off LD_LIBRARY_PATH."
        ),
        known_by=_BY,
        values=values,
    )


def _other(evidence: Text, values: dict[str, str], inside: bool) -> Finding:
    return Finding(
        "mounted_driver",
        "warning",
        Text("libcuda is of another version than the driver."),
        evidence,
        Text(
            "A library baked into an image, or left by an old driver: CUDA fails with 'driver "
            "version mismatch' or 'unknown error'."
        ),
        Text("Remove it from the image; the container runtime mounts the right one.")
        if inside
        else Text("Remove the old one."),
        ("ldconfig -p | grep libcuda.so",),
        _BY,
        values=values,
    )
