"""What would make a step fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import spec

from gpuscope.analysis import FitOption, MemoryStory, fit_options
from gpuscope.document.text import render
from gpuscope.program.types import ModuleInfo, Op, Program, Storage

GB = 10**9


def story(capacity: int, **at_peak: int) -> MemoryStory:
    peak = sum(at_peak.values())
    missing = max(0, peak - capacity)
    return MemoryStory(
        peak, peak, 0.0, at_peak, (), (), (), (), capacity, fits=not missing, missing_bytes=missing
    )


def by_name(options: tuple[FitOption, ...]) -> dict[str, FitOption]:
    return {option.name: option for option in options}


TRAINING = {
    "parameter": 8 * GB,
    "gradient": 8 * GB,
    "optimizer_state": 16 * GB,
    "activation": 64 * GB,
}


def training_program() -> Program:
    """2 G float32 parameters; 4 layers hold all activations, each with a 1-GB input."""
    modules = [ModuleInfo("", "GPT"), ModuleInfo("h", "ModuleList")]
    modules += [ModuleInfo(f"h.{i}", "Block", 500_000_000) for i in range(4)]
    hidden = spec(500, 1_000_000, dtype="bfloat16")
    ops = tuple(Op(index=i, name="aten::mm", inputs=(hidden,), module=f"h.{i}") for i in range(4))
    storages = tuple(
        Storage(i, 16 * GB, "activation", i, None, f"h.{i}.mlp", "output") for i in range(4)
    )
    return Program(
        "gpt", ops, storages, tuple(modules), parameters=2_000_000_000, samples=16, task="train"
    )


def test_a_smaller_batch_shrinks_what_belongs_to_samples() -> None:
    option = by_name(fit_options(story(60 * GB, **TRAINING), training_program()))["smaller_batch"]
    # 32 GB stay; 4 GB a sample: 7 samples in the remaining 28 GB.
    assert option.needed_bytes == 60 * GB
    assert option.fits
    assert "batch of 7 instead of 16" in option.text
    assert "16 减到 7" in render(option.text, "zh")


def test_not_even_one_sample_may_fit() -> None:
    option = by_name(fit_options(story(20 * GB, **TRAINING), training_program()))["smaller_batch"]
    assert option.needed_bytes == 36 * GB
    assert not option.fits


def test_checkpointing_keeps_inputs_and_one_layer() -> None:
    option = by_name(fit_options(story(60 * GB, **TRAINING), training_program()))["checkpointing"]
    assert option.needed_bytes == 32 * GB + 16 * GB + 4 * GB
    assert "4 layers" in option.text


def test_checkpointing_is_not_proposed_twice() -> None:
    program = training_program()
    again = replace(program.ops[0], phase="backward", recomputed=True)
    program = replace(program, ops=(*program.ops, again))
    assert "checkpointing" not in by_name(fit_options(story(60 * GB, **TRAINING), program))


def test_eight_bit_states_and_sixteen_bit_weights() -> None:
    options = by_name(fit_options(story(60 * GB, **TRAINING), training_program()))
    assert options["eight_bit_optimizer"].saves_bytes == pytest.approx(16 * GB * 0.746, rel=1e-3)
    assert options["sixteen_bit_weights"].saves_bytes == 8 * GB


def test_sharding_finds_the_least_number_of_devices() -> None:
    option = by_name(fit_options(story(84 * GB, **TRAINING), training_program()))["sharding"]
    # 64 GB of activations and two gathered layers (2 x 2 GB) stay; 32 GB / 2 = 16 GB: 84 GB.
    assert option.needed_bytes == 84 * GB
    assert "2 devices" in option.text


def test_sharding_that_cannot_help_says_so() -> None:
    option = by_name(fit_options(story(50 * GB, **TRAINING), training_program()))["sharding"]
    assert not option.fits


def test_combinations_are_tried_where_nothing_suffices_alone() -> None:
    found = fit_options(story(20 * GB, **TRAINING), training_program())
    options = by_name(found)
    # Checkpointing leaves 20 of 64 GB of activations, a batch of 1 a sixteenth of that. Beside
    # 1.25 GB and two gathered layers (4 GB) a quarter of 32 GB fits in 20 GB, a half does not.
    option = options["checkpointing+smaller_batch+sharding"]
    assert option.needed_bytes == 1.25 * GB + 32 * GB / 4 + 4 * GB
    assert found[0].fits
    assert "a batch of 1 instead of 16 and weights, gradients" in option.text


def test_combinations_are_not_needed_where_one_change_suffices() -> None:
    found = fit_options(story(60 * GB, **TRAINING), training_program())
    assert not any("+" in option.name for option in found)


def test_what_fits_comes_first() -> None:
    options = fit_options(story(60 * GB, **TRAINING), training_program())
    fits = [option.fits for option in options]
    assert fits == sorted(fits, reverse=True)


def test_inference_is_offered_quantised_weights_and_a_smaller_cache() -> None:
    program = Program("llm", (), parameters=70_000_000_000, samples=4, task="decode")
    options = by_name(fit_options(story(100 * GB, parameter=140 * GB, cache=20 * GB), program))
    assert options["quantised_weights"].needed_bytes == 90 * GB
    assert "8-bit weights" in options["quantised_weights"].text
    assert options["smaller_cache"].saves_bytes == 10 * GB
    assert "eight_bit_optimizer" not in options
    assert "checkpointing" not in options
    few = by_name(fit_options(story(60 * GB, parameter=140 * GB, cache=20 * GB), program))
    assert "4-bit weights" in few["quantised_weights"].text
    assert few["quantised_weights"].needed_bytes == 55 * GB


def test_nothing_is_proposed_without_a_capacity_or_categories() -> None:
    unknown = replace(story(60 * GB, **TRAINING), capacity_bytes=None)
    assert fit_options(unknown, training_program()) == ()
    assert fit_options(replace(story(60 * GB, **TRAINING), at_peak={})) == ()


def test_every_option_saves_what_it_says() -> None:
    whole = story(60 * GB, **TRAINING)
    for option in fit_options(whole, training_program()):
        assert option.needed_bytes + option.saves_bytes == whole.peak_bytes
        assert option.saves_bytes > 0
        assert option.fits == (option.needed_bytes <= 60 * GB)
