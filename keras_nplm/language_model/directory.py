"""The directory of a model: its vocabulary and text, what describes it, and the files of each kind of model."""

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from keras_nplm.data.corpora import SPLITS
from keras_nplm.data.encoding import EncodedCorpus
from keras_nplm.data.tokenizers import uses_lemmas
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import (
    NUMBER,
    check_fields,
    read_arrays,
    read_json,
    replace_file,
    write_arrays,
    write_json,
)
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation, FrequencyBins
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.nplm_file import load_network
from keras_nplm.models.shortlist import Shortlist

_TABLES = {"back-off": BackoffModel, "deleted-interpolation": DeletedInterpolation, "class-based": ClassBased}
NETWORK, BACKGROUND = 0, 1  # the components of a short-list


def load_vocabulary(directory: Path, tokenizer_name: str) -> Vocabulary:
    """The vocabulary of a model directory, with its forms where text is normalised to lemmas.

    Raises:
        InputError: it is absent or damaged, or lacks its forms.
    """
    vocabulary = Vocabulary.load(directory / "vocabulary.txt")
    if uses_lemmas(tokenizer_name) and vocabulary.forms is None:
        raise InputError(f"{directory} lacks forms.tsv, the forms of its words: restore it, or make the model again.")
    return vocabulary


def open_encoded(directory: Path, vocabulary_size: int) -> EncodedCorpus:
    """The encoded text of a model directory.

    Raises:
        InputError: it is absent or damaged, or was encoded with another vocabulary.
    """
    encoded = EncodedCorpus.load(directory / "corpus")
    if encoded.vocabulary_size != vocabulary_size:
        raise InputError(f"{directory / 'corpus'} was encoded with another vocabulary: train the model again.")
    return encoded


def read_config(directory: Path) -> dict:
    """What `config.json` holds, with what every model has.

    Raises:
        InputError: it is absent or damaged, or lacks that.
    """
    path = directory / "config.json"
    config = read_json(path)
    if not isinstance(config.get("kind"), str):
        raise InputError(f"{path} is not that of a model of this version: train it again.")
    wanted = ["tokenizer", "boundary"] + [name for name in ("corpus",) if name in config]
    check_fields(path, config, dict.fromkeys(wanted, str))
    return config


def read_metrics(directory: Path) -> dict:
    """What `metrics.json` holds, with figures of splits that can be shown.

    Raises:
        InputError: it is absent or damaged, or a figure is none.
    """
    path = directory / "metrics.json"
    metrics = read_json(path)
    for split in metrics.keys() & set(SPLITS):
        figures = metrics[split]
        wanted = dict.fromkeys(("perplexity", "bits_per_word", "log_prob"), NUMBER) | dict(tokens=int, unk_tokens=int)
        check_fields(path, figures, wanted)
        if figures.get("perplexity_without_unk") is not None:
            check_fields(path, figures, {"perplexity_without_unk": NUMBER})
        figures.setdefault("perplexity_without_unk", None)
        if "ln_z" in figures:
            check_fields(path, figures["ln_z"], {"mean_absolute": NUMBER})
    known = dict.fromkeys(("seconds", "cpu_seconds"), NUMBER) | dict.fromkeys(("parameters", "best_epoch"), int)
    known |= {"ngrams_per_second": int, "ngrams": list, "history": list}
    check_fields(path, metrics, {name: kind for name, kind in known.items() if name in metrics})
    return metrics


def metrics_if_there(directory: Path) -> dict:
    """What `read_metrics` reads; `{}` where nothing was measured.

    Raises:
        InputError: as `read_metrics`.
    """
    return read_metrics(directory) if (directory / "metrics.json").exists() else {}


@contextlib.contextmanager
def freed_if_refused(directory: Path, unless: Path | None = None) -> Iterator[None]:
    """Remove `config.json` if the block finds that the text does not go with the options: others may be tried there.

    Args:
        directory: the model directory.
        unless: a file whose presence says that work was done with these options, which is kept.
    """
    try:
        yield
    except InputError:
        if unless is None or not unless.exists():
            (directory / "config.json").unlink(missing_ok=True)
        raise


def refuse_foreign(directory: Path, allowed: Collection[str] = ()) -> None:
    """Refuse an output directory that has something in it.

    Raises:
        InputError: it holds a model, or anything else but files of the names `allowed`.
    """
    if (directory / "config.json").exists():
        raise InputError(f"{directory} holds a model already: choose another --output, or remove it.")
    if directory.exists() and (not directory.is_dir() or {path.name for path in directory.iterdir()} - set(allowed)):
        raise InputError(
            f"{directory} exists and is no model directory: choose another --output, or remove it, if a command that "
            "was interrupted left it."
        )


def refuse_within(target: str | os.PathLike) -> None:
    """Refuse a file to write that lies among those of a model.

    Raises:
        InputError: it does.
    """
    parent = Path(target).parent
    if (parent / "config.json").exists():
        raise InputError(f"{parent} is a model directory, whose files stay as they are: name another for {target}.")


def kind_of(model: NextWordModel) -> str:
    """What `config.json` calls a model."""
    if isinstance(model, Uniform):
        return "uniform"
    if isinstance(model, Mixture):
        return "mixture"
    if isinstance(model, NPLM):
        return "nplm"
    if isinstance(model, Shortlist):
        return "shortlist"
    for kind, tables in _TABLES.items():
        if isinstance(model, tables):
            return kind
    raise InputError(f"A {type(model).__name__} has no files of its own: save an NPLM, an n-gram model or a mixture.")


def save_model(directory: Path, model: NextWordModel) -> None:
    """Write the files of a model, all but `config.json` and the vocabulary.

    Raises:
        RunError: they cannot be written.
    """
    kind = kind_of(model)
    if kind in _TABLES:
        model.save(directory / "ngrams.npz")
    elif kind == "shortlist":
        save_component(directory, NETWORK, model.network)
        save_component(directory, BACKGROUND, model.background)
    elif kind == "mixture":
        for number, part in enumerate(model.models):
            save_component(directory, number, part)
        bins = model.bins.arrays() if model.bins else {}
        write_arrays(directory / "mixture.npz", {"weights": model.weights} | bins)
    elif kind == "nplm":
        with replace_file(directory / "model.keras") as temporary:
            model.save(temporary)


def save_component(directory: Path, number: int, model: NextWordModel) -> None:
    """Write one of the models that a model is made of, its `config.json` last.

    Raises:
        RunError: its files cannot be written.
    """
    part = component_directory(directory, number)
    save_model(part, model)
    write_json(part / "config.json", {"kind": kind_of(model)})


def component_directory(directory: Path, number: int) -> Path:
    """Where such a model lies."""
    return directory / "components" / str(number)


def load_model(directory: Path, config: dict, vocabulary_size: int) -> NextWordModel:
    """Read the files of a model of any kind.

    Args:
        directory: where they lie.
        config: what `config.json` holds.
        vocabulary_size: |V| of the vocabulary beside them.

    Raises:
        InputError: they are absent or damaged, or belong to another vocabulary.
    """
    kind = config.get("kind")
    if kind == "nplm":
        if not (directory / "model.keras").is_file():
            raise InputError(f"{directory} has no model.keras: its training has not finished an epoch. Train it again.")
        model = load_network(directory / "model.keras")
    elif kind == "back-off":
        model = BackoffModel.load(directory / "ngrams.npz", config.get("boundary"))
    elif isinstance(kind, str) and kind in _TABLES:
        model = _TABLES[kind].load(directory / "ngrams.npz")
    elif kind == "uniform":
        model = Uniform(vocabulary_size, config["boundary"])
    elif kind == "mixture":
        model = _load_mixture(directory, config, vocabulary_size)
    elif kind == "shortlist":
        network, background = (load_component(directory, i, config, vocabulary_size) for i in (NETWORK, BACKGROUND))
        model = Shortlist(network, background)
    else:
        raise InputError(f"{directory / 'config.json'} is not that of a model of this version: train it again.")
    if model.vocabulary_size != vocabulary_size:
        raise InputError(
            f"The vocabulary of {directory} has {vocabulary_size} words and the model {model.vocabulary_size}: "
            "they belong to different models."
        )
    return model


def load_component(directory: Path, number: int, config: dict, vocabulary_size: int) -> NextWordModel:
    """Read one of the models that a model is made of.

    Args:
        directory: of the whole model.
        number: of the component.
        config: what `config.json` of the whole model holds.
        vocabulary_size: |V|.

    Raises:
        InputError: its files are absent or damaged, lie elsewhere, or belong to another vocabulary.
    """
    part = component_directory(directory, number)
    if part.is_symlink() or part.parent.is_symlink():  # else a few links to one another are endless models
        raise InputError(f"{part} is a link: the components of a model lie in its own directory. Copy it there.")
    described = {"boundary": config["boundary"]} | read_json(part / "config.json")
    return load_model(part, described, vocabulary_size)


def _load_mixture(directory: Path, config: dict, vocabulary_size: int) -> Mixture:
    weights = read_arrays(directory / "mixture.npz", ["weights"])["weights"]
    if weights.ndim != 2:
        raise InputError(f"{directory / 'mixture.npz'} holds weights of another shape: mix the models again.")
    components = [load_component(directory, number, config, vocabulary_size) for number in range(weights.shape[1])]
    bins = FrequencyBins.load(directory / "mixture.npz") if len(weights) > 1 else None
    if bins and bins.frequencies.contexts.vocabulary_size != vocabulary_size:
        raise InputError(f"{directory / 'mixture.npz'} is of another vocabulary: mix the models again.")
    return Mixture(components, weights, bins)
