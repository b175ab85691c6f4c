"""`Processor`: what the cores of one socket can do; apart from the devices, which are accelerators.

Graphs that ONNX Runtime or OpenVINO runs on a CPU are predicted with it. One TOML file a processor
in `catalogue/processors`; "this-cpu" is the machine's own (`this_processor`). "NAME:8" is the same
with 8 of its cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware.names import CATALOGUE, THIS_CPU, normalise, processor_ids

__all__ = ["Processor", "processor"]

_DRAM_SHARE = 0.8
"""Of a socket's channels' rate, what cores together read and write (STREAM's usual share)."""

_L2_BYTES_PER_CLOCK, _L3_BYTES_PER_CLOCK, _CORE_DRAM_BYTES_PER_S = 36.0, 9.0, 12e9
"""What one core moves: in the L2 and L3 as measured on one core of Emerald Rapids by copies of ONNX
Runtime (107 and 27 GB/s at about 3 GHz); from memory as its loads in flight allow."""


@dataclass(frozen=True, slots=True)
class Processor:
    """Cores, caches and memory of one socket, as far as a program uses them.

    Attributes:
        id, name, vendor, architecture: as in its file.
        cores: that the program uses, one thread each.
        core_flops_per_s: peak of one busy core by dtype ("fp32", "bf16", "int8"), dense.
        flops_per_s: of all these cores together.
        vector_bits: of a register.
        l2_bytes: of one core. l3_bytes: of the socket.
        l2_bytes_per_s, l3_bytes_per_s: of one core, read and written together.
        core_memory_bytes_per_s, memory_bytes_per_s: of one core, and of all.
        origin: "estimated" (from the maker's figures) or "measured" (on this machine).
        at_base_clock: how many times longer all may take at the cores' base clock, as a
            cloud's machines may; 1 where they were timed.
        sources: of the figures, in words.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    cores: int
    core_flops_per_s: Mapping[str, float]
    flops_per_s: Mapping[str, float]
    vector_bits: int
    l2_bytes: int
    l3_bytes: int
    l2_bytes_per_s: float
    l3_bytes_per_s: float
    core_memory_bytes_per_s: float
    memory_bytes_per_s: float
    origin: Literal["estimated", "measured"] = "estimated"
    at_base_clock: float = 1.0
    sources: tuple[str, ...] = field(default=())

    def with_cores(self, cores: int) -> Processor:
        """The same with fewer cores at work.

        Raises:
            InvalidValueError: it has not so many, or none is asked for.
        """
        if not 0 < cores <= self.cores:
            raise InvalidValueError(
                Text("{name} has {cores} cores, not {asked}.", name=self.name, cores=self.cores,
                     asked=cores),
                "",
                Text("Type: {id}:{cores}", id=self.id, cores=self.cores),
            )  # fmt: skip
        share = {
            rate: min(whole, cores * self.core_flops_per_s[rate])
            for rate, whole in self.flops_per_s.items()
        }
        return replace(
            self,
            cores=cores,
            flops_per_s=share,
            memory_bytes_per_s=min(self.memory_bytes_per_s, cores * self.core_memory_bytes_per_s),
        )


def processor(name: str) -> Processor:
    """The processor of that name; "this-cpu" is timed for about a second, once.

    Raises:
        UnknownNameError: there is none.
        InvalidValueError: not so many cores.
    """
    key, colon, cores = name.partition(":")
    key = normalise(key)
    if key == THIS_CPU:
        from gpuscope.hardware.this_processor import this_processor

        found = this_processor()
    elif key in processor_ids():
        found = _read(key)
    else:
        raise UnknownNameError(Text("processor"), name, (THIS_CPU, *processor_ids()))
    if not colon:
        return found
    if not cores.strip().isdigit():
        raise InvalidValueError(
            Text("'{cores}' is no number of cores.", cores=cores),
            "",
            Text("Type: {id}:{cores}", id=found.id, cores=found.cores),
        )
    return found.with_cores(int(cores))


@cache
def _read(identifier: str) -> Processor:
    from gpuscope.hardware.loader import read_file
    from gpuscope.hardware.schema import ProcessorFile

    file = read_file(CATALOGUE / "processors" / f"{identifier}.toml", ProcessorFile)
    # All cores at work keep a clock between the two; which, depends on power and instructions.
    together_hz = (file.base_clock_hz + file.boost_clock_hz) / 2
    rates = file.flops_per_clock.known()
    memory = _DRAM_SHARE * file.memory_bandwidth_bytes_per_s
    return Processor(
        id=identifier,
        name=file.name,
        vendor=file.vendor,
        architecture=file.architecture,
        cores=file.cores,
        core_flops_per_s={k: v * file.boost_clock_hz for k, v in rates.items()},
        flops_per_s={k: v * together_hz * file.cores for k, v in rates.items()},
        vector_bits=file.vector_bits,
        l2_bytes=file.l2_bytes,
        l3_bytes=file.l3_bytes,
        l2_bytes_per_s=_L2_BYTES_PER_CLOCK * together_hz,
        l3_bytes_per_s=_L3_BYTES_PER_CLOCK * together_hz,
        core_memory_bytes_per_s=_CORE_DRAM_BYTES_PER_S,
        memory_bytes_per_s=min(memory, file.cores * _CORE_DRAM_BYTES_PER_S),
        at_base_clock=together_hz / file.base_clock_hz,
        sources=file.sources,
    )
