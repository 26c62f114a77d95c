"""Speed: what a core does in a second, as ratios to the peers and to the core's own peak, measured in one run."""

import dataclasses
import functools
import gc
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

import keras_nplm.experiments.benchmark.peers as peers
from keras_nplm.data.corpora import Corpus
from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.vocabulary import SPECIALS, Vocabulary
from keras_nplm.experiments.benchmark.corpora import TOKENS, corpora_rows
from keras_nplm.experiments.benchmark.peers import Work
from keras_nplm.experiments.benchmark.workers import worker_rows, zipf_ids
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.layers.outputs import (
    AdaptiveSoftmax,
    FullSoftmax,
    NoiseContrastive,
    Output,
    SampledSoftmax,
)
from keras_nplm.models.ngrams import kneser_ney, write_arpa
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.self_normalised import SelfNormalised
from keras_nplm.serving import export_litert, export_onnx, export_saved_model
from keras_nplm.training.configuration import CONFIGURATIONS
from keras_nplm.training.optimizers import LazySGD
from keras_nplm.training.sizes import compute_sizes

VOCABULARY_SIZE, ORDER, EMBEDDING_DIM, HIDDEN_UNITS = 17_905, 5, 60, 100  # Brown's, and the paper's shape
NUM_SAMPLED = 256
BATCH_SIZE = 512
_PEAK = "matrix product"
_REQUESTS = (1, 32, 256)  # contexts that a request holds
_REQUESTED = 1000  # contexts in a round, 20 requests at least


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a network."""

    vocabulary_size: int = VOCABULARY_SIZE
    order: int = ORDER
    hidden_units: int = HIDDEN_UNITS
    direct: bool = False

    def flops(self, training: bool) -> int:
        """Floating-point operations of the full softmax for an n-gram; see `compute_sizes`."""
        shape = dict(order=self.order, hidden_units=self.hidden_units, direct_connections=self.direct)
        configuration = dataclasses.replace(CONFIGURATIONS["brown"], **shape, embedding_dim=EMBEDDING_DIM)
        return compute_sizes(configuration, self.vocabulary_size)["flops_training" if training else "flops_scoring"]


def run(names: list[str], corpus: Corpus, rounds: int = 5, tokens: int = TOKENS) -> dict:
    """Run benchmarks and collect their rows.

    Args:
        names: of `BENCHMARKS`.
        corpus: the text for the n-gram models.
        rounds: how often each contender works; they take turns.
        tokens: of the larger text of `corpora`.

    Returns:
        `rows`, and of the machine: `cpu`, `tensorflow`, `peers`. A row has `benchmark`, `name`, `unit`, `rate` (the
        median a CPU second, with `low` and `high` over the rounds), `share_of_peak` where the arithmetic is known,
        `milliseconds` of single requests, [p50, p99], and `ratio_to` peers, [median, low, high] over the rounds; those
        of `corpora` have `wall_rate` and `peak_memory`, bytes, and those of `workers` rates by the clock.
    """
    rows = []
    for name in names:
        if name in ("corpora", "workers"):
            measured = corpora_rows(tokens, rounds) if name == "corpora" else worker_rows(rounds)
            rows += [{"benchmark": name} | row for row in measured]
            continue
        for group in BENCHMARKS[name](corpus):
            rows += [{"benchmark": name} | row for row in _measure(group, rounds)]
    found = [name for name in ("torch", "kenlm", "ai_edge_litert", "onnxruntime") if peers.installed(name)]
    return {"rows": rows, "cpu": _cpu(), "tensorflow": tf.__version__, "peers": found, "rounds": rounds}


@dataclasses.dataclass
class Contender:
    """Work that is measured against the other work of its group."""

    name: str
    work: Work
    flops: float = 0  # of an n-gram, if to be told as a share of the peak
    peer: bool = False
    seconds: list[float] = dataclasses.field(default_factory=list)  # of each request, if the work is requests


def _measure(group: list[Contender], rounds: int) -> list[dict]:
    """Let each work once unmeasured, then in turns; rates are per CPU second of this process and its children."""
    if any(contender.flops for contender in group):
        group = [*group, Contender(_PEAK, _matrix_product())]
    rates = {contender.name: [] for contender in group}
    for number in range(rounds + 1):
        for contender in group:
            gc.collect()
            began = _cpu_seconds()
            done = contender.work()
            seconds = _cpu_seconds() - began
            if not number:
                contender.seconds.clear()
            else:
                rates[contender.name].append(done / max(seconds, 1e-9))
        print(f"{group[0].name}: round {number} of {rounds}", file=sys.stderr)
    others = [contender.name for contender in group if contender.peer]
    return [_row(contender, rates, others) for contender in group if contender.name != _PEAK]


def _row(contender: Contender, rates: dict[str, list[float]], others: list[str]) -> dict:
    mine = rates[contender.name]
    row = {
        "name": contender.name,
        "unit": "n-grams/s",
        "rate": statistics.median(mine),
        "low": min(mine),
        "high": max(mine),
    }
    if contender.flops:
        shares = [rate * contender.flops / peak for rate, peak in zip(mine, rates[_PEAK], strict=True)]
        row["share_of_peak"] = statistics.median(shares)
    if contender.seconds:
        row["milliseconds"] = [1000 * float(share) for share in np.percentile(contender.seconds, [50, 99])]
    if not contender.peer:
        row["ratio_to"] = {}
        for other in others:
            ratios = [left / right for left, right in zip(mine, rates[other], strict=True)]
            row["ratio_to"][other] = [statistics.median(ratios), min(ratios), max(ratios)]
    return row


def _training(corpus: Corpus) -> Iterator[list[Contender]]:
    del corpus
    for direct in (False, True):
        shape = Shape(direct=direct)
        named = f"full softmax{', direct connections' if direct else ''}"
        group = [
            Contender(named, _fit(shape, FullSoftmax, 24), shape.flops(training=True)),
            Contender(f"{named}, mixed_bfloat16", _fit(shape, FullSoftmax, 24, dtype="mixed_bfloat16")),
        ]
        if peers.installed("torch"):
            group.append(_torch(shape, "train"))
        yield group
    for size in (VOCABULARY_SIZE, 100_000):
        shape = Shape(size)
        with peers.isi_nplm(size, ORDER, EMBEDDING_DIM, HIDDEN_UNITS, _ngrams(shape, 1 << 16), NUM_SAMPLED) as isi:
            group = [
                Contender(f"NCE, k={NUM_SAMPLED}, V={size:,}", _fit(shape, _nce, 320)),
                Contender(f"sampled softmax, k={NUM_SAMPLED}, V={size:,}", _fit(shape, _sampled, 320)),
                Contender(f"adaptive softmax, V={size:,}", _fit(shape, AdaptiveSoftmax, 40)),
            ]
            yield group + ([Contender("ISI NPLM", isi, peer=True)] if isi else [])


def _scoring(corpus: Corpus) -> Iterator[list[Contender]]:
    shape = Shape()
    model, ngrams = _network(shape, FullSoftmax), _ngrams(shape, 1 << 13)
    group = [Contender("normalised", _score(model, ngrams), shape.flops(training=False))]
    if peers.installed("torch"):
        group.append(_torch(shape, "score"))
    yield group
    group = [Contender("self-normalised", _score(SelfNormalised(_network(shape, _nce)), _ngrams(shape, 1 << 18)))]
    yield from _count_based(corpus, group)


def _count_based(corpus: Corpus, networks: list[Contender]) -> Iterator[list[Contender]]:
    """Kneser-Ney of order n: its scores beside those of KenLM and of the networks."""
    vocabulary, ids = _encoded(corpus)
    model = kneser_ney(ids, len(vocabulary), ORDER, "sentence")
    ngrams = extract_ngrams(encode_sentences(corpus.sentences("test"), vocabulary), ORDER, "sentence")
    ngrams = np.tile(ngrams, (max(1, (1 << 17) // len(ngrams)), 1))
    group = [*networks, Contender("Kneser-Ney", _score(model, ngrams))]
    with tempfile.TemporaryDirectory() as directory:
        if peers.installed("kenlm"):
            arpa = Path(directory) / "kneser-ney.arpa"
            write_arpa(arpa, model, vocabulary)
            sentences = [" ".join(sentence) for sentence in corpus.sentences("test")]
            group.append(Contender("KenLM, full_scores", peers.kenlm_scores(arpa, sentences), peer=True))
        yield group


def _windows(corpus: Corpus) -> Iterator[list[Contender]]:
    del corpus
    ids = zipf_ids(VOCABULARY_SIZE, 1 << 20)

    def read(batch_size: int) -> Work:
        def work() -> int:
            dataset = ngram_dataset(ids, ORDER, batch_size, boundary="stream", drop_remainder=True)
            return int(dataset.reduce(0, lambda read, batch: read + tf.size(batch[1])))

        return work

    yield [Contender(f"windows, batches of {size}", read(size)) for size in (BATCH_SIZE, 128)]
    for name, make, steps in (("full softmax", FullSoftmax, 24), (f"NCE, k={NUM_SAMPLED}", _nce, 320)):
        shape = Shape()
        yield [
            Contender(f"{name}, reading windows", _fit(shape, make, steps)),
            Contender("batches that are there", _fit(shape, make, steps, ready=True), peer=True),
        ]


def _estimation(corpus: Corpus) -> Iterator[list[Contender]]:
    vocabulary, ids = _encoded(corpus)

    def estimate() -> int:
        kneser_ney(ids, len(vocabulary), ORDER, "sentence")
        return len(ids)

    group = [Contender(f"Kneser-Ney, order {ORDER}", estimate)]
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory) / "text"
        sentences = (" ".join(sentence) for sentence in corpus.sentences("train"))
        text.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
        if work := peers.lmplz(text, ORDER, len(ids)):
            group.append(Contender("KenLM, lmplz", work, peer=True))
        yield group


def _encoded(corpus: Corpus) -> tuple[Vocabulary, np.ndarray]:
    """The words of the training text, and their ids."""
    vocabulary = Vocabulary.build(corpus.sentences("train"), min_count=2)
    return vocabulary, encode_sentences(corpus.sentences("train"), vocabulary)


def _cost(corpus: Corpus) -> Iterator[list[Contender]]:
    """Training against |V|, n and h."""
    del corpus
    shapes = [Shape(size) for size in (5_000, 50_000, 200_000)] + [Shape(order=n) for n in (3, 5, 9)]
    for shape in [*shapes, *(Shape(hidden_units=h) for h in (50, 200, 400))]:
        named = f"V={shape.vocabulary_size:,} n={shape.order} h={shape.hidden_units}"
        steps = max(1, 10 * VOCABULARY_SIZE // shape.vocabulary_size)
        yield [
            Contender(f"full softmax, {named}", _fit(shape, FullSoftmax, steps), shape.flops(training=True)),
            Contender(f"NCE, k={NUM_SAMPLED}, {named}", _fit(shape, _nce, 160)),
        ]


def _serving(corpus: Corpus) -> Iterator[list[Contender]]:
    """Strings to next words by a loaded SavedModel, beside its matrix products alone; and by what runs on a device."""
    del corpus
    shape = Shape()
    vocabulary = Vocabulary([f"w{number}" for number in range(VOCABULARY_SIZE - len(SPECIALS))])
    language_model = LanguageModel(_network(shape, FullSoftmax), vocabulary, "words", "sentence")
    context_ids = _ngrams(shape, max(_REQUESTS))[:, :-1]
    texts = [" ".join(vocabulary.decode(context)) for context in context_ids]
    x = tf.random.normal([max(_REQUESTS), EMBEDDING_DIM * (ORDER - 1)])
    hidden, output = tf.random.normal([x.shape[1], HIDDEN_UNITS]), tf.random.normal([VOCABULARY_SIZE, HIDDEN_UNITS])
    products = tf.function(lambda x: tf.matmul(tf.matmul(x, hidden), output, transpose_b=True), reduce_retracing=True)
    with tempfile.TemporaryDirectory() as directory:
        loaded = tf.saved_model.load(export_saved_model(language_model, directory))
        for batch in _REQUESTS:
            predict = functools.partial(loaded.signatures["predict_next"], contexts=tf.constant(texts[:batch]))
            yield [
                _requests(f"SavedModel, {batch} a request", predict, batch),
                _requests("matrix products", functools.partial(products, x[:batch]), batch, peer=True),
            ]
        yield list(_on_device(language_model, Path(directory), context_ids[:1]))


def _on_device(language_model: LanguageModel, directory: Path, context_ids: np.ndarray) -> Iterator[Contender]:
    """One context's log-probabilities by LiteRT and by ONNX Runtime, so far as they are installed."""
    if peers.installed("ai_edge_litert"):
        for name, quantise in (("LiteRT", False), ("LiteRT in 8 bits", True)):
            path, _ = export_litert(language_model, directory / f"{name}.tflite", quantise=quantise)
            runner = peers.litert_runner(path)
            yield _requests(f"{name}, {_megabytes(path)}", functools.partial(runner, context_ids=context_ids))
    if peers.installed("tf2onnx") and peers.installed("onnxruntime"):
        path, _ = export_onnx(language_model, directory / "model.onnx")
        run = functools.partial(peers.onnx_session(path).run, None, {"context_ids": context_ids})
        yield _requests(f"ONNX Runtime, {_megabytes(path)}", run)


def _requests(name: str, ask: Callable[[], object], batch: int = 1, peer: bool = False) -> Contender:
    """Requests one after another, timed singly."""
    seconds = []

    def work() -> int:
        number = max(20, _REQUESTED // batch)
        for _ in range(number):
            began = time.perf_counter()
            ask()
            seconds.append(time.perf_counter() - began)
        return number * batch

    return Contender(name, work, peer=peer, seconds=seconds)


def _megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


BENCHMARKS: dict[str, Callable[[Corpus], Iterator[list[Contender]]]] = {
    "training": _training,
    "scoring": _scoring,
    "windows": _windows,
    "estimation": _estimation,
    "serving": _serving,
    "cost": _cost,
    "corpora": lambda corpus: iter(()),  # these two make their rows themselves: see `run`
    "workers": lambda corpus: iter(()),
}
_LONG = ("cost", "corpora", "workers")
SHORT = tuple(name for name in BENCHMARKS if name not in _LONG)  # those that are run unasked


def _nce(vocabulary_size: int, dtype: str = "float32") -> Output:
    return NoiseContrastive(vocabulary_size, NUM_SAMPLED, self_normalisation=1.0, seed=0, dtype=dtype)


def _sampled(vocabulary_size: int, dtype: str = "float32") -> Output:
    return SampledSoftmax(vocabulary_size, NUM_SAMPLED, seed=0, dtype=dtype)


def _network(shape: Shape, make: Callable[..., Output], dtype: str = "float32") -> NPLM:
    size = shape.vocabulary_size
    output = make(size, dtype=dtype)
    return NPLM(size, shape.order, EMBEDDING_DIM, shape.hidden_units, shape.direct, output=output, dtype=dtype)


def _fit(shape: Shape, make: Callable[..., Output], steps: int, ready: bool = False, dtype: str = "float32") -> Work:
    """`fit` over so many batches; `ready`: over a few dozen that lie in memory, without reading windows."""
    model = _network(shape, make, dtype)
    ids = zipf_ids(shape.vocabulary_size, BATCH_SIZE * 400)
    counts = np.bincount(ids, minlength=shape.vocabulary_size)
    model.prob.set_unigram(counts)
    model.compile(optimizer=LazySGD(0.1), steps_per_execution=20 if steps >= 100 else 1)
    dataset = ngram_dataset(ids, shape.order, BATCH_SIZE, boundary="stream", drop_remainder=True, first_epoch=0)
    if ready:
        batches = [tf.stack(part) for part in zip(*dataset.take(64), strict=True)]
        dataset = tf.data.Dataset.from_tensor_slices(tuple(batches)).repeat()

    def work() -> int:
        model.fit(dataset, steps_per_epoch=steps, shuffle=False, verbose=0)
        return steps * BATCH_SIZE

    return work


def _score(model, ngrams: np.ndarray) -> Work:
    def work() -> int:
        return len(model.log_prob(ngrams[:, :-1], ngrams[:, -1]))

    return work


def _torch(shape: Shape, what: str) -> Contender:
    sizes = shape.vocabulary_size, shape.order, EMBEDDING_DIM, shape.hidden_units, shape.direct
    network = peers.torch_network(*sizes, _ngrams(shape, BATCH_SIZE))
    return Contender("PyTorch", network[what], shape.flops(training=what == "train"), peer=True)


def _ngrams(shape: Shape, number: int) -> np.ndarray:
    return extract_ngrams(zipf_ids(shape.vocabulary_size, number), shape.order, "stream")


def _matrix_product(size: int = 2048) -> Work:
    """The core's peak: operations of a large float32 matrix product."""
    matrix = tf.random.stateless_normal([size, size], seed=[0, 0])

    def work() -> int:
        for _ in range(3):
            tf.matmul(matrix, matrix).numpy()
        return 3 * 2 * size**3

    return work


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
