"""The base class: descriptions, and n-gram models without Keras; see test_contract.py for the rest."""

import subprocess
import sys

import numpy as np

from keras_nplm import NPLM, Mixture, Uniform
from keras_nplm.models.ngrams import deleted_interpolation, kneser_ney


def test_ngram_models_import_neither_keras_nor_tensorflow():
    modules = "base evaluation mixture shortlist ngrams ngrams.approximation ngrams.mass".split()
    imports = "".join(f"import keras_nplm.models.{module}\n" for module in modules)
    check = "assert not {'keras', 'tensorflow'} & set(sys.modules), 'imported'\n"
    subprocess.run([sys.executable, "-c", f"import sys\n{imports}{check}"], check=True)


def test_models_describe_themselves_in_one_line():
    ids = np.array([4, 5, 8, 3])
    models = [
        (Uniform(9), "Uniform(order=2, |V|=9, boundary='sentence')"),
        (kneser_ney(ids, 9, 2), "BackoffModel(order=2, |V|=9, boundary='sentence', n-grams=11)"),
        (deleted_interpolation(ids, ids, 9, 2), "DeletedInterpolation(order=2, |V|=9, boundary='sentence')"),
        (NPLM(9, order=3), "NPLM(order=3, |V|=9, boundary='sentence')"),
        (
            Mixture([Uniform(9), Uniform(9)], [0.25, 0.75]),
            "Mixture(order=2, |V|=9, boundary='sentence', weights=[0.250 Uniform, 0.750 Uniform])",
        ),
    ]
    for model, shown in models:
        assert repr(model) == shown
