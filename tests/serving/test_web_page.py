"""The web page of notebooks/03_serving.ipynb gives in Chromium the tokens, words and probabilities of Python."""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest

from keras_nplm import LanguageModel, export_onnx

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03_serving.ipynb"
CHROMIUM, NPM = shutil.which("chromium"), shutil.which("npm")
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
FLAGS += "--disable-component-update --disable-sync --virtual-time-budget=60000"
TEXTS = ["The value of the", "If the object is", "", "don't re-use x_1: “a’s” ½ 日本語-é\x85\ufeff<s>…", "word " * 30]
CHECK = """<!doctype html><meta charset="utf-8"><pre id="answers"></pre><script type="module">
import { load, tokenize } from "./next-words.js";
const nextWords = await load("."), answers = [];
for (const text of TEXTS) answers.push({ tokens: tokenize(text), words: await nextWords(text, 5) });
document.getElementById("answers").textContent = JSON.stringify(answers);
</script>"""
pytestmark = [pytest.mark.long, pytest.mark.skipif(not (CHROMIUM and NPM), reason="needs chromium and npm")]


@pytest.fixture(scope="module")
def language_model():
    return LanguageModel.from_preset("reference")


@pytest.fixture(scope="module")
def page(language_model, tmp_path_factory):
    """The files that the notebook writes, with the runtime beside them in place of the content network."""
    directory = tmp_path_factory.mktemp("web")
    cells = ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]]
    cells = cells[next(i for i, cell in enumerate(cells) if "## A web page" in cell) :]
    (exported,) = (cell for cell in cells if "export_onnx(" in cell)
    names = {"language_model": language_model, "export_onnx": export_onnx, "json": json, "print": lambda *_: None}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        exec(exported, names | {"Path": Path})
    for cell in cells:
        if cell.startswith("%%writefile"):
            name, _, text = cell.removeprefix("%%writefile ").partition("\n")
            (directory / name).write_text(text + "\n", encoding="utf-8")
    module = directory / "page" / "next-words.js"
    text = module.read_text(encoding="utf-8")
    address, version = re.search(r'"(https://cdn\.jsdelivr\.net/npm/onnxruntime-web@([\d.]+)/dist/)"', text).groups()
    module.write_text(text.replace(address, "/package/dist/"), encoding="utf-8")
    packed = subprocess.run([NPM, "pack", f"onnxruntime-web@{version}"], cwd=directory, capture_output=True, text=True)
    if packed.returncode:
        pytest.skip(f"onnxruntime-web cannot be downloaded: {packed.stderr[-200:]}")
    with tarfile.open(directory / packed.stdout.split()[-1]) as archive:
        parts = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
        for part in parts:
            archive.extract(f"package/dist/{part}", directory / "page", filter="data")
    return directory / "page"


@pytest.fixture(scope="module")
def browse(page, tmp_path_factory):
    """A function from the path of a page to its content after its scripts have run."""
    server = http.server.ThreadingHTTPServer(
        ("localhost", 0), functools.partial(http.server.SimpleHTTPRequestHandler, directory=page)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    profile = tmp_path_factory.mktemp("profile")

    def browse(path):
        command = [CHROMIUM, *FLAGS.split(), f"--user-data-dir={profile}", "--dump-dom"]
        url = f"http://localhost:{server.server_port}/{path}"
        return subprocess.run([*command, url], capture_output=True, text=True, timeout=120, check=True).stdout

    yield browse
    server.shutdown()
    server.server_close()


def test_the_page_gives_the_words_of_python(page, browse, language_model):
    (page / "check.html").write_text(CHECK.replace("TEXTS", json.dumps(TEXTS)), encoding="utf-8")
    answers = json.loads(html.unescape(re.search(r'<pre id="answers">(.*?)</pre>', browse("check.html"), re.DOTALL)[1]))
    for text, answer in zip(TEXTS, answers, strict=True):
        assert answer["tokens"] == language_model.tokenize(text)
        exact = dict(language_model.next_words(text, len(language_model.proposed_ids)))
        of_page = {word["word"]: word["probability"] for word in answer["words"]}
        assert of_page == pytest.approx({word: exact[word] for word in of_page}, rel=0.2)  # 8 bits
        assert min(of_page.values()) >= sorted(exact.values())[-5] * 0.8
    shown = browse("index.html?text=The+value+of+%3Cimg+src=x%3E+the")
    assert shown.count("<tr><td>") == 10 and "computed in this browser" in shown and "<img" not in shown
