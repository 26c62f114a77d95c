"""Files: atomic writes, locks, damaged JSON, arrays and shards, checksums, encodings, paths."""

import contextlib
import json
import os
import re
import stat
import threading
import zlib
from pathlib import Path
from unittest.mock import ANY

import numpy as np

from tests.mutation.mutants import Altered, changes, constant, nothing, read_global, within

OF_FILES = "io/test_files.py"
OF_LOCK = "io/test_lock.py"
OF_CORPUS = "data/test_encoded_corpus.py"
OF_REMOTE = "io/test_remote.py"


class Kept(type(Path())):
    """A path that is never removed."""

    def unlink(self, *_, **__):
        pass


class Loose(type(Path())):
    """A path of which all but directories are files."""

    def is_file(self):
        return not self.is_dir()


@changes("io.files:replace_file", OF_FILES)
def a_file_is_written_in_place(original, path, keep=None):
    return contextlib.nullcontext(Path(path))


@changes("io.files:replace_file", OF_FILES)
def a_failed_write_leaves_its_temporary_file(original, *arguments, **options):
    return within(original, Path=Kept)(*arguments, **options)


@changes("io.files:replace_file", OF_LOCK)
def a_directory_deleted_during_a_write_is_not_noticed(original, *arguments, **options):
    return within(original, check_locks=nothing)(*arguments, **options)


@changes("io.files:replace_file", OF_FILES)
def a_device_is_replaced_by_a_file(original, *arguments, **options):
    return within(original, Path=Loose)(*arguments, **options)


@changes("io.files:_TEMPORARY", "io/test_stages.py", "cli/test_output.py")
def hidden_files_of_the_user_are_removed_as_temporary_files(original):
    return re.compile(r"\..+")


@changes("io.files:iterate_blocks", OF_FILES)
def arrays_may_hold_nan(original, *arguments):
    for block in original(*arguments):
        yield np.nan_to_num(block, posinf=np.inf)


def read_arrays_by(original, read_array):
    """Return the reader of arrays with another function for the file format of NumPy."""
    format = Altered(np.lib.format, read_array=read_array)
    return within(original, np=Altered(np, lib=Altered(np.lib, format=format)))


@changes("io.files:_numbers", OF_FILES)
def arrays_may_hold_pickled_objects(original, *arguments):
    def read_array(part, allow_pickle):
        return np.lib.format.read_array(part, allow_pickle=True)

    return read_arrays_by(original, read_array)(*arguments)


@changes("io.files:_numbers", OF_FILES)
def an_array_may_be_longer_than_its_header_says(original, *arguments):
    def read_array(part, allow_pickle):
        array = np.lib.format.read_array(part, allow_pickle=allow_pickle)
        part.read()
        return array

    return read_arrays_by(original, read_array)(*arguments)


@changes("io.files:open_archive", OF_FILES)
def a_zip_bomb_is_unpacked(original, path):
    of_any_size = Altered(os.path, getsize=constant(1 << 60))
    return within(original, os=Altered(os, path=of_any_size))(path)


@changes("io.text:check_is_file", OF_FILES)
def a_device_is_read_as_a_file(original, *arguments, **options):
    def is_regular(mode):
        return stat.S_ISREG(mode) or stat.S_ISCHR(mode)

    return within(original, stat=Altered(stat, S_ISREG=is_regular))(*arguments, **options)


@changes("io.files:write_json_text", OF_FILES)
def half_a_surrogate_pair_cannot_be_written(original, path, value):
    json.dumps(value, ensure_ascii=False).encode()
    return original(path, value)


@changes("io.files:read_json", OF_FILES)
def json_of_any_size_is_parsed(original, path):
    return within(original, check_json_size=nothing)(path)


@changes("io.files:parse_json", OF_FILES)
def json_of_any_depth_is_parsed(original, *arguments):
    return within(original, RecursionError=ValueError)(*arguments)


@changes("io.files:measure_content", OF_FILES)
def the_checksum_is_that_of_the_last_block_of_a_file(original, path):
    def compute(block, _):
        return zlib.crc32(block)

    return within(original, zlib=Altered(zlib, crc32=compute))(path)


@changes("io.text:decode", "io/test_text.py")
def a_byte_order_mark_counts_in_every_line(original, name, data, offset=0):
    return original(name, data)


@changes(
    "io.lock:acquire",
    f"{OF_LOCK}::test_a_process_of_another_host_that_gives_signs_is_refused",
)
def a_process_that_gives_signs_counts_as_dead(original, directory):
    def find_no_file(path):
        raise FileNotFoundError

    return within(original, os=Altered(os, stat=find_no_file))(directory)


@changes("io.lock:lock_directory", OF_LOCK)
def directories_created_for_a_lock_stay(original, directory):
    return within(original, _remove_if_empty=nothing)(directory)


@changes("io.lock:lock_directory", "cli/test_output.py")
def a_thread_may_write_what_a_different_thread_has_locked(original, directory):
    one_thread = Altered(threading, get_ident=constant(0))
    return within(original, threading=one_thread)(directory)


@changes("data.encoded_corpus:EncodedCorpus.for_training", OF_CORPUS)
def a_small_text_is_read_from_disk(original, self):
    return within(original, IN_MEMORY=-1)(self)


@changes("data.encoded_corpus:EncodedCorpus._open_training_texts", OF_CORPUS)
def texts_with_different_shares_change_places(original, self):
    return original(self)[::-1]


@changes("data.shards:ShardedIds.read", OF_CORPUS)
def ids_outside_the_vocabulary_are_read(original, *arguments):
    return within(original, check_ids=nothing)(*arguments)


@changes("data.shards:ShardedIds.read", OF_CORPUS)
def a_truncated_shard_is_not_noticed(original, *arguments):
    def read(path, dtype, number, offset):
        return np.resize(np.fromfile(path, dtype, number, offset=offset), number)

    return within(original, np=Altered(np, fromfile=read))(*arguments)


@changes("data.shards:_encode_tokens", "data/test_refusals.py")
def a_reserved_token_in_a_text_is_encoded(original, *arguments):
    return within(original, check_reserved=nothing)(*arguments)


@changes("io.text:decode_lines", "data/corpora/test_chunks.py")
def a_line_at_the_limit_is_refused(original, *arguments):
    smaller = read_global(original, "MAX_LINE_BYTES") - 1
    return within(original, MAX_LINE_BYTES=smaller)(*arguments)


@changes("io.arrays:map_array", OF_FILES)
def tables_are_mapped_without_a_check_of_their_checksum(original, *arguments):
    return within(original, sum=constant(ANY))(*arguments)


@changes("io.remote:_is_current", OF_REMOTE)
def a_changed_remote_object_of_the_same_size_is_not_downloaded_again(original, copy, described):
    return copy.exists() and copy.stat().st_size == described["size"]


@changes("io.remote:fetch", OF_REMOTE)
def files_of_the_cache_that_are_no_longer_remote_stay(original, path):
    locate = read_global(original, "_locate")

    def find(root, url):
        return Kept(locate(root, url))

    return within(original, _locate=find)(path)


@changes("io.remote:_send_changes", OF_REMOTE)
def the_configuration_is_uploaded_before_the_files_that_it_completes(original, *arguments):
    return within(original, _SENT_LAST=())(*arguments)
