"""Warnings about text that a word model cannot learn from: split tokens, unknown words, no spaces, tables."""

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator

from keras_nplm.data.corpora.text_files import TextSplit
from keras_nplm.data.corpus import Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ngram_arrays import crosses_sentences
from keras_nplm.data.tokenizers import WORD_TOKENIZERS, parse_tokenizer, uses_subwords

_SAMPLE = 200  # lines of the training text that are looked at
_SEARCHED = 1 << 16  # lines of each split that are searched for tokens
_MAX_UNKNOWN = 0.1  # share of out-of-vocabulary tokens
_MIN_TOKENS = 10_000  # of the training text
_MAX_LINE = 200  # tokens of a line, on average
_MAX_WORD = 8  # characters between spaces, on average, in a script without spaces
NO_SPACES = re.compile(  # Thai, Lao, Tibetan, Myanmar, Khmer, kana, Chinese characters
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]"
)
_TOKENISED = re.compile(  # markers, and tokens of the Penn Treebank, WikiText, Moses and BPE, which `words` would split
    r"</?s>|<(?:unk|UNK|pad|eos|bos)>|(?<!\S)@[-.,/]@(?!\S)|\w@@ |&(?:apos|quot|#124|#91|#93);|-[LR][RSC]B-"
    r"|(?<=\w )(?:n't|'(?:s|re|ve|ll|d|m))(?!\S)"
)


def describe_unusual_text(corpus: Corpus, encoded: EncodedCorpus, boundary: str) -> list[str]:
    """Return a sentence with a remedy for each way in which a text is unusual; an empty list for usual text."""
    found = [*_describe_size(encoded.splits["train"], boundary)]
    if parse_tokenizer(corpus.tokenizer)[0] in WORD_TOKENIZERS:
        lines = (itertools.islice(_read_lines(corpus, split), _SEARCHED) for split in corpus.splits)
        found += filter(None, [_describe_tokens(itertools.chain.from_iterable(lines), corpus.tokenizer)])
        sample = itertools.islice(_read_lines(corpus, "train"), _SAMPLE)
        words = [word for line in sample for word in line.split() if NO_SPACES.search(word)]
        if words and sum(map(len, words)) > _MAX_WORD * len(words):
            found.append("The text is in a script without spaces between words. Fix: use `--tokenizer sentencepiece`.")
        shares = {split: counts["unk_tokens"] / max(1, counts["tokens"]) for split, counts in encoded.splits.items()}
        found += (
            f"{share:.0%} of the {split} tokens are out of the vocabulary (<unk>), so that the perplexity looks good. "
            "Fix: use `--tokenizer sentencepiece`, lower `--min-count`, or add text."
            for split, share in shares.items()
            if share > _MAX_UNKNOWN
        )
    split = corpus.splits["train"]
    path = next((path for path, *_ in split.chunks[0].ranges), "") if isinstance(split, TextSplit) else ""
    if path.endswith((".csv", ".tsv")):
        found.append(f"{path} is a table. Fix: extract the column with the text, one sentence per line.")
    return found


def warn_of_tokens(tokenizer: str) -> Callable[[Iterable[str]], Iterator[str]]:
    """Return a function that yields all lines, and warns once of text that is tokenised already."""
    warned = False

    def watch(lines: Iterable[str]) -> Iterator[str]:
        nonlocal warned
        for line in lines:
            if not warned and (sentence := _describe_tokens([line], tokenizer)):
                print(f"Warning: {sentence}", file=sys.stderr)
                warned = True
            yield line

    return watch


def _describe_tokens(lines: Iterable[str], tokenizer: str) -> str:
    is_split = parse_tokenizer(tokenizer)[0] == "words"
    if not (is_split and (mark := next(filter(None, map(_TOKENISED.search, lines)), None))):
        return ""
    return (
        f"The text is tokenised already, since it has {mark[0].strip()!r}, which the tokenizer words splits. Fix: use "
        "`--tokenizer whitespace` (with `train`, `ngram` and `rescore`)."
    )


def _describe_size(counts: dict, boundary: str) -> Iterator[str]:
    tokens, sentences = counts["tokens"], counts["sentences"]
    if tokens < _MIN_TOKENS:
        yield (
            f"The training text has only {tokens:,} tokens. Fix: add text, or compare with an n-gram model "
            "(`keras-nplm ngram`)."
        )
    elif not crosses_sentences(boundary) and tokens > _MAX_LINE * sentences:
        yield (
            f"Each line counts as one sentence, and lines have {tokens // sentences:,} tokens on average. Fix: put "
            "each sentence on its own line, or use `--boundary stream`."
        )


def _read_lines(corpus: Corpus, name: str) -> Iterator[str]:
    """Read the lines of a split, of other texts than files as tokens separated by spaces."""
    split = corpus.splits[name]
    if isinstance(split, TextSplit):
        return split.lines()
    return corpus.sentences(name) if uses_subwords(corpus.tokenizer) else map(" ".join, corpus.sentences(name))
