"""One rank of the collectives' test: right results, then times. Started by `deep_collectives`.

Arguments: the file for its rows (JSON lines), "cuda" or "cpu", bytes of the timed message. A row
says the stage that begins, or what was wrong, or how long it took (rank 0, the slowest rank's
time); the last stage of each rank tells where a hang began.

What is added up is whole numbers that float32 holds exactly, so that the result does not depend on
the order of the additions and every element can be told beforehand.
"""

from __future__ import annotations

import json
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.doctor.probes.deep_devices import Json, sent
from gpuscope.document.text import Text

if TYPE_CHECKING:
    import torch

    from gpuscope.measurement.bench.collective_worker import Rank

TIMED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
CHECKED_ELEMENTS = 1 << 22
"""Of each rank's part of the messages that are compared; 16 MiB."""

REPEATS = 3


def numbers(count: int, rank: int, device: str, begin: int = 0) -> torch.Tensor:
    """Small whole numbers that differ from rank to rank and from place to place.

    Args:
        count: how many.
        rank: whose.
        device: where to make them.
        begin: place of the first.
    """
    import torch

    places = torch.arange(begin, begin + count, device=device, dtype=torch.int64)
    return ((places * 7 + rank * 1009 + places // 1021) % 251).float()


def checks(rank: Rank, count: int) -> dict[str, Callable[[], int]]:
    """What makes each collective and returns how many elements of its result are wrong.

    Args:
        rank: this process's place.
        count: elements of each rank's part.
    """
    import torch
    import torch.distributed as dist

    me, world, device = rank.rank, rank.world, rank.device

    def of(sender: int, begin: int = 0, length: int = count) -> torch.Tensor:
        return numbers(length, sender, device, begin)

    def wrong(got: torch.Tensor, wanted: torch.Tensor) -> int:
        return int(torch.count_nonzero(got != wanted))

    def summed(begin: int, length: int) -> torch.Tensor:
        return torch.stack([of(sender, begin, length) for sender in range(world)]).sum(0)

    def all_reduce() -> int:
        value = of(me)
        dist.all_reduce(value)
        return wrong(value, summed(0, count))

    def all_gather() -> int:
        out = torch.zeros(count * world, device=device)
        dist.all_gather_into_tensor(out, of(me))
        return wrong(out, torch.cat([of(sender) for sender in range(world)]))

    def reduce_scatter() -> int:
        out = torch.zeros(count, device=device)
        dist.reduce_scatter_tensor(out, of(me, 0, count * world))
        return wrong(out, summed(me * count, count))

    def all_to_all() -> int:
        out = torch.zeros(count * world, device=device)
        dist.all_to_all_single(out, of(me, 0, count * world))
        parts = [of(sender, me * count, count) for sender in range(world)]
        return wrong(out, torch.cat(parts))

    return {
        "all_reduce": all_reduce,
        "all_gather": all_gather,
        "reduce_scatter": reduce_scatter,
        "all_to_all": all_to_all,
    }


def timed(rank: Rank, operation: str, size_bytes: int) -> Json:
    """Seconds of one collective, of the slowest rank, and its bus bandwidth."""
    import torch.distributed as dist

    from gpuscope.measurement.bench.collective_calls import bandwidths, make_call

    group = dist.group.WORLD
    call, true_bytes = make_call(operation, size_bytes, group, rank.world, rank.device)
    for _ in range(3):
        call()
    seconds = statistics.median(rank.loop_s(call, 10, group) for _ in range(REPEATS))
    _, bus = bandwidths(operation, rank.world, true_bytes, seconds)
    return {"bytes": true_bytes, "seconds": seconds, "bus_bytes_per_s": bus}


def main(arguments: list[str]) -> None:
    """Run one rank."""
    import torch

    from gpuscope.measurement.bench.collective_worker import Rank, facts

    out, device, size_bytes = Path(arguments[0]), arguments[1], int(arguments[2])
    warnings.simplefilter("ignore")  # names of collectives differ from version to version

    def write(row: Json) -> None:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    write({"stage": sent(Text("joining the group"))})
    rank = Rank(device)
    if rank.rank == 0:
        write({"facts": True, **{k: v for k, v in facts(rank).items() if k != "facts"}})
    count = min(CHECKED_ELEMENTS, max(1, size_bytes // 4 // rank.world))
    for operation, check in checks(rank, count).items():
        write({"stage": sent(Text("{operation}, compared", operation=operation))})
        try:
            wrong = sum(check() for _ in range(REPEATS))
        except NotImplementedError:  # a backend without this collective
            continue
        write({"operation": operation, "wrong": wrong})
    for operation in TIMED:
        write({"stage": sent(Text("{operation}, timed", operation=operation))})
        if not rank.on_gpu and operation == "all_to_all":
            continue  # Gloo has none of the form that is timed
        row = timed(rank, operation, size_bytes)
        if rank.rank == 0:
            write({"operation": operation, **row})
    write({"stage": sent(Text("done"))})
    if torch.distributed.is_initialized():
        rank.close()


if __name__ == "__main__":
    main(sys.argv[1:])
