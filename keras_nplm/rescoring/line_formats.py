"""Formats of N-best lists: parse a line of Moses, Kaldi or TSV, and write a line with added
features.
"""

import math
import re
from collections.abc import Mapping

from keras_nplm.io.text import SPACES, split_fields

# the feature that holds the decoder's total, in formats that have one
DECODER_SCORE = "score"
# between the fields of Moses
SEPARATOR = "|||"
# the name of features of Moses that have none
UNNAMED = "feature"
TSV_HEADER = ("id", "hypothesis")
# utterance and rank
_KALDI_LINE = re.compile(rf"[{SPACES}]*([^{SPACES}]+)-([0-9]+)(?:[{SPACES}]+(.*))?", re.DOTALL)

# id, hypothesis, features
ParsedLine = tuple[str, str, dict[str, float]]

# an escaped ampersand is last, so that it starts no further escape
_MOSES_ESCAPES = {
    "&#124;": "|",
    "&lt;": "<",
    "&gt;": ">",
    "&apos;": "'",
    "&quot;": '"',
    "&#91;": "[",
    "&#93;": "]",
    "&amp;": "&",
}


def parse_number(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # Python's numbers may have underscores, as in 1_000
    if not math.isfinite(value) or "_" in text:
        raise ValueError(f"{text.strip()[:40]!r} is not a finite number")
    return value


def unescape_moses(text: str) -> str:
    """Replace the escapes of Moses's tokenizer by their characters."""
    for escape, character in _MOSES_ESCAPES.items():
        text = text.replace(escape, character)
    return text


def parse_moses_line(line: str) -> ParsedLine:
    """Parse `id ||| hypothesis ||| name= value … name= value … ||| score`; score and further fields
    are optional.
    """
    fields = [field.strip(SPACES) for field in line.split(SEPARATOR)]
    if len(fields) < 3 or not fields[0]:
        raise ValueError(
            f"expected `id {SEPARATOR} hypothesis {SEPARATOR} features {SEPARATOR} score`"
        )
    name, hypothesis, feature_field, *others = fields
    features = _parse_moses_features(feature_field)
    if others:
        _set_feature(features, DECODER_SCORE, parse_number(others[0]))
    return name, unescape_moses(hypothesis), features


def _parse_moses_features(field: str) -> dict[str, float]:
    features: dict[str, float] = {}
    for name, values in _group_moses_values(field).items():
        if not values:
            raise ValueError(f"the feature {name} has no value")
        if len(values) == 1 and name != UNNAMED:
            _set_feature(features, name, values[0])
            continue
        for number, value in enumerate(values, start=1):
            _set_feature(features, f"{name}.{number}", value)
    return features


def _group_moses_values(field: str) -> dict[str, list[float]]:
    """Return the values after each name: `name= value …`, `name: value …` or `name=value`.

    A name may contain an equals sign: the last one ends it.
    """
    groups: dict[str, list[float]] = {}
    current = UNNAMED
    for token in split_fields(field):
        if token.endswith(":"):
            name = token[:-1]
            value = ""
        else:
            name, _, value = token.rpartition("=")
        if not name:
            # `token` is a number of the current feature, or no number at all
            groups.setdefault(current, []).append(parse_number(token))
            continue
        if name in groups:
            raise ValueError(f"the feature {name} occurs twice")
        current = name
        groups[name] = [parse_number(value)] if value else []
    return groups


def _set_feature(features: dict[str, float], name: str, value: float) -> None:
    if name in features:
        raise ValueError(f"the feature {name} occurs twice")
    features[name] = value


def extend_moses_line(line: str, new_features: Mapping[str, float], total: float | None) -> str:
    """Return a Moses line with more features.

    A total replaces the score, which is kept as a feature `NAME_before`.
    """
    name, hypothesis, features, *others = line.split(SEPARATOR)
    added = [f"{feature}= {value:.6f}" for feature, value in new_features.items()]
    if total is not None:
        if others:
            model = next(iter(new_features), DECODER_SCORE)
            before = others[0].strip(SPACES)
            added.append(f"{model}_before= {before}")
        # a space before each separator, none at the end of the line
        end = " " if len(others) > 1 else ""
        others[:1] = [f" {total:.6f}{end}"]
    if added:
        end = " " if others else ""
        features = " ".join([features.rstrip(SPACES), *added]) + end
    return SEPARATOR.join([name, hypothesis, features, *others])


def parse_kaldi_line(line: str) -> ParsedLine:
    """Parse `utterance-k words`, hypothesis k of an utterance."""
    match = _KALDI_LINE.fullmatch(line)
    if match is None:
        raise ValueError("expected `utterance-k words`, k the rank")
    utterance, _, words = match.groups(default="")
    return utterance, words.strip(SPACES), {}


def parse_kaldi_cost(line: str, key: str) -> float:
    """Parse the number of a line `key number` of a Kaldi archive."""
    fields = split_fields(line)
    if len(fields) != 2 or fields[0] != key:
        raise ValueError(f"expected `{key} number`, in the order of the hypotheses")
    return parse_number(fields[1])


def parse_tsv_line(line: str, columns: list[str]) -> ParsedLine:
    """Parse a line of tab-separated columns: id, hypothesis, features."""
    fields = line.split("\t")
    if len(fields) != len(columns):
        raise ValueError(f"expected {len(columns)} columns, as in line 1, and found {len(fields)}")
    name, hypothesis = (field.strip(SPACES) for field in fields[:2])
    if not name:
        raise ValueError("the id is empty")
    values = map(parse_number, fields[2:])
    return name, hypothesis, dict(zip(columns[2:], values, strict=True))


def name_tsv_columns(first_line: str) -> list[str]:
    """Return the names of TSV columns: a header line, or by default id, hypothesis, score, score.2,
    ….
    """
    fields = first_line.split("\t")
    if len(fields) < 2:
        raise ValueError("expected id, hypothesis and features between tabs")
    if is_tsv_header(first_line):
        if "" in fields or len(set(fields)) < len(fields):
            raise ValueError(
                "a column of the header has no name, or two columns have the same name"
            )
        return fields
    scores = (f"{DECODER_SCORE}.{number}" for number in range(2, len(fields) - 1))
    names = [*TSV_HEADER, DECODER_SCORE, *scores]
    # a file of ids and hypotheses alone has no score
    return names[: len(fields)]


def is_tsv_header(line: str) -> bool:
    """Return whether a line is a TSV header: `id<TAB>hypothesis…`."""
    return tuple(line.lower().split("\t")[:2]) == TSV_HEADER
