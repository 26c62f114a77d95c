"""The files of a page: what they hold, how they are replaced, what is refused.

The scripts run in Node (`test_page_script.py`) and in Chromium (`test_page_in_chromium.py`).
"""

import base64
import errno
import gzip
import json
import os
import re
import sys
import tarfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from keras_nplm import RunError, export_page
from keras_nplm.data.tokenizers.words import WordTokenizer
from keras_nplm.serving import web_page
from keras_nplm.serving.web_page import read_facts
from tests.files import read_files
from tests.tokenizers import build_model


def read_constants(path: Path) -> dict:
    """Return the constants that a script of a page defines."""
    text = path.read_text(encoding="utf-8")
    pairs = re.findall(r"^const (\w+) = (.*?);$", text, re.MULTILINE | re.DOTALL)
    return {name: json.loads(value) for name, value in pairs}


@pytest.mark.long
def test_a_page_holds_the_model_the_words_and_the_facts(language_model, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is needed")
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    config = {"corpus": "corpora/</script>"}
    metrics = {"test": {"perplexity": 56.789}, "parameters": 1234}
    target = tmp_path / "new" / "page"
    index = export_page(language_model, target, config=config, metrics=metrics)
    assert index == target / "index.html"
    assert os.listdir(target.parent) == ["page"]
    scripts = re.findall(r'src="([^"]+)"', index.read_text(encoding="utf-8"))
    assert {*scripts, "index.html", "page.css"} == {*os.listdir(target)}
    facts = read_facts(index)
    assert facts["context_length"] == 3
    # set as text, in a file of its own
    card = {"Trained on": "corpora/</script>", "Perplexity": "56.79 (test)", "Parameters": "1,234"}
    assert card.items() <= dict(facts["card"]).items()
    words = read_constants(target / "vocabulary.js")
    assert words == {"WORDS": language_model.vocabulary.words, "FORMS": {}}
    loads = read_constants(target / "runtime.js")["RUNTIME"]
    assert loads["address"].endswith(f"onnxruntime-web@{web_page.RUNTIME_VERSION}/dist/")
    network = read_constants(target / "model.js")["MODEL"]
    session = runtime.InferenceSession(gzip.decompress(base64.b64decode(network)))
    contexts = np.array([[2, 2, 4], [5, 6, 7]], np.int32)
    [log_probs] = session.run(None, {"context_ids": contexts})
    np.testing.assert_allclose(log_probs, language_model.model.next_log_probs(contexts), atol=2e-5)


@pytest.fixture
def without_conversion(monkeypatch):
    """tf2onnx makes empty files, so that a page takes no second."""
    converted = Mock(**{"SerializeToString.return_value": b""})
    library = Mock(**{"convert.from_function.return_value": (converted, None)})
    monkeypatch.setitem(sys.modules, "tf2onnx", library)


@pytest.mark.usefixtures("without_conversion")
def test_an_earlier_page_is_replaced(language_model, tmp_path, monkeypatch):
    (tmp_path / "served").mkdir()
    page = tmp_path / "page"
    page.symlink_to("served")  # stays a link
    assert export_page(language_model, page) == page / "index.html"
    # of a file manager, and of a killed export
    for name in (".DS_Store", ".model.nplm-7.js"):
        (page / name).write_bytes(b"")
    files = read_files(page)
    replace = Mock(wraps=os.replace)
    monkeypatch.setattr(os, "replace", replace)
    export_page(language_model, page, config={"corpus": "brown"})
    replaced = read_files(page)
    assert files.keys() - replaced.keys() == {".model.nplm-7.js"}
    assert {name for name in replaced if replaced[name] != files[name]} == {"facts.js"}
    assert sorted(os.listdir(tmp_path)) == ["page", "served"] and page.is_symlink()
    names = [Path(call.args[1]).name for call in replace.call_args_list]
    assert names[-1] == "facts.js"  # the page is whole where this is new
    assert {*names} & replaced.keys() == replaced.keys() - {".DS_Store"}
    # the working directory, which as a mount point cannot be renamed
    monkeypatch.chdir(page)
    assert export_page(language_model, ".") == Path("index.html")


@pytest.mark.usefixtures("without_conversion")
def test_a_full_disk_leaves_the_earlier_page(language_model, tmp_path, monkeypatch):
    export_page(language_model, tmp_path / "page")
    files = read_files(tmp_path / "page")
    full = OSError(errno.ENOSPC, "No space left on device")
    # the files of the model and two scripts are on the disk
    monkeypatch.setattr(web_page.shutil, "copyfile", Mock(side_effect=[None, None, full] * 2))
    for name in ("page", "new"):
        message = rf"Cannot write .*{name}/\S+: No space left .* is unchanged\."
        with pytest.raises(RunError, match=message):
            export_page(language_model, tmp_path / name, config={"corpus": "brown"})
    assert read_files(tmp_path / "page") == files
    assert os.listdir(tmp_path) == ["page"]


class MarkedWords(WordTokenizer):
    """A tokenizer of one's own, which the page does not know."""

    kind = "marked words"


@pytest.mark.usefixtures("without_conversion")
def test_other_targets_tokenizers_and_models_are_refused(
    language_model, tmp_path, monkeypatch, messages
):
    for name in ("notes.txt", "index.html"):
        (tmp_path / name / "page").mkdir(parents=True)
        (tmp_path / name / "page" / name).write_text("mine", encoding="utf-8")
        messages.refuse(lambda name=name: export_page(language_model, tmp_path / name / "page"))
        assert read_files(tmp_path / name / "page") == {name: b"mine"}
    file = tmp_path / "notes.txt" / "page" / "notes.txt"
    messages.refuse(lambda: export_page(language_model, file))
    lines = ["the cat sat on the mat", "abcdefghijklmnopqrstuvwxyz"] * 20
    for tokenizer in ("sentencepiece", MarkedWords()):
        other = build_model(tokenizer, lines)
        messages.refuse(lambda other=other: export_page(other, tmp_path / "new"))
    monkeypatch.setattr(web_page, "MOST_MODEL_BYTES", -1)
    messages.refuse(lambda: export_page(language_model, tmp_path / "new"))
    assert sorted(os.listdir(tmp_path)) == ["index.html", "notes.txt"]


@pytest.mark.parametrize("names", [None, [], web_page.RUNTIME_FILES])
def test_a_runtime_other_than_the_tested_one_is_refused(names, messages, language_model, tmp_path):
    """No archive, a different package, a different version."""
    runtime = tmp_path / "onnxruntime-web.tgz"
    runtime.write_bytes(b"text")
    if names is not None:
        with tarfile.open(runtime, "w:gz") as archive:
            for name in names:
                archive.addfile(tarfile.TarInfo(f"package/dist/{name}"))
    messages.refuse(lambda: export_page(language_model, tmp_path / "page", runtime=runtime))
    assert os.listdir(tmp_path) == [runtime.name]
