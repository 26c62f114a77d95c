"""Arrays beside a network, `scorer.npz`, score as the network; some networks have none."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_nplm import LanguageModel, Mixture, Vocabulary, kneser_ney
from keras_nplm.models.base import SCORER_FILE
from keras_nplm.models.model_files import save_own_files
from keras_nplm.models.networks.arrays import NetworkArrays
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.conversion import convert_network
from keras_nplm.models.networks.self_normalised import ArrayNetwork, SelfNormalised
from tests.every_network import (
    NETWORKS,
    N,
    V,
    build_network,
    make_contexts,
    make_targets,
)
from tests.marks import mark_long

WITHOUT_ARRAYS = ("adaptive", "short-list", "hybrid", "of Keras")
_TYPICAL = (
    "paper",
    "embed averaged",
    "hidden deep",
    "hidden of Keras",
    "hidden without units",
    "low rank / likelihood",
    "tied / likelihood",
    "pointer, direct",
    "hybrid",
)


# without those that differ only in the objective, which arrays ignore
NAMES = [name for name in NETWORKS if "/" not in name or name.endswith("/ likelihood")]


# those with parts of typical ones are for the long tests
@pytest.mark.parametrize("name", mark_long(NAMES, _TYPICAL.__contains__))
def test_arrays_beside_a_network_score_as_the_network(name, tmp_path):
    network = build_network(name)
    for weight in network.trainable_weights:
        weight.assign(weight / 2)  # as large as trained ones
    save_own_files(tmp_path, network)
    path = tmp_path / SCORER_FILE
    assert path.exists() != any(part in name for part in WITHOUT_ARRAYS), "see `find_saved_arrays`"
    if not path.exists():
        return
    scores = ArrayNetwork.load(path)
    assert (scores.order, scores.vocabulary_size, scores.boundary) == (N, V, "stream")
    contexts = make_contexts()
    targets = make_targets(network, contexts)
    wanted = network.next_log_probs(contexts)
    np.testing.assert_allclose(scores.next_log_probs(contexts), wanted, rtol=1e-6, atol=1e-6)
    wanted = network.log_prob(contexts, targets)
    np.testing.assert_allclose(scores.log_prob(contexts, targets), wanted, rtol=1e-6, atol=1e-6)
    logits = SelfNormalised(network).log_prob(contexts, targets)
    np.testing.assert_array_equal(SelfNormalised(scores).log_prob(contexts, targets), logits)


@keras.saving.register_keras_serializable("test_arrays")
class SharpNetwork(ContextNetwork):
    """A network of the user."""


def test_other_dtypes_and_networks_have_no_arrays(tmp_path):
    layers = build_network("linear / likelihood").list_parts()
    for network in (
        build_network("paper", "float64"),
        build_network("paper", "mixed_bfloat16"),
        SharpNetwork(order=N, **layers),
    ):
        save_own_files(tmp_path, network)
        assert not (tmp_path / SCORER_FILE).exists()


@dataclasses.dataclass
class GateArrays:
    """A hidden layer of a newer version."""


def test_layers_of_a_newer_version_are_refused(tmp_path, messages):
    arrays = convert_network(build_network("paper"))
    dataclasses.replace(arrays, transform=GateArrays()).write(tmp_path / SCORER_FILE)
    messages.refuse(lambda: NetworkArrays.read(tmp_path / SCORER_FILE))


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
