"""N-best rescoring: add language model features to a decoder's hypotheses, tune weights, and rank
the hypotheses.

Read first: nbest, `NBestList` and `NBestFile`; lists, the whole of rescoring.

- files: rescore a whole file. writer: write lists. line_formats: Moses, Kaldi and tab-separated
  values.
- features: add the log-probabilities of a language model. ranking: sort by the weighted sum of
  features.
- losses: word errors against references. minimum_error_rate: tune weights (MERT).

A format of your own is a class in line_formats, for reader and writer.
"""
