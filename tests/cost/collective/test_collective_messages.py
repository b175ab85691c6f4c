"""Messages between two ranks, and between one and all."""

from __future__ import annotations

import pytest

from gpuscope.cost.collective.messages import ends_of, pair_way, root_way
from gpuscope.cost.collective.ways import NCCL, group_of
from gpuscope.cost.engine import cost_program
from gpuscope.cost.registry import Constants, Work
from gpuscope.cost.types import Kernel
from gpuscope.hardware import calibration_for, device, parse_target
from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec

TWO_NODES = parse_target("2x8xh100")
MESSAGE = TensorSpec((2**25,), (1,), "bfloat16", "device", 0)
PIPELINE = ProcessGroup("0", "pp", (0, 4, 8, 12))


def kernel_of(name: str, peer: int, rank: int, **args: object) -> Kernel:
    op = Op(
        0,
        name,
        inputs=(MESSAGE,),
        outputs=(MESSAGE,) if "recv" in name else (),
        group=0,
        peer=peer,
        args=args,
    )
    program = Program("p", (op,), groups=(PIPELINE,), rank=rank, world_size=16)
    return cost_program(program, TWO_NODES.device, cluster=TWO_NODES).ops[0].kernels[0]


def test_between_nodes_a_message_has_the_port_of_its_sender() -> None:
    inside, across = kernel_of("c10d::send", 4, 0), kernel_of("c10d::send", 8, 4)
    assert (inside.scope, across.scope) == ("domain", "fabric")
    assert across.moving_s == pytest.approx(2**26 / (0.9 * 50e9))
    assert inside.moving_s < across.moving_s / 5
    assert (across.kind, across.lane, across.limiter) == ("collective", "link", "link")


def test_a_receive_takes_as_long_as_its_send() -> None:
    send, recv = kernel_of("c10d::send", 8, 4), kernel_of("c10d::recv_", 4, 8)
    assert send.duration_s == recv.duration_s


def test_small_messages_are_soon_there() -> None:
    group = group_of(parse_target("8xh200"), 2)
    assert pair_way(group, 1024, NCCL).protocol.name == "LL"
    assert pair_way(group, 1 << 20, NCCL).protocol.name == "Simple"
    assert pair_way(group, 8, NCCL).time_s < 12e-6


def test_a_mesh_gives_a_message_one_link() -> None:
    group = group_of(parse_target("8xmi300x"), (1, 6))
    assert pair_way(group, 2**30, NCCL).moving_s == pytest.approx(2**30 / (0.8 * 64e9))


def test_whose_message_it_is() -> None:
    h100 = device("h100")
    constants = Constants(calibration_for(h100))

    def ends(peer: int, rank: int = -1, group: ProcessGroup | None = PIPELINE) -> tuple[int, int]:
        op = Op(0, "c10d::send", inputs=(MESSAGE,), peer=peer)
        return ends_of(Work(op, h100, constants, group=group, rank=rank))

    assert ends(8, rank=4) == (4, 8)
    assert ends(8) == (4, 8)  # the neighbour before it in the pipeline
    assert ends(0) == (4, 0)
    assert ends(3, group=None) == (2, 3)


def test_the_root_s_links_set_the_time_of_a_gather() -> None:
    """Seven parts of eight over one rank's links; eight of sixteen over its port."""
    node, two = group_of(TWO_NODES, 8), group_of(TWO_NODES, 16)
    assert root_way(node, 8e9, NCCL).moving_s == pytest.approx(7e9 / (0.8 * 450e9))
    assert root_way(two, 16e9, NCCL).moving_s == pytest.approx(8e9 / (0.9 * 50e9))


@pytest.mark.parametrize("name", ["c10d::gather_", "c10d::scatter_"])
def test_gathers_of_a_program(name: str) -> None:
    parts = tuple(TensorSpec((2**20,), (1,), "float32", "device", i) for i in range(4))
    ins, outs = ((*parts, parts[0]), parts) if "gather" in name else ((parts[0], *parts), parts[:1])
    op = Op(0, name, inputs=ins, outputs=outs, group=0)
    program = Program("p", (op,), groups=(ProcessGroup("0", "", (0, 1, 2, 3)),), world_size=4)
    (kernel,) = cost_program(program, TWO_NODES.device, cluster=TWO_NODES).ops[0].kernels
    group = group_of(TWO_NODES, 4)
    assert kernel.moving_s == pytest.approx(root_way(group, 4 * 2**22, NCCL).moving_s, rel=0.4)
