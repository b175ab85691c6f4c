"""Examples of different lengths: how they come to lie in rows, and which way is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.errors import InputFileError, InvalidValueError, UnknownNameError
from gpuscope.planning.tuning.score import estimate
from gpuscope.planning.tuning.search import question_of_tuning
from gpuscope.planning.tuning.space import candidates
from gpuscope.planning.tuning.types import Tuned, TuningQuestion
from gpuscope.program.models.rows import lengths_of, rows_of


def asked(lengths: str | None = "lognormal:400,0.8", **given: object) -> TuningQuestion:
    usual = {"on": "a100", "method": "lora", "lengths": lengths}
    return question_of_tuning("llama-3.2-1b", **{**usual, **given})  # type: ignore[arg-type]


def those(question: TuningQuestion, packing: str, microbatch: int) -> list[Tuned]:
    found, _ = candidates(question)
    return [e for e in found if (e.packing, e.microbatch) == (packing, microbatch)]


def test_packed_rows_by_hand() -> None:
    """1000, 700, 600, 300, 200, 100 in rows of 1000: {1000}, {700, 300}, {600, 200, 100}."""
    rows = rows_of((100, 200, 300, 600, 700, 1000), 1000, "flash", 1)
    assert rows.examples == pytest.approx(6 / 3)
    assert rows.filled == pytest.approx(2900 / 3000)
    squares = sum(each * each for each in (100, 200, 300, 600, 700, 1000))
    assert rows.sequences == pytest.approx(3 * 1000**2 / squares)
    assert (rows.typical, rows.longest) == (1000, 1000)


def test_padded_rows_are_as_long_as_the_longest_of_their_batch() -> None:
    """Of two drawn from 100 and 300 the longer is 300 three times in four."""
    rows = rows_of((100, 300), 1000, "padded", 2)
    assert rows.typical == 250
    assert rows.filled == pytest.approx(200 / 250)
    assert rows_of((100, 300), 1000, "padded", 1).typical == 200


def test_longer_examples_are_cut() -> None:
    assert rows_of((100, 5000), 1000, "padded", 1).longest == 1000
    assert rows_of((5000,), 1000, "flash", 1).examples == 1


def test_lengths_of_a_file_and_of_a_distribution(tmp_path: Path) -> None:
    file = tmp_path / "lengths.txt"
    file.write_text("\n".join(str(n) for n in range(10_000, 0, -1)))
    found = lengths_of(str(file))
    assert len(found) == 4000
    assert sum(found) / 4000 == pytest.approx(5000, rel=0.01)
    assert sum(lengths_of("lognormal:400,0.8")) / 4000 == pytest.approx(400, rel=0.05)
    assert lengths_of("512") == (512,) * 4000


@pytest.mark.parametrize("content", ["", "12\nx", "0", "-3", "9" * 5000])
def test_a_file_without_lengths_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "lengths.txt"
    file.write_text(content)
    with pytest.raises(InputFileError, match="no lengths"):
        lengths_of(str(file))


def test_wrong_words_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="no number of tokens"):
        asked("12..")
    with pytest.raises(UnknownNameError, match="packing"):
        asked(packing="none")
    with pytest.raises(InvalidValueError, match="how long"):
        asked(None, packing="flash")


def test_a_step_has_as_many_rows_as_its_examples_fill() -> None:
    question = asked("512", global_batch=16)  # four examples a row of 2,048
    assert {each.passes for each in those(question, "flash", 1)} == {4}
    assert {each.passes for each in those(question, "padded", 4)} == {4}
    assert not those(question, "mask", 8)
    _, out = candidates(question)
    assert any("fill fewer rows" in str(each.reason) for each in out)
    assert question.example_tokens == 512


def test_packed_rows_take_less_time_where_padding_is_waste() -> None:
    question = asked(global_batch=64)
    quick = {
        packing: min(
            estimate(question.size, question.seq, each).step_s
            for each in those(question, packing, 4)
        )
        for packing in ("padded", "flash", "mask")
    }
    assert quick["flash"] < quick["mask"] < quick["padded"]


def test_memory_is_that_of_the_longest_row() -> None:
    question = asked()
    padded, packed = (those(question, packing, 2)[0] for packing in ("padded", "flash"))
    peaks = [estimate(question.size, question.seq, e).peak_bytes for e in (padded, packed)]
    assert peaks[0] == peaks[1]
    assert padded.row(2048, usual=True) < padded.row(2048, usual=False) == 2048


def test_old_devices_have_no_flash_attention() -> None:
    found, out = candidates(asked(on="v100-sxm2-32gb"))
    assert {each.packing for each in found} == {"padded", "mask"}
    assert any("no kernels" in str(each.reason) for each in out)
