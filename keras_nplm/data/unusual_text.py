"""Text that a word model cannot learn from: warnings of split tokens, unknown words and long lines,
and the refusal of words without spaces.
"""

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator

from keras_nplm.data.boundary import crosses_sentences
from keras_nplm.data.corpora.text_files import TextSplit
from keras_nplm.data.corpus import Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.word_counts import batch_by_size
from keras_nplm.io.errors import InputError

_SEARCHED = 1 << 16  # lines of each split that are searched for tokens
MAX_UNKNOWN = 0.1  # share of out-of-vocabulary tokens
_MAX_LINE = 200  # tokens of a line, on average
_SEARCHED_CHARACTERS = 1 << 16  # for words without spaces between them
# letters of scripts without spaces between words, and the mean length of their runs above which a
# run is a phrase: words of Chinese and Japanese have 2 letters, the others 5 with their marks
_UNSPACED = {
    "Chinese or Japanese": ("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+", 4),
    "Thai, Lao, Burmese or Khmer": ("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+", 12),
}
_MARKER = re.compile(r"(?P<marker></?s>)")
# markers, and tokens of the Penn Treebank, WikiText, Moses and BPE, which `words` would split
_TOKENISED = re.compile(
    rf"{_MARKER.pattern}|<(?:unk|UNK|pad|eos|bos)>|(?<!\S)@[-.,/]@(?!\S)|\w@@ "
    r"|&(?:apos|quot|#124|#91|#93);|-[LR][RSC]B-"
    r"|(?<=\w )(?:n't|'(?:s|re|ve|ll|d|m))(?!\S)"
)


def describe_unusual_text(corpus: Corpus, encoded: EncodedCorpus, boundary: str) -> Iterator[str]:
    """Yield a sentence with a remedy for each way in which a text is unusual; nothing for usual
    text.
    """
    tokenizer = get_tokenizer(corpus.tokenizer)
    if not tokenizer.tokens_are_words:
        return
    texts = [split.lines() for split in corpus.splits.values() if isinstance(split, TextSplit)]
    lines = itertools.chain.from_iterable(itertools.islice(text, _SEARCHED) for text in texts)
    yield from filter(None, [_describe_tokens(lines, tokenizer)])
    add_words = "lower `--min-count`"
    if "vocabulary" in corpus.describe():
        add_words = "add words to the file of `--vocabulary`"
    for split, counts in encoded.splits.items():
        if (share := counts["unk_tokens"] / max(1, counts["tokens"])) > MAX_UNKNOWN:
            yield (
                f"{share:.0%} of the {split} tokens are out of the vocabulary (<unk>), so that the "
                f"perplexity looks good. Fix: use `--tokenizer sentencepiece`, {add_words}, "
                "or add text."
            )
    tokens = encoded.splits["train"]["tokens"]
    sentences = encoded.splits["train"]["sentences"]
    if not crosses_sentences(boundary) and tokens > _MAX_LINE * sentences:
        yield (
            f"Each line counts as one sentence, and lines have {tokens // sentences:,} tokens on "
            "average. Fix: put each sentence on its own line, or use `--boundary stream`."
        )


def check_spaces(corpus: Corpus) -> None:
    """Refuse a text without spaces between words for a tokenizer of words: each phrase would be
    one word, and nearly all would be rare.
    """
    text = corpus.splits["train"]
    if not get_tokenizer(corpus.tokenizer).tokens_are_words or not isinstance(text, TextSplit):
        return
    beginning = "\n".join(next(batch_by_size(text.lines(), _SEARCHED_CHARACTERS), []))
    for script, (letters, longest) in _UNSPACED.items():
        runs = re.findall(letters, beginning)
        number = sum(map(len, runs))
        if 2 * number > len(beginning) and number > longest * len(runs):
            raise InputError(
                f"With the tokenizer {get_tokenizer(corpus.tokenizer).kind} the text must have "
                f"spaces between words. Received: {script}, {number // len(runs)} letters in a "
                "row on average. Fix: use `--tokenizer sentencepiece` or `--token character`, or "
                "put spaces between words."
            )


def warn_of_tokens(
    tokenizer: str | Tokenizer, *, is_scored: bool = False
) -> Callable[[Iterable[str]], Iterator[str]]:
    """Return a function that yields all lines, and warns once of text that is tokenised already.

    `is_scored`: the lines are scored, where `<s>` and `</s>` count as unknown words. Training and
    evaluation refuse these tokens.
    """
    warned = False
    chosen = get_tokenizer(tokenizer)

    def watch(lines: Iterable[str]) -> Iterator[str]:
        nonlocal warned
        for line in lines:
            if not warned and (sentence := _describe_tokens([line], chosen, is_scored)):
                print(f"Warning: {sentence}", file=sys.stderr)
                warned = True
            yield line

    return watch


def _describe_tokens(lines: Iterable[str], tokenizer: Tokenizer, is_scored: bool = False) -> str:
    if not (tokenizer.splits_tokens or is_scored):
        return ""
    pattern = _TOKENISED if tokenizer.splits_tokens else _MARKER
    mark = next(filter(None, map(pattern.search, lines)), None)
    if mark is None:
        return ""
    if mark["marker"]:
        return (
            f"The text holds {mark[0]}, which counts as text: each line is a sentence, without "
            "markers. Fix: remove it, for example by `sed -E 's#</?s>##g'`."
        )
    return (
        f"The text is tokenised already, since it has {mark[0].strip()!r}, which the tokenizer "
        f"{tokenizer.kind} splits. Fix: use `--tokenizer whitespace` (with `train`, `ngram` and "
        "`rescore`)."
    )
