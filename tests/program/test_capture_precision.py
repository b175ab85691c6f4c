"""Autocast follows CUDA's lists; gradient scaling; models in half precision."""

from __future__ import annotations

import pytest
from captured import base, named, of, one, work

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional


def under_autocast(call, dtype=torch.bfloat16, shape=(4, 4)):
    """The program of `call(x)` under autocast, x a float32 device tensor."""

    def build():
        x = torch.randn(shape, device="cuda")

        def step():
            with torch.autocast("cuda", dtype=dtype):
                return call(x)

        return step

    return of(build)


@pytest.mark.parametrize(
    ("call", "operator"),
    [
        (lambda x: x @ x, "mm"),
        (lambda x: F.linear(x, x), "mm"),
        (lambda x: torch.addmm(x, x, x), "addmm"),
        (lambda x: torch.einsum("ij,jk->ik", x, x), "bmm"),
        (lambda x: torch.bmm(x[None], x[None]), "bmm"),
        (lambda x: F.conv1d(x[None], x[:, :, None]), "convolution"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_run_in_half_precision(call, operator, dtype) -> None:
    op = one(under_autocast(call, dtype), operator)
    assert {s.dtype for s in (*op.inputs, *op.outputs)} == {str(dtype).removeprefix("torch.")}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.exp(x.bfloat16()),
        lambda x: torch.pow(x.bfloat16(), 2.5),
        lambda x: F.layer_norm(x.bfloat16(), (4,)),
        lambda x: F.softplus(x.bfloat16()),
        lambda x: F.mse_loss(x.bfloat16(), x.bfloat16()),
        lambda x: torch.softmax(x.bfloat16(), -1),
        lambda x: x.bfloat16().sum(),
        lambda x: x.bfloat16().cumsum(0),
        lambda x: torch.linalg.vector_norm(x.bfloat16()),
    ],
)
def test_sensitive_functions_give_float32(call) -> None:
    program = under_autocast(call)
    last = [op for op in program.ops if not op.view][-1]
    assert last.outputs[0].dtype == "float32"


@pytest.mark.parametrize(
    "call",
    [lambda x: F.relu(x.bfloat16()), lambda x: x.bfloat16() * 2, lambda x: x.bfloat16().mean()],
)
def test_other_functions_keep_their_type(call) -> None:
    last = [op for op in under_autocast(call).ops if not op.view][-1]
    assert last.outputs[0].dtype == "bfloat16"


def test_mixed_arguments_are_promoted_to_the_widest() -> None:
    program = under_autocast(lambda x: torch.cat([x, x.bfloat16()]))
    assert one(program, "cat").outputs[0].dtype == "float32"


def test_double_precision_is_left_alone() -> None:
    product = one(under_autocast(lambda x: x.double() @ x.double()), "mm")
    assert product.outputs[0].dtype == "float64"


def test_a_named_dtype_is_honoured() -> None:
    program = under_autocast(lambda x: torch.softmax(x.bfloat16(), -1, dtype=torch.bfloat16))
    assert one(program, "_softmax").outputs[0].dtype == "bfloat16"


def test_disabled_regions_inside() -> None:
    def call(x):
        with torch.autocast("cuda", enabled=False):
            return x @ x

    assert one(under_autocast(call), "mm").outputs[0].dtype == "float32"


def training(calls=1, dtype=torch.bfloat16):
    def build():
        layer = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        x = torch.randn(2, 4, device="cuda")

        def step():
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=dtype):
                y = x
                for _ in range(calls):
                    y = layer(y)
                loss = y.float().square().mean()
            loss.backward()
            optimizer.step()

        return step

    return of(build)


def test_a_weight_is_cast_once_however_often_it_is_used() -> None:
    def casts(program):
        weights = {s.id for s in program.storages if s.category == "parameter"}
        return [op for op in named(program, "_to_copy") if op.inputs[0].storage in weights]

    assert len(casts(training(calls=1))) == len(casts(training(calls=3))) == 2


def test_gradients_of_weights_come_back_in_float32() -> None:
    program = training()
    assert {op.outputs[0].dtype for op in named(program, "mm")} == {"bfloat16"}
    updated = one(program, "_foreach_add_")
    assert {s.dtype for s in updated.inputs} == {"float32"}


def test_the_cast_weight_lives_until_backward_has_used_it() -> None:
    program = training()
    weight = next(op for op in named(program, "_to_copy") if op.inputs[0].shape == (4, 4))
    copy = next(s for s in program.storages if s.id == weight.outputs[0].storage)
    backward = next(op.index for op in program.ops if op.phase == "backward")
    # The input wants no gradient, so the weight is not saved: autocast's end frees it.
    assert copy.died is not None
    assert copy.died <= backward


def test_gradient_scaling() -> None:
    def build():
        layer = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        x = torch.randn(2, 4, device="cuda")
        y = torch.randint(0, 4, (2,), device="cuda")

        def step():
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(layer(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        return step

    program = of(build)
    names = work(program, "optimizer")
    assert "_amp_foreach_non_finite_check_and_unscale_" in names
    assert names[-2:] == ["_foreach_add_", "_amp_update_scale_"]  # the step is not skipped
    assert [op.sync for op in program.ops if op.sync] == ["item"]  # found_inf
    assert one(program, "nll_loss_forward").outputs[0].dtype == "float32"


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_old_names_of_automatic_precision() -> None:
    def build():
        layer = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.Adam(layer.parameters())
        scaler = torch.cuda.amp.GradScaler()
        x = torch.randn(2, 4, device="cuda")

        def step():
            optimizer.zero_grad()
            with torch.cuda.amp.autocast():
                loss = layer(x).sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

        return step

    program = of(build)
    assert one(program, "addmm").outputs[0].dtype == "float16"
    assert "_amp_update_scale_" in work(program)


@pytest.mark.parametrize("convert", [lambda m: m.half(), lambda m: m.to(torch.bfloat16)])
def test_a_model_in_half_precision(convert) -> None:
    def build():
        model = convert(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)).cuda())
        dtype = next(model.parameters()).dtype
        x = torch.randn(3, 4, device="cuda", dtype=dtype)
        return lambda: model(x)

    program = of(build)
    assert program.dtype in ("float16", "bfloat16")
    assert not [op for op in program.ops if base(op) == "_to_copy"]
    parameters = sum(s.nbytes for s in program.storages if s.category == "parameter")
    assert parameters == 2 * program.parameters
