"""Order of the n-grams: pools of shards, permutations, resampled texts, where a run resumes."""

import numpy as np
import tensorflow as tf

from tests.mutation.mutants import Altered, at_call, changes, constant, first, read_global, within

OF_DATASETS = "data/test_dataset.py"
OF_ARRAYS = "data/test_ngram_arrays.py"
OF_RESAMPLING = "data/test_resampling.py"
MAKE_KEY = "data.shuffling:EpochOrder._make_key"
READ_CONTEXT = "data.pools:Blocks._read_context"


@changes(MAKE_KEY, OF_DATASETS)
def the_number_of_the_pool_is_left_out_of_the_seed(original, self, epoch, number):
    return original(self, epoch, number if isinstance(number, int) else tf.ones_like(number))


@changes(MAKE_KEY, OF_DATASETS)
def a_pool_has_the_same_permutation_in_every_epoch(original, self, epoch, number):
    return original(self, epoch if isinstance(number, int) else tf.zeros_like(epoch), number)


@changes(MAKE_KEY, OF_DATASETS)
def a_text_in_memory_has_the_same_permutation_in_every_epoch(original, self, epoch, number):
    return original(self, tf.zeros_like(epoch) if isinstance(number, int) else epoch, number)


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


@changes("data.shuffling:EpochOrder._is_resumed", OF_DATASETS)
def every_epoch_skips_the_batches_of_the_first(original, self, epoch):
    return self.epochs.first_epoch is not None


@changes("data.pools:Pools.place", OF_DATASETS)
def a_resumed_epoch_begins_with_the_first_pool(original, *arguments):
    _, place = original(*arguments)
    return 0, place


@changes("data.epochs:EpochSize.__init__", OF_DATASETS)
def a_smaller_last_batch_is_not_counted(original, self, places, batch_size, epochs):
    original(self, places, batch_size, epochs)
    self.batches = max(1, min(self.batches, places // batch_size))


@changes("data.epochs:EpochSize.__init__", OF_DATASETS)
def ngrams_that_fill_no_batch_are_gathered(original, self, places, batch_size, epochs):
    original(self, places, batch_size, epochs)
    self.used = places


@changes("data.layouts:ArrangedText.in_memory", OF_DATASETS)
def words_outside_a_shortlist_are_targets_in_a_stream(
    original, cls, layout, tokens, positions, *rest
):
    if layout.boundary == "stream":
        positions = positions[0] + np.arange(len(positions), dtype=positions.dtype)
    return original(cls, layout, tokens, positions, *rest)


@changes("data.pools:Pools._select_blocks", OF_RESAMPLING)
def a_text_that_begins_again_within_an_epoch_loses_its_first_ngrams(original, *arguments):
    slice_rows = read_global(original, "slice_rows")

    def slice_nothing(cycle, start, stop):
        return slice_rows(cycle, 0, 0)

    return within(original, slice_rows=at_call(2, slice_nothing, slice_rows))(*arguments)


@changes("data.pools:Pools._select_blocks", OF_DATASETS)
def blocks_have_the_same_order_in_every_epoch(original, *arguments):
    def open_generator(key):
        return np.random.default_rng([*key[:2], 1])

    random = Altered(np.random, default_rng=open_generator)
    return within(original, np=Altered(np, random=random))(*arguments)


@changes("data.pools:Pools._select_blocks", OF_RESAMPLING)
def each_epoch_uses_the_same_part_of_a_resampled_text(original, self, text, epoch):
    return original(self, text, 0)


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


@changes("data.pools:Blocks._count_ids", OF_ARRAYS)
def the_last_block_counts_as_full(original, self):
    return within(original, np=Altered(np, minimum=first))(self)


@changes("data.layouts:Windows.find_counted", OF_ARRAYS)
def blocks_of_a_stream_count_sentence_ends_as_ngrams(original, self, ids):
    def find_all(ids, boundary):
        return np.ones(len(ids), bool)

    return within(original, find_targets=find_all)(self, ids)


@changes("data.pools:Pools.load", OF_ARRAYS)
def merged_blocks_keep_the_positions_that_they_had_alone(original, *arguments):
    return within(original, len=constant(0))(*arguments)


@changes("data.pools:Pools.__init__", f"{OF_DATASETS}::test_workers_read_each_ngram_of_shards_once")
def the_range_of_a_worker_begins_with_an_ngram_of_another(original, self, *arguments, **options):
    original(self, *arguments, **options)
    self._starts = np.maximum(self._starts - 1, 0)


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
    "data/test_encoding.py::test_blank_lines_end_the_documents_of_a_text",
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
