"""The catalogue's files: complete, sourced, consistent with physics; bad files are refused."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from gpuscope.errors import CatalogueError, UnknownNameError
from gpuscope.hardware import device, devices, interconnect, interconnects
from gpuscope.hardware.cluster import torus_shape
from gpuscope.hardware.loader import load_device
from gpuscope.hardware.names import CATALOGUE, aliases

ALL = devices()
IDS = [d.id for d in ALL]
GIB = 2**30


def test_every_file_loads_and_nothing_is_lost() -> None:
    assert len(ALL) == len(list((CATALOGUE / "devices").glob("*.toml"))) >= 80
    assert len(interconnects()) == len(list((CATALOGUE / "interconnects").glob("*.toml"))) >= 54


def test_every_source_and_limits_file_is_used() -> None:
    files = list((CATALOGUE / "devices").glob("*.toml"))
    text = "".join(
        p.read_text()
        for d in ("devices", "limits", "interconnects", "slices")
        for p in (CATALOGUE / d).glob("*.toml")
    )
    with (CATALOGUE / "sources.toml").open("rb") as file:
        unused = [s for s in tomllib.load(file)["sources"] if f'"{s}"' not in text]
    assert unused == []
    used = {tomllib.loads(p.read_text()).get("limits") for p in files}
    assert {p.stem for p in (CATALOGUE / "limits").glob("*.toml")} <= used


ORIGINS = ("datasheet", "secondary source", "measured", "estimated")


def test_what_only_others_tell_is_of_a_secondary_source() -> None:
    for name, field, origin in (
        ("tpu-v5p", "bf16", "datasheet"),  # Google's documentation
        ("cerebras-wse3", "launch_year", "secondary source"),  # as the press reported
        ("nvidia-a10", "memory_bytes", "secondary source"),  # databases of third parties
        ("nvidia-gb10", "fp4", "estimated"),  # arithmetic from two anchors
        ("nvidia-h200-sxm", "l2_bytes", "measured"),  # the device itself, when asked
        ("tesla-dojo-d1", "scale_up_bandwidth_bytes_per_s", "secondary source"),
    ):
        assert device(name).origin(field) == origin, (name, field)
    edge = device("tesla-dojo-d1").scale_up
    assert edge is not None
    assert edge.bandwidth_origin == "secondary source"


@pytest.mark.parametrize("found", ALL, ids=IDS)
def test_every_figure_has_a_source(found) -> None:
    sourced = dict(found.sources)
    for field in dataclasses.fields(found):
        value = getattr(found, field.name)
        if field.name == "structured_sparsity_multiplier" and value == 1.0:
            continue  # none is stated
        if field.name == "package_devices":
            continue  # PyTorch's way to count, see `granularity`
        if isinstance(value, (int, float)):
            assert sourced.get(field.name), f"{field.name} = {value} has no source"
            assert found.origin(field.name) in ORIGINS
    for rate, _ in found.peaks:
        assert sourced.get(rate), rate


@pytest.mark.parametrize("found", ALL, ids=IDS)
def test_limits_agree_with_each_other(found) -> None:
    assert found.memory_usable_bytes <= found.memory_bytes
    assert found.memory_usable_bytes > 0.6 * found.memory_bytes
    if found.max_warps_per_unit is not None:
        assert found.max_warps_per_unit * found.warp_size == found.max_threads_per_unit
    if found.shared_memory_per_unit_bytes is not None:
        assert found.shared_memory_per_block_bytes <= found.shared_memory_per_unit_bytes
        if found.vendor == "NVIDIA":
            reserved = found.shared_memory_reserved_per_block_bytes
            left = found.shared_memory_per_unit_bytes - reserved
            assert found.shared_memory_per_block_bytes == left
    if found.scale_up is not None and found.scale_up.links_per_device:
        per_link = found.scale_up.bandwidth_per_link_bytes_per_s
        total = found.scale_up.bandwidth_bytes_per_s
        if per_link and total and "package" not in found.granularity:
            assert per_link * found.scale_up.links_per_device >= total * 0.85
    if found.tdp_w is not None and found.idle_power_w is not None:
        assert found.idle_power_w < found.tdp_w / 2


WITH_LANES = [
    d
    for d in ALL
    if "fp32" in dict(d.peaks) and None not in (d.fp32_lanes_per_unit, d.compute_units, d.clock_hz)
]


@pytest.mark.parametrize("found", WITH_LANES, ids=lambda d: d.id)
def test_fp32_peak_is_lanes_times_clock(found) -> None:
    """Peak = units x lanes x 2 FLOP x clock, or the file says that it does not fit."""
    fp32 = dict(found.peaks)["fp32"]
    expected = 2 * found.fp32_lanes_per_unit * found.compute_units * found.clock_hz
    fits = abs(fp32 / expected - 1) <= 0.03
    admitted = "fp32" in found.doubtful and any("FP32 does not fit" in n for n in found.notes)
    assert fits != admitted


@pytest.mark.parametrize("found", [d for d in ALL if d.vendor == "NVIDIA"], ids=lambda d: d.id)
def test_tensor_rates_halve_with_each_doubling_of_width(found) -> None:
    """Dense rates: a sparse figure that slipped in would show up as a factor of two."""
    peaks = dict(found.peaks)
    if "bf16" in peaks and "fp16" in peaks:
        assert peaks["bf16"] == peaks["fp16"]
    if "fp8" in peaks and found.id != "nvidia-gb10":
        assert peaks["fp8"] / peaks["fp16"] == pytest.approx(2, rel=0.02)
    most_per_clock = {7: 1024, 8: 2048, 9: 4096, 10: 8192, 12: 1024}[found.compute_capability[0]]
    if "fp16" in peaks and found.clock_hz:
        assert found.flops_per_clock_per_unit("float16") <= most_per_clock * 1.01


def test_most_gpus_can_be_checked() -> None:
    assert len(WITH_LANES) >= 50


def test_known_answers() -> None:
    h200, mi300x, tpu = device("h200"), device("mi300x"), device("tpu-v5p")
    assert h200.memory_usable_bytes == 150_109_880_320  # torch.cuda.get_device_properties
    assert h200.l2_bytes == 60 * 2**20
    assert h200.origin("l2_bytes") == "measured"
    assert h200.shared_memory_per_unit_bytes == 233_472
    assert h200.memory_bandwidth_bytes_per_s == 4.8e12
    # 132 SMs x 4,096 FLOP/clock x 1.83 GHz
    assert h200.peak_flops_per_s("bfloat16") == pytest.approx(132 * 4096 * 1.83e9, rel=1e-3)
    # 304 CUs x 2,048 FLOP/clock x 2.1 GHz
    assert mi300x.peak_flops_per_s("float16") == pytest.approx(304 * 2048 * 2.1e9, rel=1e-3)
    assert mi300x.warp_size == 64
    assert tpu.warp_size is None
    assert tpu.scale_up_max_devices == 8960
    assert device("a100").memory_bytes == 80 * GIB


def test_a_package_with_two_pytorch_devices_is_halved() -> None:
    gcd = device("mi250x")
    assert gcd.compute_units == 110
    assert gcd.memory_bytes == 64 * GIB
    assert gcd.peak_flops_per_s("float16") == pytest.approx(191.5e12)
    assert gcd.memory_bandwidth_bytes_per_s == pytest.approx(1.6385e12)
    assert gcd.devices_per_node == 8
    assert "one of 2" in gcd.name
    assert gcd.max_threads_per_unit == 2048  # limits of a unit are not shared out


def test_links_are_one_direction() -> None:
    assert interconnect("pcie-5.0-x16").bandwidth_bytes_per_s == 63e9
    assert interconnect("nvlink-4").bandwidth_bytes_per_s == 450e9
    assert device("a800").scale_up.bandwidth_bytes_per_s == 200e9  # cut NVLink 3
    assert device("a800").scale_up.bandwidth_per_link_bytes_per_s == pytest.approx(25e9 * 2 / 3)
    half = interconnect("pcie-4.0-x16").with_lanes(8)
    assert half.bandwidth_bytes_per_s == 31.5e9 / 2
    assert half.name == "PCIe 4.0 x8"
    assert device("b580").host_link.name == "PCIe 4.0 x8"
    assert interconnect("infinity-fabric-mi300x").is_point_to_point
    assert not interconnect("nvlink-4").is_point_to_point


def test_how_a_link_is_wired_does_not_hang_on_its_words() -> None:
    for link in interconnects():
        assert (link.wiring == "torus") == (link.torus_dimensions is not None)
    for name in ("amd-mi350x", "amd-mi355x", "amd-mi210"):  # no switch joins them
        mesh = device(name).scale_up
        assert mesh is not None
        assert mesh.wiring == "mesh"
    reworded = dataclasses.replace(interconnect("ici-v5p"), topology="a ring of meshes")
    assert torus_shape(reworded, 64) == (4, 4, 4)
    assert torus_shape(device("trainium2").scale_up, 16) == (4, 4)
    assert torus_shape(device("trainium2").scale_up, 64) == (4, 4, 4)
    with pytest.raises(UnknownNameError, match="nvlink-4"):
        interconnect("nvlink4")


def _copy(tmp_path: Path, old: str, new: str) -> Path:
    text = (CATALOGUE / "devices" / "nvidia-h200-sxm.toml").read_text()
    assert old in text
    path = tmp_path / "nvidia-h200-sxm.toml"
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("memory_bandwidth_bytes_per_s = 4.8e12", "", "memory.memory_bandwidth_bytes_per_s"),
        ("bandwidth_bytes_per_s = 4.8e12", "bandwidth_bytes_per_s = -1", "memory_bandwidth"),
        ("compute_units = 132", 'compute_units = "many"', "compute.compute_units"),
        ("tdp_w = 700", "tdp_watts = 700", "power.tdp_watts"),
        ("fp8 = 1.9789e15", "fp9 = 1.9789e15", "compute.peak_flops_per_s.fp9"),
        ('l2_bytes = "measured"', 'l2_bytes = "rumour"', "origins.l2_bytes"),
        ("[sources]", '[sources]\nlast_level_cache_bytes = ["techpowerup"]', "last_level_cache"),
        ("[sources]", '[sources]\nno_such_field = ["techpowerup"]', "no_such_field"),
        ('["techpowerup"]', '["no-such-source"]', "no-such-source"),
        ('id = "nvidia-h200-sxm"', 'id = "nvidia-h200"', "id"),
        ("[power]", "[power", "TOML"),
    ],
)
def test_a_bad_file_is_refused_by_file_and_field(tmp_path, old, new, field) -> None:
    with pytest.raises(CatalogueError) as error:
        load_device(_copy(tmp_path, old, new))
    assert "nvidia-h200-sxm.toml" in str(error.value)
    assert field in str(error.value)


def test_one_file_is_all_a_new_device_needs(tmp_path) -> None:
    path = tmp_path / "acme-one.toml"
    path.write_text(
        """
        id = "acme-one"
        name = "Acme One"
        vendor = "Acme"
        architecture = "One"
        granularity = "one board"
        confidence = "shaky"
        [compute]
        compute_unit_label = "core"
        [compute.peak_flops_per_s]
        bf16 = 1e14
        [memory]
        memory_capacity_bytes = 1_000_000
        memory_usable_bytes = 900_000
        memory_bandwidth_bytes_per_s = 1e12
        [sources]
        bf16 = ["Acme datasheet of 2030"]
        """
    )
    found = load_device(path)
    assert found.peak_flops_per_s("bfloat16") == 1e14
    assert found.source("bf16") == "Acme datasheet of 2030"
    assert found.compute_units is None
    assert found.origin("compute_units") is None


def test_aliases_name_devices_that_exist_and_are_not_files_themselves() -> None:
    assert set(aliases().values()) <= set(IDS)
    assert not set(aliases()) & set(IDS)
