"""Files from outside: what is no JSON or TOML is told, what costs too much is refused."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest

from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError, check_figures
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.outside import limits
from gpuscope.outside.plain import file_bytes, json_of, python_json_of, toml_of
from gpuscope.outside.toml_file import read_toml


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{", b"\xff", b'"\\ud800"', b"[1e999]", b"NaN", b"[" * 5000, b'{"a":' * 5000),
        b"[" * 300 + b"]" * 300,
    ],
)
def test_what_is_no_strict_json_is_told(raw: bytes) -> None:
    with pytest.raises(MisfitError):
        json_of(raw)


@pytest.mark.parametrize(
    "raw", [b"{", b"\xff", b'"\\ud800"', b"9" * 5000, b"[" * 5000, b"[" * 300 + b"]" * 300]
)
def test_what_is_no_json_of_pythons_is_told(raw: bytes) -> None:
    with pytest.raises(MisfitError):
        python_json_of(raw)


def test_pythons_json_knows_infinity() -> None:
    assert python_json_of(b'\xef\xbb\xbf{"time_step_limit": [0.0, Infinity]}') == {
        "time_step_limit": [0.0, float("inf")]
    }


@pytest.mark.parametrize("raw", [b"a", b"a = \xff", b"a = " + b"[" * 5000, b"a = " + b"9" * 5000])
def test_what_is_no_toml_is_told(raw: bytes) -> None:
    with pytest.raises(MisfitError):
        toml_of(raw)


def test_a_gzip_bomb_is_refused_and_says_how_to_allow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.2 MB unpacked to 8.2 GB."""
    monkeypatch.setenv(limits.VARIABLE, "0.01")
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(bytes(4 << 20)))
    with pytest.raises(InputFileError, match="costs more to read") as caught:
        file_bytes(path)
    assert "GPUSCOPE_LIMITS=0.1" in caught.value.next_step
    monkeypatch.setenv(limits.VARIABLE, "0.1")
    assert len(file_bytes(path)) == 4 << 20


def test_what_is_cut_off_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(json.dumps(list(range(1000))).encode())[:-9])
    with pytest.raises(MisfitError, match="end in the middle"):
        file_bytes(path)


@pytest.mark.parametrize("given", ["0", "-1", "many", "inf", "nan"])
def test_a_factor_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(limits.VARIABLE, given)
    with pytest.raises(InvalidValueError, match="GPUSCOPE_LIMITS"):
        limits.factor()


def test_figures_that_end_in_overflow_are_refused_by_their_place() -> None:
    check_figures({"a": (1.0, float("nan"), 0, -1e39)}, "run")
    for wrong in (1e41, float("inf"), 10**400, 1e-320):
        with pytest.raises(MisfitError) as caught:
            check_figures({"a": (1.0, wrong)}, "run")
        assert caught.value.place == "run[a][1]"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device that never ends")
def test_what_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.VARIABLE, "0.01")
    with pytest.raises(InputFileError, match="costs more to read"):
        file_bytes("/dev/zero")


def test_a_file_that_does_not_say_how_long_it_is_is_read_whole(tmp_path: Path) -> None:
    """A pipe, and the kernel's own files."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = os.urandom(300_000)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert file_bytes(pipe) == data
    writer.join()


@pytest.mark.parametrize(
    "number", ["0x" + "f" * 5000, "9223372036854775808", "[{a = 0o7777" + "7" * 40 + "}]"]
)
def test_integers_that_no_toml_has_are_told(number: str) -> None:
    with pytest.raises(MisfitError, match="64 bits"):
        toml_of(f"a = {number}".encode())


@pytest.mark.parametrize(
    ("raw", "said"),
    [(b"a = ", "is no TOML file"), (b"\xff", "is no TOML file"), (b"a = " + b"[" * 3000, "is no")],
)
def test_a_toml_file_that_is_none_is_refused(tmp_path: Path, raw: bytes, said: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(raw)
    with pytest.raises(InputFileError, match=said):
        read_toml(path, Text("again"))


@pytest.mark.parametrize("name", ["none.toml", ".", "a" * 5000, "a\0b"])
def test_a_toml_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputFileError, match="cannot be read"):
        read_toml(tmp_path / name, Text("again"))
