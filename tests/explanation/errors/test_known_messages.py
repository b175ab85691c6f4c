"""The tables of known error messages: every entry is whole, and figures are those of the text."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from gpuscope.document.text import render
from gpuscope.explanation.errors import Diagnosis, Log, diagnose
from gpuscope.explanation.errors.known import Message, messages, readers
from gpuscope.explanation.errors.types import CERTAINTY


def braces(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def told(text: str) -> dict[str, Diagnosis]:
    return {found.kind: found for found in diagnose(Log(text))}


def test_tables_and_readers_are_there() -> None:
    assert len(messages()) >= 38
    assert len(readers()) == 7
    assert all(reader(Log("nothing of interest")) is None for reader in readers())


@pytest.mark.parametrize("message", messages(), ids=lambda message: message.kind)
def test_messages_are_whole(message: Message) -> None:
    assert message.certainty in CERTAINTY
    assert message.cause.endswith(".")
    assert message.fix
    assert 0 < message.rank < 100
    groups = [set(pattern.groupindex) for pattern in message.patterns]
    needed = braces(message.title) | braces(message.cause)
    assert all(needed <= each for each in groups)  # else "None" would be read
    for fact in message.facts:
        given = set(re.compile(fact["find"]).groupindex) if "find" in fact else set.union(*groups)
        assert "within" in fact or braces(fact.get("value", "{value}")) <= given


def test_of_a_group_the_root_is_told() -> None:
    text = "NCCL WARN x\nncclRemoteError\nDuplicate GPU detected : rank 0 and rank 1"
    found = told(text)
    assert found.keys() == {"duplicate_gpu"}
    assert found["duplicate_gpu"].line == 3
    first = told("misaligned address\nan illegal memory access was encountered")
    assert first.keys() == {"misaligned_address"}


def test_figures_are_read_from_the_text() -> None:
    port = told("RuntimeError: EADDRINUSE, port: 29500")["port_in_use"]
    assert [(fact.label, fact.value) for fact in port.facts] == [("port", "29500")]
    driver = told("The NVIDIA driver on your system is too old (found version 11070)")
    assert [fact.value for fact in driver["driver_too_old"].facts] == ["11.7"]
    room = "max seq len (32768) is larger than the maximum number of tokens that can be stored in "
    cache = told(room + "KV cache (18432)")["cache_memory"]
    assert [(fact.value, fact.unit) for fact in cache.facts] == [(32768, "count"), (18432, "count")]
    assert told("No available memory for the cache blocks")["cache_memory"].facts == ()


def test_a_pattern_may_need_another_word() -> None:
    assert told("BrokenPipeError: [Errno 32] Broken pipe") == {}
    assert "nccl_remote_error" in told("NCCL INFO x\nBroken pipe")


def test_names_fill_the_title_in_every_language() -> None:
    text = "ImportError: libcudart.so.12: cannot open shared object file"
    found = told(text)["missing_library"]
    assert found.title == "libcudart.so.12 was not found"
    assert render(found.title, "zh") == "找不到 libcudart.so.12"
    driver = told("OSError: libcuda.so.1: cannot open shared object file")["missing_library"]
    assert "belongs to the driver" in driver.cause


def test_each_table_says_what_it_holds() -> None:
    import gpuscope.explanation.errors as package

    for path in Path(package.__file__).parent.glob("*.toml"):
        assert path.read_text("utf-8").startswith("# "), path.name
