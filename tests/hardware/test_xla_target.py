"""The description that XLA compiles for has the catalogue's figures."""

import re

import pytest

from gpuscope.errors import UnsupportedError
from gpuscope.hardware import device
from gpuscope.hardware.xla_target import target_config


@pytest.mark.parametrize("name", ["h200", "a100-80gb", "b200"])
def test_it_is_this_device(name: str) -> None:
    found = device(name)
    text = target_config(found)
    assert text.count("{") == text.count("}")
    figures = dict(re.findall(r"^  (\w+): (\d+)$", text, re.MULTILINE))
    assert int(figures["core_count"]) == found.compute_units
    assert int(figures["l2_cache_size"]) == found.l2_bytes
    assert int(figures["memory_bandwidth"]) == found.memory_bandwidth_bytes_per_s


def test_other_makers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="JAX programs"):
        target_config(device("mi300x"))
