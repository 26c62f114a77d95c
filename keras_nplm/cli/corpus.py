"""Flags of the text: its files, its tokenizer and its splits; and the corpus that they describe."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter, Token

from keras_nplm.cli.parameters import (
    NONE_GIVEN,
    SEVERAL,
    DataDirectory,
    Field,
    Given,
    Switch,
    TextFiles,
    check_left_out,
    flatten,
    number,
    read_path,
)
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.characters import CharacterTokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer, list_choices
from keras_nplm.io.errors import check_argument
from keras_nplm.training.options import CorpusOptions

if TYPE_CHECKING:
    from keras_nplm.data.corpus import Corpus
    from keras_nplm.data.subwords import SubwordOptions

GROUP = Group.create_ordered("text, tokens and vocabulary")
_Step = Literal["lower", "numbers", "lemmas"]
_TOKENIZERS = "; ".join(
    ["tokenizer of text", *(f"{kind}: {noun}" for kind, noun in list_choices().items() if noun)]
)
Share = tuple[float, tuple[str, ...]]  # of a text in each epoch, and its files

if TYPE_CHECKING:
    CorpusFlags = Given
else:
    CorpusFlags = flatten(
        {CorpusOptions: GROUP},
        ["normalise"],
        {"tokenizer": _TOKENIZERS},
        usual=("corpus", "token", "tokenizer"),
    )


def _read_shares(hint: object, tokens: Sequence[Token]) -> tuple[Share, ...]:
    """Return the share and the files of each `--resample`."""
    values: list[list[str]] = []
    for token in tokens:
        if token.index == 0:  # the flag is given once more
            values.append([])
        values[-1].append(token.value)
    return tuple(_read_share(*given) for given in values)


def _read_share(first: str, *files: str) -> Share:
    try:
        share = float(first)
    except ValueError:
        share = math.nan
    fix = "write it as in --resample 0.1 'news/*.gz'."
    received = " ".join([first, *files])
    is_share = 0 < share <= 1 and bool(files)
    check_argument("--resample", is_share, "a share in (0, 1] and then files", received, fix)
    return share, files


_HELP = (
    "out-of-domain text files and the share of their n-grams per epoch, in (0, 1]; each epoch uses "
    "a new share, the command ngram counts all; one flag per out-of-domain corpus"
)
Resample = Annotated[
    tuple[Share, ...],
    SEVERAL,
    Parameter(
        help=_HELP,
        metavar="SHARE FILE",
        converter=_read_shares,
        accepts_keys=False,
        n_tokens=1,
        show=False,
        group=GROUP,
    ),
]


_HELP = (
    "fixed word list, a word per line, or vocabulary.txt of a model, whose ids stay; other words "
    "are <unk>"
)
WordFile = Annotated[
    str | None,
    Parameter(
        help=_HELP,
        metavar="FILE",
        converter=read_path,
        group=GROUP,
        show=False,
        show_default="the words of the text",
    ),
]


@Parameter(name="*", group=GROUP)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts:
    """The files of a text, and what belongs to its tokens."""

    train: TextFiles = ()
    """text files or globs of the train split, one sentence per line; alone: split 80/10/10"""

    validation: TextFiles = ()
    """the same of the validation split"""

    test: TextFiles = ()
    """the same of the test split"""

    fractions: Annotated[
        tuple[float, float, float] | None,
        number(
            float, metavar="F F F", is_list=True, show=False, n_tokens=3, show_default="0.8 0.1 0.1"
        ),
    ] = None
    """shares of train, validation and test lines if only --train is given"""

    shuffle: Annotated[Switch, Parameter(show=False)] = False
    """split the lines of --train at random, not in their order; equal lines stay in one split"""

    all: Annotated[Switch, Parameter(show=False)] = False
    """train on every line, as lmplz does, without validation and test; train then needs --epochs,
    and saves the network alone"""

    pieces_file: Annotated[str | None, Parameter(metavar="FILE", show=False)] = None
    """trained sentencepiece .model to use instead of training one"""

    normalise: Annotated[tuple[_Step, ...], SEVERAL, Parameter(show=False)] = ()
    """normalisation of tokens before words are counted: lower case, one symbol for numbers,
    lemmas"""

    field: Annotated[Field, Parameter(show=False)] = None

    data_dir: DataDirectory = None


NO_TEXTS = Texts()
_UNNAMED = CorpusOptions()


def open_given_corpus(
    given: Given,
    texts: Texts,
    resample: Sequence[Share] = (),
    *,
    named: CorpusOptions = _UNNAMED,
    words: Given = NONE_GIVEN,
    vocabulary: str | None = None,
) -> "Corpus":
    """Open the corpus that the flags describe.

    Args:
        given: the options that were given.
        named: the options of the named configuration. They decide where no flag does.
        words: the options of `TextOptions` that were given. Subwords and a fixed vocabulary have no
            use for some.
        vocabulary: the file of a fixed vocabulary.
    """
    from keras_nplm.data.corpora.opening import open_corpus

    if texts.train:
        check_left_out({"corpus": given.get("corpus")}, "with `--train`", "drop one of them.")
    if texts.all:
        check_left_out({"fractions": texts.fractions}, "with `--all`", "drop one of them.")
    chosen = choose_tokenizer(given, named)
    tokenizer = get_tokenizer(chosen or CorpusOptions.tokenizer)
    if vocabulary is not None or not tokenizer.has_unknown:
        without_effect = {name: words.get(name) for name in ("min_count", "max_size")}
        kind = tokenizer.summary or tokenizer.kind
        if vocabulary is not None:
            kind = "`--vocabulary`"
        fix = "leave it out."
        if tokenizer.is_trained:
            fix = "set the size of the vocabulary by `--pieces`."
        check_left_out(without_effect, f"with {kind}", fix)

    return open_corpus(
        given.get("corpus", named.corpus),
        train=texts.train,
        resample=resample,
        validation=texts.validation,
        test=texts.test,
        fractions=texts.fractions,
        shuffle=texts.shuffle,
        all_lines=texts.all,
        field=texts.field,
        tokenizer=tokenizer if chosen else None,
        normalise=texts.normalise,
        subwords=_choose_subwords(given, texts, named, tokenizer),
        vocabulary=vocabulary,
        data_dir=texts.data_dir,
    )


def choose_tokenizer(given: Given, named: CorpusOptions = _UNNAMED) -> str | None:
    """Return the name of the tokenizer, without its normalisation, that a flag or the named
    configuration chooses.
    """
    chosen = given.get("tokenizer")
    if given.get("token") == "character":
        if chosen is not None and not get_tokenizer(chosen).tokens_are_words:
            fix = "drop one of them."
            check_left_out({"tokenizer": chosen}, "with `--token character`", fix)
        return CharacterTokenizer.kind
    if chosen is not None:
        return chosen
    if "token" in given:
        return CorpusOptions.tokenizer
    if named.token == "character":
        return CharacterTokenizer.kind
    return None if named.tokenizer == CorpusOptions.tokenizer else named.tokenizer


def _choose_subwords(
    given: Given, texts: Texts, named: CorpusOptions, tokenizer: Tokenizer
) -> "SubwordOptions | None":
    """Return how subwords are made, or None without `--tokenizer sentencepiece`."""
    from keras_nplm.data.subwords import SubwordOptions
    from keras_nplm.io.remote import fetch

    own = {name: given[name] for name in ("pieces", "pieces_kind") if name in given}
    if not tokenizer.is_trained:
        fix = "add `--tokenizer sentencepiece`."
        check_left_out({**own, "pieces_file": texts.pieces_file}, "without subwords", fix)
        return None
    if texts.pieces_file is not None:
        check_left_out(own, "with `--pieces-file`", "drop one of them.")
        return SubwordOptions(file=str(fetch(texts.pieces_file)))
    return SubwordOptions(
        pieces=given.get("pieces", named.pieces), kind=given.get("pieces_kind", named.pieces_kind)
    )
