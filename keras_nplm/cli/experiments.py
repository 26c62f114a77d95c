"""`keras-nplm paper`: the models of the paper's Table 1."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from keras_nplm.cli.parameters import SEVERAL, DataDirectory, Output, number
from keras_nplm.cli.printing import printed_by


def _print_report(result: dict) -> None:
    from keras_nplm.experiments.paper import format_report

    print(format_report(result))


@printed_by(_print_report)
def paper(
    *,
    rows: Annotated[tuple[str, ...], SEVERAL, Parameter(metavar="NAME", show_default="all")] = (),
    jobs: Annotated[
        int | None,
        number(
            int,
            least=1,
            example=2,
            help="models trained side by side",
            show_default="2 on two or more cores",
        ),
    ] = None,
    output: Annotated[Output, Parameter(help="directory of the models and reports")] = "paper",
    data_dir: DataDirectory = None,
) -> dict:
    """Train the models of the paper's Table 1 on Brown, and report them.

    Args:
        rows: rows of Table 1, such as mlp1, trigram, kneser-ney-5
    """
    from keras_nplm.experiments.paper import make_paper

    return {**make_paper(Path(output), jobs, data_dir, rows), "directory": output}
