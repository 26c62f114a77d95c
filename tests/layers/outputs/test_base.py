"""What all output layers have in common: exact probabilities, the unigram start, configuration, refusals."""

import keras
import numpy as np
import pytest

from keras_nplm import AdaptiveSoftmax, EnergyOutput, FullSoftmax, InputError, NoiseContrastive, SampledSoftmax
from keras_nplm.layers.build import build_output
from keras_nplm.layers.outputs import OUTPUTS

V, B = 30, 9


def test_calling_a_layer_gives_probabilities(kind, randomised, batch):
    output, (features, _) = randomised(kind), batch
    probabilities = np.asarray(output(features))
    assert probabilities.shape == (B, output.num_outputs) == output.compute_output_shape(features.shape)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.log(probabilities), output.log_probs(features), rtol=1e-4, atol=1e-4)


def test_log_prob_of_targets_is_exact(kind, randomised, batch):
    output, (features, targets) = randomised(kind), batch
    targets = np.minimum(targets, output.num_outputs - 1)
    log_probs = np.asarray(output.log_probs(features))
    np.testing.assert_allclose(output.log_prob(features, targets), log_probs[np.arange(B), targets], rtol=1e-4)
    which = np.array([2, 0, 2, 1, 1, 8, 7, 0, 5], np.int32)  # the context of each target
    np.testing.assert_allclose(output.log_prob(features, targets, which), log_probs[which, targets], rtol=1e-4)


def test_logits_are_log_probabilities_up_to_a_constant(kind, randomised, batch):
    output, (features, targets) = randomised(kind), batch
    if kind == "adaptive":
        with pytest.raises(NotImplementedError):
            output.logits(features)
        return
    log_probs, logits = np.asarray(output.log_probs(features)), np.asarray(output.logits(features))
    np.testing.assert_allclose(logits - logits[:, :1], log_probs - log_probs[:, :1], atol=1e-4)
    words = np.array([4, 9, 9, 20], np.int32)
    projected = output.project(features)
    np.testing.assert_allclose(output.logits_of(projected, words), logits[:, words], atol=1e-4)
    targets = np.minimum(targets, output.num_outputs - 1)
    np.testing.assert_allclose(output.logit(projected, targets), logits[np.arange(B), targets], atol=1e-4)


def test_ids_out_of_range_give_nan(kind, randomised, batch):
    output, (features, targets) = randomised(kind), batch
    targets = np.minimum(targets, output.num_outputs - 1)
    targets[3], targets[5] = output.num_outputs, -1
    for values in (output.training_loss(features, targets)[0], output.log_prob(features, targets)):
        assert np.flatnonzero(np.isnan(values)).tolist() == [3, 5]


def test_layer_starts_as_the_unigram_model(kind, randomised, batch):
    output, (features, _) = randomised(kind), batch
    for weight in output.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    if kind == "full, tied":  # C is the context layer's
        output.kernel.assign(np.zeros(output.kernel.shape))
    counts = np.random.default_rng(0).integers(1, 50, V)
    counts[:4] = 0, 7, 0, 0
    output.set_unigram(counts)
    if output.outside_output:
        counts = np.append(counts[: output.listed], counts[output.listed :].sum())
    q = (np.arange(len(counts)) > 3) + (np.arange(len(counts)) == 1)
    mass = output.held_out_mass
    expected = (1 - mass) * counts / counts.sum() + mass * q / q.sum()
    np.testing.assert_allclose(output(features)[0, 4:], expected[4:], rtol=1e-4)


def test_unigram_start_with_held_out_words():
    """Words that occur less often than `min_count` promises share the held-out mass."""
    counts = np.array([0, 5, 0, 0, 3, 2, 0, 0, 0, 0, 0])
    output = FullSoftmax(11, held_out_mass=0.1)
    output.build((None, 2))
    output.set_unigram(counts, min_count=4)
    short = np.array([0, 0, 0, 0, 1, 2, 4, 4, 4, 4, 4])
    expected = 0.9 * counts / 10 + 0.1 * short / short.sum()
    expected[[0, 2, 3]] = 1e-12  # never predicted
    np.testing.assert_allclose(np.exp(output.b.numpy()), expected, rtol=1e-5)
    np.testing.assert_allclose(output.q.numpy(), short / short.sum(), rtol=1e-6)


def test_unigram_start_without_held_out_mass():
    counts = np.array([0, 5, 0, 0, 3, 2, 0, 0, 0, 0, 0])
    output = FullSoftmax(11)
    output.build((None, 2))
    output.set_unigram(counts)
    assert np.exp(output.b.numpy())[6] == pytest.approx(1 / 15)  # 10 tokens, and 5 words counted once each
    for wrong in (counts[1:], 0 * counts):
        with pytest.raises(InputError, match=r"`counts` must be \[11\] with a positive sum"):
            output.set_unigram(wrong)


def test_configuration_makes_the_same_layer(kind, build):
    first = build(kind)
    second = type(first).from_config(first.get_config())
    assert second.get_config() == first.get_config()
    assert (second.listed, second.num_outputs) == (first.listed, first.num_outputs)
    serialised = keras.saving.serialize_keras_object(first)
    assert keras.saving.deserialize_keras_object(serialised).get_config() == first.get_config()


def test_names_stand_for_layers():
    for name, kind in OUTPUTS.items():
        output = build_output(name, V, hidden_units=7, dropout=0.2)
        assert type(output) is kind and output.name == "prob" and output.vocabulary_size == V
        if output.includes_hidden_layer:
            assert (output.hidden_units, output.dropout) == (7, 0.2)
    assert build_output("adaptive", V, weight_decay=0.1).weight_decay == 0.1


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: build_output("hierarchical", V), "`output` must be one of full, sampled, nce, adaptive, energy"),
        (lambda: build_output(keras.layers.Dense(V), V), "`output` must be one of full, .*, or an output layer"),
        (lambda: build_output(FullSoftmax(V + 1), V), f"`output` must be a layer of {V} words"),
        (lambda: build_output("nce", V, weight_decay=1e-4), "`weight_decay` must be 0 with a sampled output"),
        (lambda: build_output(EnergyOutput(V), V, dropout=0.1), "`dropout` must be 0 if `output` is EnergyOutput"),
        (lambda: SampledSoftmax(V, num_sampled=0), "`num_sampled` must be 1 or more"),
        (lambda: NoiseContrastive(V, proposal="bigram"), "`proposal` must be one of unigram, log-uniform"),
        (lambda: AdaptiveSoftmax(V, cutoffs=(7, 30)), "`cutoffs` must ascend strictly between 0 and 30"),
        (lambda: FullSoftmax(V, held_out_mass=1.0), r"`held_out_mass` must be in \[0, 1\)"),
        (lambda: FullSoftmax(V, rank=0), "`rank` must be 1 or more, or None"),
        (lambda: FullSoftmax(V, rank=3, tied=True), "`rank` must be None if `tied`"),
        (lambda: FullSoftmax(V, shortlist_size=27), "`shortlist_size` must be 1 to 26, or None"),
        (lambda: FullSoftmax(V, outside_output=True), "`outside_output` must be False without `shortlist_size`"),
        (lambda: FullSoftmax(V, shortlist_size=5, tied=True), "`tied` must be False with `shortlist_size`"),
        (lambda: EnergyOutput(V, hidden_units=0), "`hidden_units` must be 1 or more"),
        (lambda: EnergyOutput(V).build((None, 9)), "EnergyOutput must have the matrix C"),
        (lambda: FullSoftmax(V, tied=True).build((None, 9)), "FullSoftmax must have the matrix C"),
    ],
)
def test_invalid_options_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
