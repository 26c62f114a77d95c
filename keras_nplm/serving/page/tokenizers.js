// Text to tokens: the same as keras_nplm/data/tokenizers does in Python.
"use strict";

// the characters of Python's `str.isspace`; JavaScript's `\s` differs from it
const SPACE =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
// the characters of Python's `\w`
const LETTER = "\\p{L}\\p{N}_";
// a letter and what belongs to it: marks, and the joiners of no width
const LETTERS = `[${LETTER}][${LETTER}\\p{M}\\u200c\\u200d]*`;
const WORD = `${LETTERS}(?:['’-]${LETTERS})*`;
// marks that are invisible without a letter before them, such as the variant of an emoji
const INVISIBLE_MARKS =
  "\\u034f\\u17b4\\u17b5\\u180b-\\u180d\\u180f\\u200c\\u200d\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}";
// the invisible format characters, without U+200B to U+200D
const IGNORED = new RegExp(
  "[\\u00ad\\u061c\\u180e\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb" +
    "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0001}\\u{e0020}-\\u{e007f}]",
  "gu",
);
const SPACE_SYMBOL = "▁";
const NUMBER = "_number_";

// Python's `clean_text`: NFC without invisible format characters
function clean(text) {
  return text.replaceAll("\u200b", " ").replace(IGNORED, "").normalize("NFC");
}

// Python's `lower` of keras_nplm: character by character
function lower(text) {
  return Array.from(text, (character) => Array.from(character.toLowerCase())[0]).join("");
}

function lowerText(text) {
  return lower(text).normalize("NFC");
}

// Python's `upper` of keras_nplm: a character without a single capital stays
function upper(text) {
  return Array.from(text, (character) => {
    const capital = character.toUpperCase();
    return Array.from(capital).length === 1 ? capital : character;
  }).join("");
}

// Whether a text has two or more capitals and no other letters that have capitals
function isUpper(text) {
  const isCapital = (character) => lower(character) !== character;
  return upper(text) === text && Array.from(text).filter(isCapital).length > 1;
}

function isNumber(token) {
  return /\p{N}/u.test(token) && !/\p{L}/u.test(token);
}

// The fields between runs of white space, as Python's `str.split` returns them
function splitFields(text, space) {
  return text.split(new RegExp(`[${space}]+`, "u")).filter((field) => field !== "");
}

class Tokenizer {
  tokensAreWords = true;
  // whether marks beside a word, without a space, are tokens of their own
  splitsTokens = false;
  // the token of the white space between words, if it is a token
  space = "";

  // steps: some of "lower", "numbers" and "lemmas"; forms: the words of inflected forms
  constructor(steps, forms) {
    this.steps = steps;
    this.forms = new Map(Object.entries(forms));
    this.lowers = steps.includes("lower");
  }

  normalise(token) {
    let normalised = token;
    if (this.lowers) normalised = lowerText(normalised);
    if (this.steps.includes("numbers") && isNumber(normalised)) normalised = NUMBER;
    if (this.steps.includes("lemmas")) normalised = this.forms.get(normalised) ?? normalised;
    return normalised;
  }

  // The tokens of a line
  split(line) {
    return this.splitClean(clean(line));
  }

  // The tokens of a prompt. White space at its end counts, since the next word follows.
  splitBeginning(text) {
    const tokens = this.split(text);
    const endsWithSpace = new RegExp(`[${SPACE}]$`, "u").test(clean(text));
    if (this.space && tokens.length && endsWithSpace) tokens.push(this.space);
    return tokens;
  }
}

// Words and punctuation marks of running text
class WordTokenizer extends Tokenizer {
  splitsTokens = true;
  static TOKEN = new RegExp(`${WORD}|[^${LETTER}${SPACE}${INVISIBLE_MARKS}]`, "gu");
  // punctuation is a complete token; an apostrophe or a hyphen may continue the word
  unfinishedWord = new RegExp(`(?:${WORD}['’-]?)?$`, "u");

  splitClean(line) {
    const tokens = line.match(WordTokenizer.TOKEN) ?? [];
    return tokens.map((token) => this.normalise(token));
  }
}

// Tokens between spaces, tabs and line ends
class WhitespaceTokenizer extends Tokenizer {
  static SPACES = " \\t\\r\\n";
  unfinishedWord = new RegExp(`[^${WhitespaceTokenizer.SPACES}\\ufffd]*$`, "u");

  splitClean(line) {
    return splitFields(line, WhitespaceTokenizer.SPACES).map((token) => this.normalise(token));
  }
}

// Single characters; white space between words is one ▁
class CharacterTokenizer extends Tokenizer {
  tokensAreWords = false;
  space = SPACE_SYMBOL;
  blanks = SPACE + SPACE_SYMBOL;

  splitClean(line) {
    const text = splitFields(line, SPACE).join(SPACE_SYMBOL);
    return Array.from(this.lowers ? lowerText(text) : text);
  }
}

// The bytes of UTF-8, named as in <0x41>
class ByteTokenizer extends Tokenizer {
  tokensAreWords = false;
  space = "<0x20>";
  blanks = SPACE;

  splitClean(line) {
    const text = splitFields(line, SPACE).join(" ");
    const data = new TextEncoder().encode(this.lowers ? lowerText(text) : text);
    return Array.from(data, (byte) => {
      const number = byte.toString(16).toUpperCase().padStart(2, "0");
      return `<0x${number}>`;
    });
  }
}

const TOKENIZERS = {
  words: WordTokenizer,
  whitespace: WhitespaceTokenizer,
  characters: CharacterTokenizer,
  bytes: ByteTokenizer,
};
