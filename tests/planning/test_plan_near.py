"""One decision away from a choice of serving or of fine-tuning, and what holds the memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.hardware import parse_target
from gpuscope.planning.serving.near import away_from, held, one_step
from gpuscope.planning.serving.search import question_of_serving, scored
from gpuscope.planning.serving.space import deployed
from gpuscope.planning.serving.types import ServingChoice
from gpuscope.planning.tuning.near import changed, neighbours
from gpuscope.planning.tuning.score import estimate
from gpuscope.planning.tuning.search import question_of_tuning
from gpuscope.planning.tuning.space import candidates
from gpuscope.planning.tuning.types import Tuned, Weighed
from gpuscope.planning.types import Simulated

SERVED = question_of_serving(
    "llama-3.1-8b", on="h100,h200", devices="1..4", rate=2.0, dtype="bfloat16,fp8"
)
TWO = ServingChoice(parse_target("2xh100"), 2, 1, "bfloat16", "bfloat16", 8192, 256)


def test_every_neighbour_of_serving_differs_by_one_decision() -> None:
    told = dict(one_step(SERVED, TWO))
    assert set(told) == {
        "tp 2 → 1", "dtype bfloat16 → fp8", "max-tokens 8192 → 4096", "max-tokens 8192 → 16384",
        "max-sequences 256 → 128", "max-sequences 256 → 512",
        "2x nvidia-h100-sxm → 4x nvidia-h100-sxm", "2x nvidia-h100-sxm → 2x nvidia-h200-sxm",
    }  # fmt: skip
    assert told["tp 2 → 1"].replicas == 2  # as many devices
    assert told["2x nvidia-h100-sxm → 4x nvidia-h100-sxm"].replicas == 2
    for each in told.values():
        assert each.tp * each.replicas == each.cluster.n_devices


def test_neighbours_are_scaled_by_what_the_choice_was_off() -> None:
    quick = scored(SERVED, TWO)
    best = replace(quick, tpot_s=1.5 * quick.tpot_s, ttft_s=3.0 * quick.ttft_s, simulated=True)
    away = {each.change: each.offered for each in away_from(SERVED, best, (best,))}
    apart = away["tp 2 → 1"]
    assert apart is not None
    alone = scored(SERVED, apart.choice)
    assert apart.tpot_s == pytest.approx(1.5 * alone.tpot_s)
    assert apart.ttft_s == pytest.approx(3.0 * alone.ttft_s)
    known = replace(apart, tpot_s=0.5, simulated=True)
    again = {e.change: e.offered for e in away_from(SERVED, best, (best, known))}
    assert again["tp 2 → 1"] is known


def test_the_memory_of_a_server_adds_up() -> None:
    found = deployed(SERVED, TWO)
    parts = {str(name): count for name, count in held(found)}
    # 8.03 billion weights of two bytes on two devices.
    assert parts["weights"] == pytest.approx(8.03e9, rel=0.01)
    usable = parse_target("h100").device.memory_usable_bytes
    assert sum(parts.values()) == pytest.approx(usable)
    assert list(parts.values()) == sorted(parts.values(), reverse=True)


def _weighed(each: Tuned, step_s: float, peak: int) -> Weighed:
    made = Simulated(
        scored_s=step_s, step_s=step_s, low_s=step_s, high_s=step_s, peak_bytes=peak,
        usable_bytes=80 * 2**30, fits=1.0, energy_j=None, usd=None,
    )  # fmt: skip
    return Weighed(
        candidate=each, scored_bytes=peak, **{n: getattr(made, n) for n in made.__slots__}
    )


def test_every_neighbour_of_a_fine_tuning_differs_by_one_decision() -> None:
    question = question_of_tuning("llama-3.2-1b", on="h100", devices=2, method="lora,qlora")
    found = candidates(question)[0]
    scores = {each: estimate(question.size, question.seq, each) for each in found}
    mine = next(e for e in found if e.words == "lora, fsdp none, microbatch 2")
    best = _weighed(mine, 1.0, 10 * 2**30)
    near = {each.change: each for each in neighbours(question, best, [best], scores)}
    assert {"microbatch 2 → 1", "microbatch 2 → 4", "recompute none → full"} <= set(near)
    assert "method lora → qlora" in near
    assert changed(mine, mine) is None
    one, own = near["microbatch 2 → 4"], scores[mine]
    other = scores[one.candidate]  # type: ignore[index]
    assert one.more == pytest.approx(other.step_s / own.step_s - 1)
    assert one.peak_bytes == pytest.approx(best.peak_bytes * other.peak_bytes / own.peak_bytes)
    assert one.peak_bytes > best.peak_bytes > near["microbatch 2 → 1"].peak_bytes
    known = _weighed(one.candidate, 3.0, 5)  # type: ignore[arg-type]
    exact = {e.change: e for e in neighbours(question, best, [best, known], scores)}
    assert exact["microbatch 2 → 4"].more == pytest.approx(2.0)
    assert exact["microbatch 2 → 4"].peak_bytes == 5
