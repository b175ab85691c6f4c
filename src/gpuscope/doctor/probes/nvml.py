"""Everything that NVIDIA's management library (NVML) tells of the driver and its devices, as JSON.

Run as a process of its own (`python -m gpuscope.doctor.probes.nvml`): a library that hangs or
crashes costs one answer. Names are NVML's own ("clocks_event_reasons", "remapped_rows") with the
unit at the end. A reading that this device or driver does not give is null. Serial numbers are not
read.

Where NVML cannot be used, the answer is `{"error": why, "code": NVML's number or null}`; "error" is
null otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gpuscope.doctor.probes.nvml_device import device_facts
from gpuscope.doctor.probes.nvml_pairs import pair_facts

Ask = Callable[..., Any]


def asker(nvml: Any) -> Ask:
    """Return what calls a function of the library by name, None where it gives no answer."""

    def ask(name: str, *args: Any) -> Any:
        call = getattr(nvml, name, None)
        if call is None:
            return None
        try:
            found = call(*args)
        except Exception:  # not supported here, or this version of it knows another form
            return None
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found

    return ask


def facts(nvml: Any) -> dict[str, Any]:
    """Return all facts.

    Args:
        nvml: the library (`pynvml`), or a stand-in in tests.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return {"error": str(error), "code": int(getattr(error, "value", 0)), "devices": []}
    ask = asker(nvml)
    try:
        count = ask("nvmlDeviceGetCount") or 0
        handles = [ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
        version = ask("nvmlSystemGetCudaDriverVersion_v2")
        return {
            "error": None,
            "code": None,
            "driver": ask("nvmlSystemGetDriverVersion"),
            "nvml": ask("nvmlSystemGetNVMLVersion"),
            "cuda_driver": None if not version else f"{version // 1000}.{version % 1000 // 10}",
            "confidential_computing": _confidential(ask),
            "devices": [
                device_facts(nvml, ask, handle, index)
                if handle is not None
                else {"index": index, "lost": True}
                for index, handle in enumerate(handles)
            ],
            "pairs": pair_facts(nvml, ask, handles),
        }
    finally:
        ask("nvmlShutdown")


def _confidential(ask: Ask) -> bool | None:
    state = ask("nvmlSystemGetConfComputeState")
    return None if state is None else bool(getattr(state, "ccFeature", 0))


def main() -> None:
    """Print the facts as one line of JSON."""
    try:
        import pynvml
    except ImportError as error:
        found: dict[str, Any] = {"error": str(error), "code": None, "devices": [], "package": False}
    else:
        found = facts(pynvml)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
