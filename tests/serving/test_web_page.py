"""The web page of notebooks/03_serving.ipynb: its module gives in Node tokens, words and
probabilities of Python.
"""

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from keras_nplm import LanguageModel, export_onnx

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03_serving.ipynb"
NODE = shutil.which("node")
NPM = shutil.which("npm")
TEXTS = [
    "The value of the",
    "If the object is",
    "",
    "don't re-use x_1: “a’s” ½ 日本語-é\x85\ufeff<s>…",
    "word " * 30,
]
CHECK = """
import { readFile } from "node:fs/promises";
import { load, tokenize } from "./page/next-words.mjs";
globalThis.fetch = async (path) => new Response(await readFile(path));
const nextWords = await load("page"), answers = [];
for (const text of TEXTS) answers.push({ tokens: tokenize(text), words: await nextWords(text, 5) });
console.log(JSON.stringify(answers));
"""


def ignore(*printed: object) -> None:
    """In place of `print`."""


@pytest.mark.long
@pytest.mark.skipif(not (NODE and NPM), reason="needs node and npm")
def test_the_module_gives_the_words_of_python(tmp_path, monkeypatch):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    monkeypatch.chdir(tmp_path)
    language_model = LanguageModel.from_preset("starter")
    cells = [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    ]
    (exported,) = (cell for cell in cells if "export_onnx(" in cell and "page/next.onnx" in cell)
    names = {
        "language_model": language_model,
        "export_onnx": export_onnx,
        "json": json,
        "Path": Path,
        "print": ignore,
    }
    exec(exported, names)
    (module,) = (cell for cell in cells if cell.startswith("%%writefile page/next-words.js"))
    address, version = re.search(
        r'"(https://cdn\.jsdelivr\.net/npm/onnxruntime-web@([\d.]+)/dist/)"', module
    ).groups()
    module = module.partition("\n")[2].replace(address, f"file://{tmp_path}/package/dist/")
    (tmp_path / "page" / "next-words.mjs").write_text(module, encoding="utf-8")
    packed = subprocess.run(
        [NPM, "pack", f"onnxruntime-web@{version}"], capture_output=True, text=True
    )
    if packed.returncode:
        pytest.skip(f"onnxruntime-web cannot be downloaded: {packed.stderr[-200:]}")
    with tarfile.open(packed.stdout.split()[-1]) as archive:
        archive.extractall(filter="data")
    (tmp_path / "check.mjs").write_text(CHECK.replace("TEXTS", json.dumps(TEXTS)), encoding="utf-8")
    run = subprocess.run([NODE, "check.mjs"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-1000:]
    for text, answer in zip(TEXTS, json.loads(run.stdout), strict=True):
        assert answer["tokens"] == language_model.tokenize(text)
        exact = dict(language_model.next_words(text, len(language_model.codec.proposed_ids)))
        of_page = {word["word"]: word["probability"] for word in answer["words"]}
        assert of_page == pytest.approx({word: exact[word] for word in of_page}, rel=0.2)  # 8 bits
        assert min(of_page.values()) >= sorted(exact.values())[-5] * 0.8
