"""What NVIDIA's performance recipes choose for mixtures of experts, by model, device and release.

From Megatron-Bridge at its release tags: `moe_flex_dispatcher_backend`, `moe_a2a_overlap` and
`recompute_modules` in scripts/performance/configs/{deepseek,qwen,kimi}/*_workload_base_configs.py
(configurations for MXFP8 at the row's parallelism; v0.2.0 is NeMo 25.11, v0.3.0 26.02, v0.4.0
26.04, v0.5.0 26.06), since v0.6.0 (26.08) in src/megatron/bridge/perf_recipes. The B200 recipe for
DeepSeek-V3 of 26.04.01 is that of v0.5.0, whose parallelism the row has (8 stages, 2 virtual, 32
experts' ranks). Facts of the software; no row's time played a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from published.rows import Row

__all__ = ["RECIPES", "Recipe", "recipe_of"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Choices from one release on.

    Attributes:
        since: NeMo container.
        flex: HybridEP or DeepEP: tokens go once to a rank.
        overlap: the exchange runs beside another microbatch's work.
        latent: the up-projections of latent attention are computed again ("mla_up_proj").
    """

    since: str
    flex: bool
    overlap: bool = False
    latent: bool = False


RECIPES: Mapping[tuple[str, str], tuple[Recipe, ...]] = {
    ("DeepSeekV3", "GB300"): (
        Recipe("25.11", flex=True),
        Recipe("26.02", flex=True, latent=True),
        Recipe("26.06", flex=True, overlap=True),
    ),
    ("DeepSeekV3", "GB200"): (
        Recipe("25.11", flex=True, latent=True),
        Recipe("26.04", flex=True),
        Recipe("26.06", flex=True, overlap=True, latent=True),
    ),
    ("DeepSeekV3", "B200"): (
        Recipe("25.11", flex=False, latent=True),
        Recipe("26.02", flex=True, latent=True),
        Recipe("26.04.01", flex=True, overlap=True, latent=True),
    ),
    ("Kimi_K2", "GB300"): (Recipe("26.02", flex=True, latent=True),),
    ("Qwen3_235B_a22B", "GB300"): (Recipe("25.11", flex=True),),
    ("Qwen3_235B_a22B", "GB200"): (Recipe("25.11", flex=True),),
    ("Qwen3_235B_a22B", "B300"): (
        Recipe("26.02", flex=False, overlap=True),
        Recipe("26.04", flex=False),
        Recipe("26.06", flex=True),
    ),
    ("Qwen3_235B_a22B", "B200"): (
        Recipe("25.11", flex=False, overlap=True),
        Recipe("26.02", flex=False),
    ),
    ("Qwen3_30B_a3B", "GB300"): (Recipe("25.11", flex=True),),
    ("Qwen3_30B_a3B", "GB200"): (Recipe("25.11", flex=True),),
    ("Qwen3_30B_a3B", "B300"): (
        Recipe("26.02", flex=True),
        Recipe("26.06", flex=True, overlap=True),
    ),
    ("Qwen3_30B_a3B", "H100-SXM-80GB"): (
        Recipe("25.11", flex=False, overlap=True),
        Recipe("26.02", flex=True, overlap=True),
        Recipe("26.04", flex=True),
    ),
}
"""By model and hardware, the oldest first."""


def recipe_of(row: Row) -> Recipe | None:
    """The recipe of a row's release; None where it is none of these."""
    if "Megatron-Bridge" not in row.source:
        return None
    known = RECIPES.get((row.model.split(" ")[0], row.hardware), ())
    release = row.release or ""
    return next((recipe for recipe in reversed(known) if recipe.since <= release), None)
