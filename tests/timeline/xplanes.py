"""Small profiles of XLA, written to `xplane.proto`."""

from __future__ import annotations

Value = int | str | bytes


def number(value: int) -> bytes:
    """A whole number as Protocol Buffers write it."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def message(*fields: tuple[int, Value]) -> bytes:
    """Fields by number: whole numbers, texts, or messages."""
    made = b""
    for at, value in fields:
        if isinstance(value, int):
            made += number(at << 3) + number(value)
        else:
            raw = value.encode() if isinstance(value, str) else value
            made += number(at << 3 | 2) + number(len(raw)) + raw
    return made


def plane(
    name: str,
    lines: dict[str, list[tuple[str, int, int, dict[str, int | str]]]],
    own: dict[str, int | str] | None = None,
) -> bytes:
    """A device or a host. Lines by name, of events: name, offset and duration in picoseconds, and
    stats; every line begins at 1 s."""
    events: dict[str, int] = {}
    stats: dict[str, int] = {}

    def stat(key: str, value: int | str) -> bytes:
        at = 4 if isinstance(value, int) else 5
        return message((1, stats.setdefault(key, len(stats) + 1)), (at, value))

    made = []
    for number_of, (title, listed) in enumerate(lines.items()):
        parts: list[tuple[int, Value]] = [(1, number_of + 1), (2, title), (3, 10**9)]
        for called, offset_ps, duration_ps, facts in listed:
            at = events.setdefault(called, len(events) + 1)
            told = [(4, stat(key, value)) for key, value in facts.items()]
            parts.append((4, message((1, at), (2, offset_ps), (3, duration_ps), *told)))
        made.append((3, message(*parts)))
    said = [(6, stat(key, value)) for key, value in (own or {}).items()]
    tables = [
        (table, message((1, at), (2, message((1, at), (2, key)))))
        for table, names in ((4, events), (5, stats))
        for key, at in names.items()
    ]
    return message((1, 3), (2, name), *made, *tables, *said)


def profile(*planes: bytes) -> bytes:
    """A whole profile."""
    return message(*((1, each) for each in planes))


def on_a_gpu() -> bytes:
    """A host that launches a kernel in a scope and a copy, in two marked steps, on an H100."""
    kernel = {"correlation_id": 7, "kernel_details": "regs:32 grid:16,2,1 block:256,1,1 occ_pct:50"}
    copy = {"correlation_id": 8, "memcpy_details": "kind:device_to_host size:4096 dest:0 async:1"}
    hlo = {"name": "jit(step)/jvp(Model)/mlp/dot_general", "hlo_op": "gemm_fusion_dot"}
    return profile(
        plane(
            "/device:GPU:0",
            {
                "Stream #13(Compute)": [
                    ("gemm_fusion_dot", 2_000_000, 5_000_000, {**kernel, **hlo})
                ],
                "Stream #14(MemcpyD2H)": [("MemcpyD2H", 9_000_000, 1_500_000, copy)],
                "XLA Modules": [("jit_step", 2_000_000, 9_000_000, {})],
            },
            {"core_count": 132, "memory_size": 85_000_000_000, "device_vendor": "Nvidia"},
        ),
        plane(
            "/host:CPU",
            {
                "python": [
                    ("train", 0, 6_000_000, {"step_num": 0}),
                    ("$train.py:12 step", 500_000, 1_500_000, {}),
                    ("cuLaunchKernelEx", 1_000_000, 800_000, {"correlation_id": 7, **hlo}),
                    ("train", 6_000_000, 6_000_000, {"step_num": 1}),
                    ("cuMemcpyDtoHAsync_v2", 8_000_000, 500_000, {"correlation_id": 8}),
                ]
            },
        ),
    )
