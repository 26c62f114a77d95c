"""`keras-nplm size`: parameters and operations of a network, before it is trained."""

import argparse
import dataclasses

from keras_nplm.cli.flags import (
    AddCommand,
    add_configuration_flags,
    add_flag,
    configuration_names,
    read_configuration,
    read_given_options,
)
from keras_nplm.io.options import OPTIONS
from keras_nplm.training.adaptive_default import choose_configuration

_WITHOUT_EFFECT = {"activation", "dtype", "proposal", "self_normalisation", "held_out_mass"}  # on size and operations


def add(command: AddCommand) -> None:
    """Add the command."""
    parser = command("size", _size, _show_size, "Count a network's parameters and floating-point operations.")
    add_flag(parser, OPTIONS["vocabulary_size"], required=True)
    help = f"{OPTIONS['tokens'].help}, to choose options and to count the operations of all epochs"
    add_flag(parser, dataclasses.replace(OPTIONS["tokens"], help=help))
    add_flag(parser, OPTIONS["token"])
    names = configuration_names("model", "output")
    add_configuration_flags(parser, [name for name in (*names, "epochs") if name not in _WITHOUT_EFFECT])


def _size(options: argparse.Namespace) -> dict:
    from keras_nplm.training.sizes import compute_sizes

    if options.tokens and not options.config:
        configuration = choose_configuration(
            options.tokens,
            options.vocabulary_size,
            characters=options.token == "character",
            **read_given_options(options),
        )
    else:
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
