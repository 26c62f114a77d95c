"""`keras-nplm prepare`: its directory gives the models of the text itself, without counting or encoding again."""

import errno
import itertools
import os

import pytest
import tensorflow_datasets as tfds

import keras_nplm.data.corpora.pieces as pieces
import keras_nplm.training.prepare as prepare
from keras_nplm import InputError, LanguageModel, open_corpus, train
from keras_nplm.cli.main import main
from keras_nplm.data.encoding import encode_sentences
from keras_nplm.io.files import read_json
from keras_nplm.training.prepare import prepare_corpus

LINES = [f"the cat number {i % 7} sat on mat {i % 11}, été" for i in range(60)]


@pytest.fixture
def text(tmp_path) -> str:
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    return str(tmp_path / "text.txt")


def _read_files(directory) -> dict[str, bytes]:
    """Read all files but the figures of time and memory."""
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name != "metrics.json")
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def _refuse(capsys, *arguments) -> str:
    assert main([*map(str, arguments)]) == 2
    return capsys.readouterr().err.splitlines()[-1]


def _refuse_link(*_):
    raise OSError(errno.EXDEV, "Invalid cross-device link")


def _forbid(*_, **__):
    raise AssertionError("the text must not be counted or encoded again")


@pytest.mark.parametrize(
    "flags",
    [
        "--min-count 4",
        "--vocabulary-scope corpus --tokenizer whitespace --normalise lower numbers",
        "--tokenizer sentencepiece --pieces 330",
    ],
)
def test_a_model_of_prepared_text_is_that_of_the_text(tmp_path, monkeypatch, text, flags):
    source, model, prepared = ["--train", text, *flags.split()], tmp_path / "model", tmp_path / "prepared"
    assert main(["ngram", *source, "--output", str(model)]) == 0
    assert main(["prepare", *source, "--output", str(prepared)]) == 0
    assert sorted(path.name for path in prepared.iterdir() if path.suffix != ".model") == [
        "corpus",
        "prepared.json",
        "vocabulary.txt",
    ]
    for name in ("count_vocabulary", "encode_corpus"):
        monkeypatch.setattr(prepare, name, _forbid)
    os.remove(text)
    for name in ("linked", "copied"):
        assert main(["ngram", "--corpus", str(prepared), "--output", str(tmp_path / name)]) == 0
        assert _read_files(tmp_path / name) == _read_files(model)
        shard = tmp_path / name / "corpus" / "train.00000.ids"
        assert shard.samefile(prepared / "corpus" / "train.00000.ids") == (name == "linked")
        monkeypatch.setattr("os.link", _refuse_link)


@pytest.mark.long
@pytest.mark.parametrize("flags", [["--epochs", "1"], ["--config", "brown-quick", "--embedding-dim", "10"]])
def test_a_network_of_prepared_text_is_that_of_the_text(tmp_path, text, flags):
    weights = {}
    assert main(["prepare", "--train", text, "--min-count", "3", "--output", str(tmp_path / "prepared")]) == 0
    fixed = ["--min-count", "3", "--vocabulary-scope", "train"]
    for name, source in {
        "text": ["--train", text, *fixed],
        "prepared": ["--corpus", str(tmp_path / "prepared")],
    }.items():
        assert main(["train", *source, *flags, "--output", str(tmp_path / name / "model")]) == 0
        weights[name] = LanguageModel.load(tmp_path / name / "model").model.get_weights()
    assert all((a == b).all() for a, b in zip(*weights.values(), strict=True))
    assert read_json(tmp_path / "text/model/config.json") == read_json(tmp_path / "prepared/model/config.json")


def test_a_prepared_corpus_has_the_sentences_of_its_ids(tmp_path, text):
    encoded, vocabulary = prepare_corpus(open_corpus(train=[text]), tmp_path / "prepared", min_count=20)
    corpus = open_corpus(str(tmp_path / "prepared"))
    assert next(corpus.sentences("train")) == ["the", "cat", "number", "<unk>", "sat", "on", "mat", "<unk>", ",", "été"]
    for split in ("train", "validation", "test"):
        assert (encode_sentences(corpus.sentences(split), vocabulary) == encoded.ids(split)).all()
    subwords = open_corpus(train=[text], tokenizer="sentencepiece")
    prepare_corpus(subwords, tmp_path / "subwords")
    assert list(open_corpus(str(tmp_path / "subwords")).sentences("test")) == LINES[54:]


def test_prepared_text_keeps_its_options(tmp_path, capsys, text):
    prepared = tmp_path / "prepared"
    assert main(["prepare", "--train", text, "--min-count", "3", "--output", str(prepared)]) == 0
    use = ["ngram", "--corpus", prepared, "--output", tmp_path / "model"]
    assert "`min_count` must be 3, with which" in _refuse(capsys, *use, "--min-count", 2)
    assert "`tokenizer` must be 'words', with which" in _refuse(capsys, *use, "--tokenizer", "whitespace")
    with pytest.raises(InputError, match="`min_count` must be 3, with which"):
        from keras_nplm import Configuration

        train(Configuration(min_count=2), open_corpus(str(prepared)), tmp_path / "model")
    assert not (tmp_path / "model").exists()
    again = ["prepare", "--train", text, "--output", prepared]
    assert "holds a run with other options: min_count." in _refuse(capsys, *again, "--min-count", 2)
    assert "exists and is not a model directory" in _refuse(capsys, "ngram", "--train", text, "--output", prepared)
    assert "must be a text. Received:" in _refuse(capsys, "prepare", "--corpus", prepared, "--output", tmp_path / "p")
    (prepared / "corpus" / "test.00000.ids").unlink()
    assert "test.00000.ids does not exist" in _refuse(capsys, *use)
    (prepared / "prepared.json").unlink()
    assert "or a directory written by `prepare`. Received:" in _refuse(capsys, *use)


def test_the_same_preparation_is_not_repeated(tmp_path, monkeypatch, text):
    command = ["prepare", "--train", text, "--output", str(tmp_path / "prepared")]
    assert main(command) == 0
    before = _read_files(tmp_path / "prepared")
    for name in ("count_vocabulary", "encode_corpus"):
        monkeypatch.setattr(prepare, name, _forbid)
    assert main(command) == 0
    assert _read_files(tmp_path / "prepared") == before


class Texts(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A TFDS set of the given texts."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, texts: list[bytes], **kwargs):
        self.texts = texts
        super().__init__(**kwargs)

    def _info(self):
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict({"text": tfds.features.Text()}))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        yield from ((number, {"text": text}) for number, text in enumerate(self.texts))


@pytest.mark.long
def test_a_tfds_set_does_not_depend_on_where_it_is_cut(tmp_path, monkeypatch):
    """Pieces of a set of several files become shards; the ids are those of the sentences, file by file."""
    builder = Texts([f"line {i}\nthe end of {i}".encode() for i in range(200)], data_dir=str(tmp_path))
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=5))
    monkeypatch.setattr(tfds, "builder", lambda _: builder)
    whole = open_corpus("tfds:texts")
    monkeypatch.setattr(pieces, "PIECE_BYTES", 1000)
    cut = open_corpus("tfds:texts")
    numbers = [len(split.pieces) for split in cut.splits.values()]
    assert min(numbers) > 0 and numbers[0] > 5
    sentences = {split: list(whole.sentences(split)) for split in ("train", "validation", "test")}
    assert sorted(itertools.chain(*sentences.values())) == sorted(
        words for i in range(200) for words in (["line", str(i)], ["the", "end", "of", str(i)])
    )
    encoded, vocabulary = prepare_corpus(cut, tmp_path / "prepared")
    assert len(encoded.splits["train"]["shards"]) == numbers[0]
    for split, lines in sentences.items():
        assert list(cut.sentences(split)) == lines
        assert (encode_sentences(lines, vocabulary) == encoded.ids(split)).all()


@pytest.mark.long
def test_processes_read_a_tfds_set_in_parallel_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 40_000)
    started, run = [], pieces.run_in_processes
    monkeypatch.setattr(pieces, "count_processes", lambda: 3)
    monkeypatch.setattr(pieces, "run_in_processes", lambda *arguments: started.append(arguments[-1]) or run(*arguments))
    for name, least in {"alone": 1 << 28, "together": 0}.items():
        monkeypatch.setattr(pieces, "PARALLEL_TFDS_BYTES", least)
        prepare_corpus(open_corpus("tfds:python_reference", tokenizer="whitespace"), tmp_path / name)
    assert started == [1, 1, 3, 3]  # counted and encoded
    assert _read_files(tmp_path / "alone") == _read_files(tmp_path / "together")


def test_text_of_a_tfds_set_that_is_not_utf8_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tfds, "builder", lambda _: Texts([b"caf\xe9"], data_dir=str(tmp_path)))
    with pytest.raises(InputError, match=r"Example \d+ of the \w+ split in .* is not UTF-8 text"):
        list(open_corpus("tfds:texts").sentences("train"))
