"""N-best rescoring: add language model features to a decoder's hypotheses, tune weights, and rank
the hypotheses.

Read first: lists, `NBestList` and `NBestFile`; ranking, the whole of rescoring.

- files: rescore a whole file, and write lists. formats: Moses, Kaldi and tab-separated values.
- ranking: add the log-probabilities of a language model; sort by the weighted sum of features.
- tuning: word errors against references; tune weights for the fewest (minimum risk training).

A format of your own is a class in formats, for reader and writer.
"""
