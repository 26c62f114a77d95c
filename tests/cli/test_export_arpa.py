"""`export` to ARPA files: a network and a count-based model."""

import json

import numpy as np

from keras_nplm import LanguageModel, Vocabulary
from keras_nplm.cli.exporting import export
from keras_nplm.cli.main import main
from keras_nplm.cli.printing import print_result
from keras_nplm.models.ngrams import kneser_ney, prune, read_arpa, write_arpa

V = 9  # <pad> <unk> <s> </s> and five words


def _text():
    ids = np.random.default_rng(3).choice([1, 4, 5, 6, 7], 300).astype(np.int32)
    ids[6::7] = 3
    return np.append(ids, 3).astype(np.int32)


def test_export_approximates_a_network_on_a_text_and_prunes_it(model_directory, tmp_path, capsys):
    text = tmp_path / "text.txt"
    path = tmp_path / "small.arpa.gz"
    text.write_text(
        "The following table shows the result of the call .\nIt is the same .\n", encoding="utf-8"
    )
    vocabulary = Vocabulary.load(model_directory / "vocabulary.txt")
    flags = ["--order", "2", "--text", str(text), "--min-expected-count", "0.5"]
    assert main(["export", str(model_directory), str(path), *flags]) == 0
    whole, _ = read_arpa(path, vocabulary)
    capsys.readouterr()
    flags += ["--prune", "1e-6", "--json"]
    assert main(["export", str(model_directory), str(path), *flags]) == 0
    output, (model, _) = json.loads(capsys.readouterr().out), read_arpa(path, vocabulary)
    compare = f"keras-nplm evaluate {model_directory} {path} --text FILE --tokenizer words"
    assert output == {
        "format": "arpa",
        "ngrams": model.num_ngrams,
        "written": [str(path)],
        "approximated": str(model_directory),
        "compare": compare,
    }
    print_result(export, output)
    *_, of, last = capsys.readouterr().out.splitlines()
    assert (of, last) == (f"an approximation of {model_directory}", f"compare: {compare}")
    assert model.num_ngrams[0] < sum(model.num_ngrams) < sum(whole.num_ngrams)


def test_export_of_a_count_based_model_only_prunes(tmp_path, capsys):
    vocabulary = Vocabulary(["the", "cat", "sat", "on", "mat"])
    directory = tmp_path / "model"
    model = kneser_ney(_text(), V, 3, "stream")
    LanguageModel(model, vocabulary, "words", "stream").save(directory)
    for flags, expected in (([], model), (["--prune", "1e-3"], prune(model, 1e-3))):
        assert main(["export", str(directory), str(tmp_path / "a.arpa"), *flags, "--json"]) == 0
        output = json.loads(capsys.readouterr().out)
        assert output["ngrams"] == expected.num_ngrams and "approximated" not in output
        write_arpa(tmp_path / "b.arpa", expected, vocabulary)
        assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()
    assert main(["export", str(directory), str(tmp_path / "a.arpa"), "--order", "2"]) == 2
    assert (
        "`--text` must name a text if the model directory has no corpus/" in capsys.readouterr().err
    )
