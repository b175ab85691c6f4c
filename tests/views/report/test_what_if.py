"""What if: groups in order, every point a prediction, and nothing where there is no program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_builders import bare_run, gpt_run

from gpuscope import api
from gpuscope.document.blocks import Bars, Explorer, Lines, Paragraph, Table
from gpuscope.document.plain import dumps
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op, Program, TensorSpec
from gpuscope.views.explanation import block_document
from gpuscope.views.report.what_if import what_if_blocks


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, (shape[1], 1), "bfloat16")


def product(index: int, m: int, n: int, k: int) -> Op:
    return Op(index, "aten::mm", inputs=(spec(m, k), spec(k, n)), outputs=(spec(m, n),))


STEP = Program("step", (product(0, 8192, 8192, 8192), product(1, 8192, 50257, 768)))
RUN = api.predict(STEP, "h200")
BLOCKS = what_if_blocks(RUN)


def test_groups_stand_in_order_each_under_its_heading() -> None:
    heads = [b.text for b in BLOCKS if isinstance(b, Paragraph) and b.tone == "key"]
    assert heads == [
        "More bandwidth, more units, a faster host",
        "Another device",
        "Other shapes of the longest products",
    ]
    assert isinstance(BLOCKS[0], Paragraph)


def test_all_of_it_can_be_written_down() -> None:
    text = dumps({"blocks": [block_document(b) for b in BLOCKS]})
    assert "NaN" not in text


def test_the_figure_starts_where_the_run_is() -> None:
    found = next(b for b in BLOCKS if isinstance(b, Explorer))
    at = 0
    for slider in found.sliders:
        at = at * len(slider.values) + slider.start
    assert found.outputs[0].values[at] == RUN.step_time_s
    assert found.outputs[1].values[at] == pytest.approx(1.0)


def test_the_own_device_is_marked_with_the_runs_own_time() -> None:
    devices = next(b for b in BLOCKS if isinstance(b, Table))
    (at,) = devices.marked
    assert devices.rows[at][:2] == (RUN.target, RUN.step_time_s)
    times = [row[1] for row in devices.rows]
    assert times == sorted(times)  # type: ignore[type-var]
    assert len(times) >= 8


def test_a_run_without_a_program_has_only_what_was_varied() -> None:
    assert what_if_blocks(bare_run()) == ()
    assert what_if_blocks(replace(gpt_run(), program=None)) == ()


def test_a_program_that_no_model_can_cost_has_none() -> None:
    assert what_if_blocks(gpt_run()) == ()


@pytest.mark.parametrize("own", ["device", "constants"])
def test_a_run_of_its_own_machine_starts_from_there(own: str) -> None:
    """Its figures once took the catalogue's device, with a word of warning."""
    changes = {"overrides": {"memory_bandwidth_bytes_per_s": 1e12}}
    if own == "constants":
        changes = {"calibration": calibration_for(device("h100"))}
    changed = api.predict(STEP, "h200", **changes)
    blocks = what_if_blocks(changed)
    assert not [b for b in blocks if isinstance(b, Paragraph) and b.tone == "doubt"]
    bars = next(b for b in blocks if isinstance(b, Bars))
    assert bars.limit == changed.step_time_s


def test_padding_an_odd_vocabulary_is_advised() -> None:
    said = [b.text for b in BLOCKS if isinstance(b, Paragraph) and b.tone == "good"]
    assert len(said) == 1
    assert "N = 50272 instead of 50257" in said[0]
    assert any(isinstance(b, Lines) and "over N" in b.title for b in BLOCKS)
