"""A page completes text in the browser as Python does. Its scripts run in Node and in Chromium."""

import base64
import errno
import gzip
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from keras_nplm import (
    InputError,
    LanguageModel,
    RunError,
    Vocabulary,
    export_page,
    kneser_ney,
)
from keras_nplm.data.ids import BOS_ID
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.tokenizers.words import WordTokenizer
from keras_nplm.language_model.description import describe, describe_codec
from keras_nplm.models.mixture import Mixture
from keras_nplm.models.ngrams import ContextFrequencies, FrequencyBins, count_ngrams
from keras_nplm.serving import on_device, web_page
from keras_nplm.serving.web_page import read_facts
from tests.tokenizers import build_model

NODE = shutil.which("node")
PAGE = Path(web_page.__file__).parent / "page"
LINES = [
    "The cat's hat, the ÉCOLE on 3 mats",
    "the cat sat; a re-used x_1 chat costs 1960s or 7.5 %",
    "我们可以 say that ΟΔΟΣ İstanbul is “far”",
] * 3
IDS = np.array([4, 5, 6, 3, 4, 7, 8, 3] * 9, np.int32)
PROMPTS = [
    *("", " ", "t", "The ", "the c", "the cat's", "the cat’", "THE CAT SAT; É", "re-", "x_"),
    *("don't re-use x_1: “a’s” ½ 日本語-é\x85\ufeff<s>…", "<unk> <pad> </s> _number_ ", "▁the▁"),
    *(
        "ΟΔΟΣ İ",
        "οδος",
        "我",
        "我们 可",
        "the  cat\t\n sat",
        "the\x1cc",
        "a\u00a0c",
        "a\u3000",
        "(",
        "th (",
    ),
    *("3", "3 mats ", "Ⅷ ٣ x2 ½", "🙂 the 🙂", "\ufffdca", "cats" * 20, "the cat " * 30 + "s"),
    *("The\u0301 e\u0301c", "'", "--", "'the", "sat;", "7.", "𝒜 c", "ǅ c", "a" * 70),
    *(
        "e\u0301c",
        "THE\u0301 E\u0301C",
        "İ\u0327",
        "\u1112\u1161\u11ab",
        "the\u200bc",
        "so\u00adc \ufeffc\u00ada",
    ),
    *(
        "Hat",
        "HAT",
        "oN",
        "école",
        "Éc",
        "THE C",
        "cAT’",
        "c\u200d",
        "👩\u200d🔬 the",
        "the \u200b",
    ),
    *("हिन्दी में", "\u0301a ❤\ufe0fa", "a\u0301'b \u200dc", "x'\u0301"),
]
CASES = [
    ("words", "sentence"),
    ("words+lower+numbers+lemmas", "stream"),
    ("whitespace", "stream"),
    ("whitespace+lower+numbers", "text"),
    ("characters", "sentence"),
    ("characters+lower", "stream"),
    ("bytes", "sentence"),
    ("bytes+lower", "stream"),
]
needs_node = pytest.mark.skipif(not NODE, reason="node is not installed")
# All scripts of a page but those of the browser; the model is a table of bigrams
CHECK = """
const fs = require("node:fs"), vm = require("node:vm");
const given = JSON.parse(fs.readFileSync(0, "utf-8"));
const { page, facts, words, forms, table, prompts, earlier, k } = given;
const scripts = ["tokenizers.js", "completion.js"].map((name) => `${page}/${name}`);
vm.runInThisContext(scripts.map((path) => fs.readFileSync(path, "utf-8")).join("\\n"));
(async () => {
  const codec = vm.runInThisContext("(...given) => new TextCodec(...given)")(facts, words, forms);
  const rows = table.map((row) => row.map((value) => value ?? -Infinity));
  const logProbs = async (contexts) => contexts.map((ids) => rows[ids[ids.length - 1]]);
  const completion = vm.runInThisContext("makeCompletion")(codec, logProbs);
  const answers = [];
  for (const prompt of prompts) {
    const { unfinished } = completion.splitUnfinished(prompt);
    const found = k ? await completion.find(prompt, k, { earlier }) : [];
    answers.push({ unfinished, found, ids: [...codec.encodeBeginning(prompt, earlier)] });
  }
  console.log(JSON.stringify(answers));
})();
"""


def _run_in_node(
    language_model: LanguageModel,
    facts: dict,
    k: int,
    earlier: Sequence[str] = (),
    prompts: Sequence[str] = PROMPTS,
) -> list[dict]:
    """Complete prompts, which follow earlier sentences, with the scripts of the page.

    k = 0: only encode them.
    """
    size = len(language_model.vocabulary)
    table = language_model.model.next_log_probs(np.arange(size, dtype=np.int32)[:, None])
    given = {
        "page": str(PAGE),
        "facts": facts,
        "words": language_model.vocabulary.words,
        "forms": language_model.vocabulary.forms or {},
        "table": [[value if value > -np.inf else None for value in row] for row in table.tolist()],
        "prompts": list(prompts),
        "earlier": list(earlier),
        "k": k,
    }
    run = subprocess.run(
        [NODE, "-e", CHECK], input=json.dumps(given), capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-1000:]
    return json.loads(run.stdout)


def _complete_in_python(
    language_model: LanguageModel, prompt: str, unfinished: str, k: int
) -> list[tuple[str, float]]:
    # of characters, `next_words` returns single ones
    if unfinished or language_model.tokenizer.kind == "characters":
        return language_model.complete_prefix(prompt, k)
    return language_model.next_words(prompt, k)


def _build_bigrams(tokenizer: str, boundary: str) -> LanguageModel:
    vocabulary = Vocabulary.build(LINES, tokenizer=tokenizer)
    if "lemmas" in tokenizer:
        vocabulary = vocabulary.with_forms({"mat": "mats", "sits": "sat"})
    ids = encode_lines(LINES, vocabulary, tokenizer, boundary)
    model = kneser_ney(ids, len(vocabulary), 2, boundary)
    return LanguageModel(model, vocabulary, tokenizer, boundary)


@needs_node
@pytest.mark.parametrize("tokenizer, boundary", CASES)
def test_the_scripts_encode_odd_texts_as_python(tokenizer, boundary):
    language_model = _build_bigrams(tokenizer, boundary)
    # longer contexts than the model's
    facts = describe_codec(language_model.codec, order=10)
    for prompt, answer in zip(PROMPTS, _run_in_node(language_model, facts, k=0), strict=True):
        ids = language_model.codec.encode_beginning(prompt, order=10)
        assert answer["ids"] == ids.tolist(), prompt


@needs_node
@pytest.mark.parametrize("tokenizer", ["words", "characters"])
def test_a_model_of_texts_reads_earlier_sentences(tokenizer):
    language_model = _build_bigrams(tokenizer, "text")
    facts = describe_codec(language_model.codec, order=40)
    earlier = ["It is old", "", " The cat  sat ", "on 3 mats"]
    for prompt, answer in zip(
        PROMPTS, _run_in_node(language_model, facts, k=0, earlier=earlier), strict=True
    ):
        # a blank line begins a new text
        before = encode_lines(earlier[2:], language_model.vocabulary, tokenizer, "text")
        ids = language_model.codec.encode_beginning(prompt, order=500)
        beginning = ids[ids != BOS_ID]
        context = np.concatenate([np.full(39, BOS_ID), before[before != BOS_ID], beginning])[-39:]
        assert answer["ids"] == context.tolist(), prompt


@pytest.mark.long
@needs_node
@pytest.mark.parametrize("tokenizer, boundary", CASES)
def test_the_scripts_complete_odd_texts_as_python(tokenizer, boundary):
    language_model = _build_bigrams(tokenizer, boundary)
    facts = describe_codec(language_model.codec, language_model.model.order)
    k = 8
    # words of bytes are searched: a prompt takes a quarter of a second
    prompts = PROMPTS[::4] if tokenizer.startswith("bytes") else PROMPTS
    answers = _run_in_node(language_model, facts, k + 1, prompts=prompts)
    for prompt, answer in zip(prompts, answers, strict=True):
        found = answer["found"]
        if language_model.tokenizer.kind == "characters":
            found = [word for word in found if not word["isEnd"]]
        # equally probable words may differ at the end of a list
        most = (
            16 if language_model.tokenizer.unit == "characters" else len(language_model.vocabulary)
        )
        expected = _complete_in_python(language_model, prompt, answer["unfinished"], most)
        probabilities = [word["probability"] for word in found[:k]]
        of_python = [probability for _, probability in expected[:k]]
        assert probabilities == pytest.approx(of_python, rel=1e-4), prompt
        got = {word["word"]: word["probability"] for word in found}
        every = dict(expected)
        assert got == pytest.approx({word: every[word] for word in got}, rel=1e-4), prompt


@needs_node
@pytest.mark.parametrize("script", sorted(PAGE.glob("*.js")), ids=lambda script: script.name)
def test_a_script_can_be_parsed(script):
    run = subprocess.run([NODE, "--check", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_every_tokenizer_of_a_page_is_tested():
    tested = {type(get_tokenizer(name)) for name, _ in CASES}
    assert tested == {*web_page.TOKENIZERS}


def _read_constants(path: Path) -> dict:
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
    card = dict(facts["card"])
    assert card["Trained on"] == "corpora/</script>"  # set as text, in a file of its own
    assert card["Perplexity"] == "56.79 (test)"
    assert card["Parameters"] == "1,234"
    words = _read_constants(target / "vocabulary.js")
    assert words == {"WORDS": language_model.vocabulary.words, "FORMS": {}}
    loads = _read_constants(target / "runtime.js")["RUNTIME"]
    assert loads["address"].endswith(f"onnxruntime-web@{web_page.RUNTIME_VERSION}/dist/")
    network = _read_constants(target / "model.js")["MODEL"]
    session = runtime.InferenceSession(gzip.decompress(base64.b64decode(network)))
    contexts = np.array([[2, 2, 4], [5, 6, 7]], np.int32)
    [log_probs] = session.run(None, {"context_ids": contexts})
    np.testing.assert_allclose(log_probs, language_model.model.next_log_probs(contexts), atol=2e-5)


@pytest.fixture
def without_network(monkeypatch):
    """The file of a network is empty and has its facts beside it: its conversion takes seconds."""
    converted = Mock(**{"SerializeToString.return_value": b""})
    tf2onnx = Mock(**{"convert.from_function.return_value": (converted, None)})
    monkeypatch.setattr(on_device, "import_extra", Mock(return_value=tf2onnx))
    monkeypatch.setattr(on_device, "add_to_onnx", Mock())


def test_the_card_says_what_is_left_out_of_a_mixture(without_network, language_model, tmp_path):
    network = language_model.model
    mixture = Mixture([network, kneser_ney(IDS, network.vocabulary_size, 2)], [0.25, 0.75])
    mixed = language_model.replace_model(mixture)
    metrics = {"test": {"perplexity": 5.5}}
    index = export_page(mixed, tmp_path / "whole", metrics=metrics)
    card = dict(read_facts(index)["card"])
    assert card["Mixture of"].startswith("25% a neural probabilistic language model")
    assert card["Mixture of"].endswith("75% an n-gram model in back-off form")
    assert card["Perplexity"] == "5.50 (test)"
    index = export_page(mixed, tmp_path / "alone", network_alone=True, metrics=metrics)
    card = dict(read_facts(index)["card"])
    assert card["Perplexity of the mixture, which is not here"] == "5.50 (test)"
    assert not {"Mixture of", "Perplexity"} & {*card}


def test_the_card_of_weights_by_frequency_has_no_weights(without_network, language_model, tmp_path):
    network = language_model.model
    size = network.vocabulary_size
    counts = count_ngrams(IDS, size, 3, "sentence")
    bins = FrequencyBins(ContextFrequencies.from_counts(counts))
    weights = np.random.default_rng(0).dirichlet([1, 1], bins.number)
    mixture = Mixture([network, kneser_ney(IDS, size, 2)], weights, bins)
    index = export_page(language_model.replace_model(mixture), tmp_path / "page")
    card = dict(read_facts(index)["card"])
    assert card["Mixture of"].startswith("a neural probabilistic language model")
    assert card["Mixture of"].endswith("; an n-gram model in back-off form")


@pytest.fixture
def without_conversion(monkeypatch):
    """Networks are empty files, so that a page takes no second."""

    def write(language_model, path, **options):
        path.write_bytes(b"")
        facts = describe(language_model, config=options["config"])
        Path(f"{path}.json").write_text(json.dumps(facts), encoding="utf-8")

    monkeypatch.setattr(web_page, "export_onnx", write)


def _read_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def _read_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_an_earlier_page_is_replaced(without_conversion, language_model, tmp_path):
    target = tmp_path / "page"
    target.mkdir()
    export_page(language_model, target)
    # of a file manager, and of a killed export
    for name in (".DS_Store", ".model.nplm-7.js"):
        (target / name).write_bytes(b"")
    files = _read_files(target)
    export_page(language_model, target, config={"corpus": "brown"})
    replaced = _read_files(target)
    assert files.keys() - replaced.keys() == {".model.nplm-7.js"}
    assert {name for name in replaced if replaced[name] != files[name]} == {"facts.js"}
    assert os.listdir(tmp_path) == ["page"]


def test_a_link_to_a_directory_stays_one(without_conversion, language_model, tmp_path):
    (tmp_path / "served").mkdir()
    (tmp_path / "page").symlink_to("served")
    index = export_page(language_model, tmp_path / "page")
    assert (tmp_path / "page").is_symlink()
    assert index.samefile(tmp_path / "served" / "index.html")
    assert sorted(os.listdir(tmp_path)) == ["page", "served"]


def test_the_working_directory_becomes_a_page(
    without_conversion, language_model, tmp_path, monkeypatch
):
    # as a mount point it cannot be renamed
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert export_page(language_model, ".") == Path("index.html")
    assert {"index.html", "facts.js"} < {*os.listdir()}


def test_the_facts_are_written_last(without_conversion, language_model, tmp_path, monkeypatch):
    replace = Mock(wraps=os.replace)
    monkeypatch.setattr(os, "replace", replace)
    export_page(language_model, tmp_path)
    names = [Path(call.args[1]).name for call in replace.call_args_list]
    assert names[-1] == "facts.js"
    assert sorted(names) == sorted(os.listdir(tmp_path))


def test_a_full_disk_leaves_the_earlier_page(
    without_conversion, language_model, tmp_path, monkeypatch
):
    export_page(language_model, tmp_path / "page")
    files = _read_files(tmp_path / "page")
    full = OSError(errno.ENOSPC, "No space left on device")
    # the files of the model and two scripts are on the disk
    monkeypatch.setattr(web_page.shutil, "copyfile", Mock(side_effect=[None, None, full] * 2))
    for name in ("page", "new"):
        message = rf"Cannot write .*{name}/\S+: No space left .* is unchanged\."
        with pytest.raises(RunError, match=message):
            export_page(language_model, tmp_path / name, config={"corpus": "brown"})
    assert _read_files(tmp_path / "page") == files
    assert os.listdir(tmp_path) == ["page"]


@pytest.mark.parametrize("file", ["notes.txt", "index.html"])
def test_a_directory_with_other_files_is_refused(
    without_conversion, language_model, tmp_path, file
):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / file).write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="absent, empty or an earlier page"):
        export_page(language_model, tmp_path / "page")
    assert (tmp_path / "page" / file).read_text(encoding="utf-8") == "mine"


def test_a_file_is_no_directory_of_a_page(without_conversion, language_model, tmp_path):
    (tmp_path / "page").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="absent, empty or an earlier page"):
        export_page(language_model, tmp_path / "page")


class _MarkedWords(WordTokenizer):
    """A tokenizer of one's own, which the page does not know."""

    kind = "marked words"


@pytest.mark.parametrize("tokenizer", ["sentencepiece", _MarkedWords()])
def test_a_tokenizer_that_a_page_lacks_is_refused(tokenizer, tmp_path):
    model = build_model(tokenizer, ["the cat sat on the mat", "abcdefghijklmnopqrstuvwxyz"] * 20)
    name = model.tokenizer.name
    with pytest.raises(InputError, match=f"must be one of words, .*Received: {name}.*SavedModel"):
        export_page(model, tmp_path / "page")
    assert not os.listdir(tmp_path)


def test_a_model_that_a_page_cannot_hold_is_refused(
    without_conversion, language_model, tmp_path, monkeypatch
):
    monkeypatch.setattr(web_page, "MOST_MODEL_BYTES", -1)
    with pytest.raises(InputError, match="at most -1 bytes. Received: 0. .*--quantise"):
        export_page(language_model, tmp_path / "page")
    assert not os.listdir(tmp_path)


def _write_archive(path: Path, names: Sequence[str]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"package/dist/{name}"))


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(None, id="no archive"),
        pytest.param([], id="a different package"),
        pytest.param(web_page.RUNTIME_FILES, id="a different version"),
    ],
)
def test_a_runtime_other_than_the_tested_one_is_refused(names, messages, language_model, tmp_path):
    runtime = tmp_path / "onnxruntime-web.tgz"
    if names is None:
        runtime.write_bytes(b"text")
    else:
        _write_archive(runtime, names)
    messages.refuse(lambda: export_page(language_model, tmp_path / "page", runtime=runtime))
    assert os.listdir(tmp_path) == [runtime.name]


def _evaluate_in_node(expression: str):
    """Return the value of an expression, or of its promise, in the scripts of the page."""
    program = """
const fs = require("node:fs"), vm = require("node:vm");
const scripts = process.argv.slice(1).map((path) => fs.readFileSync(path, "utf-8"));
vm.runInThisContext(scripts.join("\\n"));
Promise.resolve(vm.runInThisContext(fs.readFileSync(0, "utf-8"))).then((value) => {
  console.log(JSON.stringify(value));
});
"""
    scripts = [PAGE / name for name in ("tokenizers.js", "completion.js", "session.js")]
    run = subprocess.run(
        [NODE, "-e", program, *scripts], input=expression, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-1000:]
    return json.loads(run.stdout)


@needs_node
def test_only_the_sentences_of_a_context_are_encoded():
    """Each key encodes the text before the cursor, which may be long."""
    number_read, ids = _evaluate_in_node("""
let read = 0;
const split = (line) => { read += 1; return line.split(" "); };
const codec = Object.create(TextCodec.prototype);
const words = ["<pad>", "<unk>", "<s>", "</s>", "a", "b"];
const given = { words, unknownId: 1, tokenizer: { split } };
Object.assign(codec, given, { ids: new Map(words.map((word, id) => [word, id])) });
const found = codec.encodeSentences([...Array(9000).fill("b"), "a b c"], 5);
[read, found];
""")
    assert (number_read, ids) == (2, [5, 3, 4, 5, 1, 3])


@needs_node
def test_a_packed_file_is_unpacked():
    data = np.random.default_rng(0).bytes(1000)
    packed = base64.b64encode(gzip.compress(data)).decode()
    unpacked = _evaluate_in_node(f"unpack('{packed}').then((data) => [...data])")
    assert bytes(unpacked) == data


@needs_node
def test_long_prefixes_of_a_long_word_have_no_completion():
    numbers = _evaluate_in_node("""
const words = ["<pad>", "<unk>", "<s>", "</s>", "a".repeat(1000), "b"];
const codec = {
  words,
  predictsEnd: false,
  tokenizer: { lowers: false, unfinishedWord: /a*$/ },
  encodeBeginning: () => null,
};
const completion = new WordCompletion(codec, async () => [words.map(() => 0)]);
const count = async (length) => (await completion.find("a".repeat(length), 5)).length;
Promise.all([1, 256, 257].map(count));
""")
    assert numbers == [1, 1, 0]
