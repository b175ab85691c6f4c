"""XLA's profiles: recordings that JAX 0.11 made of four steps on a processor."""

from __future__ import annotations

import shutil
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from gpuscope.errors import InputFileError, MissingPackageError
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.kineto.xplane import is_xplane, read_xplane
from gpuscope.timeline.trace_files import find_traces, kind_of
from gpuscope.timeline.types import EVENT_KINDS, Timeline

FOLDER = Path(__file__).parents[1] / "data" / "traces" / "jax"
OWN, VIEWER = FOLDER / "cpu.xplane.pb", FOLDER / "cpu.trace.json.gz"

with_jax = pytest.mark.skipif(find_spec("jax") is None, reason="needs jax")


def instructions(timeline: Timeline) -> list[str]:
    rows = np.flatnonzero(timeline.events.kind == EVENT_KINDS.index("operator"))
    return [timeline.names[at] for at in timeline.events.name[rows]]


def test_the_trace_viewer_s_form_has_steps_and_instructions() -> None:
    timeline = read_trace(VIEWER)
    assert len(timeline.steps) == 4
    found = Counter(instructions(timeline))
    assert found["ynn_fusion"] == found["ynn_fusion.1"] == 4  # the two products, once a step


def test_a_profile_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    assert is_xplane(OWN.read_bytes()[:64])
    assert kind_of(OWN) == "xplane"
    assert not is_xplane(b'{"traceEvents": []}')
    assert not is_xplane(b"\n\x05hello\x12\x07nothing")
    other = tmp_path / "renamed.bin"
    shutil.copy(OWN, other)
    assert [file.kind for file in find_traces(other).files] == ["xplane"]


def test_of_two_forms_of_one_recording_one_is_read(tmp_path: Path) -> None:
    """As JAX leaves them: LOG/plugins/profile/TIME/host.*, one folder a recording."""
    for time in ("2026_01_01", "2026_01_02"):
        inner = tmp_path / "plugins" / "profile" / time
        inner.mkdir(parents=True)
        shutil.copy(OWN, inner / "host.xplane.pb")
        shutil.copy(VIEWER, inner / "host.trace.json.gz")
    [found] = find_traces(tmp_path).files
    assert found.path == inner / "host.trace.json.gz"
    found.path.unlink()
    assert [file.kind for file in find_traces(tmp_path).files] == ["xplane"]


@with_jax
def test_both_forms_tell_the_same() -> None:
    own, viewer = read_xplane(OWN), read_trace(VIEWER)
    assert len(own.events) == len(viewer.events)
    assert [step.end_ns - step.start_ns for step in own.steps] == [
        step.end_ns - step.start_ns for step in viewer.steps
    ]
    assert sorted(instructions(own)) == sorted(instructions(viewer))
    assert own.sources[0].path == str(OWN)


@with_jax
@pytest.mark.parametrize(
    "content", [b"", b"\n\x05hello", b"\n\x80\x80\x80\x80\x08\x12\x09/host:CPU"]
)
def test_a_damaged_profile_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(InputFileError):
        read_xplane(path)


@pytest.mark.skipif(find_spec("jax") is not None, reason="has jax")
def test_without_jax_it_is_said_what_to_install() -> None:
    with pytest.raises(MissingPackageError, match="jax"):
        read_xplane(OWN)
