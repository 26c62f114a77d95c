"""Save and load the files of a model of any kind: NPLM, n-gram model, mixture, short-list."""

from pathlib import Path

from keras_nplm.io.errors import InputError, check_argument
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
from keras_nplm.models.caches import ContinuousCache, NgramCache, UnigramCache
from keras_nplm.models.dynamic.tuning import find_networks
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation, FrequencyBins

_NGRAM_CLASSES = {
    "back-off": BackoffModel,
    "deleted-interpolation": DeletedInterpolation,
    "class-based": ClassBased,
}
_CACHE_FIELDS = {  # of cache.json
    "unigram-cache": {"decay": NUMBER, "length": int},
    "ngram-cache": {"decay": NUMBER, "length": int, "factors": list},
    "continuous-cache": {"flatness": NUMBER, "length": int},
}
NGRAMS_FILE = "ngrams.npz"
KINDS = ("uniform", "mixture", "nplm", "shortlist", "hybrid", *_CACHE_FIELDS, *_NGRAM_CLASSES)
# the components of a trained model; a continuous cache has a network only
NETWORK = 0
BACKGROUND = 1


def get_kind(model: NextWordModel) -> str:
    """Return the kind of a model, the name in `config.json` of its class."""
    kind = getattr(model, "kind", None)
    wanted = "an NPLM, a Shortlist, an n-gram model, a cache or a Mixture of these"
    check_argument("model", kind in KINDS, wanted, type(model).__name__)
    return kind


def save_model(directory: Path, model: NextWordModel) -> None:
    """Write the files of a model, without `config.json` and `vocabulary.txt`."""
    kind = get_kind(model)
    if kind in _NGRAM_CLASSES:
        model.save(directory / NGRAMS_FILE)
    elif kind in ("shortlist", "hybrid"):
        save_component(directory, NETWORK, model.network)
        save_component(directory, BACKGROUND, model.background)
    elif kind == "mixture":
        for number, component in enumerate(model.models):
            save_component(directory, number, component)
        save_weights(directory, model)
    elif kind in _CACHE_FIELDS:
        if kind == "continuous-cache":
            save_component(directory, NETWORK, model.network)
        write_json(
            directory / "cache.json", {name: getattr(model, name) for name in _CACHE_FIELDS[kind]}
        )
    elif kind == "nplm":
        with replace_file(directory / "model.keras") as temporary:
            model.save(temporary)


def save_weights(directory: Path, mixture: Mixture) -> None:
    """Save the weights of a mixture, without its components."""
    bins = mixture.bins.arrays() if mixture.bins else {}
    write_arrays(directory / "mixture.npz", {"weights": mixture.weights} | bins)


def find_network(model: NextWordModel) -> NextWordModel | None:
    """Return the NPLM, or the only NPLM in a short-list, hybrid or mixture; None for other
    models.
    """
    networks = [model.network] if getattr(model, "kind", None) == "hybrid" else find_networks(model)
    return networks[0] if len(networks) == 1 else None


def save_component(directory: Path, number: int, model: NextWordModel) -> None:
    """Save a component of a mixture or short-list; `config.json`, the last, marks it as
    complete.
    """
    component = component_directory(directory, number)
    save_model(component, model)
    write_json(component / "config.json", {"kind": get_kind(model)})


def component_directory(directory: Path, number: int) -> Path:
    return directory / "components" / str(number)


def load_model(directory: Path, config: dict, vocabulary_size: int) -> NextWordModel:
    """Load a model of any kind, described by its `config.json`.

    Only networks import Keras and TensorFlow.
    """
    kind = config.get("kind")
    if kind == "nplm":
        path = directory / "model.keras"
        if not path.is_file():
            raise InputError(
                f"{path} does not exist: training has not finished an epoch. Fix: train again."
            )
        from keras_nplm.models.networks.network_file import load_network

        model = load_network(path)
    elif isinstance(kind, str) and kind in _NGRAM_CLASSES:
        model = _NGRAM_CLASSES[kind].load(directory / NGRAMS_FILE, config.get("boundary"))
    elif kind == "uniform":
        model = Uniform(vocabulary_size, config["boundary"])
    elif kind == "mixture":
        model = _load_mixture(directory, config, vocabulary_size)
    elif isinstance(kind, str) and kind in _CACHE_FIELDS:
        path = directory / "cache.json"
        fields = _CACHE_FIELDS[kind]
        content = read_json(path)
        check_fields(path, content, fields)
        options = {name: content[name] for name in fields}
        if kind == "continuous-cache":
            model = ContinuousCache(
                load_component(directory, NETWORK, config, vocabulary_size), **options
            )
        else:
            cache = UnigramCache if kind == "unigram-cache" else NgramCache
            model = cache(vocabulary_size, config["boundary"], **options)
    elif kind in ("shortlist", "hybrid"):
        from keras_nplm.models.hybrid import Hybrid
        from keras_nplm.models.shortlist import Shortlist

        network, background = (
            load_component(directory, i, config, vocabulary_size) for i in (NETWORK, BACKGROUND)
        )
        model = (Shortlist if kind == "shortlist" else Hybrid)(network, background)
    else:
        path = directory / "config.json"
        fix = "train the model with this version."
        raise InputError(
            f"`kind` in {path} must be one of {', '.join(KINDS)}. Received: {kind!r}. Fix: {fix}"
        )
    if (size := model.vocabulary_size) != vocabulary_size:
        reason = (
            f"vocabulary.txt in {directory} has {vocabulary_size} words, and the model has {size}."
        )
        raise InputError(f"{reason} Fix: restore the files of one model.")
    return model


def load_component(
    directory: Path, number: int, config: dict, vocabulary_size: int
) -> NextWordModel:
    """Load a component of a mixture or short-list, counted from 0; `config` belongs to the whole
    model.
    """
    component = component_directory(directory, number)
    # links to each other would make an endless model
    if component.is_symlink() or component.parent.is_symlink():
        raise InputError(
            f"{component} is a symbolic link. Fix: copy the component into the model directory."
        )
    component_config = {"boundary": config["boundary"]} | read_json(component / "config.json")
    return load_model(component, component_config, vocabulary_size)


def _load_mixture(directory: Path, config: dict, vocabulary_size: int) -> Mixture:
    path = directory / "mixture.npz"
    weights = read_arrays(path, ["weights"])["weights"]
    check_argument(
        "weights",
        weights.ndim == 2,
        f"of 2 dimensions in {path}",
        weights.ndim,
        "mix the models again.",
    )
    components = [
        load_component(directory, number, config, vocabulary_size)
        for number in range(weights.shape[1])
    ]
    bins = FrequencyBins.load(path) if len(weights) > 1 else None
    return Mixture(components, weights, bins)
