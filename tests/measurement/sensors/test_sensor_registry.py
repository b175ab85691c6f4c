from __future__ import annotations

import pytest

from gpuscope.errors import UnknownNameError
from gpuscope.measurement.sensors import open_sensor, sensor_vendor, vendors
from gpuscope.measurement.sensors.visible import visible


def test_every_vendor_is_there() -> None:
    names = [vendor.name for vendor in vendors()]
    assert names == ["amd", "apple", "cpu_package", "intel", "nvidia"]
    assert [v.name for v in vendors() if not v.accelerator] == ["cpu_package"]


def test_unknown_and_absent() -> None:
    with pytest.raises(UnknownNameError, match="nvida"):
        open_sensor(0, "nvida")
    assert open_sensor(0, "apple") is None
    assert open_sensor(999) is None


def test_a_name_twice() -> None:
    vendors()
    with pytest.raises(ValueError, match="two of the sort"):
        sensor_vendor("nvidia")(lambda index: None)


@pytest.mark.parametrize(
    ("environment", "index", "wanted"),
    [
        ({}, 3, 3),
        ({"CUDA_VISIBLE_DEVICES": "2, 5"}, 1, 5),
        ({"CUDA_VISIBLE_DEVICES": "2,-1,5"}, 1, None),  # the list ends at an invalid entry
        ({"CUDA_VISIBLE_DEVICES": "2,-1,5"}, 0, 2),
        ({"CUDA_VISIBLE_DEVICES": ""}, 0, None),
        ({"CUDA_VISIBLE_DEVICES": "1,1"}, 0, None),
        ({"CUDA_VISIBLE_DEVICES": "GPU-ab,MIG-cd"}, 1, "MIG-cd"),
        ({}, -1, None),
    ],
)
def test_visible_devices(environment, index, wanted) -> None:
    assert visible(index, environment) == wanted


def test_the_first_variable_decides() -> None:
    environment = {"HIP_VISIBLE_DEVICES": "4", "CUDA_VISIBLE_DEVICES": "7"}
    assert visible(0, environment, ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")) == 4
