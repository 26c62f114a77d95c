"""Text to token ids to batches of n-grams.

corpora: where text comes from. corpus: its splits. tokenizers: lines to tokens, and normalisation.
subwords: SentencePiece models. word_counts, vocabulary, forms: words to ids. encoding: a corpus to
shards of ids. encoded_corpus, shards: ids on disk. prepared_corpus: text that was encoded once for
several models. beam_runner: counting and encoding on a cluster. unusual_text: warnings about text.
worker_pool, worker: parallel processes. ngram_arrays: n-grams in NumPy. source, dataset: batches of
n-grams, as tf.data. layouts, segments, log_q: what a batch holds. epochs, shuffling, pools,
resampling: which n-grams an epoch has, and in which order.
"""
