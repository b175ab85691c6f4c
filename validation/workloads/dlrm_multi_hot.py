"""Click prediction with several values a feature: 26 tables of 64, Adagrad, as MLPerf has it."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

ROWS = (
    40000,
    39060,
    17295,
    7424,
    20265,
    3,
    7122,
    1543,
    63,
    40000,
    40000,
    40000,
    10,
    2209,
    11938,
    155,
    4,
    976,
    14,
    40000,
    40000,
    40000,
    40000,
    12973,
    108,
    36,
)
VALUES = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)


class ClickModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, 64, mode="sum") for n in ROWS)
        self.bottom = nn.Sequential(
            nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 64)
        )
        self.top = nn.Sequential(
            nn.Linear(64 + 351, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 1)
        )
        self.register_buffer("pairs", torch.triu_indices(27, 27, 1), persistent=False)

    def forward(self, dense, values):
        x = self.bottom(dense)
        found = [x, *(t(v) for t, v in zip(self.tables, values, strict=True))]
        all_of = torch.stack(found, 1)
        products = torch.bmm(all_of, all_of.transpose(1, 2))
        return self.top(torch.cat((x, products[:, self.pairs[0], self.pairs[1]]), 1))


def build():
    torch.manual_seed(0)
    model = ClickModel().cuda()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    dense = torch.randn(4096, 13, device="cuda")
    values = [torch.randint(0, n, (4096, h), device="cuda") for n, h in zip(ROWS, VALUES)]
    clicked = torch.rand(4096, 1, device="cuda").round()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.binary_cross_entropy_with_logits(model(dense, values), clicked)
        loss.backward()
        optimizer.step()

    return step
