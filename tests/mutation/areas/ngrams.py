"""n-gram models: counts, smoothing, back-off, classes, ARPA files, pruning, approximation."""

import math

import numpy as np

from tests.mutation.mutants import (
    Altered,
    at_call,
    changes,
    constant,
    first,
    nothing,
    read_global,
    second,
    within,
)

OF_KNESER_NEY = "models/ngrams/test_kneser_ney.py"
OF_TABLES = "models/ngrams/test_tables.py"
OF_ARPA = "models/ngrams/test_arpa.py"
OF_PRUNING = "models/ngrams/test_pruning.py"
OF_APPROXIMATION = "models/ngrams/test_approximation.py"
OF_DELETED = "models/ngrams/test_deleted_interpolation.py"
OF_INTERPOLATION = "models/ngrams/test_interpolation.py"
OF_CLASSES = "models/ngrams/test_word_classes.py"
ROOM = "models.ngrams"


def _take_last(arrays):
    return arrays[-1]


# Counts


@changes(f"{ROOM}.counts:NgramCounter._count_rows", OF_KNESER_NEY)
def continuation_counts_are_0_at_the_beginning_of_the_text(original, *arguments):
    return within(original, np=Altered(np, maximum=first))(*arguments)


@changes(f"{ROOM}.counts:NgramCounter._count_rows", OF_KNESER_NEY)
def ngrams_that_begin_a_sentence_have_continuation_counts(original, *arguments):
    return within(original, BOS_ID=-1)(*arguments)


@changes(f"{ROOM}.counts:NgramCounter._count_rows", OF_KNESER_NEY)
def ngrams_of_a_context_that_continues_are_closed(original, self, rows, is_last):
    return original(self, rows, True)


@changes(f"{ROOM}.counts:NgramCounter._number_contexts", OF_KNESER_NEY)
def a_context_that_continues_has_two_numbers(original, self, words):
    self._last_words[:] = -1
    return original(self, words)


@changes(f"{ROOM}.runs:make_rows", OF_KNESER_NEY)
def contexts_reach_over_the_start_of_a_sentence(original, *arguments):
    return within(original, BOS_ID=-1)(*arguments)


@changes(f"{ROOM}.runs:sort_by_context", OF_KNESER_NEY)
def rows_are_merged_before_all_runs_reach_them(original, *arguments):
    return within(original, min=max)(*arguments)


@changes(f"{ROOM}.tables:sort_with_places", OF_TABLES)
def sorted_look_ups_are_not_put_back_in_their_order(original, values):
    in_order, places = original(values)
    return in_order, np.sort(places)


@changes(f"{ROOM}.tables:search", OF_TABLES)
def an_absent_key_has_the_place_of_the_next_one(original, keys, wanted):
    place, _ = original(keys, wanted)
    return place, np.ones(len(wanted), bool)


@changes(f"{ROOM}.tables:ContextTrie.walk", OF_TABLES)
def contexts_are_walked_beyond_the_start_of_a_sentence(original, *arguments):
    return within(original, BOS_ID=-1)(*arguments)


@changes(f"{ROOM}.tables:ContextTrie.walk", OF_TABLES)
def padding_is_a_word_of_contexts(original, *arguments):
    return within(original, PAD_ID=-1)(*arguments)


# Kneser-Ney


@changes(f"{ROOM}.kneser_ney:_count_frequencies", OF_KNESER_NEY)
def discounts_use_the_count_4_also_of_ngrams_seen_more_often(original, counts):
    def find_smaller(counts, most):
        return np.minimum(counts, most - 1)

    return within(original, np=Altered(np, minimum=find_smaller))(counts)


@changes(f"{ROOM}.kneser_ney:estimate_discounts", OF_KNESER_NEY)
def a_discount_out_of_its_range_is_accepted(original, frequencies):
    return within(original, np=Altered(np, all=constant(True)))(frequencies)


@changes(f"{ROOM}.kneser_ney:estimate_discounts", OF_KNESER_NEY)
def discounts_fall_back_where_nothing_was_seen_4_times(original, frequencies):
    return original(frequencies if frequencies[4] else np.zeros_like(frequencies))


@changes(f"{ROOM}.kneser_ney:discount", OF_KNESER_NEY)
def an_unseen_context_has_no_backoff_mass(original, *arguments):
    return within(original, np=Altered(np, where=second))(*arguments)


@changes(f"{ROOM}.kneser_ney:_read_lower", OF_KNESER_NEY)
def the_lower_order_of_an_ngram_is_that_of_another(original, *arguments):
    return original(*arguments)[::-1]


# Back-off models


@changes(f"{ROOM}.backoff:BackoffModel._search", OF_KNESER_NEY, OF_ARPA)
def a_listed_ngram_of_probability_0_backs_off(original, *arguments):
    def copy(scores, listed, where):
        np.copyto(scores, listed, where=where & ~np.isneginf(listed))

    return within(original, np=Altered(np, copyto=copy))(*arguments)


@changes(f"{ROOM}.backoff:BackoffModel._next_log_probs", OF_KNESER_NEY)
def the_distribution_lacks_the_backoff_weight_of_longer_contexts(original, self, context_ids):
    shortest, *longer = self.backoffs
    backoffs = [shortest, *map(np.zeros_like, longer)]
    return original(Altered(self, backoffs=backoffs), context_ids)


@changes(f"{ROOM}.backoff:backoff_mass", OF_PRUNING, OF_APPROXIMATION)
def the_listed_mass_may_exceed_1(original, *arguments):
    return within(original, _MIN_MASS=-math.inf)(*arguments)


# Interpolation


@changes(f"{ROOM}.deleted_interpolation:DeletedInterpolation.components", OF_DELETED)
def components_of_an_unseen_context_are_0(original, self, context_ids, target_ids):
    components = original(self, context_ids, target_ids)
    for k, (rows, *_) in enumerate(self._seen(context_ids), start=2):
        is_unseen = np.ones(len(components), bool)
        is_unseen[rows] = False
        components[is_unseen, k] = 0
    return components


@changes(f"{ROOM}.deleted_interpolation:DeletedInterpolation._next_log_probs", OF_DELETED)
def weights_beyond_the_longest_seen_context_are_lost(original, *arguments):
    return within(original, np=Altered(np, sum=constant(0.0)))(*arguments)


@changes(f"{ROOM}.interpolation:FrequencyBins.find_bins", OF_DELETED)
def the_bin_of_an_unseen_context_is_that_of_the_longest(original, self, context_ids):
    return original(Altered(self, bins_per_length=0), context_ids)


@changes(f"{ROOM}.interpolation:fit_weights", OF_INTERPOLATION, OF_DELETED)
def em_has_no_prior(original, *arguments):
    return within(original, _PRIOR=0.0)(*arguments)


@changes(f"{ROOM}.interpolation:fit_weights", OF_INTERPOLATION)
def em_takes_one_step(original, *arguments):
    return within(original, _TOLERANCE=math.inf)(*arguments)


@changes(f"{ROOM}.interpolation:combine", OF_INTERPOLATION)
def an_interpolation_of_impossible_events_is_nan(original, *arguments):
    return within(original, np=Altered(np, where=second))(*arguments)


# Classes


@changes(f"{ROOM}.class_based:class_based", "models/ngrams/test_class_based.py")
def words_share_the_mass_of_their_class_equally(original, *arguments, **options):
    def count(values, *weights, minlength):
        counts = np.bincount(values, *weights, minlength=minlength)
        return counts if weights else np.minimum(counts, 1)

    return within(original, np=Altered(np, bincount=count))(*arguments, **options)


@changes(f"{ROOM}.word_classes:_Exchange.move", OF_CLASSES)
def a_moved_word_keeps_its_bigrams_with_itself_in_the_old_class(original, self, word):
    return original(Altered(self, itself=np.zeros_like(self.itself)), word)


@changes(f"{ROOM}.word_classes:_Exchange.move", OF_CLASSES)
def an_exchange_moves_between_equal_classes(original, self, word):
    def find_gains(*arguments):
        gains = self._gains(*arguments)
        gains[self.classes[word]] -= 1e-6
        return gains

    return original(Altered(self, _gains=find_gains), word)


# ARPA files


@changes(f"{ROOM}.arpa:_format_log10", OF_ARPA)
def arpa_files_have_natural_logarithms(original, log_probs):
    return original(log_probs * math.log(10))


@changes(f"{ROOM}.arpa:_build", OF_ARPA)
def an_arpa_backoff_weight_stands_with_the_wrong_ngram(
    original, path, words, sections, *rest, **options
):
    changed = [
        section._replace(log10_backoffs=section.log10_backoffs[::-1]) for section in sections
    ]
    return original(path, words, changed, *rest, **options)


@changes(f"{ROOM}.arpa:_divide_unk", OF_ARPA)
def arpa_words_without_an_ngram_have_probability_0(original, model, absent):
    original(model, absent[:0])


@changes(f"{ROOM}.arpa:_refuse_repeated", OF_ARPA)
def an_ngram_that_is_listed_twice_is_accepted(original, *arguments):
    return nothing()


@changes(f"{ROOM}.arpa_lines:_parse_rows", OF_ARPA)
def a_positive_arpa_probability_is_accepted(original, *arguments):
    parse = read_global(original, "_parse_numbers")

    def parse_and_bound(texts):
        return np.minimum(parse(texts), 0.0)

    return within(original, _parse_numbers=at_call(1, parse_and_bound, parse))(*arguments)


@changes(f"{ROOM}.arpa_lines:_Lines.take", OF_ARPA)
def a_line_between_two_blocks_of_an_arpa_file_is_lost(original, self, number):
    taken = original(self, number)
    self.advance()
    return taken


@changes(f"{ROOM}.mass:compute_backoff_log_probs", OF_ARPA)
def a_merged_word_that_is_listed_backs_off_too(original, *arguments):
    return np.full_like(original(*arguments), -np.inf)


# Pruning and approximation


@changes(f"{ROOM}.pruning:WeighedNgrams.compute_changes", OF_PRUNING)
def pruning_weighs_ngrams_without_the_probability_of_their_context(original, self):
    return original(self._replace(history=np.ones_like(self.history)))


@changes(f"{ROOM}.pruning:_select", OF_PRUNING)
def pruning_removes_all_ngrams_of_a_context_at_once(original, *arguments):
    ngrams = read_global(original, "WeighedNgrams")

    class Unbounded(ngrams):
        def compute_changes(self):
            change, above = super().compute_changes()
            return change, np.full_like(above, np.inf)

    return within(original, WeighedNgrams=Unbounded)(*arguments)


@changes(f"{ROOM}.pruning:prune", OF_PRUNING)
def pruning_keeps_only_the_endings_of_kept_ngrams(original, *arguments):
    return within(original, np=Altered(np, concatenate=_take_last))(*arguments)


@changes(f"{ROOM}.approximation:_ExpectedCounts.add", OF_APPROXIMATION)
def expected_counts_lose_a_context_that_continues_in_the_next_block(original, self, *arguments):
    self._sum = 0 * self._sum
    original(self, *arguments)


@changes(f"{ROOM}.approximation:_expect_counts", OF_APPROXIMATION)
def expected_counts_include_ids_that_are_never_predicted(original, *arguments):
    def list_all(size, boundary):
        return np.arange(size)

    return within(original, predicted_ids=list_all)(*arguments)
