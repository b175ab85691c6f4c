"""Every invariant over predictions of one device: built-in models and builds of one's own."""

from __future__ import annotations

import pytest
from outputs import BUILT_IN, OWN, built_in, checked, own, told

from gpuscope.run import Run
from sweeps import sweep

# One of each: a graph, recomputation, a cache, another maker, embedding tables.
ALWAYS = ("gpt2 in graphs", "gpt2 checkpointed", "llama decode", "qwen prefill", "dlrm train")


@pytest.mark.parametrize("name", sweep(BUILT_IN, *ALWAYS))
def test_a_built_in_model(name: str) -> None:
    found = checked(built_in, name)
    assert told(found) == ""
    assert found.count > 200


@pytest.mark.parametrize("name", OWN)
def test_a_build_of_ones_own(name: str) -> None:
    assert told(checked(own, name)) == ""


def test_a_device_that_does_not_exist() -> None:
    """What-if of a what-if starts from it."""
    from gpuscope import api

    def changed(name: str) -> Run:
        faster = {"memory_bandwidth_bytes_per_s": 9.6e12}
        return api.predict(OWN[name], "h200", overrides=faster)

    found = checked(changed, "own build that waits")
    ours = [v for v in found.violations if v.rule == "agreement"]
    assert ours == []
