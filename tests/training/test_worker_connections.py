"""Workers are read from TF_CONFIG, wait for each other before TensorFlow starts, and name the
absent ones.
"""

import json
import socket
import threading
import time

import pytest

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.training.worker_connections import read_cluster, wait_for_workers


def _describe(workers: object, task: dict | None = None, **jobs) -> str:
    return json.dumps(
        {
            "cluster": {"worker": workers} | jobs,
            "task": {"type": "worker", "index": 0} | (task or {}),
        }
    )


@pytest.mark.parametrize(
    "text, workers, number",
    [
        pytest.param("", [], 0, id="nothing"),
        pytest.param(
            _describe(["one:1", "two:2"], {"index": 1}), ["one:1", "two:2"], 1, id="two workers"
        ),
        pytest.param(_describe(["one:65535"]), ["one:65535"], 0, id="the last port"),
    ],
)
def test_cluster_and_number_of_this_worker_are_read(text, workers, number, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    assert read_cluster() == (workers, number)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="a list"),
        pytest.param(_describe(["one:1", "localhost:99999"]), id="port 99999"),
        pytest.param(_describe(["one:1"], {"index": -1}), id="index -1"),
        pytest.param(_describe("one:1"), id="no list of workers"),
        pytest.param(_describe(["one:1"], ps=["three:3"]), id="a parameter server"),
    ],
)
def test_clusters_of_more_than_workers_are_refused(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match="TF_CONFIG must list workers only"):
        read_cluster()


@pytest.fixture
def workers() -> list[str]:
    """The addresses of three workers of this machine."""
    sockets = [socket.create_server(("", 0)) for _ in range(3)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return [f"127.0.0.1:{port}" for port in ports]


def test_an_absent_worker_is_named_until_the_time_is_over(workers, capsys):
    names = rf"worker 0 ({workers[0]}), worker 2 ({workers[2]})"
    with pytest.raises(RunError) as error:
        wait_for_workers(workers, 1, 1.0)
    assert str(error.value).startswith(
        f"Absent after 1 s: {names}. Fix: start the same command there"
    )
    assert capsys.readouterr().err.count(f"Worker 1 waits for {names}, at most 1 s.") == 1


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
