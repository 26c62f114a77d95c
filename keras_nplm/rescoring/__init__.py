"""N-best rescoring: add language model features to a decoder's hypotheses, tune weights, and rank
the hypotheses.

- `lists`: rescore N-best lists; `files`: rescore a whole file.
- `nbest`: `NBestList` and `NBestFile`, the reader; `writer`: the writer. Both know the formats of
  `line_formats`.
- `features`: add the log-probabilities of a language model; `ranking`: sort by the weighted sum of
  features.
- `losses`: word errors against references; `minimum_error_rate`: tune weights (MERT).
"""
