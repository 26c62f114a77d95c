"""keras_nplm: the neural probabilistic language model of Bengio, Ducharme, Vincent & Jauvin (2003) for Keras.

Nine packages in data-flow order, each importing only from those before it: `io`, `data`, `layers`, `models`,
`language_model`, `training`, `serving`, `experiments`, `cli`. The public names below are importable from here; each
is imported when it is first used, so that `import keras_nplm` loads neither Keras nor TensorFlow.
"""

import importlib
import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # hide TensorFlow's notices; warnings stay

from keras_nplm.io.import_hooks import run_after_import
from keras_nplm.io.startup import hide_messages

__version__ = "0.1.0"

_PUBLIC = {
    "keras_nplm.io.errors": ["InputError", "RunError"],
    "keras_nplm.data.corpora": ["Corpus", "open_corpus"],
    "keras_nplm.data.subwords": ["SubwordOptions", "Subwords"],
    "keras_nplm.data.vocabulary": ["Vocabulary"],
    "keras_nplm.data.encoded_corpus": ["EncodedCorpus"],
    "keras_nplm.data.encoding": ["encode_corpus", "encode_sentences"],
    "keras_nplm.data.resampling": ["Resampled"],
    "keras_nplm.data.dataset": ["ngram_dataset"],
    "keras_nplm.layers.context": ["AveragedContext", "ContextEmbedding"],
    "keras_nplm.layers.direct": ["DirectConnection"],
    "keras_nplm.layers.hidden": ["DeepHidden", "ResidualBlock", "TanhHidden"],
    "keras_nplm.layers.outputs": [
        "AdaptiveSoftmax",
        "EnergyOutput",
        "FullSoftmax",
        "NoiseContrastive",
        "SampledSoftmax",
    ],
    "keras_nplm.models.caches": ["ContinuousCache", "NgramCache", "UnigramCache"],
    "keras_nplm.models.gradients": ["sum_gradients_first"],
    "keras_nplm.models.metrics": ["Perplexity"],
    "keras_nplm.models.nplm": ["NPLM"],
    "keras_nplm.models.evaluation": ["evaluate"],
    "keras_nplm.models.mixture": ["Mixture", "Uniform", "fit_mixture"],
    "keras_nplm.models.ngrams": ["class_based", "deleted_interpolation", "kneser_ney", "read_arpa", "write_arpa"],
    "keras_nplm.models.shortlist": ["Shortlist"],
    "keras_nplm.models.dynamic": ["DynamicSettings", "make_dynamic", "tune_dynamic"],
    "keras_nplm.language_model.language_model": ["LanguageModel"],
    "keras_nplm.language_model.new_words": ["add_words"],
    "keras_nplm.language_model.rescoring": ["NBestFile", "NBestList", "rescore_file", "tune"],
    "keras_nplm.training.adaptive_default": ["AdaptiveConfiguration", "choose_configuration"],
    "keras_nplm.training.configuration": ["CONFIGURATIONS", "Configuration"],
    "keras_nplm.training.distribution": ["open_strategy"],
    "keras_nplm.training.estimate": ["estimate", "mix"],
    "keras_nplm.training.optimizers": ["LazyAdagrad", "LazyAdam", "LazySGD"],
    "keras_nplm.training.tensorboard": ["LanguageModelBoard"],
    "keras_nplm.training.train": ["train"],
    "keras_nplm.serving": ["export_litert", "export_onnx", "export_saved_model"],
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = ["__version__", *sorted(_MODULE_OF)]

hide_messages()

# Keras and TFDS find classes by name only after the module that registers them was imported
run_after_import("keras", ["keras_nplm.models.nplm", "keras_nplm.training.optimizers"])
run_after_import("tensorflow_datasets", ["keras_nplm.data.corpora.tfds_builders"])


# Modules that import Keras at their top
_NEED_KERAS = (
    "layers.",
    "models.gradients",
    "models.metrics",
    "models.nplm",
    "training.optimizers",
    "training.tensorboard",
    "training.train",
)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'keras_nplm' has no attribute {name!r}")
    if _MODULE_OF[name].removeprefix("keras_nplm.").startswith(_NEED_KERAS):
        importlib.import_module("keras")  # first: its hook imports the same modules, perhaps in a different thread
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
