"""What waits for what, row by row, as done by hand."""

from __future__ import annotations

from gpuscope.program.types import Op, TensorSpec
from gpuscope.timeline.dependencies import waits_by_row

LINK = frozenset({9})


def spec(storage: int) -> TensorSpec:
    return TensorSpec((4,), (1,), "float32", storage=storage)


def op(index: int, *, reads=(), writes=(), name="aten::add", **fields) -> Op:
    return Op(
        index, name, inputs=tuple(map(spec, reads)), outputs=tuple(map(spec, writes)), **fields
    )


def waits(ops, queues):
    """Queues: one a row, None where the operator launches nothing, tuples for several rows."""
    calls, rows = [], []
    for position, queue in enumerate(queues):
        own = () if queue is None else queue if isinstance(queue, tuple) else (queue,)
        calls.append((position, len(rows), len(rows) + len(own)))
        rows += own
    return waits_by_row(ops, calls, rows, LINK)


def test_memory_written_on_another_queue_is_waited_for():
    ops = [op(0, writes=[1]), op(1, reads=[1], stream=1)]
    assert waits(ops, [0, 1]) == {1: (0,)}


def test_memory_written_on_the_same_queue_is_not():
    assert waits([op(0, writes=[1]), op(1, reads=[1])], [0, 0]) == {}


def test_memory_read_before_it_is_written_was_written_by_the_step_before():
    ops = [op(0, reads=[1], stream=1), op(1), op(2, writes=[1])]
    assert waits(ops, [1, 0, 0]) == {0: (-1,)}


def test_an_order_makes_the_next_task_wait_for_the_whole_operator():
    ops = [op(0), op(1, stream=1, waits=(0,))]
    assert waits(ops, [(0, 0, 0), 1]) == {3: (2,)}


def test_a_negative_order_is_of_the_step_before():
    # Three rows a step; the last operator (row 2) of the step before is row -1.
    ops = [op(0, waits=(-1,)), op(1), op(2, stream=1)]
    assert waits(ops, [0, 0, 1]) == {0: (-1,)}


def test_an_operator_without_tasks_hands_its_waits_on():
    collective = op(0, reads=[1], writes=[2], name="_c10d_functional::all_reduce", group=0)
    wait = op(1, reads=[2], writes=[2], name="_c10d_functional::wait_tensor")
    assert waits([collective, wait, op(2), op(3)], [9, None, 0, 0]) == {1: (0,)}


def test_a_wait_tensor_that_is_a_view_waits_all_the_same():
    collective = op(0, writes=[2], name="_c10d_functional::all_reduce", group=0)
    wait = op(1, reads=[2], writes=[2], name="_c10d_functional::wait_tensor", view=True)
    assert waits([collective, wait, op(2)], [9, None, 0]) == {1: (0,)}


def test_a_collective_does_not_use_up_what_its_stream_waits_for():
    first = op(0, writes=[2], name="c10d::allreduce_", group=0)
    second = op(2, name="c10d::allreduce_", group=1)
    found = waits_by_row(
        [first, op(1, waits=(0,)), second, op(3)],
        [(0, 0, 1), (1, 1, 1), (2, 1, 2), (3, 2, 3)],
        [9, 8, 0],
        frozenset({8, 9}),
    )
    assert found == {1: (0,), 2: (0,)}


def test_an_order_given_with_a_collective_holds_for_its_stream():
    ops = [op(0, stream=1), op(1, name="c10d::send", group=0, waits=(0,)), op(2)]
    assert waits(ops, [1, 9, 0]) == {1: (0,), 2: (0,)}


def test_to_wait_for_an_operator_without_tasks_is_to_wait_for_its_stream_then():
    ops = [op(0), op(1), op(2), op(3, stream=1, waits=(1,))]
    assert waits(ops, [0, None, 0, 1]) == {2: (0,)}


def test_orders_left_at_the_end_hold_for_the_next_step():
    ops = [op(0), op(1, stream=1), op(2, waits=(1,))]
    assert waits(ops, [0, 1, None]) == {0: (-1,)}


def test_a_host_that_waits_for_a_stream_waits_for_what_the_stream_waits_for():
    ops = [op(0, name="c10d::allreduce_", group=0), op(1, waits=(0,)), op(2, sync="item")]
    # The wait of the host is a row of its own, with a negative queue.
    assert waits(ops, [9, None, -2]) == {1: (0,)}


def test_a_host_that_waits_in_a_collective_waits_for_the_collective():
    ops = [op(0), op(1, name="c10d::barrier", group=0, sync="barrier")]
    assert waits(ops, [0, (9, -2)]) == {2: (1,)}


def test_of_a_queue_only_the_last_row_is_waited_for():
    ops = [op(0), op(1), op(2), op(3, stream=1, waits=(0, 2, 1))]
    assert waits(ops, [0, 0, 0, 1]) == {3: (2,)}


def test_rows_side_by_side_are_all_waited_for():
    ops = [op(0, group=0), op(1, group=0), op(2, group=0), op(3, waits=(0, 1, 2))]
    calls = [(n, n, n + 1) for n in range(4)]
    assert waits_by_row(ops, calls, [9, 9, 9, 0], LINK, {2: 1}) == {3: (1, 2)}


def test_what_runs_piece_by_piece_is_ordered_by_its_waits_alone():
    piece = {"overlapped": True}
    ops = [
        op(0, writes=[1]),
        op(1, reads=[1], writes=[2], stream=1, args=piece),
        op(2, reads=[2]),
        op(3, waits=(1,)),
    ]
    assert waits(ops, [0, 9, 0, 0]) == {3: (1,)}
