"""`-` stands for any one file: a command gives the same result as with the file itself."""

import json
import re

import pytest

from keras_nplm.cli.main import main
from keras_nplm.data.subwords import Subwords

LISTS = "0 ||| the cat sat ||| lm=-3 ||| -3\n0 ||| cat the ||| lm=-2 ||| -2\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory, text, ngram_directory) -> dict[str, str]:
    """Files by their names in the lines of commands."""
    root = tmp_path_factory.mktemp("files")
    lines = text.read_text(encoding="utf-8").splitlines()
    assert main(["export", str(ngram_directory), str(root / "arpa.arpa")]) == 0
    data = {
        "data": "".join(json.dumps({"text": line}) + "\n" for line in lines),
        "counts": "the\t8\ncat\t5\ndog\t3\nthe cat\t5\nthe dog\t3\n",
        "lists": LISTS,
        "references": "the cat sat\n",
        "classes": "the\t0\ncat\t1\ndog\t1\nsat\t2\non\t0\nmat\t1\n",
    }
    for name, content in data.items():
        (root / name).write_text(content, encoding="utf-8")
    Subwords.train(lines, 300).save(root / "pieces.model")
    return {
        "model": str(ngram_directory),
        "text": str(text),
        "arpa": str(root / "arpa.arpa"),
        "vocabulary": str(ngram_directory / "vocabulary.txt"),
        "pieces": str(root / "pieces.model"),
        **{name: str(root / name) for name in data},
    }


_NGRAM = "--order 3 --min-count 1 --output {output}"


@pytest.mark.parametrize(
    "line",
    [
        "score {arpa*} {text}",
        "score {model} {text*}",
        "score {model} {data*} --field text",
        "evaluate {arpa*} --text {text}",
        "evaluate {model} {arpa*} --text {text}",
        "evaluate {model} --text {text*}",
        "evaluate {model} --text {data*} --field text",
        f"ngram --train {{text*}} {_NGRAM}",
        f"ngram --train {{data*}} --field text {_NGRAM}",
        f"ngram --train {{text}} --validation {{text}} --test {{text*}} {_NGRAM}",
        f"ngram --train {{text}} --tokenizer sentencepiece --pieces-file {{pieces*}} {_NGRAM[:9]} "
        "--output {output}",
        f"ngram --train {{text}} --method class-based --word-classes {{classes*}} {_NGRAM}",
        "prepare --train {text*} --min-count 1 --output {output}",
        "ngram --arpa {arpa*} --output {output}",
        "ngram --arpa {arpa} --vocabulary {vocabulary*} --output {output}",
        "ngram --counts {counts*} --min-count 1 --output {output}",
        "mix {model} {arpa*} --output {output}",
        "export {model} {output}.arpa --text {text*}",
        "rescore {model} {lists*} --output {output}",
        "rescore {arpa*} {lists} --output {output}",
        "rescore {model} {lists} --references {references*} --output {output}",
        "rescore {model} {lists} --tune {references*} --output {output}",
    ],
)
def test_standard_input_stands_for_a_file(files, tmp_path, capsys, monkeypatch, line):
    (name,) = re.findall(r"\{(\w+)\*\}", line)
    results = []
    for number, received in enumerate((files[name], "-")):
        output = tmp_path / f"output{number}"
        words = line.replace(f"{{{name}*}}", received).format(**files, output=output)
        with open(files[name], encoding="utf-8") as file, monkeypatch.context() as context:
            context.setattr("sys.stdin", file)
            assert main([*words.split(), "--json"]) == 0
        printed = capsys.readouterr().out.replace(str(output), "output")
        result = json.loads(printed.replace(files[name], "-"))
        for measured in ("seconds", "cpu_seconds", "scored_per_second"):
            result.pop(measured, None)
        results.append(result)
    assert results[0] == results[1]
