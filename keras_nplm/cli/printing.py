"""Figures of a model, printed for people."""


def print_splits(result: dict) -> None:
    """Print the perplexities of a model directory and a command to try next."""
    for split in ("validation", "test"):
        if split in result:
            print(f"{split:10}", format_figures(result[split]))
    print(f'the model is in {result["directory"]}; next: keras-nplm complete {result["directory"]} "a context"')


def format_figures(figures: dict) -> str:
    """Return the figures of `evaluate` in one line."""
    known = figures["perplexity_without_unk"]
    without = f" ({known:.2f} without {figures['unk_tokens']:,} <unk>)" if known else ", all of them <unk>"
    perplexity = f"perplexity {figures['perplexity']:.2f} over {figures['tokens']:,} tokens"
    return f"{perplexity}{without}, {figures['bits_per_word']:.3f} bits per word"
