"""What a user may ask for that cannot be: one sentence each, in both languages, no traceback."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from made import scored_alone, tuned_alone
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.document.text import render
from gpuscope.hardware import parse_target
from gpuscope.planning.prices import OLD_DAYS, told

QUICK = pytest.fixture(scope="module", autouse=True)(scored_alone)
TUNED = pytest.fixture(scope="module", autouse=True)(tuned_alone)

SERVED = ("qwen3-8b", "--task", "serve", "--on", "h100", "--devices", "1")


def _ran(*asked: str, lang: str = "en") -> tuple[int, str]:
    """Exit code, and all that is printed as one line."""
    ran = CliRunner().invoke(app, ["plan", *asked], env={"COLUMNS": "300", "GPUSCOPE_LANG": lang})
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    assert "Traceback" not in ran.output
    return ran.exit_code, " ".join(ran.output.replace("│", " ").split())


WRONG = {
    "nothing fits: what saves most, how many devices would do": (
        ("llama-3.1-405b", "--devices", "8"),
        ("Most is saved there by", "Type: --devices"),
    ),
    "limits that contradict": (
        ("llama-3.2-1b", "--devices", "1..8", "--tokens", "1B", "--limit", "time<0.1h,power<1kW"),
        ("time<0.1h", "power<1kW"),
    ),
    "one latency twice": (
        (*SERVED, "--rate", "1", "--slo", "tpot<20ms,tpot<10ms"),
        ("tpot<20ms and tpot<10ms limit the same",),
    ),
    "no such shape of nodes": (
        ("llama-3.1-8b", "--devices", "12"),
        ("1.5 nodes", "Type: --devices 8 or 16"),
    ),
    "memory without a unit": (
        ("llama-3.1-8b", "--device-set", "memory=288"),
        ("'memory=288' has no unit", "288GB"),
    ),
    "bandwidth without a unit": (
        ("llama-3.1-8b", "--device-set", "memory=288GB,bandwidth=8"),
        ("'bandwidth=8' has no unit", "8TB/s"),
    ),
    "one figure twice": (
        ("llama-3.1-8b", "--device-set", "memory=288GB,memory=10GB"),
        ("for the second time",),
    ),
    "a kind of sharding that is none": (
        ("llama-3.1-8b", "--why", "fsdp=zero9"),
        ("value of fsdp 'zero9'", "full, hybrid, zero2, zero1, none"),
    ),
    "a degree that is no number": (("llama-3.1-8b", "--why", "tp=two"), ("whole number",)),
    "a server for a training": (
        ("llama-3.1-8b", "--for", "vllm"),
        ("--for vllm does not go with --task train", "fsdp2", "--task serve --for vllm"),
    ),
    "a trainer for a server": (
        (*SERVED, "--rate", "1", "--for", "torchtitan"),
        ("--for torchtitan does not go with --task serve", "sglang, vllm", "--task train"),
    ),
    "a server for a fine-tuning": (
        ("gpt2", "--task", "finetune", "--devices", "1", "--for", "sglang"),
        ("--for sglang does not go with --task finetune", "peft"),
    ),
    "requests of a training": (
        ("llama-3.1-8b", "--rate", "3"),
        ("--rate belongs to --task serve", "--task serve"),
    ),
    "adapters of a training": (("llama-3.1-8b", "--rank", "8"), ("--task finetune",)),
    "rows of a server": ((*SERVED, "--packing", "flash"), ("--task finetune",)),
    "mixed devices": (("llama-3.1-8b", "--on", "h200+h100"), ("mixes devices", "--on h200,h100")),
    "a batch that cannot be split": (
        ("gpt2", "--task", "finetune", "--devices", "4", "--global-batch", "13", "--seq", "64"),
        ("13 sequences are not divisible", "A batch of 12, 16 can be split"),
    ),
    "sequences beyond the positions": (
        ("gpt2", "--devices", "1"),
        ("1024 positions", "--seq 1024"),
    ),
    "no price": (("gpt2", "--on", "gaudi-3", "--devices", "8", "--goal", "cost"), ("--prices",)),
    "no such goal": (("gpt2", "--goal", "speed"), ("time, cost, energy",)),
    "money without currency": (("gpt2", "--limit", "cost<500"), ("no unit", "US dollars")),
    "another currency": (("gpt2", "--limit", "cost<500eur"), ("eur", "US dollars")),
    "no such unit": (("gpt2", "--limit", "time<3moons"), ("moons", "ms, s, min, h, d or w")),
    "a framework that cannot": (
        ("llama-3.1-8b", "--precision", "fp8", "--for", "fsdp2"),
        ("cannot start precision fp8", "These can:"),
    ),
    "a framework that cannot on one device": (
        ("gpt2", "--seq", "1024", "--devices", "1", "--offload", "cpu", "--for", "fsdp2"),
        ("one rank alone", "These can:"),
    ),
    "no such framework": (("gpt2", "--for", "caffe"), ("caffe",)),
    "a precision that the device lacks": (
        ("llama-3.1-8b", "--on", "a100", "--precision", "fp8"),
        ("has no fp8", "--precision bf16"),
    ),
    "a device that does not exist": (("any", "--on", "nothing", "--days", "7"), ("nothing",)),
    "days without any": (("gpt2", "--days", "7"), ("--days",)),
    "no room for a model: how many devices have it": (
        ("llama-3.1-405b", "--task", "serve", "--on", "h100", "--devices", "1", "--rate", "1"),
        ("does not fit", "Type: --devices 16"),
    ),
    "no load": (SERVED, ("--rate 6",)),
    "keys and values in nothing known": (
        (*SERVED, "--rate", "1", "--kv-dtype", "bfloat16,fp9"),
        ("not kept in 'fp9'", "--kv-dtype bfloat16 or fp8"),
    ),
    "a sharing of tokens that is none": (("llama-3.2-1b", "--sp", "maybe"), ("maybe", "on, off")),
    "experts beyond those there are": (
        ("qwen3-30b-a3b", "--devices", "8", "--why", "beauty=3"),
        ("names no candidate", "ep, "),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    asked, said = WRONG[name]
    code, english = _ran(*asked)
    assert code in (2, 3)
    for part in said:
        assert part in english
    code, chinese = _ran(*asked, lang="zh")
    assert code in (2, 3)
    assert re.search("[\u4e00-\u9fff]", chinese)
    assert not re.search(r"[a-z]{3,} [a-z]{2,} [a-z]{3,} [a-z]{2,}", chinese)  # no English sentence


def test_degrees_beyond_what_a_model_has() -> None:
    """tp beyond the heads, ep beyond the experts, cp that does not divide."""
    for asked, said in (
        (("llama-3.2-1b", "--devices", "8", "--why", "tp=7"), "7"),
        (("qwen3-30b-a3b", "--devices", "8", "--why", "ep=256"), "256"),
        (("llama-3.2-1b", "--devices", "8", "--why", "cp=3"), "3"),
    ):
        code, output = _ran(*asked)
        assert code == 0
        assert said in output.split("Why not")[1].replace(asked[-1], "")


def test_a_limit_of_latency_that_nothing_keeps_names_the_nearest_and_is_no_success() -> None:
    for lang, words in (("en", "The nearest is"), ("zh", "最接近")):
        code, output = _ran(*SERVED, "--rate", "1", "--slo", "tpot<0.1ms", lang=lang)
        assert code == 3
        assert words in output
        assert "h100" in output


def test_too_many_requests_say_how_many_devices_would_do() -> None:
    code, output = _ran(*SERVED, "--rate", "500")
    assert code == 3
    most, devices = re.findall(r"(\S+) a second\. At that rate each, (\d+) x", output)[0]
    assert int(devices) == pytest.approx(500 / float(most), abs=1)


def test_slices_that_keep_no_limit_are_no_success() -> None:
    asked = ("qwen3-8b", "--task", "serve", "--on", "h100:slices", "--rate", "1")
    assert _ran(*asked, "--slo", "tpot<0.1ms")[0] == 3
    assert _ran(*asked, "--slo", "tpot<80ms")[0] == 0


def test_several_nodes_say_which_link_is_taken() -> None:
    code, output = _ran("llama-3.1-8b", "--on", "h100", "--devices", "16", "--simulate", "1")
    assert code == 0
    assert "2 nodes" in output
    assert "InfiniBand" in output


def test_an_old_price_is_told() -> None:
    device = parse_target("h100").device
    read = datetime.date.fromisoformat(device.price_date or "")
    for days, old in ((OLD_DAYS, False), (OLD_DAYS + 1, True)):
        lines = told([device], read + datetime.timedelta(days=days))
        assert any("days old" in render(line, "en") for line in lines) is old


@pytest.mark.slow
def test_code_that_cannot_be_captured_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("def build():\n    return 1 / 0\n", "utf-8")
    code, output = _ran(f"{path}:build", "--on", "h200")
    assert code == 2
    assert "ZeroDivisionError" in output
    assert "line 2" in output or ":2" in output


def test_what_was_left_out_of_a_large_question_is_counted() -> None:
    code, output = _ran("llama-3.1-8b", "--on", "h100", "--devices", "8..64", "--simulate", "2")
    assert code == 0
    assert int(re.findall(r"others had the better quick score (\d+)", output)[0]) > 100
