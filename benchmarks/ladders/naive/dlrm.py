"""A recommendation model as first written: 26 tables, float32, inputs copied one by one."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

TABLES, ROWS, WIDTH = 26, 200_000, 128


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(ROWS, WIDTH) for _ in range(TABLES)])
        self.bottom = nn.Sequential(
            nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, WIDTH),
            nn.ReLU(),
        )
        pairs = (TABLES + 1) * TABLES // 2
        self.top = nn.Sequential(
            nn.Linear(WIDTH + pairs, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(),
            nn.Linear(512, 1),
        )
        self.register_buffer("pairs", torch.tril_indices(TABLES + 1, TABLES + 1, offset=-1))

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        looked_up = [table(i) for table, i in zip(self.tables, sparse, strict=True)]
        features = torch.stack([x, *looked_up], dim=1)
        products = features @ features.transpose(1, 2)
        crossed = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, crossed], dim=1)).squeeze(1)


def build(batch=4096):
    model = Recommender().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dense = torch.randn(batch, 13)
    sparse = [torch.randint(0, ROWS, (batch,)) for _ in range(TABLES)]
    clicks = torch.randint(0, 2, (batch,)).float()

    def step():
        numbers = dense.cuda()
        indices = [i.cuda() for i in sparse]
        targets = clicks.cuda()
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(numbers, indices), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
