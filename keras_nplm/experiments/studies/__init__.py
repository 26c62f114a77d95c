"""Studies on Brown beyond the paper's Table 1: each a module with the models that it needs and its measurement.

study: the interface of a study, and `make_study`. adaptation: a general network and a new kind of text. arpa: networks
as ARPA files. configurations: perplexity and seconds of the named configurations. default: the adaptive default next
to Kneser-Ney, also on texts of the user. dynamic: networks that learn as they read, with n-grams and caches. energy:
the energy-based variant. modern: ablation of the modern networks. new_words: out-of-vocabulary words added to a
trained network. normalisation: lower case, numbers and lemmas. phones: small subword models in 8 bits. quantisation:
8-bit weights. resampling: in-domain and out-of-domain text. rescoring: n-best lists (corruptions: wrong versions of
sentences). shortlist: size of the short-list. tokenization: words, subwords and characters. A study is imported when
it is loaded by name.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_nplm.experiments.studies.study import Study

_MODULES = {
    "configurations": "configurations",
    "default": "default",
    "dynamic": "dynamic",
    "adaptation": "adaptation",
    "modern": "modern",
    "shortlist": "shortlist",
    "energy": "energy",
    "new-words": "new_words",
    "resampling": "resampling",
    "normalisation": "normalisation",
    "quantisation": "quantisation",
    "rescoring": "rescoring",
    "arpa": "arpa",
    "tokenization": "tokenization",
    "phones": "phones",
}
STUDIES = tuple(_MODULES)


def load_study(name: str) -> "Study":
    """Import and return the study with a name of `STUDIES`.

    Raises:
        KeyError: no study has this name.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[name]}")
