from __future__ import annotations

import os
import sys
import threading
import time

import pytest

from gpuscope.doctor.processes import Processes


def run(code: str, timeout_s: float = 10.0, **more):
    return Processes().run((sys.executable, "-c", code), timeout_s, **more)


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not yet collected does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_output_and_exit_code() -> None:
    ended = run("import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)")
    assert (ended.code, ended.out, ended.err) == (3, "a\n", "b\n")


def test_much_output_on_both_streams_does_not_block() -> None:
    ended = run("import sys\nfor i in range(9000): print('x'*99); print('y'*99, file=sys.stderr)")
    assert ended.code == 0
    assert len(ended.out) == len(ended.err) == 900_000


def test_lines_are_heard_as_they_come() -> None:
    heard: list[tuple[str, float]] = []
    code = (
        "import sys, time\n"
        "for word in ('one', 'two'): print(word, file=sys.stderr, flush=True); time.sleep(0.7)"
    )
    run(code, tell=lambda line: heard.append((line, time.perf_counter())))
    assert [line for line, _ in heard] == ["one", "two"]
    assert heard[1][1] - heard[0][1] > 0.4


def test_a_program_that_hangs_is_ended_with_what_it_started() -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    begin = time.perf_counter()
    ended = run(code, timeout_s=5.0)  # a busy machine needs a while to start two of them
    assert ended.code is None
    assert time.perf_counter() - begin < 30
    deadline = time.perf_counter() + 10  # the system needs a moment to take it away
    while alive(int(ended.out)) and time.perf_counter() < deadline:
        time.sleep(0.05)
    assert not alive(int(ended.out))


def test_what_is_no_program_is_an_answer_too() -> None:
    assert Processes().run(("/no/such/program",), 1.0).code == 127


def test_stop_ends_what_runs_and_what_would_begin() -> None:
    processes = Processes()
    ended = []
    words = (sys.executable, "-c", "import time; time.sleep(60)")
    thread = threading.Thread(target=lambda: ended.append(processes.run(words, 60.0)))
    thread.start()
    time.sleep(0.5)
    processes.stop()
    thread.join(30)
    assert [each.code for each in ended] == [None]
    begin = time.perf_counter()
    assert processes.run(words, 60.0).code is None
    assert time.perf_counter() - begin < 30  # of sixty


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files by /proc")
def test_nothing_stays_open() -> None:
    run("print(1)")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run("print(1)")
    assert len(os.listdir("/proc/self/fd")) <= before
