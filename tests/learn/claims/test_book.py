"""A topic's table: every form of a figure, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from gpuscope.learn.claims.book import claims_of
from gpuscope.learn.claims.registry import TOPICS
from gpuscope.learn.claims.types import Verdict

TOPIC = 'key = "test"\ntitle = "Test"\n'
CLAIM = '[[claims]]\nid = "T-1"\ntext = "said"\nclaimed = 2\n'


def _judge(rest: str, figures: str = "") -> Verdict:
    (claim,) = claims_of(f"{TOPIC}{figures}{CLAIM}{rest}")
    return claim.verdict()


@pytest.mark.parametrize(
    "figure",
    [
        "2",
        "'4 / 2'",
        "'ceil(1.5)'",
        "'fact(\"pcie6.flit\")'",
        "{ of = 'a / b', given = { a = 4, b = 'ceil(1.5)' } }",
        "'twice'",
        "'times(1)'",
    ],
)
def test_forms_of_a_figure(figure: str) -> None:
    own = (
        "[figures.twice]\nof = '2 * 1'\n"
        "[figures.times]\narguments = ['n']\nof = 'two * n * $n'\ngiven = { two = 2, n = '$n' }\n"
    )
    found = _judge(f"equals = [{figure}]", own)
    assert found.values == ((242 / 256,) if "flit" in figure else (2,))


def test_a_variant_has_its_name() -> None:
    found = _judge("equals = [{ of = '2', name = 'H200' }, { of = '4', label = 'dense' }]")
    assert found.truth == "H200: 2; dense: 4"
    assert found.verdict == "imprecise"


def test_more_names_of_the_truth() -> None:
    found = _judge(
        "equals = ['3 - 1']\ntruth = '{v0}, {share}'\nshown = { share = '%' }\n"
        "given = { share = 0.5 }"
    )
    assert found.truth == "2, 50 %"


@pytest.mark.parametrize(
    "rest",
    ["", "equals = [1]\ncannot_say = 'why'", "holds = ['1 < 2']", "unit = 'ells'\nequals = [1]"],
)
def test_a_claim_is_judged_in_one_way(rest: str) -> None:
    with pytest.raises(ValueError, match="claim T-1"):
        _judge(rest)


def test_what_a_table_may_not_hold() -> None:
    with pytest.raises(msgspec.ValidationError, match="equal"):
        _judge("equal = [1]")
    with pytest.raises(ValueError, match="not arithmetic"):
        _judge('equals = [\'catalog("h200", "tdp_w")\']')


def test_all_figures_of_a_table_are_used() -> None:
    for path in TOPICS.glob("*.toml"):
        text = path.read_text("utf-8")
        for name in msgspec.toml.decode(text).get("figures", {}):
            assert text.count(name) > 1, (path.name, name)
