"""A small tabular network: everything is launch and dispatch."""

import torch
from torch import nn


def build():
    torch.manual_seed(0)
    layers = []
    for _ in range(6):
        layers += [nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.1)]
    model = nn.Sequential(nn.Linear(64, 256), *layers, nn.Linear(256, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    x = torch.randn(512, 64, device="cuda")
    y = torch.randn(512, 1, device="cuda")

    def step():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step
