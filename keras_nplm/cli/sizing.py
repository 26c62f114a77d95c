"""`keras-nplm size`."""

import argparse
import dataclasses

from keras_nplm.cli.options import AddCommand, configuration_of, configuration_options
from keras_nplm.io.errors import InputError
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.sizes import compute_sizes


def add(command: AddCommand) -> None:
    """Add the command."""
    parser = command("size", _size, _show_size, "Count the parameters and operations of a network, without making it.")
    parser.add_argument("--vocabulary-size", type=int, metavar="V", required=True, help="|V|, special tokens included")
    help = "of the training text: tell the operations of the whole training, too"
    parser.add_argument("--tokens", type=int, metavar="N", help=help)
    configuration_options(parser, [field.name for field in dataclasses.fields(Configuration) if field.name != "seed"])


def _size(options: argparse.Namespace) -> dict:
    if options.tokens is not None and options.tokens < 1:
        raise InputError(f"`tokens` must be 1 or more. Received: {options.tokens}.")
    configuration = configuration_of(options)
    result = compute_sizes(configuration, options.vocabulary_size)
    if options.tokens:
        result["flops_of_all_epochs"] = result["flops_training"] * options.tokens * configuration.epochs
    return result


def _show_size(result: dict) -> None:
    print(f"{result['parameters']:,} parameters")
    print(f"{result['flops_scoring']:.3g} floating-point operations to score an n-gram, normalised exactly")
    print(f"{result['flops_training']:.3g} to train on one")
    if "flops_of_all_epochs" in result:
        print(f"{result['flops_of_all_epochs']:.3g} in all epochs")
