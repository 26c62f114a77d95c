"""Properties in which the tokens of two models differ: tokenizer, vocabulary, boundary, held-out
mass.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.remote import display_url, fetch
from keras_nplm.language_model.directory import read_config, read_metrics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel, find_networks

HELD_OUT_KNOWLEDGE = (
    "`held_out_mass` uses which words of the vocabulary occur in the other splits alone"
)


@dataclasses.dataclass(frozen=True)
class TokenOptions:
    """What the tokens of a model are, and its held-out mass.

    Attributes:
        name: the model, as messages call it.
        vocabulary: its words.
        tokenizer: its tokenizer.
        boundary: its boundary.
        held_out_mass: see `find_held_out_mass`.
        vocabulary_scope: `"corpus"` if its words are those of all splits.
    """

    name: str
    vocabulary: Vocabulary
    tokenizer: Tokenizer
    boundary: str
    held_out_mass: float = 0.0
    vocabulary_scope: str = "train"

    @classmethod
    def of_model(cls, path: str | os.PathLike, model: LanguageModel) -> "TokenOptions":
        """Return the tokens of a model that was opened from a directory or a file."""
        found = fetch(path)
        config = read_config(found) if found.is_dir() else {}
        mass = find_held_out_mass(model.model, config)
        # of a mixture it is with the figures
        scope = (read_metrics(found) | config).get("vocabulary_scope", "train")
        codec = model.codec
        return cls(
            display_url(path), codec.vocabulary, codec.tokenizer, codec.boundary, mass, scope
        )

    def list_properties(self, for_mixture: bool) -> dict[str, tuple[Any, str]]:
        """Return by name what is compared in `find_differences`, and how messages show it."""
        vocabulary = self.vocabulary
        # equal subwords may have other scores, by which text is split
        is_exact = for_mixture or vocabulary.subwords is not None
        steps = " ".join(self.tokenizer.steps)
        mass = 0.0 if for_mixture else self.held_out_mass
        return {
            "tokenizer": (self.tokenizer.kind, " ".join(self.tokenizer.flags)),
            "normalisation": (steps, f"--normalise {steps}" if steps else "no --normalise"),
            "vocabulary": (
                vocabulary if is_exact else {*vocabulary.words},
                f"vocabulary of {len(vocabulary) - len(SPECIALS):,}",
            ),
            "boundary": (
                self.boundary if for_mixture else predicts_end(self.boundary),
                f"--boundary {self.boundary}",
            ),
            "held-out mass": (mass > 0, f"held_out_mass {mass:g}"),
        }


def find_held_out_mass(model: NextWordModel, config: Mapping[str, Any]) -> float:
    """Return the probability that the networks of a model were trained to give to words that occur
    in the other splits alone.

    0 if `config.json` says that the words are of the training split: then there are no such words.
    """
    if config.get("vocabulary_scope") == "train":
        return 0.0
    # a network that was read as arrays has no objective
    objectives = [getattr(network, "objective", None) for network in find_networks(model)]
    return max((getattr(each, "held_out_mass", 0.0) for each in objectives), default=0.0)


def find_differences(
    models: Sequence[TokenOptions], *, for_mixture: bool = False
) -> dict[str, list[str]]:
    """Return the properties in which the tokens of models differ, each with the values of the
    models; none if perplexities per token are comparable.

    With `for_mixture` the same words in a different order differ, too, and so do boundaries that
    predict the same tokens after different contexts. Held-out mass does not.
    """
    rows = [model.list_properties(for_mixture) for model in models]
    return {
        name: [row[name][1] for row in rows]
        for name, (first, _) in rows[0].items()
        if any(row[name][0] != first for row in rows)
    }


def check_same_tokens(wanted: TokenOptions, given: TokenOptions) -> None:
    """Refuse a model with a different tokenizer, vocabulary or boundary than wanted."""
    differences = find_differences([wanted, given], for_mixture=True)
    if differences:
        received = "; ".join(
            f"{two}, and {one} of {wanted.name}" for one, two in differences.values()
        )
        raise InputError(
            f"{given.name} must have the same {' and '.join(differences)} as {wanted.name}. "
            f"Received: {received}. Fix: train both on one corpus of `keras-nplm prepare`, with "
            f"--boundary {wanted.boundary}. Import an ARPA file by `keras-nplm ngram --arpa`, with "
            f"--vocabulary, the vocabulary.txt of {wanted.name}, "
            f"{' '.join(wanted.tokenizer.flags)}, and this boundary."
        )
