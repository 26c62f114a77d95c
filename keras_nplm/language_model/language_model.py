"""A trained directory as one object: words in, log-probabilities, words and texts out."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.encoding import EncodedCorpus, encode_sentences
from keras_nplm.data.ngram_arrays import BOUNDARIES
from keras_nplm.data.tokenizers import get_tokenizer, join_tokens, load_forms, uses_lemmas
from keras_nplm.data.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIALS,
    Vocabulary,
    check_reserved,
)
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import write_json
from keras_nplm.language_model.directory import (
    kind_of,
    load_model,
    load_vocabulary,
    open_encoded,
    read_config,
    save_model,
)
from keras_nplm.language_model.rescoring.nbest import NBestList
from keras_nplm.language_model.rescoring.reranking import FLOOR, NAME, ranked, with_scores
from keras_nplm.language_model.sentences import SentenceScores, score_sentences
from keras_nplm.language_model.word_vectors import analogies, nearest
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.self_normalised import SelfNormalised, evaluate_with_ln_z
from keras_nplm.models.shortlist import Shortlist

_SENTENCES = 256  # scored together
_MOST_WORDS = 1_000_000  # drawn at once


@dataclasses.dataclass(frozen=True)
class SentenceScore:
    """ln P of a sentence in nats, the number of tokens predicted (with `</s>` if the model predicts it), and how many
    of them are unknown words."""

    log_prob: float
    tokens: int
    unk_tokens: int


class LanguageModel:
    """A language model of any kind with the vocabulary, the tokenizer and the boundary that it was trained with.

    Args:
        model: answers `log_prob(context_ids, target_ids)` and `next_log_probs(context_ids)`, and has an `order`.
        vocabulary: its words.
        tokenizer_name: how text is split and normalised: `"words"`, `"whitespace"`, `"words+lower"` …; see
            `keras_nplm.data.tokenizers.get_tokenizer`. With lemmas, a vocabulary without forms is given those that are
            known.
        boundary: `"stream"`: a text begins from nothing, and its words are predicted; `"sentence"`: each line begins
            from `<s>`, and its words and `</s>` are predicted.

    Example:

    >>> from keras_nplm import NPLM
    >>> vocabulary = Vocabulary(["the", "cat", "sat"])
    >>> model = LanguageModel(NPLM(len(vocabulary), order=3), vocabulary, "words", "sentence")
    >>> next(model.score(["The cat sat"])).tokens
    4
    >>> len(model.next_words("the", top_k=2))
    2
    """

    def __init__(self, model: NextWordModel, vocabulary: Vocabulary, tokenizer_name: str, boundary: str):
        if boundary not in BOUNDARIES:
            raise InputError(f"`boundary` must be one of {', '.join(BOUNDARIES)}. Received: {boundary!r}.")
        if uses_lemmas(tokenizer_name) and vocabulary.forms is None:
            vocabulary = vocabulary.with_forms(load_forms(tokenizer_name))
        elif vocabulary.forms is not None and not uses_lemmas(tokenizer_name):
            raise InputError(f"The vocabulary is one of lemmas, which {tokenizer_name!r} does not take: add `+lemmas`.")
        self.model = model
        self.vocabulary = vocabulary
        self.tokenizer_name = tokenizer_name
        self.tokenize = get_tokenizer(tokenizer_name, vocabulary.forms)
        self.boundary = boundary
        self.corpus: EncodedCorpus | None = None

    @classmethod
    def load(cls, directory: str | os.PathLike, self_normalised: bool = False) -> "LanguageModel":
        """Read a model directory.

        Args:
            directory: where it lies.
            self_normalised: take a network's logits for log-probabilities, much faster: see `SelfNormalised`.

        Raises:
            InputError: it is absent or incomplete, its vocabulary is not the model's, or the model has no logits.
        """
        directory = Path(directory)
        if not directory.is_dir():
            raise InputError(f"There is no model directory {directory}: train one with `keras-nplm train --output`.")
        config = read_config(directory)
        vocabulary = load_vocabulary(directory, config["tokenizer"])
        try:
            model = load_model(directory, config, len(vocabulary))
            if self_normalised and not isinstance(model, NPLM):
                raise InputError(f"{directory} is no network, whose probabilities alone need normalising.")
            model = SelfNormalised(model) if self_normalised else model
            language_model = cls(model, vocabulary, config["tokenizer"], config["boundary"])
        except (KeyError, IndexError, TypeError) as error:
            raise InputError(f"The files of {directory} do not fit together: {error}. Make the model again.") from error
        if (directory / "corpus" / "corpus.json").is_file():
            language_model.corpus = open_encoded(directory, len(vocabulary))
        return language_model

    def save(self, directory: str | os.PathLike) -> None:
        """Write a model directory that `load` and the command line take: for a model fitted or estimated in Python.

        Raises:
            InputError: the directory holds a model, or the model is of no kind that has files.
            RunError: the files cannot be written.
        """
        directory = Path(directory)
        if (directory / "config.json").exists():
            raise InputError(f"{directory} holds a model already: choose another directory, or remove it.")
        save_model(directory, self.model)
        self.vocabulary.save(directory / "vocabulary.txt")
        options = {"kind": kind_of(self.model), "tokenizer": self.tokenizer_name, "boundary": self.boundary}
        write_json(directory / "config.json", options)

    def evaluate(self, split: str = "test", ln_z: bool = False) -> dict:
        """The exact perplexity of a split of the corpus it was trained on; see `keras_nplm.models.evaluation.evaluate`.

        Args:
            split: `"train"`, `"validation"` or `"test"`.
            ln_z: add `ln_z`, how near to 0 a network keeps ln Z; see
            `keras_nplm.models.self_normalised.evaluate_with_ln_z`.

        Raises:
            InputError: the model directory has no encoded corpus, or no such split, or the model no ln Z.
        """
        if self.corpus is None:
            raise InputError("The model directory has no corpus/: name a text with --text.")
        return self._evaluate(self.corpus.ids(split), ln_z)

    def evaluate_text(self, lines: Sequence[str], ln_z: bool = False) -> dict:
        """The exact perplexity of a text, one sentence a line; otherwise as `evaluate`.

        Raises:
            InputError: the text holds no word, or a reserved token, or the model has no ln Z.
        """
        return self._evaluate(encode_sentences(filter(None, map(self.tokenize, lines)), self.vocabulary), ln_z)

    def _evaluate(self, ids: np.ndarray, ln_z: bool) -> dict:
        if isinstance(self.model, SelfNormalised):
            raise InputError("Self-normalised scores have no exact perplexity: load the model without them.")
        if ln_z and not isinstance(self.model, NPLM):
            raise InputError("The model is no network, whose probabilities alone need normalising: it has no ln Z.")
        return (evaluate_with_ln_z if ln_z else evaluate)(self.model, ids, self.boundary)

    def score(self, sentences: Sequence[str]) -> Iterator[SentenceScore]:
        """The log-probability of each sentence by itself; a sentence without words in a stream has 0 tokens and 0."""
        for start in range(0, len(sentences), _SENTENCES):
            scores = self.scores(sentences[start : start + _SENTENCES])
            columns = (scores.log_probs, scores.tokens, scores.unk_tokens)
            yield from itertools.starmap(SentenceScore, zip(*(column.tolist() for column in columns), strict=True))

    def scores(self, sentences: Sequence[str], floor: float = -np.inf) -> SentenceScores:
        """The same of all sentences at once, as arrays, and what the model was asked for; see `score_sentences`.

        Args:
            sentences: S texts.
            floor: what ln P of an n-gram is at least.
        """
        return score_sentences(self.model, self.vocabulary, self.tokenize, self.boundary, sentences, floor)

    def rescore(
        self, lists: Iterable[NBestList], weights: Mapping[str, float] | None = None, *, name: str = NAME
    ) -> Iterator[NBestList]:
        """N-best lists, ranked by features of their own and of this language model, the greatest sum first.

        A feature is added: NAME, ln P of the hypothesis (at least -228 a word); and those that have a weight of
        NAME_words, how many tokens were predicted, and NAME_unk, how many of these are unknown words. N-grams that
        hypotheses share are scored once; contexts that n-grams share are passed through a network once.

        Args:
            lists: of any number, as `NBestFile` reads them; some are scored at a time.
            weights: by the names of features. Default: 1 for `"score"`, or for each feature where there is no such one,
                and 1 for NAME. `keras_nplm.language_model.rescoring.tune` finds better ones.
            name: NAME.

        Raises:
            InputError: a hypothesis holds a reserved token, a feature has the name already, or a weight none.

        Example:

        >>> from keras_nplm import NPLM
        >>> language_model = LanguageModel(NPLM(6, order=2), Vocabulary(["the", "cat"]), "whitespace", "sentence")
        >>> [nbest.texts for nbest in language_model.rescore([NBestList("0", ["the cat the cat", "cat"])])]
        [['cat', 'the cat the cat']]
        """
        return ranked(with_scores(lists, functools.partial(self.scores, floor=FLOOR), name), weights, name)

    def next_words(self, context: str, top_k: int = 10) -> list[tuple[str, float]]:
        """The most probable words after a context, with P(w | context); `<unk>` is never proposed.

        Args:
            context: text; its last n-1 tokens count.
            top_k: how many at most, 1 or more.

        Raises:
            InputError: `top_k` is out of range, or the context holds a reserved token.
        """
        if top_k < 1:
            raise InputError(f"`top_k` must be 1 or more. Received: {top_k}.")
        log_probs = self.model.next_log_probs(self._context(self._ids(context))[None])[0, self.proposed_ids]
        best = np.argsort(-log_probs, kind="stable")[:top_k]
        return [(self.vocabulary.words[self.proposed_ids[i]], float(np.exp(log_probs[i]))) for i in best]

    def generate(
        self,
        prompt: str = "",
        num_words: int = 50,
        *,
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
    ) -> str:
        """Continue a prompt by drawing words from P(w | context).

        Args:
            prompt: the text to continue; may be empty.
            num_words: how many words to draw, 1 to 1,000,000; a drawn `</s>` ends a line and does not count.
            seed: the same seed gives the same text.
            temperature: P is taken to the power 1/temperature and renormalised; 0 takes the most probable word.
            top_k: draw from this many words only. Default: all.

        Returns:
            the drawn words, separated by spaces, or characters as they are; a sentence a line where the model knows
            sentences.

        Raises:
            InputError: an option is out of range, or the prompt holds a reserved token.
        """
        if not 1 <= num_words <= _MOST_WORDS:
            raise InputError(f"`num_words` must be 1 or more, at most {_MOST_WORDS}. Received: {num_words}.")
        if not 0 <= temperature < np.inf:
            raise InputError(f"`temperature` must be 0 or more. Received: {temperature}.")
        if top_k is not None and top_k < 1:
            raise InputError(f"`top_k` must be 1 or more. Received: {top_k}.")
        if seed < 0:
            raise InputError(f"`seed` must be 0 or more. Received: {seed}.")
        random = np.random.default_rng(seed)
        context, lines, drawn = self._context(self._ids(prompt)), [[]], 0
        while drawn < num_words:
            log_probs = self.model.next_log_probs(context[None])[0, self.proposed_ids].astype(np.float64)
            word = int(self.proposed_ids[_draw(log_probs, random, temperature, top_k)])
            if word == EOS_ID:
                context = self._context(np.zeros(0, np.int32))
                lines.append([])
                if len(lines) - drawn > num_words:  # nothing but empty sentences
                    break
                continue
            drawn += 1
            lines[-1].append(self.vocabulary.words[word])
            context = np.append(context[1:], word).astype(np.int32)
        return "\n".join(join_tokens(line, self.tokenizer_name) for line in lines)

    def nearest(self, word: str, top_k: int = 10, among: int | None = None) -> list[tuple[str, float]]:
        """The words whose feature vectors, rows of C, have the smallest angle to a word's, with the cosine.

        Special tokens are never among them, nor is the word itself; see
        `keras_nplm.language_model.word_vectors.nearest`.

        Args:
            word: a word of the vocabulary, or what is normalised to one.
            top_k: how many at most, 1 or more.
            among: find the so many most frequent words alone. Default: all.

        Raises:
            InputError: an option is out of range, the vocabulary lacks the word, or the model has no word vectors.
        """
        words, vectors = self.word_vectors()
        return _named(words, nearest(vectors, [self._row(word)], top_k, among))

    def analogy(self, a: str, b: str, c: str, top_k: int = 10, among: int | None = None) -> list[tuple[str, float]]:
        """The words that are to `c` as `b` is to `a`, by their feature vectors, with the cosine.

        None of the three is among them, nor a special token; see `keras_nplm.language_model.word_vectors.analogies`.

        Args:
            a, b, c: words of the vocabulary, or what is normalised to them.
            top_k: how many at most, 1 or more.
            among: find the so many most frequent words alone. Default: all.

        Raises:
            InputError: an option is out of range, the vocabulary lacks a word, or the model has no word vectors.
        """
        words, vectors = self.word_vectors()
        return _named(words, analogies(vectors, [[self._row(word) for word in (a, b, c)]], top_k, among))

    def word_vectors(self) -> tuple[list[str], np.ndarray]:
        """The words, special tokens left out, and their feature vectors, rows of C: float32 [N, m].

        Raises:
            InputError: the model has none.
        """
        if self.network is None:
            raise InputError("The model is no network: it has no word vectors. Train one with `train`.")
        return self.vocabulary.words[len(SPECIALS) :], self.network.embed.C.numpy()[len(SPECIALS) :]

    @property
    def network(self) -> NPLM | None:
        """The network, with a short-list or without, whose word vectors C are the model's; None of other models."""
        model = self.model.network if isinstance(self.model, Shortlist) else self.model
        return model if isinstance(model, NPLM) else None

    @property
    def proposed_ids(self) -> np.ndarray:
        """The ids that may be proposed as a next word, ascending without a gap."""
        first = EOS_ID if self.boundary == "sentence" else EOS_ID + 1
        return np.arange(first, len(self.vocabulary))

    def _row(self, word: str) -> int:
        """The row of a word among `word_vectors`."""
        words = self.vocabulary.words[len(SPECIALS) :]
        for written in (word, " ".join(self.tokenize(word))):
            if written in words:
                return words.index(written)
        raise InputError(f"The vocabulary has no word {word!r}: write it as the text does.")

    def _ids(self, text: str) -> np.ndarray:
        tokens = self.tokenize(text)
        check_reserved(tokens)
        return self.vocabulary.encode(tokens)

    def _context(self, ids: np.ndarray) -> np.ndarray:
        """The last n-1 ids, filled up at the front as the boundary has it."""
        start = np.full(self.model.order - 1, BOS_ID if self.boundary == "sentence" else PAD_ID, np.int32)
        return np.concatenate([start, ids])[-len(start) :]


def _named(words: list[str], found: tuple[np.ndarray, np.ndarray]) -> list[tuple[str, float]]:
    """The words of the one row of neighbours, each with its cosine."""
    return [(words[i], float(cosine)) for i, cosine in zip(found[0][0], found[1][0], strict=True)]


def _draw(log_probs: np.ndarray, random: np.random.Generator, temperature: float, top_k: int | None) -> int:
    """The place of a word drawn from a distribution."""
    if np.isneginf(log_probs).all():
        raise InputError("The model gives every word that may be proposed here probability 0: mix it with --uniform.")
    if temperature == 0:
        return int(np.argmax(log_probs))
    places = np.arange(len(log_probs))
    if top_k is not None and top_k < len(places):
        places = np.argpartition(-log_probs, top_k - 1)[:top_k]
    with np.errstate(over="ignore"):  # a temperature near 0: the others' weights are 0
        weights = np.exp((log_probs[places] - log_probs[places].max()) / temperature)
    return int(random.choice(places, p=weights / weights.sum()))
