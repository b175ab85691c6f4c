"""A compiled step's memory is what XLA settled, and its kernels come in command buffers."""

import pytest
from jax_compiled_steps import STEPS, compiled_step, program

from gpuscope.cost.anew import as_run
from gpuscope.hardware import device
from gpuscope.program.jax.executable import as_program
from gpuscope.timeline import simulate_memory


@pytest.mark.parametrize("name", STEPS)
def test_the_peak_is_xlas_own(name: str) -> None:
    compiled, _ = compiled_step(name)
    made = program(name)
    told = compiled.argument_bytes + compiled.output_bytes - compiled.alias_bytes
    told += compiled.temp_bytes
    # The result of the step before is dropped when the next is there.
    old = compiled.output_bytes - compiled.alias_bytes
    peak = simulate_memory(made).peak_allocated_bytes
    assert told - 1024 <= peak <= told + old + 512 * len(made.storages)


def test_a_donated_argument_is_written_in_place() -> None:
    made = program("loop")
    weights = [s for s in made.storages if s.nbytes == 6 * 512 * 512 * 2 and s.born < 0]
    assert len(weights) == 1
    assert not [s for s in made.storages if s.died is None and s.born >= 0 and s.nbytes > 64]
    written = [op for op in made.ops for spec in op.outputs if spec.storage == weights[0].id]
    assert written


def test_enough_kernels_in_a_row_are_one_launch() -> None:
    made = program("loop")
    graphs: dict[int, int] = {}
    for op in made.ops:
        graphs[op.graph] = graphs.get(op.graph, 0) + (not op.view)
    assert all(kernels >= 5 for graph, kernels in graphs.items() if graph)
    assert len(graphs) > 1


def test_a_convolution_stays_out_of_command_buffers() -> None:
    assert all(op.graph == 0 for op in program("images").ops if "convolution" in op.name)


def test_it_trains_where_something_is_differentiated() -> None:
    assert program("loop").task == "train"
    assert program("images").task == "inference"


def test_storages_are_numbered_in_order() -> None:
    made = as_program(*compiled_step("sharded"), "sharded")
    assert [s.id for s in made.storages] == list(range(len(made.storages)))
    for op in made.ops:
        assert all(spec.storage < len(made.storages) for spec in (*op.inputs, *op.outputs))


def test_the_libraries_memory_is_in_xlas_block() -> None:
    made = program("images")
    assert as_run(made, device("h200")) is made
