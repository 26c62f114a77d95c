"""Remote outputs: a local working directory whose files are uploaded to `gs://` or `s3://` as they are written.

An object store replaces an object whole or not at all, but renames nothing. So each file is written and renamed in the
working directory, and then uploaded under its final name. Files that say that others are complete come last.
"""

import contextlib
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import watch_directory
from keras_nplm.io.lock import LOCK_NAME, describe_process, is_dead, locked_error, parse_lock
from keras_nplm.io.paths import is_remote
from keras_nplm.io.remote import (
    WORKING_DIRECTORIES,
    download_file,
    explain_errors,
    find_cache,
    list_files,
    normalise_url,
    open_filesystem,
)

HEARTBEAT = 15.0  # seconds between two writes of the remote lock
SILENCE = 60.0  # seconds without a heartbeat after which the holder counts as dead
_LAST = (
    "prepared.json",
    "saved_model.pb",
    "models.config",
    "config.json",
    "metrics.json",
)  # they say that the others are complete
_PRECONDITION_FAILED = "412"  # status of GCS where an object exists already
_WORK = re.compile(r"(.+)-(\d+)-[^-]+")  # host and process of a working directory
_MIRRORS: dict[str, "_Mirror"] = {}  # by working directory


@contextlib.contextmanager
def open_output(path: str | os.PathLike, *, resume: bool = False, writes: bool = True) -> Iterator[Path]:
    """Open an output directory. For a remote one, yield a local working directory whose files are uploaded.

    `replace_file` uploads each file that it writes there, after all others that have changed. The rest follows at the
    end of the block, also after an error. Files that the block removes are removed remotely. The working directory is
    removed at the end.

    The remote object `.lock` names the process that writes. It is created only if it is absent, and renewed every 15
    seconds. After 60 seconds without a sign, or if its process of this host has ended, the next command replaces it. A
    process whose lock was replaced uploads nothing more.

    Args:
        path: a local path, which is yielded as it is, or a `gs://` or `s3://` URL.
        resume: download an unfinished or finished run from there. Otherwise the working directory has an empty file
            in place of each remote one.
        writes: False: neither lock nor upload, for workers other than the chief.

    Raises:
        InputError: there is no such bucket, or the credentials are refused.
        LockedError: a different process writes there. It is a RunError.
        RunError: the object store cannot be reached, or the lock was replaced.
    """
    if not is_remote(path):
        yield Path(path)
        return
    url = normalise_url(path)
    with _make_working_directory(url) as local:
        mirror = _Mirror(url, local)
        with _register(mirror), _name_remote(local, url), mirror.locked() if writes else contextlib.nullcontext():
            mirror.download(resume)
            with mirror.uploading() if writes else contextlib.nullcontext():
                yield local


@contextlib.contextmanager
def open_output_file(path: str | os.PathLike) -> Iterator[Path]:
    """Open an output file. For a remote one, yield a local path: at the end it is uploaded, with files beside it.

    Args:
        path: a local path, which is yielded as it is, or a `gs://` or `s3://` URL.

    Raises:
        InputError: there is no such bucket, the credentials are refused, or the file lies in a model directory.
        RunError: the object store cannot be reached.
    """
    if not is_remote(path):
        yield Path(path)
        return
    parent, _, name = normalise_url(path).rpartition("/")
    if parent.endswith(":/"):
        raise InputError(f"A remote file must lie in a bucket. Received: {os.fspath(path)}. Fix: name a file in it.")
    filesystem = open_filesystem(parent)
    with explain_errors(parent, "write"):
        if filesystem.exists(f"{parent}/config.json"):
            raise InputError(f"{parent}/{name} lies in a model directory. Fix: choose a different directory.")
    with _make_working_directory(parent) as local:
        mirror = _Mirror(parent, local)
        with _register(mirror), _name_remote(local, parent):
            yield local / name
            mirror.upload()


def refresh_output(local: Path) -> None:
    """Download what was uploaded since to the remote output of a working directory; nothing for other directories.

    Raises:
        InputError: the credentials are refused.
        RunError: the object store cannot be reached.
    """
    if mirror := _MIRRORS.get(str(local)):
        mirror.download(True)


class _Mirror:
    """A remote directory and its local working directory."""

    def __init__(self, url: str, local: Path):
        self.url, self.local = url, local
        self._filesystem = open_filesystem(url)
        self._states: dict[str, tuple[int, int, int]] = {}  # of the local files that are as the remote ones
        self._lock = _RemoteLock(self._filesystem, url)
        self._failed = False

    def download(self, contents: bool) -> None:
        """Download the remote files that are not here; without `contents`, or if they are no run, their names."""
        with explain_errors(self.url, "read"):
            listed = list_files(self._filesystem, self.url)
            is_run = any(name == "config.json" or name.startswith("corpus/") for name in listed)
            for name, described in listed.items():
                path = self.local / name
                if name == LOCK_NAME or path.exists():
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                if contents and is_run:
                    download_file(self._filesystem, f"{self.url}/{name}", path, described["size"])
                else:
                    path.touch()
                self._states[name] = _read_state(path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the remote lock, unless the remote directory holds a finished run."""
        with explain_errors(self.url, "write"):
            is_finished = all(map(self._filesystem.exists, (f"{self.url}/{name}" for name in _LAST[-2:])))
        if is_finished:
            yield
            return
        with self._lock.held():
            yield

    @contextlib.contextmanager
    def uploading(self) -> Iterator[None]:
        """Upload files as they are written, and the rest at the end."""
        try:
            with watch_directory(self.local, self.upload):
                yield
        finally:
            if not self._failed:
                self.upload()

    def upload(self, last: Path | None = None) -> None:
        """Upload the files that have changed, and remove those that are gone.

        Args:
            last: a file that is uploaded after all others.
        """
        files = [path for path in self.local.rglob("*") if path.is_file()]
        found = {path.relative_to(self.local).as_posix(): path for path in files}
        found = {name: path for name, path in found.items() if not any(part[0] == "." for part in name.split("/"))}
        changed = [name for name, path in found.items() if self._states.get(name) != _read_state(path)]
        gone = self._states.keys() - found.keys()
        if not changed and not gone:
            return
        self._failed = True  # until it has succeeded: the end of the block does not try again
        self._lock.check()
        for name in sorted(changed, key=lambda name: (found[name] == last, _rank(name), name)):
            with explain_errors(f"{self.url}/{name}", "write"):
                state = _read_state(found[name])
                self._filesystem.put_file(str(found[name]), f"{self.url}/{name}")
                self._states[name] = state
        for name in gone:
            with explain_errors(f"{self.url}/{name}", "write"):
                self._filesystem.rm_file(f"{self.url}/{name}")
                del self._states[name]
        self._failed = False


def _rank(name: str) -> int:
    base = name.rpartition("/")[2]
    return _LAST.index(base) + 1 if base in _LAST else 0


def _read_state(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ino


class _RemoteLock:
    """The object `.lock` of a remote directory, which names the process that writes it."""

    _held: set[str] = set()  # URLs that this process has locked

    def __init__(self, filesystem: Any, url: str):
        self._filesystem, self._url, self._path = filesystem, url, f"{url}/{LOCK_NAME}"
        self._content = b""

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Take the lock, renew it in a thread, and remove it at the end.

        Raises:
            LockedError: a living process holds it.
        """
        with explain_errors(self._url, "write"):
            self._acquire()
        self._held.add(self._url)
        finished = threading.Event()
        renewal = threading.Thread(target=self._renew, args=(finished,), daemon=True)
        renewal.start()
        try:
            yield
        finally:
            finished.set()
            renewal.join()
            self._held.discard(self._url)
            with contextlib.suppress(Exception):  # an error of the block tells more
                if self._read() == self._content:
                    self._filesystem.rm_file(self._path)
            self._content = b""

    def check(self) -> None:
        """Check that the lock, if it was taken, is still this process's.

        Raises:
            RunError: it was removed or replaced.
        """
        if self._content:
            with explain_errors(self._path, "read"):
                content = self._read()
            if content != self._content:
                raise RunError(
                    f"{self._url} was deleted or taken over while this command wrote it. Fix: run the command again, "
                    "and leave the directory in place until it ends."
                )

    def _acquire(self) -> None:
        content = describe_process()
        while True:
            if (found := self._read()) is not None:
                self._wait_for_silence(parse_lock(found))
                with contextlib.suppress(FileNotFoundError):
                    self._filesystem.rm_file(self._path)
            try:
                self._filesystem.pipe_file(self._path, content, mode="create")
            except FileExistsError:
                pass  # only one of several processes creates it
            except Exception as error:
                if str(getattr(error, "code", "")) != _PRECONDITION_FAILED:
                    raise
            if self._read() == content:
                self._content = content
                return

    def _wait_for_silence(self, holder: dict) -> None:
        """Return if the holder is dead, or raise LockedError at its first sign."""
        if self._url in self._held:
            raise locked_error(self._url, holder)
        if holder.get("host") == socket.gethostname() and is_dead(holder.get("process"), self._url):
            return
        print(
            f"Waiting {SILENCE:.0f} s for a sign of the process on {holder.get('host', 'unknown')} that locked "
            f"{self._url}.",
            file=sys.stderr,
        )
        before, end = self._read_heartbeat(), time.monotonic() + SILENCE
        while time.monotonic() < end:
            time.sleep(min(1.0, SILENCE / 10))
            now = self._read_heartbeat()
            if now is None:
                return
            if now != before:
                raise locked_error(self._url, holder)

    def _renew(self, finished: threading.Event) -> None:
        while not finished.wait(HEARTBEAT):
            with contextlib.suppress(Exception):  # the next upload reports what does not pass
                if self._read() == self._content:
                    self._filesystem.pipe_file(self._path, self._content)

    def _read(self) -> bytes | None:
        try:
            return self._filesystem.cat_file(self._path)
        except FileNotFoundError:
            return None

    def _read_heartbeat(self) -> Any:
        try:
            return self._filesystem.modified(self._path)
        except FileNotFoundError:
            return None


@contextlib.contextmanager
def _make_working_directory(url: str) -> Iterator[Path]:
    """Yield a new directory with the last name of the URL; remove it at the end, and those of dead processes."""
    work = find_cache() / "work"
    with explain_errors(url, "write"):
        work.mkdir(parents=True, exist_ok=True)
        for stale in work.iterdir():
            owner = _WORK.fullmatch(stale.name)
            if not owner or owner[1] != socket.gethostname() or int(owner[2]) == os.getpid():
                continue
            if is_dead(int(owner[2]), str(stale)):
                shutil.rmtree(stale, ignore_errors=True)
        parent = tempfile.mkdtemp(prefix=f"{socket.gethostname()}-{os.getpid()}-", dir=work)
        local = Path(parent, url.rpartition("/")[2])
        local.mkdir()
    try:
        yield local
    finally:
        shutil.rmtree(parent, ignore_errors=True)


@contextlib.contextmanager
def _register(mirror: _Mirror) -> Iterator[None]:
    """Make a working directory known by its URL."""
    local = str(mirror.local)
    _MIRRORS[local], WORKING_DIRECTORIES[local] = mirror, mirror.url
    try:
        yield
    finally:
        del _MIRRORS[local], WORKING_DIRECTORIES[local]


@contextlib.contextmanager
def _name_remote(local: Path, url: str) -> Iterator[None]:
    """Name the URL in errors, in place of the working directory."""
    try:
        yield
    except (InputError, RunError) as error:
        if str(local) not in str(error):
            raise
        raise type(error)(str(error).replace(str(local), url)) from error
