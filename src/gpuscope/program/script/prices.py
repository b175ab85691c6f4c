"""What operators cost where a script is to run, for the clock that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuscope.program.types import Op

__all__ = ["Price", "Prices"]


@dataclass(frozen=True, slots=True)
class Price:
    """One operator.

    Attributes:
        host_s: until its last launch is made.
        after_s: from then until the next operator can begin, waits left out.
        device: stream and seconds of each launch.
    """

    host_s: float
    after_s: float
    device: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Prices:
    """A device and its host.

    Attributes:
        of: the price of an operator.
        latency_s: from a launch call to the start on an idle device.
        gap_s: least gap between two kernels of a stream.
        python_call_s, python_instruction_s: of the Python between operators.
        device_name: as `torch.cuda.get_device_name` says it.
        device_bytes: memory that a process can use.
    """

    of: Callable[[Op], Price]
    latency_s: float
    gap_s: float
    python_call_s: float
    python_instruction_s: float
    device_name: str
    device_bytes: int
