"""Kernel names: known ones by hand, every recorded one, and any text at all."""

from __future__ import annotations

import csv
import gzip
import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import app
from gpuscope.document.blocks import Facts, Lines, Table
from gpuscope.document.text import Text, render
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.explanation.kernel_names import FIELDS, known_examples, read_kernel_name
from gpuscope.explanation.kernel_names.symbol import mangled_names, mangled_numbers, parse
from gpuscope.explanation.kernel_names.tokens import Rule, read_tokens

ROOT = Path(__file__).resolve().parents[2]

NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT"
CUTLASS = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)"
)
XMMA = (
    "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize32x32x64_stage3_warpsize2x2x1_tensor16x8x8"
    "_aligna4_alignc4_execute_kernel__5x_cublas"
)
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
    "cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, "
    "true, false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)"
)


def said(symbol: str) -> dict[str, list[str]]:
    read = read_kernel_name(symbol)
    assert read is not None
    found: dict[str, list[str]] = {}
    for piece in read.pieces:
        found.setdefault(piece.field, []).append(piece.value)
    return found


def test_nvjet_by_hand() -> None:
    read = read_kernel_name(NVJET)
    assert read is not None
    assert (read.tile, read.stages, read.input_bits, read.threads) == ((256, 128, 64), 4, 16, 384)
    assert read.unread == ("bz",)
    fields = said(NVJET)
    assert (fields["inputs"], fields["accumulator"], fields["output"]) == (
        ["bf16"],
        ["fp32"],
        ["bf16"],
    )
    assert fields["epilogue"] == ["adds a bias"]
    assert fields["layout"] == ["A transposed, B as stored, result transposed (column-major view)"]
    assert said("nvjet_sm90_qqtst_128x256_128x4_2x1_v_bz_TNT")["inputs"] == ["fp8 × fp8"]


def test_cutlass_by_hand() -> None:
    """CUTLASS writes the result's dtype before the operation and the inputs' behind it."""
    read = read_kernel_name(CUTLASS)
    assert read is not None
    assert read.complete
    assert (read.tile, read.stages) == ((256, 128, 32), 3)
    fields = said(CUTLASS)
    assert fields["output"] == ["bf16"]
    assert fields["inputs"] == ["bf16"]
    assert fields["operation"] == ["matrix product, added up in fp32, 16×8×16 instructions"]
    assert fields["epilogue"] == ["ReLU"]
    plain = said("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4>")
    assert plain["inputs"] == ["fp32, rounded to tf32"]
    assert plain["output"] == ["fp32"]
    mixed = said("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_128x128_64x5_nt_align8")
    assert (mixed["inputs"], mixed["output"]) == (["bf16"], ["fp32"])
    simt = said("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nt_align1>")
    assert simt["inputs"] == ["fp32"]
    assert "no tensor cores" in simt["unit"][0]


def test_xmma_by_hand() -> None:
    read = read_kernel_name(XMMA)
    assert read is not None
    assert read.complete
    assert (read.tile, read.stages, read.threads) == ((32, 32, 64), 3, 128)
    assert said(XMMA)["inputs"] == ["fp32, multiplied as tf32"]
    split = said(
        "sm90_xmma_wgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize64x128x64"
        "_warpgroupsize1x1x1_g1_execute_segment_k_on_kernel__5x_cudnn"
    )
    assert split["split"] == ["K is split over several blocks"]


def test_flash_by_hand() -> None:
    read = read_kernel_name(FLASH)
    assert read is not None
    assert (read.tile, read.threads) == ((128, 128, 64), 128)
    fields = said(FLASH)
    assert fields["head"] == ["64"]
    assert "causal: only earlier keys" in fields["mask"]
    assert fields["dropout"] == ["no dropout"]


@pytest.mark.parametrize(
    ("symbol", "field", "text"),
    [
        ("triton_red_fused__log_softmax_nll_loss_forward_1", "fused", "aten::_log_softmax"),
        ("triton_red_fused__log_softmax_nll_loss_forward_1", "fused", "aten::nll_loss_forward"),
        ("triton_poi_fused_add_gelu_3", "number", "kernel 3 of its graph"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "dtype", "bf16"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "dtype", "fp32"),
        ("ampere_sgemm_128x64_nn", "tile", "128 × 64 of the result for each block"),
        ("Cijk_Alik_Bljk_BBS_BH_MT256x192x64_MI16x16x1_SN_ISA942", "architecture", "gfx942"),
        ("Cijk_Alik_Bljk_BBS_BH_MT256x192x64_MI16x16x1_SN_ISA942", "inputs", "bf16"),
        ("fmha_cutlassB_f16_notaligned_64x64_k128_dropout_sm80", "head", "at most 128"),
        ("Memcpy HtoD (Pageable -> Device)", "route", "host to device"),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8_wt64x16x4", "inputs", "bf16"),
        (
            "void at::native::elementwise_kernel<128, 4, at::native::X>(int, at::native::X)",
            "threads",
            "128",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, float, float, 10, "
            "true, false>(float*)",
            "variant",
            "rows of up to 2^10 values",
        ),
    ],
)
def test_pieces_by_hand(symbol: str, field: str, text: str) -> None:
    assert text in said(symbol)[field]


@pytest.mark.parametrize(
    ("symbol", "word"),
    [
        ("void vllm::paged_attention_v2_kernel<unsigned short, unsigned short, 128>", "decoding"),
        ("void vllm::act_and_mul_kernel<c10::BFloat16, x>(int)", "Gated"),
        ("fused_moe_kernel", "mixture of experts"),
        ("kernel_unified_attention_2d", "Triton"),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<x>(y)", "FlashInfer"),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(x)", "All-reduce"),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "mixture of experts"),
        ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwdSm90<a>>>", "backward"),
    ],
)
def test_kernels_of_servers(symbol: str, word: str) -> None:
    read = read_kernel_name(symbol)
    assert read is not None
    assert word in read.what


def test_every_reader_has_an_example_that_it_reads() -> None:
    for example in known_examples():
        read = read_kernel_name(example)
        assert read is not None
        assert read.pieces
        assert render(read.library, "zh")


@cache
def recorded_names() -> tuple[str, ...]:
    """Every kernel's name in the repository's recordings and traces."""
    names = set()
    for file in sorted((ROOT / "validation/recordings").rglob("*.csv.gz")):
        with gzip.open(file, "rt") as lines:
            names |= {row["kernel"] for row in csv.DictReader(lines) if row.get("kernel")}
    for file in sorted((ROOT / "tests/data/traces").rglob("*.json.gz")):
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        names |= {e["name"] for e in events if e.get("cat") in ("kernel", "gpu_memcpy")}
    return tuple(sorted(names))


def test_every_recorded_name_is_read() -> None:
    """All name their library; of most every piece is understood, of the rest all but a token."""
    names = recorded_names()
    assert len(names) > 1800
    read = [read_kernel_name(name) for name in names]
    assert all(kernel is not None for kernel in read)
    complete = sum(kernel.complete for kernel in read if kernel) / len(names)
    nearly = sum(len(kernel.unread) <= 1 for kernel in read if kernel) / len(names)
    assert complete > 0.70
    assert nearly > 0.98
    untold = sum(kernel.library == "not told by the name" for kernel in read if kernel)
    assert untold / len(names) < 0.01
    assert all(piece.field in FIELDS for kernel in read if kernel for piece in kernel.pieces)


@given(st.text(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_text(text: str) -> None:
    read_kernel_name(text)
    parse(text)
    mangled_names("_Z" + text)


@given(
    st.sampled_from([NVJET, CUTLASS, XMMA, FLASH, *known_examples()]),
    st.integers(0, 300),
    st.text(alphabet="<>(),: _x0189abN", max_size=6),
)
@settings(max_examples=100, deadline=None)
def test_damaged_names(symbol: str, at: int, put: str) -> None:
    """Cut off or with rubbish in the middle: no crash, and no tile that is not in the text."""
    for damaged in (symbol[:at], symbol[:at] + put + symbol[at:]):
        read = read_kernel_name(damaged)
        if read is not None:
            assert all(str(number) in damaged for number in read.tile)
        if damaged.strip():
            gs.explain("kernel", damaged)


def test_symbols_by_hand() -> None:
    found = parse("void a::b::f<int, c<d, 2>, (e)0>(int*, c<d>)")
    assert (found.path, found.name) == ("a::b::f", "f")
    assert found.arguments == ("int", "c<d, 2>", "(e)0")
    assert not found.cut
    assert parse("void f<int, at::na").cut
    assert parse("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(x)").path == (
        "internal::gemvx::kernel"
    )
    assert parse("void a::(anonymous namespace)::g<1>(int)").path == "a::g"
    mangled = "_ZN7cutlass6KernelINS_4gemm9GemmShapeILi128ELi64ELi32EEEEE"
    assert mangled_names(mangled) == ("cutlass", "Kernel", "gemm", "GemmShape")
    assert mangled_numbers(mangled, "GemmShape") == (128, 64, 32)


def test_tokens_that_no_rule_knows_are_told() -> None:
    rules = (Rule("a_b", "other", lambda _: Text("two")), Rule("c", "other", lambda _: Text("one")))
    pieces, unread = read_tokens("a_b_x_c", rules)
    assert [piece.text for piece in pieces] == ["a_b", "c"]
    assert unread == ("x",)


def test_tiles_are_counted_into_waves() -> None:
    """H200: 132 units; 192 KiB of tiles let one block run on each; 4096/256 x 4096/128 = 512."""
    explained = gs.explain("kernel", NVJET, on="h200")
    section = next(s for s in explained.sections if s.title.startswith("On NVIDIA H200"))
    facts, table, curve = section.blocks
    assert isinstance(facts, Facts)
    assert isinstance(curve, Lines)
    assert curve.series[0].y[63] == pytest.approx(512 / (4 * 132))  # side 4096
    values = {fact.label: fact.value for fact in facts.rows}
    assert values["shared memory of a block"] == (256 + 128) * 64 * 2 * 4
    assert values["blocks of one wave"] == 132
    assert isinstance(table, Table)
    row = next(row for row in table.rows if row[0] == "4096 × 4096")
    assert row[1] == 512
    assert row[2] == pytest.approx(512 / 132)
    assert row[3] == pytest.approx(512 / (4 * 132))


def test_in_a_recording() -> None:
    run = gs.load(ROOT / "tests/data/traces/h200/compute_bound")
    explained = gs.explain("kernel", "nvjet", trace=run)
    facts = explained.sections[0].blocks[0]
    assert isinstance(facts, Facts)
    values = {fact.label: fact.value for fact in facts.rows}
    events = run.timeline.events
    symbol = explained.sections[1].blocks[2].text.removeprefix("The whole symbol: ")
    rows = events.name == run.timeline.names.index(symbol)
    assert values["launches"] == rows.sum()
    assert values["in all"] == pytest.approx(events.duration_ns[rows].sum() * 1e-9)
    launches = explained.sections[0].blocks[1]
    assert isinstance(launches, Table)
    assert sum(row[0] for row in launches.rows) == values["launches"]


def test_unknown_names_say_what_is_known() -> None:
    explained = gs.explain("kernel", "void mine::fast_thing<int, 3>(int*)")
    facts = explained.sections[0].blocks[0]
    assert isinstance(facts, Facts)
    values = {fact.label: fact.value for fact in facts.rows}
    assert values == {
        "function": "fast_thing",
        "namespaces": "mine",
        "template argument 1": "int",
        "template argument 2": "3",
    }
    near = gs.explain("kernel", "ampere_sgemx_128x64_nn")
    assert any(isinstance(b, Table) for b in near.sections[0].blocks)


def test_wrong_input() -> None:
    with pytest.raises(InvalidValueError, match="no kernel name"):
        gs.explain("kernel", "  ")
    with pytest.raises(InvalidValueError, match="too long"):
        gs.explain("kernel", "x" * 30_000)
    with pytest.raises(UnknownNameError, match="h2000"):
        gs.explain("kernel", NVJET, on="h2000")
    run = gs.load(ROOT / "tests/data/traces/h200/compute_bound")
    with pytest.raises(InvalidValueError, match="The longest here: nvjet"):
        gs.explain("kernel", "qqq", trace=run)


def test_command() -> None:
    result = CliRunner().invoke(app, ["explain", "kernel", NVJET, "--json", "--lang", "zh"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["topic"] == "kernel"
    missing = CliRunner().invoke(app, ["explain", "kernel", "x", "--trace", "nothing.json"])
    assert missing.exit_code == 2


def test_a_tile_of_nothing_has_no_waves() -> None:
    found = gs.explain("kernel", "ampere_sgemm_0x0_tn")
    assert not any(isinstance(b, Lines) for s in found.sections for b in s.blocks)


def test_of_a_cluster_one_device_counts() -> None:
    alone, many = (gs.explain("kernel", NVJET, on=on) for on in ("h200", "8xh200"))
    assert alone.sections == many.sections
