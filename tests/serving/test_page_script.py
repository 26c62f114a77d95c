"""The script of a page: how it inserts words, and what it shows while the text changes.

It runs in Node, with a stub of the browser's document and a model that is a table of bigrams.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from keras_nplm.serving import web_page

NODE = shutil.which("node")
PAGE = Path(web_page.__file__).parent / "page"
SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
WORDS = ["the", "cat", "said", ",", ".", "(", ")", "don't"]
SECONDS = 60  # that a program may take; it takes one
pytestmark = pytest.mark.skipif(not NODE, reason="node is not installed")

PROGRAM = """
const fs = require("node:fs"), vm = require("node:vm");
const given = JSON.parse(fs.readFileSync(0, "utf-8"));

class Element {
  value = "";
  textContent = "";
  children = [];
  dataset = {};
  handlers = {};
  style = { setProperty: () => {} };
  append(...added) { this.children.push(...added); }
  replaceChildren(...added) { this.children = added; }
  addEventListener(type, handler) { this.handlers[type] = handler; }
  focus() { document.activeElement = this; }
}

const elements = {};
globalThis.document = new Element();
Object.assign(document, {
  body: new Element(),
  createElement: () => new Element(),
  getElementById: (id) => (elements[id] ??= new Element()),
});
globalThis.location = { search: "" };
Object.assign(globalThis, { FACTS: given.facts, WORDS: given.words, FORMS: {} });

// The model answers when `model.gate` opens
const model = { gate: Promise.resolve(), contexts: [] };
const read = (ids) => [...ids].map((id) => given.words[id]);
globalThis.loadModel = async () => async (contexts) => {
  model.contexts.push(...contexts.map(read));
  await model.gate;
  return contexts.map((ids) => {
    const row = given.table[read(ids).at(-1)] ?? {};
    return Float32Array.from(given.words, (word) => Math.log(row[word] ?? 1e-4));
  });
};
// Their constants are known below: field, list, statusLine, completion
for (const name of ["tokenizers.js", "completion.js", "page.js"]) {
  const path = `${given.page}/${name}`;
  vm.runInThisContext(fs.readFileSync(path, "utf-8"), { filename: name });
}

const wait = () => new Promise((resolve) => setTimeout(resolve, 5));
const close = () => {
  let open;
  model.gate = new Promise((resolve) => (open = resolve));
  return open;
};
const moveCursor = (place) => {
  field.selectionStart = field.selectionEnd = place;
  document.handlers.selectionchange();
};
const write = (text) => {
  field.value = text;
  field.selectionStart = field.selectionEnd = text.length;
  field.handlers.input();
  // browsers tell of the cursor, too
  document.handlers.selectionchange();
};
const press = (key) => {
  let isTaken = false;
  field.handlers.keydown({ key, preventDefault: () => (isTaken = true) });
  return isTaken;
};
const click = (place) => list.children[place].children[0].handlers.click();
const insert = async (word) => {
  insertWord({ word, isEnd: false });
  await wait();
};
(async () => {
  field.focus();
  await wait();
  console.log(JSON.stringify(await eval(given.program)));
})();
"""


def _run(
    program: str,
    tokenizer: str = "words",
    boundary: str = "sentence",
    words: Sequence[str] = WORDS,
    table: Mapping[str, Mapping[str, float]] | None = None,
) -> Any:
    """Return what an async function, of JavaScript, returns on a page.

    table: P(word | last token), where it is not negligible.
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
    given = {
        "page": str(PAGE),
        "facts": facts,
        "words": [*SPECIALS, *words],
        "table": table or {},
        "program": f"(async () => {{ {program} }})()",
    }
    run = subprocess.run(
        [NODE, "-e", PROGRAM],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert run.returncode == 0, run.stderr[-1000:]
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    "tokenizer, expected",
    [
        pytest.param("words", "the cat, said (the don't). ", id="words as in print"),
        pytest.param("whitespace", "the cat , said ( the don't ) . ", id="white space"),
    ],
)
def test_the_text_of_inserted_words_has_these_tokens(tokenizer, expected):
    words = ["the", "cat", ",", "said", "(", "the", "don't", ")", "."]
    text, tokens, context = _run(
        f"""
        for (const word of {json.dumps(words)}) await insert(word);
        const {{ tokenizer }} = completion.codec;
        return [field.value, tokenizer.split(field.value), model.contexts.at(-1)];
        """,
        tokenizer,
    )
    assert text == expected
    assert tokens == words
    assert context == words[-4:]


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
    names = {character: character for character in "cat.("}
    if tokenizer == "bytes":
        names = {character: f"<0x{ord(character):02X}>" for character in names}
    c, a, t, stop, bracket = names.values()
    table = {
        "<s>": {c: 0.9},
        space: {c: 0.9},
        c: {a: 0.9},
        a: {t: 0.9},
        t: {space: 0.5, stop: 0.4},
        stop: {space: 0.7, c: 0.1},
        bracket: {c: 0.7, space: 0.1},
    }
    written = _run(
        f"write({json.dumps(text)}); await wait(); press('Tab'); return field.value;",
        tokenizer,
        words=[space, *names.values()],
        table=table,
    )
    assert written == expected


def test_no_word_of_an_earlier_text_is_inserted():
    table = {"the": {"cat": 0.9}, "<s>": {"the": 0.9}}
    written, is_taken, answered = _run(
        """
        write("the ");
        await wait();
        const open = close();
        write("the ca");
        const isTaken = press("Tab");
        click(0);
        const written = field.value;
        open();
        await wait();
        press("Tab");
        return [written, isTaken, field.value];
        """,
        table=table,
    )
    assert written == "the ca"
    assert is_taken  # the field keeps the focus
    assert answered == "the cat "


def test_a_moved_cursor_changes_the_words_of_an_equal_line():
    contexts = _run(
        """
        write("the cat\\n\\nsaid\\n");
        await wait();
        moveCursor(8);
        await wait();
        moveCursor(8);
        await wait();
        return model.contexts.slice(1);
        """,
        boundary="text",
    )
    # a blank line begins a new text
    assert contexts == [
        ["<s>", "<s>", "said", "</s>"],
        ["<s>", "the", "cat", "</s>"],
    ]


def test_a_failure_replaces_the_earlier_words_until_the_model_answers():
    shown = _run(
        """
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
    )
    answered = ["spoken", "Most probable: end of the sentence, the, cat.", True]
    failed = ["failed", "The model does not run in this browser. Out of memory.", False, False]
    assert shown == [answered, failed, answered]


def test_long_runs_of_spaces_take_no_time():
    spaces = " " * 300_000
    program = f"""
    write("the" + {json.dumps(spaces)} + "cat ");
    await wait();
    await insert(",");
    return field.value.slice(-5);
    """
    assert _run(program) == "cat, "
    assert _run(program, "characters", words=["▁", *"thecat,"]) == "at , "
