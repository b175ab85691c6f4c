"""`explain collective`: figures that agree with the models, in both languages, from the shell."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import app
from gpuscope.cost.collective.ways import all_reduce_s, group_of, tuning_of
from gpuscope.cost.registry import Constants
from gpuscope.document.blocks import Bars, Explanation, Facts, Table
from gpuscope.document.text import render
from gpuscope.explanation.collective import collective
from gpuscope.hardware import calibration_for, device, parse_target


def fact(explanation: Explanation, name: str) -> object:
    for section in explanation.sections:
        for block in section.blocks:
            if isinstance(block, Facts):
                for row in block.rows:
                    if row.label == name:
                        return row.value
    raise AssertionError(name)


def test_the_time_is_the_prediction_s() -> None:
    made = collective("all_reduce", "64MB", on="8xh200")
    tuning = tuning_of(Constants(calibration_for(device("h200"))))
    expected = all_reduce_s(group_of(parse_target("8xh200"), 8), 64e6, tuning)
    time = fact(made, "time")
    assert time == pytest.approx(expected)
    parts = fact(made, "latency part (alpha)"), fact(made, "bandwidth part (beta)")
    assert sum(parts) == pytest.approx(time)  # type: ignore[arg-type]
    assert fact(made, "each rank sends") == pytest.approx((1 + 1 / 8) * 64e6)  # the switch adds
    assert fact(made, "algorithm bandwidth") == pytest.approx(64e6 / expected)


def test_the_chosen_way_is_the_shortest_bar() -> None:
    made = collective("all_reduce", "64MB", on="8x8xh100")
    blocks = [b for s in made.sections for b in s.blocks]
    bars = next(b for b in blocks if isinstance(b, Bars))
    table = next(b for b in blocks if isinstance(b, Table))
    totals = [sum(p.value for p in bar.parts) for bar in bars.bars]
    assert len(totals) == 7  # ring and tree under three protocols, and the NVLS tree
    assert totals == sorted(totals)
    assert table.marked == (0,)
    assert [row[5] for row in table.rows] == pytest.approx(totals)


@pytest.mark.parametrize("operation", ["all_gather", "reduce_scatter", "all_to_all", "broadcast"])
@pytest.mark.parametrize("on", ["2xh200", "8xmi300x", "64xh100", "8xrtx-4090", "72xgb200"])
def test_every_operation_on_every_sort_of_cluster(operation: str, on: str) -> None:
    made = collective(operation, "16MiB", on=on)
    assert made.topic == "collective"
    assert len(made.summary) >= 3
    for words in (made.title, *made.summary, *made.assumptions):
        assert words
        assert any("\u4e00" <= c <= "\u9fff" for c in render(words, "zh"))


def test_small_messages_are_told_apart_from_large() -> None:
    small, large = collective("all_reduce", "1KiB"), collective("all_reduce", "4GiB")
    assert "latency, which would be the same for fewer bytes" in small.summary[1]
    assert "moving bytes" in large.summary[1]


def test_tokens_that_hide_gradients_by_hand() -> None:
    """4 FLOP a parameter and token against the message's time for its 2 bytes."""
    made = collective("all_reduce", "1GB", on="8xh200")
    tokens, flops = (
        fact(made, "tokens a rank needs per step"),
        fact(made, "arithmetic a rank could do meanwhile"),
    )
    assert tokens == pytest.approx(flops / (4 * 0.5e9))  # type: ignore[operator]


def test_from_python_and_from_the_shell() -> None:
    made = gs.explain("collective", "all_reduce", 64_000_000, on="8xh200")
    result = CliRunner().invoke(
        app, ["explain", "collective", "all_reduce", "64MB", "--on", "8xh200", "--json"]
    )
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["topic"] == "collective"
    assert document["summary"][0]["en"] == made.summary[0]
    told = CliRunner().invoke(app, ["explain", "collective", "all_gather", "1MB", "--lang", "zh"])
    assert told.exit_code == 0
    assert "接下来" in told.stdout


def test_whose_rate_the_bus_bandwidth_is_held_against() -> None:
    def said(operation: str, on: str) -> str:
        return next(
            w
            for w in gs.explain("collective", operation, "1GB", on=on).summary
            if w.startswith("Bus bandwidth")
        )

    assert "400 GB/s that InfiniBand NDR (4x port) between the nodes gives a node" in said(
        "all_reduce", "16xh200"
    )
    assert "gives a rank" in said("all_reduce", "8xh200")
    assert "gives a rank" in said("all_to_all", "16xh200")


def test_what_both_sides_lose_is_said() -> None:
    held = fact(collective("all_reduce", "64MB", on="8xh200"), "multiprocessors that it holds")
    assert held is not None
    assert fact(collective("all_reduce", "64MB", on="8xh200"), "products beside it take") > 1
    engines = collective("all_gather", "64MB", on="64xtpu-v5p")
    texts = [b.text for s in engines.sections for b in s.blocks if hasattr(b, "text")]
    assert any("Engines beside the multiprocessors" in text for text in texts)
