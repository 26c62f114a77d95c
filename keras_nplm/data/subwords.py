"""Subwords: SentencePiece models with byte fallback, their training, and the file
`sentencepiece.model`.
"""

import dataclasses
import functools
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np

from keras_nplm.data.arguments import check_lines
from keras_nplm.data.forms import SUBWORDS_MARK
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.pieces import (
    BYTE_NAMES,
    DEFAULT_PIECES,
    PIECES,
    SPACE,
    PiecesKind,
    join_pieces,
    name_piece,
)
from keras_nplm.io.errors import InputError, summarize_error
from keras_nplm.io.files import check_is_file, identify_content, replace_file
from keras_nplm.io.remote import display_url
from keras_nplm.io.text import WHITE_SPACE, encode

PIECES_KINDS = get_args(PiecesKind)  # in the order of SentencePiece's numbers
_MODEL = "The SentencePiece model"
_FIRST_ID, _UNK_ID = 4, 1  # of `Vocabulary`: the first piece, and `<unk>`
_UNKNOWN_PENALTY = 10.0  # of SentencePiece's unigram model
_SAMPLE = 1 << 23  # characters of the text that pieces are trained on, at most
_LONGEST = 1 << 12  # characters of a training line; longer lines are cut
_MIN_COUNT = 2  # of a character that becomes a piece; rarer ones are spelled in bytes
_CACHED = 1 << 20  # words with their ids that a process caches: about 150 MB
_LONGEST_CACHED = 40  # characters of a cached word: text without spaces does not repeat
_NO_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), " ")
# text that must not become one piece
_LIKE_NAMES = re.compile(r"<(?=/?s>|unk>|pad>|0x[0-9A-F]{2}>)")


class Subwords:
    """A SentencePiece model as a tokenizer: lines of text to pieces of words, and back.

        P(x) = max over segmentations of prod_i P(x_i)    (unigram; BPE applies its merges in order)

    A line is split at each space, and the words are encoded one by one. A word begins with `▁`, and
    characters without a piece are spelled in bytes, such as `<0xE2>`. Thus no `<unk>` occurs, and
    `decode` restores each line exactly. Other white space, also a line end within a text, is a
    character of a word.

    Args:
        model: the bytes of a `.model` file of SentencePiece, unigram or BPE, with byte fallback.
            Its normalisation is switched off. Control symbols and unused pieces get no id. Bytes
            get the last ids.
        path: name of the model for error messages.

    Attributes:
        words: the names of the pieces from id 4 on. White space in a piece is written as in
            `<U+00A0>`.

    Raises:
        InputError: the model is damaged, or no model of words with a `▁` at their beginning.

    Example:

    >>> subwords = Subwords.train(["the cat sat", "the cats"], pieces=300, kind="bpe")
    >>> subwords.encode("the cat: ☃")
    ['▁the', '▁cat', '<0x3A>', '▁', '<0xE2>', '<0x98>', '<0x83>']
    >>> subwords.decode(subwords.encode("the cat: ☃"))
    'the cat: ☃'

    Reference: Kudo & Richardson (2018), SentencePiece; Kudo (2018), Subword regularization
    (unigram); Sennrich et al. (2016), Neural machine translation of rare words with subword units
    (BPE).
    """

    def __init__(self, model: bytes, path: str | os.PathLike = _MODEL):
        proto = _parse_model(model, path)
        spec = proto.normalizer_spec
        spec.name = "identity"
        spec.precompiled_charsmap = b""
        spec.remove_extra_whitespaces = False
        spec.add_dummy_prefix = True  # so that the first word of a line is like the others
        types = type(proto).SentencePiece
        self.kind = PIECES_KINDS[proto.trainer_spec.model_type - 1]
        self.model = proto.SerializeToString(deterministic=True)
        lowest = min(piece.score for piece in proto.pieces if piece.type == types.NORMAL)
        # of a character that is no piece, in the search of a unigram model
        self.unknown_score = np.float32(lowest) - np.float32(_UNKNOWN_PENALTY)
        kinds = (types.NORMAL, types.USER_DEFINED, types.BYTE)
        kept = [pair for pair in enumerate(proto.pieces) if pair[1].type in kinds]
        kept.sort(key=lambda pair: pair[1].type == types.BYTE)
        self.words = [
            piece.piece if piece.type == types.BYTE else name_piece(piece.piece)
            for _, piece in kept
        ]
        self._ids = np.full(len(proto.pieces), _UNK_ID, np.int32)  # of SentencePiece's ids
        self._ids[[number for number, _ in kept]] = np.arange(_FIRST_ID, _FIRST_ID + len(kept))
        places = {name: place for place, name in enumerate(self.words, start=_FIRST_ID)}
        self.byte_ids = np.array([places[name] for name in BYTE_NAMES], np.int32)

    @classmethod
    def train(
        cls, lines: Iterable[str], pieces: int = DEFAULT_PIECES, kind: str = "unigram"
    ) -> "Subwords":
        """Train the pieces on lines of text, in the form of `clean_text`.

        The same text gives the same pieces, the most frequent ones first.

        Args:
            lines: lines of text, read once. About 8 million characters of them are used, spread
                over the whole text.
            pieces: size of the vocabulary, with bytes and special tokens, 300 to 1,000,000; smaller
                for a small text.
            kind: `"unigram"` or `"bpe"`.

        Raises:
            InputError: an option is out of range, or there is not text.
        """
        sample = _sample_lines(map(clean_text, check_lines(lines)))
        alphabet = _choose_characters(sample, (pieces - _FIRST_ID - 256) // 2)
        if not alphabet:
            raise InputError(
                "The text of the subwords must have at least one word. Fix: give more text."
            )
        subwords = cls(_train_model(_clean_lines(sample, alphabet), pieces, kind))
        encoded = b"".join(subwords.encode_bytes(line.translate(_NO_SURROGATES)) for line in sample)
        counts = np.bincount(np.frombuffer(encoded, np.int32), minlength=len(subwords) + _FIRST_ID)
        return cls(_sort_pieces(subwords.model, counts[subwords._ids]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subwords) and self.model == other.model

    def __reduce__(self) -> tuple:
        return Subwords, (self.model,)

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, line: str) -> list[str]:
        """Split a line into pieces."""
        names = self._names
        return [names[i] for i in self.encode_ids(line).tolist()]

    def encode_ids(self, line: str) -> np.ndarray:
        """Encode a line as ids of `Vocabulary`, int32 [T]; see `encode`."""
        return np.frombuffer(self.encode_bytes(line), np.int32)

    def encode_bytes(self, line: str) -> bytes:
        """Encode a line as the bytes of its ids, int32 each; see `encode`."""
        return b"".join(map(self._cache.__getitem__, line.split(" "))) if line else b""

    def decode(self, pieces: Sequence[str]) -> str:
        """Join pieces to a line, without the space that the first `▁` stands for; see
        `join_pieces`.
        """
        return join_pieces(pieces).removeprefix(" ")

    def save(self, path: Path) -> None:
        """Write the model, which any SentencePiece library reads, and a checksum as a field that
        they skip.
        """
        checksum = zlib.crc32(self.model).to_bytes(4, "little")
        with replace_file(path) as temporary:
            temporary.write_bytes(self.model + SUBWORDS_MARK + checksum)

    def list_pieces(self) -> list[tuple[str, list[int], float, bool]]:
        """List the pieces that are no bytes: (text with `▁`, ids, score, whether it is a
        user-defined symbol).

        An unused piece of BPE takes part in merges, and is then split again into the ids of its
        parts.
        """
        import sentencepiece

        proto = _parse_model(self.model)
        types = type(proto).SentencePiece
        listed = []
        proto.normalizer_spec.add_dummy_prefix = False
        parts = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        highest = max(piece.score for piece in proto.pieces if piece.type == types.NORMAL)
        for number, piece in enumerate(proto.pieces):
            is_symbol = piece.type == types.USER_DEFINED
            score = piece.score
            ids = [int(self._ids[number])]
            # as SentencePiece, so that a symbol is seldom split
            if is_symbol and self.kind == "unigram":
                score = len(piece.piece.encode()) * highest - 0.1
            is_split = piece.type == types.UNUSED and self.kind == "bpe"
            if is_split:
                ids = self._ids[parts.encode(piece.piece)].tolist()
            if is_symbol or is_split or piece.type == types.NORMAL:
                listed.append((piece.piece, ids, score, is_symbol))
        return listed

    @functools.cached_property
    def blanks(self) -> str:
        """The white space after which a word begins: spaces, and what no piece has, such as line
        ends.

        At the end of a prompt it is not encoded, since the `▁` of the next word stands for it.
        """
        known = {*join_pieces([name for name in self.words if name not in BYTE_NAMES])} - {" "}
        return "".join(character for character in WHITE_SPACE if character not in known)

    @functools.cached_property
    def _names(self) -> list[str]:
        return ["<pad>", "<unk>", "<s>", "</s>", *self.words]

    @functools.cached_property
    def _cache(self) -> "WordCache":
        return WordCache(self._encode_word)

    @functools.cached_property
    def _processor(self) -> Any:
        import sentencepiece

        return sentencepiece.SentencePieceProcessor(model_proto=self.model)

    def _encode_word(self, word: str) -> bytes:
        """Encode a word without spaces as the bytes of its ids."""
        spelling = encode(word)
        start = self._processor.piece_to_id(SPACE)
        if not word:  # one of several spaces
            return self._ids[[start]].tobytes()
        if SPACE in word:  # SentencePiece would take it for a space
            return np.append(
                self._ids[start], self.byte_ids[np.frombuffer(spelling, np.uint8)]
            ).tobytes()
        return self._ids[self._processor.encode(word)].tobytes()


class WordCache(dict):
    """Words to the bytes of their ids, as `encode` returns them."""

    def __init__(self, encode: Callable[[str], bytes]):
        super().__init__()
        self._encode = encode

    def __missing__(self, word: str) -> bytes:
        ids = self._encode(word)
        if len(word) <= _LONGEST_CACHED:
            if len(self) >= _CACHED:
                self.clear()
            self[word] = ids
        return ids


def _parse_model(model: bytes, path: str | os.PathLike = _MODEL) -> Any:
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    # protobuf makes the classes of this module while it is imported
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        proto.ParseFromString(model)
        proto.DiscardUnknownFields()
    except DecodeError:
        proto.Clear()
    spec = proto.trainer_spec
    types = type(proto).SentencePiece
    has_space = any(
        piece.piece == SPACE and piece.type in (types.NORMAL, types.USER_DEFINED)
        for piece in proto.pieces
    )
    has_space &= proto.normalizer_spec.escape_whitespaces and not spec.treat_whitespace_as_suffix
    byte_names = sorted(piece.piece for piece in proto.pieces if piece.type == types.BYTE)
    for holds, wanted in (
        (proto.pieces, "a whole SentencePiece model"),
        (spec.model_type in (spec.UNIGRAM, spec.BPE), "a unigram or BPE model"),
        (has_space, f"a model whose words begin with {SPACE}"),
        (byte_names == [*BYTE_NAMES], "a model with byte fallback"),
    ):
        if not holds:
            raise InputError(
                f"{path} must be {wanted}. Fix: use a file that `spm_train --byte_fallback` wrote."
            )
    return proto


def _sample_lines(lines: Iterable[str]) -> list[str]:
    """Return lines evenly spread over a text, about 8 million characters at most: each line, or
    every 2nd, 4th …
    """
    kept: list[str] = []
    size = 0
    stride = 1
    for number, line in enumerate(lines):
        if number % stride:
            continue
        kept += (
            line[start : start + _LONGEST] for start in range(0, min(len(line), _SAMPLE), _LONGEST)
        )
        size += len(line)
        if size > _SAMPLE:
            kept = kept[::2]
            stride = 2 * stride
            size = sum(map(len, kept))
    return kept


def _choose_characters(lines: Iterable[str], most: int) -> set[str]:
    """Return the most frequent characters, which become pieces."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    counts.pop(" ", None)
    listed = [c for c in counts if not "\ud800" <= c < "\ue000"]  # no half of a surrogate pair
    frequent = sorted(listed, key=lambda c: (-counts[c], c))[:most]
    return {c for c in frequent if counts[c] >= _MIN_COUNT} or set(frequent[:1])


def _clean_lines(lines: Iterable[str], alphabet: set[str]) -> Iterator[str]:
    """Replace other characters by spaces, and take apart what SentencePiece would take for its own
    symbols.
    """
    alphabet = alphabet - {SPACE, "\u2585", "\t"}  # SentencePiece skips or splits lines with these
    others: dict[int, str] = {}
    for line in lines:
        for character in set(line) - alphabet:
            others[ord(character)] = " "
        yield _LIKE_NAMES.sub("< ", line.translate(others))


def _train_model(lines: Iterable[str], pieces: int, kind: str) -> bytes:
    """Train a SentencePiece model with byte fallback and without normalisation."""
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=kind,
            vocab_size=pieces,
            hard_vocab_limit=False,  # a small text has fewer pieces
            num_threads=1,  # sums must not depend on the number of cores
            minloglevel=2,
            character_coverage=1.0,
            byte_fallback=True,
            max_sentence_length=1 << 20,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
        )
    except RuntimeError as error:
        reason = summarize_error(error)
        raise InputError(
            f"SentencePiece cannot train on this text: {reason}. Fix: give more text."
        ) from error
    return model.getvalue()


def _sort_pieces(model: bytes, counts: np.ndarray) -> bytes:
    """Sort the pieces of a model by their counts, special tokens and bytes apart.

    The segmentation stays the same.
    """
    proto = _parse_model(model)
    normal = type(proto).SentencePiece.NORMAL
    pieces = [
        type(proto).SentencePiece.FromString(piece.SerializeToString()) for piece in proto.pieces
    ]
    places = [place for place, piece in enumerate(pieces) if piece.type == normal]
    ranked = sorted(places, key=lambda place: (-counts[place], pieces[place].piece))
    order = dict(zip(places, ranked, strict=True))
    del proto.pieces[:]
    proto.pieces.extend(pieces[order.get(place, place)] for place in range(len(pieces)))
    return proto.SerializeToString(deterministic=True)


@dataclasses.dataclass(frozen=True)
class SubwordOptions:
    """How the subwords of a corpus are made: trained on its text, or read from a file.

    Args:
        pieces: size of the vocabulary; see `Subwords.train`.
        kind: `"unigram"` or `"bpe"`.
        file: a `.model` file of SentencePiece to read instead. Default: train.
    """

    pieces: Annotated[int, PIECES] = DEFAULT_PIECES
    kind: PiecesKind = "unigram"
    file: str | None = None

    def describe(self) -> dict:
        """Return the options for `config.json`, a file with its checksum."""
        if self.file is not None:
            return {"pieces_file": f"{display_url(self.file)} ({identify_content(self.file)})"}
        return {"pieces": self.pieces, "pieces_kind": self.kind}

    def make(self, lines: Iterable[str]) -> Subwords:
        """Read the file, or train on lines."""
        if self.file is None:
            return Subwords.train(lines, self.pieces, self.kind)
        return Subwords(_read_bytes(Path(self.file)), self.file)


def read_subwords(path: Path) -> Subwords:
    """Read the SentencePiece model that `Subwords.save` wrote."""
    data = _read_bytes(path)
    model = data[:-6]
    tag = data[-6:-4]
    checksum = data[-4:]
    if tag != SUBWORDS_MARK or checksum != zlib.crc32(model).to_bytes(4, "little"):
        raise InputError(
            f"{path} is damaged (checksum mismatch). Fix: restore the file or retrain."
        )
    return Subwords(model, path)


def _read_bytes(path: Path) -> bytes:
    check_is_file(path)
    return path.read_bytes()
