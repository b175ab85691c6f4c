"""Idioms of ordinary programs that a capture follows: each is captured, with the right work."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from torch import nn

from gpuscope.errors import CaptureError
from gpuscope.program.capture import capture
from gpuscope.program.types import Program

Step = Callable[[], object]


def names(build: Callable[[], Step]) -> list[str]:
    program: Program = capture(build)
    assert not program.unsupported
    return [op.name.removeprefix("aten::") for op in program.ops if not op.view]


def test_ctc_loss_keeps_the_sums_of_its_paths() -> None:
    def build() -> Step:
        model = nn.Linear(20, 30).cuda()

        def step() -> object:
            scores = model(torch.randn(50, 4, 20, device="cuda")).log_softmax(-1)
            targets = torch.randint(1, 30, (4, 10), device="cuda")
            lengths = torch.full((4,), 50), torch.full((4,), 10)
            return functional.ctc_loss(scores, targets, *lengths).backward()

        return step

    ops = [op for op in capture(build).ops if op.name == "aten::_ctc_loss"]
    assert [spec.shape for spec in ops[0].outputs] == [(4,), (4, 50, 21)]
    assert "_ctc_loss_backward" in names(build)


def test_data_parallel_on_one_device_is_the_model() -> None:
    def build(wrap: Callable[[nn.Module], nn.Module]) -> Callable[[], Step]:
        def made() -> Step:
            model = wrap(nn.Linear(8, 8)).cuda()
            return lambda: model(torch.randn(4, 8, device="cuda")).sum().backward()

        return made

    assert names(build(nn.DataParallel)) == names(build(lambda module: module))


def test_the_default_tensor_type_names_the_device() -> None:
    def build() -> Step:
        torch.set_default_tensor_type(torch.cuda.FloatTensor)
        return lambda: torch.randn(4, 4) @ torch.randn(4, 4)

    program = capture(build)
    assert all(spec.device == "device" for op in program.ops for spec in op.outputs)
    assert torch.empty(1).device.type == "cpu"


def test_shared_memory_is_memory() -> None:
    def build() -> Step:
        model = nn.Linear(4, 4)
        model.share_memory()
        model.cuda()
        return lambda: model(torch.randn(2, 4, device="cuda"))

    assert "addmm" in names(build)


def test_a_check_for_finite_numbers_passes_and_waits() -> None:
    def build() -> Step:
        model = nn.Linear(8, 8).cuda()

        def step() -> object:
            loss = model(torch.randn(2, 8, device="cuda")).sum()
            assert torch.isfinite(loss)
            assert not loss.isnan()
            return loss.backward()

        return step

    assert sum(op.sync == "item" for op in capture(build).ops) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_products_of_other_types_are_taken_apart(dtype: torch.dtype) -> None:
    if not hasattr(functional, "grouped_mm"):
        pytest.skip("this torch has no grouped products")

    def build() -> Step:
        weight = torch.randn(4, 16, 32, device="cuda", dtype=dtype, requires_grad=True)
        ends = torch.tensor([8, 16, 24, 32], dtype=torch.int32, device="cuda")
        x = torch.randn(32, 16, device="cuda", dtype=dtype)
        return lambda: functional.grouped_mm(x, weight, offs=ends)

    products = [n for n in names(build) if "mm" in n]
    assert products == (["_grouped_mm"] if dtype is torch.bfloat16 else ["mm"] * 4)


def test_weights_of_a_file_go_to_the_device(tmp_path: Path) -> None:
    save = pytest.importorskip("safetensors.torch")
    file = tmp_path / "weights.safetensors"
    save.save_file({"a": torch.ones(4, 8), "b": torch.arange(3)}, file)

    def build() -> Step:
        weights: dict[str, Any] = save.load_file(str(file), device="cuda")
        here = save.load_file(str(file))
        assert here["b"].tolist() == [0, 1, 2]
        return lambda: weights["a"] * 2

    (made,) = [op for op in capture(build).ops if op.name == "aten::mul"]
    assert (made.inputs[0].shape, made.inputs[0].device) == ((4, 8), "device")
    assert torch.equal(save.load_file(str(file))["a"], torch.ones(4, 8))


def test_lazy_layers_take_their_sizes_from_the_first_input() -> None:
    def build(lazy: bool) -> Step:
        first = nn.LazyConv2d(8, 3) if lazy else nn.Conv2d(3, 8, 3)
        last = nn.LazyLinear(5) if lazy else nn.Linear(288, 5)
        norm = nn.LazyBatchNorm2d() if lazy else nn.BatchNorm2d(8)
        model = nn.Sequential(first, norm, nn.Flatten(), last).cuda()
        return lambda: model(torch.randn(2, 3, 8, 8, device="cuda")).sum().backward()

    assert names(lambda: build(True)) == names(lambda: build(False))
    assert capture(lambda: build(True)).parameters == capture(lambda: build(False)).parameters
    assert not hasattr(nn.LazyLinear(5).weight, "fake_mode")


def test_a_tensor_of_a_class_of_its_own_keeps_it() -> None:
    class Image(torch.Tensor):
        def doubled(self) -> torch.Tensor:
            return self * 2

    def build() -> Step:
        def step() -> object:
            x = torch.randn(2, 2, device="cuda").as_subclass(Image)  # type: ignore[arg-type]
            y = (x @ x).relu()
            assert isinstance(y, Image)
            return y.doubled()

        return step

    assert names(build)[-3:] == ["mm", "relu", "mul"]


def test_work_of_threads_is_recorded_in_the_order_of_their_starts() -> None:
    def build() -> Step:
        x = torch.randn(8, 8, device="cuda")
        model = nn.Linear(8, 8).cuda()

        def step() -> None:
            threads = [threading.Thread(target=f) for f in (lambda: x @ x, lambda: model(x))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return step

    assert names(build) == ["mm", "addmm"]


def test_a_pool_that_outlives_the_capture_makes_real_tensors_again() -> None:
    pools: list[ThreadPoolExecutor] = []

    def build() -> Step:
        pools.append(ThreadPoolExecutor(1))
        return lambda: pools[0].submit(torch.ones, 3, device="cuda").result() * 2

    assert names(build) == ["ones", "mul"]
    assert type(pools[0].submit(torch.ones, 3).result()) is torch.Tensor
    pools[0].shutdown()


def test_an_own_operator_without_a_shape_rule_is_what_its_python_does() -> None:
    @torch.library.custom_op("idioms::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return (x * factor).exp()

    assert names(lambda: lambda: scaled(torch.randn(4, device="cuda"), 2.0))[-2:] == ["mul", "exp"]


def test_operators_without_a_shape_rule_have_the_results_of_a_real_run() -> None:
    def run(device: str) -> list[Any]:
        x = torch.rand(6, 4, device=device)
        quantized = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)
        solved = torch.linalg.lstsq(x, x[:, :2]).solution
        return [(tuple(t.shape), t.dtype) for t in (quantized, solved)]

    found: list[Any] = []
    capture(lambda: lambda: found.append(run("cuda")))
    assert found[-1] == run("cpu")


def test_circular_padding_is_made_on_the_device() -> None:
    x = torch.arange(24.0).view(1, 2, 3, 4)

    def build() -> Step:
        weight = torch.randn(4, 4, requires_grad=True, device="cuda")
        given = x.cuda() @ weight

        def step() -> object:
            padded = functional.pad(given, (1, 2, 1, 0), mode="circular")
            assert padded.device.type == "cuda"
            return padded.square().sum().backward(retain_graph=True)

        return step

    made = [name for name in names(build) if "empty" not in name]
    assert made[:5] == ["copy_"] * 4 + ["pow"]


def test_circular_padding_is_that_of_pytorch() -> None:
    from gpuscope.program.capture import circular

    x = torch.arange(24.0).view(1, 2, 3, 4)
    for padding in [(1, 2), (1, 0, 2, 1), (0, 3, -1, 2), (-1, 1)]:
        line = x if len(padding) == 4 else x[0]
        assert torch.equal(
            circular.pad(line, padding), functional.pad(line, padding, mode="circular")
        )


def test_a_small_parameter_goes_to_the_device_with_its_results() -> None:
    def build() -> Step:
        class Scaled(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Parameter(torch.log(torch.tensor(0.8)).unsqueeze(0))

        model = Scaled().cuda()
        x = torch.randn(4, device="cuda")
        return lambda: (functional.softplus(model.scale) * x).sum().backward()

    assert "softplus" in names(build)


def test_a_gradient_without_a_rule_is_like_what_was_differentiated() -> None:
    def build() -> Step:
        model = nn.Linear(6, 5).cuda()
        x, kinds = torch.randn(8, 6, device="cuda"), torch.zeros(8, dtype=torch.long, device="cuda")
        return lambda: functional.multi_margin_loss(model(x), kinds).backward()

    ops = {op.name: op for op in capture(build).ops}
    assert ops["aten::multi_margin_loss_backward"].outputs[0].shape == (8, 5)


def test_what_is_shared_says_so() -> None:
    def build() -> Step:
        assert torch.zeros(3).share_memory_().is_shared()
        assert not torch.zeros(3).is_shared()
        return lambda: torch.ones(3, device="cuda") * 2

    assert names(build) == ["ones", "mul"]


def test_a_copied_model_has_parameters() -> None:
    def build() -> Step:
        copied = copy.deepcopy(nn.Linear(4, 4).cuda())
        copied.weight = copied.weight  # refused where it is none
        return lambda: copied(torch.randn(2, 4, device="cuda"))

    assert names(build)[-1] == "addmm"


def test_training_for_quantized_numbers_is_followed() -> None:
    quantization = pytest.importorskip("torch.ao.quantization")

    def build() -> Step:
        model = nn.Sequential(quantization.QuantStub(), nn.Linear(8, 8))
        model.qconfig = quantization.get_default_qat_qconfig("fbgemm")  # type: ignore[assignment]
        model = quantization.prepare_qat(model.train()).cuda()
        return lambda: model(torch.randn(2, 8, device="cuda")).sum().backward()

    assert "_fused_moving_avg_obs_fq_helper" in names(build)


@pytest.mark.parametrize("step", [0.1, "tensor", "channel", "learnt"])
def test_rounding_is_imitated_for_values_of_any_size(step: object) -> None:
    def build() -> Step:
        x = torch.randn(2**12, 2**13, device="cuda", requires_grad=True)  # 128 MiB: not tried
        one, none = torch.ones((), device="cuda"), torch.zeros((), device="cuda").int()
        rows = torch.ones(2**12, device="cuda", requires_grad=step == "learnt")

        def run() -> object:
            if step == 0.1:
                y = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
            elif step == "tensor":
                y = torch.fake_quantize_per_tensor_affine(x, one, none, -128, 127)
            elif step == "channel":
                y = torch.fake_quantize_per_channel_affine(x, rows, rows.int(), 0, -128, 127)
            else:
                y = torch._fake_quantize_learnable_per_channel_affine(x, rows, rows, 0, -128, 127)
            y.sum().backward()
            assert (y.shape, y.dtype, y.stride()) == (x.shape, x.dtype, x.stride())
            assert x.grad is not None
            return y

        return run

    program = capture(build)
    assert any("fake_quantize" in op.name for op in program.ops)


def test_quantized_layers_are_said_to_be_of_the_cpu() -> None:
    quantization = pytest.importorskip("torch.ao.quantization")
    model = nn.Sequential(nn.Linear(8, 8))

    def build() -> Step:
        quick = quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear})
        return lambda: quick(torch.randn(2, 8)).cuda()

    with pytest.raises(CaptureError, match="on CPUs alone"):
        capture(build)


def test_biases_that_are_causal_choose_their_attention() -> None:
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    def build() -> Step:
        q, k = (torch.randn(2, 4, n, 16, device="cuda") for n in (8, 10))

        def step() -> object:
            for bias in (causal_lower_right(8, 10), causal_upper_left(8, 10)):
                out = functional.scaled_dot_product_attention(q, k, k, bias)
                assert out.shape == (2, 4, 8, 16)
            return out

        return step

    assert sum("attention" in name for name in names(build)) == 2


def test_distributions_that_draw_again_draw_once() -> None:
    def build() -> Step:
        ones = torch.ones(3, device="cuda")
        mixed = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(ones), torch.distributions.Normal(ones, ones)
        )

        def step() -> object:
            torch.distributions.VonMises(ones, ones).sample()
            return mixed.log_prob(mixed.sample((7,)))

        return step

    assert "acos" in names(build)


def test_a_loop_of_pytorch_that_waits_for_values_is_named_by_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpuscope.program.capture.endless.READS", 600)

    def build(**limit: int) -> Step:
        a = torch.randn(16, 16, device="cuda")
        return lambda: torch.lobpcg(a @ a.T, k=1, **limit)

    assert "mm" in names(lambda: build(niter=1))
    with pytest.raises(CaptureError, match=r"niter=100") as error:
        capture(build)
    assert "test_idioms.py" in str(error.value)


def test_types_of_the_device_make_tensors_there() -> None:
    def build() -> Step:
        ones = torch.cuda.FloatTensor(4, 3).fill_(1.0)
        assert isinstance(ones, torch.cuda.FloatTensor)
        assert torch.cuda.LongTensor([1, 2]).tolist() == [1, 2]
        assert torch.randn(2).type(torch.cuda.HalfTensor).dtype is torch.float16
        return lambda: torch.cuda.FloatTensor(4, 3).normal_() + ones

    assert all(spec.device == "device" for op in capture(build).ops for spec in op.outputs)


def test_boxes_that_overlap_are_kept() -> None:
    if hasattr(torch.ops.torchvision, "nms"):
        pytest.skip("torchvision is here, with operators of its own")
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

    @torch.library.register_fake("torchvision::nms", lib=library)
    def _(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
        return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.long)

    def build() -> Step:
        boxes, scores = torch.rand(9, 4, device="cuda"), torch.rand(9, device="cuda")
        return lambda: boxes[torch.ops.torchvision.nms(boxes, scores, 0.5)][:5]

    (kept,) = [op for op in capture(build).ops if op.name == "torchvision::nms"]
    assert (kept.outputs[0].shape, kept.sync) == ((9,), "nonzero")
    library._destroy()


@pytest.mark.parametrize("way", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weights_are_made_on_the_device(way: str) -> None:
    def build() -> Step:
        layer = nn.utils.parametrizations.orthogonal(nn.Linear(8, 8), orthogonal_map=way).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)

        def step() -> None:
            optimizer.zero_grad()
            layer(torch.randn(2, 8, device="cuda")).sum().backward()
            optimizer.step()

        return step

    program = capture(build)
    assert not program.unsupported
    assert any(op.phase == "optimizer" for op in program.ops)
