"""The benchmark `serving` sends requests to a SavedModel, LiteRT and ONNX files."""

import pytest

from keras_nplm.experiments.benchmark import contenders
from keras_nplm.experiments.benchmark.networks import Shape
from keras_nplm.experiments.benchmark.serving import build_groups


@pytest.mark.long
def test_each_contender_answers_requests(monkeypatch):
    monkeypatch.setattr(contenders, "CONTEXTS_PER_ROUND", 1)  # in the processes of LiteRT and ONNX there are 1000
    sizes = []
    for group in build_groups(Shape(300, hidden_units=8), batches=(1, 3)):  # its files go with the generator
        sizes.append(len(group))
        for contender in group:
            assert contender.run_round() > 0 and len(contender.request_seconds) >= 20, contender.name
            contender.close()
    assert sizes[:2] == [3, 3] and len(sizes) == 3
