"""Recordings in public repositories, where a folder of them is named: what is read of each."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuscope.analysis.device_of import device_of
from gpuscope.errors import InputFileError
from gpuscope.loading import load
from gpuscope.timeline.types import EVENT_KINDS, Timeline

LISTED = Path(__file__).parents[1] / "data" / "public_recordings.toml"
RECORDINGS: list[dict[str, Any]] = tomllib.loads(LISTED.read_text("utf-8"))["recording"]
FOLDER = os.environ.get("GPUSCOPE_PUBLIC_RECORDINGS", "")


def counted(timeline: Timeline) -> dict[str, int]:
    """What a recording of the list may state, as the readers have it."""
    events, recorded = timeline.events, timeline.recorded
    assert recorded is not None
    kinds = (EVENT_KINDS.index("kernel"), EVENT_KINDS.index("communication"))
    kernel = np.isin(events.kind, kinds)
    told = [timeline.ops[at] for at in events.op[kernel].tolist() if at >= 0]
    return {
        "kernels": int(kernel.sum()),
        "kernel_ns": int(events.duration_ns[kernel].sum()),
        "copies": int((events.kind == EVENT_KINDS.index("memcpy")).sum()),
        "launched": int(
            (recorded.launch[np.isin(recorded.event, np.flatnonzero(kernel))] >= 0).sum()
        ),
        "with_operator": len(told),
        "with_shapes": sum(bool(op.inputs) for op in told),  # type: ignore[attr-defined]
    }


@pytest.mark.parametrize("stated", RECORDINGS, ids=lambda each: each["files"][0])
def test_what_is_in_it_is_read(stated: dict[str, Any]) -> None:
    paths = [Path(FOLDER, name) for name in stated["files"]]
    if not FOLDER or not all(path.is_file() for path in paths):
        pytest.skip(f"{stated['files'][0]} is not there: see {LISTED.name}")
    if "refused" in stated:
        with pytest.raises(InputFileError) as refusal:
            load(paths)
        assert stated["refused"] in str(refusal.value)
        return
    run = load(paths)
    assert run.timeline is not None
    found = counted(run.timeline)
    for name in found.keys() & stated.keys():
        assert found[name] == stated[name], name
    if "device" in stated:
        device = device_of(run.timeline)
        assert device is not None
        assert device.id == stated["device"]
    if "told_by_capture" in stated:
        alone = load(paths[0])
        assert alone.timeline is not None
        before = counted(alone.timeline)["with_operator"]
        assert found["with_operator"] == before + stated["told_by_capture"]
