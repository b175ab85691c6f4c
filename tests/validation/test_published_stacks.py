"""Stacks are files with sources, chosen by what a row states, whatever the row is called."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
PUBLISHED = VALIDATION / "published"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _rows(source: str = ""):
    from published.rows import read_rows

    return [row for row in read_rows() if source in row.source]


def _made(row):
    from published.express import Expressed, express

    found = express(row)
    return found if isinstance(found, Expressed) else None


def _plan(row):
    found = _made(row)
    assert found is not None
    assert found.options.parallel is not None
    return found.options.parallel


def test_every_stack_has_sources_and_is_told_in_both_languages() -> None:
    from published.stacks import stacks

    assert len(stacks()) >= 12
    for stack in stacks():
        assert stack.sources, stack.name
        assert stack.states, stack.name
        assert stack.why
        assert stack.why_zh
        assert bool(stack.left) == bool(stack.left_zh)
        since = {}
        for recipe in stack.recipes:  # the oldest first
            assert since.get((recipe.model, recipe.hardware), "") <= recipe.since
            since[recipe.model, recipe.hardware] = recipe.since


@pytest.mark.parametrize("name", ["express", "stacks", "sizes", "unstated", "machines", "neusight"])
def test_no_rule_looks_at_a_row_s_id_or_reference(name: str) -> None:
    tree = ast.parse((PUBLISHED / f"{name}.py").read_text("utf-8"))
    looked = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not looked & {"id", "ref"}
    for path in (PUBLISHED / "stacks").glob("*.toml"):
        told = path.read_text("utf-8")
        assert not any(row.id in told for row in _rows())


def test_another_name_or_another_result_changes_nothing_that_is_predicted() -> None:
    from published.predict_rows import key_of

    for row in _rows():
        made = _made(row)
        if made is None or row.devices is None:  # those are told by the logged rate
            continue
        other = _made(replace(row, id="another", ref="elsewhere", value=row.value * 1.7))
        assert other is not None
        assert key_of(other) == key_of(made)
        assert other.unstated == made.unstated


def test_a_row_that_names_two_stacks_is_refused_and_one_that_names_none_too() -> None:
    from published.express import NotExpressed, express

    row = _rows("SimuMax")[0]
    two = express(replace(row, source="SimuMax and torchtitan"))
    none = express(replace(row, source="somebody"))
    assert isinstance(two, NotExpressed)
    assert isinstance(none, NotExpressed)
    assert "names" in two.why
    assert "not described" in none.why


def test_the_software_of_a_scheme_goes_before_that_of_the_paper() -> None:
    found = {(_made(row).stack, row.scheme) for row in _rows("SC21 Table 2")}
    assert found == {("deepspeed", "ZeRO-3"), ("megatron-2021", "PTD")}


def test_what_a_log_leaves_to_its_configuration_is_the_profile_s() -> None:
    """MLPerf's logs print neither precision nor microbatch nor chunks; the stack's files do."""
    for row in _rows("MLPerf"):
        made = _made(row)
        if made is None:
            continue
        assert (row.precision, row.micro_batch, row.virtual) == (None, None, None)
        plan = _plan(row)
        adapted = "LoRA" in row.model
        chunks = None if adapted else 8
        assert (plan.virtual, plan.microbatch, plan.software.matmul) == (chunks, 1, "float8")
        assert plan.software.adapter_rank == (16 if adapted else 0)
        assert (plan.rotation == "heads") == adapted
        unstated = {"precision"} if adapted else {"precision", "interleaving"}
        assert {each.what for each in made.unstated} >= unstated


def test_a_stack_on_another_keeps_what_it_does_not_change() -> None:
    from published.stacks import stacks

    by_name = {stack.name: stack for stack in stacks()}
    assert by_name["mlperf"].software == by_name["nemo"].software
    assert by_name["deepspeed"].parallel["fsdp"] == "full"
    assert by_name["megatron-2021"].parallel["fsdp"] == "none"


def test_overlap_and_dispatchers_are_those_that_the_row_s_software_states() -> None:
    """Megatron's flags as the row prints them; recipes by release; nothing where none is known."""
    from published.stacks import stack_of

    for row in _rows():
        made = _made(row)
        if made is None or made.options.parallel is None:
            continue
        software = made.options.parallel.software
        if row.said and "overlap-grad-reduce" in row.said:
            assert software.sharing == "beside"
        if made.stack == "megatron-core" and not row.said:
            assert software.sharing == "at_ends"
        stack = stack_of(row)
        assert stack is not None
        if stack.recipe(row) is None:
            assert not software.send_once
            assert not software.exchange_overlap
    deepseek = [r for r in _rows("Bridge") if (r.model, r.hardware) == ("DeepSeekV3", "GB200")]
    overlapped = {r.release for r in deepseek if _made(r) and _plan(r).software.exchange_overlap}
    assert overlapped == {"26.06", "26.06.01", "26.08"}


def test_every_row_of_the_tpu_s_has_a_recipe_that_sets_what_is_kept_and_what_overlaps() -> None:
    from published.stacks import stack_of

    rows = [row for row in _rows("tpu-recipes") + _rows("MaxText high") if _made(row)]
    assert len(rows) > 20
    for row in rows:
        stack = stack_of(row)
        assert stack is not None
        assert stack.recipe(row) is not None
    several = [_plan(row) for row in rows if row.model == "Llama3.1-70B-MaxText"]
    assert len(several) == 4
    for plan in several:
        assert plan.software.kept == ("query", "key", "value")
        assert (plan.recompute, plan.reduce_dtype) == ("full", "bfloat16")
        assert plan.software.compile
        assert not plan.software.sums_beside


def test_int8_is_refused_and_its_rate_shows_that_it_is_int8() -> None:
    from published.express import NotExpressed, express

    (row,) = [r for r in _rows("tpu-rec") if r.model == "GPT3-175B-MaxText" and "v5p" in r.hardware]
    made = express(row)
    assert isinstance(made, NotExpressed)
    assert "int8" in made.why
    # 6 FLOPs a parameter and token, 8 with all of the forward pass again: above the bf16 peak.
    assert 8 * 175e9 * row.value > 459e12


@pytest.mark.parametrize("scale", [16, 32, 64, 128, 256, 512, 1024])
def test_a_scale_is_the_size_that_its_name_says(scale: int) -> None:
    from published.sizes import scaled_size

    assert scaled_size(scale).parameters == pytest.approx(scale * 1e9, rel=0.02)


@pytest.mark.parametrize("billions", [22, 52])
def test_sizes_of_maxtext_s_scripts_are_those_of_their_names(billions: int) -> None:
    from published.sizes import size_of

    row = next(r for r in _rows("MaxText high") if f"{billions}B" in r.model)
    assert size_of(row).parameters == pytest.approx(billions * 1e9, rel=0.01)


def test_a_release_without_precisions_is_in_float8() -> None:
    """The footnote of 25.09's page; what a row says itself stands, and others must say it."""
    from published.stacks import stack_of

    row = next(r for r in _rows("Megatron-Bridge") if r.release == "25.09" and "405B" in r.model)
    plan = _plan(row)
    assert row.precision is None
    assert plan.software.matmul == "float8"
    assert _plan(replace(row, precision="BF16")).software.matmul == "compute"
    assert _made(replace(row, release="25.11")) is None
    qwen = next(r for r in _rows("Megatron-Bridge") if "Qwen3_235B" in r.model)
    stack = stack_of(row)
    assert stack is not None
    graphs = {
        release: stack.recipe(replace(qwen, release=release, hardware="GB200")).software
        for release in ("25.09", "25.11")
    }
    assert graphs["25.09"]["graphs"]
    assert "graphs" not in graphs["25.11"]


def test_a_gpt_is_known_by_its_number_of_parameters() -> None:
    from published.sizes import size_of

    row = _rows("SC21 Table 2")[0]
    layers = {text: size_of(replace(row, params=text)).layers for text in ("174.6B", "529.6B")}
    assert layers == {"174.6B": 96, "529.6B": 105}
    assert size_of(replace(row, params="99B")) is None


def test_several_slices_share_parameters_inside_of_each() -> None:
    made = {row.devices: _made(row) for row in _rows("MaxText high") if "64B" in row.model}
    assert set(made) == {256, 512, 1024, 2048, 8192}
    for devices, found in made.items():
        assert found is not None
        plan = found.options.parallel
        assert (plan.microbatch, plan.global_batch) == (2, 2 * devices)
        assert (plan.fsdp, plan.node) == (("full", None) if devices == 256 else ("hybrid", 256))
        assert found.tokens == 2 * devices * 2048


def test_attention_is_counted_as_the_software_counts_it() -> None:
    """NeMo's formula has 12 s^2 h a layer: at long sequences nearly twice the causal half."""
    from published.measured import tokens_per_s
    from published.sizes import size_of
    from published.stacks import stack_of

    row = next(r for r in _rows("NeMo long") if _made(r) and r.seq == 131072)
    size, stack = size_of(row), stack_of(row)
    assert size is not None
    assert stack is not None
    whole = tokens_per_s(row, stack, size, row.seq, row.devices, 1)
    half = tokens_per_s(row, replace(stack, flops={}), size, row.seq, row.devices, 1)
    matrices = 6 * (size.active_parameters - size.vocabulary * size.hidden)
    attention = 6 * size.layers * row.seq * size.hidden
    assert half / whole == pytest.approx((matrices + 2 * attention) / (matrices + attention))


@pytest.mark.parametrize("name", ["query", "key", "value", "out", "down", "attention"])
def test_names_of_what_is_kept_are_those_of_the_decoders(name: str) -> None:
    from published.stacks import stacks

    kept = [r.software.get("kept", ()) for stack in stacks() for r in stack.recipes]
    assert any(name in each for each in kept)
