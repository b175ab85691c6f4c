"""A compiled step's host: one call that grows with its arrays, then thunks."""

from gpuscope.cost.host.xla import XlaHost
from gpuscope.program.types import Op


def test_the_call_grows_with_its_arrays() -> None:
    host = XlaHost(2e-6, 1.0)
    few, many = (host.cost(Op(0, "xla::execute", args={"arrays": n}), 0).before_s for n in (1, 101))
    assert many > few > 0
    assert (
        XlaHost(2e-6, 2.0).cost(Op(0, "xla::execute"), 0).before_s
        == 2 * host.cost(Op(0, "xla::execute"), 0).before_s
    )


def test_names_for_memory_cost_nothing_and_launches_what_they_take() -> None:
    host = XlaHost(2e-6, 1.0)
    nothing, one = host.cost(Op(1, "x"), 0), host.cost(Op(1, "x"), 1)
    assert nothing.before_s == nothing.per_launch_s == 0
    assert one.per_launch_s == 2e-6
    assert one.before_s > 0
