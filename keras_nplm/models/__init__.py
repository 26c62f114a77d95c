"""Language models over word ids: every class answers `log_prob` and `next_log_probs`.

- `base`: `NextWordModel`, what every model is and brings: parts, files, figures.
- `networks/`: the networks; `ngrams/`: count-based models; `dynamic/`: models that learn as they
  read.
- `mixture`, `caches`, `shortlist`, `hybrid` and `jackknife`: models that combine or adapt others.
- `evaluation`: the pass over a text; `collectors`: what it measures.
- `model_files`: save and load any of them; `adaptation`: fine-tuning; `spelling`: unknown words.

All but `networks`, `jackknife`, `adaptation` and `dynamic.network` import no Keras.
"""
