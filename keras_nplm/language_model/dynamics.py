"""`dynamic.json` of a model directory: the settings of dynamic evaluation, tuned on validation
text.
"""

import dataclasses
import itertools
from pathlib import Path

from keras_nplm.io.files import read_arrays, read_json, write_arrays, write_json
from keras_nplm.models.base import Network, NextWordModel
from keras_nplm.models.dynamic import (
    DynamicSettings,
    TunedDynamics,
    make_dynamic,
)
from keras_nplm.models.dynamic.collector import Dynamic
from keras_nplm.models.dynamic.tuning import MeanSquares, find_learners

DYNAMICS_FILE = "dynamic.json"
_SQUARES_FILE = "dynamic.npz"  # mean squares of the gradients


def make_collector(
    model: NextWordModel, settings: DynamicSettings, mean_squares: MeanSquares
) -> Dynamic:
    """Return a collector of the figures of a copy that learns.

    The trained network would read the text a second time for its share. Where it is the model that
    is evaluated, its log-probabilities are known: a fifth of the time of the copy.
    """
    share = settings.static_share if isinstance(model, Network) else 0.0
    of_copy = dataclasses.replace(settings, static_share=0.0) if share else settings
    return Dynamic(make_dynamic(model, of_copy, mean_squares), settings, share)


def save_dynamics(directory: Path, tuned: TunedDynamics) -> list[Path]:
    """Write `dynamic.npz`, then `dynamic.json`; return the files in this order."""
    squares = itertools.chain.from_iterable(tuned.mean_squares)
    arrays = {str(number): square for number, square in enumerate(squares)}
    write_arrays(directory / _SQUARES_FILE, arrays)
    content = dataclasses.asdict(dataclasses.replace(tuned, mean_squares=()))
    del content["mean_squares"]
    write_json(directory / DYNAMICS_FILE, content)
    return [directory / _SQUARES_FILE, directory / DYNAMICS_FILE]


def load_dynamics(directory: Path, model: NextWordModel) -> TunedDynamics | None:
    """Load the settings of dynamic evaluation of a model directory; None: they were not tuned."""
    path = directory / DYNAMICS_FILE
    if not path.exists():
        return None
    content = read_json(path)
    try:
        settings = DynamicSettings(**content.pop("settings"))
    except TypeError:  # options of an earlier version: they are tuned again
        return None
    numbers = [len(network.trainable_weights) for network in find_learners(model)]
    arrays = read_arrays(directory / _SQUARES_FILE, [*map(str, range(sum(numbers)))])
    squares = iter(arrays.values())
    mean_squares = [[*itertools.islice(squares, number)] for number in numbers]
    return TunedDynamics(settings, mean_squares, **content)
