""" "cuda" as the user's code sees it, on a machine without one."""

from __future__ import annotations

import pytest
from captured import bytes_of, named, of, one, work

torch = pytest.importorskip("torch")
nn = torch.nn


def test_what_code_asks_about_the_device() -> None:
    def build():
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 1
        properties = torch.cuda.get_device_properties(0)
        assert properties.total_memory > 10**9
        assert torch.cuda.get_device_capability() >= (8, 0)
        assert torch.cuda.is_bf16_supported()
        assert torch.cuda.memory_allocated() == 0
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.manual_seed_all(1)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        x = torch.randn(2, 3).to(device)
        assert x.is_cuda
        assert not x.is_cpu
        assert x.device.type == "cuda"
        assert x.device == torch.device("cuda:0")
        assert x.get_device() == 0
        assert x.new_zeros(3).is_cuda
        assert torch.zeros_like(x).is_cuda
        assert x.cpu().device.type == "cpu"
        assert torch.randn(2).device.type == "cpu"
        assert str(x.type()) == "torch.cuda.FloatTensor"
        return lambda: x + 1

    assert work(of(build)) == ["add"]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, torch.device("cuda"), "mps", "xpu"])
def test_any_way_to_name_the_accelerator(device) -> None:
    def build():
        layer = nn.Linear(3, 3).to(device)
        x = torch.randn(2, 3).to(device)
        assert next(layer.parameters()).is_cuda
        return lambda: layer(x)

    assert {s.device for s in one(of(build), "addmm").inputs} == {"device"}


def test_a_device_as_context_and_as_default() -> None:
    def context():
        with torch.device("cuda"):
            layer, x = nn.Linear(3, 3), torch.randn(2, 3)
        return lambda: layer(x)

    def default():
        torch.set_default_device("cuda")
        layer, x = nn.Linear(3, 3), torch.randn(2, 3)
        return lambda: layer(x)

    for build in (context, default):
        assert {s.device for s in one(of(build), "addmm").inputs} == {"device"}
    assert torch.zeros(1).device.type == "cpu"


def test_what_is_made_from_data_in_a_context_lies_there() -> None:
    def build():
        with torch.device("cuda"):
            share, two = torch.tensor([1.0, 2.0]), torch.as_tensor([3.0, 4.0])
            here = torch.tensor([5.0], device="cpu")
        outside = torch.tensor([6.0])
        assert [x.is_cuda for x in (share, two, here, outside)] == [True, True, False, False]
        return lambda: share * two

    assert {s.device for s in one(of(build), "mul").inputs} == {"device"}


def test_tied_weights_stay_tied() -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            return self.head(self.embed(tokens))

    def build():
        model = Model().cuda()
        assert model.head.weight is model.embed.weight
        model.to(torch.bfloat16)
        assert model.head.weight is model.embed.weight
        tokens = torch.randint(0, 10, (2, 5), device="cuda")

        def step():
            model.zero_grad()
            model(tokens).sum().backward()

        return step

    program = of(build)
    assert program.parameters == 10 * 4
    assert bytes_of(program, "parameter") == 10 * 4 * 2
    assert bytes_of(program, "gradient", resident=False) == 10 * 4 * 2
    assert len(named(program, "add")) == 1  # the two gradients of the one weight


def test_buffers_move_with_the_model() -> None:
    def build():
        model = nn.BatchNorm1d(4).cuda()
        assert model.running_mean.is_cuda
        x = torch.randn(2, 4, device="cuda")
        return lambda: model(x)

    program = of(build)
    assert bytes_of(program, "buffer") == 4 * 4 + 4 * 4 + 8


def test_moving_a_model_back_to_the_host() -> None:
    def build():
        model = nn.Linear(4, 4).cuda()
        model.cpu()
        assert not next(model.parameters()).is_cuda
        model.cuda()
        x = torch.randn(2, 4, device="cuda")
        return lambda: model(x)

    assert bytes_of(of(build), "parameter") == 20 * 4


def test_state_dicts_load() -> None:
    def build():
        model, other = nn.Linear(4, 4).cuda(), nn.Linear(4, 4)
        model.load_state_dict(other.state_dict())
        assert next(model.parameters()).is_cuda
        x = torch.randn(2, 4, device="cuda")
        return lambda: model(x)

    assert work(of(build)) == ["addmm"]


def test_views_share_their_storage_and_in_place_writes_it() -> None:
    def build():
        x = torch.randn(2, 3, device="cuda")

        def step():
            x.view(6).add_(1)
            x.t().mul_(2)
            x[0].zero_()
            x[:, 1] = 0
            return x.relu_()

        return step

    program = of(build)
    (storage,) = {s.storage for op in program.ops for s in op.outputs}
    assert not [s for s in program.storages if s.born >= 0]
    assert [op.name.split("::")[1] for op in program.ops if op.view] == [
        "view",
        "t",
        "select",
        "select",
    ]
    assert program.storages[0].id == storage


def test_a_model_made_before_the_capture_is_given_back_unharmed() -> None:
    model = nn.Linear(4, 4)
    before = model.weight

    def build():
        moved = model.cuda()
        assert next(moved.parameters()).is_cuda
        x = torch.randn(2, 4, device="cuda")
        return lambda: moved(x)

    assert work(of(build)) == ["addmm"]
    assert model.weight is before
    assert model(torch.randn(2, 4)).shape == (2, 4)


def test_a_model_made_on_meta_and_given_memory_later() -> None:
    def build():
        with torch.device("meta"):
            model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        model.to_empty(device="cuda")
        assert all(p.is_cuda for p in model.parameters())
        x = torch.randn(2, 4, device="cuda")

        def step():
            model.zero_grad()
            model(x).sum().backward()

        return step

    program = of(build)
    assert bytes_of(program, "parameter") == (4 * 4 + 4 + 2 * 4) * 4
    assert len(named(program, "addmm")) == 1


def test_checkpoints_are_loaded_and_none_is_written(tmp_path) -> None:
    kept = tmp_path / "kept.pt"
    torch.save(nn.Linear(4, 4).state_dict(), kept)

    def build():
        model = nn.Linear(4, 4)
        model.load_state_dict(torch.load(kept, map_location="cuda"))
        model.cuda()
        x = torch.randn(2, 4, device="cuda")

        def step():
            model(x)
            torch.save(model.state_dict(), tmp_path / "new.pt")

        return step

    # Weight and bias come to the host, to be written; nothing is.
    assert work(of(build)) == ["addmm", "_to_copy", "_to_copy"]
    assert not (tmp_path / "new.pt").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_no_device_is_started_where_there_is_none(monkeypatch) -> None:
    """PyTorch 2.6 makes a real tensor before the first fake one of a device it believes in."""

    def start(device: torch.device) -> None:
        if torch.cuda.is_available():
            raise RuntimeError(f"Found no driver for {device}")

    monkeypatch.setattr("torch._subclasses.fake_tensor.init_gpu_context", start)

    def build():
        x = torch.ones(8, 8, device="cuda")
        return lambda: x @ x

    assert work(of(build)) == ["mm"]


def test_a_tensor_within_vmap_and_grad_says_the_device() -> None:
    def weighed(row):
        return (row * torch.arange(8, device=row.device)).sum()

    def build():
        x = torch.randn(16, 8, device="cuda")
        return lambda: torch.func.vmap(torch.func.grad(weighed))(x)

    assert not [op for op in of(build).ops if any(t.device == "host" for t in op.outputs)]


def test_a_number_of_where_is_filled_on_the_device() -> None:
    """PyTorch makes it there (a fill before the kernel); a tensor of the host is copied."""

    def build():
        x = torch.randn(4, 4, device="cuda")
        number = torch.tensor(2.0)
        return lambda: (torch.where(x > 0, x, 0.0), torch.where(x > 0, x, number))

    filled, copied = named(of(build), "where")
    assert {spec.device for spec in filled.inputs} == {"device"}
    assert [spec.device for spec in copied.inputs] == ["device", "device", "host"]
