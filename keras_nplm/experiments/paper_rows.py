"""The rows of the paper's Table 1 on Brown, with rows that the paper does not have."""

from keras_nplm.experiments.rows import Row


def _class_based(number: int, order: int, paper: tuple[int, int]) -> Row:
    command = f"ngram --method class-based --num-classes {number} --order {order}"
    return Row(f"class-{number}-{order}", f"class-based, {number} classes, n={order}", command, paper)


def _kneser_ney(order: int, paper: tuple[int, int]) -> Row:
    command = f"ngram --method kneser-ney --order {order}"
    return Row(f"kneser-ney-{order}", f"Kneser-Ney, n={order}", command, paper)


PAPER_ROWS = (
    Row("mlp1", "MLP1", "train --config mlp1", (284, 268), ("MLP2", 275, 257)),
    Row("mlp3", "MLP3", "train --config mlp3", (327, 310), ("MLP4", 286, 272)),
    Row("mlp5", "MLP5", "train --config mlp5", (296, 279), ("MLP6", 273, 259)),
    Row("mlp7", "MLP7", "train --config mlp7", (309, 293), ("MLP8", 284, 270)),
    Row("mlp9", "MLP9", "train --config mlp9", (280, 276), ("MLP10", 265, 252)),
    Row("brown-no-held-out", "n=5, h=100, m=60, no direct", "train --config brown --held-out-mass 0"),
    Row("mlp1-paper", "MLP1, the paper's optimiser", "train --config mlp1-paper", (284, 268)),
    Row("mlp1-paper-no-direct", "the same, no direct", "train --config mlp1-paper --no-direct-connections --epochs 8"),
    Row(
        "deleted-interpolation-paper",
        "deleted interpolation, the paper's bins",
        "ngram --method deleted-interpolation --order 3 --paper-bins",
        (352, 336),
    ),
    Row("trigram", "deleted interpolation, our bins", "ngram --method deleted-interpolation --order 3"),
    _kneser_ney(3, (334, 323)),
    _kneser_ney(4, (332, 321)),
    _kneser_ney(5, (332, 321)),
    _class_based(150, 3, (348, 334)),
    _class_based(200, 3, (354, 340)),
    _class_based(500, 3, (326, 312)),
    _class_based(500, 4, (327, 312)),
    _class_based(500, 5, (327, 312)),
    _class_based(1000, 3, (335, 319)),
    _class_based(2000, 3, (343, 326)),
)


def find_row(name: str) -> Row:
    """Return the row of Table 1 with a name, for studies that use its model.

    Raises:
        KeyError: no row has this name.
    """
    return {row.name: row for row in PAPER_ROWS}[name]
