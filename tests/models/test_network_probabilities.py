"""The compiled graphs of a network: one trace each, also in threads, and no warning of TensorFlow
about them.
"""

import concurrent.futures
import logging
import threading

import numpy as np
import pytest
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from keras_nplm import NPLM, DynamicSettings
from keras_nplm.models.dynamic import make_dynamic

CONTEXTS = np.array([[4, 5], [5, 6], [6, 7]], np.int32)
TARGETS = np.array([6, 7, 8], np.int32)


def _build() -> NPLM:
    return NPLM(9, order=3, embedding_dim=2, hidden_units=3)


@pytest.mark.long
def test_many_networks_print_no_warning_of_retracing(caplog, monkeypatch):
    """As the search for dynamic settings, which reads the text with a copy for each setting."""
    monkeypatch.setattr(logging.getLogger("tensorflow"), "propagate", True)
    monkeypatch.setattr(polymorphic_function, "FREQUENT_TRACING_WARNING_THRESHOLD", 2)  # of 5
    network = _build()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            learner = make_dynamic(network, DynamicSettings(chunk=2))
            for size in (3, 1, 2):
                learner.log_prob(CONTEXTS[:size], TARGETS[:size])
            learner.learn_rest()
    assert "retracing" not in caplog.text


def test_threads_share_one_graph(monkeypatch):
    network = _build()
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
