"""A job of several processes trains as one process does: the same losses, step after step.

Really run, on Gloo and a CPU: nothing here is captured or predicted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("torch")

HERE = Path(__file__).parent
WHOLE = {"microbatch": 4}
HALF = {"dp": 2, "microbatch": 2}
SHARED = {"tp": 2, "microbatch": 4}

PLANS = [
    ("llama", {**HALF, "fsdp": "full"}, {}),
    ("llama", {**HALF, "fsdp": "zero2", "microbatch": 1, "microbatches": 2}, {}),
    ("llama", {**HALF, "fsdp": "zero1", "microbatch": 1, "microbatches": 2}, {}),
    ("llama", {**HALF, "fsdp": "none", "microbatch": 1, "microbatches": 2}, {}),
    ("llama", {**HALF, "recompute": "full"}, {"loss_chunks": 4, "attention": "eager"}),
    ("llama", SHARED, {"fused_norm": False}),
    ("llama", {**SHARED, "sequence_parallel": False, "recompute": "selective"}, {}),
    ("gpt", SHARED, {}),
    ("gpt", HALF, {}),
    ("latent", SHARED, {}),
    ("squared", SHARED, {}),
    ("near", {**SHARED, "recompute": "selective"}, {}),
    ("near", {"cp": 2, "microbatch": 4, "rotation": "heads"}, {}),
    ("hybrid", {**SHARED, "ep": 2}, {}),
    ("hybrid", {**HALF, "ep": 2}, {"fused_steps": True, "tokens_first": True}),
    ("mixture", {**HALF, "ep": 2}, {}),
    ("mixture", SHARED, {}),
    ("mixture", {**SHARED, "ep": 2, "recompute": "full"}, {}),
    ("mixture", {**SHARED, "etp": 2}, {}),
    ("mixture", {**HALF, "etp": 2}, {"fused_steps": True}),
    ("mixture", {**HALF, "ep": 2}, {"fused_steps": True}),
    ("mixture", SHARED, {"fused_steps": True}),
    ("biased", {**HALF, "ep": 2}, {}),
    ("biased", {**HALF, "ep": 2}, {"fused_steps": True}),
    ("latent", HALF, {"fused_steps": True, "latent_again": True}),
    ("latent", SHARED, {"fused_steps": True}),
    ("llama", {"cp": 2, "microbatch": 4, "rotation": "heads"}, {}),
    ("gpt", {"cp": 2, "microbatch": 4, "rotation": "heads", "fsdp": "zero1"}, {}),
]


def run(ranks: int, plans: list, folder: Path) -> list[list[float]]:
    """Losses of each plan, in a job of that many processes."""
    store = folder / f"store-{ranks}"
    text = json.dumps(plans)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "TORCH_COMPILE_DISABLE": "1",
    }
    started = [
        subprocess.Popen(
            [
                sys.executable,
                str(HERE / "losses_of_plans.py"),
                str(rank),
                str(ranks),
                str(store),
                text,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(ranks)
    ]
    ended = [process.communicate(timeout=300) for process in started]
    assert all(p.returncode == 0 for p in started), "\n".join(error for _, error in ended)
    found: list[list[float]] = json.loads(ended[0][0])
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[dict[str, list[float]], list[list[float]]]:
    """Losses of each kind in one process, and of each plan in two."""
    folder = tmp_path_factory.mktemp("jobs")
    kinds = sorted({kind for kind, _, _ in PLANS})
    alone = run(1, [(kind, WHOLE, {}) for kind in kinds], folder)
    return dict(zip(kinds, alone, strict=True)), run(2, PLANS, folder)


def test_training_learns(trained) -> None:
    alone, _ = trained
    for first, second, third in alone.values():
        assert first > second > third


@pytest.mark.parametrize("number", range(len(PLANS)), ids=lambda n: f"{n}-{PLANS[n][0]}")
def test_a_split_model_trains_as_a_whole_one(number: int, trained) -> None:
    alone, split = trained
    assert split[number] == pytest.approx(alone[PLANS[number][0]], rel=2e-6)


FOUR = [
    ("mixture", {"dp": 2, "tp": 2, "microbatch": 2, "ep": 2, "etp": 2}, {}),
    ("mixture", {"dp": 2, "tp": 2, "microbatch": 2, "etp": 2, "fsdp": "zero1"}, {}),
    ("mixture", {"dp": 2, "tp": 2, "microbatch": 2, "ep": 2}, {}),
]


def test_experts_and_their_matrices_are_spread_over_four_ranks(trained, tmp_path: Path) -> None:
    alone, _ = trained
    for losses in run(4, FOUR, tmp_path):
        assert losses == pytest.approx(alone["mixture"], rel=2e-6)


def test_different_models_have_different_losses(trained) -> None:
    alone, _ = trained
    assert len({round(losses[2], 3) for losses in alone.values()}) == len(alone)
