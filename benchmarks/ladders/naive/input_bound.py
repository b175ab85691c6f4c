"""A small network that waits for its data: images are augmented one by one in the main process."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    """Images made and augmented on the processor, as a decoder and its transforms would."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        image = torch.randint(0, 256, (3, 256, 256), dtype=torch.uint8, generator=generator)
        image = image.float() / 255
        top, left = torch.randint(0, 32, (2,), generator=generator).tolist()
        image = image[:, top : top + 224, left : left + 224]
        if index % 2:
            image = image.flip(-1)
        mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
        return (image - mean) / deviation, index % 100


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        widths = (3, 64, 128, 256, 512)
        self.convs = nn.ModuleList(
            [
                nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False)
                for a, b in pairwise(widths)
            ]
        )
        self.norms = nn.ModuleList([nn.BatchNorm2d(b) for b in widths[1:]])
        self.head = nn.Linear(512, 100)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.relu(norm(conv(x)))
        return self.head(x.mean(dim=(2, 3)))


def build(batch=64):
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(Photos(), batch_size=batch)
    state = {"batches": iter(loader)}

    def step():
        images, labels = next(state["batches"])
        images, labels = images.cuda(), labels.cuda()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
