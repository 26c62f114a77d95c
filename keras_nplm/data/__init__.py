"""Text to token ids to batches of n-grams.

corpora: where text comes from. tokenizers: lines to tokens, and normalisation. word_counts, vocabulary: words to ids.
encoding: a corpus to shards of ids on disk. encoded_corpus, shards: these shards. worker_pool, worker: parallel
processes. ngram_arrays: n-grams as NumPy arrays. shuffling: text larger than memory, and resampling. dataset: tf.data.
"""
