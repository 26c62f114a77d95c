"""The compiled graphs of a network: one trace each, also in threads, and no warning of TensorFlow
about them.
"""

import concurrent.futures
import threading

import numpy as np

from keras_nplm import NPLM

CONTEXTS = np.array([[4, 5], [5, 6], [6, 7]], np.int32)
TARGETS = np.array([6, 7, 8], np.int32)


def test_threads_share_one_graph(monkeypatch):
    network = NPLM(9, order=3, embedding_dim=2, hidden_units=3)
    scores = NPLM.scores
    traces = []

    def record(network, contexts):
        traces.append(threading.get_ident())
        return scores(network, contexts)

    monkeypatch.setattr(NPLM, "scores", record)
    barrier = threading.Barrier(8)

    def score(size: int) -> np.ndarray:
        barrier.wait()
        return network.log_prob(CONTEXTS[:size], TARGETS[:size])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(score, [1, 2, 3, 1, 2, 3, 1, 2]))
    assert len(traces) == 1
    for result in results:
        np.testing.assert_allclose(result, results[2][: len(result)], rtol=1e-5)
