"""Text to token ids to batches of n-grams.

Read first: ids, the special tokens; boundary, how far a context reaches; vocabulary; ngram_arrays,
n-grams in NumPy; source, a text as n-grams; dataset, `ngram_dataset`, as tf.data.

- Text: corpora, where it comes from; corpus, its splits; unusual_text, warnings;
  repeated_sentences, validation and test text that a training text has; arguments, checks.
- Tokens: tokenizers, lines to tokens, and normalisation; subwords, SentencePiece models; forms,
  lower-case words to the vocabulary's; fixed_vocabulary, words that a file gives; prefixes, words
  by their beginning; text_ops and clean_ops, in TensorFlow.
- Ids on disk: word_counts and text_counts; encoding, a corpus to shards of ids; encoded_corpus and
  shards, which read them; prepared_corpus, text that was encoded once for several models;
  processes, beam_runner: in parallel processes and on clusters.
- Batches: layouts, segments, log_q: what a batch holds. epochs, shuffling, pools, resampling: which
  n-grams an epoch has, and in which order.

A kind of tokens of your own is a class: see `tokenizers`. A corpus of your own: see `corpora`.
"""
