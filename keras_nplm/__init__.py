"""keras_nplm: the neural probabilistic language model of Bengio, Ducharme, Vincent & Jauvin (2003)
for Keras.

Train a model on text, one sentence per line, and use it:

    from keras_nplm import LanguageModel, open_corpus, train

    train(open_corpus(train="my.txt"), "runs/mine")
    language_model = LanguageModel.load("runs/mine")
    language_model.next_words("The value of the", top_k=3)

What you want, and the names to read on by `help(NAME)`:

    score, complete, generate text     LanguageModel, Scorer, KenlmModel, CtcLanguageModel
    train and save a whole model       open_corpus, train, choose_options, CONFIGURATIONS
    train by Keras's `fit`             NPLM, Vocabulary, ngram_dataset, Perplexity
    n-grams, mixtures, caches          estimate, kneser_ney, read_arpa, mix, Mixture
    measure, rescore N-best lists      evaluate, SpellingModel, rescore_file, tune
    serve                              export_saved_model, export_onnx, export_litert, export_page

All public names are importable from here. Each is imported when it is first used, so that `import
keras_nplm` loads neither Keras nor TensorFlow.

`keras.models.load_model` knows our classes once a public name was used, and after `import
keras_nplm` if Keras was imported before. Otherwise call `keras_nplm.register_classes()`. TFDS knows
our builders after `import keras_nplm.data.corpora.tfds_builders`.

`TF_CPP_MIN_LOG_LEVEL` is 1 unless it is set: TensorFlow's notices are hidden, warnings stay. Two of
its lines come before it reads this level: that oneDNN is on, and that there is no CUDA driver.

For developers: ten packages in data-flow order, each importing only from those before it: `io`,
`data`, `layers`, `models`, `language_model`, `rescoring`, `training`, `serving`, `experiments`,
`cli`.

To add a tokenizer, start in `data.tokenizers`; a layer, a head, an objective or a kind of network,
and their options, in `training.network`; a method of n-gram models, in `training.methods`; the
served graph of a model, in `serving.graph_model`. Afterwards run `ruff check`, `ruff format`,
`mypy`, and the README's tests; `.ci/run` runs all that must hold.

Questions of those who carry on: `models` says what an id out of range does; `training`, what an
interruption leaves; `models.ngrams` and `models.networks` walk from counts and from ids to P.
`tests.serving.test_text` holds that served text is read as Python reads it.

To know the network in an hour, read in this order: README.md, models/networks/nplm.py,
layers/context.py, layers/hidden.py, layers/heads/linear.py, layers/scores.py,
models/networks/context_network.py, layers/objectives/likelihood.py, models/evaluation.py.
"""

import importlib
import os
import sys
from typing import Any

# TensorFlow reads it when it is imported
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

__version__ = "0.1.0"

_PUBLIC = {
    "keras_nplm.io.errors": ["InputError", "RunError"],
    "keras_nplm.data.corpora.opening": ["open_corpus"],
    "keras_nplm.data.corpus": ["Corpus"],
    "keras_nplm.data.subwords": ["SubwordOptions", "Subwords"],
    "keras_nplm.data.tokenizers.base": ["Tokenizer"],
    "keras_nplm.data.tokenizers.registry": ["register_tokenizer"],
    "keras_nplm.data.vocabulary": ["Vocabulary"],
    "keras_nplm.data.encoded_corpus": ["EncodedCorpus"],
    "keras_nplm.data.encoding": ["encode_corpus", "encode_sentences"],
    "keras_nplm.data.resampling": ["Resampled"],
    "keras_nplm.data.dataset": ["ngram_dataset"],
    "keras_nplm.layers.averaged_context": ["AveragedContext"],
    "keras_nplm.layers.context": ["ContextEmbedding"],
    "keras_nplm.layers.deep_hidden": ["DeepHidden", "ResidualBlock"],
    "keras_nplm.layers.hidden": ["DirectConnection", "TanhHidden"],
    "keras_nplm.layers.heads.adaptive": ["AdaptiveHead"],
    "keras_nplm.layers.heads.energy": ["EnergyHead"],
    "keras_nplm.layers.heads.linear": ["LinearHead"],
    "keras_nplm.layers.objectives.base": ["Losses", "Objective"],
    "keras_nplm.layers.objectives.likelihood": ["Likelihood"],
    "keras_nplm.layers.objectives.sampled": ["NoiseContrastive", "SampledSoftmax"],
    "keras_nplm.layers.spelled_context": ["SpelledContext"],
    "keras_nplm.layers.pointer": ["Pointer"],
    "keras_nplm.models.caches": ["ContinuousCache", "NgramCache", "UnigramCache"],
    "keras_nplm.models.networks.gradients": ["sum_gradients"],
    "keras_nplm.models.networks.metrics": ["Perplexity"],
    "keras_nplm.models.networks.context_network": ["ContextNetwork"],
    "keras_nplm.models.networks.hybrid_network": ["HybridNetwork"],
    "keras_nplm.models.networks.log_z": ["LogZ"],
    "keras_nplm.models.networks.nplm": ["NPLM"],
    "keras_nplm.models.networks.pointer_network": ["PointerNetwork"],
    "keras_nplm.models.collectors": ["Accuracy", "Collector", "PerplexityByOrder"],
    "keras_nplm.models.evaluation": ["evaluate"],
    "keras_nplm.models.mixture": ["Mixture", "Uniform", "fit_mixture"],
    "keras_nplm.models.ngrams": [
        "FrequencyBins",
        "class_based",
        "count_ngrams",
        "deleted_interpolation",
        "exchange_classes",
        "kneser_ney",
        "prune",
        "read_arpa",
        "write_arpa",
    ],
    "keras_nplm.models.ngrams.approximation": ["approximate", "fit_unigrams"],
    "keras_nplm.models.hybrid": ["Hybrid"],
    "keras_nplm.models.keras_model": ["KerasModel"],
    "keras_nplm.models.jackknife": ["Jackknife", "hybrid_dataset"],
    "keras_nplm.models.shortlist": ["Shortlist"],
    "keras_nplm.models.spelling": ["SpellingModel"],
    "keras_nplm.models.dynamic": ["DynamicSettings", "make_dynamic", "tune_dynamic"],
    "keras_nplm.language_model.ctc": ["CtcLanguageModel"],
    "keras_nplm.language_model.kenlm": ["KenlmModel"],
    "keras_nplm.language_model.language_model": ["LanguageModel"],
    "keras_nplm.language_model.new_words": ["add_words"],
    "keras_nplm.language_model.scorer": ["Scorer"],
    "keras_nplm.language_model.word_vectors": ["read_word_vectors"],
    "keras_nplm.rescoring.files": ["rescore_file"],
    "keras_nplm.rescoring.lists": ["NBestFile", "NBestList"],
    "keras_nplm.rescoring.ranking": ["rescore"],
    "keras_nplm.rescoring.tuning": ["WordErrors", "tune"],
    "keras_nplm.training.adaptive_default": ["choose_options"],
    "keras_nplm.training.configurations": ["CONFIGURATIONS"],
    "keras_nplm.training.distribution": ["open_strategy"],
    "keras_nplm.training.estimate": ["estimate"],
    "keras_nplm.training.mix": ["mix"],
    "keras_nplm.training.optimizers": ["LazyAdagrad", "LazyAdam", "LazySGD"],
    "keras_nplm.training.network": ["Network"],
    "keras_nplm.training.optimisation": ["Training"],
    "keras_nplm.training.options": [
        "Options",
        "TextOptions",
        "TextStatistics",
    ],
    "keras_nplm.training.tensorboard": ["LanguageModelBoard"],
    "keras_nplm.training.train": ["train"],
    "keras_nplm.serving": ["export_litert", "export_onnx", "export_page", "export_saved_model"],
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = ["__version__", "register_classes", *sorted(_MODULE_OF)]


def register_classes() -> None:
    """Import the modules of all layers, networks and optimizers, which registers them with Keras.

    `keras.models.load_model` finds a class by its name only after this.
    """
    importlib.import_module("keras_nplm.models.networks.registered")
    importlib.import_module("keras_nplm.training.optimizers")


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'keras_nplm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    if "keras" in sys.modules:
        register_classes()
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if "keras" in sys.modules:
    register_classes()
