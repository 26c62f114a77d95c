"""Checks of the arguments of layers and networks, until each layer checks its own."""

from keras_nplm.io.fields import FieldFacts

_FACTS = {
    facts.name: facts
    for facts in (
        FieldFacts("order", int, 21, least=2, below=1024),
        FieldFacts("boundary", str, "sentence", choices=("sentence", "text", "stream")),
        FieldFacts("vocabulary_size", int, None, least=2, example=10_000),
        FieldFacts("embedding_dim", int, 60, least=1),
        FieldFacts("hidden_units", int, 100, least=0),
        FieldFacts("direct_connections", bool, False),
        FieldFacts("weight_decay", float, 3e-5, least=0),
        FieldFacts("dropout", float, 0.4, least=0, below=1),
        FieldFacts("held_out_mass", float, 0.0, least=0, below=1),
        FieldFacts("proposal", str, "unigram", choices=("unigram", "log-uniform")),
        FieldFacts("activation", str, "gelu", choices=("tanh", "relu", "gelu", "silu")),
        FieldFacts("residual_blocks", int, 1, least=0, below=1024),
    )
}


def check_option(name: str, value: object) -> None:
    """Refuse a value of another type or out of the range of an option."""
    _FACTS[name].check(value)
