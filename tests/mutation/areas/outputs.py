"""Outputs: probabilities, training losses, negative samples, the unigram start, gradients."""

import dataclasses
import itertools
import math

import numpy as np
import tensorflow as tf
from keras import ops

from tests.mutation.mutants import (
    Altered,
    at_call,
    changes,
    first,
    nothing,
    read_global,
    second,
    within,
)

OF_NETWORKS = "models/networks/test_every_network.py"
OF_SELF_NORMALISED = (
    "models/networks/test_every_network.py::"
    "test_self_normalised_scores_are_the_logits_or_are_refused"
)
OF_SOFTMAX = "layers/test_softmax.py"
OF_SAMPLED = "layers/objectives/test_sampled.py"
OF_OBJECTIVES = "layers/objectives/test_base.py"
OF_POINTER = "layers/test_pointer.py"
SAMPLED = "layers.objectives.sampled"


# Sampled objectives


@changes(f"{SAMPLED}:SampledObjective.correct", OF_NETWORKS)
def the_logit_of_the_target_is_not_corrected_for_the_sampling(original, self, scores, ids, sampled):
    target, others = original(self, scores, ids, sampled)
    return target + self._log_expected(ids), others


@changes(f"{SAMPLED}:SampledObjective.correct", OF_NETWORKS)
def the_number_of_samples_is_left_out_of_their_correction(original, self, *arguments):
    target, sampled = original(self, *arguments)
    return target, sampled + math.log(self.num_sampled)


@changes(f"{SAMPLED}:SampledSoftmax.contrast", OF_NETWORKS)
def the_sampled_softmax_normalises_over_the_samples_only(original, *arguments):
    return within(original, ops=Altered(ops, softplus=first))(*arguments)


@changes(f"{SAMPLED}:SampledSoftmax.contrast", OF_NETWORKS)
def self_normalisation_with_samples_is_not_squared(original, *arguments):
    return within(original, ops=Altered(ops, square=first))(*arguments)


@changes(f"{SAMPLED}:SampledObjective.draw_strata", OF_SAMPLED)
def samples_come_from_one_stratum(original, self, number):
    return ops.mod(original(self, number) * number, 1.0)


@changes(f"{SAMPLED}:SampledObjective._propose", OF_SAMPLED)
def a_new_proposal_keeps_the_log_probabilities_of_the_old_one(original, self, weights):
    log_q = self.log_q.numpy()
    original(self, weights)
    self.log_q.assign(log_q)


@changes(f"{SAMPLED}:_WordSampler.assign", OF_SAMPLED)
def cumulated_probabilities_are_in_another_order_than_their_words(original, self, probabilities):
    original(self, probabilities)
    self.cumulated.assign(np.cumsum(probabilities))


@changes(f"{SAMPLED}:_WordSampler.draw", OF_SAMPLED)
def a_word_of_probability_0_can_be_sampled(original, *arguments):
    def search(values, wanted, side):
        return ops.searchsorted(values, wanted, side="left")

    return within(original, ops=Altered(ops, searchsorted=search))(*arguments)


@changes(f"{SAMPLED}:SampledObjective.build", OF_SAMPLED)
def padding_is_sampled_before_the_unigram_start(original, *arguments):
    return within(original, PAD_ID=read_global(original, "BOS_ID"))(*arguments)


@changes(f"{SAMPLED}:SampledObjective.replace_at_random", OF_SAMPLED)
def targets_are_replaced_with_the_other_probability(original, self, *arguments):
    return original(Altered(self, held_out_mass=1 - self.held_out_mass), *arguments)


@changes(f"{SAMPLED}:_log_uniform", OF_SAMPLED)
def ranks_are_taken_for_the_order(original, frequencies):
    argsort = at_call(2, first, np.argsort)
    # the inner call comes first
    return within(original, np=Altered(np, argsort=argsort))(frequencies)


@changes(f"{SAMPLED}:_log_uniform", OF_SAMPLED)
def words_that_are_never_predicted_are_in_the_log_uniform_proposal(original, frequencies):
    return original(np.where(frequencies > 0, frequencies, 1e-9))


@changes(f"{SAMPLED}:SampledObjective.grow_from", "models/networks/test_growth.py")
def new_words_do_not_reduce_the_shares_of_the_others(original, self, smaller, rows):
    original(self, smaller, rows)
    self._propose(np.append(smaller.noise.probabilities(), rows.frequencies))


@changes(f"{SAMPLED}:SampledObjective.options", OF_NETWORKS)
def the_seed_of_the_samples_is_not_saved(original):
    return tuple(name for name in original if name != "seed")


# Losses


@changes("layers.softmax:_sum_logs", OF_SOFTMAX)
def nce_averages_the_noise_words(original, factors):
    return original(factors) / factors.shape[1]


@changes("layers.softmax:noise_loss", OF_SOFTMAX)
def products_of_16_large_factors_overflow(original, *arguments):
    is_in_range = read_global(original, "_in_range")

    def is_in_wide_range(z, greatest):
        return is_in_range(z)

    return within(original, _in_range=is_in_wide_range)(*arguments)


@changes("layers.softmax:_noise_gradient", OF_SOFTMAX)
def the_gradient_of_nce_lacks_self_normalisation(original, upstream, inputs, saved):
    return original(upstream, inputs, saved[:1])


@changes("layers.softmax:_in_range", OF_SOFTMAX)
def an_underflow_of_log_z_is_not_seen(original, z, greatest=1e30):
    return original(tf.maximum(z, 1e-20), greatest)


@changes("layers.softmax:linear_softmax", OF_SOFTMAX)
def the_shift_is_not_added_to_log_z(original, *arguments):
    def choose(is_first, one, other):
        *results, shift = tf.cond(is_first, one, other)
        return *results, tf.zeros_like(shift)

    return within(original, tf=Altered(tf, cond=choose))(*arguments)


@changes("layers.lookup:zero_masked_rows", OF_NETWORKS)
def padding_has_a_gradient_in_training(original, vectors, mask):
    return vectors + tf.stop_gradient(original(vectors, mask) - vectors)


@changes("layers.objectives.likelihood:Likelihood.losses", OF_NETWORKS)
def label_smoothing_keeps_the_whole_likelihood(original, self, *arguments):
    losses = original(self, *arguments)
    likelihood = losses.negative_log_likelihood
    return type(losses)(losses.loss + self.held_out_mass * likelihood, likelihood)


@changes("layers.objectives.likelihood:Likelihood.losses", OF_NETWORKS)
def self_normalisation_is_not_squared(original, *arguments):
    return within(original, ops=Altered(ops, square=first))(*arguments)


@changes("layers.objectives.likelihood:Likelihood.set_unigram", OF_OBJECTIVES)
def label_smoothing_stays_uniform_after_the_unigram_start(original, *arguments):
    return nothing()


@changes("layers.objectives.base:smooth_unigram", OF_OBJECTIVES, OF_NETWORKS)
def unk_has_no_probability_if_training_lacks_it(original, *arguments, **options):
    return within(original, UNK_ID=-1)(*arguments, **options)


@changes("layers.objectives.base:smooth_unigram", OF_OBJECTIVES)
def words_that_are_never_predicted_are_short_of_their_promise(original, *arguments, **options):
    where = at_call(1, second, np.where)
    return within(original, np=Altered(np, where=where))(*arguments, **options)


@changes("layers.objectives.base:smooth_unigram", OF_OBJECTIVES)
def unseen_words_begin_with_the_probability_0(original, *arguments, **options):
    def find_greater(values, least):
        return values if least == 1 else np.maximum(values, least)

    return within(original, np=Altered(np, maximum=find_greater))(*arguments, **options)


@changes(
    "models.networks.training:clip_ids",
    "models/networks/test_training.py::test_under_xla_a_target_out_of_range_gives_nan",
)
def the_first_id_beyond_the_outputs_counts_as_known(original, ids, size):
    clipped, _ = original(ids, size)
    _, known = original(ids, size + 1)
    return clipped, known


# Heads


@changes("layers.scores:compute_log_prob", OF_NETWORKS)
def log_z_is_not_regrouped_for_targets_that_share_contexts(original, *arguments):
    def take(values, places):
        return values[: len(places)]

    return within(original, ops=Altered(ops, take=take))(*arguments)


@changes("layers.heads.adaptive:AdaptiveScores.logits", OF_NETWORKS)
def words_of_a_cluster_take_the_probability_of_a_frequent_word(original, self):
    y = original(self)
    root = ops.log_softmax(self._softmax(self.features, self.head.root).logits())
    frequent = self.head.cutoffs[0]
    parts = [y[:, :frequent]]
    for i, (begin, end) in enumerate(self.head.iterate_clusters()):
        parts.append(y[:, begin:end] + root[:, i, None] - root[:, frequent + i, None])
    return ops.concatenate(parts, axis=-1)


@changes("layers.heads.adaptive:AdaptiveHead.set_unigram", OF_NETWORKS)
def a_cluster_without_words_that_are_predicted_has_no_numbers(original, *arguments):
    def make_nan(size):
        return np.full(size, np.nan)

    return within(original, np=Altered(np, zeros=make_nan))(*arguments)


@changes("layers.heads.adaptive:AdaptiveScores._sum_over_path", OF_NETWORKS)
def the_loss_of_the_root_is_left_out(original, self, word_ids, log_prob):
    def be_zero(softmax, ids):
        return ops.zeros_like(log_prob(softmax, ids))

    return original(self, word_ids, at_call(1, be_zero, log_prob))


@changes("layers.heads.energy:EnergyHead.embed_words", OF_NETWORKS)
def padding_has_a_vector_as_a_target(original, *arguments):
    return within(original, PAD_ID=-1)(*arguments)


@changes("layers.heads.base:Head.__init__", OF_NETWORKS)
def an_output_computes_copies_in_16_bits(original, self, *arguments, **options):
    original(self, *arguments, **options)
    self.autocast = True


# Pointer


@changes("layers.pointer:CopyScores.logits", OF_NETWORKS, OF_POINTER)
def the_copies_of_a_repeated_word_count_once_for_each(original, self):
    def find_none(values, axis):
        return ops.zeros_like(ops.any(values, axis=axis))

    return within(original, ops=Altered(ops, any=find_none))(self)


@changes("layers.pointer:_is_copied", OF_NETWORKS)
def the_pointer_copies_padding(original, ids):
    return within(original, PAD_ID=-1)(ids)


@changes("layers.pointer:Pointer.weigh_segments", OF_NETWORKS)
def the_pointer_matches_the_next_word(original, *arguments):
    def pad(values, widths, **options):
        if options:
            return ops.pad(values, widths, **options)
        return ops.pad(values[:, 1:], [[0, 0], [0, 2], [0, 0]])

    return within(original, ops=Altered(ops, pad=pad))(*arguments)


@changes("layers.pointer:Pointer.weigh_segments", OF_NETWORKS)
def the_weight_of_a_copy_has_no_bound(original, *arguments):
    return within(original, ops=Altered(ops, sigmoid=ops.exp))(*arguments)


@changes("layers.pointer:Pointer._match", OF_NETWORKS)
def a_match_of_two_words_does_not_need_the_first(original, *arguments):
    each = Altered(itertools, accumulate=first)
    return within(original, itertools=each)(*arguments)


@changes("layers.pointer:CopyScores.logits_of", OF_POINTER)
def samples_that_are_drawn_several_times_get_no_copies(original, *arguments):
    def rank(outputs, ids, side):
        return ops.argsort(ops.argsort(ids))

    search = at_call(2, rank, ops.searchsorted)
    return within(original, ops=Altered(ops, searchsorted=search))(*arguments)


@changes("layers.pointer:CopyScores.log_z", OF_NETWORKS)
def the_copies_are_left_out_of_z(original, self):
    return self.scores.log_z()


@changes("layers.pointer:Pointer.add_copies", OF_NETWORKS)
def words_outside_a_shortlist_are_copied(original, self, scores, features, context, head):
    whole = Altered(head, vocabulary_size=head.num_outputs)
    return original(self, scores, features, context, whole)


@changes("layers.arrays:CopyArrays.__call__", OF_SELF_NORMALISED)
def self_normalised_scores_have_a_pointer_without_the_previous_words(original, self, *arguments):
    return original(dataclasses.replace(self, R=0 * self.R), *arguments)


# Networks


@changes("models.networks.pointer_network:PointerNetwork.list_parts", OF_NETWORKS)
def a_network_with_new_words_forgets_its_pointer(original, self):
    parts = original(self)
    del parts["pointer"]
    return parts


@changes("models.networks.hybrid_network:HybridNetwork.scores", OF_NETWORKS)
def the_ngram_model_inside_is_not_trusted_by_the_context(original, *arguments, **options):
    def sum_to_zero(values, **settings):
        return ops.zeros_like(ops.sum(values, **settings))

    return within(original, ops=Altered(ops, sum=sum_to_zero))(*arguments, **options)


@changes("models.jackknife:Jackknife.__init__", "models/test_jackknife.py")
def a_jackknife_model_has_seen_its_fold(
    original, self, ids, vocabulary_size, order, boundary="sentence", *folds, **options
):
    kneser_ney = read_global(original, "kneser_ney")
    joined = np.concatenate(read_global(original, "list_training_texts")(ids, boundary))

    def estimate(others, *arguments):
        return kneser_ney(joined, *arguments)

    changed = within(original, kneser_ney=estimate)
    changed(self, ids, vocabulary_size, order, boundary, *folds, **options)
