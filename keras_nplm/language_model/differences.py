"""Properties in which the tokens of two models differ: tokenizer, vocabulary, boundary, held-out
mass.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from keras_nplm.data.ids import SPECIALS
from keras_nplm.io.errors import InputError
from keras_nplm.io.remote import display_url
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import find_networks

HELD_OUT_KNOWLEDGE = (
    "`held_out_mass` uses which words of the vocabulary occur in the other splits alone"
)


@dataclasses.dataclass(frozen=True)
class TokenOptions:
    """What the tokens of a model are, and its held-out mass.

    Attributes:
        name: the model, as messages call it.
        codec: its vocabulary, tokenizer and boundary.
        held_out_mass: see `find_held_out_mass`.
    """

    name: str
    codec: TextCodec
    held_out_mass: float = 0.0

    @classmethod
    def of_model(cls, path: str | os.PathLike, model: LanguageModel) -> "TokenOptions":
        """Return the tokens of a model that was opened from a directory or a file."""
        return cls(display_url(path), model.codec, find_held_out_mass(model))

    def list_properties(self, for_mixture: bool) -> dict[str, tuple[Any, str]]:
        """Return by name what is compared in `find_differences`, and how messages show it."""
        vocabulary = self.codec.vocabulary
        tokenizer = self.codec.tokenizer
        boundary = self.codec.boundary
        # equal subwords may have other scores, by which text is split
        is_exact = for_mixture or vocabulary.subwords is not None
        steps = " ".join(tokenizer.steps)
        mass = 0.0 if for_mixture else self.held_out_mass
        return {
            "tokenizer": (tokenizer.kind, " ".join(tokenizer.flags)),
            "normalisation": (steps, f"--normalise {steps}" if steps else "no --normalise"),
            "vocabulary": (
                vocabulary if is_exact else {*vocabulary.words},
                f"vocabulary of {len(vocabulary) - len(SPECIALS):,}",
            ),
            "boundary": (
                boundary if for_mixture else self.codec.predicts_end,
                f"--boundary {boundary}",
            ),
            "held-out mass": (mass > 0, f"held_out_mass {mass:g}"),
        }


def find_held_out_mass(model: LanguageModel) -> float:
    """Return the probability that the networks of a model were trained to give to words that occur
    in the other splits alone.

    0 if its words are known to be those of the training split: then there are no such words.
    """
    if model.codec.vocabulary_scope == "train":
        return 0.0
    # a network that was read as arrays has no objective
    objectives = [getattr(network, "objective", None) for network in find_networks(model.model)]
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
            f"--boundary {wanted.codec.boundary}. Import an ARPA file by `keras-nplm ngram "
            f"--arpa`, with --vocabulary, the vocabulary.txt of {wanted.name}, "
            f"{' '.join(wanted.codec.tokenizer.flags)}, and this boundary."
        )
