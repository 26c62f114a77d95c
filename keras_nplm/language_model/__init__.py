"""Language models with text in, probabilities and words out.

- `language_model`: `LanguageModel`, a model with its vocabulary and tokenizer: evaluate, score,
complete, generate. - `scoring`: log-probabilities of sentences; `generation`: sampling of text. -
`scorer`: a word at a time, for decoders; `kenlm` and
`ctc`: the interfaces of kenlm and of pyctcdecode. - `word_vectors`: nearest neighbours, analogies
and a t-SNE map; `new_words` and `new_word_weights`: out-of-vocabulary
  words added to a trained network; `adaptation`: fine-tuning on a small text.
- `directory`: vocabulary, corpus and metrics of a model directory; `model_files`: save and load
models of all kinds.
"""
