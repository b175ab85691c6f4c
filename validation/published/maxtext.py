"""What Google's recipes set for MaxText, run by run.

From the workload details that AI-Hypercomputer/tpu-recipes prints beside each log (at c8cfe2f), and
for v5p from the MaxText files that it points to (benchmarks/maxtext_v5p_model_configs.py,
MaxText/configs/v5p/gpt3_175b). The defaults are MaxText's (configs/base.yml): everything is
computed again, attention works on 512 rows of queries and keys.

Gathers run beside products in all of them (`CF_FOR_ALL_GATHER`). Sums of gradients do so only where
a recipe says so (`ENABLE_SPARSECORE_OFFLOADING_FOR_ALL_REDUCE`); MaxText's guide (docs/guides/
optimization/benchmark_and_performance.md, "Communication overlaps") names flags for each kind.

The models of MaxText's own table for v5e are named by their scale, and so are their scripts
(MaxText/configs/v5e/16b.sh and so on), with everything computed again and parameters sharded over a
slice of 256 chips. 128B is left out (tensor parallel), and so are 22B and 52B on v4: their scripts'
sizes under the present defaults are not those of their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuscope.program.models.parallel.options import Software
from gpuscope.program.models.parallel.size import TransformerSize
from published.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One workload.

    Attributes:
        kept: projections whose results are kept, here or on the host, and not computed again
            (`remat_policy`), by their names in gpuscope's decoders.
        sums_beside: sums of gradients run beside the backward pass.
        attention_rows: rows of queries and keys of a step of attention (`sa_block_*`).
        slice: chips that parameters are sharded over, where there are several such slices; 0 for
            all.
        why_not: why it cannot be expressed; "" where it can.
    """

    kept: tuple[str, ...] = ()
    sums_beside: bool = False
    attention_rows: int = 512
    slice: int = 0
    why_not: str = ""


_QKV = ("query", "key", "value")
_LLAMA_70B = Recipe(kept=_QKV, attention_rows=2048)
_SMALL = Recipe(kept=(*_QKV, "out"), sums_beside=True, attention_rows=2048)

RECIPES: Mapping[tuple[str, str], Recipe] = {
    ("GPT3-175B-MaxText", "TPU v6e (Trillium)"): Recipe(),
    ("Llama2-70B-MaxText", "TPU v6e (Trillium)"): Recipe(kept=_QKV, sums_beside=True),
    ("Llama3.1-70B-MaxText", "TPU v6e (Trillium)"): _LLAMA_70B,
    ("Llama3.1-8B-MaxText", "TPU v6e (Trillium)"): _SMALL,
    ("Mistral-7B-MaxText", "TPU v6e (Trillium)"): _SMALL,
    ("Mixtral-8x7B-MaxText", "TPU v6e (Trillium)"): Recipe(kept=(*_QKV, "out")),
    ("Llama3.1-405B-MaxText", "TPU v5p"): Recipe(kept=("attention", "down"), attention_rows=2048),
    ("MaxText 16B", "TPU v5e"): Recipe(slice=256),
    ("MaxText 32B", "TPU v5e"): Recipe(slice=256),
    ("MaxText 64B", "TPU v5e"): Recipe(slice=256),
    ("GPT3-175B-MaxText", "TPU v5p"): Recipe(
        why_not="it multiplies in int8 (quantization=int8), which has no ready-made program"
    ),
}
"""By what a row prints: model and hardware."""


_BATCH = {"MaxText 16B": 6, "MaxText 32B": 4, "MaxText 64B": 2}
"""Sequences of 2,048 tokens on a chip (`per_device_batch_size` of the scripts)."""


def completed(row: Row) -> Row:
    """A row of MaxText's own table with what its script says; any other as it is."""
    batch = _BATCH.get(row.model)
    if batch is None or (row.model, row.hardware) not in RECIPES or row.devices is None:
        return row
    return replace(row, seq=2048, micro_batch=batch, global_batch=batch * row.devices)


def scaled_size(name: str) -> TransformerSize | None:
    """The decoder of a scale, "MaxText 16B"; None for any other name.

    `global_parameter_scale` multiplies the sizes of configs/base.yml by powers of two
    (`get_individual_scales` in MaxText's configs).
    """
    if name not in _BATCH:
        return None
    doublings = int(name.removeprefix("MaxText ").removesuffix("B")).bit_length() - 1
    whole, rest = divmod(doublings, 3)
    wide, deep, long = 2 ** (whole + (rest > 0)), 2**whole, 2 ** (whole + (rest > 1))
    return TransformerSize(
        layers=16 * deep,
        hidden=2048 * long,
        heads=16 * wide,
        kv_heads=16 * wide,
        head=128,
        ffn=7168 * wide,
        vocabulary=32000,
        context=2048,
    )


def slices(row: Row) -> dict[str, object]:
    """How parameters are shared where a job has several slices: inside of each."""
    recipe = RECIPES.get((row.model, row.hardware))
    if recipe is None or not recipe.slice or (row.devices or 0) <= recipe.slice:
        return {}
    return {"fsdp": "hybrid", "node": recipe.slice}


def why_not(row: Row) -> str:
    """Why a recipe cannot be expressed; "" where it can, or where there is none."""
    recipe = RECIPES.get((row.model, row.hardware))
    return recipe.why_not if recipe is not None else ""


def with_recipe(row: Row, software: Software) -> Software:
    """MaxText as the recipe of a row sets it."""
    recipe = RECIPES.get((row.model, row.hardware))
    if recipe is None:
        return software
    return replace(
        software,
        kept=recipe.kept,
        sums_beside=recipe.sums_beside,
        attention_rows=recipe.attention_rows,
    )
