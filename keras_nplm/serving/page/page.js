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
// the last text before the cursor that was looked up, and its words: null before the answer
let latest = { text: null, words: [] };
// whether Tab takes the first word; Escape gives Tab back its usual meaning
let tabTakesWord = true;

function readText() {
  return field.value.slice(0, field.selectionStart);
}

// Split text into the prompt, which is the last line for a model of sentences, and earlier lines.
function splitText(text) {
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
  statusLine.className = words.length ? "spoken" : "";
  statusLine.textContent = words.length
    ? `Most probable: ${first.join(", ")}.`
    : `No word of the vocabulary begins with “${unfinished}”.`;
}

async function showWords() {
  if (!completion) return;
  const current = { text: readText(), words: null };
  latest = current;
  const isStale = () => current !== latest;
  const { prompt, earlier } = splitText(current.text);
  const { unfinished } = completion.splitUnfinished(prompt);
  const start = performance.now();
  let words;
  try {
    words = await completion.find(prompt, NUM_WORDS, { earlier, isStale });
  } catch (error) {
    if (!isStale()) explainFailure(error);
    return;
  }
  if (isStale()) return;
  const milliseconds = performance.now() - start;
  current.words = words;
  heading.textContent = unfinished ? `Words that begin with “${unfinished}”` : "Next words";
  const largest = words.length ? words[0].probability : 1;
  list.replaceChildren(...words.map((found) => makeRow(found, largest)));
  announce(words, unfinished);
  timeLine.textContent = `${Math.max(1, Math.round(milliseconds))} ms`;
  document.body.dataset.answered = prompt;
}

// Replace the unfinished word by the chosen one, unless the text has changed since the words were
// found. Words and marks are spaced as in print; tokens that white space separates have spaces.
function insertWord({ word, isEnd, isJoined }) {
  const text = readText();
  if (!latest.words || latest.text !== text) return;
  const { unfinished } = completion.splitUnfinished(splitText(text).prompt);
  let before = text.slice(0, text.length - unfinished.length);
  let inserted = `${word} `;
  if (isEnd) {
    before = before.trimEnd();
    inserted = "\n";
  } else if (!unfinished) {
    const isPrint = completion.codec.tokenizer.splitsTokens;
    const last = before.at(-1) ?? " ";
    const needsSpace = !isJoined && !/\s/.test(last) && !(isPrint && OPENING_MARKS.includes(last));
    if (isPrint && CLOSING_MARKS.includes(word)) before = stripEnd(before, / /);
    else if (needsSpace) before += " ";
    if (isPrint && OPENING_MARKS.includes(word)) inserted = word;
  }
  field.value = before + inserted + field.value.slice(text.length);
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
  if (isPlainTab && tabTakesWord && latest.words?.length !== 0) {
    // before the answer Tab does nothing
    event.preventDefault();
    if (latest.words) insertWord(latest.words[0]);
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
  latest.words = [];
  list.replaceChildren();
  statusLine.className = "failed";
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
  if (document.activeElement === field && latest.text !== readText()) showWords();
});
start();
