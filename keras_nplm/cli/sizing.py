"""`keras-nplm size`: parameters and operations of a network, before it is trained."""

import argparse

from keras_nplm.cli.flags import AddCommand, add_configuration_flags, add_flag, configuration_names, read_configuration
from keras_nplm.io.options import OPTIONS, Option

_TOKENS = Option(
    name="tokens",
    type=int,
    default=None,
    optional=True,
    least=1,
    example=1_000_000,
    help="tokens of the training text, to count the operations of all epochs",
)


_WITHOUT_EFFECT = {"activation", "dtype", "proposal", "self_normalisation", "held_out_mass"}  # on size and operations


def add(command: AddCommand) -> None:
    """Add the command."""
    parser = command("size", _size, _show_size, "Count a network's parameters and floating-point operations.")
    add_flag(parser, OPTIONS["vocabulary_size"], required=True)
    add_flag(parser, _TOKENS)
    names = configuration_names("model", "output")
    add_configuration_flags(parser, [name for name in (*names, "epochs") if name not in _WITHOUT_EFFECT])


def _size(options: argparse.Namespace) -> dict:
    from keras_nplm.training.sizes import compute_sizes

    configuration = read_configuration(options)
    result = compute_sizes(configuration, options.vocabulary_size)
    if options.tokens:
        result["flops_of_all_epochs"] = result["flops_training"] * options.tokens * configuration.epochs
    return result


def _show_size(result: dict) -> None:
    print(f"{result['parameters']:,} parameters")
    print(f"{result['flops_scoring']:.3g} floating-point operations per n-gram to score, normalised exactly")
    print(f"{result['flops_training']:.3g} floating-point operations per n-gram in training")
    if "flops_of_all_epochs" in result:
        print(f"{result['flops_of_all_epochs']:.3g} floating-point operations in all epochs")
