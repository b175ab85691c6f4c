"""Room for keys and values as an engine takes it, or what would give a model some."""

from __future__ import annotations

from gpuscope.document.text import Text, joined
from gpuscope.errors import DoesNotFitError, GpuscopeError
from gpuscope.hardware import Device, parse_target
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.serving.engine import Engine
from gpuscope.serving.memory import KvMemory, Pools, kv_memory
from gpuscope.serving.quantization import Quantization, kinds_on

_DEVICES = (2, 4, 8, 16, 32, 64)


def _linked(device: Device, count: int) -> bool:
    """Whether so many can be one cluster: slices of a device (MIG) have no link."""
    try:
        parse_target(f"{count}x{device.id}")
    except GpuscopeError:
        return False
    return True


def room_for(
    size: TransformerSize,
    kept: Quantization,
    device: Device,
    engine: Engine,
    tp: int,
    cache_bytes: float,
    blocks: int | None,
    dp: int = 1,
) -> KvMemory:
    """Blocks that an engine finds room for on each of `tp` devices.

    Args:
        size, kept, device, tp: what is served, on how many devices.
        engine: its limits and its share of the memory.
        cache_bytes: of one number of keys and values.
        blocks: the number where the user knows it.
        dp: groups of the devices that attend to requests of their own.

    Raises:
        DoesNotFitError: says by how much, and which devices and dtypes would do.
    """

    pools = Pools(
        share_of=engine.share_of, window_share=engine.window_share,
        state_share=engine.state_share, prefix_cache=engine.prefix_cache,
        counts_graphs=engine.counts_graphs,
    )  # fmt: skip

    def room(kept: Quantization, tp: int) -> KvMemory:
        return kv_memory(
            size, kept, device, tp=tp, dp=dp, utilization=engine.utilization,
            max_tokens=engine.max_tokens, max_sequences=min(engine.max_sequences, 1024),
            block_tokens=engine.block_tokens, cache_bytes=cache_bytes, blocks=blocks,
            pools=pools,
        )  # fmt: skip

    def fits(kept: Quantization, tp: int) -> bool:
        try:
            room(kept, tp)
        except DoesNotFitError:
            return False
        return True

    try:
        return room(kept, tp)
    except DoesNotFitError as error:
        ways = [
            Text("--dtype {name}", name=kind.name)
            for kind in kinds_on(device)
            if kind.weight_bytes < kept.weight_bytes and fits(kind, tp)
        ]
        more = (n for n in _DEVICES if n > tp and size.heads % (n // dp) == 0)
        wide = next((n for n in more if fits(kept, n) and _linked(device, n)), None)
        if wide is not None:
            ways.insert(0, Text("--on {count}x{device} --tp {count}", count=wide, device=device.id))
        advice = (
            Text("Type: {ways}", ways=joined(ways, ", or "))
            if ways
            else Text("Choose devices with more memory: gpuscope devices lists them.")
        )
        raise DoesNotFitError(error.what, error.why, advice) from None
