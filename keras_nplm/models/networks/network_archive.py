"""The parts of `model.keras`, read from an untrusted source without Keras."""

import io
import zipfile
from pathlib import Path

import h5py

from keras_nplm.io.files import check_json_size, open_archive, parse_json

_WEIGHTS = "model.weights.h5"
_PARTS = ["config.json", "metadata.json", _WEIGHTS]
# bytes of config.json and of metadata.json; a network of this package needs 10,000
MAX_CONFIG = 1 << 16


def read_archive(path: Path, max_config: int = MAX_CONFIG) -> tuple[dict, bytes]:
    """Return the configuration of a network and the bytes of its weights, HDF5.

    How the network was compiled, which loading does not use, is left out. Damage is an error of any
    kind.
    """
    with open_archive(path) as archive:
        if sorted(archive.namelist()) != _PARTS:
            raise ValueError(f"its parts must be {', '.join(_PARTS)}")
        described, _ = (_read_part(archive, path, name, max_config) for name in _PARTS[:2])
        described.pop("compile_config", None)
        # `open_archive` has limited its size
        return described, archive.read(_WEIGHTS)


def _read_part(archive: zipfile.ZipFile, path: Path, name: str, max_size: int) -> dict:
    """Read a JSON object of the archive.

    Keras copies the name of a model into the name of each weight.
    """
    source = f"{name} in {path}"
    check_json_size(source, archive.getinfo(name).file_size, max_size)
    return parse_json(source, archive.read(name).decode("utf-8"))


def list_weights(stored: h5py.File, size: int) -> list[h5py.Dataset]:
    """Return the weights in an HDF5 file of `size` bytes; a ValueError if a different file holds
    them.
    """
    found: list[h5py.Dataset] = []
    links: list[object] = []
    stored.visititems(
        lambda name, item: found.append(item) if isinstance(item, h5py.Dataset) else None
    )
    stored.visititems_links(lambda name, link: links.append(link))
    is_whole = all(isinstance(link, h5py.HardLink) for link in links)
    is_elsewhere = not is_whole or any(part.external or part.is_virtual for part in found)
    if is_elsewhere or sum(part.nbytes for part in found) > size:
        raise ValueError("it does not hold all weights that it lists")
    return found


def count_weights(data: bytes) -> int:
    """Return the number of weights in the bytes of an HDF5 file."""
    with h5py.File(io.BytesIO(data), "r") as stored:
        return sum(part.size for part in list_weights(stored, len(data)))
