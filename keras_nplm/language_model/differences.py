"""Options in which the tokens of two models differ: tokenizer, vocabulary, boundary, and others."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import remove_contents
from keras_nplm.io.remote import display_url, fetch
from keras_nplm.language_model.directory import read_config
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel, find_networks

HELD_OUT_KNOWLEDGE = (
    "`held_out_mass` uses which words of the vocabulary occur in the other splits alone"
)

# of config.json: how the words of a vocabulary were chosen
_VOCABULARY_OPTIONS = (
    "corpus",
    "vocabulary_scope",
    "min_count",
    "max_size",
    "vocabulary",
    "pieces",
    "pieces_kind",
    "pieces_file",
)
_OF_SET = ("vocabulary_scope", "max_size", "pieces_kind")  # by their names in Python


@dataclasses.dataclass(frozen=True)
class TokenOptions:
    """What the tokens of a model are, and its held-out mass.

    Attributes:
        name: the model, as messages call it.
        vocabulary: its words.
        tokenizer: its tokenizer.
        boundary: its boundary.
        config: the content of `config.json`, with the options of the vocabulary; empty if they are
            not known.
        held_out_mass: see `find_held_out_mass`.
    """

    name: str
    vocabulary: Vocabulary
    tokenizer: Tokenizer
    boundary: str
    config: Mapping[str, Any]
    held_out_mass: float = 0.0

    @classmethod
    def of_model(cls, path: str | os.PathLike, model: LanguageModel) -> "TokenOptions":
        """Return the tokens of a model that was opened from a directory or a file."""
        found = fetch(path)
        config = read_config(found) if found.is_dir() else {}
        name = display_url(path)
        mass = find_held_out_mass(model.model, config)
        return cls(name, model.vocabulary, model.tokenizer, model.boundary, config, mass)


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


@dataclasses.dataclass(frozen=True)
class Difference:
    """A property in which the tokens of two models differ.

    Attributes:
        of: `"tokenizer"`, `"normalisation"`, `"vocabulary"`, `"boundary"` or `"held-out mass"`.
        flag: the option of the command line that chooses it; empty if no single one does.
        values: the values of the first and of the second model, with the flag where there is one.
    """

    of: str
    flag: str
    values: tuple[str, str]


def find_differences(
    first: TokenOptions, second: TokenOptions, *, for_mixture: bool = False
) -> list[Difference]:
    """Return the properties in which the tokens of two models differ; none if perplexities per
    token are comparable.

    With `for_mixture` the same words in a different order differ, too, and so do boundaries that
    predict the same tokens after different contexts. Held-out mass does not.
    """
    one = first.tokenizer
    two = second.tokenizer
    found = []
    if one.kind != two.kind:
        flag = " or ".join(dict.fromkeys([one.flag, two.flag]))
        found.append(Difference("tokenizer", flag, (" ".join(one.flags), " ".join(two.flags))))
    if one.steps != two.steps:
        found.append(
            _differ("normalisation", "--normalise", *map(" ".join, (one.steps, two.steps)))
        )
    if _has_other_words(first.vocabulary, second.vocabulary, for_mixture):
        # other tokens have another vocabulary
        found += _find_vocabulary_options(first.config, second.config) or (
            [] if found else [_count_differing_words(first.vocabulary, second.vocabulary)]
        )
    boundaries = (first.boundary, second.boundary)
    if len(set(boundaries if for_mixture else map(predicts_end, boundaries))) > 1:
        found.append(_differ("boundary", "--boundary", *boundaries))
    masses = (first.held_out_mass, second.held_out_mass)
    if not for_mixture and (masses[0] > 0) != (masses[1] > 0):
        found.append(_differ("held-out mass", "held_out_mass", *(f"{mass:g}" for mass in masses)))
    return found


def check_same_tokens(wanted: TokenOptions, given: TokenOptions) -> None:
    """Refuse a model with a different tokenizer, vocabulary or boundary than wanted, and name the
    options that differ.
    """
    differences = find_differences(wanted, given, for_mixture=True)
    if not differences:
        return
    properties = dict.fromkeys(difference.of for difference in differences)
    received = "; ".join(
        f"{difference.values[1]}, and {difference.values[0]} of {wanted.name}"
        for difference in differences
    )
    flags = [difference.flag for difference in differences if difference.flag]
    words = f"--vocabulary {wanted.name}/vocabulary.txt"
    is_file = not given.config and Path(given.name).is_file()
    if is_file and "boundary" in properties:  # the words of a file are those of the first model
        options = f"--boundary {wanted.boundary}" + f" {words}" * bool(wanted.config)
        command = f"keras-nplm ngram --arpa {given.name} {options} --output DIR"
        fix = f"import the file with `{command}`, and mix this directory"
    elif flags:
        fix = f"train both with the same {' and '.join(flags)}"
    else:
        fix = "prepare one text with `keras-nplm prepare`, and train both with --corpus DIR"
    of_words = properties.keys() <= {"vocabulary", "text and splits"}
    if of_words and not is_file and wanted.vocabulary.subwords is None:
        fix += f"; or train the second with {words}"
    raise InputError(
        f"{given.name} must have the same {' and '.join(properties)} as {wanted.name}. "
        f"Received: {received}. Fix: {fix}."
    )


def _has_other_words(first: Vocabulary, second: Vocabulary, for_mixture: bool) -> bool:
    # equal pieces may have other scores, by which text is split
    if for_mixture or first.subwords is not None:
        return first != second
    return set(first.words) != set(second.words)


def _find_vocabulary_options(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[Difference]:
    """Return the options of two `config.json` that make the vocabularies different."""
    found = []
    for name in _VOCABULARY_OPTIONS:
        if name in first and name in second and first[name] != second[name]:
            flag = name if name in _OF_SET else "--" + name.replace("_", "-")
            found.append(_differ("vocabulary", flag, first[name], second[name]))
    return found


def _differ(of: str, flag: str, *values: object) -> Difference:
    """Return the difference of the values of a flag; a text is named as it is."""
    if flag == "--corpus":
        one, two = (repr(remove_contents(str(value))) for value in values)
        return Difference("text and splits", "text", (one, two))
    one, two = (
        f"no {flag}" if value in (None, "") else remove_contents(f"{flag} {value}")
        for value in values
    )
    return Difference(of, flag, (one, two))


def _count_differing_words(first: Vocabulary, second: Vocabulary) -> Difference:
    words = set(first.words)
    others = set(second.words)
    values = (
        f"{len(words):,} words ({len(words - others):,} only there)",
        f"{len(others):,} words ({len(others - words):,} only there)",
    )
    if words == others:
        values = ("the words in one order", "the same words in a different order")
    return Difference("vocabulary", "", values)
