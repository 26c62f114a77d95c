"""Meeting of the workers of a training: they wait for each other before TensorFlow starts, and notice a lost worker.

TensorFlow waits for absent workers without a word, for an hour, and does not return to Python meanwhile. It notices a
killed worker by missing heartbeats, after 10 to 20 seconds. So the workers meet over plain TCP first. Each listens on
its own address in `TF_CONFIG` and connects to the workers with lower numbers. A worker that is connected to all others
closes its port and says so. When all have said so, every port is free and TensorFlow starts.

The connections stay open while the workers train. The operating system closes those of a process that ends, however it
ends, and the others know at once. Keepalive packets reveal a machine or a network that is gone.
"""

import contextlib
import errno
import hashlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from keras_nplm.io.errors import InputError, RunError

SECONDS_PER_NOTE = 60.0  # between two lines of a worker that waits for the same workers
_RETRY = 0.25  # seconds between two attempts to reach a worker
_PATIENCE = 5.0  # seconds for a connection and for its first line
_GRACE = 0.5  # seconds for an error of this worker itself, if the same error ended the lost worker
_MOST_LINE = 128  # bytes of a message
_MOST_NAMES = 8  # workers that a line names
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 6}  # a silent machine is lost after 45 s


class Meeting:
    """Connections between the workers of one training.

    Args:
        workers: the addresses of all workers, `host:port`.
        index: the number of this worker.
    """

    def __init__(self, workers: Sequence[str], index: int):
        self.workers, self.index = tuple(workers), index
        self.peers = frozenset(range(len(workers))) - {index}
        self._cluster = hashlib.sha256("\n".join(workers).encode()).hexdigest()[:16]
        self._changed = threading.Condition()  # guards what follows
        self._connections: dict[int, socket.socket] = {}
        self._ready: set[int] = set()  # peers that are connected to all others
        self._finished: set[int] = set()  # peers whose training has ended well
        self._lost: set[int] = set()  # peers that ended otherwise
        self._foreign: str | None = None  # a worker with a different list of workers
        self._has_met, self._is_closed = False, False
        self._on_loss: Callable[[], None] | None = None
        self._listening: threading.Thread | None = None
        self._stop_listening = threading.Event()

    # Before the training

    def wait_for_all(self, timeout: float) -> None:
        """Return when all workers are connected and all their ports are free.

        Prints which workers are absent: at once, when their set changes, and each minute.

        Args:
            timeout: the longest wait, in seconds.

        Raises:
            InputError: a worker has a different list of workers, or this worker's port cannot be used here.
            RunError: the port is in use, or a worker did not come in time.
        """
        end = time.monotonic() + timeout
        said, said_at = frozenset(), time.monotonic()
        try:
            self._listen()
            for peer in range(self.index):
                threading.Thread(target=self._dial, args=(peer,), daemon=True).start()
            while True:
                self._update_readiness()
                with self._changed:
                    if self._foreign:
                        raise InputError(self._foreign)
                    absent, unready = self.peers - self._connections.keys(), self.peers - self._ready
                    if not unready and not absent and not self._listening:
                        self._has_met = True
                        break
                    now = time.monotonic()
                    if now >= end:
                        raise self._timeout_error(absent, unready, timeout)
                    if (absent and absent != said) or now - said_at >= SECONDS_PER_NOTE:
                        said, said_at = absent, now
                        self._print_absent(absent, unready, end - now)
                    self._changed.wait(min(_RETRY, end - now))
        except BaseException:
            self.close()
            raise
        print(f"All {len(self.workers)} workers are connected.", file=sys.stderr)

    def _update_readiness(self) -> None:
        """Close the port and tell the peers when all are connected; open it again if one has left."""
        with self._changed:
            is_complete = self._connections.keys() == self.peers
        if is_complete and self._listening:
            self._stop_listening.set()
            self._listening.join()
            self._listening = None
            self._send("ready")
        elif not is_complete and not self._listening:
            self._listen()

    def _listen(self) -> None:
        """Listen on this worker's port on all interfaces, as TensorFlow does."""
        address = self.workers[self.index]
        listener = socket.socket()
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port of an ended process is free
            listener.bind(("", int(address.rpartition(":")[2])))
            listener.listen(len(self.workers))
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                raise RunError(
                    f"The port of worker {self.index} ({address}) is in use on this machine. Fix: end the process that "
                    "uses it, or change the port in TF_CONFIG of all workers."
                ) from error
            raise InputError(
                f"TF_CONFIG must give worker {self.index} a port that it can open. Received: {address} "
                f"({error.strerror}). Fix: change the port in TF_CONFIG of all workers."
            ) from error
        listener.settimeout(_RETRY / 2)
        self._stop_listening.clear()
        self._listening = threading.Thread(target=self._accept, args=(listener,), daemon=True)
        self._listening.start()

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while not self._stop_listening.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    peers = range(self.index + 1, len(self.workers))
                    threading.Thread(target=self._converse, args=(connection, peers), daemon=True).start()

    def _dial(self, peer: int) -> None:
        """Connect to a worker, again and again until the meeting ends."""
        host, _, port = self.workers[peer].rpartition(":")
        while not self._has_met and not self._is_closed:
            with contextlib.suppress(OSError, UnicodeError):  # UnicodeError: a name that no host can have
                self._converse(socket.create_connection((host, int(port)), _PATIENCE), [peer])
            time.sleep(_RETRY)

    # The connections

    def _converse(self, connection: socket.socket, expected: Collection[int]) -> None:
        """Exchange names with one of the expected workers, then follow what it says until it leaves."""
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as lines:
            connection.settimeout(_PATIENCE)
            connection.sendall(f"keras-nplm {self._cluster} {self.index}\n".encode())
            peer = self._read_name(lines.readline(_MOST_LINE), expected)
            if peer is None:
                return
            connection.settimeout(None)
            _keep_alive(connection)
            with self._changed:
                if peer in self._connections or self._is_closed or self._has_met:
                    return
                self._connections[peer] = connection
                self._changed.notify_all()
                if not self._listening:  # this worker was ready before, and `peer` is a new process
                    connection.sendall(b"ready\n")
            try:
                with contextlib.suppress(OSError):
                    while line := lines.readline(_MOST_LINE):
                        self._note(peer, line.strip())
            finally:
                self._note_end(peer)

    def _read_name(self, line: bytes, expected: Collection[int]) -> int | None:
        """Return the number of the worker that sent its name, or None for a stranger."""
        words = line.decode("ascii", "replace").split()
        if len(words) != 3 or words[0] != "keras-nplm" or not words[2].isdecimal():
            return None
        peer = int(words[2])
        if words[1] != self._cluster:
            with self._changed:
                self._foreign = (
                    f"TF_CONFIG must list the same workers at each worker. Received: lists at worker {self.index} and "
                    f"at a worker {peer} that differ. Fix: change `index` only."
                )
                self._changed.notify_all()
        return peer if words[1] == self._cluster and peer in expected else None

    def _note(self, peer: int, message: bytes) -> None:
        with self._changed:
            if message == b"ready":
                self._ready.add(peer)
            elif message == b"training":
                self._finished.discard(peer)
            elif message == b"finished":
                self._finished.add(peer)
            self._changed.notify_all()

    def _note_end(self, peer: int) -> None:
        """Note that a connection has ended: before the meeting ended, while the peer trained, or after."""
        with self._changed:
            del self._connections[peer]
            self._ready.discard(peer)
            is_loss = self._has_met and not self._is_closed and peer not in self._finished
            if is_loss:
                self._lost.add(peer)
            self._changed.notify_all()
        if is_loss:
            time.sleep(_GRACE)
            if on_loss := self._on_loss:
                on_loss()

    def _send(self, message: str) -> None:
        """Send a message to all peers. The end of a connection is noticed where it is read."""
        with self._changed:
            connections = list(self._connections.values())
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(f"{message}\n".encode())

    def close(self) -> None:
        """Close the port and all connections: the other workers notice it."""
        self._stop_listening.set()
        if self._listening:
            self._listening.join()
        with self._changed:
            self._is_closed = True
            for connection in self._connections.values():
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    # During the training

    @contextlib.contextmanager
    def watch(self, on_loss: Callable[[], None]) -> Iterator[None]:
        """Tell the other workers how the block ends, and call a function if one of them is lost meanwhile.

        Args:
            on_loss: called in a different thread.
        """
        self._on_loss = on_loss
        self._send("training")
        if self._lost:
            on_loss()
        try:
            yield
        except BaseException:
            self._on_loss = None
            self.close()
            raise
        self._on_loss = None
        self._send("finished")

    def describe_lost(self, patience: float = 0.0) -> str:
        """Return the lost workers in words, or an empty string.

        Args:
            patience: seconds to wait for the end of a connection, if no worker is known to be lost.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._lost, patience)
            return self._name(self._lost)

    # Words

    def _name(self, workers: Collection[int]) -> str:
        names = [f"worker {worker} ({self.workers[worker]})" for worker in sorted(workers)]
        more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
        names = names[:_MOST_NAMES] + more
        return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))

    def _print_absent(self, absent: Collection[int], unready: Collection[int], seconds: float) -> None:
        present = self._name(self.peers - absent) or "none yet"
        awaited = self._name(absent) if absent else f"{self._name(unready)} to meet the others"
        print(
            f"Worker {self.index} waits for {awaited}. Connected: {present}. It gives up in {seconds:.0f} s.",
            file=sys.stderr,
            flush=True,
        )

    def _timeout_error(self, absent: Collection[int], unready: Collection[int], timeout: float) -> RunError:
        if not absent:
            return RunError(
                f"{begin_sentence(self._name(unready))} did not reach all other workers within {timeout:g} s. Fix: "
                "check that all machines of TF_CONFIG can reach each other."
            )
        return RunError(
            f"{begin_sentence(self._name(absent))} did not come within {timeout:g} s. Fix: start the same command "
            "there, check that the machines can reach each other, or raise --worker-timeout."
        )


def begin_sentence(text: str) -> str:
    """Return a text with a capital first letter. The rest, such as names of hosts, stays as it is.

    Example:

    >>> begin_sentence("worker 1 (Node-A:2222)")
    'Worker 1 (Node-A:2222)'
    """
    return text[:1].upper() + text[1:]


def _keep_alive(connection: socket.socket) -> None:
    """Let the operating system end a connection whose other side is silent."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
