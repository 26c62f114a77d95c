"""Workers meet over plain sockets: who is absent, who is lost, ports that cannot be used."""

import contextlib
import socket
import threading
import time

import pytest

import keras_nplm.training.worker_meeting as worker_meeting
from keras_nplm import InputError
from keras_nplm.io.errors import RunError
from keras_nplm.training.worker_meeting import Meeting


@pytest.fixture(autouse=True)
def _short_times(monkeypatch):
    monkeypatch.setattr(worker_meeting, "_RETRY", 0.02)
    monkeypatch.setattr(worker_meeting, "_GRACE", 0.02)


def _free_addresses(number: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{free.getsockname()[1]}" for free in sockets]


def _start(meeting: Meeting, timeout: float = 10) -> tuple[threading.Thread, list[Exception]]:
    errors = []

    def meet() -> None:
        try:
            meeting.wait_for_all(timeout)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=meet)
    thread.start()
    return thread, errors


def _meet(number: int) -> list[Meeting]:
    addresses = _free_addresses(number)
    meetings = [Meeting(addresses, index) for index in range(number)]
    for thread, errors in [_start(meeting) for meeting in meetings]:
        thread.join()
        assert not errors
    return meetings


@pytest.fixture
def pair():
    """Two workers that have met."""
    meetings = _meet(2)
    yield meetings
    for meeting in meetings:
        meeting.close()


def _wait_until(condition, seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_absent_workers_are_named_until_all_have_come(capsys):
    addresses = _free_addresses(3)
    meetings = [Meeting(addresses, index) for index in range(3)]
    said, threads = "", []
    for meeting, line in zip(
        meetings,
        [
            f"Worker 0 waits for worker 1 ({addresses[1]}) and worker 2 ({addresses[2]}). Connected: none yet.",
            f"Worker 0 waits for worker 2 ({addresses[2]}). Connected: worker 1 ({addresses[1]}).",
            "All 3 workers are connected.",
        ],
        strict=True,
    ):
        threads.append(_start(meeting)[0])
        end = time.monotonic() + 5
        while line not in said and time.monotonic() < end:
            said += capsys.readouterr().err
            time.sleep(0.005)
        assert line in said
    for thread, meeting in zip(threads, meetings, strict=True):
        thread.join()
        meeting.close()


def test_ports_are_free_when_all_workers_have_met():
    """As TensorFlow opens them next, while the connections of the workers are open."""
    meetings = _meet(3)
    for meeting in meetings:
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("", int(meeting.workers[meeting.index].rpartition(":")[2])))
            server.listen()
    assert not any(meeting.describe_lost() for meeting in meetings)
    for meeting in meetings:
        meeting.close()


def test_waiting_is_noted_again_each_minute(monkeypatch, capsys):
    monkeypatch.setattr(worker_meeting, "SECONDS_PER_NOTE", 0.1)
    with pytest.raises(RunError):
        Meeting(_free_addresses(2), 0).wait_for_all(0.5)
    assert 3 <= capsys.readouterr().err.count("Worker 0 waits for worker 1") <= 6


def test_worker_gives_up_and_names_the_absent():
    addresses = _free_addresses(10)
    began = time.monotonic()
    with pytest.raises(RunError, match=r"Worker 0 \(.*\), .* worker 7 .* and 1 more did not come within 0.2 s"):
        Meeting(addresses, 9).wait_for_all(0.2)
    assert time.monotonic() - began < 2
    with pytest.raises(RunError, match="Worker 0 .* and 1 more did not come"):
        Meeting(addresses, 9).wait_for_all(0.1)  # the port is free again


def _greet(meeting: Meeting, index: int) -> socket.socket:
    """Connect to a meeting as the worker of a number, by hand."""
    _wait_until(lambda: meeting._listening)
    host, port = meeting.workers[meeting.index].split(":")
    peer = socket.create_connection((host, int(port)))
    peer.sendall(f"keras-nplm {meeting._cluster} {index}\n".encode())
    _wait_until(lambda: index in meeting._connections)
    return peer


def test_worker_that_leaves_before_all_have_come_is_awaited_again(capsys):
    addresses = _free_addresses(3)
    first = Meeting(addresses, 0)
    waiting, errors = _start(first)
    _greet(first, 1).close()
    _wait_until(lambda: not first._connections)
    rest = [_start(Meeting(addresses, index)) for index in (1, 2)]
    for thread, errors_there in [(waiting, errors), *rest]:
        thread.join()
        assert not errors_there
    said = capsys.readouterr().err
    assert said.count("All 3 workers are connected.") == 3


def test_worker_that_leaves_after_all_have_come_is_awaited_again():
    """The others may still wait for it, or for its connection to one of them."""
    first = Meeting(_free_addresses(3), 0)
    waiting, errors = _start(first)
    second, third = _greet(first, 1), _greet(first, 2)
    second.sendall(b"ready\n")
    _wait_until(lambda: first._ready == {1} and not first._listening)
    second.close()
    second = _greet(first, 1)  # a new process: the port is open again
    third.sendall(b"ready\n")
    _wait_until(lambda: first._ready == {2} and not first._listening)
    waiting.join(0.1)
    assert waiting.is_alive()
    second.sendall(b"ready\n")
    waiting.join()
    assert not errors
    for peer in (second, third):
        peer.close()


def test_workers_that_cannot_reach_each_other_are_named():
    """Workers 1 and 2 each reach worker 0 alone."""
    first = Meeting(_free_addresses(3), 0)
    waiting, errors = _start(first, timeout=0.5)
    peers = [_greet(first, index) for index in (1, 2)]
    waiting.join()
    for peer in peers:
        peer.close()
    names = f"Worker 1 ({first.workers[1]}) and worker 2 ({first.workers[2]})"
    assert str(errors[0]).startswith(f"{names} did not reach all other workers within 0.5 s. Fix: check")


def test_port_in_use_is_one_line():
    addresses = _free_addresses(2)
    with socket.socket() as server:
        server.bind(("", int(addresses[0].split(":")[1])))
        server.listen()
        with pytest.raises(RunError, match=rf"port of worker 0 \({addresses[0]}\) is in use .* Fix: end the"):
            Meeting(addresses, 0).wait_for_all(5)


def test_port_that_cannot_be_opened_is_invalid_input(monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "listen", refuse)
    with pytest.raises(InputError, match=r"a port that it can open. Received: .* \(Permission denied\)"):
        Meeting(_free_addresses(2), 0).wait_for_all(5)


def test_workers_with_different_lists_are_refused():
    addresses = _free_addresses(3)
    started = [_start(Meeting(addresses[:2], 0)), _start(Meeting(addresses, 1))]
    for thread, errors in started:
        thread.join()
        assert isinstance(errors[0], InputError) and "TF_CONFIG must list the same workers" in str(errors[0])


def test_strangers_at_the_port_are_ignored():
    addresses = _free_addresses(2)
    first = Meeting(addresses, 0)
    waiting, errors = _start(first)
    _wait_until(lambda: first._listening)
    strangers = []
    for greeting in (b"", b"GET / HTTP/1.1\r\n", b"\xff" * 1000, f"keras-nplm {first._cluster} 0\n".encode()):
        strangers.append(socket.create_connection(("127.0.0.1", int(addresses[0].split(":")[1]))))
        strangers[-1].sendall(greeting)
    second, errors_there = _start(Meeting(addresses, 1))
    for thread, found in ((waiting, errors), (second, errors_there)):
        thread.join()
        assert not found
    for stranger in strangers:
        stranger.close()


def test_lost_worker_is_noticed_while_the_others_train(pair):
    first, second = pair
    noticed = threading.Event()
    with first.watch(noticed.set):
        assert not first.describe_lost()
        second.close()  # as the operating system does for a killed process
        assert noticed.wait(5)
        assert first.describe_lost() == f"worker 1 ({first.workers[1]})"


def test_worker_that_was_lost_before_training_is_noticed(pair):
    first, second = pair
    second.close()
    assert first.describe_lost(patience=5)
    noticed = threading.Event()
    with first.watch(noticed.set):
        assert noticed.is_set()


def test_error_of_a_worker_reaches_the_others(pair):
    first, second = pair
    noticed = threading.Event()
    with first.watch(noticed.set):
        with pytest.raises(InputError), second.watch(lambda: None):
            raise InputError("a fault of the second worker")
        assert noticed.wait(5)


def test_worker_that_has_finished_may_leave(pair):
    first, second = pair
    noticed = threading.Event()
    with first.watch(noticed.set):
        with second.watch(lambda: None):
            pass
        _wait_until(lambda: first._finished == {1})
        second.close()
        _wait_until(lambda: not first._connections)
        assert not noticed.wait(0.1) and not first.describe_lost()


def test_finished_worker_that_trains_again_may_be_lost(pair):
    first, second = pair
    noticed = threading.Event()
    with first.watch(noticed.set):
        with second.watch(lambda: None):
            pass
        with pytest.raises(RunError), second.watch(lambda: None):
            raise RunError("a second training fails")
        assert noticed.wait(5)
