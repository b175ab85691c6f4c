"""What options become, and which cannot be."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError
from gpuscope.program.models import Settings, WorkloadOptions, find, model_names
from gpuscope.program.models.settings import (
    ATTENTIONS,
    COMPILE_MODES,
    DTYPES,
    OPTIMIZERS,
    TASKS,
    canonical_dtype,
)
from gpuscope.program.models.settle import settle


def settled(name: str, **options: object) -> Settings:
    return settle(find(name), WorkloadOptions(**options))  # type: ignore[arg-type]


def test_defaults_of_a_language_model() -> None:
    got = settled("llama-3.1-8b")
    assert (got.task, got.batch, got.seq, got.context) == ("train", 1, 2048, 0)
    assert (got.dtype, got.amp, got.optimizer, got.compile) == ("bfloat16", False, "adamw", "")
    assert (got.weight_dtype, got.compute_dtype, got.device) == ("bfloat16", "bfloat16", "cuda")


def test_decode_has_a_context_and_no_sequence() -> None:
    got = settled("llama-3.1-8b", task="decode", context=100)
    assert (got.seq, got.context, got.optimizer) == (0, 100, "")
    with pytest.raises(InvalidValueError, match="seq"):
        settled("llama-3.1-8b", task="decode", seq=5)
    with pytest.raises(InvalidValueError, match="context"):
        settled("llama-3.1-8b", task="train", context=5)


@pytest.mark.parametrize(
    ("options", "weights", "compute", "amp"),
    [
        ({}, "float32", "bfloat16", True),
        ({"amp": False}, "bfloat16", "bfloat16", False),
        ({"dtype": "fp32"}, "float32", "float32", False),
        ({"dtype": "tf32"}, "float32", "float32", False),
        ({"dtype": "fp16"}, "float32", "float16", True),
        ({"dtype": "half", "amp": False}, "float16", "float16", False),
        ({"task": "inference"}, "bfloat16", "bfloat16", False),
        ({"task": "inference", "dtype": "float16"}, "float16", "float16", False),
    ],
)
def test_precision_of_a_model_that_trains_mixed(
    options: dict[str, object], weights: str, compute: str, amp: bool
) -> None:
    got = settled("vit-b-16", **options)
    assert (got.weight_dtype, got.compute_dtype, got.amp) == (weights, compute, amp)


def test_float16_training_is_mixed_even_where_bfloat16_is_not() -> None:
    assert settled("llama-3.1-8b", dtype="bfloat16").amp is False
    assert settled("llama-3.1-8b", dtype="float16").amp is True
    assert settled("llama-3.1-8b", dtype="float16", task="prefill").amp is False


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        ("gpt2", {"task": "inference"}, "prefill"),
        ("resnet50", {"task": "decode"}, "inference"),
        ("gpt2", {"batch": 0}, "batch"),
        ("gpt2", {"seq": -4}, "seq"),
        ("gpt2", {"layers": 0}, "layers"),
        ("gpt2", {"image": 224}, "image"),
        ("resnet50", {"seq": 10}, "seq"),
        ("resnet50", {"layers": 3}, "layers"),
        ("resnet50", {"attention": "eager"}, "attention"),
        ("resnet50", {"dtype": "fp8"}, "fp8"),
        ("mixtral-8x7b", {"dtype": "fp8"}, "fp8"),
        ("vit-b-16", {"image": 225}, "--image 224"),
        ("gpt2", {"task": "decode", "optimizer": "sgd"}, "optimizer"),
        ("gpt2", {"task": "prefill", "checkpointing": True}, "checkpointing"),
        ("lstm", {"checkpointing": True}, "checkpointing"),
        ("gpt2", {"dtype": "float32", "amp": True}, "float32"),
        ("gpt2", {"dtype": "float32", "attention": "flash"}, "flash"),
    ],
)
def test_what_cannot_be_is_said(model: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        settled(model, **options)
    assert says.lower() in str(caught.value).lower()
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("options", "near"),
    [
        ({"task": "trian"}, "train"),
        ({"dtype": "bfloat61"}, "bfloat16"),
        ({"optimizer": "adamww"}, "adamw"),
        ({"attention": "sdp"}, "sdpa"),
        ({"compile": "reduce-overheads"}, "reduce-overhead"),
        ({"device": "cud"}, "cuda"),
    ],
)
def test_unknown_words_list_the_near_ones(options: dict[str, object], near: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        settled("gpt2", **options)
    assert near in caught.value.near
    assert caught.value.next_step


def test_gemma_2_offers_eager_attention_only() -> None:
    assert settled("gemma-2-2b", attention="eager").attention == "eager"
    with pytest.raises(UnknownNameError, match="eager"):
        settled("gemma-2-2b", attention="flash")


@pytest.mark.parametrize(
    ("written", "name"),
    [("BF16", "bfloat16"), ("torch.float16", "float16"), ("fp32", "float32"), ("TF32", "tf32")],
)
def test_dtypes_as_people_write_them(written: str, name: str) -> None:
    assert canonical_dtype(written) == name


@given(
    name=st.sampled_from([m.name for m in model_names()]),
    options=st.fixed_dictionaries(
        {},
        optional={
            "task": st.sampled_from(TASKS),
            "batch": st.integers(-2, 64),
            "seq": st.integers(-2, 64),
            "image": st.integers(-2, 512),
            "context": st.integers(-2, 64),
            "dtype": st.sampled_from(DTYPES),
            "amp": st.booleans(),
            "attention": st.sampled_from(ATTENTIONS),
            "optimizer": st.sampled_from(OPTIMIZERS),
            "compile": st.sampled_from(COMPILE_MODES),
            "checkpointing": st.booleans(),
            "layers": st.integers(-1, 4),
        },
    ),
)
def test_options_are_kept_or_refused_never_dropped(name: str, options: dict[str, object]) -> None:
    try:
        got = settled(name, **options)
    except GpuscopeError:
        return
    for key, value in options.items():
        assert getattr(got, key) == value, key
    assert got.batch > 0
    assert (got.task == "train") == bool(got.optimizer)
    assert not (got.amp and got.dtype in ("float32", "tf32", "fp8"))


def test_every_default_settles() -> None:
    for line, dtype in itertools.product(model_names(), ("float32", "bfloat16", "float16")):
        for task in line.tasks:
            assert settled(line.name, task=task, dtype=dtype).task == task
