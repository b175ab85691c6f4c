"""What the words of a trace mean: categories, runtime calls, marks.

Categories are those of libkineto's `ActivityType.cpp` and, in traces of 2021, their capitalised
forebears; the names that gpuscope itself writes are understood too.
"""

from __future__ import annotations

import re
from typing import Literal

from gpuscope.timeline.communication import is_communication
from gpuscope.timeline.types import EVENT_KINDS

_LOOKED_AT = 2048
"""Characters of a name that are looked at: more than any real one needs, so that a damaged file
with a name of megabytes costs no more than others."""

KIND = {name: number for number, name in enumerate(EVENT_KINDS)}

Sort = Literal["device", "on_device", "runtime", "operator", "mark", "python", "other", "skip"]

SORTS: tuple[Sort, ...] = (
    "device",
    "on_device",
    "runtime",
    "operator",
    "mark",
    "python",
    "other",
    "skip",
)
"""How the rows of a category are treated: device work; marks and waits on a device's rows; calls
of a runtime or driver; operators; ranges of the user; Python frames; anything else; left out."""

_CATEGORY_SORT: dict[str, Sort] = {
    "kernel": "device",
    "concurrent_kernel": "device",
    "gpu_memcpy": "device",
    "memcpy": "device",
    "gpu_memset": "device",
    "memset": "device",
    "mtia_ccp_events": "device",
    "communication": "device",
    "gpu_user_annotation": "on_device",
    "cuda_sync": "on_device",
    "xpu_sync": "on_device",
    "runtime": "runtime",
    "launch": "runtime",
    "sync": "runtime",
    "cpu_op": "operator",
    "operator": "operator",
    "user_annotation": "mark",
    "module": "mark",
    "step": "mark",
    "python_function": "python",
    "python": "python",
    "trace": "skip",
}

_RUNTIME = re.compile(r"_(?:runtime|driver)$")


def sort_of(category: str) -> Sort:
    """How the events of a category are treated."""
    word = category.lower()
    found = _CATEGORY_SORT.get(word)
    if found is not None:
        return found
    return "runtime" if _RUNTIME.search(word) else "other"


_ANY = r"(?:cuda|cu|hip|mu|musa|ur|ze|zex|aclrt|cnrt|cn|mtia)"
_LAUNCH = re.compile(
    rf"^{_ANY}\w*(?:Launch|GraphLaunch|AppendLaunch|EnqueueKernel|AppendMemory)"
    rf"|^{_ANY}\w*Mem(?:cpy|set)\w*Async|^{_ANY}\w*MemPrefetchAsync|^(?:cuda|hip)Memset"
    r"|^urEnqueue|LaunchKernel|launch_kernel|^runFunction|^enqueueCommand|^launch$"
)
_SYNC = re.compile(
    rf"^{_ANY}\w*(?:Synchronize|Sync$|HostSynchronize)|^(?:cuda|hip)Memcpy(?!.*Async)"
    r"|^cu(?:Memcpy)(?!.*Async)|^urQueueFinish|^urEventWait$|^synchroni[sz]e|^aclrtSynchronize"
)


def runtime_kind(name: str) -> int:
    """Kind of a runtime or driver call: launch, sync (the host waits), else other.

    A copy that is not asynchronous makes the host wait (`cudaMemcpy`, `hipMemcpyWithStream`);
    `cudaStreamWaitEvent` makes only a stream wait.
    """
    if _LAUNCH.search(name):
        return KIND["launch"]
    return KIND["sync"] if _SYNC.search(name) else KIND["other"]


def device_kind(category: str, name: str) -> int:
    """Kind of an event on a device's rows."""
    word, name = category.lower(), name[:_LOOKED_AT]
    if word == "mtia_ccp_events":
        return _mtia_kind(name)
    if word in ("cuda_sync", "xpu_sync"):
        return KIND["sync"]
    if word == "gpu_user_annotation":
        return KIND["other"]
    if word.endswith("memcpy"):
        return KIND["memcpy"]
    if word.endswith("memset"):
        return KIND["memset"]
    if word == "communication" or is_communication(name):
        return KIND["communication"]
    return KIND["kernel"]


def _mtia_kind(name: str) -> int:
    """MTIA's command processor also writes what it waits for and records: no work of a device."""
    if name.startswith("event_"):
        return KIND["sync"]
    return KIND["memcpy"] if name.startswith("dma") else KIND["kernel"]


MODULE_MARK = "gpuscope.module:"
STEP_MARK = "gpuscope.step"
PYTHON_MODULE = "nn.Module: "

_PROFILER_STEP = re.compile(r"^ProfilerStep#\d+")
_STEP_LIKE = re.compile(
    r"^(?:(?:train(?:ing)?|eval(?:uation)?|infer(?:ence)?|decode|prefill|generat(?:e|ion)|model"
    r"|forward|global|mini)[ _.\-]?)?(?:step|iter(?:ation)?|batch)[ _.#:\-]*\d*$"
    r"|^(?:train|training|step)\[.*\]$",
    re.I,
)


def step_rank(name: str) -> int:
    """How surely a mark is a step: 3 for gpuscope's, 2 for the profiler's, 1 for a name like one.

    0 for every other name.
    """
    name = name[:_LOOKED_AT]
    if name == STEP_MARK:
        return 3
    if _PROFILER_STEP.match(name):
        return 2
    return 1 if _STEP_LIKE.match(name) else 0


def host_kind(sort: Sort, name: str) -> int:
    """Kind of an event on a host thread."""
    name = name[:_LOOKED_AT]
    if sort == "runtime":
        return runtime_kind(name)
    if sort == "python":
        return KIND["module"] if name.startswith(PYTHON_MODULE) else KIND["python"]
    if name.startswith(MODULE_MARK):
        return KIND["module"]
    if sort in ("operator", "mark") and step_rank(name) >= 2:
        return KIND["step"]
    if sort == "operator":
        return KIND["operator"]
    return KIND["other"]


BACKWARD, OPTIMIZER, INPUT = 1, 2, 3
PHASES = ("forward", "backward", "optimizer", "input")

_BACKWARD = re.compile(
    r"^autograd::engine::evaluate_function|^(?:torch::autograd::)?\w*Backward\d*$"
    r"|^torch/_tensor\.py\(\d+\): backward$|^torch/autograd/__init__\.py\(\d+\): backward$"
)
_OPTIMIZER = re.compile(
    r"^Optimizer\.(?:step|zero_grad)|^torch/optim/\w+\.py\(\d+\): (?:step|zero_grad)$"
)
_INPUT = re.compile(
    r"^enumerate\(DataLoader\)|DataLoaderIter|^torch/utils/data/dataloader\.py\(\d+\): __next__$"
)


def phase_mark(name: str) -> int:
    """Index into `PHASES` of the phase that an event opens for all that it encloses; 0 if none."""
    name = name[:_LOOKED_AT]
    if _BACKWARD.match(name):
        return BACKWARD
    if _OPTIMIZER.match(name):
        return OPTIMIZER
    return INPUT if _INPUT.search(name) else 0
