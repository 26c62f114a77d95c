"""How figures of a model are shown."""


def show_splits(result: dict) -> None:
    """Print the perplexities of a model directory, and what may be done with it."""
    for split in ("validation", "test"):
        if split in result:
            print(f"{split:10}", line(result[split]))
    print(f'the model is in {result["directory"]}; next: keras-nplm complete {result["directory"]} "a context"')


def line(figures: dict) -> str:
    """What `evaluate` found, in a line."""
    known = figures["perplexity_without_unk"]
    without = f" ({known:.2f} without {figures['unk_tokens']:,} <unk>)" if known else ", all of them <unk>"
    perplexity = f"perplexity {figures['perplexity']:.2f} over {figures['tokens']:,} tokens"
    return f"{perplexity}{without}, {figures['bits_per_word']:.3f} bits a word"
