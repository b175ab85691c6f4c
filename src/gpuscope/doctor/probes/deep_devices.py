"""What the active tests share: the devices of this process, one thread each, a watchdog, progress.

A test's answer always has `kind` ("cuda", "xpu", ... or null without a device), `torch`, `error`
(why the whole test failed, or null), `hung` (what it was doing when its time ran out: a template
and its values, or null), `hung_after_s` and `devices`: a list with `index`, `name`, what the device
said `before` any work, and what the test found; `error` there says why a device failed, `lost` that
it can no longer be used, `no_memory` that others left too little of it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.measurement.accelerator import Accelerator

Json = dict[str, Any]
Work = Callable[["Accelerator"], Json]

_stage = Text("starting")


def say(text: Text) -> None:
    """Tell on the standard error what is going on; a hang is later reported with this text."""
    global _stage
    _stage = text
    print(text, file=sys.stderr, flush=True)


def sent(stage: Text) -> Json:
    """A stage as it goes to the process that asked."""
    return {"template": stage.template, "values": {k: str(v) for k, v in stage.values.items()}}


def answer(work: Callable[[list[Accelerator]], Json], *, limit_s: float) -> None:
    """Run a test and print what it found as one line of JSON.

    Args:
        work: gets the devices, empty where there is none, and returns what it found: under
            "devices" one entry a device with its "index", the rest as it likes.
        limit_s: after so many seconds of work (PyTorch's import not counted) the process ends and
            says what it was doing: a device that hangs answers nothing.
    """
    found: Json = {"kind": None, "torch": None, "error": None, "hung": None, "devices": []}
    try:
        accelerators, found["torch"] = _devices()
    except Exception as error:
        found["error"] = _one_line(error)
        print(json.dumps(found))
        return
    found["kind"] = accelerators[0].kind if accelerators else None
    described = [_described(each) for each in accelerators]
    watchdog = threading.Timer(limit_s, _give_up, (found, described, limit_s))
    watchdog.daemon = True
    watchdog.start()
    try:
        result = work(accelerators)
    except Exception as error:
        result = {"error": _one_line(error)}
    watchdog.cancel()
    by_index = {row["index"]: row for row in result.pop("devices", [])}
    found["devices"] = [{**each, **by_index.get(each["index"], {})} for each in described]
    print(json.dumps({**found, **result}), flush=True)
    # Not by way of destructors: after a fault on a device they can hang or crash.
    os._exit(0)


def _give_up(found: Json, described: list[Json], limit_s: float) -> None:
    found |= {"hung": sent(_stage), "hung_after_s": limit_s}
    print(json.dumps({**found, "devices": described}), flush=True)
    os._exit(3)


def _devices() -> tuple[list[Accelerator], str]:
    """All devices of PyTorch's accelerator on this machine, and PyTorch's version."""
    import torch

    from gpuscope.errors import UnsupportedError
    from gpuscope.measurement.accelerator import Accelerator, choose_accelerator
    from gpuscope.measurement.bench.machine import accelerator_count

    try:
        first = choose_accelerator("gpu")
    except UnsupportedError:
        return [], str(torch.__version__)
    count = accelerator_count(first)
    return [Accelerator(first.kind, index) for index in range(count)], str(torch.__version__)


def _described(accelerator: Accelerator) -> Json:
    """Name and state of a device before it gets any work."""
    from gpuscope.measurement.sensors import open_sensor

    found: Json = {"index": accelerator.index, "name": accelerator.name, "before": {}}
    sensor = open_sensor(accelerator.index)
    if sensor is None:
        return found
    reading = sensor.read()
    sensor.close()
    found["slice"] = sensor.info.slice
    found["before"] = {
        "utilisation": reading.utilisation,
        "temperature_c": reading.temperature_c,
        "power_limit_w": reading.power_limit_w,
        "memory_used_bytes": reading.memory_used_bytes,
        "memory_total_bytes": reading.memory_total_bytes,
    }
    return found


def on_each(accelerators: Sequence[Accelerator], work: Work) -> list[Json]:
    """Run `work` on all devices at the same time, a thread each; what fails says so in its entry.

    Args:
        accelerators: the devices.
        work: returns what it found on one; "index" is added.
    """
    rows: list[Json] = [{} for _ in accelerators]

    def run(at: int) -> None:
        rows[at] = one(accelerators[at], work)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(accelerators))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rows


def one(accelerator: Accelerator, work: Work) -> Json:
    """Run `work` on one device in this thread; what fails says so in its entry."""
    use(accelerator)
    try:
        return {"index": accelerator.index, **work(accelerator)}
    except Exception as error:
        return {"index": accelerator.index, **failure(error)}


def failure(error: Exception) -> Json:
    """What an entry says of the error that ended its test."""
    from gpuscope.measurement.bench.harness import is_lost, reason
    from gpuscope.measurement.failure import is_out_of_memory

    return {"error": reason(error), "lost": is_lost(error), "no_memory": is_out_of_memory(error)}


def use(accelerator: Accelerator) -> None:
    """Make a device the current one of this thread."""
    import torch

    module: Any = getattr(torch, accelerator.kind, None)
    if accelerator.is_gpu and hasattr(module, "set_device"):
        module.set_device(accelerator.index)


def free_bytes(accelerator: Accelerator) -> int | None:
    """Device memory that nobody holds; None where it is not told."""
    import torch

    module: Any = getattr(torch, accelerator.kind, None)
    if not hasattr(module, "mem_get_info"):
        return None
    return int(module.mem_get_info(accelerator.index)[0])


def once_s(
    call: Callable[[], object], wait: Callable[[], None], *, for_s: float = 0.25, rounds: int = 3
) -> float:
    """Seconds a call, of the fastest of some rounds of back-to-back calls.

    Args:
        call: issues the work.
        wait: until the device has done it.
        for_s: how long all rounds take together, about; at least one call each.
        rounds: how often a whole loop is timed.
    """
    calls, wanted_s = 1, for_s / rounds

    def loop_s() -> float:
        began = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        return time.perf_counter() - began

    call()
    wait()
    took = loop_s()
    while took < wanted_s / 2:  # by steps: the first calls may be slower, or only seem quick
        calls = int(calls * max(2.0, min(8.0, wanted_s / max(took, 1e-9))))
        took = loop_s()
    return min(took, *(loop_s() for _ in range(rounds))) / calls


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[
        :400
    ]
