"""The module tree and its folding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import TimelineBuilder, matmul

from gpuscope.analysis import ModuleShare, analyze, fold_layers
from gpuscope.program.types import ModuleInfo, Program, Storage
from gpuscope.timeline import simulate_memory


def model(layers: int, odd: int | None = None) -> tuple[TimelineBuilder, Program]:
    """Layers of an attention (10 + 20 us backward) and an mlp (30 us), then an lm_head (40 us)."""
    b = TimelineBuilder()
    infos = [ModuleInfo("", "GPT"), ModuleInfo("h", "ModuleList")]
    costs = []
    for i in range(layers):
        infos.append(ModuleInfo(f"h.{i}", "Block"))
        infos.append(ModuleInfo(f"h.{i}.attn", "Attention", 100))
        infos.append(ModuleInfo(f"h.{i}.mlp", "MLP", 999 if i == odd else 200))
        costs += [(f"h.{i}.attn", "forward", 10), (f"h.{i}.mlp", "forward", 30)]
        costs += [(f"h.{i}.attn", "backward", 20)]
    infos.append(ModuleInfo("lm_head", "Linear", 50))
    costs += [("lm_head", "forward", 40), ("", "forward", 5), ("", "optimizer", 7)]
    now = 0.0
    for module, phase, length in costs:
        op = b.op("aten::mm", module=module, phase=phase)
        b.work(now, now + length, cost=matmul(length, op=op), op=op)
        now += length
    return b, Program("gpt", tuple(b.ops), modules=tuple(infos), parameters=600)


def tree(layers: int, odd: int | None = None) -> tuple[ModuleShare, ...]:
    b, program = model(layers, odd)
    return analyze(b.build(), program=program).modules


def test_totals_hold_the_children_and_self_what_is_left() -> None:
    rows = {row.path: row for row in tree(2)}
    assert rows["h.0"].time_s == pytest.approx(60e-6)
    assert rows["h.0"].self_s == 0
    assert rows["h.1.attn"].forward_s == pytest.approx(10e-6)
    assert rows["h.1.attn"].backward_s == pytest.approx(20e-6)
    assert rows["h"].time_s == pytest.approx(120e-6)
    assert rows[""].time_s == pytest.approx(165e-6)
    assert rows[""].self_s == pytest.approx(5e-6)
    assert rows["h"].parameters == 600
    assert rows["lm_head"].parameters == 50
    assert rows[""].parameters == 600, "shared parameters count once at the root"
    assert rows["h.0.mlp"].flops == pytest.approx(matmul(30).flops)
    assert rows[""].class_name == "GPT"


def test_work_of_the_optimizer_stands_beside_the_model() -> None:
    rows = tree(2)
    tops = {row.path: row.time_s for row in rows if row.depth == 0}
    assert tops == pytest.approx({"": 165e-6, "(optimizer)": 7e-6})


def test_the_tree_is_in_depth_first_order() -> None:
    paths = [row.path for row in tree(2)]
    assert paths == [
        "",
        "h",
        "h.0",
        "h.0.attn",
        "h.0.mlp",
        "h.1",
        "h.1.attn",
        "h.1.mlp",
        "lm_head",
        "(optimizer)",
    ]


def test_equal_layers_fold_into_one_row() -> None:
    rows = {row.path: row for row in fold_layers(tree(12))}
    assert list(rows) == [
        "",
        "h",
        "h.{0..11}",
        "h.{0..11}.attn",
        "h.{0..11}.mlp",
        "lm_head",
        "(optimizer)",
    ]
    layer = rows["h.{0..11}"]
    assert layer.count == rows["h.{0..11}.mlp"].count == 12
    assert layer.time_s == pytest.approx(12 * 60e-6)
    assert layer.parameters == 12 * 300
    assert layer.class_name == "Block"


def test_folding_keeps_all_time() -> None:
    unfolded, folded = tree(7, odd=3), fold_layers(tree(7, odd=3))
    assert sum(row.self_s for row in folded) == pytest.approx(sum(row.self_s for row in unfolded))


def test_a_layer_that_differs_stays_apart() -> None:
    paths = [row.path for row in fold_layers(tree(7, odd=3)) if row.depth == 2]
    assert paths == ["h.{0..2}", "h.3", "h.{4..6}"]


def test_nested_layers_fold_too() -> None:
    rows = [ModuleShare("", "M", 0, 8.0, 0.0, 8.0, 0.0, 0.0, 0)]
    for i in range(2):
        rows.append(ModuleShare(f"s.{i}", "Stage", 1, 4.0, 0.0, 4.0, 0.0, 0.0, 0))
        for j in range(2):
            rows.append(ModuleShare(f"s.{i}.b.{j}", "Block", 2, 2.0, 2.0, 2.0, 0.0, 0.0, 0))
    folded = fold_layers(rows)
    assert [row.path for row in folded] == ["", "s.{0..1}", "s.{0..1}.b.{0..1}"]
    assert [row.count for row in folded] == [1, 2, 4]
    assert folded[2].time_s == pytest.approx(8.0)


def test_modules_are_found_from_the_operators_alone() -> None:
    b, _ = model(1)
    rows = analyze(b.build()).modules
    assert [row.path for row in rows][:4] == ["", "h", "h.0", "h.0.attn"]
    assert rows[0].parameters == 0


def test_memory_at_the_peak_is_that_of_a_module_and_all_below_it() -> None:
    storages = (
        Storage(0, 4096, "parameter", -1, None, "h.0.attn", "weight"),
        Storage(1, 8192, "parameter", -1, None, "h.1.mlp", "weight"),
        Storage(2, 1024, "activation", 0, None, "h.1.mlp.hidden", "output"),
        Storage(3, 2048, "temporary", 1, None, "", "scratch"),
    )
    b, program = model(2)
    program = replace(program, storages=storages)
    trace = simulate_memory(program, steps=1)
    rows = {r.path: r for r in analyze(b.build(), program=program, memory=trace).modules}
    assert rows["h.0"].peak_bytes == 4096
    assert rows["h.1.mlp"].peak_bytes == 8192 + 1024, "what no module has belongs to the next above"
    assert rows["h"].peak_bytes == 4096 + 8192 + 1024
    assert rows[""].peak_bytes == trace.peak_allocated_bytes == sum(b for _, b in trace.by_module)
    assert rows["lm_head"].peak_bytes == 0
    assert rows["(optimizer)"].peak_bytes is None
    folded = {row.path: row for row in fold_layers(rows.values())}
    assert folded["h.{0..1}"].peak_bytes == rows["h"].peak_bytes


def test_without_a_memory_trace_nobody_knows_what_a_module_holds() -> None:
    assert all(row.peak_bytes is None for row in tree(2))
