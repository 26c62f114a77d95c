// The page: a text field, and the most probable words after the text or of its unfinished word.
"use strict";

const NUM_WORDS = 10;
const END_NAME = "end of the sentence";
const OPENING_MARKS = "([{“‘«¿¡";
const CLOSING_MARKS = ".,;:!?)]}”’»…";

const field = document.getElementById("text");
const heading = document.getElementById("words-heading");
const list = document.getElementById("words");
const statusLine = document.getElementById("status");
const timeLine = document.getElementById("time");

let completion = null;
let shownWords = [];
// whether Tab takes the first word; Escape gives Tab back its usual meaning
let tabTakesWord = true;
// rises with each change of the text: an answer to an earlier text is not shown
let change = 0;

// The text before the cursor: of a model of sentences its last line, and the lines before
function readText() {
  const text = field.value.slice(0, field.selectionStart);
  if (FACTS.boundary === "stream") return { prompt: text, earlier: [] };
  const lines = text.split("\n");
  const prompt = lines.pop();
  return { prompt, earlier: FACTS.boundary === "text" ? lines : [] };
}

function formatProbability(probability) {
  const percent = 100 * probability;
  if (percent < 0.01) return "< 0.01 %";
  return `${percent.toFixed(percent < 1 ? 2 : 1)} %`;
}

function makeRow(found, largest) {
  const row = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.addEventListener("click", () => insertWord(found));
  const name = document.createElement("span");
  name.className = found.isEnd ? "word end" : "word";
  name.textContent = found.isEnd ? END_NAME : found.word;
  const bar = document.createElement("span");
  bar.className = "bar";
  bar.style.setProperty("--share", found.probability / largest);
  const number = document.createElement("span");
  number.className = "number";
  number.textContent = formatProbability(found.probability);
  button.append(name, bar, number);
  button.dataset.probability = found.probability;
  row.append(button);
  return row;
}

// Say the words to screen readers; the others see the list.
function announce(words, unfinished) {
  const first = words.slice(0, 3).map(({ word, isEnd }) => (isEnd ? END_NAME : word));
  statusLine.classList.toggle("spoken", words.length > 0);
  statusLine.textContent = words.length
    ? `Most probable: ${first.join(", ")}.`
    : `No word of the vocabulary begins with “${unfinished}”.`;
}

async function showWords() {
  if (!completion) return;
  change += 1;
  const current = change;
  const isStale = () => current !== change;
  const { prompt, earlier } = readText();
  const { unfinished } = completion.splitUnfinished(prompt);
  const start = performance.now();
  const words = await completion.find(prompt, NUM_WORDS, { earlier, isStale });
  if (isStale()) return;
  const milliseconds = performance.now() - start;
  shownWords = words;
  heading.textContent = unfinished ? `Words that begin with “${unfinished}”` : "Next words";
  const largest = words.length ? words[0].probability : 1;
  list.replaceChildren(...words.map((found) => makeRow(found, largest)));
  announce(words, unfinished);
  timeLine.textContent = `${Math.max(1, Math.round(milliseconds))} ms`;
  document.body.dataset.answered = prompt;
}

// Replace the unfinished word by the chosen one. Words and marks are spaced as in print.
function insertWord({ word, isEnd }) {
  const cursor = field.selectionStart;
  const { unfinished } = completion.splitUnfinished(readText().prompt);
  let before = field.value.slice(0, cursor - unfinished.length);
  let inserted = `${word} `;
  if (isEnd) {
    before = before.trimEnd();
    inserted = "\n";
  } else if (completion.codec.tokenizer.tokensAreWords && !unfinished) {
    const last = before.at(-1);
    const needsSpace = last !== undefined && !/\s/.test(last) && !OPENING_MARKS.includes(last);
    if (CLOSING_MARKS.includes(word)) before = before.replace(/ +$/, "");
    else if (needsSpace) before += " ";
    if (OPENING_MARKS.includes(word)) inserted = word;
  }
  field.value = before + inserted + field.value.slice(cursor);
  field.selectionStart = before.length + inserted.length;
  field.selectionEnd = field.selectionStart;
  field.focus();
  showWords();
}

function onKeyDown(event) {
  if (event.key === "Escape") {
    tabTakesWord = false;
    return;
  }
  const isPlainTab = event.key === "Tab" && !event.shiftKey && !event.altKey && !event.ctrlKey;
  if (isPlainTab && tabTakesWord && shownWords.length) {
    event.preventDefault();
    insertWord(shownWords[0]);
  } else if (event.key !== "Tab") {
    tabTakesWord = true;
  }
}

function showCard() {
  document.getElementById("summary").textContent =
    `${FACTS.description}. It runs in this browser, and your text stays here.`;
  const card = document.getElementById("card");
  for (const [term, description] of FACTS.card) {
    const name = document.createElement("dt");
    name.textContent = term;
    const text = document.createElement("dd");
    text.textContent = description;
    card.append(name, text);
  }
}

function explainFailure(error) {
  statusLine.classList.add("failed");
  statusLine.textContent = `The model does not run in this browser. ${error.message}`;
}

async function start() {
  showCard();
  const example = FACTS.example ? `${FACTS.example} ` : "";
  field.value = new URLSearchParams(location.search).get("text") ?? example;
  field.selectionStart = field.value.length;
  try {
    const codec = new TextCodec(FACTS, WORDS, FORMS);
    completion = makeCompletion(codec, await loadModel());
    await showWords();
  } catch (error) {
    explainFailure(error);
  }
}

field.addEventListener("input", showWords);
field.addEventListener("keydown", onKeyDown);
field.addEventListener("focus", () => (tabTakesWord = true));
// the cursor was moved
document.addEventListener("selectionchange", () => {
  if (document.activeElement === field && document.body.dataset.answered !== readText().prompt) {
    showWords();
  }
});
start();
