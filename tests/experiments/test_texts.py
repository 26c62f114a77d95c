"""The texts of `default`, from corpora of one or two sentences."""

import gzip
import zipfile

import pytest

from tests.benchmarks.texts import TEXTS, write_texts

ARCHIVES = {
    "inaugural.zip": {
        "inaugural/README": "Not a text.",
        "inaugural/1793.txt": "Fellow citizens: I am here. It\nis  so.",
    },
    "state_union.zip": {"state_union/1945.txt": "Fellow members! We have won."},
    "brown.zip": {
        "brown/": "",
        "brown/README": "cats.txt says which",
        "brown/ca01": "\n\tThe/at jury/nn said/vbd 1/2/cd ./.\n\n\n\tYes/rb ./.\n",
        "brown/cj01": "Learned/vbn ./.\n",
        "brown/ck01": "Fiction/nn ./.\n",
        "brown/cats.txt": "ca01 news",
    },
    "shakespeare.zip": {
        "shakespeare/dream.xml": "<SPEAKER>PUCK</SPEAKER><LINE>Lord,\nwhat fools</LINE>\n"
        "<LINE><STAGEDIR>Aside</STAGEDIR> thee &amp; me</LINE>"
    },
    "masc_tagged.zip": {
        "masc_tagged/spoken/a.txt": "I_PRP said_VBD so_RB ._.\nsnake_case_NN ._.\n",
    },
}
FILES = {
    "games/fortunes/art": "Art is long.\n\t\t-- Anon\n%\nLife is short.\n%\n",
    "games/fortunes/art.dat": "\0",
    "debian-reference/debian-reference.de.txt.gz": "Ein Satz. Ändern Sie\nnichts.\n\n1.2 Absatz\n",
    "man/de/man1/ls.1.gz": ".TH LS 1\n.SH NAME\nls \\- \\fBinhalte\\fP auf\\|listen\n"
    "zeigt z. B. alles. Danach\nnichts.\n.TP\n\\fB\\-a\\fP\nalle\n",
    "man/de/man5/proc.5.gz": "Keine Seite eines Befehls.\n",
}
EXPECTED = {
    "inaugural": ["Fellow citizens: I am here.", "It is so."],
    "press": ["The jury said 1/2 .", "Yes ."],
    "shakespeare": ["Lord, what fools", "Aside thee & me"],
    "brown-fiction": ["Fiction ."],
    "union": ["Fellow members!", "We have won."],
    "fortunes": ["Art is long. -- Anon", "Life is short."],
    "masc-shuffled": ["I said so .", "snake_case ."],
    "reference-de": ["Ein Satz.", "Ändern Sie nichts.", "1.2 Absatz"],
    "man-de": [
        "ls - inhalte auflisten zeigt z.",
        "B. alles.",
        "Danach nichts.",
        "-a alle",
    ],
}


@pytest.fixture
def corpora(tmp_path):
    for archive, members in ARCHIVES.items():
        with zipfile.ZipFile(tmp_path / archive, "w") as file:
            for name, text in members.items():
                file.writestr(name, text)
    for name, text in FILES.items():
        path = tmp_path / "debian/usr/share" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return tmp_path


def test_a_text_has_a_sentence_in_each_line(corpora, tmp_path):
    write_texts(corpora, tmp_path / "texts")
    written = {
        path.stem: path.read_text(encoding="utf-8").splitlines()
        for path in (tmp_path / "texts").iterdir()
    }
    written["masc-shuffled"].sort()
    assert written == EXPECTED
    assert [*EXPECTED] == [*TEXTS]
