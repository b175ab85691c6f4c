"""Segments that grow: told to the process before it starts."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
import torch
from changed_cases import case_of

from gpuscope import api
from gpuscope.advice.forecast.changed_programs import ChangedPrograms
from gpuscope.advice.registry import find
from gpuscope.program.types import Program


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)


def test_settings_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    change = find("expandable-segments")
    assert change.environment() == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64,expandable_segments:False")
    assert change.environment() == {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,expandable_segments:True"
    }
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "pinned_use_background_threads:True")
    assert list(change.environment()) == ["PYTORCH_ALLOC_CONF"]


def test_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    change = find("expandable-segments")
    case = case_of(lambda: lambda: torch.ones(3, device="cuda") * 2)
    gap = replace(
        case, run=replace(case.run, peak_memory_bytes=3 << 30, reserved_memory_bytes=4 << 30)
    )
    assert "1.00 GiB (25 %)" in change.fits(gap).why
    tight = replace(
        case, run=replace(case.run, peak_memory_bytes=4 << 30, reserved_memory_bytes=4 << 30)
    )
    assert not change.fits(tight).applies
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    assert "already" in change.fits(gap).why


def test_nothing_is_told_under_a_capture() -> None:
    build = lambda: lambda: torch.ones(3, device="cuda") * 2  # noqa: E731
    plain, changed = case_of(build), case_of(build, "expandable-segments")
    assert plain.program.ops == changed.program.ops


def test_a_capture_with_it_is_the_same() -> None:
    def build() -> Callable[[], torch.Tensor]:
        return lambda: torch.ones(3, device="cuda") * 2

    programs = ChangedPrograms(build, api.resolve_target("h200"))
    changed = programs._captured(frozenset({"expandable-segments"}))
    assert programs.of({"expandable-segments"}) is programs.of()
    assert isinstance(changed, Program)
    assert [(op.name, op.inputs) for op in changed.ops] == [
        (op.name, op.inputs) for op in cast(Program, programs.of()).ops
    ]
