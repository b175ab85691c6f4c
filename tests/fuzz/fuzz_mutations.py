"""Damage done to small real inputs: to their bytes, and to the values they are made of.

Everything is drawn from a `random.Random`, so that a seed and a number name an input for ever.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import pickle
import re
import sqlite3
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

INTEGERS = (
    *(0, -1, 1, 2, 7, 255, 256, 65_536, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**53 + 1),
    *(2**61, 2**61 + 1, 2**62, 2**62 - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30),
)
FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-320, 1e18, 1e300, 1.7e308, -1e300)
ODD_FLOATS = (float("nan"), float("inf"), float("-inf"))
STRINGS = (
    *("", " ", "0", "-1", "nan", "inf", "null", "a" * 5000, "\0", "\n", "\x1b[2J", "\x9b31m"),
    *("\x1b]52;c;QQ==\x07", "\u202egnp.exe", "\ufeff", "é", "中文", "\U0001f600", "%s%n", "{x}"),
    *(
        "{",
        "}",
        "{0.__class__}",
        "../../etc/passwd",
        "<script>",
        "[red]",
        "[/]",
        "[link=x]",
        "1e999",
    ),
    *("aten::mm", "kernel", "9" * 5000, "[" * 400, "(" * 400, "<" * 400, "1_0", "٣", "²"),
)
LONE = ("\ud800", "\udcff", "a\udc80b")
"""Text that has no UTF-8: what Python makes of file names, and of escapes in JSON."""

TOKENS = (
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"null", b"true", b"NaN", b"Infinity"),
    *(b"-", b"1e999", b"9" * 400, b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf"),
    *(b"[" * 3000, b'{"a":' * 3000, b"9223372036854775807", b"-9223372036854775809", b"\\ud800"),
    *(b"\x1b[2J", b"\r\n", b"\x80\x04", b"SQLite format 3\0", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def bytes_of(random: Random, data: bytes, others: Sequence[bytes] = (), most: int = 4) -> bytes:
    """Damage bytes in one place, or up to so many."""
    for _ in range(random.randint(1, most)):
        data = random.choice(_BYTES)(random, data, others)
    return data


def _flip(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return b"\0"
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _overwrite(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    new = random.randbytes(random.choice((1, 1, 2, 4, 8, 64)))
    return data[:at] + new + data[at + len(new) :]


def _cut(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _delete(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data[at + random.choice((1, 1, 2, 8, 100, 1000)) :]


def _repeat(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    end = at + random.choice((1, 8, 100, 1000))
    return data[:end] + data[at:end] * random.choice((1, 1, 2, 50)) + data[end:]


def _token(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(TOKENS) + data[at + random.choice((0, 0, 1, 4)) :]


def _number(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    found = None
    if data:
        found = _NUMBER.search(data, random.randrange(len(data)))
    if found is None:
        return data
    values = (*INTEGERS, *FLOATS)
    return data[: found.start()] + str(random.choice(values)).encode() + data[found.end() :]


def _splice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others) if others else data
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


_BYTES: tuple[Callable[[Random, bytes, Sequence[bytes]], bytes], ...] = (
    *(_flip, _overwrite, _cut, _delete, _repeat, _token, _token, _number, _number, _splice),
)


# -- values ---------------------------------------------------------------------------------------


def value(random: Random, *, depth: int = 0, lone: bool = True) -> Any:
    """A value of any of JSON's types, more often a strange one than not."""
    kind = random.randrange(12 if depth < 3 else 8)
    if kind < 3:
        return random.choice(INTEGERS)
    if kind < 4:
        return random.choice(FLOATS)
    if kind < 5:
        return random.choice((None, True, False, *ODD_FLOATS))
    if kind < 8:
        return random.choice((*STRINGS, *LONE) if lone else STRINGS)
    if kind < 10:
        return [value(random, depth=depth + 1, lone=lone) for _ in range(random.randrange(4))]
    if kind < 11:
        names = random.sample(("", "name", "a", "size", "1", "frames"), random.randrange(3))
        return {name: value(random, depth=depth + 1, lone=lone) for name in names}
    deep: Any = random.choice(([], {}, 1))
    for _ in range(random.choice((50, 200))):
        deep = [deep] if random.random() < 0.5 else {"a": deep}
    return deep


def structure(random: Random, data: Any, *, lone: bool = True) -> Any:
    """Plain data with one to four of its values, keys or elements changed; shares the rest."""
    root = [data]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        holder, key = _place(random, root)
        _change(random, holder, key, lone)
    return root[0]


def _place(random: Random, root: list[Any]) -> tuple[Any, Any]:
    """A random place: a walk down from the root, which ends anywhere on its way."""
    holder: Any = root
    key: Any = 0
    while True:
        inner = holder[key]
        if isinstance(inner, dict | list):
            inner = holder[key] = copy.copy(inner)  # what is below it stays shared
        if not isinstance(inner, dict | list) or not inner or random.random() < 0.07:
            return holder, key
        holder = inner
        key = (
            random.choice(list(inner)) if isinstance(inner, dict) else random.randrange(len(inner))
        )


def _change(random: Random, holder: Any, key: Any, lone: bool) -> None:
    old, way = holder[key], random.randrange(10)
    if random.random() < 0.6:
        holder[key] = _alike(random, old)
    elif way < 5:
        holder[key] = value(random, lone=lone)
    elif way == 5 and len(holder) > 1:
        del holder[key]
    elif way == 6 and isinstance(old, int | float) and not isinstance(old, bool):
        change = (-old, old + 1, old - 1, old * 1000, old // 2 if old == old else 0, float(old % 7))
        holder[key] = random.choice(change) if abs(old) < 1e300 else 0
    elif way == 7 and isinstance(holder, list):
        holder[key:key] = [old] * random.choice((1, 2, 30))
    elif way == 8 and isinstance(holder, dict):
        holder[random.choice(("", "x", *STRINGS[:12]))] = holder.pop(key)
    elif isinstance(old, list | dict) and old:
        holder[key] = type(old)()
    else:
        holder[key] = random.choice((None, [old], {"a": old}, str(old), [old, old]))


def _alike(random: Random, old: Any) -> Any:
    """Another value of the same type: what a check of types lets through."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return random.choice((*INTEGERS, old + 1, -old, old * 1000, old // 2))
    if isinstance(old, float):
        return random.choice((*FLOATS, old * 1e9, -old, old / 1e9, old * random.random()))
    if isinstance(old, str):
        return random.choice((*STRINGS, old[: len(old) // 2], old + old, old.upper()))
    if isinstance(old, list) and old:
        some = random.sample(old, random.randrange(len(old) + 1))
        return random.choice((some, [*old, old[-1]], old[::-1], [], old[: len(old) // 2]))
    if isinstance(old, dict) and old:
        some = random.sample(list(old), random.randrange(len(old) + 1))
        return random.choice(({key: old[key] for key in some}, {}, {**old, "x": next(iter(old))}))
    return random.choice((None, 0, 1.0, "", [], {}))


# -- formats --------------------------------------------------------------------------------------


def as_json(random: Random, seeds: Sequence[Any]) -> bytes:
    """JSON: four times in five changed values, else damaged bytes as well or alone."""
    data = random.choice(seeds)
    way = random.random()
    if way < 0.9:
        data = structure(random, data)
    text = json.dumps(data, ensure_ascii=random.random() < 0.9)
    raw = text.encode("utf-8", "surrogatepass")
    return bytes_of(random, raw) if way > 0.8 else raw


def as_msgpack(random: Random, seeds: Sequence[bytes]) -> bytes:
    """MessagePack that holds MessagePack: changed values without or within; or damaged bytes."""
    import msgspec

    raw = random.choice(seeds)
    way = random.random()
    if way < 0.85:
        name, sources, inner = msgspec.msgpack.decode(raw)
        with suppress(OverflowError, UnicodeEncodeError, TypeError):  # has no form there
            if way < 0.7:
                inside = structure(random, msgspec.msgpack.decode(inner), lone=False)
                raw = msgspec.msgpack.encode([name, sources, msgspec.msgpack.encode(inside)])
            else:
                raw = msgspec.msgpack.encode(structure(random, [name, sources, inner], lone=False))
    return bytes_of(random, raw) if way > 0.8 else raw


def as_lines(random: Random, seeds: Sequence[Sequence[Any]]) -> bytes:
    """Lines of JSON, some of them changed."""
    lines = [json.dumps(each) for each in random.choice(seeds)]
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        try:
            lines[at] = json.dumps(structure(random, json.loads(lines[at])))
        except ValueError:
            lines[at] = lines[at][: random.randrange(20)]
    raw = "\n".join(lines).encode() + b"\n"
    return bytes_of(random, raw) if random.random() < 0.2 else raw


def as_table(random: Random, seeds: Sequence[str]) -> bytes:
    """Lines of cells between commas, some of them changed, then bytes at times."""
    lines = random.choice(seeds).splitlines(keepends=True)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        cells = lines[at].split(",")
        new = str(random.choice((*INTEGERS, *FLOATS, *ODD_FLOATS, *STRINGS)))
        cells[random.randrange(len(cells))] = new + random.choice(("", " W", " [W]", "\n"))
        lines[at] = ",".join(cells)
    raw = "".join(lines).encode("utf-8", "replace")
    return bytes_of(random, raw) if random.random() < 0.2 else raw


def as_gzip(random: Random, seeds: Sequence[Any]) -> bytes:
    """Compressed JSON, damaged before, after, or in both places; several members at times."""
    inner = as_json(random, seeds)
    packed = gzip.compress(inner, 1, mtime=0)
    way = random.random()
    if way < 0.2:
        packed += gzip.compress(inner[: random.randrange(len(inner) + 1)], 1, mtime=0)
    elif way < 0.3:
        import zstandard

        packed = zstandard.compress(inner)
    return bytes_of(random, packed) if way > 0.4 else packed


def as_zip(random: Random, seeds: Sequence[Any]) -> bytes:
    """An archive of a damaged trace and some others, itself damaged most of the time."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("rank-0/t.json", "../up.json", "note.txt")[: random.randrange(1, 4)]:
            archive.writestr(name, as_json(random, seeds))
    return bytes_of(random, made.getvalue()) if random.random() > 0.3 else made.getvalue()


def as_pickle(random: Random, seeds: Sequence[Any]) -> bytes:
    """A pickle of changed plain data (of any protocol, with shared objects), or damaged bytes."""
    way = random.random()
    data = random.choice(seeds)
    if way < 0.75:
        data = structure(random, data)
        if way < 0.05:
            data = _woven(random, data)
    raw = pickle.dumps(data, protocol=random.choice((2, 3, 4, 5)))
    return bytes_of(random, raw) if way > 0.7 else raw


def _woven(random: Random, data: Any) -> Any:
    """With a value somewhere that holds itself, or holds another twice as often at each depth."""
    knot: Any = []
    if random.random() < 0.3:
        knot.append(knot)
    else:
        knot = (1, 2)
        for _ in range(random.choice((5, 18))):
            knot = (knot, knot) if random.random() < 0.8 else [knot, knot]
    root = [data]
    holder, key = _place(random, root)
    holder[key] = knot
    return root[0]


def as_toml(random: Random, seeds: Sequence[str]) -> bytes:
    """TOML: lines dropped, doubled, swapped, values replaced; or damaged bytes."""
    lines = random.choice(seeds).splitlines()
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        way = random.randrange(5)
        if way == 0:
            del lines[at]
        elif way == 1:
            lines.insert(random.randrange(len(lines)), lines[at])
        elif "=" in lines[at]:
            lines[at] = f"{lines[at].partition('=')[0]}= {random.choice(_TOML)}"
        if not lines:
            break
    raw = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    return bytes_of(random, raw) if random.random() < 0.3 else raw


_TOML = (
    *(
        "0",
        "-1",
        "1e400",
        "nan",
        "-inf",
        "9223372036854775808",
        "1" * 400,
        "0x" + "f" * 5000,
        '""',
        "'x'",
        "true",
    ),
    *(
        "[]",
        "{}",
        "[[1]]",
        "{a = 1}",
        "1979-05-27T07:32:00Z",
        "07:32:00",
        '"\\u0000"',
        '"\\u001b[2J"',
    ),
    *(
        "[" * 200,
        "{value = []}",
        "{value = 1, unit = 2, low = 3}",
        "{value = 1, unit = []}",
        "0x10",
    ),
)


def as_sqlite(random: Random, seeds: Sequence[bytes]) -> bytes:
    """A database with some cells, columns, tables or names changed; or damaged bytes."""
    raw = random.choice(seeds)
    way = random.random()
    if way < 0.75:
        with sqlite3.connect(":memory:") as database:
            database.deserialize(raw)
            database.execute("PRAGMA writable_schema=ON")
            for _ in range(random.choice((1, 1, 2, 4))):
                try:
                    random.choice(_SQL)(random, database)
                except sqlite3.Error:
                    continue
            raw = database.serialize()
        database.close()
    return bytes_of(random, raw) if way > 0.65 else raw


def _table(random: Random, database: sqlite3.Connection) -> str:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return str(random.choice(found)[0]) if found else "sqlite_master"


def _column(random: Random, database: sqlite3.Connection, table: str) -> str:
    found = database.execute(f'PRAGMA table_info("{table}")').fetchall()
    return str(random.choice(found)[1]) if found else "rowid"


def _cell(random: Random, database: sqlite3.Connection) -> None:
    table = _table(random, database)
    column = _column(random, database, table)
    new: Any = value(random, depth=3, lone=False)
    if isinstance(new, int) and abs(new) >= 2**63:
        new = random.choice((2**63 - 1, -(2**63), 2**63 - 2))
    if random.random() < 0.2:
        new = random.choice((b"\xff\xfe", b"", b"12", random.randbytes(8)))
    where = "" if random.random() < 0.3 else " WHERE rowid = (SELECT min(rowid) + 1 FROM x)"
    database.execute(f'UPDATE "{table}" SET "{column}" = ?{where.replace("x", table)}', (new,))


def _bad_text(random: Random, database: sqlite3.Connection) -> None:
    table = _table(random, database)
    column = _column(random, database, table)
    database.execute(f'UPDATE "{table}" SET "{column}" = CAST(x\'ff80fe\' AS TEXT)')


def _drop(random: Random, database: sqlite3.Connection) -> None:
    database.execute(f'DROP TABLE "{_table(random, database)}"')


def _without_column(random: Random, database: sqlite3.Connection) -> None:
    table = _table(random, database)
    database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{_column(random, database, table)}"')


def _renamed(random: Random, database: sqlite3.Connection) -> None:
    table = _table(random, database)
    name = random.choice(('a"b', "StringIds", "NVTX_EVENTS", "", "OSRT_API"))
    database.execute('ALTER TABLE "{}" RENAME TO "{}"'.format(table, name.replace('"', '""')))


def _schema_bytes(random: Random, database: sqlite3.Connection) -> None:
    """A name, or a definition, that is not UTF-8."""
    table = _table(random, database)
    column = random.choice(("name", "sql", "tbl_name"))
    bad = f"CAST(replace(CAST({column} AS BLOB), 'e', x'ff') AS TEXT)"
    database.execute(f"UPDATE sqlite_master SET {column} = {bad} WHERE name = ?", (table,))


def _view(random: Random, database: sqlite3.Connection) -> None:
    """A view in a table's place: of itself without end, of others, or of very many rows."""
    table = _table(random, database)
    columns = database.execute(f'PRAGMA table_info("{table}")').fetchall()
    names = ", ".join(f'1 AS "{row[1]}"' for row in columns)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
    database.execute(f'DROP TABLE "{table}"')
    database.execute(f'CREATE VIEW "{table}" AS {endless} {names} FROM n')


def _doubled(random: Random, database: sqlite3.Connection) -> None:
    table = _table(random, database)
    database.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')


_SQL = (
    *(_cell, _cell, _cell, _cell, _cell, _cell, _bad_text, _drop, _without_column, _renamed),
    *(_schema_bytes, _view, _doubled),
)


def as_name(random: Random, seeds: Sequence[str]) -> bytes:
    """A kernel's name: parts of others, brackets, numbers, anything."""
    text = random.choice(seeds)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(text) + 1)
        end = at + random.choice((0, 1, 1, 3, 10, 40))
        other = random.choice(seeds)
        piece = random.choice(
            (
                *(
                    "",
                    "<",
                    ">",
                    "(",
                    ")",
                    "::",
                    "_",
                    "x",
                    ",",
                    " ",
                    "0",
                    "-1",
                    "1" * 30,
                    "1_0",
                    "٣",
                ),
                other[random.randrange(len(other) + 1) :][: random.choice((3, 10, 30))],
                random.choice((*STRINGS, *LONE)),
            )
        )
        text = text[:at] + piece + text[end:]
    return text.encode("utf-8", "surrogatepass")
