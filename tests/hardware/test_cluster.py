"""Targets become topologies that can exist."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware import Cluster, device, device_ids, devices, parse_target
from gpuscope.hardware.cluster import _TARGET, _counted, build_cluster, torus_shape


def test_one_device() -> None:
    cluster = parse_target("h200")
    assert (cluster.n_devices, cluster.nodes, cluster.scale_up_domain_devices) == (1, 1, 1)
    assert cluster.scale_up is None
    assert cluster.scale_out is None
    assert cluster.assumptions == ()
    assert cluster.name == "nvidia-h200-sxm"


@pytest.mark.parametrize("name", device_ids())
def test_a_bare_device_has_its_own_links(name: str) -> None:
    cluster = Cluster.of(device(name))
    assert (cluster.device, cluster.n_devices, cluster.nodes) == (device(name), 1, 1)
    assert cluster.host_link == device(name).host_link
    assert cluster == parse_target(name)


@pytest.mark.parametrize("name", ["mi250x", "ascend-910c", "intel-max-1550"])
def test_a_package_of_several_devices_says_so(name: str) -> None:
    assert device(name).package_devices == 2
    assert any("the package" in str(said) for said in Cluster.of(device(name)).assumptions)
    assert not Cluster.of(device("h200")).assumptions


def test_one_node() -> None:
    cluster = parse_target("8xH200")
    assert (cluster.nodes, cluster.devices_per_node, cluster.scale_up_domain_devices) == (1, 8, 8)
    assert cluster.scale_up is not None
    assert cluster.scale_up.bandwidth_bytes_per_s == 450e9
    assert cluster.scale_out is None
    assert cluster.node.n_devices == 8
    assert cluster.price_usd_per_hour == pytest.approx(8 * 7.91)


def test_many_nodes() -> None:
    cluster = parse_target("1024xh100")
    assert (cluster.nodes, cluster.devices_per_node, cluster.domains) == (128, 8, 128)
    assert cluster.scale_out is not None
    assert cluster.scale_out.id == "infiniband-ndr"
    assert cluster.scale_out_bandwidth_bytes_per_s == 50e9
    assert cluster.scale_out_latency_s is not None
    assert any("InfiniBand NDR" in a for a in cluster.assumptions)
    assert parse_target("2x8xh200").n_devices == 16
    assert parse_target("3x4xh200").devices_per_node == 4


def test_a_domain_can_span_hosts() -> None:
    rack = parse_target("72xgb200")
    assert (rack.nodes, rack.devices_per_node, rack.scale_up_domain_devices) == (18, 4, 72)
    assert rack.scale_out is None
    assert parse_target("3xgb200").scale_up_domain_devices == 3
    two = parse_target("144xgb200")
    assert (two.scale_up_domain_devices, two.domains) == (72, 2)
    assert two.scale_out is not None
    uneven = parse_target("128xgb200")
    assert uneven.scale_up_domain_devices == 64
    assert any("64 makes them equal" in a for a in uneven.assumptions)


def test_a_domain_can_be_a_part_of_a_host() -> None:
    bridged = parse_target("4xh100-pcie")
    assert (bridged.devices_per_node, bridged.scale_up_domain_devices) == (4, 2)
    assert any("host link" in a for a in bridged.assumptions)


def test_consumer_cards_talk_over_pcie_and_share_one_port() -> None:
    cards = parse_target("16x4090")
    assert cards.scale_up is None
    assert cards.scale_up_domain_devices == 1
    assert cards.host_link is not None
    assert cards.host_link.id == "pcie-4.0-x16"
    assert cards.scale_out_bandwidth_bytes_per_s == pytest.approx(12.5e9 / 8)


def test_tpu_slices_are_tori() -> None:
    cluster = parse_target("64xtpu-v5p")
    assert cluster.torus_shape == (4, 4, 4)
    assert cluster.scale_up_domain_devices == 64
    assert cluster.scale_out is None
    assert parse_target("256xtpu-v5e").torus_shape == (16, 16)
    assert parse_target("512xtpu-v5e").domains == 2
    assert torus_shape(None, 8) is None


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("12xh200", "8 or 16"),
        ("16777216xh200", "larger than 1,048,576"),
        ("0xh200", "no devices"),
        ("0x8xh200", "no devices"),
        ("2x0xh200", "no devices"),
        ("2x16xh200", "largest node"),
        ("2xm2-max", "no link"),
        ("16xgroq-lpu-v1", "at most 8"),
        ("6xtpu-v5p", "4 or 8"),
        ("3xtpu-v5p", "1, 2, 4"),
        ("", "empty"),
    ],
)
def test_a_cluster_that_cannot_exist(target: str, said: str) -> None:
    with pytest.raises(InvalidValueError) as error:
        parse_target(target)
    assert said in str(error.value)
    assert error.value.next_step


def test_an_unknown_device_in_a_target() -> None:
    with pytest.raises(UnknownNameError, match="h200"):
        parse_target("8xh2oo")


def test_spaces_and_other_signs() -> None:
    for text in ("8 x h200", "8×h200", "8*H200", " 8xh200 ", "8XH200"):
        assert parse_target(text).n_devices == 8


def test_a_what_if_device_keeps_the_shape() -> None:
    cluster = parse_target("16xh200")
    faster = cluster.device.replace(scale_up_bandwidth_bytes_per_s=9e11)
    changed = cluster.with_device(faster)
    assert (changed.nodes, changed.devices_per_node) == (2, 8)
    assert changed.scale_up is not None
    assert changed.scale_up.bandwidth_bytes_per_s == 9e11


@given(st.sampled_from(devices()), st.integers(min_value=1, max_value=3000))
def test_every_cluster_is_whole(found, n: int) -> None:
    try:
        cluster = build_cluster(found, n)
    except InvalidValueError:
        assume(False)  # which clusters are refused, and how, is tested above
    assert cluster.nodes * cluster.devices_per_node == n
    assert cluster.domains * cluster.scale_up_domain_devices == n
    assert cluster.memory_bytes == n * found.memory_bytes
    if cluster.torus_shape:
        assert math.prod(cluster.torus_shape) == cluster.scale_up_domain_devices
    if cluster.domains > 1 and cluster.nodes > 1:
        assert cluster.scale_out is not None
        assert cluster.scale_out_bandwidth_bytes_per_s


@pytest.mark.parametrize("found", devices(), ids=lambda d: d.id)
def test_a_full_node_exists_for_every_device(found) -> None:
    for n in found.devices_per_node_options:
        if n == 1 or found.scale_up is not None or found.devices_per_node > 1:
            assert build_cluster(found, n).nodes == 1


def test_gaudi_fabric_counts_the_ports_that_leave_the_box() -> None:
    """Three of a Gaudi 3's 24 ports of 200 Gb/s leave the box: 75 GB/s."""
    assert parse_target("16xgaudi3").scale_out_bandwidth_bytes_per_s == pytest.approx(75e9)
    assert device("gaudi3").scale_up_bandwidth_bytes_per_s == 525e9


class TestNamesThatBeginWithDigits:
    @pytest.mark.parametrize(
        ("text", "nodes", "each"),
        [("7900xtx", 1, 1), (" 7900XTX ", 1, 1), ("1x7900xtx", 1, 1), ("1x1x7900xtx", 1, 1)],
    )
    def test_a_count_is_followed_by_a_known_device(self, text, nodes, each) -> None:
        found = parse_target(text)
        assert found.device.id == "amd-rx-7900-xtx"
        assert (found.nodes, found.devices_per_node) == (nodes, each)

    def test_two_of_them_are_counted(self) -> None:
        assert _counted(_TARGET.match("2x7900xtx")) == ("2", None, "7900xtx")
        assert _counted(_TARGET.match("2x8x7900xtx")) == ("2", "8", "7900xtx")

    def test_counts_of_others_stay(self) -> None:
        assert parse_target("2x8xh200").nodes == 2
        assert parse_target("8 x h200").n_devices == 8

    def test_an_unknown_name_is_named_alone(self) -> None:
        with pytest.raises(UnknownNameError, match="'h2000000'"):
            parse_target("8xh2000000")


def test_a_mesh_of_neighbours_is_a_cluster() -> None:
    cluster = parse_target("25xtesla-dojo-d1")
    assert cluster.torus_shape == (5, 5)
    assert cluster.scale_up_domain_devices == 25
    assert any("mesh" in text and "open" in text for text in cluster.assumptions)
