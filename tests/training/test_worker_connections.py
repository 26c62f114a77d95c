"""Workers are read from TF_CONFIG, wait for each other before TensorFlow starts, and name the
absent ones.
"""

import json
import socket
import threading
import time

import pytest

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.training import worker_connections
from keras_nplm.training.worker_connections import read_cluster, wait_for_workers


def _describe(workers: object, task: dict | None = None, **jobs) -> str:
    return json.dumps(
        {
            "cluster": {"worker": workers} | jobs,
            "task": {"type": "worker", "index": 0} | (task or {}),
        }
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ([], 0)),
        (_describe(["one:1", "two:2"], {"index": 1}), (["one:1", "two:2"], 1)),
        (_describe(["one:65535"]), (["one:65535"], 0)),
        *[(text, None) for text in ("{", "[]", '{"cluster": {"worker": ["one:1"]}}', "[" * 99_999)],
        *[
            (_describe(["one:1", worker]), None)
            for worker in ("two", "localhost:99999", "two:0", ":2", 2, "one:1")
        ],
        *[(_describe(["one:1"], {"index": index}), None) for index in (1, -1, True, "0")],
        *[(_describe(workers), None) for workers in ([], "one:1")],
        (_describe(["one:1"], ps=["three:3"]), None),
        (_describe(["one:1"], {"type": "ps"}), None),
    ],
)
def test_cluster_and_number_of_this_worker_are_read_or_refused(text, expected, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    if expected:
        assert read_cluster() == expected
    else:
        with pytest.raises(
            InputError, match="TF_CONFIG must list workers only, .* Fix: write it like"
        ):
            read_cluster()


@pytest.fixture
def workers(monkeypatch) -> list[str]:
    """The addresses of three workers of this machine."""
    monkeypatch.setattr(worker_connections, "_FIRST_NOTE", 0.0)
    sockets = [socket.create_server(("", 0)) for _ in range(3)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return [f"127.0.0.1:{port}" for port in ports]


def test_an_absent_worker_is_named_until_the_time_is_over(workers, capsys, monkeypatch):
    monkeypatch.setattr(worker_connections, "SECONDS_PER_NOTE", 0.6)
    names = rf"worker 0 ({workers[0]}), worker 2 ({workers[2]})"
    with pytest.raises(RunError) as error:
        wait_for_workers(workers, 1, 1.0)
    assert str(error.value).startswith(
        f"Absent after 1 s: {names}. Fix: start the same command there"
    )
    assert capsys.readouterr().err.count(f"Worker 1 waits for {names}. It gives up in ") == 2


def test_workers_that_come_one_after_the_other_find_each_other(workers, capsys):
    met = []
    ports = []

    def start(index):
        wait_for_workers(workers, index, 20)
        met.append(index)
        time.sleep(0.3)  # until TensorFlow opens the port
        ports.append(socket.create_server(("", int(workers[index].rpartition(":")[2]))))

    threads = [threading.Thread(target=start, args=(index,)) for index in range(3)]
    for thread in threads:
        assert not met
        thread.start()
        time.sleep(0.3)
    for thread in threads:
        thread.join()
    assert sorted(met) == [0, 1, 2]
    assert f"Worker 0 waits for worker 1 ({workers[1]})" in capsys.readouterr().err
    for port in ports:
        port.close()


def test_a_port_that_is_in_use_is_named(workers):
    message = rf"Worker 0 cannot open its port \({workers[0]}\): Address already in use. Fix: "
    with (
        socket.create_server(("", int(workers[0].rpartition(":")[2]))),
        pytest.raises(RunError, match=message),
    ):
        wait_for_workers(workers, 0, 1)
