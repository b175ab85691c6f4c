"""Settings of PyTorch's caching allocator."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.checks.allocator import KEYS, read_settings
from gpuscope.doctor.machine import Recording

CONF = "PYTORCH_CUDA_ALLOC_CONF"


def with_settings(text: str, name: str = CONF) -> Recording:
    found = nvml([h200()])
    found.environment[name] = text
    return found


def test_settings_are_read_as_written() -> None:
    assert read_settings("expandable_segments:True, max_split_size_mb:128") == {
        "expandable_segments": "True",
        "max_split_size_mb": "128",
    }
    nested = read_settings("roundup_power2_divisions:[64:8,>:1],backend:native")
    assert nested == {"roundup_power2_divisions": "[64:8,>:1]", "backend": "native"}
    assert read_settings("") == {}
    assert read_settings("backend") == {"backend": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("expandable_segments:True", ["ok"]),
        ("max_split_size_mb:128", ["ok"]),
        ("max_split_size_mb:10", ["error"]),
        ("garbage_collection_threshold:0.8", ["ok"]),
        ("garbage_collection_threshold:80", ["error"]),
        ("expandable_segment:True", ["warning"]),
        ("backend:cudaMallocAsync", ["note"]),
        ("expandable_segments:True,max_split_size_mb:128", ["note"]),
    ],
)
def test_each_setting_has_its_severity(text: str, expected: list[str]) -> None:
    assert sorts(findings("allocator", with_settings(text))) == expected
    assert sorts(findings("allocator", with_settings(text, "PYTORCH_ALLOC_CONF"))) == expected


def test_two_variables_that_differ_are_told_with_the_one_that_counts() -> None:
    found = with_settings("expandable_segments:True")
    found.environment["PYTORCH_ALLOC_CONF"] = "max_split_size_mb:64"
    told = the(findings("allocator", found), "note")
    assert told.found.startswith(CONF)


def test_the_variable_of_rocm_is_not_read_with_cuda() -> None:
    found = with_settings("no_such_key:1", "PYTORCH_HIP_ALLOC_CONF")
    assert sorts(findings("allocator", found)) == ["ok"]
    found.probes.clear()
    assert sorts(findings("allocator", found)) == ["warning"]


def test_a_machine_without_devices_says_nothing() -> None:
    assert findings("allocator", Recording()) == []
    assert sorts(findings("allocator", nvml([h200()]))) == ["ok"]


def test_every_key_that_the_installed_pytorch_lists_is_known() -> None:
    """Its header names the keys of CUDA and ROCm; a newer PyTorch with a new key fails here."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    header = Path(spec.origin).parent / "include/c10/cuda/CUDAAllocatorConfig.h"
    if not header.is_file():
        pytest.skip("this PyTorch has no headers")
    listed = re.search(r"keys\{(.+?)\};", header.read_text("utf-8"), re.DOTALL)
    assert listed is not None
    joined = re.sub(r'"\s+"', "", re.sub(r"//[^\n]*", "", listed[1]))
    keys = set(re.findall(r'"(\w+)"', joined))
    assert "backend" in keys
    assert keys <= KEYS
