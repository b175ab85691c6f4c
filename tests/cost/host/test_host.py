"""Host costs, added up by hand from constants that the test sets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.cost.engine import cost_program
from gpuscope.cost.host.model import HostModel, host_class
from gpuscope.cost.registry import Constants
from gpuscope.hardware import device
from gpuscope.hardware.calibration import CalibratedValue, Calibration, Distance
from gpuscope.program.types import Op, Program, Storage, TensorSpec

US = 1e-6
DEVICE = TensorSpec((4, 4), (4, 1), "float32", "device", 0)
HOST = replace(DEVICE, device="host", storage=1)

KNOWN = {
    "host.scale": 1.0,
    "host.mixed_factor": 1.0,
    "host.collective.mixed_factor": 1.0,
    "host.python_call_s": 0.5 * US,
    "host.python_instruction_s": 0.0,
    "host.dispatch_s": 0.0,
    "host.start.other_s": 0.0,
    "host.launch_s": 2 * US,
    "host.module_call_s": 3 * US,
    "host.backward_node_s": 5 * US,
    "host.view.plain_s": 1 * US,
    "host.view.autograd_s": 1.5 * US,
    "host.item_s": 8 * US,
    "host.item_host_s": 0.7 * US,
    "host.synchronize_s": 4 * US,
    "host.pointwise.plain_s": 6 * US,
    "host.pointwise.autograd_s": 9 * US,
    "host.start.forward_s": 0.0,
    "host.start.backward_s": 0.0,
    "host.start.optimizer_s": 0.0,
    "host.zero_grad.per_parameter_s": 0.0,
    "host.foreach.plain_s": 10 * US,
    "host.adamw_foreach.per_parameter_s": 2 * 0.7 * US + 12 * 0.25 * US,
    "host.adamw_fused.per_parameter_s": 2 * US,
}


def constants(**changed: float) -> Constants:
    values = KNOWN | {f"host.{k}": v for k, v in changed.items()}
    entries = tuple(
        (name, CalibratedValue(value, "s", "measured", value, value))
        for name, value in sorted(values.items())
    )
    return Constants(Calibration("test", "test", Distance.SAME_DEVICE, "", entries))


def cost(op: Op, *, launches: int = 1, others: tuple[Op, ...] = (), storages=(), **changed: float):
    """Host cost of `op`, second in a program."""
    ops = (Op(0, "aten::neg"), replace(op, index=1), *others)
    model = HostModel(constants(**changed), Program("test", ops, storages))
    return model.cost(ops[1], launches)


def total(op: Op, launches: int = 1, **kwargs) -> float:
    found = cost(op, launches=launches, **kwargs)
    return found.before_s + launches * found.per_launch_s + found.after_s


ADD = Op(1, "aten::add", inputs=(DEVICE, DEVICE), outputs=(DEVICE,))


def test_a_call_with_its_launch_is_what_was_measured() -> None:
    assert total(ADD) == pytest.approx(6 * US)
    assert total(replace(ADD, autograd=True)) == pytest.approx(9 * US)


def test_further_launches_cost_only_their_launch() -> None:
    assert total(ADD, launches=3) == pytest.approx(6 * US + 2 * 2 * US)


def test_modules_and_python_are_paid_by_the_operator_after_them() -> None:
    op = replace(ADD, module_calls=2, python_calls=10)
    assert total(op) == pytest.approx(6 * US + 2 * 3 * US + 10 * 0.5 * US)


def test_views() -> None:
    view = Op(1, "aten::view", inputs=(DEVICE,), outputs=(DEVICE,), view=True)
    assert total(view, launches=0) == pytest.approx(1 * US)
    assert total(replace(view, autograd=True), launches=0) == pytest.approx(1.5 * US)


def test_reading_a_value() -> None:
    item = Op(1, "aten::_local_scalar_dense", inputs=(DEVICE,), sync="item")
    assert total(item, launches=0) == pytest.approx(8 * US / 2 + 8 * US / 4)
    assert cost(item, launches=0).sync == "item"
    on_host = replace(item, inputs=(HOST,), sync="")
    assert total(on_host, launches=0) == pytest.approx(0.7 * US)
    wait = Op(1, "gpuscope::synchronize", sync="synchronize", view=False)
    assert cost(wait, launches=0).before_s == pytest.approx(4 * US)


def test_lists_cost_by_their_length() -> None:
    listed = Op(
        1,
        "aten::_foreach_mul_",
        inputs=(DEVICE,) * 6,
        args={"self": ("tensor",) * 6},
        phase="optimizer",
    )
    assert total(listed) == pytest.approx(10 * US + 6 * 0.25 * US)
    fused = replace(listed, name="aten::_fused_adamw_")
    assert total(fused) == pytest.approx(10 * US + 6 * 2 * US)


def test_an_operator_that_was_measured_by_itself() -> None:
    found = total(ADD, **{"op.add.plain_s": 4 * US})
    assert found == pytest.approx(4 * US)
    in_place = replace(ADD, name="aten::add_")
    assert total(in_place, **{"op.add.plain_s": 4 * US}) == pytest.approx(4 * US)


def test_nodes_of_the_backward_pass() -> None:
    op = replace(ADD, phase="backward", autograd_nodes=1)
    # The forward pass recorded nothing else, so no node is hidden.
    assert total(op) == pytest.approx(6 * US + 5 * US)


def test_nodes_that_call_nothing_are_spread_over_the_backward_pass() -> None:
    """Three forward nodes and two parameters, one seen: four hidden nodes over two operators."""
    forward = tuple(replace(ADD, index=2 + i, autograd=True) for i in range(3))
    backward = replace(ADD, phase="backward", autograd_nodes=1)
    another = replace(ADD, index=5, phase="backward")
    gradients = tuple(Storage(i, 64, "gradient", 1, None) for i in range(2))
    found = total(backward, others=(*forward, another), storages=gradients)
    assert found == pytest.approx(6 * US + 5 * US + (3 + 2 - 1) / 2 * 5 * US)


def test_recomputed_operators_are_forward_calls() -> None:
    op = replace(ADD, phase="backward", autograd=True, recomputed=True, autograd_nodes=1)
    assert total(op) == pytest.approx(9 * US)


def test_entering_a_phase_is_paid_once() -> None:
    first = replace(ADD, phase="optimizer")
    later = replace(ADD, index=2, phase="optimizer")
    ops = (Op(0, "aten::neg"), first, later)
    model = HostModel(constants(**{"start.optimizer_s": 100 * US}), Program("test", ops))
    assert model.cost(first, 1).before_s == pytest.approx((4 + 100) * US)
    assert model.cost(later, 1).before_s == pytest.approx(4 * US)


def test_zero_grad_is_paid_at_the_start_by_parameter() -> None:
    ops = (replace(ADD, index=0),)
    gradients = tuple(Storage(i, 64, "gradient", 0, None) for i in range(7))
    known = constants(**{"zero_grad.per_parameter_s": 1 * US})
    model = HostModel(known, Program("test", ops, gradients))
    assert model.cost(ops[0], 1).before_s == pytest.approx(4 * US + 7 * US)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_another_host_scales_everything(scale) -> None:
    op = replace(ADD, module_calls=1, python_calls=4, sync="nonzero")
    assert total(op, scale=scale) == pytest.approx(scale * total(op))


def test_single_calls_leave_out_what_only_programs_have() -> None:
    op = replace(ADD, python_calls=10)
    known = constants(**{"start.forward_s": 50 * US, "mixed_factor": 2.0, "scale": 1.5})
    model = HostModel(known, Program("test", (replace(op, index=0),)), single_calls=True)
    assert model.cost(replace(op, index=0), 1).before_s == pytest.approx(4 * US)


def test_no_call_is_free() -> None:
    assert cost(ADD, **{"pointwise.plain_s": 1 * US}).before_s == pytest.approx(0.2 * US)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mm", "matmul"),
        ("aten::addmm", "matmul"),
        ("aten::bmm", "matmul"),
        ("aten::add_", "pointwise"),
        ("aten::native_dropout", "pointwise"),
        ("gpuscope::attention_backward", "attention"),
        ("gpuscope::rnn", "recurrent"),
        ("aten::convolution_backward", "convolution"),
        ("aten::native_layer_norm", "normalization"),
        ("aten::_foreach_addcmul_", "foreach"),
        ("aten::_fused_adamw_", "foreach"),
        ("aten::_log_softmax_backward_data", "softmax"),
        ("aten::embedding", "gather"),
        ("aten::index_put_", "gather"),
        ("aten::sum", "reduction"),
        ("aten::_to_copy", "copy"),
        ("aten::new_zeros", "factory"),
        ("other::mystery", "other"),
    ],
)
def test_classes(name, kind) -> None:
    assert host_class(name) == kind


def test_every_operator_of_a_program_costs_the_host_something() -> None:
    ops = (ADD, replace(ADD, autograd=True), replace(ADD, view=True))
    program = Program("test", tuple(replace(op, index=i) for i, op in enumerate(ops)))
    for name in ("h200", "mi300x", "rtx-4090"):
        assert all(c.host.before_s > 0 for c in cost_program(program, device(name)).ops)


def test_a_view_that_python_asked_for_pays_the_way_to_cpp() -> None:
    view = replace(ADD, name="aten::view", view=True, python_calls=1)
    inside = replace(view, index=1)
    product = replace(ADD, name="aten::mm", index=2, python_calls=0)
    after = replace(ADD, index=3, python_calls=1)
    lone = replace(view, index=0)
    program = Program("test", (lone, inside, product, after))
    known = constants(
        **{"op.view.plain_s": 5 * US, "view.plain_s": 1 * US, "launch_s": 0.0, "start.forward_s": 0}
    )
    model = HostModel(known, program, single_calls=True)
    assert model.cost(lone, 0).before_s == pytest.approx(5 * US)
    assert model.cost(inside, 0).before_s == pytest.approx(1 * US)


def test_python_is_paid_by_its_instructions() -> None:
    op = replace(ADD, python_instructions=200)
    known = {"python_instruction_s": 0.01 * US}
    assert total(op, **known) == pytest.approx(total(ADD, **known) + 2 * US)


def test_every_operator_of_a_program_pays_dispatch() -> None:
    assert total(ADD, dispatch_s=2 * US) == pytest.approx(total(ADD) + 2 * US)


KERNEL = {"op.empty.plain_s": 2 * US, "op.add.plain_s": 6 * US, "op.mm.plain_s": 9 * US}


def test_a_recurrent_layer_alternates_products_and_cells() -> None:
    """A product 9 - 2, a cell 6 - 2 microseconds: each launch is half of both together."""
    layer = Op(1, "gpuscope::rnn", inputs=(DEVICE,), outputs=(DEVICE,))
    few = total(layer, launches=100, **KERNEL)
    more = total(layer, launches=300, **KERNEL)
    assert (more - few) / 200 == pytest.approx((7 + 4) / 2 * US)


def test_the_gradient_of_an_embedding_alternates_kernels_and_clearing() -> None:
    op = Op(1, "aten::embedding_dense_backward", inputs=(DEVICE,), outputs=(DEVICE,))
    per_launch = cost(op, launches=29, **KERNEL).per_launch_s
    assert per_launch == pytest.approx((4 + 2) / 2 * US)
    measured = cost(op, launches=29, **KERNEL, **{"further.kernel_s": 12 * US})
    assert measured.per_launch_s == pytest.approx((12 + 2) / 2 * US)


def test_a_sum_by_index_calls_an_operator_for_each_launch() -> None:
    op = Op(1, "aten::_index_put_impl_", inputs=(DEVICE,), outputs=(DEVICE,))
    summed = replace(op, args={"accumulate": True})
    assert cost(summed, launches=6, **KERNEL).per_launch_s == pytest.approx(4 * US)
    assert cost(op, launches=6, **KERNEL).per_launch_s == pytest.approx(2 * US)


CONVOLUTION = {
    **KERNEL,
    "convolution.plain_s": 13 * US,
    "convolution.autograd_s": 15 * US,
    "op.add_.plain_s": 7 * US,
    "op.sum.plain_s": 8 * US,
}


def convolution(name: str, launches: int, inputs: int = 2, **args: object) -> float:
    op = Op(1, f"aten::{name}", inputs=(DEVICE,) * inputs, outputs=(DEVICE,), args=args)
    return total(op, launches=launches, **CONVOLUTION)


def test_a_convolutions_bias_is_added_by_an_operator_of_its_own() -> None:
    assert convolution("convolution", 1) == pytest.approx(13 * US)
    assert convolution("convolution", 2, inputs=3) == pytest.approx((13 + 7 + 1) * US)


def test_what_a_convolution_launches_beside_its_product_is_a_kernel_each() -> None:
    folded = convolution("convolution", 4) - convolution("convolution", 1)
    assert folded == pytest.approx(3 * (6 - 2) * US)


def test_gradients_of_a_convolution_call_the_library_once_each() -> None:
    """Recorded: 18 to 22 us for one gradient, 31 to 33 for two, 37 to 38 with the bias'."""
    name = "convolution_backward"
    one = convolution(name, 1, output_mask=(False, True, False))
    two = convolution(name, 2, output_mask=(True, True, False))
    three = convolution(name, 3, output_mask=(True, True, True))
    assert (one, two, three) == pytest.approx((13 * US, 26 * US, 34 * US))


def test_further_launches_never_cost_less_than_a_launch() -> None:
    layer = Op(1, "gpuscope::rnn", inputs=(DEVICE,), outputs=(DEVICE,))
    odd = {"op.empty.plain_s": 7 * US, "op.add.plain_s": 6 * US, "op.mm.plain_s": 6 * US}
    assert cost(layer, launches=50, **odd).per_launch_s == pytest.approx(2 * US)


@pytest.mark.parametrize(
    "name",
    [
        "c10d::_allgather_base_",
        "_c10d_functional::reduce_scatter_tensor",
        "c10d::allreduce_",
        "_c10d_functional::wait_tensor",
        "c10d::scatter_",
    ],
)
def test_a_collective_is_no_gather(name: str) -> None:
    assert host_class(name) == "collective"


def test_collectives_cost_what_their_calls_took() -> None:
    reduce = Op(1, "c10d::allreduce_", inputs=(DEVICE,), outputs=(DEVICE,))
    assert total(reduce) == pytest.approx(19.6 * US)
    wait = replace(reduce, name="_c10d_functional::wait_tensor")
    assert total(wait, launches=0) == pytest.approx(4.6 * US)
    assert total(reduce, **{"op.allreduce.plain_s": 30 * US}) == pytest.approx(30 * US)


def test_a_collective_amid_other_work_costs_more_than_one_after_its_like() -> None:
    reduce = Op(1, "c10d::allreduce_", inputs=(DEVICE,), outputs=(DEVICE,))
    view = Op(2, "aten::view", inputs=(DEVICE,), outputs=(DEVICE,), view=True)
    program = Program(
        "test", (Op(0, "aten::neg"), reduce, view, replace(reduce, index=3), replace(ADD, index=4))
    )
    model = HostModel(
        constants(**{"collective.mixed_factor": 3.0, "mixed_factor": 0.5, "launch_s": 2 * US}),
        program,
    )
    cold, like = (model.cost(program.ops[n], 1).before_s for n in (1, 3))
    assert cold == pytest.approx(3 * (19.6 - 2) * US)
    assert like == pytest.approx(0.5 * (19.6 - 2) * US)
    # Other operators know nothing of it.
    assert model.cost(program.ops[4], 1).before_s == pytest.approx(0.5 * (6 - 2) * US)


def test_pythons_of_torch_distributed_cost_more_but_not_in_the_optimizer() -> None:
    op = Op(1, "aten::add", inputs=(DEVICE,), outputs=(DEVICE,), python_instructions=1000)
    prices = {"python_instruction_s": 1e-8, "distributed_instruction_s": 3e-8}
    plain = cost(op, **prices).before_s
    apart = cost(replace(op, distributed=True), **prices).before_s
    assert apart - plain == pytest.approx(1000 * 2e-8)
    updated = replace(op, distributed=True, phase="optimizer")
    assert cost(updated, **prices).before_s == pytest.approx(plain)
    # Constants that know of no difference have none.
    assert cost(replace(op, distributed=True), python_instruction_s=1e-8).before_s == (
        pytest.approx(plain)
    )
