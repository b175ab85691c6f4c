"""Groups in every way in which XLA writes them, and where a collective is waited for."""

import pytest
from jax_compiled_steps import program

from gpuscope.program.jax.hlo import Instruction
from gpuscope.program.jax.instructions.collectives import ranks_of


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("{{0,1},{2,3}}", (0, 1)),
        ("{{1,3},{0,2}}", (0, 2)),
        ("{}", tuple(range(8))),
        ("[2,4]<=[8]", (0, 1, 2, 3)),
        ("[4,2]<=[2,4]T(1,0)", (0, 4)),
        ("mesh['data'=2,'model'=4] {'model'}", (0, 1, 2, 3)),
        ("mesh['data'=2,'model'=4] {'data'}", (0, 4)),
        ("mesh['axis_0'=2,'axis_1'=1] {'axis_0'}", (0, 1)),
    ],
)
def test_the_first_ranks_group(text: str, ranks: tuple[int, ...]) -> None:
    given = Instruction("c", "all-reduce", (), (), {"replica_groups": text})
    assert ranks_of(given, 8) == ranks


def test_a_gradient_is_summed_over_the_mesh() -> None:
    made = program("sharded")
    (op,) = [each for each in made.ops if each.group >= 0]
    assert op.name == "_c10d_functional::all_reduce"
    assert op.inputs[0].nbytes == 1024 * 512 * 4
    assert made.groups[op.group].ranks == (0, 1)
    assert made.world_size == 2
    waits = [each for each in made.ops if each.name.endswith("wait_tensor")]
    assert [each.inputs[0].storage for each in waits] == [op.outputs[0].storage]
    assert waits[0].index > op.index
