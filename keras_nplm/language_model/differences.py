"""Options that make the figures of two models incomparable: text, vocabulary, tokenizer, boundary,
held-out mass.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import remove_contents
from keras_nplm.io.remote import display_url, fetch
from keras_nplm.language_model.directory import read_config, read_description, read_metrics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel, find_networks

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


HELD_OUT_KNOWLEDGE = (
    "Held-out mass uses which words of the vocabulary occur in the other splits alone. "
    "Fix: train with --held-out-mass 0."
)


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
        of: `"tokenizer"`, `"normalisation"`, `"vocabulary"` or `"boundary"`.
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
    predict the same tokens after different contexts.
    """
    found = []
    if first.tokenizer.kind != second.tokenizer.kind:
        flags = (" ".join(first.tokenizer.flags), " ".join(second.tokenizer.flags))
        names = dict.fromkeys([first.tokenizer.flag, second.tokenizer.flag])
        found.append(Difference("tokenizer", " or ".join(names), flags))
    if first.tokenizer.steps != second.tokenizer.steps:
        steps = (_name_steps(first.tokenizer), _name_steps(second.tokenizer))
        found.append(Difference("normalisation", "--normalise", steps))
    if _has_other_words(first.vocabulary, second.vocabulary, for_mixture):
        options = _find_vocabulary_options(first.config, second.config)
        # other tokens have another vocabulary
        if not options and not found:
            options = [_count_differing_words(first.vocabulary, second.vocabulary)]
        found += options
    if _have_other_boundaries(first.boundary, second.boundary, for_mixture):
        boundaries = (f"--boundary {first.boundary}", f"--boundary {second.boundary}")
        found.append(Difference("boundary", "--boundary", boundaries))
    return found


def check_same_tokens(wanted: TokenOptions, given: TokenOptions) -> None:
    """Refuse a model with a different tokenizer, vocabulary or boundary than wanted, and name the
    options that differ.
    """
    differences = find_differences(wanted, given, for_mixture=True)
    if not differences:
        return
    properties = " and ".join(dict.fromkeys(difference.of for difference in differences))
    received = "; ".join(
        f"{difference.values[1]}, and {difference.values[0]} of {wanted.name}"
        for difference in differences
    )
    flags = [difference.flag for difference in differences if difference.flag]
    is_file = not given.config and Path(given.name).is_file()
    if is_file and differences[0].of == "boundary":
        flags = [f"--boundary {wanted.boundary}"]
        if wanted.config:
            flags.append(f"--vocabulary {wanted.name}/vocabulary.txt")
        command = f"keras-nplm ngram --arpa {given.name} {' '.join(flags)}"
        fix = f"import the file with `{command} --output DIR`, and mix this directory"
    elif flags:
        fix = f"train both with the same {' and '.join(flags)}"
    else:
        fix = "prepare one text with `keras-nplm prepare`, and train both with --corpus DIR"
    of_words = all(each.of in ("vocabulary", "text and splits") for each in differences)
    if of_words and not is_file and wanted.vocabulary.subwords is None:
        fix += f"; or train the second with --vocabulary {wanted.name}/vocabulary.txt"
    raise InputError(
        f"{given.name} must have the same {properties} as {wanted.name}. Received: {received}. "
        f"Fix: {fix}."
    )


def describe_incomparable(models: Sequence[TokenOptions]) -> list[str]:
    """Return sentences that say which figures of models are not comparable, and why; none if all
    are.
    """
    first, *others = models
    reasons = []
    has_other_text = False
    is_split_at_spaces = False
    for other in others:
        for difference in find_differences(first, other):
            one, two = difference.values
            reasons.append(f"{one} ({first.name}), {two} ({other.name})")
            has_other_text |= difference.of == "normalisation"
            is_split_at_spaces |= difference.of == "tokenizer" and _is_file_of_words(first, other)
    knowledge = _compare_held_out_mass(models)
    if not reasons:
        return knowledge
    sentences = [f"Perplexities and tokens are not comparable: {'; '.join(reasons)}."]
    if is_split_at_spaces:
        sentences.append(
            "For an ARPA file the text is split at white space. If the file was made of text that "
            "was split like that of the other model, add `--tokenizer words`."
        )
    if len({predicts_end(model.boundary) for model in models}) > 1:
        sentences.append(
            "With --boundary stream, bits per character and byte leave out the ends of lines."
        )
    if has_other_text:
        sentences.append(
            "Bits per character and byte are not comparable either: with --normalise they are of "
            "the normalised text."
        )
    return sentences + knowledge


def _compare_held_out_mass(models: Sequence[TokenOptions]) -> list[str]:
    """Return a sentence on held-out mass, if some models have it and others have not."""
    if len({model.held_out_mass > 0 for model in models}) < 2:
        return []
    values = [f"--held-out-mass {model.held_out_mass:g} ({model.name})" for model in models]
    return [
        f"Perplexities and bits per character and byte are not comparable: {', '.join(values)}. "
        f"{HELD_OUT_KNOWLEDGE}"
    ]


def _is_file_of_words(*models: TokenOptions) -> bool:
    """Return whether one of two models is an ARPA file, perhaps of a text split into words."""
    kinds = {model.tokenizer.kind for model in models}
    return kinds == {"words", "whitespace"} and any(not model.config for model in models)


@dataclasses.dataclass(frozen=True)
class _SplitText:
    """The text of a split, as a model directory records it: its name, if any, and its size."""

    name: str | None
    sentences: int
    words: int | None
    characters: int | None

    def is_same(self, other: "_SplitText") -> bool:
        if self.name is not None and other.name is not None:
            return self.name == other.name and self.sentences == other.sentences
        # a mixture has no name of its text
        sizes = (self.sentences, self.words, self.characters)
        return sizes == (other.sentences, other.words, other.characters)

    def __str__(self) -> str:
        size = f"{self.sentences:,} sentences"
        return size if self.name is None else f"{_name_text(self.name)}, {size}"


def check_same_text(paths: Sequence[str | os.PathLike], split: str) -> None:
    """Refuse model directories whose split is not of the same text."""
    first, *others = [(path, _read_split(Path(path), split)) for path in paths]
    for path, text in others:
        if not text.is_same(first[1]):
            raise InputError(
                f"The {split} splits of {first[0]} and {path} must be of one text. Received: "
                f"{first[1]}; and {text}. Fix: add --text FILE, a text for all models."
            )


def read_warnings(paths: Sequence[str | os.PathLike]) -> list[str]:
    """Return what `metrics.json` of model directories says against their figures of the splits."""
    warnings = []
    for path in paths:
        metrics = read_metrics(fetch(path), missing_ok=True)
        warnings += [f"{os.fspath(path)}: {warning}" for warning in metrics.get("warnings", ())]
    return warnings


def _read_split(directory: Path, split: str) -> _SplitText:
    config, _ = read_description(directory)
    path = directory / "corpus"
    if not path.is_dir():
        raise InputError(
            f"`--text` must be given, as {directory} has no corpus/. Received: no text. "
            "Fix: add --text FILE, a text for all models."
        )
    splits = EncodedCorpus.load(path).splits
    if split not in splits:
        raise InputError(
            f"The text of {directory} must have the split {split!r}. Received: "
            f"{', '.join(splits)}. Fix: name one of these (`--split`), or add --text FILE."
        )
    counts = splits[split]
    return _SplitText(
        config.get("corpus"), counts["sentences"], counts.get("words"), counts.get("characters")
    )


def _name_steps(tokenizer: Tokenizer) -> str:
    if not tokenizer.steps:
        return "no --normalise"
    return " ".join(["--normalise", *tokenizer.steps])


def _has_other_words(first: Vocabulary, second: Vocabulary, for_mixture: bool) -> bool:
    # equal pieces may have other scores, by which text is split
    if for_mixture or first.subwords is not None:
        return first != second
    return set(first.words) != set(second.words)


def _have_other_boundaries(first: str, second: str, for_mixture: bool) -> bool:
    if for_mixture:
        return first != second
    return predicts_end(first) != predicts_end(second)


def _find_vocabulary_options(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[Difference]:
    """Return the options of two `config.json` that make the vocabularies different."""
    found = []
    for name in _VOCABULARY_OPTIONS:
        if name not in first or name not in second or first[name] == second[name]:
            continue
        if name == "corpus":
            texts = (_name_text(first[name]), _name_text(second[name]))
            found.append(Difference("text and splits", "text", texts))
            continue
        flag = "--" + name.replace("_", "-")
        values = (_describe_value(flag, first[name]), _describe_value(flag, second[name]))
        found.append(Difference("vocabulary", flag, values))
    return found


def _count_differing_words(first: Vocabulary, second: Vocabulary) -> Difference:
    words = set(first.words)
    others = set(second.words)
    values = (_count_words(words, others), _count_words(others, words))
    if words == others:
        values = ("the words in one order", "the same words in a different order")
    return Difference("vocabulary", "", values)


def _describe_value(flag: str, value: object) -> str:
    return f"no {flag}" if value is None else remove_contents(f"{flag} {value}")


def _name_text(name: str) -> str:
    return repr(remove_contents(name))


def _count_words(words: set[str], others: set[str]) -> str:
    return f"{len(words):,} words ({len(words - others):,} only there)"
