"""Contents of directories, for comparisons."""

from pathlib import Path


def read_files(directory: Path) -> dict[str, bytes]:
    """Return the contents of all files of a directory and its folders, by path."""
    files = filter(Path.is_file, directory.rglob("*"))
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def read_untimed_files(directory: Path) -> dict[str, bytes]:
    """Return what `read_files` does, without figures of time and memory and their checksums."""
    timed = ("metrics.json", "manifest.json")
    return {
        path: content for path, content in read_files(directory).items() if not path.endswith(timed)
    }
