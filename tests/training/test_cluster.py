"""The environment variable TF_CONFIG is read with care."""

import json

import pytest

from keras_nplm import InputError
from keras_nplm.training.worker_connections import read_cluster

CLUSTER = {"cluster": {"worker": ["one:1", "two:2"]}, "task": {"type": "worker", "index": 1}}


def test_cluster_and_number_of_this_worker_are_read(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert read_cluster() == ([], 0)
    monkeypatch.setenv("TF_CONFIG", json.dumps(CLUSTER))
    assert read_cluster() == (["one:1", "two:2"], 1)
    monkeypatch.setenv("TF_CONFIG", _change({"index": 0}, worker=["one:65535"]))
    assert read_cluster() == (["one:65535"], 0)


def _change(task: dict | None = None, **cluster) -> str:
    return json.dumps({"cluster": CLUSTER["cluster"] | cluster, "task": CLUSTER["task"] | (task or {})})


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "describe a cluster .*JSONDecodeError"),
        ("[]", "describe a cluster .*TypeError"),
        ('{"cluster": {"worker": ["one:1"]}}', "describe a cluster .*KeyError.'task'"),
        (_change(ps=["three:3"]), r"list workers only, .* Received: \['ps', 'worker'\]"),
        (_change(worker=[]), r"list the addresses of the workers. Received: \[\]"),
        (_change(worker="one:1"), "list the addresses of the workers. Received: 'one:1'"),
        (_change(worker=["one:1", "two"]), "give each worker as host:port, .* Received: 'two'"),
        (_change(worker=["one:1", "localhost:99999"]), "port of 1 to 65535. Received: 'localhost:99999'"),
        (_change(worker=["one:1", "two:0"]), "Received: 'two:0'"),
        (_change(worker=["one:1", ":2"]), "Received: ':2'"),
        (_change(worker=["one:1", 2]), "Received: 2"),
        (_change(worker=["one:1", "two:2", "one:1"]), "list each address once. Received: 'one:1'"),
        (_change({"type": "ps"}), "give this process the type worker. Received: 'ps'"),
        (_change({"index": 2}), "an integer index of 0 to 1. Received: 2"),
        (_change({"index": -1}), "an integer index of 0 to 1. Received: -1"),
        (_change({"index": True}), "an integer index of 0 to 1. Received: True"),
    ],
)
def test_invalid_cluster_is_refused(text, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match=rf"TF_CONFIG must .*{message}.* Fix: write it like"):
        read_cluster()
