"""The repeated blocks of a model."""

from torch import nn

from gpuscope.advice.changes.transforms.repeated_blocks import repeated_blocks


class Block(nn.Module):
    def __init__(self, inner: nn.Module | None = None) -> None:
        super().__init__()
        self.inner = inner or nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x)


def test_blocks_of_encoder_and_decoder_are_found_together() -> None:
    model = nn.Module()
    model.encoder = nn.ModuleList([Block(), Block(), Block()])
    model.decoder = nn.Sequential(Block(), Block())
    found = repeated_blocks(model)
    assert found == [*model.encoder, *model.decoder]


def test_plain_layers_are_no_blocks() -> None:
    assert repeated_blocks(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))) == []


def test_of_nested_blocks_the_outermost_count() -> None:
    outer = [Block(Block()), Block(Block())]
    assert repeated_blocks(nn.Sequential(*outer)) == outer


def test_one_block_is_no_repetition() -> None:
    assert repeated_blocks(nn.Sequential(Block())) == []
