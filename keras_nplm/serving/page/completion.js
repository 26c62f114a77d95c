// Next words and completions: the same as keras_nplm/language_model/completion.py does in Python.
"use strict";

const NUM_SPECIALS = 4; // <pad>, <unk>, <s>, </s>
const END = "</s>";
const VISIBLE = new RegExp(`[^${SPACE}]`, "u");

// Text to token ids, with the vocabulary and the tokenizer of the model.
class TextCodec {
  constructor(facts, words, forms) {
    const kind = TOKENIZERS[facts.tokenizer.kind];
    this.tokenizer = new kind(facts.tokenizer.steps, forms);
    this.words = words;
    this.contextLength = facts.context_length;
    this.paddingId = facts.padding_id;
    this.unknownId = facts.unknown_id;
    this.predictsEnd = facts.end_of_sentence_id !== null;
    // words in the form of tokens, which a list of other software may have in another form
    this.ids = new Map(words.map((word, id) => [clean(word), id]).reverse());
    words.forEach((word, id) => this.ids.set(word, id));
  }

  // The id of a token. Special tokens in a text are out-of-vocabulary words.
  encode(token) {
    const id = this.ids.get(token) ?? this.unknownId;
    return id < NUM_SPECIALS ? this.unknownId : id;
  }

  // The context of the word after a prompt: the ids of the last tokens, padded at the front.
  // earlier: the sentences before it, for a model that reads them
  encodeBeginning(text, earlier = []) {
    const tokens = this.tokenizer.splitBeginning(text);
    const before = this.encodeSentences(earlier, this.contextLength - tokens.length);
    const ids = [...before, ...tokens.map((token) => this.encode(token))];
    const last = ids.slice(Math.max(0, ids.length - this.contextLength));
    const context = new Int32Array(this.contextLength).fill(this.paddingId);
    context.set(last, this.contextLength - last.length);
    return context;
  }

  // The ids of the last sentences, each with its end: `number` ids or more, if there are so many. A
  // blank sentence begins a new text. The sentences before are not read, so that each key is fast.
  encodeSentences(sentences, number) {
    let ids = [];
    for (let i = sentences.length - 1; i >= 0 && ids.length < number; i -= 1) {
      const tokens = this.tokenizer.split(sentences[i]);
      if (!tokens.length) break;
      const found = tokens.map((token) => this.encode(token));
      ids = [...found, this.words.indexOf(END), ...ids];
    }
    return ids;
  }
}

// The places of the k greatest scores above -Infinity or equal to it, in descending order; of equal
// scores the first.
function findBest(places, score, k) {
  const best = [];
  for (const place of places) {
    const value = score(place);
    if (best.length === k && value <= best[k - 1].value) continue;
    let rank = best.length;
    while (rank > 0 && best[rank - 1].value < value) rank -= 1;
    best.splice(rank, 0, { place, value });
    if (best.length > k) best.pop();
  }
  return best.map((found) => found.place);
}

// The text without the characters of a pattern at its end. A regular expression that ends in `+$`
// would take quadratic time.
function stripEnd(text, pattern) {
  let end = text.length;
  while (end && pattern.test(text[end - 1])) end -= 1;
  return text.slice(0, end);
}

// A word that begins with a prefix, but for the case of letters, in the case of the prefix
function useCase(typed, word) {
  const rest = lower(Array.from(word).slice(Array.from(typed).length).join(""));
  return typed + (isUpper(typed) ? upper(rest) : rest);
}

// Words in the case of a prefix; of words that become equal the first one
function useCaseOfAll(typed, found) {
  const proposed = new Map();
  for (const answer of found) {
    const word = useCase(typed, answer.word);
    if (!proposed.has(word)) proposed.set(word, { ...answer, word });
  }
  return [...proposed.values()];
}

class Completion {
  // Split a prompt into its complete words and its last, unfinished word, both as they were typed.
  splitUnfinished(text) {
    const unfinished = this.findUnfinished(clean(text));
    let start = text.length;
    while (start && clean(text.slice(start)) !== unfinished) start -= 1;
    return { before: text.slice(0, start), unfinished: text.slice(start) };
  }
}

// Completions of a model whose tokens are words: one context, ranked.
class WordCompletion extends Completion {
  static LONGEST_PREFIX = 256; // characters; a longer one has no words
  static BEFORE_WORD = 3; // characters to read before the longest word, to see that one is longer

  // logProbs: a function from contexts to the log-probabilities of all words after each
  constructor(codec, logProbs) {
    super();
    this.codec = codec;
    this.logProbs = logProbs;
    this.cleanWords = codec.words.map(clean);
    const lengths = this.cleanWords.slice(NUM_SPECIALS).map((word) => Array.from(word).length);
    const longest = lengths.reduce((most, length) => Math.max(most, length), 0);
    this.longest = Math.min(longest, WordCompletion.LONGEST_PREFIX);
  }

  findUnfinished(text) {
    const characters = Array.from(text.slice(-2 * (this.longest + WordCompletion.BEFORE_WORD)));
    const tail = characters.slice(-this.longest - WordCompletion.BEFORE_WORD).join("");
    const [word] = tail.match(this.codec.tokenizer.unfinishedWord) ?? [""];
    return word;
  }

  // The words in lower case, which few prompts need
  get loweredWords() {
    this.lowered ??= this.cleanWords.map(lower);
    return this.lowered;
  }

  // earlier: the sentences before the text, for a model that reads them
  async find(text, k, { earlier = [] } = {}) {
    const { before, unfinished } = this.splitUnfinished(text);
    const typed = clean(unfinished);
    if (Array.from(typed).length > this.longest) return [];
    const [logProbs] = await this.logProbs([this.codec.encodeBeginning(before, earlier)]);
    const score = (id) => logProbs[id];
    const answer = (id) => ({
      word: this.codec.words[id],
      probability: Math.exp(logProbs[id]),
      isEnd: this.codec.words[id] === END,
    });
    const ids = WordCompletion.listWords(this.cleanWords, typed);
    if (!typed && this.codec.predictsEnd) ids.unshift(this.codec.words.indexOf(END));
    if (ids.length) return findBest(ids, score, k).map(answer);
    const others = WordCompletion.listWords(this.loweredWords, lower(typed));
    const found = sortBest(others, score, others.length).map((id) => {
      return { ...answer(id), word: this.cleanWords[id] };
    });
    return useCaseOfAll(typed, found).slice(0, k);
  }

  static listWords(words, prefix) {
    const ids = [];
    for (let id = NUM_SPECIALS; id < words.length; id += 1) {
      if (words[id].startsWith(prefix)) ids.push(id);
    }
    return ids;
  }
}

// What a text ends with: nothing, a letter, a different character, a space; then: no space may come
// before the word.
const OPEN = 0;
const ENDS_WITH_LETTER = 1;
const ENDS_WITH_OTHER = 2;
const AFTER_SPACE = 3;
const NO_SPACE = 4;
// Thai, Lao, Tibetan, Myanmar, Khmer, kana, Chinese characters
const SCRIPT_WITHOUT_SPACES = new RegExp(
  "[\\u0e00-\\u0fff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff" +
    "\\u3400-\\u4dbf\\u4e00-\\u9fff\\u{20000}-\\u{3ffff}]",
  "u",
);

function continuesWord(character) {
  return /['’_\p{L}\p{M}\p{N}]/u.test(character) && !SCRIPT_WITHOUT_SPACES.test(character);
}

// Bytes are strings of the characters U+0000 to U+00FF, which JavaScript compares and joins.
function toBytes(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

// The text of bytes, or null if they are not UTF-8
function toText(bytes) {
  const data = Uint8Array.from(bytes, (character) => character.charCodeAt(0));
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return null;
  }
}

// The bytes of the text of a token; a byte of a character is itself
function spellPiece(name) {
  const byte = name.match(/^<0x([0-9A-F]{2})>$/);
  if (byte) return String.fromCharCode(parseInt(byte[1], 16));
  const text = name.replaceAll(SPACE_SYMBOL, " ");
  return toBytes(
    text.replace(/<U\+([0-9A-F]{4,6})>/g, (_, code) => String.fromCodePoint(parseInt(code, 16))),
  );
}

// The tokens of a vocabulary as parts of words: which token begins a new word, and after which.
class WordPieces {
  constructor(words) {
    const size = words.length;
    this.texts = words.map((name, id) => (id < NUM_SPECIALS ? "" : spellPiece(name)));
    this.last = new Uint8Array(size).fill(OPEN);
    const starts = new Uint8Array(size).fill(ENDS_WITH_OTHER);
    const hasSpace = new Array(size).fill(false);
    this.hasSpace = hasSpace;
    const fits = new Array(size).fill(true); // not the second or a later byte of a character
    for (let id = NUM_SPECIALS; id < size; id += 1) {
      hasSpace[id] = this.texts[id].startsWith(" ");
      if (hasSpace[id]) this.texts[id] = this.texts[id].slice(1);
      const text = this.texts[id];
      fits[id] = !("\x80" <= text[0] && text[0] < "\xc0");
      starts[id] = WordPieces.classify(text, 0);
      this.last[id] = WordPieces.classify(text, -1);
    }
    const afterSpace = hasSpace.includes(true) ? hasSpace : fits;
    // of each end of a text: whether a token begins a word after it
    this.begins = [
      fits,
      starts.map((start, id) => start !== ENDS_WITH_LETTER || hasSpace[id]),
      fits,
      afterSpace,
      fits.map((isStart, id) => isStart && !hasSpace[id]),
    ].map((row) => Uint8Array.from(row));
    this.begins.forEach((row, end) => {
      row.fill(0, 0, NUM_SPECIALS);
      if (end !== NO_SPACE) row[words.indexOf(END)] = 1;
    });
  }

  static classify(bytes, place) {
    if (!bytes) return AFTER_SPACE;
    const text = toText(bytes);
    if (text === null) return ENDS_WITH_LETTER; // a byte of a rare character
    return continuesWord(Array.from(text).at(place)) ? ENDS_WITH_LETTER : ENDS_WITH_OTHER;
  }

  // Whether the text of a token begins with the bytes `wanted`, or is the beginning of them
  isCompatible(id, wanted) {
    return this.texts[id].startsWith(wanted) || wanted.startsWith(this.texts[id]);
  }
}

function logSumExp(row) {
  let largest = -1e30; // stands for -Infinity, which would give NaN
  for (const value of row) largest = Math.max(largest, value);
  let sum = 0;
  for (const value of row) sum += Math.exp(value - largest);
  return sum > 0 ? Math.log(sum) + largest : -Infinity;
}

// Completions of a model whose tokens are parts of words, such as characters: a beam search, up to
// the next word or </s>.
class PieceCompletion extends Completion {
  static LEAST_WORDS = 16; // that the search looks for
  static NEGLIGIBLE = -9; // ln of the share of the k-th best word below which a part is dropped
  static MOST_PIECES = 64; // of a word, after its prefix
  static LONGEST_PREFIX = 64;
  static SMALL_BEAM = 256;
  static SMALL_NUMBERS = 1 << 17;
  static MOST_NUMBERS = 1 << 25;

  constructor(codec, logProbs) {
    super();
    this.codec = codec;
    this.logProbs = logProbs;
    this.pieces = new WordPieces(codec.words);
  }

  findUnfinished(text) {
    const characters = Array.from(text);
    let start = characters.length;
    while (start && continuesWord(characters[start - 1])) start -= 1;
    return characters.slice(start).join("");
  }

  chooseBeam(k) {
    const size = this.codec.words.length;
    const number = Math.max(k, PieceCompletion.LEAST_WORDS);
    const small = Math.floor(PieceCompletion.SMALL_NUMBERS / size);
    const most = Math.floor(PieceCompletion.MOST_NUMBERS / size);
    const wanted = Math.max(4 * number, Math.min(PieceCompletion.SMALL_BEAM, small));
    return { number, beam: Math.max(PieceCompletion.LEAST_WORDS, Math.min(wanted, most)) };
  }

  // earlier: the sentences before the text, for a model that reads them; isStale: a function that
  // says whether the text has changed, so that the search may stop
  async find(text, k, { earlier = [], isStale = () => false } = {}) {
    const { before, unfinished } = this.splitUnfinished(text);
    const typed = clean(unfinished);
    if (Array.from(typed).length > PieceCompletion.LONGEST_PREFIX) return [];
    const { tokenizer } = this.codec;
    const cleanBefore = clean(before);
    const stripped = stripEnd(cleanBefore, new RegExp(`[${tokenizer.blanks}]`, "u"));
    const context = this.codec.encodeBeginning(stripped, earlier);
    let end = this.pieces.last[context[context.length - 1]];
    if (stripped && (typed || stripped !== cleanBefore)) {
      end = stripped === cleanBefore ? NO_SPACE : AFTER_SPACE;
    }
    const prefixes = tokenizer.lowers ? [lower(typed)] : [typed, lower(typed)];
    for (const prefix of new Set(prefixes)) {
      const found = await this.search(context, end, toBytes(prefix), k, isStale);
      if (found.length) return prefix === typed ? found : useCaseOfAll(typed, found);
    }
    return [];
  }

  async search(context, end, wanted, k, isStale) {
    const { number, beam } = this.chooseBeam(k);
    const size = this.codec.words.length;
    const [first] = await this.logProbs([context]);
    const allowed = Float64Array.from(first, (value, id) =>
      this.pieces.begins[end][id] ? value : -Infinity,
    );
    const total = logSumExp(allowed);
    // partial words: their text, context, and the scores of each next token
    let partial = [{ text: "", context, scores: allowed.map((value) => value - total) }];
    let words = new Map();
    // of each word the most probable spelling: its score, and whether no space is before it
    const spellings = new Map();
    // after a prompt without an unfinished word the sentence may end
    const withEnd = !wanted && this.codec.predictsEnd;
    if (withEnd) words.set(END, partial[0].scores[this.codec.words.indexOf(END)]);
    for (let length = 0; length < wanted.length + PieceCompletion.MOST_PIECES; length += 1) {
      if (isStale()) return [];
      const places = this.listContinuations(partial, wanted);
      const scoreOf = (place) => partial[Math.floor(place / size)].scores[place % size];
      const best = sortBest(places, scoreOf, beam);
      if (!best.length) break;
      const extended = best.map((place) => this.extend(partial, place));
      const logProbs = await this.logProbs(extended.map((part) => part.context));
      const ended = this.scoreEnds(extended, logProbs, wanted);
      for (const [text, score, isJoined] of ended) {
        const best = spellings.get(text);
        if (!best || best.score < score) spellings.set(text, { score, isJoined });
      }
      words = mergeWords([...words, ...ended], beam);
      const scores = [...words.values()];
      const worst = scores.length >= number ? scores[number - 1] : -Infinity;
      const least = worst + PieceCompletion.NEGLIGIBLE;
      partial = extended.map((part) => this.dropEnds(part, least));
    }
    const found = [...words].slice(0, k);
    return found.map(([bytes, score]) => ({
      word: toText(bytes),
      probability: Math.exp(score),
      isEnd: withEnd && bytes === END,
      isJoined: spellings.get(bytes)?.isJoined ?? false,
    }));
  }

  // The places [row, token] of finite scores whose texts can become words with the prefix
  listContinuations(partial, wanted) {
    const size = this.codec.words.length;
    const places = [];
    partial.forEach(({ text, scores }, row) => {
      const rest = wanted.slice(text.length);
      for (let id = NUM_SPECIALS; id < size; id += 1) {
        if (scores[id] === -Infinity) continue;
        if (!rest || this.pieces.isCompatible(id, rest)) places.push(row * size + id);
      }
    });
    return places;
  }

  // A partial word with one more token
  extend(partial, place) {
    const size = this.codec.words.length;
    const { text, context, scores, isJoined } = partial[Math.floor(place / size)];
    const id = place % size;
    const next = new Int32Array(context.length);
    next.set(context.subarray(1));
    next[context.length - 1] = id;
    return {
      text: text + this.pieces.texts[id],
      context: next,
      last: id,
      score: scores[id],
      isJoined: isJoined ?? !this.pieces.hasSpace[id],
    };
  }

  // Add to partial words the scores of their next tokens, and return those that may be words, each
  // with its score, that of the text and that a new word begins, and whether no space is before it
  scoreEnds(extended, logProbs, wanted) {
    const found = [];
    extended.forEach((part, row) => {
      part.scores = Float64Array.from(logProbs[row], (value) => part.score + value);
      part.ends = this.pieces.begins[this.pieces.last[part.last]];
      const text = part.text.length >= wanted.length ? toText(part.text) : null;
      if (text === null || !VISIBLE.test(text)) return;
      const score = logSumExp(part.scores.filter((_, id) => part.ends[id]));
      found.push([part.text, score, part.isJoined]);
    });
    return found;
  }

  // A partial word without the tokens that begin a new word, and without negligible ones
  dropEnds({ text, context, scores, ends, isJoined }, least) {
    for (let id = 0; id < scores.length; id += 1) {
      if (ends[id] || scores[id] < least) scores[id] = -Infinity;
    }
    return { text, context, scores, isJoined };
  }
}

// As `findBest`, for many of many scores
function sortBest(places, score, number) {
  const scores = Float64Array.from(places, score);
  let candidates = Array.from(scores.keys());
  if (places.length > number) {
    const least = scores.slice().sort()[places.length - number];
    candidates = candidates.filter((i) => scores[i] >= least);
  }
  candidates.sort((a, b) => scores[b] - scores[a] || a - b);
  return candidates.slice(0, number).map((i) => places[i]);
}

// Add the probabilities of the spellings of each word, and keep the most probable words in order
function mergeWords(pairs, number) {
  const spellings = new Map();
  for (const [text, score] of pairs) spellings.set(text, [...(spellings.get(text) ?? []), score]);
  const merged = [...spellings].map(([text, scores]) => [text, logSumExp(scores)]);
  const possible = merged.filter(([, score]) => score > -Infinity);
  return new Map(possible.sort((a, b) => b[1] - a[1]).slice(0, number));
}

function makeCompletion(codec, logProbs) {
  const kind = codec.tokenizer.tokensAreWords ? WordCompletion : PieceCompletion;
  return new kind(codec, logProbs);
}
