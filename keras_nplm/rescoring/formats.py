"""Formats of N-best lists, Moses, Kaldi and TSV: parse a line, and write it with new features.

A format of your own is a class like these in `FORMATS`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from keras_nplm.io.text import SPACES, split_fields

# the feature of a rescoring model
FEATURE_NAME = "nplm"
# the feature that holds the decoder's total, in formats that have one
DECODER_SCORE = "score"
# between the fields of Moses
SEPARATOR = "|||"
# the name of features of Moses that have none
UNNAMED = "feature"
# names of the columns of the id and of the hypothesis in the headers of TSV files
TSV_IDS = ("id", "utt", "utt_id", "utterance", "utterance_id", "key", "list", "list_id")
TSV_HYPOTHESES = ("hypothesis", "hyp", "text", "sentence", "translation", "transcript", "words")
# and of the reference in those of files of references
TSV_REFERENCES = (*TSV_HYPOTHESES, "reference", "ref", "transcription")
# utterance and rank
KALDI_LINE = re.compile(rf"[{SPACES}]*([^{SPACES}]+)-([0-9]+)(?:[{SPACES}]+(.*))?", re.DOTALL)
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

# id, hypothesis, features
ParsedLine = tuple[str, str, dict[str, float]]


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


def name_total(feature: str) -> str:
    """Return the name of the total that rescoring with a feature writes to a column of its own."""
    return f"{feature}_total"


class LineFormat:
    """A format of lines. Methods raise a ValueError that says what is wrong with a line."""

    name: ClassVar[str]
    header: str | None = None
    """the first line, if it has the names of columns"""

    def parse(self, line: str) -> ParsedLine:
        """Return the id, the hypothesis and the features of a line."""
        raise NotImplementedError

    def parse_reference(self, line: str, index: int) -> tuple[str, str] | None:
        """Return the id of a list and its reference text, of the line after `index` references.

        None: the line has no reference.
        """
        raise NotImplementedError

    def extend(self, line: str, values: Mapping[str, float]) -> dict[str, str]:
        """Return a line with new features, the language model's first, and with the new total, the
        last of `values`.

        Keys are the endings of the files to which lines go: `""` the file itself.
        """
        raise NotImplementedError

    def extend_header(self, names: Sequence[str]) -> str | None:
        """Return the header with the names of new features and of the total; None: no header."""
        return None


class Moses(LineFormat):
    """`id ||| hypothesis ||| name= value … name= value … ||| score`: score and further fields are
    optional.
    """

    name = "moses"

    def parse(self, line: str) -> ParsedLine:
        fields = [field.strip(SPACES) for field in line.split(SEPARATOR)]
        if len(fields) < 3 or not fields[0]:
            raise ValueError(
                f"expected `id {SEPARATOR} hypothesis {SEPARATOR} features {SEPARATOR} score`"
            )
        pairs: list[tuple[str, float]] = []
        for name, values in self._group_values(fields[2]).items():
            if not values:
                raise ValueError(f"the feature {name} has no value")
            is_one = len(values) == 1 and name != UNNAMED
            names = [name] if is_one else [f"{name}.{i + 1}" for i in range(len(values))]
            pairs += zip(names, values, strict=True)
        pairs += [(DECODER_SCORE, parse_number(field)) for field in fields[3:4]]
        features = dict(pairs)
        if len(features) < len(pairs):
            raise ValueError("a feature occurs twice")
        return fields[0], self._unescape(fields[1]), features

    def _group_values(self, field: str) -> dict[str, list[float]]:
        """Return the values after each name: `name= value …`, `name: value …` or `name=value`.

        A name may contain an equals sign: the last one ends it.
        """
        groups: dict[str, list[float]] = {}
        name = UNNAMED
        for token in split_fields(field):
            found, _, value = token.rpartition("=")
            if token.endswith(":"):
                found, value = token[:-1], ""
            if not found:  # a number after the name
                value = token
            elif found in groups:
                raise ValueError(f"the feature {found} occurs twice")
            name = found or name
            values = groups.setdefault(name, [])
            if value:
                values.append(parse_number(value))
        return groups

    def _unescape(self, text: str) -> str:
        """Replace the escapes of Moses's tokenizer by their characters."""
        for escape, character in _MOSES_ESCAPES.items():
            text = text.replace(escape, character)
        return text

    def parse_reference(self, line: str, index: int) -> tuple[str, str] | None:
        """Return a text for the list of the same number; a blank line is one without words."""
        if "\t" in line or SEPARATOR in line:
            raise ValueError(f"expected the reference of list {index} alone, without its name")
        return str(index), self._unescape(line)

    def extend(self, line: str, values: Mapping[str, float]) -> dict[str, str]:
        """The total replaces the score, which is kept as a feature `NAME_before`."""
        fields = [field.strip(SPACES) for field in line.split(SEPARATOR)]
        *features, (_, total) = values.items()
        added = [f"{name}= {value:.6f}" for name, value in features]
        added += [f"{features[0][0]}_before= {before}" for before in fields[3:4]]
        fields[2] = " ".join([fields[2], *added]).strip()
        fields[3:4] = [f"{total:.6f}"]
        return {"": f" {SEPARATOR} ".join(fields)}


class Kaldi(LineFormat):
    """`utterance-k words`, hypothesis k of an utterance; costs in archives beside the file."""

    name = "kaldi"

    def parse(self, line: str) -> ParsedLine:
        match = KALDI_LINE.fullmatch(line)
        if match is None:
            raise ValueError("expected `utterance-k words`, k the rank")
        utterance, _, words = match.groups(default="")
        return utterance, words.strip(SPACES), {}

    @staticmethod
    def parse_cost(line: str, hypothesis: str) -> float:
        """Return the cost of a line of an archive, `utterance-k cost`, for a line of the file."""
        key = split_fields(hypothesis)[0]
        fields = split_fields(line)
        if len(fields) != 2 or fields[0] != key:
            raise ValueError(f"expected `{key} number`, in the order of the hypotheses")
        return parse_number(fields[1])

    def parse_reference(self, line: str, index: int) -> tuple[str, str] | None:
        name, *text = re.split(f"[{SPACES}]+", line.strip(SPACES), maxsplit=1)
        return (name, "".join(text)) if name else None

    def extend(self, line: str, values: Mapping[str, float]) -> dict[str, str]:
        """Each new feature, and the total, goes to an archive of costs."""
        key = split_fields(line)[0]
        return {"": line, **{f".{name}": f"{key} {-value:.6f}" for name, value in values.items()}}


class Tsv(LineFormat):
    """Tab-separated columns: id, hypothesis, features; see `NBestFile` for headers."""

    name = "tsv"

    def __init__(self, first_line: str):
        self.names = [field.strip(SPACES) for field in first_line.split("\t")]
        if len(self.names) < 2:
            raise ValueError("expected id, hypothesis and features between tabs")
        known = (TSV_IDS, TSV_HYPOTHESES)
        self._places: list[Any] = [_find_column(self.names, wanted) for wanted in known]
        features = [name for place, name in enumerate(self.names) if place not in self._places]
        if None in self._places or any(map(_is_number, features)):
            self._places = [0, 1]
            if not all(map(_is_number, self.names[2:])):
                raise ValueError(
                    "expected id, hypothesis and numbers, or a header with the columns id and "
                    "hypothesis"
                )
            scores = (f"{DECODER_SCORE}.{number}" for number in range(2, len(self.names) - 1))
            default = ["id", "hypothesis", DECODER_SCORE, *scores]
            # a file of ids and hypotheses alone has no score
            self.names = default[: len(self.names)]
            return
        if "" in self.names or len(set(self.names)) < len(self.names):
            raise ValueError(
                "a column of the header has no name, or two columns have the same name"
            )
        self.header = first_line

    def parse(self, line: str) -> ParsedLine:
        fields = line.split("\t")
        number = len(self.names)
        if len(fields) != number:
            raise ValueError(f"expected {number} columns, as in line 1, and found {len(fields)}")
        name, hypothesis = (fields[place].strip(SPACES) for place in self._places)
        if not name:
            raise ValueError("the id is empty")
        features = {
            feature: parse_number(field)
            for place, (feature, field) in enumerate(zip(self.names, fields, strict=True))
            if place not in self._places
        }
        return name, hypothesis, features

    def parse_reference(self, line: str, index: int) -> tuple[str, str] | None:
        name, *texts = (field.strip(SPACES) for field in line.split("\t", 1))
        if not name and not "".join(texts):
            return None
        if index == 0 and name.lower() in TSV_IDS and texts and texts[0].lower() in TSV_REFERENCES:
            return None
        if not name or (not texts and len(split_fields(name)) > 1):
            # without a tab the whole line would be the name of a list
            raise ValueError("expected the name of a list and its reference, a tab between them")
        return name, "".join(texts)

    def extend(self, line: str, values: Mapping[str, float]) -> dict[str, str]:
        """New columns: the features, then the total."""
        return {"": "\t".join([line, *(f"{value:.6f}" for value in values.values())])}

    def extend_header(self, names: Sequence[str]) -> str | None:
        return self.header and "\t".join([self.header, *names])


def _is_number(text: str) -> bool:
    """Return whether a text is a number, also one that is not finite."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _find_column(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the place of the first column with one of the names, in any case; None without one."""
    return next((place for place, name in enumerate(names) if name.lower() in wanted), None)


FORMATS: dict[str, type[LineFormat]] = {"moses": Moses, "kaldi": Kaldi, "tsv": Tsv}
