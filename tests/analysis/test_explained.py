"""Together the findings of a run explain nearly all of the distance to its best possible time."""

from __future__ import annotations

import pytest

import gpuscope as gs
from gpuscope.program.models.parallel.options import ParallelOptions

FSDP = gs.WorkloadOptions(task="train", parallel=ParallelOptions(fsdp="full"))


@pytest.mark.parametrize(
    ("model", "on", "options"),
    [
        ("gpt2", "h200", gs.WorkloadOptions(task="train")),
        ("resnet50", "h200", gs.WorkloadOptions(task="train")),
        ("llama-3.2-1b", "h200", gs.WorkloadOptions(task="decode")),
        ("llama-3.2-1b", "8xh200", FSDP),
    ],
    ids=["gpt2-train", "resnet50-train", "decode", "fsdp"],
)
def test_findings_explain_nine_tenths_of_the_distance(
    model: str, on: str, options: gs.WorkloadOptions
) -> None:
    run = gs.predict(model, on=on, options=options)
    account = run.analysis.account
    assert account is not None
    assert account.distance_s
    assert account.explained_s is not None
    assert sum(t.time_s or 0.0 for t in account.terms) == pytest.approx(run.step_time_s, rel=1e-9)
    # What ranks wait for each other by chance is no finding: a note of the run tells it.
    by_chance_s = next(t.time_s or 0.0 for t in account.terms if t.key == "waiting")
    assert account.explained_s >= 0.9 * (account.distance_s - by_chance_s)
    for found in run.analysis.findings:
        words = f"{found.title} {found.evidence} {found.hint}"
        assert model == "resnet50" or "channels_last" not in words
        assert found.about is not None
        assert found.about.events or found.about.idle
        kernels = [run.timeline.events.kernel[event] for event in found.about.events]
        assert all(kernel >= 0 for kernel in kernels)
    if model == "gpt2":
        odd = next(f for f in run.analysis.findings if f.kind == "poor_shapes")
        # The products that it speaks of, no others; one sums slices of K in a second kernel.
        spoken = run.timeline.events.op[list(odd.about.events)]
        assert len(set(spoken.tolist())) == 3
        assert "3 matrix products" in str(odd.evidence)
