"""Apache Beam writes the bytes of the local path, and an error of a worker ends the run.

Skipped without Beam.
"""

import pytest

import keras_nplm.data.corpora.chunks as chunks
from keras_nplm.cli.main import main
from tests.files import read_untimed_files

WORKERS = (
    "--runner DirectRunner --pipeline-options direct_running_mode=multi_processing "
    "direct_num_workers=2"
)


@pytest.mark.long
# of protobuf 6, in TFDS
@pytest.mark.filterwarnings("ignore:label\\(\\) is deprecated:DeprecationWarning")
def test_beam_writes_the_bytes_of_the_local_path(tmp_path, monkeypatch, write_odd_texts, capsys):
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install '.[beam]'")
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16)
    text = write_odd_texts(tmp_path)
    prepare = (
        f"prepare --train {text} --tokenizer sentencepiece --pieces 330 --normalise lower --output"
    ).split()
    assert main([*prepare, str(tmp_path / "local")]) == 0
    assert main([*prepare, str(tmp_path / "beam"), *WORKERS.split()]) == 0
    assert read_untimed_files(tmp_path / "beam") == read_untimed_files(tmp_path / "local")

    (tmp_path / "f.txt").write_text("the </s>\n")
    prepare = f"prepare --train {text} --tokenizer whitespace --output".split()
    assert main([*prepare, str(tmp_path / "refused"), *WORKERS.split()]) == 2
    assert "reserved token </s>" in capsys.readouterr().err and not [
        *(tmp_path / "refused").glob(".beam*")
    ]
