"""Parts of a network by their names in the options: how much each costs, and how it is built.

A part is a class with `count…` (parameters and multiplications, without TensorFlow, for `size`) and
`build` (which imports its layer). To add a head, write its class here and name it in `HEADS` and in
the choices of `NetworkOptions.head`. The same holds for the others. A new layer takes three files:
its own, this one, and `options`. Then:

- the page of `layers` names its file, and the table of `keras_nplm` its class for users;
- `tests/every_network.py` has a network with it, and `tests/formulas.py` its formula in NumPy;
- `models.networks.array_file` reads it without Keras, so that commands start in a second; or the
  test of that file names it as left to Keras.
"""

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import SPECIALS
from keras_nplm.io.shapes import choose_cutoffs, cluster_width, count_matched, number_of_blocks
from keras_nplm.training.options import NetworkOptions, Options
from keras_nplm.training.run import Run

if TYPE_CHECKING:
    from keras import Layer

    from keras_nplm.layers.context import ContextEmbedding
    from keras_nplm.layers.heads.base import Head
    from keras_nplm.layers.hidden import DirectConnection
    from keras_nplm.layers.objectives.base import Objective
    from keras_nplm.layers.objectives.sampled import SampledObjective
    from keras_nplm.models.networks.context_network import ContextNetwork
    from keras_nplm.training.reading import OpenBatches, Reading


@dataclasses.dataclass(frozen=True)
class Cost:
    """Trained parameters, and multiplications for one n-gram: of its probability, and of its loss.

    Matrix products count one multiplication per weight; all else counts nothing.
    """

    parameters: int = 0
    scoring: float = 0
    training: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.parameters + other.parameters,
            self.scoring + other.scoring,
            self.training + other.training,
        )

    @classmethod
    def of_matrix(cls, weights: int) -> "Cost":
        """The cost of a matrix that every n-gram is multiplied with."""
        return cls(weights, weights, weights)


# Contexts: from the ids of the context words to x


class Concatenated:
    """The vectors of all context words, one after the other, as in the paper."""

    def width(self, options: NetworkOptions) -> int:
        """Return the number of components of x."""
        return (options.order - 1) * options.embedding_dim

    def count(self, options: NetworkOptions) -> Cost:
        """Count what the layer has beside C."""
        return Cost()

    def build(self, options: NetworkOptions, vocabulary_size: int) -> "ContextEmbedding":
        from keras_nplm.layers.context import ContextEmbedding

        return ContextEmbedding(vocabulary_size, **self.list_arguments(options))

    def list_arguments(self, options: NetworkOptions) -> dict[str, Any]:
        """Return the arguments that all context layers have."""
        return {
            "embedding_dim": options.embedding_dim,
            "word_dropout": options.word_dropout,
            "dropout": options.embedding_dropout,
            "trainable": not options.freeze_embedding,
            "name": "embed",
            "dtype": options.dtype,
        }


class Averaged(Concatenated):
    """Near words one after the other, far words averaged. A short context has no far words."""

    def width(self, options: NetworkOptions) -> int:
        return number_of_blocks(options.order, options.averages) * options.embedding_dim

    def build(self, options: NetworkOptions, vocabulary_size: int) -> "ContextEmbedding":
        from keras_nplm.layers.averaged_context import AveragedContext

        if not options.averages:
            return super().build(options, vocabulary_size)
        arguments = self.list_arguments(options)
        return AveragedContext(vocabulary_size, averages_after=options.averages, **arguments)


class Spelled(Concatenated):
    """Near characters one after the other, and the words that the context spells."""

    def width(self, options: NetworkOptions) -> int:
        blocks = options.spelled_words + 1 + options.near_characters
        return blocks * options.embedding_dim

    def count(self, options: NetworkOptions) -> Cost:
        return Cost((1 << options.spelling_bits) * options.embedding_dim)

    def build(self, options: NetworkOptions, vocabulary_size: int) -> "ContextEmbedding":
        from keras_nplm.layers.spelled_context import SpelledContext

        return SpelledContext(
            vocabulary_size,
            near_characters=options.near_characters,
            spelled_words=options.spelled_words,
            spelling_bits=options.spelling_bits,
            **self.list_arguments(options),
        )


CONTEXTS = {"concatenated": Concatenated(), "averaged": Averaged(), "spelled": Spelled()}


# Hidden layers: from x to the features a


class TanhLayer:
    """The hidden layer of the paper."""

    def width(self, options: NetworkOptions, x_width: int) -> int:
        """Return the number of features."""
        return options.hidden_units

    def count(self, options: NetworkOptions, x_width: int) -> Cost:
        biases = options.hidden_units
        return Cost.of_matrix(x_width * options.hidden_units) + Cost(biases)

    def build(self, options: NetworkOptions) -> "Layer | None":
        from keras_nplm.layers.hidden import TanhHidden

        return TanhHidden(
            options.hidden_units,
            dropout=options.dropout,
            name="hidden",
            dtype=options.dtype,
        )


class DeepLayer(TanhLayer):
    """Residual blocks, layer normalisation, a choice of activation."""

    def count(self, options: NetworkOptions, x_width: int) -> Cost:
        units = options.hidden_units
        layers = 1 + options.residual_blocks
        matrices = x_width * units + options.residual_blocks * units**2
        biases = layers * units
        scales_and_shifts = 2 * layers * units if options.layer_norm else 0
        return Cost.of_matrix(matrices) + Cost(biases + scales_and_shifts)

    def build(self, options: NetworkOptions) -> "Layer | None":
        from keras_nplm.layers.deep_hidden import DeepHidden

        return DeepHidden(
            options.hidden_units,
            activation=options.activation,
            residual_blocks=options.residual_blocks,
            layer_norm=options.layer_norm,
            dropout=options.dropout,
            name="hidden",
            dtype=options.dtype,
        )


class NoLayer(TanhLayer):
    """No hidden layer: direct connections alone, or a head that sees x and has one of its own."""

    def width(self, options: NetworkOptions, x_width: int) -> int:
        return x_width if HEADS[options.head].has_hidden_layer else 0

    def count(self, options: NetworkOptions, x_width: int) -> Cost:
        return Cost()

    def build(self, options: NetworkOptions) -> "Layer | None":
        from keras_nplm.layers.hidden import NoHidden

        if HEADS[options.head].has_hidden_layer:
            return None
        return NoHidden(name="hidden", dtype=options.dtype)


HIDDEN_LAYERS = {"none": NoLayer(), "tanh": TanhLayer(), "deep": DeepLayer()}


# Heads: from features to the scores of the words


class LinearOutput:
    """A row for each word; of low rank, tied to C, or of the words of a short-list."""

    has_hidden_layer = False

    def count_outputs(self, options: NetworkOptions, vocabulary_size: int) -> int:
        """Return the number of words that have a score."""
        if options.shortlist_size is None:
            return vocabulary_size
        return len(SPECIALS) + options.shortlist_size

    def count(self, options: NetworkOptions, vocabulary_size: int, width: int, scored: int) -> Cost:
        """Count a head on `width` features, of which a loss needs the scores of `scored` words."""
        outputs = self.count_outputs(options, vocabulary_size)
        projection = Cost()
        if options.tied_output:
            projection = Cost.of_matrix(width * options.embedding_dim)
            width = options.embedding_dim
        elif options.output_rank:
            projection = Cost.of_matrix(width * options.output_rank)
            width = options.output_rank
        biases = outputs
        rows = 0 if options.tied_output else outputs * width
        return projection + Cost(rows + biases, outputs * width, scored * width)

    def build(self, options: NetworkOptions, vocabulary_size: int) -> "Head":
        from keras_nplm.layers.heads.linear import LinearHead

        num_outputs = None
        if options.shortlist_size is not None:
            num_outputs = self.count_outputs(options, vocabulary_size)
        return LinearHead(
            vocabulary_size,
            rank=options.output_rank,
            tied=options.tied_output,
            num_outputs=num_outputs,
            name="prob",
            dtype=options.dtype,
        )


class AdaptiveOutput(LinearOutput):
    """Adaptive softmax. A cluster costs as often as a text of Zipf's law, P(r) ∝ 1/r, needs it."""

    def count(self, options: NetworkOptions, vocabulary_size: int, width: int, scored: int) -> Cost:
        ends = [*choose_cutoffs(vocabulary_size, options.cutoffs), vocabulary_size]
        clusters = len(ends) - 1
        root = (ends[0] + clusters) * width
        weights = root
        expected: float = root
        for cluster, (first, last) in enumerate(itertools.pairwise(ends), start=1):
            narrow = cluster_width(width, cluster)
            matrices = width * narrow + (last - first) * narrow
            weights += matrices
            expected += matrices * math.log(last / first) / math.log(vocabulary_size)
        biases = vocabulary_size + clusters
        return Cost(weights + biases, expected, expected)

    def build(self, options: NetworkOptions, vocabulary_size: int) -> "Head":
        from keras_nplm.layers.heads.adaptive import AdaptiveHead

        return AdaptiveHead(
            vocabulary_size,
            cutoffs=options.cutoffs or None,
            name="prob",
            dtype=options.dtype,
        )


class EnergyOutput(LinearOutput):
    """The energy-based variant of the paper: its hidden layer sees the context and a word."""

    has_hidden_layer = True

    def count(self, options: NetworkOptions, vocabulary_size: int, width: int, scored: int) -> Cost:
        units = options.hidden_units
        context = width * units
        vectors = options.embedding_dim * units
        d_and_v = 2 * units
        word = vectors + units
        return Cost(
            parameters=context + vectors + d_and_v + vocabulary_size,
            scoring=context + vocabulary_size * word,
            training=context + scored * word,
        )

    def build(self, options: NetworkOptions, vocabulary_size: int) -> "Head":
        from keras_nplm.layers.heads.energy import EnergyHead

        return EnergyHead(
            vocabulary_size,
            options.hidden_units,
            options.dropout,
            name="prob",
            dtype=options.dtype,
        )


HEADS = {"linear": LinearOutput(), "adaptive": AdaptiveOutput(), "energy": EnergyOutput()}


class DirectConnections:
    """W, beside a linear head."""

    def count(self, outputs: int, x_width: int, scored: int) -> Cost:
        return Cost(outputs * x_width, outputs * x_width, scored * x_width)

    def build(self, options: NetworkOptions, outputs: int) -> "DirectConnection":
        from keras_nplm.layers.hidden import DirectConnection

        return DirectConnection(outputs, name="direct", dtype=options.dtype)


# Objectives: what training minimises


class LikelihoodLoss:
    """The likelihood, with the scores of all words."""

    is_sampled = False
    is_self_normalising = False  # whether log Z stays near 0 without a penalty

    def count_scored(self, options: NetworkOptions, outputs: int) -> int:
        """Return of how many words a loss needs the scores."""
        return outputs

    def build(self, options: NetworkOptions, seed: int) -> "Objective":
        from keras_nplm.layers.objectives.likelihood import Likelihood

        return Likelihood(
            held_out_mass=options.held_out_mass,
            self_normalisation=options.self_normalisation,
            name="objective",
            dtype=options.dtype,
        )


class SampledLoss(LikelihoodLoss):
    """Sampled softmax: the scores of the target and of the negative samples of a batch."""

    is_sampled = True

    def count_scored(self, options: NetworkOptions, outputs: int) -> int:
        return 1 + options.num_sampled

    def choose_class(self) -> "type[SampledObjective]":
        from keras_nplm.layers.objectives.sampled import SampledSoftmax

        return SampledSoftmax

    def build(self, options: NetworkOptions, seed: int) -> "Objective":
        return self.choose_class()(
            options.num_sampled,
            options.proposal,
            held_out_mass=options.held_out_mass,
            self_normalisation=options.self_normalisation,
            seed=seed,
            name="objective",
            dtype=options.dtype,
        )


class NoiseContrastiveLoss(SampledLoss):
    """Noise-contrastive estimation."""

    is_self_normalising = True

    def choose_class(self) -> "type[SampledObjective]":
        from keras_nplm.layers.objectives.sampled import NoiseContrastive

        return NoiseContrastive


OBJECTIVES = {
    "likelihood": LikelihoodLoss(),
    "sampled": SampledLoss(),
    "nce": NoiseContrastiveLoss(),
}


# Networks: what the context says of the words beside the head


class ContextAlone:
    """Features and head alone."""

    # of the rows of a sparse gradient in SGD, as a word that fills the context moves its row too
    # far
    row_clipnorm: float | None = None

    def count(self, options: NetworkOptions, width: int) -> Cost:
        """Count what the network adds to the parts above, for features of this width."""
        return Cost()

    def check_text(self, encoded: EncodedCorpus, boundary: str) -> None:
        """Refuse a training text that this kind of network cannot learn from."""

    def read_texts(self, run: Run) -> "Reading":
        """Open the texts of a run in the form that the network reads."""
        from keras_nplm.training.reading import read_contexts

        return read_contexts(run)

    def open_sample(self, options: Options, ids: np.ndarray, vocabulary_size: int) -> "OpenBatches":
        """Return the method that opens a sample of a training text in this form, to time it."""
        from keras_nplm.training.reading import open_sample

        return open_sample(options, ids)

    def choose_class(self) -> "type[ContextNetwork]":
        from keras_nplm.models.networks.context_network import ContextNetwork

        return ContextNetwork


class WithPointer(ContextAlone):
    """A pointer to the words of the context."""

    row_clipnorm = 0.25

    def count(self, options: NetworkOptions, width: int) -> Cost:
        positions = options.order - 1
        queries = Cost.of_matrix(2 * width * options.embedding_dim)
        biases = options.embedding_dim + positions + count_matched(positions)
        # products of the queries and the vectors of the context's words
        products = 2 * options.embedding_dim * positions
        return queries + Cost(biases, products, products)

    def choose_class(self) -> "type[ContextNetwork]":
        from keras_nplm.models.networks.pointer_network import PointerNetwork

        return PointerNetwork


class WithNgramModel(ContextAlone):
    """An n-gram model inside, with the gain g + v · a."""

    def count(self, options: NetworkOptions, width: int) -> Cost:
        return Cost(1 + width)

    def check_text(self, encoded: EncodedCorpus, boundary: str) -> None:
        from keras_nplm.models.jackknife import list_training_texts

        list_training_texts(encoded.for_training(), boundary)

    def read_texts(self, run: Run) -> "Reading":
        from keras_nplm.training.reading import read_with_ngram_model

        return read_with_ngram_model(run)

    def open_sample(self, options: Options, ids: np.ndarray, vocabulary_size: int) -> "OpenBatches":
        from keras_nplm.training.reading import open_sample_with_ngram_model

        return open_sample_with_ngram_model(options, ids, vocabulary_size)

    def choose_class(self) -> "type[ContextNetwork]":
        from keras_nplm.models.networks.hybrid_network import HybridNetwork

        return HybridNetwork


NETWORKS = {"context": ContextAlone(), "pointer": WithPointer(), "hybrid": WithNgramModel()}


# The whole network


def count_network(options: NetworkOptions, vocabulary_size: int) -> Cost:
    """Count the parameters and multiplications of a network."""
    head = HEADS[options.head]
    hidden = HIDDEN_LAYERS[options.hidden]
    x_width = CONTEXTS[options.context].width(options)
    width = hidden.width(options, x_width)
    outputs = head.count_outputs(options, vocabulary_size)
    scored = OBJECTIVES[options.objective].count_scored(options, outputs)
    cost = Cost(0 if options.freeze_embedding else vocabulary_size * options.embedding_dim)
    cost += CONTEXTS[options.context].count(options)
    cost += hidden.count(options, x_width)
    cost += head.count(options, vocabulary_size, width, scored)
    cost += NETWORKS[options.network].count(options, width)
    if options.direct_connections:
        cost += DirectConnections().count(outputs, x_width, scored)
    return cost


def build_network(
    options: NetworkOptions, vocabulary_size: int, *, boundary: str, seed: int
) -> "ContextNetwork":
    """Build a network. `seed` is that of its negative samples."""
    head = HEADS[options.head].build(options, vocabulary_size)
    direct = None
    if options.direct_connections:
        direct = DirectConnections().build(options, head.num_outputs)
    return NETWORKS[options.network].choose_class()(
        order=options.order,
        embed=CONTEXTS[options.context].build(options, vocabulary_size),
        hidden=HIDDEN_LAYERS[options.hidden].build(options),
        direct=direct,
        head=head,
        objective=OBJECTIVES[options.objective].build(options, seed),
        boundary=boundary,
        name="NPLM",
    )
