"""LanguageModel: a trained model with its vocabulary and tokenizer; text in, probabilities and
words out.
"""

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_nplm.data.arguments import check_lines, check_text
from keras_nplm.data.boundary import has_documents
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import write_json
from keras_nplm.io.paths import find_lock
from keras_nplm.io.remote import fetch, open_output
from keras_nplm.io.stages import (
    MODEL,
    Stages,
    lock_new_directory,
    replace_saved_model,
    verify_stages,
)
from keras_nplm.language_model import completion, word_vectors
from keras_nplm.language_model.adaptation import adapt_to_text
from keras_nplm.language_model.codec import TextCodec, check_order
from keras_nplm.language_model.directory import is_of_corpus, read_description
from keras_nplm.language_model.dynamics import (
    load_dynamics,
    make_collector,
    save_dynamics,
)
from keras_nplm.language_model.evaluation import evaluate_text
from keras_nplm.language_model.generation import generate_text
from keras_nplm.language_model.options import AdaptationOptions
from keras_nplm.language_model.presets import find_preset
from keras_nplm.language_model.scorer import Scorer, convert_to_arrays, self_normalise
from keras_nplm.language_model.scoring import LineScorer, SentenceScore, TokenScore
from keras_nplm.models.base import (
    NextWordModel,
    check_vocabulary_size,
    choose_boundary,
    find_network,
)
from keras_nplm.models.collectors import Collector
from keras_nplm.models.dynamic import (
    DynamicSettings,
    TunedDynamics,
    digest_weights,
    make_dynamic,
    tune_dynamic,
)
from keras_nplm.models.dynamic.tuning import MeanSquares, check_learns
from keras_nplm.models.keras_model import wrap_keras_model
from keras_nplm.models.model_files import check_savable, get_kind, load_model, save_model
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel, load_spelling

if TYPE_CHECKING:
    import keras

    from keras_nplm.models.adaptation import Adaptation
    from keras_nplm.models.networks.context_network import ContextNetwork


class LanguageModel:
    """A language model with its vocabulary and tokenizer: score, complete and generate text.

    Args:
        model: an NPLM, an n-gram model, a `Mixture`, a `Shortlist`, or any `NextWordModel`; or a
            plain `keras.Model` from ids to probabilities, which becomes a `KerasModel`.
        vocabulary: the words of the model.
        tokenizer: a `Tokenizer`, or its name with its normalisation, such as `"words"`,
            `"whitespace"` or `"words+lower"`; see
            `keras_nplm.data.tokenizers.registry.get_tokenizer`. With `+lemmas`, a vocabulary
            without word forms receives the forms of the dictionary.
        boundary: `"sentence"`: a sentence begins after `<s>`, and its words and `</s>` are
            predicted. `"text"`: words and `</s>` are predicted, and contexts cross sentence ends up
            to a blank line. `"stream"`: the text is one stream of words without sentence ends.
            Default: the model's boundary, else `"sentence"`.
        spelling: the spelling model of out-of-vocabulary words, for bits per character.

    Example:

    >>> from keras_nplm import encode_sentences, kneser_ney
    >>> vocabulary = Vocabulary(["the", "cat", "sat"])
    >>> ids = encode_sentences([["the", "cat", "sat"], ["the", "cat"]], vocabulary)
    >>> model = kneser_ney(ids, len(vocabulary), order=3, boundary="sentence")
    >>> language_model = LanguageModel(model, vocabulary, "words")
    >>> language_model
    LanguageModel(BackoffModel, order=3, |V|=7, tokenizer='words', boundary='sentence')
    >>> [word for word, probability in language_model.next_words("the", top_k=2)]
    ['cat', '</s>']
    """

    def __init__(
        self,
        model: "NextWordModel | keras.Model",
        vocabulary: Vocabulary,
        tokenizer: str | Tokenizer,
        boundary: str | None = None,
        spelling: SpellingModel | None = None,
    ):
        model = wrap_keras_model(model, boundary)
        codec = TextCodec(vocabulary, tokenizer, choose_boundary(model, boundary), spelling)
        self._join(model, codec)

    @classmethod
    def of(cls, model: NextWordModel, codec: TextCodec) -> "LanguageModel":
        """Return the language model of a model and the codec of its text."""
        language_model = cls.__new__(cls)
        language_model._join(model, codec)
        return language_model

    def _join(self, model: NextWordModel, codec: TextCodec) -> None:
        choose_boundary(model, codec.boundary)  # refuses a different one
        check_vocabulary_size(model, len(codec.vocabulary))
        check_order(model.order, codec.tokenizer)
        self.model = model
        self.codec = codec
        self.adaptation: Adaptation | None = None
        self._dynamics: TunedDynamics | None = None
        # the model directory whose corpus is read when it is first used
        self._directory: Path | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of the model."""
        return self.codec.vocabulary

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, with the vocabulary's subwords or word forms where it has such."""
        return self.codec.tokenizer

    @property
    def boundary(self) -> str:
        """`"sentence"`, `"text"` or `"stream"`: what is predicted, and what a context sees."""
        return self.codec.boundary

    @property
    def spelling(self) -> SpellingModel | None:
        """The spelling model of out-of-vocabulary words, for bits per character.

        None: the model has none.
        """
        return self.codec.spelling

    def tokenize(self, line: str) -> list[str]:
        """Split a line into the tokens of the model."""
        return self.tokenizer.split(line)

    def __repr__(self) -> str:
        return (
            f"LanguageModel({type(self.model).__name__}, order={self.model.order}, "
            f"|V|={len(self.vocabulary)}, tokenizer={self.tokenizer.name!r}, "
            f"boundary={self.boundary!r})"
        )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        self_normalised: bool = False,
        *,
        as_arrays: bool = False,
        arpa_tokenizer: str | None = None,
    ) -> "LanguageModel":
        """Load a model directory, as `save` and the commands `train`, `ngram` and `mix` write it,
        or an ARPA file.

        A path of `gs://` or `s3://` is downloaded to a cache. `corpus` is read from the directory
        when it is first used. An ARPA file has none. Words that it does not list are `<unk>`, which
        its words spell.

        Args:
            path: the directory or the file.
            self_normalised: take the logits of an NPLM as log-probabilities, without computing log
                Z, which is faster; see `keras_nplm.models.networks.self_normalised.SelfNormalised`.
            as_arrays: read networks into NumPy without Keras, where they have such a form, which
                starts in a second: for scores, completion and generation, not for training,
                `network`, word vectors or export.
            arpa_tokenizer: the tokenizer of an ARPA file. Default: white space.

        Raises:
            InputError: the path is neither, or incomplete, or a file is not as it was made.
        """
        found = fetch(path)
        if not found.is_dir():
            from keras_nplm.language_model.arpa_models import check_arpa_file, read_arpa_model

            check_arpa_file(path)
            language_model = cls.of(*read_arpa_model(found, tokenizer=arpa_tokenizer))
        else:
            config, vocabulary = read_description(found)
            boundary = config["boundary"]
            reads_arrays = as_arrays or self_normalised
            model = load_model(
                found, config["kind"], boundary, len(vocabulary), as_arrays=reads_arrays
            )
            codec = TextCodec(
                vocabulary,
                config["tokenizer"],
                boundary,
                load_spelling(found),
                config.get("vocabulary_scope"),
            )
            language_model = cls.of(model, codec)
            language_model._directory = found.absolute()
            if not reads_arrays:
                language_model._dynamics = load_dynamics(found, model)
        if self_normalised:
            language_model.model = self_normalise(language_model.model)
        return language_model

    @classmethod
    def from_preset(cls, name: str) -> "LanguageModel":
        """Load a trained model of the package: `"starter"` is what `keras-nplm train` makes of the
        embedded text, with 1,808 words.

        >>> LanguageModel.from_preset("starter").next_words("The value of", top_k=1)[0][0]
        'the'
        """
        return cls.load(find_preset(name))

    def save(self, directory: str | os.PathLike, *, overwrite: bool = False) -> None:
        """Save a model directory, local or `gs://` or `s3://`, which `load` and all commands read.

        `overwrite` replaces a model that `save` wrote, but no directory with the text or figures of
        a command, such as `train` or `mix`.

        Raises:
            InputError: the directory holds a model or other files, or models of this class cannot
                be saved.
        """
        check_savable(self.model)
        with open_output(directory) as directory:
            path = os.path.abspath(directory)
            if find_lock(path) == path:  # of a command, which writes files, too
                self._write_files(directory)
                return
            replaced = replace_saved_model if overwrite else contextlib.nullcontext
            with replaced(directory) as free, lock_new_directory(free, "directory"):
                self._write_files(free)

    def _write_files(self, directory: Path) -> None:
        """Write all files, and record them with those that a command has written."""
        dynamics = self.dynamics
        save_model(directory, self.model)
        self.vocabulary.save(directory / "vocabulary.txt")
        if self.spelling is not None:
            self.spelling.save(directory / SPELLING_FILE)
        if dynamics is not None:
            save_dynamics(directory, dynamics)
        config = {
            "kind": get_kind(self.model),
            "tokenizer": self.tokenizer.name,
            "boundary": self.boundary,
        }
        if self.codec.vocabulary_scope is not None:
            config["vocabulary_scope"] = self.codec.vocabulary_scope
        write_json(directory / "config.json", config)
        Stages(directory).record(MODEL, config, ["[!.]*"])

    @functools.cached_property
    def corpus(self) -> EncodedCorpus | None:
        """The encoded training corpus. None: the model was not trained from one."""
        if self._directory is None or not (self._directory / "corpus").is_dir():
            return None
        verify_stages(self._directory, is_wanted=is_of_corpus)
        return EncodedCorpus.load(self._directory / "corpus")

    @property
    def dynamics(self) -> TunedDynamics | None:
        """The settings of dynamic evaluation.

        None: they were not tuned, or the weights have changed since.
        """
        tuned = self._dynamics
        return tuned if tuned is not None and tuned.weights == digest_weights(self.model) else None

    @dynamics.setter
    def dynamics(self, tuned: TunedDynamics | None) -> None:
        self._dynamics = tuned and tuned.assign_to(self.model)

    def replace_model(self, model: NextWordModel) -> "LanguageModel":
        """Return a language model of the same text with a different model."""
        return type(self).of(model, self.codec)

    def evaluate(
        self,
        text: str | Iterable[str] | np.ndarray = "test",
        collectors: Sequence[Collector] = (),
        dynamic: bool | DynamicSettings = False,
    ) -> dict:
        """Return the exact perplexity of a text, its bits per character, bits per byte and
        perplexity per word.

        Out-of-vocabulary words are spelled by `spelling`. Token ids have perplexity alone.

        Args:
            text: lines of text, one sentence each; or token ids, int [T], each sentence closed by
                `</s>`; or a split of the training corpus: `"train"`, `"validation"` or `"test"`.
                Lines are read once and in bounded memory, so an iterator over a large file will do.
            collectors: what else is measured, such as `Accuracy()`; see
                `keras_nplm.models.evaluation.evaluate`.
            dynamic: also report the figures of dynamic evaluation: a copy of the model learns from
                the words that it has predicted. True: with the settings of `tune_dynamic`.
                Settings of one's own: steps in units of the gradient in training if the model is
                tuned, else plain SGD. See `keras_nplm.models.dynamic`.

        Returns:
            `perplexity`, `perplexity_without_unk`, `tokens`, `unk_tokens`, `log_prob` (nats),
            `bits_per_word` (bits per token), `bits_per_character`, `bits_per_byte` (UTF-8),
            `perplexity_per_word`, `characters`, `bytes`, `words`, `spelling_log_prob` (nats).
            `dynamic`, on request: the same figures, and `settings`.
        """
        measured = list(collectors)
        if dynamic:
            measured.append(make_collector(self.model, *self._choose_dynamics(dynamic)))
        corpus = self.corpus if isinstance(text, str) else None
        return evaluate_text(self.model, self.codec, text, corpus, measured)

    def _choose_dynamics(
        self, dynamic: bool | DynamicSettings
    ) -> tuple[DynamicSettings, MeanSquares]:
        """Return the settings of a copy that learns as it reads, those given or tuned ones, and the
        mean squares of gradients in training, if it is tuned.
        """
        if isinstance(dynamic, DynamicSettings):
            return dynamic, self.dynamics.mean_squares if self.dynamics else ()
        tuned = self.dynamics or self.tune_dynamic()
        return tuned.settings, tuned.mean_squares

    def tune_dynamic(self) -> TunedDynamics:
        """Tune dynamic evaluation, `dynamics`, on the validation split, for `evaluate`, `score` and
        `save`.
        """
        check_learns(self.model)
        if self.corpus is None or "validation" not in self.corpus.splits:
            received = "without corpus/" if self.corpus is None else "without validation text"
            raise InputError(
                "Dynamic evaluation must be tuned on a validation split. Received: a model "
                f"{received}. Fix: pass `DynamicSettings`, or use a directory that `train` wrote "
                "from text with a validation split."
            )
        splits = self.corpus.ids("train"), self.corpus.ids("validation")
        self.dynamics = tune_dynamic(self.model, *splits, self.boundary)
        return self.dynamics

    def adapt(
        self,
        text: Iterable[str],
        *,
        held_out: float = AdaptationOptions.held_out,
        epochs: int = AdaptationOptions.epochs,
        seed: int = AdaptationOptions.seed,
    ) -> "LanguageModel":
        """Adapt to a text (fine-tuning): return a personal or in-domain model made from this
        general model.

        A copy of the network is trained further on lines of text, in seconds, and averaged with the
        trained weights. The last lines, a share `held_out` in [0.01, 1), are held out for early
        stopping and for the choice of the learning rate; there are at most `epochs` for each rate.
        The vocabulary stays the same: `keras_nplm.add_words` adds out-of-vocabulary words first.
        `adaptation` of the result tells the rate and the held-out perplexity before and after; its
        `corpus` and `dynamics` are None.
        """
        options = AdaptationOptions(held_out=held_out, epochs=epochs, seed=seed)
        model, adaptation = adapt_to_text(self.model, self.codec, text, options)
        adapted = self.replace_model(model)
        adapted.adaptation = adaptation
        return adapted

    def score(
        self,
        sentences: Iterable[str],
        *,
        min_log_prob: float = -np.inf,
        dynamic: bool | DynamicSettings = False,
        alone: bool = False,
    ) -> Iterator[SentenceScore]:
        """Iterate over the log-probabilities of sentences; see `SentenceScore`.

        A line end at the end of a sentence is no part of it. Elsewhere it is white space, or a
        character of subwords. A blank sentence has 0 tokens and the log-probability 0, as
        `evaluate` and training skip blank lines.

        `min_log_prob` is a lower bound of ln P of one n-gram. `dynamic`: a copy of the model learns
        after each chunk of tokens and at the end of each sentence, before it scores the next. See
        `evaluate`, whose chunks cross sentences. With the boundary `"text"` the sentences are one
        text, and a blank one ends a document. With `"stream"` each sentence begins without context,
        unlike in `evaluate`. With `alone` each is a text of its own, such as a hypothesis of an
        N-best list. Then a blank one has ln P(</s>), too: the hypothesis that nothing was said.
        """
        lines = check_lines(sentences, "sentences")
        return self._open_scorer(dynamic, alone, min_log_prob).score_sentences(lines)

    def score_tokens(
        self, sentences: Iterable[str], *, dynamic: bool | DynamicSettings = False
    ) -> Iterator[list[TokenScore]]:
        """Iterate over the scores of the tokens of each sentence: ln P, the order of the n-gram,
        and unknown words.

        >>> from keras_nplm import LanguageModel
        >>> [scores] = LanguageModel.from_preset("starter").score_tokens(["The valuable"])
        >>> [(score.token, score.order, score.is_unknown) for score in scores]
        [('The', 2, False), ('valuable', 3, True), ('</s>', 1, False)]
        """
        return self._open_scorer(dynamic).score_tokens(check_lines(sentences, "sentences"))

    def _open_scorer(
        self,
        dynamic: bool | DynamicSettings,
        alone: bool = False,
        min_log_prob: float = -np.inf,
    ) -> LineScorer:
        """Return the scorer of lines, of a copy that learns if `dynamic`."""
        model = self.model
        if dynamic:
            model = make_dynamic(model, *self._choose_dynamics(dynamic))
        return LineScorer(
            Scorer(model, self.codec),
            min_log_prob=min_log_prob,
            learns=bool(dynamic),
            is_one_text=has_documents(self.boundary) and not alone,
            scores_blank=alone,
        )

    def scorer(self) -> Scorer:
        """Return a scorer for decoders: log-probabilities a few words at a time; see `Scorer`.

        Networks are copied to NumPy, so that one word costs microseconds; the copy does not see
        later changes of the weights. Adaptive, short-list and hybrid outputs run compiled graphs.
        Self-normalised scores are those of a model that was loaded so; see `load`. Dynamic
        evaluation is off.
        """
        return Scorer(convert_to_arrays(self.model), self.codec)

    def next_words(self, context: str, top_k: int = 10) -> list[tuple[str, float]]:
        """Return the most probable next words with P(w | context); `<unk>` is left out.

        The last n-1 tokens of the context count. A model of subwords returns whole words. White
        space at the end of the context begins a new word: after `"of "` a model of characters
        returns the first letters of words.
        """
        check_text(context, "context")
        return completion.find_next_words(self.model, self.codec, context, top_k)

    def complete_prefix(self, text: str, top_k: int = 10) -> list[tuple[str, float]]:
        """Complete the last, unfinished word of a text: autocompletion, as keyboards and search
        boxes show it.

        The words before the unfinished word, such as `"val"` in `"The val"`, are the context. After
        white space every word fits. If no word begins with the unfinished word, words in a
        different case of letters are proposed, in the case that was typed: `"HOU"` gives `"HOUSE"`.
        The words have P(w | context), in descending order, normalised over the whole vocabulary:
        divide by their sum over all words with the prefix for P(w | context, prefix). Special
        tokens are left out.
        """
        check_text(text, "text")
        return completion.complete_prefix(self.model, self.codec, text, top_k)

    def generate(
        self,
        prompt: str = "",
        num_words: int = 50,
        *,
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
    ) -> str:
        """Generate text: continue a prompt with words sampled from P(w | context).

        Args:
            prompt: the text to continue; may be empty. After white space at its end a new word
                begins.
            num_words: number of words, or of the characters of a character model.
            seed: random seed, 0 or more.
            temperature: P is raised to the power 1/temperature and normalised; 0 takes the most
                probable word.
            top_k: sample from this many most probable words, characters or subwords. Default: all.

        Returns:
            the text after the prompt: words separated by spaces, or the text of characters or
            subwords, which may begin within a word or with a space. Each sentence is a line.
        """
        check_text(prompt, "prompt")
        return generate_text(
            self.model,
            self.codec,
            prompt,
            num_words,
            seed=seed,
            temperature=temperature,
            top_k=top_k,
        )

    def nearest(
        self, word: str, top_k: int = 10, among: int | None = None
    ) -> list[tuple[str, float]]:
        """Return the nearest neighbours of a word with the cosine similarity of the word vectors
        (rows of C).

        `among`: search only this many most frequent words. The word itself and special tokens are
            left out.
        """
        return word_vectors.find_neighbours(self.model, self.codec, [word], top_k, among)

    def analogy(
        self, a: str, b: str, c: str, top_k: int = 10, among: int | None = None
    ) -> list[tuple[str, float]]:
        """Solve a word analogy, "a is to b as c is to …", by the word vectors; options as
        `nearest`.
        """
        return word_vectors.find_neighbours(self.model, self.codec, [a, b, c], top_k, among)

    def word_vectors(self) -> tuple[list[str], np.ndarray]:
        """Return the words without special tokens, and their word vectors: rows of C, float32 [N,
        m].
        """
        return word_vectors.list_word_vectors(self.model, self.codec)

    @property
    def network(self) -> "ContextNetwork | None":
        """The NPLM, or the only NPLM in a `Shortlist`, `Hybrid` or `Mixture`; None for other
        models.
        """
        return find_network(self.model)
