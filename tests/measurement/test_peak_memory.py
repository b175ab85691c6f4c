"""The allocator's history, played by hand."""

from __future__ import annotations

import pickle
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpuscope.measurement.memory import BLOCK_BYTES, _play, replay, resident_blocks

SNAPSHOT = Path(__file__).parents[1] / "data" / "traces" / "h200" / "snapshot.pickle"


def _alloc(addr: int, size: int, time_us: float = 0.0) -> dict:
    return {"action": "alloc", "addr": addr, "size": size, "time_us": time_us}


def _free(addr: int) -> dict:
    return {"action": "free_requested", "addr": addr, "size": 0}


def test_a_training_step_by_hand() -> None:
    """Weights 1024 and states 2048 stay; an activation, then a gradient and a temporary."""
    resident = {100: 1024, 200: 2048, 300: 512}
    entries = [
        _alloc(400, 1000, 1.0),  # an activation: rounded to 1024
        _alloc(500, 4096, 2.0),  # freed before the peak
        _free(500),
        _alloc(600, 1024, 11.0),  # the gradient: stays
        _alloc(700, 8192, 12.0),  # a temporary of the backward pass: the peak
        _free(700),
        _free(400),
    ]
    before = {100: ("parameter", "Linear.weight"), 200: ("optimizer_state", "AdamW exp_avg")}
    after = {600: ("gradient", "Linear.weight gradient"), **before}
    found = replay(resident, entries, before, after, backward_began_us=10.0)
    assert found.at_peak == {
        "temporary": 8192,
        "optimizer_state": 2048,
        "parameter": 1024,
        "activation": 1024,
        "gradient": 1024,
        "input": 512,
    }
    assert found.peak_bytes == 1024 + 2048 + 512 + 1024 + 1024 + 8192
    assert found.holders[0] == ("temporaries", 8192)


def test_an_address_used_again_after_the_peak_is_not_the_gradient() -> None:
    entries = [_alloc(1, 4096, 1.0), _free(1), _alloc(1, 512, 2.0)]
    found = replay({}, entries, {}, {1: ("gradient", "g")}, backward_began_us=0.5)
    assert found.at_peak == {"temporary": 4096}


def test_inference_has_no_backward_pass() -> None:
    found = replay({}, [_alloc(1, 512), _free(1)], {}, {}, None)
    assert found.at_peak == {"activation": 512}


def test_the_peak_before_the_step_counts() -> None:
    """A step that only frees is highest at its begin."""
    found = replay({1: 2048}, [_free(1), _alloc(2, 512)], {1: ("buffer", "b")}, {}, None)
    assert found.peak_bytes == 2048
    assert found.at_peak == {"buffer": 2048}


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.integers(0, 5000)), max_size=60),
    st.dictionaries(st.integers(1, 6), st.integers(1, 9).map(lambda n: n * BLOCK_BYTES)),
)
def test_categories_add_up_to_the_peak(actions, resident) -> None:
    entries = [_alloc(a, s) if grow else _free(a) for grow, a, s in actions]
    found = replay(resident, entries, {}, {}, None)
    assert sum(found.at_peak.values()) == found.peak_bytes
    assert found.peak_bytes >= sum(resident.values())
    blocks, highest = dict(resident), sum(resident.values())
    for grow, address, size in actions:
        if grow:
            blocks[address] = max(1, -(-size // BLOCK_BYTES)) * BLOCK_BYTES
        else:
            blocks.pop(address, None)
        highest = max(highest, sum(blocks.values()))
    assert found.peak_bytes == highest


def test_resident_blocks_of_a_snapshot() -> None:
    blocks = [
        {"size": 512, "state": "active_allocated"},
        {"size": 1024, "state": "inactive"},
        {"size": 512, "state": "active_allocated"},
        {"size": 512, "state": "active_pending_free"},
    ]
    snapshot = {
        "segments": [
            {"device": 0, "address": 1000, "blocks": blocks},
            {"device": 1, "address": 9, "blocks": [{"size": 5, "state": "active_allocated"}]},
        ]
    }
    assert resident_blocks(snapshot, 0) == {1000: 512, 2536: 512}
    assert resident_blocks(snapshot, 1) == {9: 5}


def test_the_history_of_a_real_device_leads_to_its_own_blocks() -> None:
    """An H200's history, played from its begin, ends in the blocks that its snapshot lists."""
    snapshot = pickle.loads(SNAPSHOT.read_bytes())  # our own file
    entries = snapshot["device_traces"][0]
    blocks: dict[int, int] = {}
    for entry in entries:
        if entry["action"] in ("alloc", "free_requested"):
            _play(blocks, entry)
    listed = resident_blocks(snapshot, 0)
    assert len(blocks) >= 10
    assert {address: listed.get(address) for address in blocks} == blocks
    # What was there before the history began stays, and is the rest of the list.
    before = {address: size for address, size in listed.items() if address not in blocks}
    found = replay(before, entries, {}, {}, None)
    assert found.at_peak["input"] == sum(before.values())
    assert found.peak_bytes >= sum(listed.values())
