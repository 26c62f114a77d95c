"""Epochs that show a share of each of several texts: which n-grams they show, from memory and from shards."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.encoded_corpus as encoded_corpus
import keras_nplm.data.resampling as resampling
from keras_nplm import (
    EncodedCorpus,
    InputError,
    LanguageModel,
    Resampled,
    ngram_dataset,
    open_corpus,
)
from keras_nplm.cli.main import main
from keras_nplm.data.shards import ShardedIds

PLACES = ("memory", "shards")
TRAIN = "--order 3 --embedding-dim 4 --hidden-units 4 --epochs 2 --batch-size 16 --min-count 1".split()


def _texts(*sizes):
    """Texts of so many words, which all differ, so that no two n-grams are alike; in sentences of 1 to 5 words."""
    texts, first = [], 4
    for size in sizes:
        ids = []
        for word in range(first, first + size):
            ids += [word, 3] if word % 7 in (0, 2) or word == first + size - 1 else [word]
        texts.append(np.array(ids, np.int32))
        first += size
    return texts


def _ngrams(ids, order, boundary):
    """The n-grams of a text, one by one in plain Python."""
    fill = [0 if boundary == "stream" else 2] * (order - 1)
    ngrams, context = [], list(fill)
    for target in ids.tolist():
        if boundary == "sentence" or target != 3:
            ngrams.append((*context, target))
            context = [*context[1:], target]
        if boundary == "sentence" and target == 3:
            context = list(fill)
    return ngrams


def _resampled(texts, shares, where, directory):
    """The texts in memory, in shards, or the first of them in memory and the others in shards."""
    given = list(texts)
    for number, text in enumerate(texts):
        if where == "shards" or (where == "both" and number):
            parts = np.split(text.astype("<i4"), [len(text) // 3])
            paths = [directory / f"{number}.{part}.ids" for part in range(2)]
            for path, part in zip(paths, parts, strict=True):
                part.tofile(path)
            given[number] = ShardedIds(paths, vocabulary_size=1 << 20)
    return Resampled(list(zip(given, shares, strict=True)))


def _batches(dataset, number):
    """The n-grams in the first so many batches."""
    taken = dataset.take(number).as_numpy_iterator()
    return [list(map(tuple, np.column_stack(batch).tolist())) for batch in taken]


def _epochs(resampled, number, **options):
    """The n-grams of the first so many epochs, each in its order."""
    options = {"order": 3, "batch_size": 8, "boundary": "stream"} | options
    each = int(ngram_dataset(resampled, **options).cardinality())
    batches = _batches(ngram_dataset(resampled, first_epoch=0, **options), number * each)
    return [list(itertools.chain(*batches[i * each : (i + 1) * each])) for i in range(number)]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 5 ids and pools of about 50 n-grams, so that a small text has many."""
    monkeypatch.setattr(resampling, "RESAMPLED_BLOCK", 5)
    monkeypatch.setattr(resampling, "RESAMPLED_POOL", 50)


@settings(deadline=None, max_examples=12)
@given(
    st.lists(st.tuples(st.integers(10, 50), st.floats(0.06, 1) | st.just(1.0)), min_size=1, max_size=3),
    st.integers(2, 5),
    st.sampled_from(["stream", "sentence"]),
    st.integers(1, 9),
    st.integers(1, 12),
    st.integers(1, 60),
    st.sampled_from([*PLACES, "both"]),
)
def test_an_epoch_shows_so_many_of_each_text_and_all_come_before_any_comes_again(
    tmp_path_factory, described, order, boundary, batch_size, block, pool, where
):
    texts, shares = _texts(*(size for size, _ in described)), [share for _, share in described]
    resampled = _resampled(texts, shares, where, tmp_path_factory.mktemp("texts"))
    with pytest.MonkeyPatch.context() as context:
        context.setattr(resampling, "RESAMPLED_BLOCK", block)
        context.setattr(resampling, "RESAMPLED_POOL", pool)
        epochs = _epochs(resampled, 5, order=order, boundary=boundary, batch_size=batch_size)
    ngrams = [_ngrams(text, order, boundary) for text in texts]
    seen = [dict.fromkeys(of_text, 0) for of_text in ngrams]
    for epoch in epochs:
        assert len(epoch) == len(set(epoch))
        for of_text, share in zip(seen, shares, strict=True):
            shown = [ngram for ngram in epoch if ngram in of_text]
            assert len(shown) == round(share * len(of_text))
            for ngram in shown:
                of_text[ngram] += 1
            assert max(of_text.values()) - min(of_text.values()) <= 1
    assert sum(sum(of_text.values()) for of_text in seen) == sum(map(len, epochs))  # and nothing else is shown


@pytest.mark.parametrize("where", PLACES)
def test_targets_outside_a_short_list_are_not_among_those_drawn(tmp_path, small_blocks, where):
    texts = [np.array([4, 9, 5, 9, 6, 3] * 20, np.int32), np.array([7, 9, 9, 8, 3] * 40, np.int32)]
    epochs = _epochs(_resampled(texts, [1, 0.5], where, tmp_path), 2, boundary="sentence", targets_below=9)
    listed = [[ngram for ngram in _ngrams(text, 3, "sentence") if ngram[-1] < 9] for text in texts]
    for epoch in epochs:
        assert max(ngram[-1] for ngram in epoch) < 9 and len(epoch) == len(listed[0]) + len(listed[1]) // 2
    assert sorted(epochs[0] + epochs[1]) == sorted(listed[0] * 2 + listed[1])


@pytest.mark.parametrize("where", PLACES)
def test_ten_epochs_at_a_tenth_show_each_once(tmp_path, small_blocks, where):
    small, large = _texts(30, 400)
    epochs = _epochs(_resampled([small, large], [1, 0.1], where, tmp_path), 20)
    of_large = [[ngram for ngram in epoch if ngram[-1] >= 34] for epoch in epochs]
    assert [len(shown) for shown in of_large] == [40] * 20
    for ten in (of_large[:10], of_large[10:]):
        assert sorted(itertools.chain(*ten)) == sorted(_ngrams(large, 3, "stream"))
    assert all({ngram[-1] for ngram in epoch} >= set(range(4, 34)) for epoch in epochs)


@pytest.mark.parametrize("where", PLACES)
def test_an_epoch_mixes_the_texts_and_has_an_order_of_its_own(tmp_path, small_blocks, where):
    resampled = _resampled(_texts(200, 2000), [1, 0.3], where, tmp_path)
    first, second = _epochs(resampled, 2, seed=5)
    assert _epochs(resampled, 2, seed=5) == [first, second]
    assert _epochs(resampled, 1, seed=-6)[0] != first
    dataset = ngram_dataset(resampled, 3, 8, boundary="stream", seed=5)
    again = [list(itertools.chain(*_batches(dataset, 100))) for _ in range(2)]
    assert again == [first, second]
    for epoch in (first, second):
        of_small = np.array([ngram[-1] < 204 for ngram in epoch])
        assert of_small.sum() == 200 and len(epoch) == 800
        quarters = of_small.reshape(8, 100).sum(axis=1)
        assert quarters.min() >= 12 and quarters.max() <= 38  # 25 of each hundred
        targets = np.array([ngram[-1] for ngram in epoch])[~of_small]
        assert abs(np.corrcoef(targets[1:], targets[:-1])[0, 1]) < 0.2
        assert len(set((targets - 204) // 100)) == 20  # from all over the large text
    of_small = [[ngram for ngram in epoch if ngram[-1] < 204] for epoch in (first, second)]
    assert sorted(of_small[0]) == sorted(of_small[1]) and of_small[0] != of_small[1]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("drop_remainder", [True, False])
def test_an_epoch_goes_on_where_it_was_left(tmp_path, small_blocks, where, drop_remainder):
    resampled = _resampled(_texts(37, 150), [1, 0.4], where, tmp_path)
    options = dict(order=3, batch_size=4, boundary="sentence", drop_remainder=drop_remainder, seed=3)
    each = int(ngram_dataset(resampled, **options).cardinality())
    whole = _batches(ngram_dataset(resampled, first_epoch=0, **options), 4 * each)
    for epoch, first_batch in ((0, 1), (1, 0), (1, each // 2), (2, each - 1)):
        rest = ngram_dataset(resampled, first_epoch=epoch, first_batch=first_batch, **options)
        begin = epoch * each + first_batch
        assert _batches(rest, 4 * each - begin) == whole[begin:]
    with pytest.raises(InputError, match=f"`first_batch` must be 0 to {each - 1}"):
        ngram_dataset(resampled, first_epoch=0, first_batch=each, **options)


def test_of_shards_little_more_is_read_than_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(resampling, "RESAMPLED_BLOCK", 50)
    monkeypatch.setattr(resampling, "RESAMPLED_POOL", 300)
    texts = _texts(100, 5000)
    dataset = ngram_dataset(_resampled(texts, [1, 0.1], "shards", tmp_path), 3, 8, boundary="stream")
    read, whole = [], ShardedIds.read
    monkeypatch.setattr(ShardedIds, "read", lambda self, *range: read.append(range) or whole(self, *range))
    assert len(_batches(dataset, 100)) == 75  # 100 + 500 n-grams
    shown = len(texts[0]) + len(texts[1]) / 10
    assert shown < sum(stop - start for start, stop in read) < 1.4 * shown


@pytest.mark.parametrize(
    "texts, options, message",
    [
        ([], {}, "`texts` must have at least one"),
        *[
            ([(np.array([4, 3]), share)], {}, r"must be a number in \(0, 1\]")
            for share in (0, 2, -0.1, np.nan, "1", True)
        ],
        ([(np.array([4, 5, 3]), 0.1)], {}, "A share of 0.1 of 2 n-grams must be at least one"),
        ([(np.array([3]), 1)], {}, "no word to predict"),
        ([(np.array([4, 3]), 1)], {"shuffle": False}, "`shuffle` must be True for Resampled"),
        ([(np.array([4, 3]), 1)], {"order": 1}, "`order` .* must be 2 or more"),
        ([(np.array([4, 3]), 1)], {"batch_size": 2, "drop_remainder": True}, "1 n-grams do not fill a batch of 2"),
    ],
)
def test_texts_and_shares_that_are_none_are_refused(texts, options, message):
    with pytest.raises(InputError, match=message):
        ngram_dataset(Resampled(texts), **{"order": 3, "batch_size": 1, "boundary": "stream"} | options)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of text: a small one, large ones with `=` in their names, and held-out ones."""
    directory = tmp_path_factory.mktemp("files")
    lines = {"in.txt": 20, "out=0.5.a.txt": 60, "out=0.5.b.txt": 60, "web.txt": 100, "validation.txt": 6, "test.txt": 6}
    for number, (name, size) in enumerate(lines.items()):
        words = "the cat sat on a mat and dogs ran off".split()
        text = [" ".join(words[(i * j + number) % 10] for j in range(3 + i % 4)) for i in range(size)]
        (directory / name).write_text("\n".join([*text, name.partition(".")[0]]) + "\n")
    return directory


def _arguments(files, output, *more):
    held = ["--validation", files / "validation.txt", "--test", files / "test.txt"]
    given = [
        "--train",
        files / "in.txt",
        "--resample",
        "0.5",
        files / "out=*.txt",
        "--resample",
        0.25,
        files / "web.txt",
    ]
    return [*map(str, ["train", *given, *held, "--output", output, "--json", *TRAIN, *more])]


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    """A model trained on the files, without moving from where it began."""
    directory = tmp_path_factory.mktemp("models") / "m"
    assert main(_arguments(files, directory, "--learning-rate", "0")) == 0
    return directory


def _count(path):
    """The words and the ends of sentences in a file, as `--boundary sentence` predicts them."""
    return [word for line in path.read_text().splitlines() for word in (*line.replace("=", " = ").split(), "</s>")]


def test_train_shows_each_file_its_share(trained, files):
    described = json.loads((trained / "corpus" / "corpus.json").read_text())["splits"]["train"]
    assert described["shares"] == [[1, 1.0], [1, 0.5], [1, 0.25]]
    assert "resample 0.5:" in json.loads((trained / "config.json").read_text())["corpus"]
    encoded = EncodedCorpus.load(trained / "corpus")
    resampled = encoded.for_training()
    assert resampled.in_memory and resampled.shares == [1, 0.5, 0.25]
    sizes = [len(text) for text in resampled.texts]
    expected = [["in.txt"], ["out=0.5.a.txt", "out=0.5.b.txt"], ["web.txt"]]
    assert sizes == [sum(len(_count(files / name)) for name in names) for names in expected]
    assert all(text[-1] == 3 for text in resampled.texts)
    steps = sum(round(share * size) for share, size in zip(resampled.shares, sizes, strict=True)) // 16
    history = json.loads((trained / "metrics.json").read_text())["history"]
    assert len(history) == 2 and all(row["ngrams_per_second"] > 0 for row in history)
    assert _tensorboard_steps(trained / "logs") == 2 * steps
    np.testing.assert_array_equal(encoded.frequencies_by_share()[0].sum(axis=0), encoded.frequencies())


def _tensorboard_steps(directory):
    """The last update of which the logs tell."""
    import tensorflow as tf

    events = [event for path in directory.rglob("events*") for event in tf.compat.v1.train.summary_iterator(str(path))]
    return max(event.step for event in events)


def test_it_begins_as_the_unigram_model_of_what_epochs_show(trained, files):
    language_model = LanguageModel.load(trained)
    shares = {"in.txt": 1, "out=0.5.a.txt": 0.5, "out=0.5.b.txt": 0.5, "web.txt": 0.25}
    weighted = {}
    for name, share in shares.items():
        for word in _count(files / name):
            weighted[word] = weighted.get(word, 0) + share
    ids = language_model.vocabulary.encode(["the", "web", "in", "cat"])
    found = np.exp(language_model.model.prob.b.numpy()[ids])
    total = sum(weighted.values()) + 0.25  # <unk>, never met, counts as a word met once where it is shown least
    np.testing.assert_allclose(found, [weighted[word] / total for word in ("the", "web", "in", "cat")], rtol=1e-5)


def test_the_same_from_shards_and_another_share_is_another_run(trained, files, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(encoded_corpus, "IN_MEMORY", 0)
    resampled = EncodedCorpus.load(trained / "corpus").for_training()
    assert not resampled.in_memory
    in_memory = _resampled([text.read(0, len(text)) for text in resampled.texts], resampled.shares, "memory", tmp_path)
    boundary = dict(boundary="sentence")
    assert len(_epochs(resampled, 1, **boundary)[0]) == len(_epochs(in_memory, 1, **boundary)[0])
    assert main(_arguments(files, tmp_path / "m")) == 0  # trains from shards
    capsys.readouterr()
    arguments = _arguments(files, trained, "--learning-rate", "0")
    assert main(arguments) == 0  # finished
    arguments[arguments.index("0.5")] = "0.4"
    assert main(arguments) == 2
    assert "holds a run with other options" in capsys.readouterr().err


def test_count_based_models_take_all_of_the_text(trained, files, tmp_path, capsys):
    arguments = _arguments(files, tmp_path / "kn")
    ngram = ["ngram", *arguments[1 : arguments.index("--json")], "--json", "--order", "2", "--min-count", "1"]
    assert main(ngram) == 0
    bigrams = json.loads(capsys.readouterr().out)["ngrams"][1]
    pairs = set()
    for name in ("in.txt", "out=0.5.a.txt", "out=0.5.b.txt", "web.txt"):
        words = ["</s>", *_count(files / name)]
        pairs |= set(itertools.pairwise(words))
    assert bigrams == len(pairs)
    assert (tmp_path / "kn" / "vocabulary.txt").read_bytes() == (trained / "vocabulary.txt").read_bytes()


def test_by_lines_only_what_is_not_resampled_is_split(files):
    corpus = open_corpus(train=[str(files / "in.txt")], resample=[(0.5, [str(files / "web.txt")])])
    lines = {name: (files / name).read_text().splitlines() for name in ("in.txt", "web.txt")}
    sentences = [" ".join(sentence) for sentence in corpus.sentences("train")]
    assert sentences == lines["in.txt"][:17] + lines["web.txt"]
    assert [" ".join(s) for split in ("validation", "test") for s in corpus.sentences(split)] == lines["in.txt"][17:]
    assert corpus.splits["train"].shares == ((1, 1.0), (1, 0.5))


@pytest.mark.parametrize(
    "arguments, message",
    [
        *[
            (f"--resample {share} {{files}}/web.txt", "must be a share in (0, 1] and then")
            for share in "0 2 nan -1 x".split()
        ],
        ("--resample {files}/web.txt 0.5", "must be a share in (0, 1] and then files"),
        ("--resample 0.5", "must be a share in (0, 1] and then files"),
        ("--resample 0.5 {files}/none.txt", "No such text file"),
        ("--resample 0.5 {files}/in.txt", "in.txt is named twice"),
        ("--resample 0.5 {files}/web.txt --resample 1 {files}/w*.txt", "web.txt is named twice"),
        ("--resample 0.0001 {files}/web.txt", "A share of 0.0001 of"),
        ("--resample 0.5 half\ud800", "half a surrogate pair"),
    ],
)
def test_shares_and_files_that_are_none_are_refused(files, tmp_path, capsys, arguments, message):
    train = f"train --train {{files}}/in.txt {arguments} --output {{files}}/never".format(files=files).split()
    train[-1] = str(tmp_path / "m")
    assert main([*train, *TRAIN]) == 2
    assert message in capsys.readouterr().err


def test_what_is_resampled_alone_needs_held_out_text(files, tmp_path, capsys):
    resample = ["train", "--resample", "0.5", str(files / "web.txt"), "--output", str(tmp_path / "m"), *TRAIN]
    assert main(resample) == 2
    assert "name --train, or both --validation and --test" in capsys.readouterr().err
    held = {split: [str(files / f"{split}.txt")] for split in ("validation", "test")}
    corpus = open_corpus(resample=[(0.5, [str(files / "web.txt")])], **held)
    assert corpus.splits["train"].shares == ((1, 0.5),)


@pytest.mark.parametrize(
    "shares",
    [
        [],
        {},
        "x",
        [[3]],
        [[2, 1.0]],
        [[4, 1.0]],
        [[1, 1.0], [2, 0]],
        [[3, 2]],
        [[3, "1"]],
        [[3.0, 1]],
        [[4, 1], [-1, 1]],
    ],
)
def test_shares_of_corpus_json_that_are_none_are_refused(trained, tmp_path, shares):
    description = json.loads((trained / "corpus" / "corpus.json").read_text())
    description["splits"]["train"]["shares"] = shares
    (tmp_path / "corpus.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"`shares` in .*corpus.json must be pairs"):
        EncodedCorpus.load(tmp_path)


def test_a_share_of_nothing_leaves_the_directory_to_a_larger_one(files, tmp_path, capsys):
    command = ["train", "--train", str(files / "in.txt"), *TRAIN, "--output", str(tmp_path / "m"), "--resample"]
    command += ["SHARE", str(files / "web.txt")]
    command[command.index("SHARE")] = "0.0001"
    assert main(command) == 2
    assert "A share of 0.0001 of" in capsys.readouterr().err
    command[command.index("0.0001")] = "0.5"
    assert main(command) == 0
