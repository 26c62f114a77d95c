"""Development beside the product: speed and quality beside peers, studies on Brown and other texts,
and the writer of the measured results. `python -m tests.benchmarks NAME [--record]` runs one.

Read first: report, the figures of one name as data; recording, `records/`, and what shows them:
`saved_models/measured`, the README's table, notebook 04.

- studies: rows of `studies.json`, each made once by a command. dynamics: models that learn as they
  read. texts: the texts of `default`. paper: Table 1, with the word vectors of notebook 02.
- contenders: work that is timed in turns, here, in other processes, and as commands. training,
  scoring, serving: the groups. networks, peers: what they time. commands: `estimation` and `start`
  as rows of `commands.json`.
- quality: perplexity by seconds of training beside torch_models, PyTorch's LSTM and Transformer.

To measure a variant, add a row to `studies.json`, run the command, and give `--record`.
"""
