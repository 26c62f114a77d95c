// A page in Node: the scripts of the page, with a stub of the browser's document, and a model that is a
// table of bigrams. Standard input has the facts, the words, their forms, the table and a program,
// whose value is written to standard output.
"use strict";
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
Object.assign(globalThis, { FACTS: given.facts, WORDS: given.words, FORMS: given.forms });
const load = (name) => {
  const path = `${given.page}/${name}`;
  vm.runInThisContext(fs.readFileSync(path, "utf-8"), { filename: name });
};

// The model answers when `model.gate` opens
const model = { gate: Promise.resolve(), contexts: [] };
const read = (ids) => [...ids].map((id) => given.words[id]);
load("session.js");
globalThis.loadModel = async () => async (contexts) => {
  model.contexts.push(...contexts.map(read));
  await model.gate;
  return contexts.map((ids) => {
    const row = given.table[read(ids).at(-1)] ?? {};
    return Float32Array.from(given.words, (word) => Math.log(row[word] ?? 1e-4));
  });
};
// Their constants are known below: field, list, statusLine, completion
["tokenizers.js", "completion.js", "page.js"].forEach(load);

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
