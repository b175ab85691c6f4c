"""The modules of a deep model from those of a shallow one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from program_equality import differences

from gpuscope.program.fold import capture_folded
from gpuscope.program.fold_declared import EqualLayers, deepened
from gpuscope.program.fold_depth import Tree, least_captured, shallow_depth
from gpuscope.program.fold_layers import NotFoldableError
from gpuscope.program.types import ModuleInfo, Program


def tree(kinds: list[str]) -> Tree:
    """A model whose layers have a projection each, of the kinds given (with as many parameters)."""
    infos = [ModuleInfo("", "Model", 0), ModuleInfo("layers", "ModuleList", 0)]
    for number, kind in enumerate(kinds):
        infos.append(ModuleInfo(f"layers.{number}", "Block", 1))
        infos.append(ModuleInfo(f"layers.{number}.proj", kind, len(kind)))
    infos.append(ModuleInfo("norm", "Norm", 5))
    total = sum(info.parameters for info in infos)
    return Tree(tuple(infos), total, {"layers": list(kinds)}, ["rest"])


@pytest.mark.parametrize(("first", "depth"), [(0, 4), (0, 126), (3, 61)])
def test_it_is_the_tree_of_the_whole_model(first: int, depth: int) -> None:
    def kinds(layers: int) -> list[str]:
        return ["dense"] * min(first, layers) + ["experts"] * max(0, layers - first)

    declared = EqualLayers(depth, first)
    assert deepened(tree(kinds(declared.enough)), "layers", declared) == tree(kinds(depth))


@pytest.mark.parametrize(("first", "period", "depth"), [(0, 2, 36), (1, 2, 26), (0, 6, 48)])
def test_layers_of_several_kinds_repeat(first: int, period: int, depth: int) -> None:
    def kinds(layers: int) -> list[str]:
        cycle = ["far" if n % period == 0 else "near" for n in range(1, layers + 1)]
        return ["dense"] * min(first, layers) + cycle[: max(0, layers - first)]

    declared = EqualLayers(depth, first, period)
    assert declared.enough < depth
    assert deepened(tree(kinds(declared.enough)), "layers", declared) == tree(kinds(depth))


def test_a_shallow_model_needs_nothing() -> None:
    declared = EqualLayers(2)
    assert declared.enough == 2
    assert deepened(tree(["a", "a"]), "layers", declared) == tree(["a", "a"])


def test_a_false_declaration_is_noticed() -> None:
    with pytest.raises(NotFoldableError, match="from 0 on do not repeat"):
        deepened(tree(["a", "b", "a"]), "layers", EqualLayers(9))


def test_a_capture_by_declaration_is_the_capture_by_looking() -> None:
    pytest.importorskip("torch")
    from gpuscope.program.models.parallel.options import ParallelOptions
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.program.workload import resolve

    options = WorkloadOptions(layers=12, seq=64, parallel=ParallelOptions(dp=2))
    work = resolve("llama-3.2-1b", options)
    assert work.at_depth is not None
    assert work.equal_layers == EqualLayers(12)
    looked, declared = (
        capture_folded(work.build, work.at_depth, task="train", world=work.world, declared=said)
        for said in (None, work.equal_layers)
    )
    assert declared.modules == looked.modules
    assert declared.parameters == looked.parameters
    assert differences(declared, looked) == []


def test_of_a_model_that_is_known_to_be_shallow_nothing_is_built() -> None:
    def build() -> Callable[[], object]:
        raise AssertionError("it was built")

    def at_depth(layers: int) -> Callable[[], Callable[[], object]]:
        return build

    with pytest.raises(NotFoldableError, match="9 layers are too few"):
        capture_folded(build, at_depth, declared=EqualLayers(9))
    with pytest.raises(NotFoldableError, match="could not be read"):  # ten may pay: it looks
        capture_folded(build, at_depth, declared=EqualLayers(10))


def test_the_least_depth_is_that_of_the_plainest_model() -> None:
    depth = shallow_depth({"layers": ["a"] * 40})
    assert least_captured() == 2 * depth - 1


def test_the_same_code_on_other_sizes_is_captured_at_one_depth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("torch")
    from gpuscope.program import capture, fold_python
    from gpuscope.program.models.parallel.options import ParallelOptions
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.program.workload import resolve

    monkeypatch.setattr(fold_python, "_added", {})
    depths: list[int] = []
    real = capture.capture

    def counted(build: Any, **said: Any) -> Program:
        depths.append(1)
        return real(build, **said)

    monkeypatch.setattr(capture, "capture", counted)

    def captured(dp: int) -> Program:
        options = WorkloadOptions(layers=12, seq=64, parallel=ParallelOptions(dp=dp))
        work = resolve("llama-3.2-1b", options)
        assert work.at_depth is not None
        return capture_folded(
            work.build, work.at_depth, world=work.world, declared=work.equal_layers
        )

    captured(2)
    assert len(depths) == 2
    after = captured(4)  # shards of another size, the same Python
    assert len(depths) == 3
    fold_python._added.clear()
    assert differences(after, captured(4)) == []
    assert len(depths) == 5


def test_a_model_with_windows_in_every_other_block_is_folded() -> None:
    pytest.importorskip("torch")
    from gpuscope.program.capture import capture
    from gpuscope.program.models.parallel.options import ParallelOptions
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.program.workload import resolve

    options = WorkloadOptions(layers=18, seq=8192, parallel=ParallelOptions(dp=2))
    work = resolve("gemma-2-2b", options)
    assert work.at_depth is not None
    assert work.equal_layers == EqualLayers(18, 0, 2)
    folded = capture_folded(
        work.build, work.at_depth, task="train", world=work.world, declared=work.equal_layers
    )
    whole = capture(work.build, task="train", world=work.world)
    assert not differences(folded, whole)
    seen = [op.args.get("window") for op in whole.ops if op.name == "gpuscope::attention"]
    assert seen == [4096, None] * 9


@pytest.mark.parametrize("compiled", ["", "default"])
def test_compiled_calls_of_layers_are_counted_on(compiled: str) -> None:
    """Fused steps, and blocks compiled one by one: a folded capture is the whole one."""
    pytest.importorskip("torch")
    from gpuscope.program.capture import capture
    from gpuscope.program.models.parallel.options import ParallelOptions, Software
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.program.workload import resolve

    software = Software(fused_steps=True, fused_projections=True, compile=compiled)
    plan = ParallelOptions(dp=2, software=software)
    work = resolve("llama-3.2-1b", WorkloadOptions(layers=12, seq=64, parallel=plan))
    assert work.at_depth is not None
    folded = capture_folded(
        work.build, work.at_depth, task="train", world=work.world, declared=work.equal_layers
    )
    whole = capture(work.build, task="train", world=work.world)
    assert max(op.region for op in whole.ops) >= 12
    assert not differences(folded, whole)
