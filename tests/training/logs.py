"""The events that TensorBoard reads in a directory of logs."""

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util


def read_events(directory: Path) -> EventAccumulator:
    return EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()


def read_scalars(directory: Path) -> dict[str, dict]:
    """The values of each tag by step, in the order of writing: the reader sorts files of one second
    by name.
    """
    events = read_events(directory)
    tags = [tag for tag in events.Tags()["tensors"] if not tag.startswith("_hparams_")]
    return {
        tag: {
            event.step: tensor_util.make_ndarray(event.tensor_proto)[()]
            for event in sorted(events.Tensors(tag), key=lambda event: event.wall_time)
        }
        for tag in tags
    }
