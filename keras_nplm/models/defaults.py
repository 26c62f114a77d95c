"""Defaults of models that the command line shows. Imports no NumPy: help comes at once."""

from keras_nplm.io.fields import FieldFacts

# of caches
DECAY = FieldFacts(
    name="decay",
    type=float,
    default=300.0,
    least=1,
    help="words after which a cached word weighs 1/e",
)
FLATNESS = FieldFacts(
    name="flatness", type=float, default=0.3, least=0, help="factor of h_t · h_i in the exponent"
)
LENGTH = FieldFacts(
    name="cache_length",
    type=int,
    default=500,
    least=1,
    below=1 << 16,
    help="previous words that a cache holds",
)

# of the approximation of a model by n-grams
ORDER = 3  # higher orders gain little: most longer contexts of a new text were never seen
MIN_EXPECTED_COUNT = 0.02
