"""Figures that are comparable between tokenizers: bits per character, bits per byte and perplexity
per word, with spellings.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.text_counts import TOTALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.models.base import NextWordModel, choose_boundary
from keras_nplm.models.collectors import Collector, Perplexity, compute_exp
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel


@dataclasses.dataclass(frozen=True)
class TextSize:
    """The size of a text in characters, bytes and words, and the cost of spelling its
    out-of-vocabulary words.
    """

    characters: int | None = None
    bytes: int | None = None
    words: int | None = None
    spelling_log_prob: float | None = None
    missing: str | None = None
    normalised: tuple[str, ...] = ()

    @classmethod
    def of_text(
        cls,
        counts: dict[str, int],
        boundary: str,
        tokenizer: str | Tokenizer,
        spelling_log_prob: float | None,
    ) -> "TextSize":
        """Return the size of a text."""
        ends = counts["sentences"] if predicts_end(boundary) else 0
        characters, size, words = (counts[name] + ends for name in TOTALS)
        missing = None
        if not counts["unk_tokens"]:
            spelling_log_prob = 0.0
        elif spelling_log_prob is None:
            missing = (
                f"The model has no spelling model ({SPELLING_FILE}) for {counts['unk_tokens']:,} "
                "<unk>. Fix: train it with `keras-nplm train`, or in Python set "
                "`language_model.spelling = SpellingModel.from_vocabulary(vocabulary)` and save it."
            )
        steps = get_tokenizer(tokenizer).steps
        return cls(characters, size, words, spelling_log_prob, missing, steps)

    @classmethod
    def of_split(
        cls, encoded: EncodedCorpus, split: str, boundary: str, spelling: SpellingModel | None
    ) -> "TextSize":
        """Return the size of a split.

        Without a spelling model only a text without `<unk>` has figures.
        """
        counts = encoded.splits[split]
        log_prob = None
        if spelling is not None and counts["unk_tokens"]:
            log_prob = sum(map(spelling.sum_log_prob, encoded.unknown_words(split)))
        return cls.of_text(counts, boundary, encoded.tokenizer, log_prob)


def compute_text_figures(
    log_prob: float, size: TextSize
) -> dict[str, float | int | str | list | None]:
    """Return bits per character, bits per byte and perplexity per word: figures that are comparable
    between tokenizers.

        bits per character  = -(ln P(tokens) + ln P(spellings)) / (ln 2 · characters)
        bits per byte       = -(ln P(tokens) + ln P(spellings)) / (ln 2 · bytes of UTF-8)
        perplexity per word = exp(-(ln P(tokens) + ln P(spellings)) / words)

    ln P(spellings) is the sum of ln P(spelling | <unk>): a word model pays for all of its text. Not
    included is the cost of spacing that a tokenizer of words loses, and of normalisation. A
    perplexity per word beyond e**700, as of text without spaces, is None.
    """
    figures: dict[str, Any] = dict.fromkeys(
        ("bits_per_character", "bits_per_byte", "perplexity_per_word")
    )
    if size.characters and size.bytes and size.words and size.spelling_log_prob is not None:
        total = -(log_prob + size.spelling_log_prob)
        figures["bits_per_character"] = total / math.log(2) / size.characters
        figures["bits_per_byte"] = total / math.log(2) / size.bytes
        per_word = compute_exp(total / size.words)
        # none for text without spaces: JSON has no infinity
        figures["perplexity_per_word"] = per_word if math.isfinite(per_word) else None
    else:
        figures["bits_per_character_missing"] = size.missing
    figures |= {name: getattr(size, name) for name in (*TOTALS, "spelling_log_prob")}
    return figures | ({"normalised": list(size.normalised)} if size.normalised else {})


def evaluate_splits(
    model: NextWordModel,
    encoded: EncodedCorpus,
    spelling: SpellingModel | None,
    collectors: Sequence[Collector] = (),
) -> dict[str, dict]:
    """Return all figures of validation and test, where the corpus has them: perplexity, of more
    collectors, and comparable figures.
    """
    boundary = choose_boundary(model)
    evaluated = {}
    for split in filter(encoded.splits.__contains__, HELD_OUT):
        figures = evaluate(model, encoded.ids(split), [Perplexity(), *collectors])
        size = TextSize.of_split(encoded, split, boundary, spelling)
        evaluated[split] = figures | compute_text_figures(figures["log_prob"], size)
    return evaluated
