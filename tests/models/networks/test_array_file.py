"""Networks that are read into NumPy without Keras have the probabilities of Keras; others are left
to Keras.
"""

import io
import json
import zipfile

import h5py
import keras
import numpy as np
import pytest

from keras_nplm import LanguageModel, Mixture, Vocabulary, kneser_ney
from keras_nplm.models.networks.array_file import read_network_arrays
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.self_normalised import ArrayNetwork
from tests.every_network import (
    NETWORKS,
    OBJECTIVES,
    N,
    V,
    build_network,
    make_contexts,
    make_targets,
)

LEFT_TO_KERAS = ("adaptive", "short-list", "hybrid", "of Keras", "energy")


_TYPICAL = (
    "paper",
    "embed averaged",
    "hidden deep",
    "hidden of Keras",
    "low rank / likelihood",
    "tied / likelihood",
    "pointer, direct",
    "hybrid",
)


def choose_names():
    """List the networks without those that differ only in the objective, which a file ignores.

    Those with parts of typical ones are for the long tests.
    """
    others = tuple(f" / {objective}" for objective in OBJECTIVES[1:])
    names = [name for name in NETWORKS if not name.endswith(others)]
    assert {*_TYPICAL} <= {*names}
    return [
        name if name in _TYPICAL else pytest.param(name, marks=pytest.mark.long) for name in names
    ]


@pytest.mark.parametrize("name", choose_names())
def test_a_file_gives_the_probabilities_of_keras_or_is_left_to_it(name, tmp_path):
    network = build_network(name)
    for weight in network.trainable_weights:
        weight.assign(weight / 2)  # as large as trained ones
    network.save(tmp_path / "model.keras")
    arrays = read_network_arrays(tmp_path / "model.keras")
    if any(part in name for part in LEFT_TO_KERAS):
        assert arrays is None
        return
    assert arrays is not None, "read the layer in array_file.py, or name it in LEFT_TO_KERAS"
    scores = ArrayNetwork.of(arrays)
    assert (scores.order, scores.vocabulary_size, scores.boundary) == (N, V, "stream")
    contexts = make_contexts()
    targets = make_targets(network, contexts)
    wanted = network.next_log_probs(contexts)
    np.testing.assert_allclose(scores.next_log_probs(contexts), wanted, rtol=1e-6, atol=1e-6)
    wanted = network.log_prob(contexts, targets)
    np.testing.assert_allclose(scores.log_prob(contexts, targets), wanted, rtol=1e-6, atol=1e-6)


@keras.saving.register_keras_serializable("test_array_file")
class SharpNetwork(ContextNetwork):
    """A network of the user."""


def test_other_dtypes_and_networks_are_left_to_keras(tmp_path):
    layers = build_network("linear / likelihood").list_parts()
    for network in (
        build_network("paper", "float64"),
        build_network("paper", "mixed_bfloat16"),
        SharpNetwork(order=N, **layers),
    ):
        network.save(tmp_path / "model.keras")
        assert read_network_arrays(tmp_path / "model.keras") is None


def rewrite(path, change):
    """Change the parts of a file by name, and its configuration under the name "config"."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["config"] = json.loads(parts["config.json"])
    change(parts)
    parts["config.json"] = json.dumps(parts.pop("config")).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def leave_unchanged(parts):
    """Write the file again as it is."""


def name_a_foreign_objective(parts):
    parts["config"]["config"]["objective"]["class_name"] = "exec"


def name_a_foreign_layer(parts):
    parts["config"]["config"]["hidden"]["class_name"] = "exec"


def add_an_option(parts):
    parts["config"]["config"]["vocabulary_size"] = 10**10


def raise_the_order(parts):
    parts["config"]["config"]["order"] += 1


def cut_the_weights(parts):
    parts["model.weights.h5"] = parts["model.weights.h5"][:100]


def store_nan(parts):
    file = io.BytesIO(parts["model.weights.h5"])
    with h5py.File(file, "r+") as stored:
        stored["embed/vars/C"][1, 1] = np.nan
    parts["model.weights.h5"] = file.getvalue()


@pytest.mark.parametrize(
    "change, is_read",
    [
        (leave_unchanged, True),
        (name_a_foreign_objective, True),  # scores do not depend on it
        (name_a_foreign_layer, False),
        (add_an_option, False),
        (raise_the_order, False),
        (cut_the_weights, False),
        (store_nan, False),
    ],
)
def test_a_damaged_file_is_left_to_keras(change, is_read, tmp_path):
    path = tmp_path / "model.keras"
    build_network("embed concatenated").save(path)
    rewrite(path, change)
    assert (read_network_arrays(path) is not None) == is_read


def test_a_mixture_as_arrays_scores_and_completes_as_through_keras(tmp_path):
    network = build_network("hidden deep", boundary="sentence")
    ids = np.random.default_rng(0).integers(2, V, 400).astype(np.int32)
    mixture = Mixture([network, kneser_ney(ids, V, 3, "sentence")], [0.6, 0.4])
    vocabulary = Vocabulary([f"w{number}" for number in range(V - 4)])
    directory = tmp_path / "model"
    LanguageModel(mixture, vocabulary, "words").save(directory)
    through_keras = LanguageModel.load(directory)
    arrays = LanguageModel.load(directory, as_arrays=True)
    assert isinstance(arrays.model.parts[0], ArrayNetwork)
    lines = ["w1 w2 w3", "w4", "", "w9 w9 w9 w9 w9 w9 w9 w9 w9"]
    scores = [score.log_prob for score in arrays.score(lines)]
    wanted = [score.log_prob for score in through_keras.score(lines)]
    np.testing.assert_allclose(scores, wanted, rtol=1e-6)
    words, probabilities = zip(*arrays.next_words("w1 w2"), strict=True)
    wanted_words, wanted_ones = zip(*through_keras.next_words("w1 w2"), strict=True)
    assert words == wanted_words
    np.testing.assert_allclose(probabilities, wanted_ones, rtol=1e-5)
    assert arrays.generate("w1", 20, seed=3) == through_keras.generate("w1", 20, seed=3)
