"""In Debian's Chromium, a page shows the words and the probabilities of Python."""

import functools
import http.server
import json
import shutil
import subprocess
import tarfile
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from keras_nplm import NPLM, LanguageModel, Vocabulary, export_page
from keras_nplm.serving import web_page
from tests.serving.chromium import CHROMIUM, Page, open_browser

NPM = shutil.which("npm")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
    pytest.mark.skipif(not NPM, reason="npm is not installed"),
]
HAS_ANSWERED = "document.body.dataset.answered !== undefined"
SHOWN = """
[...document.querySelectorAll("#words button")].map((button) =>
  [button.querySelector(".word").textContent, Number(button.dataset.probability)])
"""
TEXTS = ["The value of ", "", "If the o", "the obj", "is a string, ", "(", "don't zebra\tTh"]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory) -> Path:
    """The file that `npm pack onnxruntime-web` writes."""
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    directory = tmp_path_factory.mktemp("runtime")
    command = [NPM, "pack", f"onnxruntime-web@{web_page.RUNTIME_VERSION}"]
    packed = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if packed.returncode:
        pytest.skip(f"onnxruntime-web cannot be downloaded: {packed.stderr[-200:]}")
    return directory / packed.stdout.split()[-1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with open_browser() as page:
        yield page


@pytest.fixture(scope="module")
def words_page(language_model, runtime, tmp_path_factory) -> Path:
    """A page that needs no internet."""
    return export_page(language_model, tmp_path_factory.mktemp("words") / "page", runtime=runtime)


@pytest.fixture(scope="module")
def bytes_model(randomise) -> LanguageModel:
    vocabulary = Vocabulary.build(["the cat"], tokenizer="bytes")
    model = NPLM(len(vocabulary), order=4, embedding_dim=6, hidden_units=5)
    return LanguageModel(randomise(model), vocabulary, "bytes", "sentence")


def _open(browser: Page, address: str, text: str = "") -> None:
    browser.open(f"{address}?text={urllib.parse.quote(text)}")
    browser.wait_for(HAS_ANSWERED)


def _complete(language_model: LanguageModel, text: str) -> dict[str, float]:
    """Complete the text as the page does. `next_words` of an unfinished word are the words after
    it.
    """
    is_unfinished = text[-1:].isalnum()
    complete = language_model.complete_prefix if is_unfinished else language_model.next_words
    words = dict(complete(text, 10))
    if "</s>" in words:
        words["end of the sentence"] = words.pop("</s>")
    return words


def test_a_page_shows_the_words_of_python(browser, words_page, language_model):
    _open(browser, words_page.as_uri(), TEXTS[0])
    for text in TEXTS:
        browser.evaluate(f"field.value = {json.dumps(text)}; showWords()")
        shown = browser.evaluate(SHOWN)
        expected = _complete(language_model, text)
        assert dict(shown) == pytest.approx(expected, abs=1e-4), text
        assert [probability for _, probability in shown] == sorted(dict(shown).values())[::-1]


def test_a_page_of_bytes_searches_the_words_of_python(browser, bytes_model, runtime, tmp_path):
    index = export_page(bytes_model, tmp_path / "page", runtime=runtime)
    for text in ("", "the c", "the "):
        _open(browser, index.as_uri(), text)
        shown = dict(browser.evaluate(SHOWN))
        expected = _complete(bytes_model, text)
        assert sorted(shown.values()) == pytest.approx(sorted(expected.values()), abs=1e-4)


def test_typing_tab_and_clicks_write_text(browser, words_page, language_model):
    _open(browser, words_page.as_uri())
    browser.evaluate("document.getElementById('text').focus()")

    def read() -> str:
        return browser.evaluate("document.getElementById('text').value")

    def wait_for_answer(text: str) -> None:
        browser.wait_for(f"document.body.dataset.answered === {text!r}")

    browser.type("The object")
    # the model reads the text before the cursor
    browser.evaluate("document.getElementById('text').setSelectionRange(5, 5)")
    wait_for_answer("The o")
    browser.evaluate("document.getElementById('text').setSelectionRange(7, 10)")
    browser.press("Delete", 46)
    wait_for_answer("The obj")
    assert browser.evaluate("document.getElementById('words-heading').textContent") == (
        "Words that begin with “obj”"
    )
    browser.press("Tab", 9)
    wait_for_answer("The object ")
    assert read() == "The object "
    words = browser.evaluate(SHOWN)
    place = next(i for i, (word, _) in enumerate(words) if word.isalpha())
    browser.evaluate(f"document.querySelectorAll('#words button')[{place}].click()")
    wait_for_answer(f"The object {words[place][0]} ")
    assert read() == f"The object {words[place][0]} "
    # a mark stands where the word ends
    browser.evaluate("insertWord({ word: '.', isEnd: false })")
    assert read() == f"The object {words[place][0]}. "
    wait_for_answer(f"The object {words[place][0]}. ")
    # the next line is a new sentence
    browser.evaluate("insertWord({ word: '</s>', isEnd: true })")
    assert read() == f"The object {words[place][0]}.\n"
    wait_for_answer("")
    # after Escape, Tab leaves the field
    browser.press("Escape", 27)
    browser.press("Tab", 9)
    assert browser.evaluate("document.activeElement.tagName") == "BUTTON"


class _Registry(http.server.SimpleHTTPRequestHandler):
    """A server of ONNX Runtime's files for pages of every origin."""

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def registry(runtime, tmp_path) -> Iterator[tuple[str, Path]]:
    """The address and the folder of a server that stands for cdn.jsdelivr.net."""
    with tarfile.open(runtime) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "package" / "dist"
    handler = functools.partial(_Registry, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("localhost", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}/", folder
    server.shutdown()
    server.server_close()


def test_a_page_loads_only_the_tested_runtime(browser, registry, language_model, tmp_path):
    index = export_page(language_model, tmp_path / "page")
    address, folder = registry
    script = index.with_name("runtime.js")
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace(web_page.RUNTIME_ADDRESS, address), encoding="utf-8")
    _open(browser, index.as_uri(), "The value of ")
    expected = _complete(language_model, "The value of ")
    assert dict(browser.evaluate(SHOWN)) == pytest.approx(expected, abs=1e-4)
    with open(folder / "ort.wasm.min.js", "a", encoding="utf-8") as file:
        file.write("// changed")
    browser.call("Network.clearBrowserCache")
    browser.open(index.as_uri())
    failed = browser.wait_for("document.querySelector('.failed')?.textContent")
    assert failed == (
        f"The model does not run in this browser. {address}ort.wasm.min.js is not there, or it is "
        "not the tested file. Connect to the internet, or export the page with --runtime."
    )
