"""keras_nplm: the neural probabilistic language model of Bengio, Ducharme, Vincent & Jauvin (2003) for Keras."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # without TensorFlow's notices of what it found; warnings stay

from keras_nplm.callbacks import LanguageModelBoard
from keras_nplm.configuration import CONFIGURATIONS, Configuration
from keras_nplm.corpora import Corpus, open_corpus
from keras_nplm.distribution import open_strategy
from keras_nplm.encoding import EncodedCorpus, encode_corpus, encode_sentences
from keras_nplm.errors import InputError, RunError
from keras_nplm.estimation import estimate, mix
from keras_nplm.evaluation import evaluate
from keras_nplm.language_model import LanguageModel
from keras_nplm.layers import ContextEmbedding, DirectConnection, TanhHidden
from keras_nplm.metrics import Perplexity
from keras_nplm.mixture import Mixture, Uniform, fit_mixture
from keras_nplm.model import NPLM
from keras_nplm.modern import AveragedContext, DeepHidden, ResidualBlock
from keras_nplm.oov import add_words
from keras_nplm.optimizers import LazyAdagrad, LazyAdam, LazySGD
from keras_nplm.outputs import AdaptiveSoftmax, EnergyOutput, FullSoftmax, NoiseContrastive, SampledSoftmax
from keras_nplm.resampling import Resampled
from keras_nplm.serving import export_litert, export_onnx, export_saved_model
from keras_nplm.shortlist import Shortlist
from keras_nplm.training import train
from keras_nplm.version import __version__
from keras_nplm.vocabulary import Vocabulary
from keras_nplm.windows import ngram_dataset

__all__ = [
    "CONFIGURATIONS",
    "NPLM",
    "AdaptiveSoftmax",
    "AveragedContext",
    "Configuration",
    "ContextEmbedding",
    "Corpus",
    "DeepHidden",
    "DirectConnection",
    "EncodedCorpus",
    "EnergyOutput",
    "FullSoftmax",
    "InputError",
    "LanguageModel",
    "LanguageModelBoard",
    "LazyAdagrad",
    "LazyAdam",
    "LazySGD",
    "Mixture",
    "NoiseContrastive",
    "Perplexity",
    "Resampled",
    "ResidualBlock",
    "RunError",
    "SampledSoftmax",
    "Shortlist",
    "TanhHidden",
    "Uniform",
    "Vocabulary",
    "__version__",
    "add_words",
    "encode_corpus",
    "encode_sentences",
    "estimate",
    "evaluate",
    "export_litert",
    "export_onnx",
    "export_saved_model",
    "fit_mixture",
    "mix",
    "ngram_dataset",
    "open_corpus",
    "open_strategy",
    "train",
]
