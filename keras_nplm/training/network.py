"""A network and its parts: each is a dataclass of its options, with its cost and its layer.

To add a context layer, a hidden layer, a head, an objective or a kind of network:

1. Write its Keras layer in a file of `keras_nplm.layers`, all of which Keras finds; see there.
2. Write its part here, below the others of its choice. `class Decayed(Context, kind="decayed")`
   registers it. Its fields are its options: type and range are annotations, the docstring below a
   field is its help, see `io.fields`. An `advanced` one is told by `--set`. The first sentence of
   the class is the help of its kind. `build` imports the layer and makes it of all fields, those
   of a base class, too; `width` and `count` say what it costs, `fits` says what it cannot stand
   beside.
3. Name the file of the layer on the page of its room, which `tests/test_rooms.py` reads.

That is all: `train --set context=decayed`, files, `size`, the help and errors follow. A name of the
class in `keras_nplm` is optional, for users who build networks in Python. Layer and part may also
stand in a file of your own that is imported before `keras_nplm.cli.main` is:
`tests/training/own_parts.py` has a context layer, a head and an objective. Tests of the package: a
network with the layer in `tests/every_network.py`, and its formula in `tests/formulas.py`.
"""

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from keras_nplm.io.errors import check_argument
from keras_nplm.io.fields import Option, check_values
from keras_nplm.io.parts import Part, check_parts
from keras_nplm.io.shapes import choose_cutoffs, cluster_width, count_matched, number_of_blocks

if TYPE_CHECKING:
    from keras import Layer

    from keras_nplm.layers.context import ContextEmbedding
    from keras_nplm.layers.heads.base import Head as HeadLayer
    from keras_nplm.layers.hidden import DirectConnection
    from keras_nplm.layers.objectives.base import Objective as ObjectiveLayer
    from keras_nplm.layers.objectives.sampled import SampledObjective
    from keras_nplm.models.networks.context_network import ContextNetwork


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context(Part, choice="context"):
    """How the vectors of the context words become x."""

    def width(self, network: "Network") -> int:
        """Return the number of components of x."""
        raise NotImplementedError

    def count(self, network: "Network") -> Cost:
        """Count what the layer has beside C."""
        return Cost()

    def build(self, network: "Network", vocabulary_size: int) -> "ContextEmbedding":
        """Make the layer, with the arguments `network.embedding` beside its own."""
        raise NotImplementedError

    def count_concatenated(self, order: int) -> int:
        """Return the number of words that are concatenated, not averaged."""
        return order - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Concatenated(Context, kind="concatenated"):
    """All words concatenated, as in the paper."""

    def width(self, network: "Network") -> int:
        return (network.order - 1) * network.embedding_dim

    def build(self, network: "Network", vocabulary_size: int) -> "ContextEmbedding":
        from keras_nplm.layers.context import ContextEmbedding

        return ContextEmbedding(vocabulary_size, **network.embedding)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Averaged(Context, kind="averaged"):
    """Near words concatenated, far words averaged. A short context has no far words."""

    averages_after: Annotated[tuple[int, ...], Option(advanced=True)] = (4,)
    """distances after which context words are averaged; 4,20: words 5 to 20 back, and from 21 on"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_argument(
            "averages_after",
            self.averages_after != (),
            "one distance or more with `context` averaged",
            self.averages_after,
            "choose `context` concatenated.",
        )

    def list_averages(self, order: int) -> tuple[int, ...]:
        """List the distances within a context of n-1 words."""
        return tuple(distance for distance in self.averages_after if distance < order - 1)

    def count_concatenated(self, order: int) -> int:
        return min([*self.averages_after, order - 1])

    def width(self, network: "Network") -> int:
        blocks = number_of_blocks(network.order, self.list_averages(network.order))
        return blocks * network.embedding_dim

    def build(self, network: "Network", vocabulary_size: int) -> "ContextEmbedding":
        from keras_nplm.layers.averaged_context import AveragedContext
        from keras_nplm.layers.context import ContextEmbedding

        averages = self.list_averages(network.order)
        if not averages:
            return ContextEmbedding(vocabulary_size, **network.embedding)
        return AveragedContext(vocabulary_size, averages_after=averages, **network.embedding)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spelled(Context, kind="spelled"):
    """Characters concatenated, with the words that they spell."""

    near_characters: Annotated[int, Option(least=1, advanced=True)] = 11
    """characters that are concatenated"""

    spelled_words: Annotated[int, Option(least=0, advanced=True)] = 6
    """previous words that have a vector"""

    spelling_bits: Annotated[int, Option(least=1, below=31, advanced=True)] = 17
    """b: 2^b vectors, which all words share by a hash"""

    def fits(self, whole: "Network") -> str:
        if self.near_characters >= whole.order:
            wanted = f"below `order`, {whole.order}"
            return self.need("near_characters", self.near_characters, wanted)
        return self.need("network", whole.network.kind, WithNgramModel.kind) or self.need(
            "freeze_embedding", whole.freeze_embedding, False
        )

    def width(self, network: "Network") -> int:
        return (self.spelled_words + 1 + self.near_characters) * network.embedding_dim

    def count(self, network: "Network") -> Cost:
        return Cost((1 << self.spelling_bits) * network.embedding_dim)

    def build(self, network: "Network", vocabulary_size: int) -> "ContextEmbedding":
        from keras_nplm.layers.spelled_context import SpelledContext

        own = dataclasses.asdict(self)
        return SpelledContext(vocabulary_size, **own, **network.embedding)


# Hidden layers: from x to the features a


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hidden(Part, choice="hidden"):
    """The layer between x and the head."""

    def width(self, network: "Network", x_width: int) -> int:
        """Return the number of features."""
        raise NotImplementedError

    def count(self, x_width: int) -> Cost:
        """Count the layer on an x of this width."""
        return Cost()

    def build(self, network: "Network") -> "Layer | None":
        """Make the layer."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoLayer(Hidden, kind="none"):
    """Direct connections alone. A head that sees x may have a hidden layer of its own."""

    def fits(self, whole: "Network") -> str:
        if whole.head.has_hidden_layer:
            return ""
        return self.need("direct_connections", whole.head.direct_connections, True)

    def width(self, network: "Network", x_width: int) -> int:
        return x_width if network.head.has_hidden_layer else 0

    def build(self, network: "Network") -> "Layer | None":
        from keras_nplm.layers.hidden import NoHidden

        if network.head.has_hidden_layer:
            return None
        return NoHidden(name="hidden", dtype=network.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tanh(Hidden, kind="tanh"):
    """The paper's layer."""

    hidden_units: Annotated[int, Option(least=1)] = 100
    """h, hidden units"""

    dropout: Annotated[float, Option(least=0, below=1)] = 0.4
    """dropout rate of the hidden units"""

    def width(self, network: "Network", x_width: int) -> int:
        return self.hidden_units

    def count(self, x_width: int) -> Cost:
        biases = self.hidden_units
        return Cost.of_matrix(x_width * self.hidden_units) + Cost(biases)

    def build(self, network: "Network") -> "Layer | None":
        from keras_nplm.layers.hidden import TanhHidden

        return TanhHidden(**dataclasses.asdict(self), name="hidden", dtype=network.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deep(Tanh, kind="deep"):
    """Residual blocks. They have layer normalisation and a choice of activation."""

    activation: Annotated[Literal["tanh", "relu", "gelu", "silu"], Option(advanced=True)] = "gelu"
    """activation"""

    residual_blocks: Annotated[int, Option(least=0, below=1024, advanced=True)] = 1
    """further hidden layers, each with a residual connection"""

    layer_norm: Annotated[bool, Option(advanced=True)] = True
    """layer normalisation before each residual block and at the end"""

    def count(self, x_width: int) -> Cost:
        units = self.hidden_units
        layers = 1 + self.residual_blocks
        matrices = x_width * units + self.residual_blocks * units**2
        biases = layers * units
        scales_and_shifts = 2 * layers * units if self.layer_norm else 0
        return Cost.of_matrix(matrices) + Cost(biases + scales_and_shifts)

    def build(self, network: "Network") -> "Layer | None":
        from keras_nplm.layers.deep_hidden import DeepHidden

        return DeepHidden(**dataclasses.asdict(self), name="hidden", dtype=network.dtype)


# Heads: from features to the scores of the words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head(Part, choice="head"):
    """How features become the scores of the words.

    Attributes:
        has_hidden_layer: whether the head sees x, and has a hidden layer of its own.
        direct_connections, tied_output, shortlist_size: see `Linear`, which has them as options.
    """

    has_hidden_layer: ClassVar[bool] = False
    direct_connections = False
    tied_output = False
    shortlist_size = cast("int | None", None)

    def count_outputs(self, vocabulary_size: int) -> int:
        """Return the number of words that have a score."""
        return vocabulary_size

    def count(
        self, network: "Network", vocabulary_size: int, x_width: int, width: int, scored: int
    ) -> Cost:
        """Count a head on `width` features, of which a loss needs the scores of `scored` words."""
        raise NotImplementedError

    def build(self, network: "Network", vocabulary_size: int) -> "HeadLayer":
        """Make the layer."""
        raise NotImplementedError

    def build_direct(self, network: "Network", vocabulary_size: int) -> "DirectConnection | None":
        """Make W."""
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Linear(Head, kind="linear"):
    """A row for each word. It may be of low rank, tied to C, or of the words of a short-list."""

    direct_connections: bool = False
    """direct connections W"""

    output_rank: Annotated[int | None, Option(least=1, example=50, advanced=True)] = None
    """r, rank of the matrix: features are projected to r numbers"""

    tied_output: Annotated[bool, Option(advanced=True)] = False
    """tied weights: C is also the matrix, on features projected to m numbers"""

    shortlist_size: Annotated[int | None, Option(least=1, example=2000, advanced=True)] = None
    """s, short-list: the network predicts the s most frequent words, an n-gram model the others"""

    def fits(self, whole: "Network") -> str:
        rank, size = self.output_rank, self.shortlist_size
        if self.tied_output:  # its rank is m
            tied = "`tied_output` on"
            return self.need("output_rank", rank, None, tied) or self.need(
                "shortlist_size", size, None, tied
            )
        if whole.interpolated:
            return self.need("shortlist_size", size, None, "`interpolated` on")
        return ""

    def count_outputs(self, vocabulary_size: int) -> int:
        from keras_nplm.data.ids import SPECIALS

        if self.shortlist_size is None:
            return vocabulary_size
        return len(SPECIALS) + self.shortlist_size

    def count(
        self, network: "Network", vocabulary_size: int, x_width: int, width: int, scored: int
    ) -> Cost:
        outputs = self.count_outputs(vocabulary_size)
        cost = Cost()
        rank = network.embedding_dim if self.tied_output else self.output_rank
        if rank:
            cost += Cost.of_matrix(width * rank)
            width = rank
        if self.direct_connections:
            cost += Cost(outputs * x_width, outputs * x_width, scored * x_width)
        biases = outputs
        rows = 0 if self.tied_output else outputs * width
        return cost + Cost(rows + biases, outputs * width, scored * width)

    def build(self, network: "Network", vocabulary_size: int) -> "HeadLayer":
        from keras_nplm.layers.heads.linear import LinearHead

        outputs = None if self.shortlist_size is None else self.count_outputs(vocabulary_size)
        return LinearHead(
            vocabulary_size,
            rank=self.output_rank,
            tied=self.tied_output,
            num_outputs=outputs,
            name="prob",
            dtype=network.dtype,
        )

    def build_direct(self, network: "Network", vocabulary_size: int) -> "DirectConnection | None":
        from keras_nplm.layers.hidden import DirectConnection

        if not self.direct_connections:
            return None
        outputs = self.count_outputs(vocabulary_size)
        return DirectConnection(outputs, name="direct", dtype=network.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adaptive(Head, kind="adaptive"):
    """Adaptive softmax. A cluster costs as often as a text of Zipf's law, P(r) ∝ 1/r, needs it."""

    cutoffs: Annotated[tuple[int, ...], Option(example=(2000, 7000), advanced=True)] = ()
    """first id of each cluster; none: a ninth and two fifths of |V|"""

    def fits(self, whole: "Network") -> str:
        return (
            self.need("network", whole.network.kind, ContextAlone.kind)
            or _need_all_scores(self, whole.objective)
            or self.need("held_out_mass", whole.objective.held_out_mass, 0)
            # its log Z is 0
            or self.need("self_normalisation", whole.objective.self_normalisation, 0)
        )

    def count(
        self, network: "Network", vocabulary_size: int, x_width: int, width: int, scored: int
    ) -> Cost:
        ends = [*choose_cutoffs(vocabulary_size, self.cutoffs), vocabulary_size]
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

    def build(self, network: "Network", vocabulary_size: int) -> "HeadLayer":
        from keras_nplm.layers.heads.adaptive import AdaptiveHead

        return AdaptiveHead(
            vocabulary_size, cutoffs=self.cutoffs or None, name="prob", dtype=network.dtype
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Energy(Head, kind="energy"):
    """The paper's energy-based variant. Its hidden layer sees the context and a word."""

    hidden_units: Annotated[int, Option(least=1)] = Tanh.hidden_units
    dropout: Annotated[float, Option(least=0, below=1)] = Tanh.dropout

    has_hidden_layer = True

    def fits(self, whole: "Network") -> str:
        return self.need("network", whole.network.kind, ContextAlone.kind) or self.need(
            "hidden", whole.hidden.kind, NoLayer.kind
        )

    def count(
        self, network: "Network", vocabulary_size: int, x_width: int, width: int, scored: int
    ) -> Cost:
        units = self.hidden_units
        context = width * units
        vectors = network.embedding_dim * units
        d_and_v = 2 * units
        word = vectors + units
        return Cost(
            parameters=context + vectors + d_and_v + vocabulary_size,
            scoring=context + vocabulary_size * word,
            training=context + scored * word,
        )

    def build(self, network: "Network", vocabulary_size: int) -> "HeadLayer":
        from keras_nplm.layers.heads.energy import EnergyHead

        own = dataclasses.asdict(self)
        return EnergyHead(vocabulary_size, **own, name="prob", dtype=network.dtype)


# Objectives: what training minimises


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective(Part, choice="objective"):
    """The training loss.

    Attributes:
        is_sampled: whether it needs the scores of the target and of negative samples alone.
        keeps_log_z: whether log Z stays near 0.
        self_normalisation, held_out_mass: see `Likelihood`, which has them as options.
    """

    is_sampled: ClassVar[bool] = False
    self_normalisation = 0.0
    held_out_mass = 0.0

    @property
    def keeps_log_z(self) -> bool:
        return self.self_normalisation > 0

    def count_scored(self, outputs: int) -> int:
        """Return of how many words a loss needs the scores."""
        return outputs

    def build(self, network: "Network", seed: int) -> "ObjectiveLayer":
        """Make the layer."""
        raise NotImplementedError


def _need_all_scores(part: Part, objective: Objective) -> str:
    """Return that a part needs an objective with the scores of all words, unless it has one."""
    if not objective.is_sampled:
        return ""
    return part.need("objective", objective.kind, Likelihood.kind)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Likelihood(Objective, kind="likelihood"):
    """The scores of all words."""

    self_normalisation: Annotated[float, Option(least=0, advanced=True)] = 0.0
    """weight of the penalty on (log Z)^2, which keeps log Z near 0; not with the head adaptive"""

    held_out_mass: Annotated[float, Option(least=0, below=1, advanced=True)] = 0.0
    """label-smoothing mass for words unseen in training: not comparable with models of mass 0; not
    with the head adaptive"""

    def build(self, network: "Network", seed: int) -> "ObjectiveLayer":
        from keras_nplm.layers.objectives.likelihood import Likelihood

        return Likelihood(**dataclasses.asdict(self), name="objective", dtype=network.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampled(Likelihood, kind="sampled"):
    """Sampled softmax. It has the scores of the target and of the negative samples of a batch."""

    num_sampled: Annotated[int, Option(least=1, below=1 << 20, advanced=True)] = 256
    """k, negative samples per batch"""

    proposal: Annotated[Literal["unigram", "log-uniform"], Option(advanced=True)] = "unigram"
    """proposal distribution of the negative samples"""

    is_sampled = True

    def count_scored(self, outputs: int) -> int:
        return 1 + self.num_sampled

    def choose_class(self) -> "type[SampledObjective]":
        from keras_nplm.layers.objectives.sampled import SampledSoftmax

        return SampledSoftmax

    def build(self, network: "Network", seed: int) -> "ObjectiveLayer":
        own = dataclasses.asdict(self)
        return self.choose_class()(**own, seed=seed, name="objective", dtype=network.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoiseContrastive(Sampled, kind="nce"):
    """Noise-contrastive estimation. It keeps log Z near 0 by itself."""

    @property
    def keeps_log_z(self) -> bool:
        return True

    def choose_class(self) -> "type[SampledObjective]":
        from keras_nplm.layers.objectives.sampled import NoiseContrastive

        return NoiseContrastive


# Kinds of networks: what the context says of the words beside the head


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind(Part, choice="network"):
    """What a network has beside features and head.

    Attributes:
        reads_ngram_model: whether it has an n-gram model inside.
        row_clipnorm: of the rows of a sparse gradient in SGD, as a word that fills the context
            moves its row too far.
    """

    reads_ngram_model: ClassVar[bool] = False
    row_clipnorm: ClassVar[float | None] = None

    def count(self, network: "Network", width: int) -> Cost:
        """Count what the network adds to the other parts, for features of this width."""
        return Cost()

    def choose_class(self) -> "type[ContextNetwork]":
        """Return the class of the network."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContextAlone(Kind, kind="context"):
    """Feed-forward. Features and head alone."""

    def choose_class(self) -> "type[ContextNetwork]":
        from keras_nplm.models.networks.context_network import ContextNetwork

        return ContextNetwork


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithPointer(Kind, kind="pointer"):
    """Also copies context words. A pointer gives them probability."""

    row_clipnorm = 0.25

    def count(self, network: "Network", width: int) -> Cost:
        positions = network.order - 1
        queries = Cost.of_matrix(2 * width * network.embedding_dim)
        biases = network.embedding_dim + positions + count_matched(positions)
        # products of the queries and the vectors of the context's words
        products = 2 * network.embedding_dim * positions
        return queries + Cost(biases, products, products)

    def choose_class(self) -> "type[ContextNetwork]":
        from keras_nplm.models.networks.pointer_network import PointerNetwork

        return PointerNetwork


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithNgramModel(Kind, kind="hybrid"):
    """An n-gram model inside. It has the gain g + v · a."""

    reads_ngram_model = True

    def fits(self, whole: "Network") -> str:
        return (
            _need_all_scores(self, whole.objective)
            or self.need("shortlist_size", whole.head.shortlist_size, None)
            or self.need("interpolated", whole.interpolated, False)
        )

    def count(self, network: "Network", width: int) -> Cost:
        return Cost(1 + width)

    def choose_class(self) -> "type[ContextNetwork]":
        from keras_nplm.models.networks.hybrid_network import HybridNetwork

        return HybridNetwork


# The whole network


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A network: its parts, and the options that several of them have.

    >>> Network(order=5, hidden=Tanh(hidden_units=50), head=Linear(direct_connections=True)).order
    5

    Raises:
        InputError: an option has another type, is out of its range, or a part cannot stand beside
            the others.
    """

    network: Kind = ContextAlone()
    """kind of network"""

    order: Annotated[int, Option(least=2, below=1024)] = 21
    """n, order of the n-grams; a context has n-1 words"""

    context: Annotated[Context, Option(advanced=True)] = Averaged()
    """context layer"""

    embedding_dim: Annotated[int, Option(least=1)] = 60
    """m, components of a word's feature vector"""

    freeze_embedding: bool = False
    """C is not trained: it stays random, or as --vectors has it"""

    hidden: Annotated[Hidden, Option(advanced=True)] = Deep()
    """hidden layer"""

    head: Head = Linear()
    """output layer"""

    objective: Objective = Likelihood()
    """training loss"""

    interpolated: bool = False
    """mixture with a Kneser-Ney and a class-based model of the same text, with fitted weights"""

    embedding_dropout: Annotated[float, Option(least=0, below=1, advanced=True)] = 0.2
    """dropout rate of the components of the context's feature vectors"""

    word_dropout: Annotated[float, Option(least=0, below=1, advanced=True)] = 0.0
    """dropout rate of whole context words"""

    dtype: Annotated[Literal["float32", "mixed_bfloat16"], Option(advanced=True)] = "float32"
    """number format of matrix products; weights and sums stay float32"""

    def __post_init__(self) -> None:
        check_values(self)
        check_parts(self)

    @property
    def model_kind(self) -> str:
        """The kind of the trained model in `config.json`."""
        if self.head.shortlist_size is not None:
            return "shortlist"
        if self.network.reads_ngram_model:
            return "hybrid"
        return "mixture" if self.interpolated else "nplm"

    @property
    def has_ngram_model(self) -> bool:
        """Whether the model has an n-gram model beside its network, or inside."""
        return self.model_kind != "nplm"

    @property
    def ngram_order(self) -> int:
        """The n-gram order that matches the network's concatenated (not averaged) context."""
        return max(2, self.context.count_concatenated(self.order) + 1)

    @property
    def target_limit(self) -> int | None:
        """The id from which on words are not training targets, or None if all words are."""
        return None if self.head.shortlist_size is None else self.head.count_outputs(0)

    @property
    def embedding(self) -> dict[str, Any]:
        """The arguments that all context layers have."""
        return {
            "embedding_dim": self.embedding_dim,
            "word_dropout": self.word_dropout,
            "dropout": self.embedding_dropout,
            "trainable": not self.freeze_embedding,
            "name": "embed",
            "dtype": self.dtype,
        }

    def count(self, vocabulary_size: int) -> Cost:
        """Count the parameters and multiplications."""
        x_width = self.context.width(self)
        width = self.hidden.width(self, x_width)
        scored = self.objective.count_scored(self.head.count_outputs(vocabulary_size))
        cost = Cost(0 if self.freeze_embedding else vocabulary_size * self.embedding_dim)
        cost += self.context.count(self)
        cost += self.hidden.count(x_width)
        cost += self.head.count(self, vocabulary_size, x_width, width, scored)
        return cost + self.network.count(self, width)

    def build(self, vocabulary_size: int, *, boundary: str, seed: int) -> "ContextNetwork":
        """Build the network. `seed` is that of its negative samples."""
        return self.network.choose_class()(
            order=self.order,
            embed=self.context.build(self, vocabulary_size),
            hidden=self.hidden.build(self),
            direct=self.head.build_direct(self, vocabulary_size),
            head=self.head.build(self, vocabulary_size),
            objective=self.objective.build(self, seed),
            boundary=boundary,
            name="NPLM",
        )
