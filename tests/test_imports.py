"""The house has one direction: a module imports only from modules above it in this list."""

import ast
from pathlib import Path

import keras_nplm

ORDER = """
version errors files normalisation lemmas tokenization forms progress worker processes
corpora.compressed corpora.lines corpora.pieces corpora.text_files corpora.brown
corpora.python_reference corpora.corpus corpora
counting vocabulary shards resampling encoding layout pools resampled_pools
windows distribution metrics operations energies layers modern
outputs.output outputs.full outputs.sampled outputs.adaptive outputs.energy outputs
optimizers model network_file evaluation scoring sentences growth
ngrams.counts ngrams.backoff ngrams.mass ngrams.kneser_ney ngrams.interpolation
ngrams.deleted_interpolation ngrams.word_classes ngrams.class_based ngrams.arpa ngrams.pruning ngrams
mixture backoff_approximation shortlist model_directory configuration sizes word_vectors
rescoring.lines rescoring.nbest rescoring.writing rescoring.edit_distance rescoring.losses
rescoring.minimum_error_rate rescoring.reranking rescoring.files rescoring
language_model oov callbacks charts run_report
averaging background training estimation report
serving.text serving.models serving.signatures serving.model_card serving.saved_model
serving.on_device serving
rows experiments
studies.study studies.modern studies.energy studies.shortlist studies.new_words studies.normalisation studies.resampling
studies.corruptions studies.rescoring studies.arpa studies
peers corpus_benchmark worker_benchmark benchmark
commands.options commands.shown commands.training commands.sizing commands.estimating commands.adding
commands.asking commands.rescoring commands.words commands.exporting commands.measuring commands
cli __init__ __main__
""".split()
PACKAGE = Path(keras_nplm.__file__).parent


def _name(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("keras_nplm."):
            names.add(node.module.removeprefix("keras_nplm."))
        elif isinstance(node, ast.ImportFrom) and node.level:
            names.add("a relative import")
        elif isinstance(node, ast.ImportFrom) and node.module == "keras_nplm":
            names.add("__init__")
        elif isinstance(node, ast.Import):
            names |= {a.name.removeprefix("keras_nplm.") for a in node.names if a.name.startswith("keras_nplm.")}
            names |= {"__init__" for a in node.names if a.name == "keras_nplm"}
    return names


def test_every_module_has_its_place_and_imports_only_from_above():
    paths = {_name(path): path for path in PACKAGE.rglob("*.py")}
    assert set(paths) == set(ORDER)
    for name, path in paths.items():
        for imported in _imported(path):
            assert ORDER.index(imported) < ORDER.index(name), f"{name} imports {imported}, which stands below it"


def test_layers_outputs_and_metrics_run_on_every_backend_of_keras():
    for path in [PACKAGE / "metrics.py", PACKAGE / "layers.py", *(PACKAGE / "outputs").glob("*.py")]:
        assert "tensorflow" not in path.read_text(encoding="utf-8"), f"{path.name} must use keras.ops alone"
