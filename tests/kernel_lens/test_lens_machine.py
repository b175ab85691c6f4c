"""Whose rules are applied, and for whom there are none."""

from __future__ import annotations

import pytest

from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.kernel_lens.machine import machine_of


@pytest.mark.parametrize("name", ["h200", "a100", "8xh100", "rtx-4090"])
def test_nvidia(name):
    machine = machine_of(name)
    assert (machine.warp_size, machine.sector_bytes, machine.line_bytes) == (32, 32, 128)
    assert machine.bank_row_bytes == 128
    assert any("Best Practices" in source for source in machine.sources)


@pytest.mark.parametrize(("name", "line"), [("mi250x", 64), ("mi300x", 128)])
def test_amd(name, line):
    machine = machine_of(name)
    assert (machine.warp_size, machine.sector_bytes, machine.line_bytes) == (64, line, line)
    assert all("AMD" in source for source in machine.sources)


@pytest.mark.parametrize("name", ["tpu-v5e", "m2-ultra", "mi355x", "rx-7900-xtx"])
def test_no_rules_no_figures(name):
    with pytest.raises(UnsupportedError, match="does not know how"):
        machine_of(name)


def test_unknown():
    with pytest.raises(UnknownNameError):
        machine_of("h2oo")
