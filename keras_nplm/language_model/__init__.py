"""Language models with text in, probabilities and words out.

Read first: language_model, `LanguageModel`, a model with its vocabulary and tokenizer; codec,
`TextCodec`, text to token ids and back. The other modules are functions of a model and a codec.

- evaluation: figures of a text. scoring: log-probabilities of sentences. completion: next words.
  generation: sampling of text. word_pieces: tokens as parts of words.
- scorer: a word at a time, for decoders. kenlm, ctc: the interfaces of kenlm and of pyctcdecode.
- word_vectors: neighbours, analogies and a t-SNE map. new_words, new_word_weights: words added to a
  trained network. adaptation: fine-tuning on a small text. dynamics: settings of dynamic
  evaluation. options: those of these commands.
- directory: a model directory on disk. presets: the model that the package ships. arpa_models:
  ARPA files as language models. backoff: the model of an ARPA file to write. comparison: figures
  of several models on one text. differences: in what the tokens of two models differ.
  description: what a model is, for model cards.

A new use of a language model is a function here, and a method of `LanguageModel` that calls it.
"""
