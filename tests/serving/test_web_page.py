"""A page completes text in the browser as Python does. Its scripts run in Node and in Chromium."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from keras_nplm import LanguageModel, Vocabulary, kneser_ney
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.serving import web_page

NODE = shutil.which("node")
PAGE = Path(web_page.__file__).parent / "page"
LINES = [
    "The cat's hat, the ÉCOLE on 3 mats",
    "the cat sat; a re-used x_1 chat costs 1960s or 7.5 %",
    "我们可以 say that ΟΔΟΣ İstanbul is “far”",
] * 3
PROMPTS = [
    *("", " ", "t", "The ", "the c", "the cat's", "the cat’", "THE CAT SAT; É", "re-", "x_"),
    *("don't re-use x_1: “a’s” ½ 日本語-é\x85\ufeff<s>…", "<unk> <pad> </s> _number_ ", "▁the▁"),
    *("ΟΔΟΣ İ", "οδος", "我", "我们 可", "the  cat\t\n sat", "the\x1cc", "a\u00a0c", "a\u3000", "(", "th ("),
    *("3", "3 mats ", "Ⅷ ٣ x2 ½", "🙂 the 🙂", "\ufffdca", "cats" * 20, "the cat " * 30 + "s"),
    *("The\u0301 e\u0301c", "'", "--", "'the", "sat;", "7.", "𝒜 c", "ǅ c", "a" * 70),
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
const { page, facts, words, forms, table, prompts, k } = JSON.parse(fs.readFileSync(0, "utf-8"));
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
    const found = k ? await completion.find(prompt, k) : [];
    answers.push({ unfinished, found, ids: [...codec.encodeBeginning(prompt)] });
  }
  console.log(JSON.stringify(answers));
})();
"""


def _run_in_node(language_model: LanguageModel, facts: dict, k: int) -> list[dict]:
    """Complete the prompts with the scripts of the page; k = 0: only encode them."""
    size = len(language_model.vocabulary)
    table = language_model.model.next_log_probs(np.arange(size, dtype=np.int32)[:, None])
    given = {
        "page": str(PAGE),
        "facts": facts,
        "words": language_model.vocabulary.words,
        "forms": language_model.vocabulary.forms or {},
        "table": [[value if value > -np.inf else None for value in row] for row in table.tolist()],
        "prompts": PROMPTS,
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
    facts = {**web_page.describe_model(language_model, 0, {}, {}), "context_length": 9}
    for prompt, answer in zip(PROMPTS, _run_in_node(language_model, facts, k=0), strict=True):
        ids = language_model.codec.encode_beginning(prompt, order=10)
        assert answer["ids"] == ids.tolist(), prompt


@pytest.mark.long
@needs_node
@pytest.mark.parametrize("tokenizer, boundary", CASES)
def test_the_scripts_complete_odd_texts_as_python(tokenizer, boundary):
    language_model = _build_bigrams(tokenizer, boundary)
    facts = web_page.describe_model(language_model, 0, {}, {})
    k = 8
    for prompt, answer in zip(PROMPTS, _run_in_node(language_model, facts, k + 1), strict=True):
        found = answer["found"]
        if language_model.tokenizer.kind == "characters":
            found = [word for word in found if not word["isEnd"]]
        # equally probable words may differ at the end of a list
        most = 16 if language_model.tokenizer.unit == "characters" else len(language_model.vocabulary)
        expected = _complete_in_python(language_model, prompt, answer["unfinished"], most)
        probabilities = [word["probability"] for word in found[:k]]
        of_python = [probability for _, probability in expected[:k]]
        assert probabilities == pytest.approx(of_python, rel=1e-4), prompt
        got = {word["word"]: word["probability"] for word in found}
        every = dict(expected)
        assert got == pytest.approx({word: every[word] for word in got}, rel=1e-4), prompt


def test_every_tokenizer_of_a_page_is_tested():
    tested = {type(get_tokenizer(name)) for name, _ in CASES}
    assert tested == {*web_page.TOKENIZERS}
