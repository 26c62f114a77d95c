"""What language models refuse, by the name of the argument and with a fix."""

import gzip

import keras
import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    AdaptiveHead,
    AveragedContext,
    ContextEmbedding,
    ContextNetwork,
    ContinuousCache,
    DirectConnection,
    EnergyHead,
    HybridNetwork,
    InputError,
    LanguageModel,
    Likelihood,
    LinearHead,
    Mixture,
    NgramCache,
    NoiseContrastive,
    Pointer,
    PointerNetwork,
    ResidualBlock,
    RunError,
    SampledSoftmax,
    Shortlist,
    SpelledContext,
    TanhHidden,
    Uniform,
    UnigramCache,
    Vocabulary,
    evaluate,
    fit_mixture,
    fit_unigrams,
    tune_dynamic,
    write_arpa,
)
from keras_nplm import Perplexity as MetricPerplexity
from keras_nplm.layers.heads.base import Head
from keras_nplm.models import ngrams
from keras_nplm.models.collectors import PerplexityByOrder
from keras_nplm.models.dynamic import DynamicSettings, make_dynamic
from keras_nplm.models.networks.growth import check_growable
from keras_nplm.models.networks.network_file import check_memory
from keras_nplm.models.networks.self_normalised import SelfNormalised
from keras_nplm.models.ngrams.approximation import approximate
from keras_nplm.models.ngrams.interpolation import fit_weights
from keras_nplm.models.spelling import SpellingModel

V = 9
TEXT = np.array([4, 5, 4, 5, 6, 3], np.int32)
EMPTY = np.array([3], np.int32)
# word 6 has no class
CLASSES = np.array([0, 4, 2, 3, 4, 5, 1, 5, 5], np.int32)
MODEL = ngrams.kneser_ney(TEXT, V, 3, "stream")
UNIFORM = Uniform(V, "stream")


def refuses(message):
    return pytest.raises(InputError, match=message)


# Networks


def build_network(kind=ContextNetwork, **options):
    layers = dict(
        order=3,
        embed=ContextEmbedding(V, 2, name="embed"),
        hidden=TanhHidden(3, name="hidden"),
        head=LinearHead(V, name="prob"),
        objective=Likelihood(),
        boundary="stream",
    )
    layers.update(options)
    return kind(**layers)


def build_listed():
    return build_network(head=LinearHead(V, num_outputs=7, name="prob"))


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param(
            dict(hidden_units=0),
            "`hidden_units` must be 1 or more without direct connections",
            id="no hidden units",
        ),
        pytest.param(dict(dropout=1.0), r"`dropout` must be in \[0, 1\)", id="dropout of all"),
        pytest.param(
            dict(weight_decay=-1e-3), "`weight_decay` must be", id="negative weight decay"
        ),
        pytest.param(dict(order=1), "`order` must be", id="order 1"),
        pytest.param(
            dict(boundary="line"),
            "`boundary` must be one of sentence, text, stream",
            id="an unknown boundary",
        ),
        pytest.param(
            dict(dtype="float16"), "`dtype` must be float32, .* Received: float16", id="float16"
        ),
        pytest.param(
            dict(output="nce"),
            r"`output` must be left out: .* Fix: .*ContextNetwork\(hidden=",
            id="an output layer",
        ),
        pytest.param(
            dict(averages_after=2),
            "`averages_after` must be left out: .* Received: 2. Fix",
            id="averages",
        ),
    ],
)
def test_options_of_nplm(options, message):
    with refuses(message):
        NPLM(V, **options)


def test_layers_of_two_vocabularies():
    with refuses("`head` must have the .* of `embed`, 9. Received: 10. Fix: give both the same"):
        build_network(head=LinearHead(V + 1, name="prob"))


def test_direct_connections_to_fewer_words():
    with refuses("`direct` must have the outputs of `head`, 9. Received: 7. Fix"):
        build_network(direct=DirectConnection(7))


@pytest.mark.parametrize("head", [AdaptiveHead, EnergyHead])
def test_direct_connections_to_a_head_without_rows(head):
    with refuses(f"`direct` must be None with {head.__name__}, which has no W"):
        build_network(head=head(V), direct=DirectConnection(V))


@pytest.mark.parametrize(
    "part, kind, sizes",
    [
        ("embed", ContextEmbedding, [V, 2]),
        ("head", LinearHead, [V]),
        ("direct", DirectConnection, [V]),
    ],
)
def test_activity_regularizers_that_training_would_not_see(part, kind, sizes):
    layer = kind(*sizes, activity_regularizer="l2")
    with refuses(f"`activity_regularizer` must be None in `{part}`. Received: L2. Fix: give it to"):
        build_network(**{part: layer})


def test_an_activity_regularizer_of_a_network():
    with refuses("`activity_regularizer` must be left out: a network has no such argument"):
        build_network(activity_regularizer="l2")


def test_the_unigram_start_of_a_head_without_one():
    class Own(LinearHead):
        set_unigram = Head.set_unigram

    with refuses("`head` must have `set_unigram` to start from the .* Received: Own. Fix: define"):
        build_network(head=Own(V)).set_unigram(np.ones(V))


@pytest.mark.parametrize("head", [AdaptiveHead, EnergyHead])
def test_a_pointer_to_a_head_without_rows(head):
    message = f"`head` must have a row for each word with a pointer. Received: {head.__name__}"
    with refuses(message):
        build_network(PointerNetwork, head=head(V))


def test_an_ngram_model_inside_a_shortlist():
    with refuses("`head` must score all 9 words with an n-gram model inside. Received: 7"):
        build_network(HybridNetwork, head=LinearHead(V, num_outputs=7))


@pytest.mark.parametrize("objective", [NoiseContrastive, SampledSoftmax])
def test_weight_decay_of_a_head_with_negative_samples(objective):
    with refuses(f"`weight_decay` must be 0 with {objective.__name__}. Received: 0.1"):
        build_network(head=LinearHead(V, weight_decay=0.1), objective=objective())


def test_averages_beyond_the_context():
    with refuses("`averages_after` must be below 4"):
        build_network(order=5, embed=AveragedContext(V, 2, averages_after=(4,)))


def test_a_layer_that_has_weights_of_another_width():
    head = LinearHead(V, name="prob")
    build_network(head=head)
    # another context, but features of the same width
    build_network(head=head, embed=ContextEmbedding(V, 4))
    with refuses("`layer` must be one for inputs of width 5. Received: prob, .* width 3. Fix"):
        build_network(head=head, hidden=TanhHidden(5))


def test_counts_of_another_vocabulary():
    with refuses(r"`counts` must be \[9\]. Received: \[8\]. Fix"):
        build_network().set_unigram(np.ones(8))


def test_self_normalised_scores_without_logits_of_all_words():
    with refuses("logits of all words, .* AdaptiveHead"):
        SelfNormalised(build_network(head=AdaptiveHead(V)))
    with refuses("logits of all words, .*a head of 7 of 9 words"):
        SelfNormalised(build_listed())
    with refuses("a hidden layer of keras_nplm, .*: Dense"):
        SelfNormalised(build_network(hidden=keras.layers.Dense(3)))
    with refuses("`model` must be a network with a hidden layer"):
        SelfNormalised(build_network(HybridNetwork))


@pytest.mark.parametrize("head", [EnergyHead(V), LinearHead(V, tied=True)], ids=["energy", "tied"])
def test_a_head_with_the_vectors_of_another_network(head):
    build_network(head=head)
    with refuses("`head` must be a .* of its own.* Received: that of another network"):
        build_network(head=head)


def test_orders_of_a_text_with_probability_0():
    cache = UnigramCache(V, "stream")
    with pytest.raises(RunError, match="UnigramCache gives a word of the text probability 0"):
        evaluate(cache, TEXT, PerplexityByOrder())


@pytest.mark.parametrize("head", [AdaptiveHead, EnergyHead])
def test_new_words_for_a_head_without_rows(head):
    with refuses(f"a row for each word .*: {head.__name__}"):
        check_growable(build_network(head=head(V)))


def test_new_words_for_a_shortlist():
    with refuses("`num_outputs` must be .*, 9, to add words. Received: 7"):
        check_growable(build_listed())


def test_new_words_for_a_network_with_an_ngram_model():
    with refuses("`model` must be a network alone .* Received: HybridNetwork"):
        check_growable(build_network(HybridNetwork))


def test_a_network_larger_than_the_memory():
    message = "must fit into .* bytes of memory. Received: 1,000,000,000,000,000 weights"
    with refuses(message):
        check_memory(10**15)


def test_negative_rates_of_dynamic_evaluation():
    with refuses("`rate` must be 0.0 or more"):
        DynamicSettings(rate=-1)


# N-gram models


def write(path, content):
    path.write_bytes(content)
    return path


def read_text():
    yield TEXT


def test_orders_of_no_word(tmp_path):
    with refuses("`order`"):
        ngrams.kneser_ney(TEXT, V, 0)
    with refuses("`order`"):
        ngrams.kneser_ney_on_disk(tmp_path / "model", read_text, len(TEXT), V, 0)


def test_texts_without_words():
    with refuses("no word to predict"):
        ngrams.kneser_ney(EMPTY, V, 3, "stream")
    with refuses("no word to predict"):
        ngrams.class_based(TEXT, EMPTY, np.maximum(CLASSES, 4), 2, "stream")
    with refuses("no word to predict"):
        evaluate(UNIFORM, iter([]))


def test_classes_that_do_not_fit_the_text():
    with refuses("Received: 1 words of the text have no class"):
        ngrams.class_based(TEXT, TEXT, CLASSES, 3)
    with refuses("`num_classes` must be 1 to 3"):
        ngrams.exchange_classes(TEXT, V, 4)
    with refuses("`start` must be 1 classes or fewer"):
        ngrams.exchange_classes(TEXT, V, 1, start=CLASSES)
    with refuses("`start` must be a class of 0 or more for each of 9 words. Received: 2 numbers"):
        ngrams.exchange_classes(TEXT, V, 1, start=[4, 4])
    with refuses("`start` must be a class of 0 or more for each of 9 words. Received: 9 numbers"):
        ngrams.exchange_classes(TEXT, V, 1, start=[-1] * V)
    with refuses("`ids` must be ids of one word or more. Received: a text without words"):
        ngrams.exchange_classes(np.array([3, 3]), V, 1)


def test_files_of_classes(tmp_path):
    words = Vocabulary(["the", "cat"])
    with refuses("line 2: expected a word, a tab and the number"):
        ngrams.load_classes(write(tmp_path / "no number", b"the\t0\ncat\tone\n"), words)
    with refuses("must have classes of words in the vocabulary"):
        ngrams.load_classes(write(tmp_path / "other words", b"a\t0\n"), words)


def test_a_token_of_probability_0_in_every_model():
    with refuses("token 1 has probability 0 in every model"):
        fit_weights(np.array([[0.0, -np.inf], [0.0, -np.inf]]))


def test_limits_of_pruning():
    with refuses("`threshold` must be 0 or more. Received"):
        ngrams.prune(MODEL, -1e-9)
    with refuses("`max_ngrams` must be 6 or more, the number of unigrams"):
        ngrams.prune(MODEL, max_ngrams=5)


def test_limits_of_approximation():
    with refuses("`order` must be 2 to 3, the order of the model. Received: 4"):
        approximate(MODEL, TEXT, 4)
    with refuses("`min_expected_count` must be above 0. Received"):
        approximate(MODEL, TEXT, 3, min_expected_count=0)


def test_arpa_files(tmp_path):
    with refuses("not UTF-8"):
        ngrams.read_arpa(write(tmp_path / "utf-16", "\\data\\".encode("utf-16")))
    cut = gzip.compress(b"\\data\\" * 99)[:-20]
    with refuses("is not a whole gzip archive"):
        ngrams.read_arpa(write(tmp_path / "cut", cut))
    with refuses("`vocabulary` must be of 9 words, .*: 5"):
        ngrams.write_arpa(tmp_path / "model", MODEL, Vocabulary(["the"]))


# Models of several models


def test_parts_of_a_mixture():
    with refuses("two models or more"):
        Mixture([UNIFORM], [1.0])
    with refuses("must have one `boundary`. Received: stream, sentence"):
        Mixture([UNIFORM, Uniform(V)], [0.5, 0.5])
    with refuses("one vocabulary"):
        Mixture([UNIFORM, Uniform(8, "stream")], [0.5, 0.5])
    with refuses("`boundary` must be 'stream'"):
        fit_mixture([UNIFORM, UNIFORM], TEXT, "sentence")


@pytest.mark.parametrize(
    "weights",
    [
        pytest.param([0.5, 0.6], id="above 1"),
        pytest.param([-0.5, 1.5], id="negative"),
        pytest.param([np.nan, 1.0], id="nan"),
    ],
)
def test_weights_of_a_mixture(weights):
    with refuses("`weights` must be 0 or more and sum to 1"):
        Mixture([UNIFORM, UNIFORM], weights)


def test_the_number_of_weights_of_a_mixture():
    with refuses("`weights` must be 2 numbers. Received: 3"):
        Mixture([UNIFORM, UNIFORM], [0.2, 0.3, 0.5])


def test_bins_of_another_vocabulary():
    counts = ngrams.count_ngrams(TEXT, V, 2, "stream")
    bins = ngrams.FrequencyBins(ngrams.ContextFrequencies.from_counts(counts))
    larger = Uniform(V + 1)
    with refuses("`bins` must be of 10 words"):
        Mixture([larger, larger], np.ones((bins.number, 2)) / 2, bins)


def test_parts_of_a_shortlist():
    with refuses("`network` must be a network of a short-list. Received: ContextNetwork. Fix"):
        Shortlist(build_network(), MODEL)
    with refuses("one vocabulary .* vocabularies of .9, 8. words"):
        Shortlist(build_listed(), Uniform(8, "stream"))
    with refuses("must have one `boundary`. Received: stream, sentence"):
        Shortlist(build_listed(), Uniform(V))


# Caches and spelling


def test_the_boundary_of_a_cache():
    with refuses("`boundary` must be one of sentence, text, stream. Received: 'book'"):
        UnigramCache(V, "book")


def test_ranges_of_a_cache():
    with refuses("`decay` must be 1 or more. Received: 0.5"):
        NgramCache(V, "stream", decay=0.5)
    with refuses("`length` must be 1 to 65,535. Received: 0"):
        NgramCache(V, "stream", length=0)


@pytest.mark.parametrize(
    "factors",
    [
        pytest.param((2, 0.5), id="below 1"),
        pytest.param(["2"], id="a string"),
        pytest.param((1e200,), id="large"),
        pytest.param((10**400,), id="beyond float64"),
        pytest.param((True,), id="a bool"),
        pytest.param((2,) * 17, id="too many"),
    ],
)
def test_factors_of_a_cache(factors):
    with refuses("`factors` must be a list of at most 16 numbers from 1 to 1,000,000"):
        NgramCache(V, "stream", factors=factors)


def test_a_continuous_cache_of_no_network():
    with refuses("`network` must be an NPLM. Received: Uniform"):
        ContinuousCache(UNIFORM)


def test_a_spelling_model_of_no_words():
    with refuses("needs words of 1 character or more"):
        SpellingModel({})


WRAPPED = LanguageModel(Uniform(V), Vocabulary(["a", "b", "c", "d", "e"]), "words")


@pytest.mark.parametrize(
    "call, message",
    [
        pytest.param(
            lambda: ngrams.kneser_ney(TEXT, V, "3"),
            "`order` must be an integer, 1 or more. Received: '3'",
            id="order as text",
        ),
        pytest.param(
            lambda: ngrams.deleted_interpolation(TEXT, TEXT, V, 2.5),
            "`order` must be an integer, 1 or more. Received: 2.5",
            id="fractional order",
        ),
        pytest.param(
            lambda: ngrams.kneser_ney(TEXT, "9", 3),
            "`vocabulary_size` must be an integer, 1 or more. Received: '9'",
            id="vocabulary size as text",
        ),
        pytest.param(
            lambda: ngrams.kneser_ney(TEXT, 6, 3),
            "Ids must be 0 to 5. Received: 6",
            id="small vocabulary",
        ),
        pytest.param(
            lambda: ngrams.class_based(TEXT, TEXT, CLASSES[:5], 3),
            "Ids must be 0 to 4. Received: 6",
            id="classes of a smaller vocabulary",
        ),
        pytest.param(
            lambda: ngrams.exchange_classes(TEXT, V, "2"),
            "`num_classes` must be an integer, 1 or more. Received: '2'",
            id="number of classes as text",
        ),
        pytest.param(
            lambda: Uniform("9"),
            "`vocabulary_size` must be an integer, 2 or more. Received: '9'",
            id="uniform over a text",
        ),
        pytest.param(
            lambda: evaluate(WRAPPED, TEXT),
            "`model` must be a language model over ids, .* Received: LanguageModel. Fix: pass "
            "`model.model`",
            id="evaluate a model over text",
        ),
        pytest.param(
            lambda: approximate(WRAPPED, TEXT), "Fix: pass `model.model`", id="approximate"
        ),
        pytest.param(
            lambda: ngrams.prune(UNIFORM),
            "`model` must be BackoffModel. Received: Uniform",
            id="prune",
        ),
        pytest.param(
            lambda: LanguageModel(WRAPPED, WRAPPED.vocabulary, "words"),
            "Fix: pass `model.model`",
            id="a model over text within another",
        ),
        pytest.param(
            lambda: fit_mixture(MODEL, TEXT),
            "`models` must be a list of models. Received: BackoffModel",
            id="a mixture of one model",
        ),
        pytest.param(
            lambda: fit_mixture([MODEL, []], TEXT),
            r"`models\[1\]` must be a model, or a list of one or more. Received: an empty list",
            id="no candidate",
        ),
        pytest.param(
            lambda: fit_mixture([MODEL, WRAPPED], TEXT),
            r"`models\[1\]` must be a language model over ids, .* pass `models\[1\].model`",
            id="fit models over text",
        ),
        pytest.param(
            lambda: Mixture([WRAPPED, WRAPPED], [0.5, 0.5]),
            r"Fix: pass `models\[0\].model`",
            id="mix models over text",
        ),
        pytest.param(
            lambda: make_dynamic(WRAPPED, DynamicSettings()),
            "Fix: pass `model.model`",
            id="a model over text that learns",
        ),
        pytest.param(
            lambda: Shortlist(build_listed(), WRAPPED),
            "Fix: pass `background.model`",
            id="a background over text",
        ),
        pytest.param(
            lambda: tune_dynamic(WRAPPED, TEXT),
            "Fix: pass `model.model`",
            id="tune a model over text",
        ),
        pytest.param(
            lambda: Mixture(MODEL, [1.0]),
            "`models` must be a list of two models or more. Received: BackoffModel",
            id="a mixture of a model",
        ),
        pytest.param(
            lambda: write_arpa("uniform.arpa", UNIFORM, WRAPPED.vocabulary),
            "`model` must be BackoffModel. Received: Uniform",
            id="a uniform model as ARPA",
        ),
        pytest.param(
            lambda: fit_unigrams(UNIFORM, np.zeros(V)),
            "`model` must be BackoffModel. Received: Uniform",
            id="unigrams of a uniform model",
        ),
        pytest.param(
            lambda: ngrams.ContextFrequencies.from_counts(ngrams.count_ngrams(TEXT, V, 1)),
            "`counts` must be of order 2 or more. Received: 1",
            id="contexts of no word",
        ),
        pytest.param(
            lambda: evaluate(MODEL, TEXT, [MetricPerplexity()]),
            "Fix: .* take them from `keras_nplm.models.collectors`",
            id="a metric of Keras as a collector",
        ),
        pytest.param(
            lambda: build_network(objective="likelihood"),
            "`objective` must be of Objective. Received: str",
            id="an objective by name",
        ),
        pytest.param(
            lambda: ContextNetwork(
                3, LinearHead(V), ContextEmbedding(V, 2), objective=Likelihood()
            ),
            "`embed` must be of ContextEmbedding. Received: LinearHead",
            id="layers in another order",
        ),
        pytest.param(
            lambda: AveragedContext(V, 2, averages_after=4),
            "`averages_after` must be a list of integers. Received: 4",
            id="averages as a number",
        ),
        pytest.param(
            lambda: AdaptiveHead(V, cutoffs=4),
            "`cutoffs` must be a list of rising ids. Received: 4",
            id="cut-offs as a number",
        ),
        pytest.param(
            lambda: LinearHead(V, rank="4"), "`rank` must be an integer", id="rank as text"
        ),
        pytest.param(
            lambda: EnergyHead(V, dropout=1.0),
            r"`dropout` must be in \[0, 1\)",
            id="energy dropout",
        ),
        pytest.param(
            lambda: ResidualBlock(dropout=1.0), r"`dropout` must be in \[0, 1\)", id="block dropout"
        ),
        pytest.param(
            lambda: Pointer(weight_decay=-1.0), "`weight_decay` must be 0.0 or more", id="pointer"
        ),
        pytest.param(
            lambda: SpelledContext(
                V, 2, near_characters=1, spelled_words=1, spelling_bits=2, separator=V
            ),
            "`separator` must be 0 to 8. Received: 9",
            id="a separator outside the vocabulary",
        ),
        pytest.param(
            lambda: build_network(PointerNetwork, pointer=Pointer(dtype="float16")),
            "`dtype` must be float32, .* Received: float16",
            id="a pointer of float16",
        ),
        pytest.param(
            lambda: DynamicSettings(chunk=2.5), "`chunk` must be an integer", id="half an n-gram"
        ),
        pytest.param(
            lambda: DynamicSettings(rate="0.1"), "`rate` must be a finite number", id="rate as text"
        ),
        pytest.param(
            lambda: WRAPPED.next_words("a", top_k=2.5),
            "`top_k` must be an integer, 1 or more. Received: 2.5",
            id="fractional number of words",
        ),
        pytest.param(
            lambda: WRAPPED.generate("a", 2, temperature="1"),
            "`temperature` must be a finite number, 0 or more. Received: '1'",
            id="temperature as text",
        ),
    ],
)
def test_arguments_of_another_type_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
