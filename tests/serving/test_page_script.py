"""The scripts of a page, in Node: texts as in Python, inserted words, what is shown meanwhile."""

import base64
import gzip
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_nplm import LanguageModel
from keras_nplm.data.ids import BOS_ID
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.language_model.description import describe_codec
from keras_nplm.serving import web_page
from tests.text_cases import PROMPTS, build_case_model

NODE = shutil.which("node")
PAGE = Path(web_page.__file__).parent / "page"
HARNESS = Path(__file__).with_name("page_in_node.js")
SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
WORDS = ["the", "cat", "said", ",", ".", "(", ")", "don't"]
SECONDS = 60  # that a program may take; it takes one
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
pytestmark = pytest.mark.skipif(not NODE, reason="node is not installed")


def run(
    program: str,
    tokenizer: str = "words",
    boundary: str = "sentence",
    words: Sequence[str] = WORDS,
    table: Mapping[str, Mapping[str, float]] | None = None,
    **given: Any,
) -> Any:
    """Return what an async function, of JavaScript, returns on a page.

    table: P(word | last token), where it is not negligible. given: what the program reads as
    `given`; its `facts` replace some of those of a page.
    """
    facts = {
        "tokenizer": {"kind": tokenizer, "steps": []},
        "context_length": 4,
        "padding_id": 2,
        "unknown_id": 1,
        "end_of_sentence_id": 3,
        "boundary": boundary,
        "description": "A table",
        "card": [],
        "example": "",
    }
    page = {
        "page": str(PAGE),
        "words": [*SPECIALS, *words],
        "forms": {},
        "table": table or {},
        "program": f"(async () => {{ {program} }})()",
    }
    page |= given | {"facts": facts | given.get("facts", {})}
    process = subprocess.run(
        [NODE, HARNESS], input=json.dumps(page), capture_output=True, text=True, timeout=SECONDS
    )
    assert process.returncode == 0, process.stderr[-1000:]
    return json.loads(process.stdout)


# Texts


def read_prompts(
    language_model: LanguageModel,
    order: int,
    prompts: Sequence[str] = PROMPTS,
    earlier: Sequence[str] = (),
    k: int = 0,
) -> list[dict]:
    """Return the context of each prompt after earlier sentences, and k words for it."""
    vocabulary = language_model.vocabulary
    table: dict[str, dict[str, float]] = {}
    if k:
        ids = np.arange(len(vocabulary), dtype=np.int32)
        rows = np.exp(language_model.model.next_log_probs(ids[:, None])).tolist()
        for word, row in zip(vocabulary.words, rows, strict=True):
            table[word] = dict(zip(vocabulary.words, row, strict=True))
    program = """
    const answers = [];
    for (const prompt of given.prompts) {
      const { unfinished } = completion.splitUnfinished(prompt);
      const { earlier, k } = given;
      const found = k ? await completion.find(prompt, k, { earlier }) : [];
      const ids = [...completion.codec.encodeBeginning(prompt, earlier)];
      answers.push({ unfinished, found, ids });
    }
    return answers;
    """
    return run(
        program,
        facts=describe_codec(language_model.codec, order),
        words=vocabulary.words[len(SPECIALS) :],
        forms=vocabulary.forms or {},
        table=table,
        **dict(prompts=[*prompts], earlier=[*earlier], k=k),
    )


def test_every_tokenizer_of_a_page_is_tested():
    assert {type(get_tokenizer(name)) for name, _ in CASES} == {*web_page.TOKENIZERS}


@pytest.mark.parametrize("tokenizer, boundary", CASES)
def test_the_scripts_encode_odd_texts_as_python(tokenizer, boundary):
    language_model = build_case_model(tokenizer, boundary, 2)
    # longer contexts than the model's
    for prompt, answer in zip(PROMPTS, read_prompts(language_model, 10), strict=True):
        ids = language_model.codec.encode_beginning(prompt, order=10)
        assert answer["ids"] == ids.tolist(), prompt


@pytest.mark.parametrize("tokenizer", ["words", "characters"])
def test_a_model_of_texts_reads_earlier_sentences(tokenizer):
    language_model = build_case_model(tokenizer, "text", 2)
    earlier = ["It is old", "", " The cat  sat ", "on 3 mats"]
    # a blank line begins a new text
    before = encode_lines(earlier[2:], language_model.vocabulary, tokenizer, "text")
    answers = read_prompts(language_model, 40, earlier=earlier)
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        ids = language_model.codec.encode_beginning(prompt, order=500)
        beginning = ids[ids != BOS_ID]
        context = np.concatenate([np.full(39, BOS_ID), before[before != BOS_ID], beginning])[-39:]
        assert answer["ids"] == context.tolist(), prompt


def test_only_the_sentences_of_a_context_are_encoded():
    """Each key encodes the text before the cursor, which may be long."""
    program = """
    let read = 0;
    const { codec } = completion;
    codec.tokenizer = { split: (line) => { read += 1; return line.split(" "); } };
    return [codec.encodeSentences([...Array(9000).fill("b"), "a b c"], 5), read];
    """
    assert run(program, words=["a", "b"]) == [[5, 3, 4, 5, 1, 3], 2]


def test_long_prefixes_of_a_long_word_have_no_completion():
    program = """
    const count = async (length) => (await completion.find("a".repeat(length), 5)).length;
    return Promise.all([1, 256, 257].map(count));
    """
    assert run(program, words=["a" * 1000, "b"]) == [1, 1, 0]


def test_a_packed_file_is_unpacked():
    data = np.random.default_rng(0).bytes(1000)
    packed = base64.b64encode(gzip.compress(data)).decode()
    assert bytes(run(f"return [...await unpack('{packed}')]")) == data


# Insertion


@pytest.mark.parametrize(
    "tokenizer, expected",
    [
        pytest.param("words", "the cat, said (the don't). ", id="words as in print"),
        pytest.param("whitespace", "the cat , said ( the don't ) . ", id="white space"),
    ],
)
def test_the_text_of_inserted_words_has_these_tokens(tokenizer, expected):
    words = ["the", "cat", ",", "said", "(", "the", "don't", ")", "."]
    program = f"""
    for (const word of {json.dumps(words)}) await insert(word);
    const {{ tokenizer }} = completion.codec;
    return [field.value, tokenizer.split(field.value), model.contexts.at(-1)];
    """
    assert run(program, tokenizer) == [expected, words, words[-4:]]


@pytest.mark.parametrize("tokenizer", ["characters", "bytes"])
@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("cat.", "cat. cat ", id="after a mark"),
        pytest.param("cat. ", "cat. cat ", id="after a space"),
        pytest.param("(", "(cat ", id="after an opening bracket"),
        pytest.param("", "cat ", id="at the start"),
        pytest.param("c", "cat ", id="an unfinished word"),
    ],
)
def test_words_of_characters_have_the_space_that_the_model_predicts(tokenizer, text, expected):
    space = "▁" if tokenizer == "characters" else "<0x20>"
    names = [*"cat.("]
    if tokenizer == "bytes":
        names = [f"<0x{ord(character):02X}>" for character in names]
    c, a, t, stop, bracket = names
    table = {
        "<s>": {c: 0.9},
        space: {c: 0.9},
        c: {a: 0.9},
        a: {t: 0.9},
        t: {space: 0.5, stop: 0.4},
        stop: {space: 0.7, c: 0.1},
        bracket: {c: 0.7, space: 0.1},
    }
    program = f"write({json.dumps(text)}); await wait(); press('Tab'); return field.value;"
    assert run(program, tokenizer, words=[space, *names], table=table) == expected


def test_no_word_of_an_earlier_text_is_inserted():
    program = """
    write("the ");
    await wait();
    const open = close();
    write("the ca");
    const isTaken = press("Tab"); // the field keeps the focus
    click(0);
    const written = field.value;
    open();
    await wait();
    press("Tab");
    return [written, isTaken, field.value];
    """
    table = {"the": {"cat": 0.9}, "<s>": {"the": 0.9}}
    assert run(program, table=table) == ["the ca", True, "the cat "]


def test_a_moved_cursor_changes_the_words_of_an_equal_line():
    program = """
    write("the cat\\n\\nsaid\\n");
    await wait();
    moveCursor(8);
    await wait();
    moveCursor(8);
    await wait();
    return model.contexts.slice(1);
    """
    # a blank line begins a new text
    contexts = [["<s>", "<s>", "said", "</s>"], ["<s>", "the", "cat", "</s>"]]
    assert run(program, boundary="text") == contexts


def test_an_unknown_beginning_has_no_words():
    program = """
    write("the zeb");
    await wait();
    return [list.children.length, statusLine.textContent];
    """
    assert run(program) == [0, "No word of the vocabulary begins with “zeb”."]


def test_a_failure_replaces_the_earlier_words_until_the_model_answers():
    program = """
    const read = () => [statusLine.className, statusLine.textContent, list.children.length > 0];
    write("the ");
    await wait();
    const shown = [read()];
    model.gate = Promise.reject(new Error("Out of memory."));
    write("the cat ");
    await wait();
    shown.push([...read(), press("Tab")]);
    model.gate = Promise.resolve();
    write("the cat said ");
    await wait();
    return [...shown, read()];
    """
    answered = ["spoken", "Most probable: end of the sentence, the, cat.", True]
    failed = ["failed", "The model does not run in this browser. Out of memory.", False, False]
    assert run(program) == [answered, failed, answered]


def test_long_runs_of_spaces_take_no_time():
    program = """
    write("the" + " ".repeat(300000) + "cat ");
    await wait();
    await insert(",");
    return field.value.slice(-5);
    """
    assert run(program) == "cat, "
    assert run(program, "characters", words=["▁", *"thecat,"]) == "at , "
