"""Language models over word ids: every class answers `log_prob` and `next_log_probs`.

Read first: base, `NextWordModel`, what every model is and brings: parts, files, figures;
evaluation, the pass over a text; collectors, what it measures.

- networks: the networks. ngrams: count-based models. dynamic: models that learn as they read.
- mixture, caches, shortlist, hybrid and jackknife: models that combine or adapt others.
  keras_model: a plain Keras model.
- model_files: save and load any of them. adaptation: fine-tuning. spelling: unknown words.
  text_figures: bits per character and byte, and perplexity per word. defaults: those that the
  command line shows.

A model of your own extends `NextWordModel`; then it is evaluated and mixed. It is saved if it names
its files, and served if a graph is registered: see `keras_nplm.serving.GraphModel`.

All but networks, jackknife, adaptation and dynamic.network import no Keras.

An id below 0 or above |V|-1 never gives a plausible figure:

- `log_prob` and `next_log_probs` of any model: `InputError`.
- `fit` and `evaluate` of a network: TensorFlow's InvalidArgumentError stops the step.
- A called network, and `predict`: P is NaN.
- A SavedModel, a LiteRT or ONNX file: P or ln P is NaN.
- Text: no such id; an unknown word is `<unk>`.
"""
