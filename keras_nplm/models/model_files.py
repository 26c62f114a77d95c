"""Save and load the files of a language model of any kind, with the models that it combines.

A model directory has `config.json`, which names the kind, and the files of `list_files`. The models
of `list_saved_models` are directories of the same form: `components/0`, `components/1`, ….
"""

from pathlib import Path

# importing the modules registers their classes by `saved_as`
import keras_nplm.models.caches
import keras_nplm.models.hybrid
import keras_nplm.models.keras_model
import keras_nplm.models.mixture
import keras_nplm.models.ngrams
import keras_nplm.models.shortlist  # noqa: F401
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.models.base import (
    NETWORK_FILE,
    READERS,
    SCORER_FILE,
    ModelFolder,
    Network,
    NextWordModel,
    check_vocabulary_size,
)


def get_kind(model: NextWordModel) -> str:
    """Return the kind of a model, the name in `config.json` of its class."""
    kind = getattr(model, "kind", None)
    if kind is None:
        raise InputError(
            "`model` must be an NPLM, a Shortlist, an n-gram model, a cache, a Mixture of these, "
            f"or of a class with `saved_as`. Received: {type(model).__name__}. Fix: use one."
        )
    return kind


def check_savable(model: NextWordModel) -> None:
    """Refuse a model that cannot be saved, or that has such a part."""
    get_kind(model)
    for part in model.list_saved_models():
        check_savable(part)


def save_model(directory: Path, model: NextWordModel) -> None:
    """Write the files of a model, without `config.json` and `vocabulary.txt`."""
    check_savable(model)
    for number, part in enumerate(model.list_saved_models()):
        save_component(directory, number, part)
    save_own_files(directory, model)


def save_own_files(directory: Path, model: NextWordModel) -> None:
    """Write the files of the model itself, such as the weights of a mixture, not of its parts."""
    for name, write in model.list_files().items():
        with replace_file(directory / name) as temporary:
            write(temporary)


def save_component(directory: Path, number: int, model: NextWordModel) -> None:
    """Save a part of a model; its `config.json`, the last, marks it as complete."""
    component = component_directory(directory, number)
    save_model(component, model)
    write_json(component / "config.json", {"kind": get_kind(model)})


def component_directory(directory: Path, number: int) -> Path:
    return directory / "components" / str(number)


def load_model(
    directory: Path,
    kind: str,
    boundary: str,
    vocabulary_size: int,
    *,
    as_arrays: bool = False,
) -> NextWordModel:
    """Load a model of the kind that its `config.json` names.

    Only networks import Keras and TensorFlow, and with `as_arrays` only those that NumPy cannot
    compute. Such a model gives probabilities, and does not learn.
    """
    if kind not in READERS:
        path = directory / "config.json"
        fix = "train the model with this version, or import the module of its class first."
        raise InputError(
            f"`kind` in {path} must be one of {', '.join(READERS)}. Received: {kind!r}. Fix: {fix}"
        )

    def load_part(number: int, as_arrays: bool = False) -> NextWordModel:
        return load_component(directory, number, boundary, vocabulary_size, as_arrays=as_arrays)

    folder = ModelFolder(directory, boundary, vocabulary_size, load_part, as_arrays)
    model = READERS[kind](folder)
    check_vocabulary_size(model, vocabulary_size, f"vocabulary.txt in {directory}")
    return model


def _read_network(folder: ModelFolder) -> NextWordModel:
    scorer = folder.path / SCORER_FILE
    # n-gram models need neither import
    if folder.as_arrays and scorer.exists():
        from keras_nplm.models.networks.self_normalised import ArrayNetwork

        return ArrayNetwork.load(scorer)
    from keras_nplm.models.networks.network_file import load_network

    return load_network(folder.path / NETWORK_FILE)


READERS[Network.kind] = _read_network


def load_component(
    directory: Path, number: int, boundary: str, vocabulary_size: int, *, as_arrays: bool = False
) -> NextWordModel:
    """Load a part of a model, counted from 0; `boundary` is that of the whole model.

    `as_arrays`: see `load_model`.
    """
    component = component_directory(directory, number)
    kind = read_json(component / "config.json")["kind"]
    return load_model(component, kind, boundary, vocabulary_size, as_arrays=as_arrays)
