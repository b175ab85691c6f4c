from __future__ import annotations

import pytest

from gpuscope.doctor.versions import (
    LEAST_DRIVER,
    SHIPPED_DRIVER,
    least_driver,
    shipped_driver,
    version,
)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2.11.0+cu130", (2, 11, 0)),
        ("13.0", (13, 0)),
        ("580.65.06", (580, 65, 6)),
        ("v1.2", (1, 2)),
        (" 3 ", (3,)),
        ("", ()),
        ("abc", ()),
        (None, ()),
        (12.4, ()),
    ],
)
def test_versions(text, numbers) -> None:
    assert version(text) == numbers


def test_newer_cuda_came_with_newer_drivers() -> None:
    ordered = sorted(SHIPPED_DRIVER, key=version)
    drivers = [version(SHIPPED_DRIVER[cuda]) for cuda in ordered]
    assert drivers == sorted(drivers)


def test_a_major_versions_oldest_driver_is_that_of_its_first_release() -> None:
    assert LEAST_DRIVER[12] == SHIPPED_DRIVER["12.0"]
    assert LEAST_DRIVER[13] == SHIPPED_DRIVER["13.0"]
    for cuda, driver in SHIPPED_DRIVER.items():
        least = least_driver(cuda)
        assert least is not None
        assert version(driver) >= version(least)


def test_what_is_not_known_is_none() -> None:
    assert least_driver("99.0") is None
    assert least_driver("") is None
    assert shipped_driver("12.7") is None
    assert shipped_driver("13.0.2") == "580.65.06"
