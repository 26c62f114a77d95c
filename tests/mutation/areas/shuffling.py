"""Order of the n-grams: pools of shards, permutations, resampled texts, where a run resumes."""

import numpy as np
import tensorflow as tf

from tests.mutation.mutants import Altered, changes, constant, read_global, within

OF_DATASETS = "data/test_dataset.py"
OF_ARRAYS = "data/test_ngram_arrays.py"
OF_RESAMPLING = "data/test_resampling.py"
MAKE_KEY = "data.shuffling:EpochOrder._make_key"
READ_CONTEXT = "data.pools:Blocks._read_context"


@changes(
    "data.shuffling:_ROUNDS",
    f"{OF_DATASETS}::test_neighbours_in_an_epoch_are_not_neighbours_in_the_text",
)
def after_four_rounds_of_the_cipher_neighbours_correlate(original):
    return 4


@changes("data.shuffling:permute", OF_DATASETS)
def the_permutation_has_one_place_too_many(original, place, size, key):
    return original(place, size + 1, key)


@changes("data.layouts:Windows.gather", OF_DATASETS)
def contexts_are_one_word_too_early(original, self, tokens, position):
    context_ids, _ = original(self, tokens, tf.maximum(position - 1, self.order - 1))
    return context_ids, tf.gather(tokens, position)


@changes("data.shuffling:make_key", f"{OF_DATASETS}::test_all_bits_of_a_seed_count")
def seeds_that_differ_by_256_give_one_order(original, seed, *arguments):
    return original(read_global(original, "fold_seed")(seed) & 0xFF, *arguments)


@changes(READ_CONTEXT, OF_ARRAYS)
def a_block_takes_the_first_words_before_it(original, self, stop):
    arrange_ngrams = read_global(original, "arrange_ngrams")

    def arrange(ids, order, boundary):
        tokens, positions = arrange_ngrams(ids, order, boundary)
        return tokens[: order - 1], positions

    return within(original, arrange_ngrams=arrange)(self, stop)


@changes(READ_CONTEXT, OF_ARRAYS)
def a_block_reads_on_over_the_sentence_before(original, self, stop):
    arrange_ngrams = read_global(original, "arrange_ngrams")

    def arrange(ids, order, boundary):
        return arrange_ngrams(ids, order, "stream")

    return within(original, arrange_ngrams=arrange)(self, stop)


@changes(READ_CONTEXT, OF_ARRAYS)
def a_context_across_many_sentence_ends_is_too_short(original, self, stop):
    return within(original, np=Altered(np, count_nonzero=constant(1 << 30)))(self, stop)


@changes("data.layouts:Windows.find_counted", OF_ARRAYS)
def blocks_of_a_stream_count_sentence_ends_as_ngrams(original, self, ids):
    def find_all(ids, boundary):
        return np.ones(len(ids), bool)

    return within(original, find_targets=find_all)(self, ids)


@changes("data.ngram_arrays:arrange_ngrams", OF_ARRAYS)
def sentence_ends_belong_to_the_next_sentence(original, *arguments):
    def count(is_end, dtype):
        return np.cumsum(is_end, dtype=dtype) + is_end

    return within(original, np=Altered(np, cumsum=count))(*arguments)


@changes("data.boundary:context_end", OF_ARRAYS)
def the_words_before_a_document_are_seen(original, boundary):
    return None if boundary == "text" else original(boundary)


@changes(
    "data.shards:encode_batches",
    "data/test_encoding.py",
)
def a_blank_line_ends_no_document(original, *arguments):
    return within(original, BOS=read_global(original, "EOS"))(*arguments)


@changes("data.ids:find_distinct_rows", OF_ARRAYS)
def contexts_with_one_hash_are_taken_for_one_context(original, *arguments, **options):
    equal = Altered(np, array_equal=constant(True))
    return within(original, np=equal)(*arguments, **options)


@changes("data.shuffling:_build_options", f"{OF_DATASETS}::test_no_thread_tunes_the_pipeline")
def a_thread_tunes_the_windows_and_fit_waits_for_it(original):
    options = original()
    options.autotune.enabled = True
    return options
