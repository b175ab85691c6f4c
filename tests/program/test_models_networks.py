"""The architectures in plain torch, run narrow on the CPU and held against what they must do."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpuscope.program.models import Settings, WorkloadOptions, find
from gpuscope.program.models.settle import settle

torch = pytest.importorskip("torch")

from gpuscope.program.models.building import diffusion, recommender, recurrent, vision  # noqa: E402
from gpuscope.program.models.networks.attention import attend  # noqa: E402
from gpuscope.program.models.networks.convnext import ConvNeXt  # noqa: E402
from gpuscope.program.models.networks.dit import DiffusionTransformer, position_table  # noqa: E402
from gpuscope.program.models.networks.dlrm import DLRM  # noqa: E402
from gpuscope.program.models.networks.lstm import LSTMLanguageModel  # noqa: E402
from gpuscope.program.models.networks.resnet import ResNet  # noqa: E402
from gpuscope.program.models.networks.stochastic_depth import StochasticDepth  # noqa: E402
from gpuscope.program.models.networks.swin import SwinTransformer, WindowAttention, relative_index  # noqa: E402
from gpuscope.program.models.networks.unet import UNet  # noqa: E402
from gpuscope.program.models.networks.vit import VisionTransformer  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small operators are faster on one thread, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def settings(name: str, **options: Any) -> Settings:
    return settle(
        find(name), WorkloadOptions(**{"device": "cpu", "dtype": "float32", "batch": 2, **options})
    )


CLASSIFIERS = {
    "resnet18": lambda: ResNet((1, 1, 1, 1), bottleneck=False, classes=10),
    "resnet50": lambda: ResNet((1, 1, 1, 1), bottleneck=True, classes=10),
    "vit-b-16": lambda: VisionTransformer(
        patch=16, width=16, layers=2, heads=2, image=32, classes=10
    ),
    "convnext-tiny": lambda: ConvNeXt(
        depths=(1, 1, 1, 1), widths=(8, 16, 24, 32), drop=0.1, classes=10
    ),
    "swin-t": lambda: SwinTransformer(
        width=8, depths=(2, 2), heads=(2, 4), drop=0.1, window=4, classes=10
    ),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_classifiers_train_and_classify(name: str, checkpointing: bool) -> None:
    torch.manual_seed(0)
    wanted = settings(name, image=32, checkpointing=checkpointing, optimizer="adamw-loop")
    step = vision.build_classifier(CLASSIFIERS[name], wanted, classes=10)
    losses = [step().item() for _ in range(3 if name.startswith("resnet") else 8)]
    assert min(losses[1:]) < losses[0]
    scores = vision.build_classifier(
        CLASSIFIERS[name], settings(name, image=32, task="inference"), classes=10
    )()
    assert scores.shape == (2, 10)
    assert not scores.requires_grad


@pytest.mark.parametrize("name", ["resnet18", "vit-b-16"])
def test_mixed_precision_runs(name: str) -> None:
    wanted = settings(name, image=32, dtype="bfloat16")
    assert wanted.amp
    step = vision.build_classifier(CLASSIFIERS[name], wanted, classes=10)
    assert step().isfinite()


def test_eager_attention_is_the_fused_one() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 8) for _ in range(3))
    eager = attend(query, key, value, eager=True)
    torch.testing.assert_close(eager, attend(query, key, value, eager=False))


def test_windows_see_only_themselves() -> None:
    torch.manual_seed(0)
    layer = WindowAttention(8, 2, window=4, shift=0)
    x = torch.randn(1, 8, 8, 8)
    changed = x.clone()
    changed[0, 0, 0] += 1.0  # in the top left window
    moved = (layer(changed) - layer(x)).detach().abs().sum(-1)[0]
    assert bool((moved[:4, :4] > 0).all())
    assert float(moved[4:].abs().max() + moved[:, 4:].abs().max()) == 0.0


def test_shifted_windows_do_not_join_opposite_edges() -> None:
    torch.manual_seed(0)
    layer = WindowAttention(8, 2, window=4, shift=2)
    x = torch.randn(1, 8, 8, 8)
    changed = x.clone()
    changed[0, 0, 0] += 1.0  # top left corner: with the cyclic shift it lies beside the far edges
    moved = (layer(changed) - layer(x)).detach().abs().sum(-1)[0]
    assert bool((moved[:2, :2] > 1e-6).all())
    assert float(moved[2:].max()) < 1e-6
    assert float(moved[:, 2:].max()) < 1e-6


def test_relative_positions_are_shared_by_equal_offsets() -> None:
    index = relative_index(3).view(3, 3, 3, 3)  # query row, column, key row, column
    assert int(index[0, 0, 1, 1]) == int(index[1, 1, 2, 2])
    assert int(index[0, 0, 0, 1]) != int(index[0, 1, 0, 0])
    assert sorted(set(index.flatten().tolist())) == list(range(25))


def test_stochastic_depth_keeps_the_mean() -> None:
    torch.manual_seed(0)
    layer = StochasticDepth(0.25)
    out = layer(torch.ones(4000, 2))
    assert out.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert out.mean().item() == pytest.approx(1.0, abs=0.05)
    assert bool((out[:, 0] == out[:, 1]).all())  # a sample is dropped as a whole
    assert torch.equal(layer.eval()(torch.ones(3)), torch.ones(3))


def narrow_unet() -> UNet:
    return UNet(widths=(32, 64), attention=(True, False), per_level=1, heads=2, text_width=16)


def test_unet_denoises_and_trains() -> None:
    torch.manual_seed(0)
    train = settings("sd15-unet", image=64, optimizer="adamw-loop")
    text = diffusion.text_features(5, 16, train)
    step = diffusion.build_denoiser(narrow_unet, text, train)
    losses = [step().item() for _ in range(10)]
    assert sum(losses[-3:]) < sum(losses[:3])
    sample = settings("sd15-unet", image=64, task="inference")
    assert diffusion.build_denoiser(narrow_unet, text, sample)().shape == (2, 4, 8, 8)


def test_unet_skips_fit_at_every_depth() -> None:
    for per_level in (1, 2, 3):
        net = UNet(
            widths=(32, 32, 64),
            attention=(True, False, False),
            per_level=per_level,
            heads=2,
            text_width=16,
        )
        x = torch.randn(1, 4, 16, 16)
        assert net(x, torch.tensor([3]), torch.randn(1, 5, 16)).shape == x.shape


def test_unet_listens_to_text_and_time() -> None:
    torch.manual_seed(0)
    net = narrow_unet().eval()
    x, text = torch.randn(1, 4, 8, 8), torch.randn(1, 5, 16)
    base = net(x, torch.tensor([3]), text)
    assert not torch.allclose(base, net(x, torch.tensor([900]), text))
    assert not torch.allclose(base, net(x, torch.tensor([3]), text + 1.0))


def narrow_dit() -> DiffusionTransformer:
    return DiffusionTransformer(width=32, layers=2, heads=2, patch=2, image=64, classes=10)


def test_dit_denoises_and_trains() -> None:
    torch.manual_seed(0)
    train = settings("dit-xl-2", image=64, optimizer="adamw-loop")
    labels = diffusion.class_labels(10, train)
    step = diffusion.build_denoiser(narrow_dit, labels, train)
    losses = [step().item() for _ in range(10)]
    assert sum(losses[-3:]) < sum(losses[:3])
    sample = settings("dit-xl-2", image=64, task="inference")
    assert diffusion.build_denoiser(narrow_dit, labels, sample)().shape == (2, 4, 8, 8)


def test_dit_puts_patches_back_where_they_were() -> None:
    net = narrow_dit()
    tokens = torch.arange(16.0).view(1, 16, 1)  # a 4 x 4 grid of 2 x 2 patches
    net.head = torch.nn.Identity()
    pixels = net.patch**2 * net.out_channels
    net.norm, net.layers = torch.nn.Identity(), torch.nn.ModuleList()
    net.modulation = torch.nn.Identity()
    net.patches = torch.nn.Identity()
    net.positions = torch.nn.Parameter(torch.zeros(1))
    net.time = torch.nn.Module()
    net.time.forward = lambda steps: torch.zeros(1, 2)  # type: ignore[method-assign]
    net.classes = torch.nn.Embedding(1, 2)
    net.classes.weight.data.zero_()
    grid = tokens.expand(1, 16, pixels).transpose(1, 2).view(1, pixels, 4, 4)
    out = net(grid, torch.tensor([0]), torch.tensor([0]))
    expected = torch.arange(16.0).view(4, 4).repeat_interleave(2, 0).repeat_interleave(2, 1)
    assert out.shape == (1, net.out_channels, 8, 8)
    assert torch.equal(out[0, 0], expected)


def test_position_table_tells_places_apart() -> None:
    table = position_table(4, 16)[0]
    assert table.shape == (16, 16)
    assert len({tuple(row.tolist()) for row in table}) == 16


def test_lstm_learns_and_carries_its_state() -> None:
    def make() -> LSTMLanguageModel:
        return LSTMLanguageModel(vocabulary=20, width=16, layers=2, dropout=0.1)

    torch.manual_seed(0)
    train = settings("lstm", seq=6, optimizer="adamw-loop")
    step = recurrent.build_language_model(make, train)
    losses = [step().item() for _ in range(20)]
    assert losses[-1] < losses[0]
    read = recurrent.build_language_model(make, settings("lstm", seq=6, task="inference"))
    first, second = read(), read()
    assert first.shape == (6, 2, 20)
    assert not torch.allclose(first, second)  # the second stretch starts where the first ended


def narrow_dlrm() -> DLRM:
    return DLRM(rows=(10, 20, 30), width=4, bottom=(13, 8, 4), top=(8,))


def test_dlrm_trains_and_scores() -> None:
    torch.manual_seed(0)
    train = settings("dlrm", batch=16, optimizer="adamw-loop")
    step = recommender.build_recommender(narrow_dlrm, 13, train)
    losses = [step().item() for _ in range(20)]
    assert losses[-1] < losses[0]
    scores = recommender.build_recommender(
        narrow_dlrm, 13, settings("dlrm", batch=16, task="inference")
    )()
    assert scores.shape == (16,)
    assert bool(((scores > 0) & (scores < 1)).all())


def test_dlrm_interactions_are_dot_products_of_each_pair() -> None:
    net = narrow_dlrm()
    inputs: list[Any] = []
    net.top.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    indices = [torch.tensor([1]), torch.tensor([2]), torch.tensor([3])]
    dense = torch.rand(1, 13)
    net(dense, indices, torch.tensor([0]))
    vectors = [net.bottom(dense)[0]] + [
        table.weight[index[0]] for table, index in zip(net.tables, indices, strict=True)
    ]
    pairs = {round((vectors[i] @ vectors[j]).item(), 5) for i in range(4) for j in range(i)}
    assert inputs[0].shape == (1, 4 + 6)
    assert {round(v, 5) for v in inputs[0][0, 4:].tolist()} == pairs


@pytest.mark.parametrize(
    "optimizer",
    ["adamw", "adamw-fused", "adamw-foreach", "adam", "adam-fused", "sgd", "adagrad", "adafactor"],
)
def test_every_optimizer_moves_the_weights(optimizer: str) -> None:
    from gpuscope.program.models.building.optimizers import make_optimizer

    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 4)
    before = layer.weight.detach().clone()
    made = make_optimizer(optimizer, layer.parameters())
    layer(torch.randn(2, 4)).square().sum().backward()
    made.step()
    assert not torch.equal(before, layer.weight)


def test_float16_mixed_precision_scales_the_loss() -> None:
    wanted = settings("vit-b-16", image=32, dtype="float16")
    assert wanted.amp
    step = vision.build_classifier(CLASSIFIERS["vit-b-16"], wanted, classes=10)
    assert step().isfinite()
