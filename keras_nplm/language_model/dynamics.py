"""`dynamic.json` of a model directory: the settings of dynamic evaluation, tuned on validation
text.
"""

import dataclasses
import itertools
from pathlib import Path

from keras_nplm.io.files import (
    NUMBER,
    check_fields,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
)
from keras_nplm.models.base import Network, NextWordModel
from keras_nplm.models.dynamic import (
    DynamicSettings,
    TunedDynamics,
    digest_weights,
    make_dynamic,
)
from keras_nplm.models.dynamic.collector import Dynamic
from keras_nplm.models.dynamic.tuning import MeanSquares, find_learners

DYNAMICS_FILE = "dynamic.json"
_FIELDS: dict[str, type | tuple] = {
    "settings": dict,
    "static": NUMBER,
    "dynamic": NUMBER,
    "tokens": int,
    "tried": int,
}
_SETTINGS: dict[str, type | tuple] = {
    field.name: NUMBER if isinstance(field.default, float) else type(field.default)
    for field in dataclasses.fields(DynamicSettings)
}
_SQUARES_FILE = "dynamic.npz"  # mean squares of the gradients, for the rule "rms"


def make_collector(
    model: NextWordModel, settings: DynamicSettings, mean_squares: MeanSquares | None
) -> Dynamic:
    """Return a collector of the figures of a copy that learns.

    The trained network would read the text a second time for its share. Where it is the model that
    is evaluated, its log-probabilities are known: a fifth of the time of the copy.
    """
    share = settings.static_share if settings.rate and isinstance(model, Network) else 0.0
    of_copy = dataclasses.replace(settings, static_share=0.0) if share else settings
    return Dynamic(make_dynamic(model, of_copy, mean_squares), settings, share)


def save_dynamics(directory: Path, tuned: TunedDynamics) -> list[Path]:
    """Write `dynamic.npz` where the rule needs it, then `dynamic.json`; return the files in this
    order.
    """
    written = []
    if tuned.mean_squares is not None:
        written.append(directory / _SQUARES_FILE)
        squares = itertools.chain.from_iterable(tuned.mean_squares)
        write_arrays(written[0], {str(number): square for number, square in enumerate(squares)})
    content = dataclasses.asdict(dataclasses.replace(tuned, mean_squares=None))
    del content["mean_squares"]
    write_json(directory / DYNAMICS_FILE, content)
    return [*written, directory / DYNAMICS_FILE]


def load_dynamics(directory: Path, model: NextWordModel) -> TunedDynamics | None:
    """Load the settings of dynamic evaluation of a model directory.

    None: they were not tuned, or for other weights.
    """
    path = directory / DYNAMICS_FILE
    if not path.exists():
        return None
    content = read_json(path)
    check_fields(path, content, _FIELDS)
    if content.get("weights") not in (None, digest_weights(model)):
        return None
    check_fields(path, content["settings"], _SETTINGS)
    values = {name: content["settings"][name] for name in _SETTINGS}
    settings = DynamicSettings(**values)
    mean_squares = None
    if settings.rule == "rms":
        mean_squares = _load_squares(directory / _SQUARES_FILE, model)
    figures = {name: content[name] for name in ("static", "dynamic", "tokens", "tried")}
    return TunedDynamics(settings, mean_squares, weights=content.get("weights"), **figures)


def _load_squares(path: Path, model: NextWordModel) -> list[list]:
    """Load the mean squares of the gradients of each network."""
    numbers = [len(network.trainable_weights) for network in find_learners(model)]
    names = list(map(str, range(sum(numbers))))
    arrays = read_arrays(path, names)
    parts = iter([arrays[name] for name in names])
    return [[*itertools.islice(parts, number)] for number in numbers]
