"""Wall time of host calls on tiny tensors, without any profiler.

The device finishes each call sooner than the host issues the next, so wall time per call is the
host's own. Batches of calls are timed between synchronisations, short enough that the launch queue
(about a thousand launches on CUDA) never fills.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

CALLS = 40
"""Calls in one batch; at most a dozen launches each keep the queue from filling."""


@dataclass(frozen=True, slots=True)
class HostSample:
    """One measured host call.

    Attributes:
        group: what family it belongs to ("op", "module", "optimizer_step", ...).
        name: the call.
        variant: how it was called ("grad", "no_grad", a size, ...).
        seconds: one figure a batch, each divided by `per`.
        per: what a batch's time was divided by (calls, nodes, iterations).
        unit: "s", or "1" where `seconds` holds counts.
    """

    group: str
    name: str
    variant: str
    seconds: tuple[float, ...]
    per: float = 1.0
    unit: str = "s"


@dataclass(slots=True)
class HostTimer:
    """Times host calls; collects samples and what could not be run.

    Attributes:
        device: "cuda", "cuda:1" or "cpu".
        batches: how many batches a call is timed for.
        samples: what was measured so far.
        failures: "group,name,variant: reason" of calls that raised.
    """

    device: str = "cuda"
    batches: int = 15
    samples: list[HostSample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def on_gpu(self) -> bool:
        """Whether calls launch work on a device that runs beside the host."""
        return self.device != "cpu"

    def wait(self) -> None:
        """Wait for the device (nothing to wait for on a CPU)."""
        if self.on_gpu:
            import torch

            torch.cuda.synchronize(self.device)

    def add(
        self,
        group: str,
        name: str,
        variant: str,
        seconds: list[float],
        per: float = 1.0,
        unit: str = "s",
    ) -> None:
        """Save one measurement; of the same call measured before, all times together."""
        for at, old in enumerate(self.samples):
            if (old.group, old.name, old.variant) == (group, name, variant):
                seconds = [*old.seconds, *seconds]
                self.samples[at] = HostSample(group, name, variant, tuple(seconds), per, unit)
                return
        self.samples.append(HostSample(group, name, variant, tuple(seconds), per, unit))

    def calls(
        self,
        group: str,
        name: str,
        variant: str,
        call: Callable[[], object],
        count: int = CALLS,
        batches: int | None = None,
    ) -> None:
        """Time `call` in batches of `count` between synchronisations."""
        try:
            for _ in range(5):
                call()
            self.wait()
            found = []
            for _ in range(batches or self.batches):
                began = time.perf_counter_ns()
                for _ in range(count):
                    call()
                found.append((time.perf_counter_ns() - began) * 1e-9 / count)
                self.wait()
            self.add(group, name, variant, found, count)
        except (RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
            self._failed(group, name, variant, error)

    def once(
        self,
        group: str,
        name: str,
        variant: str,
        prepare: Callable[[], Callable[[], Any]],
        per: float = 1.0,
        repeats: int | None = None,
    ) -> None:
        """Time one call at a time, divided by `per`.

        Args:
            group: see `HostSample`.
            name: see `HostSample`.
            variant: see `HostSample`.
            prepare: does what is not timed, and returns the call.
            per: what the time is divided by.
            repeats: timed calls; as many as batches by default.
        """
        try:
            found = []
            for number in range((repeats or self.batches) + 2):
                call = prepare()
                self.wait()
                began = time.perf_counter_ns()
                result = call()
                took = (time.perf_counter_ns() - began) * 1e-9 / per
                self.wait()
                del result
                if number >= 2:
                    found.append(took)
            self.add(group, name, variant, found, per)
        except (RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
            self._failed(group, name, variant, error)

    def _failed(self, group: str, name: str, variant: str, error: Exception) -> None:
        self.failures.append(f"{group},{name},{variant}: {type(error).__name__}: {error}"[:300])
