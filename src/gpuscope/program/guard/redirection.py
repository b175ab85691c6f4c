"""Python's own functions on files, led to a scratch folder (`shadow.py`).

Replaced where modules look them up: in `os`, `io` and `builtins`, and under the names by which
modules that are there already have imported them. Writers of other languages that scripts often use
(`torch.save`, `sqlite3`, safetensors) are told another path. A path that is relative to an open
folder is looked up through `/proc/self/fd`.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from gpuscope.program.guard.shadow import Shadow

__all__ = ["install"]

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_NATIVE = {
    "torch": {"save": (1, True), "load": (0, False)},
    "torch.jit": {"save": (1, True), "load": (0, False)},
    "safetensors": {"safe_open": (0, False)},
    "safetensors.torch": {"save_file": (1, True), "load_file": (0, False)},
    "safetensors.numpy": {"save_file": (1, True), "load_file": (0, False)},
    "sqlite3": {"connect": (0, True)},
}
"""Functions of other languages: which argument is a path, and whether it is written to."""


def install(shadow: Shadow) -> None:
    """Have this process write to the scratch folder from here on; temporary files, too."""
    folder = os.path.join(shadow.folder, "tmp")
    os.mkdir(folder, 0o700)
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    if not os.path.isdir(os.path.expanduser("~/.triton")):  # which it loads libraries from
        os.environ.setdefault("TRITON_CACHE_DIR", os.path.join(folder, "triton"))
    sys.dont_write_bytecode = True
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    functions = _Functions(shadow)
    replaced: dict[int, Any] = {}
    for name, function in functions.of_os().items():
        original = getattr(os, name)
        replaced[id(original)] = _unbound(function, original)
    replaced[id(io.open)] = _unbound(functions.open, io.open)
    opener = replaced[id(io.open)]
    _in_modules(replaced)
    builtins.open = io.open = sys.modules["_io"].open = opener  # type: ignore[attr-defined]
    _native(shadow)


def _unbound(function: Callable[..., Any], original: Any) -> Callable[..., Any]:
    """A function that becomes no method where it is an attribute of a class, like Python's own."""
    return functools.update_wrapper(functools.partial(function), original)


def _in_modules(replaced: dict[int, Any]) -> None:
    """Replace functions wherever a module has them under a name of its own."""
    kept = {"posix", "_io", "nt", "gpuscope.program.guard.shadow"}
    for module_name, module in list(sys.modules.items()):
        if module_name in kept or module_name == __name__:
            continue
        known = getattr(module, "__dict__", None)
        if not isinstance(known, dict):
            continue
        for name, value in list(known.items()):
            other = replaced.get(id(value))
            if other is not None:
                known[name] = other


def _native(shadow: Shadow) -> None:
    from gpuscope.program.script.runner import when_imported

    for module, names in _NATIVE.items():
        when_imported(module, functools.partial(_tell_others, shadow, module, names))


def _tell_others(shadow: Shadow, module: str, names: dict[str, tuple[int, bool]]) -> None:
    for name, (at, writes) in names.items():
        original = getattr(sys.modules[module], name, None)
        if original is not None:
            setattr(sys.modules[module], name, _elsewhere(shadow, original, at, writes))


def _elsewhere(shadow: Shadow, original: Any, at: int, writes: bool) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if len(given) > at and _is_path(given[at]):
            given[at] = (shadow.writing if writes else shadow.reading)(given[at])
        return original(*given, **kwargs)

    return call


def _is_path(value: object) -> bool:
    return isinstance(value, (str, bytes, os.PathLike)) and os.fspath(value) not in (":memory:", "")


def _error(number: int, path: Any) -> OSError:
    return OSError(number, os.strerror(number), path)


class _Entry:
    """What `os.scandir` tells of a name."""

    def __init__(self, folder: Any, name: Any, shadow: Shadow, known: str) -> None:
        self.name = name
        self.path = os.path.join(folder, name) if folder else name
        self._shadow, self._known = shadow, known

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As `os.DirEntry.stat`."""
        return os.stat(self._known, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        """As `os.DirEntry.inode`."""
        return self.stat(follow_symlinks=False).st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """As `os.DirEntry.is_dir`."""
        return self._is(stat.S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """As `os.DirEntry.is_file`."""
        return self._is(stat.S_ISREG, follow_symlinks)

    def is_symlink(self) -> bool:
        """As `os.DirEntry.is_symlink`."""
        return self._is(stat.S_ISLNK, False)

    def is_junction(self) -> bool:
        """As `os.DirEntry.is_junction`."""
        return False

    def _is(self, kind: Callable[[int], bool], follow: bool) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follow).st_mode)
        except OSError:
            return False


class _Entries:
    """What `os.scandir` returns."""

    def __init__(self, entries: Iterator[_Entry]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[_Entry]:
        return self._entries

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""


class _Functions:
    """The functions that take the place of Python's."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._real: dict[str, Any] = dict(vars(os))
        self._open = io.open

    def of_os(self) -> dict[str, Callable[..., Any]]:
        """Those of `os`, by name."""
        found: dict[str, Callable[..., Any]] = {
            "open": self.os_open,
            "mkdir": self.mkdir,
            "remove": self.remove,
            "unlink": self.remove,
            "rmdir": self.rmdir,
            "rename": self.rename,
            "replace": self.rename,
            "link": self.link,
            "symlink": self.symlink,
            "listdir": self.listdir,
            "scandir": self.scandir,
            "chdir": self.chdir,
            "getcwd": lambda: self._shadow.where,
            "getcwdb": lambda: os.fsencode(self._shadow.where),
        }
        reading = ("stat", "lstat", "access", "readlink", "statvfs", "getxattr", "listxattr")
        writing = (
            *("chmod", "chown", "lchown", "utime", "truncate", "setxattr", "removexattr"),
            *("mkfifo", "mknod"),
        )
        for name in (*reading, *writing):
            if hasattr(os, name):
                found[name] = self._simple(name, name in writing)
        return found

    def _simple(self, name: str, writes: bool) -> Callable[..., Any]:
        """A function of one path that may take `dir_fd` and `follow_symlinks`."""
        original, shadow = self._real[name], self._shadow
        never = name in ("lstat", "lchown", "readlink", "mkfifo", "mknod")

        def call(path: Any, *args: Any, dir_fd: Any = None, **kwargs: Any) -> Any:
            if path is None or isinstance(path, int):
                return original(path, *args, **kwargs)
            follow = not never and kwargs.get("follow_symlinks", True)
            where = shadow.writing if writes else shadow.reading
            result = original(where(path, dir_fd, follow=follow), *args, **kwargs)
            return os.fsencode(result) if name == "readlink" and isinstance(path, bytes) else result

        return call

    # -- files ------------------------------------------------------------------------------------

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """As `open`."""
        opener = kwargs.get("opener") or (args[5] if len(args) > 5 else None)
        if isinstance(file, int) or opener is not None or not isinstance(mode, str):
            return self._open(file, mode, *args, **kwargs)
        if any(letter in mode for letter in "wax+"):
            path = self._shadow.writing(file, copied="w" not in mode)
            if "x" in mode and self._shadow.exists(self._shadow.known_as(file)):
                raise _error(errno.EEXIST, file)
        else:
            path = self._shadow.reading(file)
        return self._open(path, mode, *args, **kwargs)

    def os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
        """As `os.open`."""
        shadow, follow = self._shadow, not flags & os.O_NOFOLLOW
        if flags & getattr(os, "O_TMPFILE", 0) == getattr(os, "O_TMPFILE", -1):
            where = shadow.writing(path, dir_fd)
        elif flags & _WRITING:
            if flags & os.O_EXCL and shadow.exists(shadow.known_as(path, dir_fd, follow)):
                raise _error(errno.EEXIST, path)
            anew = os.O_CREAT | os.O_TRUNC
            where = shadow.writing(path, dir_fd, copied=flags & anew != anew, follow=follow)
        else:
            where = shadow.reading(path, dir_fd, follow)
        found: int = self._real["open"](where, flags, mode)
        return found

    def remove(self, path: Any, *, dir_fd: Any = None) -> None:
        """As `os.remove`."""
        known = self._shadow.known_as(path, dir_fd, follow=False)
        if stat.S_ISDIR(self._mode(known, path)):
            raise _error(errno.EISDIR, path)
        self._drop(known, "remove")

    def rename(self, src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None) -> None:
        """As `os.rename`; a folder that was there before is copied by whoever asks (`EXDEV`)."""
        shadow = self._shadow
        known, then = (
            shadow.known_as(path, fd, follow=False)
            for path, fd in ((src, src_dir_fd), (dst, dst_dir_fd))
        )
        if stat.S_ISDIR(self._mode(known, src)) and shadow.is_below(known):
            raise _error(errno.EXDEV, src)
        if shadow.exists(then) and stat.S_ISDIR(shadow.mode(then)) and shadow.names(then):
            raise _error(errno.ENOTEMPTY if stat.S_ISDIR(shadow.mode(known)) else errno.EISDIR, dst)
        target = shadow.writing(then, copied=False, follow=False)
        self._real["rename"](shadow.writing(known, follow=False), target)
        shadow.hide(known)

    def link(
        self,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: Any = None,
        dst_dir_fd: Any = None,
        follow_symlinks: bool = True,
    ) -> None:
        """As `os.link`."""
        shadow = self._shadow
        source = shadow.writing(src, src_dir_fd, follow=follow_symlinks)
        self._fresh(dst, dst_dir_fd)
        self._real["link"](source, shadow.writing(dst, dst_dir_fd, copied=False, follow=False))

    def symlink(
        self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: Any = None
    ) -> None:
        """As `os.symlink`."""
        self._fresh(dst, dir_fd)
        self._real["symlink"](src, self._shadow.writing(dst, dir_fd, copied=False, follow=False))

    # -- folders ----------------------------------------------------------------------------------

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: Any = None) -> None:
        """As `os.mkdir`."""
        self._fresh(path, dir_fd)
        self._real["mkdir"](self._shadow.writing(path, dir_fd, copied=False, follow=False), mode)

    def rmdir(self, path: Any, *, dir_fd: Any = None) -> None:
        """As `os.rmdir`."""
        known = self._shadow.known_as(path, dir_fd, follow=False)
        if not stat.S_ISDIR(self._mode(known, path)):
            raise _error(errno.ENOTDIR, path)
        if self._shadow.names(known):
            raise _error(errno.ENOTEMPTY, path)
        self._drop(known, "rmdir")

    def listdir(self, path: Any = ".") -> list[Any]:
        """As `os.listdir`."""
        path = "." if path is None else path
        known = self._shadow.known_as("." if isinstance(path, int) else path, self._fd(path))
        names = self._shadow.names(known)
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names

    def scandir(self, path: Any = ".") -> _Entries:
        """As `os.scandir`."""
        path = "." if path is None else path
        known = self._shadow.known_as("." if isinstance(path, int) else path, self._fd(path))
        folder = "" if isinstance(path, int) else os.fspath(path)
        return _Entries(
            _Entry(
                folder,
                os.fsencode(name) if isinstance(folder, bytes) else name,
                self._shadow,
                os.path.join(known, name),
            )
            for name in self._shadow.names(known)
        )

    def chdir(self, path: Any) -> None:
        """As `os.chdir`."""
        known = self._shadow.known_as("." if isinstance(path, int) else path, self._fd(path))
        self._real["chdir"](self._shadow.reading(known))
        self._shadow.where = known

    # -- helpers ----------------------------------------------------------------------------------

    def _fd(self, path: Any) -> int | None:
        return path if isinstance(path, int) else None

    def _mode(self, known: str, path: Any) -> int:
        if not self._shadow.exists(known):
            raise _error(errno.ENOENT, path)
        return self._shadow.mode(known)

    def _fresh(self, path: Any, dir_fd: int | None) -> None:
        if self._shadow.exists(self._shadow.known_as(path, dir_fd, follow=False)):
            raise _error(errno.EEXIST, path)

    def _drop(self, known: str, how: str) -> None:
        if not self._shadow.is_below(known):
            self._real[how](self._shadow.reading(known))
        self._shadow.hide(known)
