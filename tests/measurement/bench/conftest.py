"""A pretend GPU: the processor, under a profiler that shows one kernel for every timed call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuscope.measurement.accelerator import Accelerator

KERNEL_US = 10.0


class PretendGpu(Accelerator):
    """The processor as a device beside the host."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.name = "NVIDIA H200"

    @property
    def is_gpu(self) -> bool:
        return True

    def catalogue_device(self) -> Any:
        from gpuscope.hardware import device

        return device("h200")


def add_kernels(trace: dict[str, Any]) -> None:
    """One kernel a range: 10 us, and 1 us more with each repetition."""
    made = []
    for number, event in enumerate(trace["traceEvents"]):
        if event.get("cat") != "user_annotation" or not event["name"].startswith("@"):
            continue
        repetition = int(event["name"].rpartition(":")[2])
        shared = {"ph": "X", "args": {"correlation": number, "grid": [2, 1, 1]}}
        made.append(
            {
                **shared,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "ts": event["ts"] + event["dur"] / 2,
                "dur": 1.0,
            }
        )
        made.append(
            {
                **shared,
                "cat": "kernel",
                "name": "pretend",
                "ts": event["ts"] + 5.0,
                "dur": KERNEL_US + repetition,
            }
        )
    trace["traceEvents"] += made


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> PretendGpu:
    """A pretend GPU, whose profiler shows kernels."""
    torch = pytest.importorskip("torch")
    real = torch.profiler.profile

    class Profile(real):  # type: ignore[misc, valid-type]
        def export_chrome_trace(self, path: str) -> None:
            super().export_chrome_trace(path)
            trace = json.loads(Path(path).read_text())
            add_kernels(trace)
            Path(path).write_text(json.dumps(trace))

    monkeypatch.setattr(torch.profiler, "profile", Profile)
    return PretendGpu()


@pytest.fixture
def call() -> Callable[[str], Callable[[], object]]:
    """A maker of a call that does next to nothing."""
    import torch

    def make(device: str) -> Callable[[], object]:
        x = torch.ones(8)
        return lambda: x.add_(1.0)

    return make
