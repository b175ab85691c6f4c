# ruff: noqa: SIM115 - ordinary code does not either
"""Ways in which ordinary code changes files, reaches other machines or ends processes.

`python ways.py FOLDER PROCESS [WAY ...]` enters the guard and goes each way in a folder of its own,
`FOLDER/<way>` as `prepare` made it; a line of JSON says what each came to.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

OLD = "old\n"
WAYS: dict[str, Callable[[Path, int], object]] = {}
NATIVE: set[str] = set()
"""Ways that no audit hook is told of and no function of Python's leads to."""
ENDS: set[str] = set()
"""Ways to other machines and processes."""

THERE = ("192.0.2.1", 9)
"""An address that belongs to nobody (RFC 5737)."""


def prepare(folder: Path) -> None:
    """Make the folder of one way."""
    (folder / "sub").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "a.txt").write_text(OLD)
    (folder / "sub" / "b.txt").write_text(OLD)
    (folder / "link").symlink_to("a.txt")


def state(folder: Path) -> list[tuple[object, ...]]:
    """Everything of a folder that a way could change."""
    found = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        said = path.read_bytes() if path.is_file() else path.is_dir()
        extra = os.listxattr(path, follow_symlinks=False)
        kept = (status.st_mode, status.st_nlink, status.st_uid, status.st_mtime_ns)
        found.append((str(path.relative_to(folder)), said, extra, *kept))
    return found


def way(function: Callable[[Path, int], object]) -> Callable[[Path, int], object]:
    WAYS[function.__name__] = function
    return function


def native(function: Callable[[Path, int], object]) -> Callable[[Path, int], object]:
    NATIVE.add(function.__name__)
    return way(function)


def end(function: Callable[[Path, int], object]) -> Callable[[Path, int], object]:
    ENDS.add(function.__name__)
    return way(function)


def _simple(name: str, function: Callable[[Path], object]) -> None:
    WAYS[name] = lambda folder, process: function(folder)


def _written(descriptor: int) -> None:
    os.write(descriptor, b"new")
    os.close(descriptor)


def _at(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY)


def _new(folder: Path) -> Path:
    path = Path(__import__("tempfile").mkdtemp()) / "new.txt"
    path.write_text("new")
    return path


_O = os.O_WRONLY | os.O_CREAT
for _name, _function in {
    "open_w": lambda f: open(f / "a.txt", "w").close(),
    "open_a": lambda f: open(f / "a.txt", "a").write("x"),
    "open_r_plus": lambda f: open(f / "a.txt", "r+").write("x"),
    "open_x": lambda f: open(f / "new", "x").close(),
    "open_through_link": lambda f: open(f / "link", "w").close(),
    "open_from_here": lambda f: (os.chdir(f), open("a.txt", "w").close()),
    "open_proc_cwd": lambda f: (os.chdir(f), open("/proc/self/cwd/a.txt", "w").close()),
    "open_proc_fd": lambda f: open(f"/proc/self/fd/{_at(f)}/a.txt", "w").close(),
    "file_io": lambda f: __import__("io").FileIO(str(f / "a.txt"), "w").close(),
    "posix_open": lambda f: _written(__import__("posix").open(str(f / "a.txt"), os.O_WRONLY)),
    "posix_remove": lambda f: __import__("posix").remove(str(f / "a.txt")),
    "write_text": lambda f: (f / "a.txt").write_text("new"),
    "write_bytes": lambda f: (f / "new").write_bytes(b"new"),
    "path_touch": lambda f: (f / "new").touch(),
    "path_touch_old": lambda f: (f / "a.txt").touch(),
    "path_unlink": lambda f: (f / "a.txt").unlink(),
    "path_rename": lambda f: (f / "a.txt").rename(f / "c.txt"),
    "path_replace": lambda f: (f / "a.txt").replace(f / "sub" / "b.txt"),
    "path_mkdir": lambda f: (f / "new" / "er").mkdir(parents=True),
    "path_rmdir": lambda f: (f / "empty").rmdir(),
    "path_symlink": lambda f: (f / "new").symlink_to("a.txt"),
    "path_hardlink": lambda f: (f / "new").hardlink_to(f / "a.txt"),
    "path_chmod": lambda f: (f / "a.txt").chmod(0o600),
    "os_open_trunc": lambda f: _written(os.open(f / "a.txt", os.O_WRONLY | os.O_TRUNC)),
    "os_open_create": lambda f: _written(os.open(f / "new", _O)),
    "os_open_dir_fd": lambda f: _written(os.open("a.txt", _O, dir_fd=_at(f))),
    "os_open_append": lambda f: _written(os.open(f / "a.txt", os.O_WRONLY | os.O_APPEND)),
    "os_ftruncate": lambda f: os.ftruncate(os.open(f / "a.txt", os.O_RDWR), 0),
    "os_truncate": lambda f: os.truncate(f / "a.txt", 0),
    "os_replace_from_temporary": lambda f: os.replace(_new(f), f / "a.txt"),
    "os_rename": lambda f: os.rename(f / "a.txt", f / "c.txt"),
    "os_rename_folder": lambda f: os.rename(f / "sub", f / "other"),
    "os_rename_dir_fd": lambda f: os.rename("a.txt", "c", src_dir_fd=_at(f), dst_dir_fd=_at(f)),
    "os_remove": lambda f: os.remove(f / "a.txt"),
    "os_remove_dir_fd": lambda f: os.remove("a.txt", dir_fd=_at(f)),
    "os_unlink_bytes": lambda f: os.unlink(os.fsencode(f / "a.txt")),
    "os_rmdir_dir_fd": lambda f: os.rmdir("empty", dir_fd=_at(f)),
    "os_mkdir_dir_fd": lambda f: os.mkdir("new", dir_fd=_at(f)),
    "os_makedirs": lambda f: os.makedirs(f / "x" / "y"),
    "os_removedirs": lambda f: os.removedirs(f / "empty"),
    "os_link": lambda f: os.link(f / "a.txt", f / "new"),
    "os_symlink_dir_fd": lambda f: os.symlink("a.txt", "new", dir_fd=_at(f)),
    "os_chmod": lambda f: os.chmod(f / "a.txt", 0o600),
    "os_fchmod": lambda f: os.fchmod(os.open(f / "a.txt", os.O_RDWR), 0o600),
    "os_chown": lambda f: os.chown(f / "a.txt", os.getuid(), os.getgid()),
    "os_utime": lambda f: os.utime(f / "a.txt", (1, 1)),
    "os_utime_dir_fd": lambda f: os.utime("a.txt", (1, 1), dir_fd=_at(f)),
    "os_setxattr": lambda f: os.setxattr(f / "a.txt", "user.new", b"1"),
    "os_mkfifo": lambda f: os.mkfifo(f / "new"),
    "os_system": lambda f: os.system(f"echo new > {f}/a.txt"),
    "os_posix_spawn": lambda f: os.waitpid(
        os.posix_spawn("/bin/rm", ["rm", str(f / "a.txt")], dict(os.environ)), 0
    ),
    "subprocess_rm": lambda f: __import__("subprocess").run(["rm", "-r", f / "sub"]),
    "subprocess_chmod": lambda f: __import__("subprocess").run(["chmod", "600", f / "a.txt"]),
    "subprocess_touch": lambda f: __import__("subprocess").run(["touch", f / "a.txt"]),
    "shutil_move_in": lambda f: __import__("shutil").move(_new(f), f / "a.txt"),
    "shutil_move_out": lambda f: __import__("shutil").move(f / "sub", _new(f).parent),
    "shutil_copy": lambda f: __import__("shutil").copy(f / "sub" / "b.txt", f / "a.txt"),
    "shutil_copy2": lambda f: __import__("shutil").copy2(_new(f), f / "a.txt"),
    "shutil_copytree": lambda f: __import__("shutil").copytree(f / "sub", f / "other"),
    "shutil_rmtree": lambda f: __import__("shutil").rmtree(f / "sub"),
    "gzip": lambda f: __import__("gzip").open(f / "a.txt", "wb").close(),
    "bz2": lambda f: __import__("bz2").open(f / "a.txt", "wb").close(),
    "zipfile": lambda f: __import__("zipfile").ZipFile(f / "a.txt", "w").close(),
    "tarfile": lambda f: __import__("tarfile").open(f / "a.txt", "w").close(),
    "named_temporary": lambda f: __import__("tempfile").NamedTemporaryFile(dir=f, delete=False),
    "shelve": lambda f: __import__("dbm.dumb").dumb.open(str(f / "new"), "n").close(),
}.items():
    _simple(_name, _function)


@way
def log_file(folder: Path, process: int) -> None:
    import logging

    handler = logging.FileHandler(folder / "a.txt")
    handler.emit(logging.LogRecord("x", 30, "x", 1, "new", (), None))


@way
def in_place(folder: Path, process: int) -> None:
    import fileinput

    with fileinput.input(str(folder / "a.txt"), inplace=True) as lines:
        for line in lines:
            print(line.upper())


@way
def sqlite(folder: Path, process: int) -> None:
    import sqlite3

    with sqlite3.connect(folder / "new.db") as database:
        database.execute("create table t (x)")


@native
def sqlite_factory(folder: Path, process: int) -> None:
    import _sqlite3

    _sqlite3.Connection(str(folder / "new.db")).execute("create table t (x)")


@way
def mapped(folder: Path, process: int) -> None:
    import mmap

    with open(folder / "a.txt", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"X"


@way
def sent_file(folder: Path, process: int) -> None:
    source = os.open(_new(folder), os.O_RDONLY)
    os.sendfile(os.open(folder / "a.txt", os.O_WRONLY), source, 0, 3)


@way
def copied_range(folder: Path, process: int) -> None:
    source = os.open(_new(folder), os.O_RDONLY)
    os.copy_file_range(source, os.open(folder / "a.txt", os.O_WRONLY), 3)


@way
def numpy_save(folder: Path, process: int) -> None:
    import numpy

    numpy.save(folder / "new.npy", [1])
    numpy.savez(folder / "new.npz", x=[1])
    numpy.array([1]).tofile(str(folder / "a.txt"))
    numpy.memmap(folder / "a.txt", mode="r+")[0] = 1


@way
def torch_save(folder: Path, process: int) -> None:
    import torch

    torch.save(torch.ones(2), folder / "a.txt")


@way
def torch_save_new_name(folder: Path, process: int) -> None:
    from torch import save

    save({}, str(folder / "new.pt"))


@way
def torch_jit_save(folder: Path, process: int) -> None:
    import torch

    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), str(folder / "new.pt"))


@native
def torch_jit_module_save(folder: Path, process: int) -> None:
    import torch

    torch.jit.script(torch.nn.Linear(1, 1)).save(str(folder / "new.pt"))


@native
def torch_file_writer(folder: Path, process: int) -> None:
    import torch

    torch._C.PyTorchFileWriter(str(folder / "new.pt")).write_end_of_file()


@way
def safetensors(folder: Path, process: int) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"x": torch.ones(1)}, str(folder / "a.txt"))


@native
def pyarrow(folder: Path, process: int) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"x": [1]}), folder / "new.parquet")


@way
def cache_that_is_not_there(folder: Path, process: int) -> None:
    """As Triton makes its folder: at home."""
    os.makedirs(os.path.expanduser("~/.triton/cache"), exist_ok=True)
    os.makedirs(os.path.join(os.environ.get("TRITON_CACHE_DIR", folder), "x"))


@native
def libc(folder: Path, process: int) -> None:
    import ctypes

    ctypes.CDLL(None).unlink(os.fsencode(folder / "a.txt"))


@way
def thread(folder: Path, process: int) -> None:
    import threading

    writing = threading.Thread(target=lambda: (folder / "a.txt").write_text("new"))
    writing.start()
    writing.join()


@way
def thread_of_a_library(folder: Path, process: int) -> None:
    import threading

    removing = threading.Thread(target=os.remove, args=(str(folder / "a.txt"),))
    removing.start()
    removing.join()


@way
def pool_of_threads(folder: Path, process: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(os.replace, folder / "a.txt", folder / "sub" / "b.txt").result()


def _remove(path: str) -> None:
    os.remove(path)


def _process(folder: Path, method: str) -> None:
    import multiprocessing

    child = multiprocessing.get_context(method).Process(
        target=_remove, args=(str(folder / "a.txt"),)
    )
    child.start()
    child.join()


@way
def forked(folder: Path, process: int) -> None:
    child = os.fork()
    if child == 0:
        try:
            (folder / "a.txt").write_text("new")
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@way
def multiprocessing_fork(folder: Path, process: int) -> None:
    _process(folder, "fork")


@way
def multiprocessing_spawn(folder: Path, process: int) -> None:
    _process(folder, "spawn")


@way
def multiprocessing_forkserver(folder: Path, process: int) -> None:
    _process(folder, "forkserver")


@end
def connect(folder: Path, process: int) -> None:
    import socket

    socket.create_connection(THERE, timeout=5)


@end
def send_to(folder: Path, process: int) -> None:
    import socket

    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"new", THERE)


@end
def send_message(folder: Path, process: int) -> None:
    import socket

    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b"new"], [], 0, THERE)


@end
def download(folder: Path, process: int) -> None:
    import urllib.request

    urllib.request.urlopen(f"http://{THERE[0]}/", timeout=5)


@end
def kill(folder: Path, process: int) -> None:
    os.kill(process, 9)


@end
def kill_group(folder: Path, process: int) -> None:
    os.killpg(process, 9)


@native
def kill_by_descriptor(folder: Path, process: int) -> None:
    import signal

    signal.pidfd_send_signal(os.pidfd_open(process), 9)


@way
def kill_by_program(folder: Path, process: int) -> None:
    import subprocess

    subprocess.run(["kill", "-9", str(process)], check=True)


@way
def triton_like(folder: Path, process: int) -> None:
    """A user's own folder that has the name of a compiler's."""
    source = "import os, sys\nos.remove(sys.argv[1])\n"
    code = compile(source, "/home/user/triton/train.py", "exec")
    sys.argv = ["x", str(folder / "a.txt")]
    exec(code, {})


def main() -> None:
    """Enter the guard and go the ways."""
    from gpuscope.program.guard import enter

    folder, process, scratch = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    names = sys.argv[4:] or list(WAYS)
    if os.environ.get("WITHOUT_LANDLOCK"):
        from gpuscope.program.guard import landlock

        landlock._version = _no_landlock
    os.chdir(folder)
    held = enter("ways.py", scratch)
    print(json.dumps({"held": held.way, "kernel": held.kernel, "why": held.why}), flush=True)
    for name in names:
        try:
            WAYS[name](folder / name, process)
            said = "done"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        except BaseException as error:
            said = f"!{type(error).__name__}: {error}"
        print(json.dumps({name: said}), flush=True)


def _no_landlock() -> int:
    raise OSError("not here")


if __name__ == "__main__":
    main()
