"""Operators, shapes, phases and modules of small steps, known by hand."""

from __future__ import annotations

import pytest
from captured import base, named, of, one, work

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional


def test_a_linear_layers_training_step() -> None:
    def build():
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(3, 4, device="cuda")

        def step():
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        return step

    program = of(build)
    assert work(program, "forward") == ["addmm", "relu", "addmm", "sum", "ones_like"]
    assert work(program, "backward") == ["mm", "mm", "sum", "threshold_backward", "mm", "sum"]
    assert work(program, "optimizer") == ["_foreach_add_"]
    first, second = named(program, "addmm")
    assert [s.shape for s in first.inputs] == [(8,), (3, 4), (4, 8)]
    assert first.outputs[0].shape == (3, 8)
    assert (first.module, second.module) == ("0", "2")
    # The gradient of the second layer's weight belongs to the second layer.
    assert [op.module for op in named(program, "mm")] == ["2", "2", "0"]
    assert one(program, "threshold_backward").module == "1"
    assert program.parameters == 4 * 8 + 8 + 8 * 2 + 2
    assert program.task == "train"
    assert program.dtype == "float32"
    assert [m.class_name for m in program.modules] == ["Sequential", "Linear", "ReLU", "Linear"]


def test_input_gradients_that_nobody_wants_are_not_computed() -> None:
    def build():
        layer = nn.Linear(4, 8).cuda()
        x = torch.randn(3, 4, device="cuda", requires_grad=True)

        def step():
            layer(x).sum().backward()

        return step

    assert len(named(of(build), "mm")) == 2  # here the input wants one, above it did not


def test_convolution_and_batch_norm() -> None:
    def build():
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        ).cuda()
        x = torch.randn(2, 3, 8, 8, device="cuda")

        def step():
            model(x).sum().backward()

        return step

    program = of(build)
    convolution = one(program, "convolution")
    assert convolution.outputs[0].shape == (2, 8, 8, 8)
    assert convolution.args["padding"] == (1, 1)
    backward = one(program, "convolution_backward")
    assert backward.phase == "backward"
    assert backward.module == "0"
    assert backward.args["output_mask"] == (False, True, True)
    norm = next(op for op in program.ops if "batch_norm" in op.name and op.phase == "forward")
    assert norm.module == "1"


def test_embedding_and_layer_norm() -> None:
    def build():
        model = nn.Sequential(nn.Embedding(10, 4), nn.LayerNorm(4)).cuda()
        tokens = torch.randint(0, 10, (2, 5), device="cuda")

        def step():
            model(tokens).sum().backward()

        return step

    program = of(build)
    assert one(program, "embedding").outputs[0].shape == (2, 5, 4)
    assert [s.shape for s in one(program, "native_layer_norm").outputs] == [
        (2, 5, 4),
        (2, 5, 1),
        (2, 5, 1),
    ]
    assert one(program, "embedding_dense_backward").outputs[0].shape == (10, 4)
    assert one(program, "native_layer_norm_backward").module == "1"


def test_embedding_bag() -> None:
    def build():
        bag = nn.EmbeddingBag(10, 4, mode="sum").cuda()
        items = torch.randint(0, 10, (6,), device="cuda")
        offsets = torch.tensor([0, 4], device="cuda")

        def step():
            bag(items, offsets).sum().backward()

        return step

    program = of(build)
    assert one(program, "_embedding_bag").outputs[0].shape == (2, 4)
    assert one(program, "_embedding_bag_backward").phase == "backward"


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_recurrent_layer_is_one_operator(kind, gates) -> None:
    def build():
        layer = getattr(nn, kind)(4, 6, num_layers=2, batch_first=True).cuda()
        x = torch.randn(2, 5, 4, device="cuda")

        def step():
            layer(x)[0].sum().backward()

        return step

    program = of(build)
    forward = one(program, "rnn")
    assert forward.outputs[0].shape == (2, 5, 6)
    assert forward.args["num_layers"] == 2
    assert forward.inputs[1 + (2 if kind == "LSTM" else 1)].shape == (gates * 6, 4)
    backward = one(program, "rnn_backward")
    assert backward.phase == "backward"
    # How time and batch lie in its tensors sets how many steps it has.
    assert backward.args["batch_first"] is True
    assert "_thnn_fused_lstm_cell" not in work(program)


def test_a_custom_function_runs_its_own_backward() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * grad * x

    def build():
        layer = nn.Linear(4, 4).cuda()
        x = torch.randn(2, 4, device="cuda")

        def step():
            layer.zero_grad()
            Square.apply(layer(x)).sum().backward()

        return step

    program = of(build)
    assert work(program, "forward") == ["addmm", "mul", "sum", "ones_like"]
    assert work(program, "backward") == ["mul", "mul", "mm", "sum"]


def test_a_custom_function_belongs_to_its_module() -> None:
    class Negate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return -x

        @staticmethod
        def backward(ctx, grad):
            return -grad

    class Turn(nn.Module):
        def forward(self, x):
            return Negate.apply(x)

    def build():
        model = nn.Sequential(nn.Linear(4, 4), Turn()).cuda()
        x = torch.randn(2, 4, device="cuda")
        return lambda: model(x).sum().backward()

    assert [(op.phase, op.module) for op in named(of(build), "neg")] == [
        ("forward", "1"),
        ("backward", "1"),
    ]


def test_a_gradient_of_a_gradient() -> None:
    def build():
        layer = nn.Linear(4, 4).cuda()
        x = torch.randn(2, 4, device="cuda", requires_grad=True)

        def step():
            layer.zero_grad()
            y = torch.tanh(layer(x)).sum()
            (slope,) = torch.autograd.grad(y, x, create_graph=True)
            (slope**2).sum().backward()
            x.grad = None

        return step

    program = of(build)
    assert len(named(program, "tanh_backward")) == 2
    assert [op.phase for op in named(program, "pow")] == ["forward", "backward"]


def test_gradient_accumulation_adds_in_place() -> None:
    def build():
        layer = nn.Linear(4, 4, bias=False).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        x = torch.randn(2, 4, device="cuda")

        def step():
            optimizer.zero_grad()
            for _ in range(3):
                layer(x).sum().backward()
            optimizer.step()

        return step

    program = of(build)
    assert len(named(program, "addmm")) + len(named(program, "mm")) == 2 * 3
    added = [op for op in program.ops if base(op) == "add_" and op.phase == "backward"]
    assert len(added) == 2  # the first micro-batch sets the gradient, the others add to it
    assert all(op.inputs[0].storage == op.outputs[0].storage for op in added)
    assert [op.phase for op in named(program, "sum")] == ["forward"] * 3


def test_clipping_belongs_to_the_optimizer() -> None:
    def build():
        layer = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        x = torch.randn(2, 4, device="cuda")
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)

        def step():
            optimizer.zero_grad()
            layer(x).sum().backward()
            nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimizer.step()
            schedule.step()

        return step

    program = of(build)
    assert one(program, "_foreach_norm").phase == "optimizer"
    assert not [op for op in program.ops if op.sync]


def test_modules_called_outside_of_a_root_get_paths_of_their_own() -> None:
    def build():
        parts = [nn.Linear(4, 4).cuda() for _ in range(3)]
        x = torch.randn(2, 4, device="cuda")

        def step():
            y = x
            for part in parts:
                y = part(y)
            return y

        return step

    program = of(build)
    modules = [op.module for op in named(program, "addmm")]
    assert len(set(modules)) == 3
    assert {m.path for m in program.modules} == set(modules)


def test_inference_has_no_backward_and_wants_no_gradients() -> None:
    def make(context):
        def build():
            model = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True).cuda().eval()
            x = torch.randn(2, 3, 16, device="cuda")

            def step():
                with context():
                    return model(x)

            return step

        return of(build)

    without, inference = make(torch.no_grad), make(torch.inference_mode)
    assert work(without) == work(inference)
    assert {op.phase for op in inference.ops} == {"forward"}
    assert not any(op.autograd for op in inference.ops)
    assert len(named(inference, "attention")) == 1
    assert without.task == inference.task == "inference"


def test_a_compiled_model_runs_eagerly_and_says_how_it_was_asked() -> None:
    def build():
        model = torch.compile(nn.Linear(4, 4).cuda(), mode="reduce-overhead")
        x = torch.randn(2, 4, device="cuda")
        return lambda: model(x)

    program = of(build)
    assert program.compiled == "reduce-overhead"
    assert work(program) == ["addmm"]


def test_functional_transforms() -> None:
    def build():
        layer = nn.Linear(4, 4).cuda()
        x = torch.randn(2, 4, device="cuda")
        parameters = dict(layer.named_parameters())

        def loss(p):
            return torch.func.functional_call(layer, p, (x,)).sum()

        return lambda: torch.func.grad(loss)(parameters)

    program = of(build)
    assert work(program, "forward")[:2] == ["addmm", "sum"]
    assert "mm" in work(program, "backward")
