"""Language models with text in, probabilities and words out.

- `language_model`: `LanguageModel`, a model with its vocabulary and tokenizer: evaluate, score,
  complete, generate.
- `codec`: `TextCodec`, text to token ids and back; `word_pieces`: tokens as parts of words.
- `evaluation`: figures of a text; `scoring`: log-probabilities of sentences; `completion`: next
  words; `generation`: sampling of text.
- `scorer`: a word at a time, for decoders; `kenlm` and `ctc`: the interfaces of kenlm and of
  pyctcdecode.
- `word_vectors`: nearest neighbours, analogies and a t-SNE map.
- `new_words` and `new_word_weights`: out-of-vocabulary words added to a trained network;
  `adaptation`: fine-tuning on a small text.
- `arpa_models`: a model directory or an ARPA file, opened as a language model; `differences`: the
  options in which the tokens of two models differ.
- `directory`: vocabulary, corpus and metrics of a model directory.
"""
