"""Checks of the arguments that hold lines of text, sentences of tokens, token ids or a seed."""

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_nplm.io.errors import check_argument, shorten_value


def check_items(
    items: Any,
    argument: str = "lines",
    kind: Any = str,
    wanted: str = "a list or an iterator of strings",
) -> Iterator[Any]:
    """Iterate over the items of an argument. Refuse one string, a dictionary or a table, which
    Python would iterate over, and items of another class.
    """
    is_one = isinstance(items, str | bytes | bytearray | Mapping) or hasattr(items, "columns")
    if is_one:  # `repr` of many items takes the time of a copy
        check_argument(argument, False, wanted, shorten_value(items))
    return map(functools.partial(_check_item, argument, kind, wanted), items)


def _check_item(argument: str, kind: Any, wanted: str, item: Any) -> Any:
    if not isinstance(item, kind):
        check_argument(argument, False, wanted, f"an item {shorten_value(item)}")
    return item


def check_text(text: Any, argument: str) -> None:
    """Refuse tokens, or any other object, in place of one text."""
    fix = "join the words by spaces."
    check_argument(argument, isinstance(text, str), "one string", shorten_value(text), fix)


def check_lines(lines: Any, argument: str = "lines") -> Iterator[str]:
    """Iterate over lines of text, without line ends; see `check_items`."""
    return (line.rstrip("\r\n") for line in check_items(lines, argument))


def check_sentences(sentences: Any) -> Iterator[Sequence[str]]:
    """Iterate over sentences, which are lists of tokens; see `check_items`."""
    wanted = "a list or an iterator of sentences, each a list of tokens"
    for sentence in check_items(sentences, "sentences", object, wanted):
        # the first is fast
        if type(sentence) is list and {*map(type, sentence)} <= {str}:
            yield sentence
        else:
            yield list(check_items(sentence, "sentences", wanted=wanted))


def fold_seed(seed: int) -> int:
    """Map a seed, any integer, to 31 bits: seeds from 0 to 2**31 - 1 are kept, and others are
    hashed.
    """
    if 0 <= seed < 1 << 31:
        return int(seed)
    return int.from_bytes(hashlib.sha256(str(int(seed)).encode()).digest()[:4], "big") >> 1
