"""What of a dataset's transforms moves to the device."""

import importlib.util
import sys
import types

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from gpuscope.advice.changes.gpu_augmentation import split_transforms
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find
from gpuscope.errors import UnsupportedError


def _v2(name: str, call) -> object:
    """A transform with the names that torchvision's have."""
    kind = type(name, (), {"__call__": lambda self, x: call(x)})
    kind.__module__ = "torchvision.transforms.v2._somewhere"
    return kind()


class Compose:
    def __init__(self, transforms) -> None:
        self.transforms = transforms

    def __call__(self, x):
        for step in self.transforms:
            x = step(x)
        return x


FLIP = _v2("RandomHorizontalFlip", lambda x: x.flip(-1))
FLOAT = _v2("ToDtype", lambda x: x.float() / 255)
NORM = _v2("Normalize", lambda x: (x - 0.5) / 0.25)


def test_only_the_end_without_chance_moves() -> None:
    kept, cut = split_transforms(Compose([FLIP, FLOAT, NORM]))
    assert kept.transforms == [FLIP]
    assert cut == [FLOAT, NORM]


@pytest.mark.parametrize("steps", [[], [FLIP], [FLOAT, FLIP], [NORM], [FLIP, NORM]])
def test_nothing_moves_where_bytes_would_not_be_sent(steps) -> None:
    whole = Compose(steps)
    assert split_transforms(whole) == (whole, [])
    assert split_transforms(None) == (None, [])


class Images(Dataset):
    def __init__(self, transform, dtype=torch.uint8) -> None:
        self.transform, self.dtype = transform, dtype

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int):
        image = torch.full((3, 4, 4), index * 16).to(self.dtype)
        return self.transform(image), index


@pytest.fixture
def _torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torchvision")
    module.__spec__ = types.SimpleNamespace(name="torchvision")  # found, never imported
    monkeypatch.setitem(sys.modules, "torchvision", module)


@pytest.mark.usefixtures("_torchvision")
def test_batches_hold_bytes_and_the_dataset_is_put_back() -> None:
    whole = Compose([FLIP, FLOAT, NORM])
    data = Images(whole)
    with Live([find("gpu-augmentation")]):
        images, _ = next(iter(DataLoader(data, batch_size=2)))
        assert images.dtype is torch.uint8
    assert data.transform is whole


@pytest.mark.usefixtures("_torchvision")
def test_a_dataset_that_gives_no_bytes_stays_as_it_is() -> None:
    data = Images(Compose([FLOAT, NORM]), torch.float32)
    with Live([find("gpu-augmentation")]):
        images, _ = next(iter(DataLoader(data, batch_size=2)))
    assert images.dtype is torch.float32


@pytest.mark.usefixtures("_torchvision")
def test_the_device_gets_the_same_images() -> None:
    from gpuscope.capturing import capture

    data = Images(Compose([FLOAT, NORM]))

    def build():
        batches = iter(DataLoader(data, batch_size=2))
        return lambda: next(batches)[0].to("cuda") * 1

    live = Live([find("gpu-augmentation")])
    try:
        program = capture(live.wrap(build))
    finally:
        live.close()
    sent = [op for op in program.ops if op.phase == "input"]
    assert [op.inputs[-1].dtype for op in sent] == ["uint8"]
    assert program.ops[-1].outputs[0].dtype == "float32"


def test_without_torchvision_it_says_so() -> None:
    if importlib.util.find_spec("torchvision") is not None:
        pytest.skip("torchvision is installed")
    with pytest.raises(UnsupportedError, match="torchvision"), Live([find("gpu-augmentation")]):
        pass
