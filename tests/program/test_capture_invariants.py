"""What holds for every captured program, whatever the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from captured import of

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional


def convolutional():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(72, 4),
    ).cuda()
    x = torch.randn(2, 3, 8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x.cuda()), torch.zeros(2, dtype=torch.long, device="cuda")).backward()
        optimizer.step()

    return step


def transformer():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    x = torch.randn(2, 5, 16, device="cuda")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return step


def recurrent():
    model = nn.LSTM(4, 8, 2, dropout=0.1).cuda()
    x = torch.randn(5, 2, 4, device="cuda")

    def step():
        model.zero_grad()
        model(x)[0].sum().backward()

    return step


def selecting():
    table = nn.Embedding(10, 4).cuda()
    tokens = torch.randint(0, 10, (6,), device="cuda")

    def step():
        table.zero_grad()
        rows = table(tokens)
        chosen = rows[rows.sum(-1) > 0]
        (chosen.sort(0).values.cumsum(0) ** 2).sum().backward()

    return step


def generating():
    layer = nn.Linear(8, 8).cuda()
    cache = torch.zeros(2, 16, 8, device="cuda")

    @torch.inference_mode()
    def step():
        x = cache[:, 0]
        for at in range(4):
            x = layer(x)
            cache[:, at] = x
            x = F.softmax(x @ cache.transpose(1, 2), -1).mean(1) @ cache[0]
        return x.argmax(-1).tolist()

    return step


BUILDS: list[Callable[[], Callable[[], object]]] = [
    convolutional,
    transformer,
    recurrent,
    selecting,
    generating,
]


@pytest.fixture(scope="module", params=BUILDS, ids=lambda b: b.__name__)
def captures(request):
    return of(request.param), of(request.param)


def test_capturing_twice_gives_the_same_program(captures) -> None:
    first, second = (replace(p, capture_s=0.0) for p in captures)
    assert [(op.name, op.inputs, op.outputs) for op in first.ops] == [
        (op.name, op.inputs, op.outputs) for op in second.ops
    ]
    without_python = [
        replace(p, ops=tuple(replace(op, python_calls=0, python_instructions=0) for op in p.ops))
        for p in (first, second)
    ]
    assert without_python[0] == without_python[1]


def test_indices_count_up(captures) -> None:
    assert [op.index for op in captures[0].ops] == list(range(len(captures[0].ops)))


def test_device_tensors_have_a_storage_that_lives_then(captures) -> None:
    program = captures[0]
    known = {s.id: s for s in program.storages}
    for op in program.ops:
        for spec in (*op.inputs, *op.outputs):
            if spec.device == "device" and spec.nbytes:
                storage = known[spec.storage]
                assert storage.born <= op.index
                assert storage.died is None or storage.died > op.index
                assert spec.nbytes <= storage.nbytes or not spec.is_dense


def test_lives_are_ordered_and_not_empty(captures) -> None:
    for storage in captures[0].storages:
        assert storage.nbytes > 0
        assert storage.born >= -1
        assert storage.died is None or storage.died > storage.born
        assert storage.died is None or storage.died <= len(captures[0].ops)


def test_views_allocate_nothing(captures) -> None:
    program = captures[0]
    born = {s.born for s in program.storages}
    for op in program.ops:
        if op.view:
            assert op.index not in born
            assert {s.storage for s in op.outputs} <= {s.storage for s in op.inputs}


def test_in_place_operators_give_back_their_first_argument(captures) -> None:
    for op in captures[0].ops:
        base = op.name.rpartition("::")[2]
        if base.endswith("_") and not base.startswith("_") and op.outputs:
            assert op.outputs[0].storage == op.inputs[0].storage


def test_host_work_is_counted_once(captures) -> None:
    program = captures[0]
    modules = sum(op.module_calls for op in program.ops)
    assert 0 < modules < 200
    assert all(op.python_calls >= 0 for op in program.ops)
    nodes = sum(op.autograd_nodes for op in program.ops)
    recording = sum(op.autograd for op in program.ops if op.phase == "forward")
    assert nodes <= recording + sum(s.category == "parameter" for s in program.storages)
    assert (nodes > 0) == (program.task == "train")


def test_modules_of_operators_exist(captures) -> None:
    program = captures[0]
    assert {op.module for op in program.ops} <= {m.path for m in program.modules} | {""}
    assert sum(m.parameters for m in program.modules) == program.parameters


def test_a_step_does_the_same_every_time() -> None:
    """The operators of the third step are those of the second."""
    calls = []

    def build():
        step = transformer()

        def twice():
            step()
            if calls:  # within the recorded call
                step()
            calls.append(None)

        return twice

    single, double = of(transformer), of(build)
    names = [op.name for op in single.ops]
    assert [op.name for op in double.ops] == names * 2
