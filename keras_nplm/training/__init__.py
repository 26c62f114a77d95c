"""Training: from a corpus and options to a model directory, with checkpoints and early stopping.

Read first: network, the parts of a network, their options and costs, and how to add one;
optimisation, the same of the optimiser; options, all of a run by name; configurations, named
options; adaptive_default, the default by the size of a text; train, the whole run in one line:
choose, prepare, fit, evaluate, write.

- Before: request, what is asked for, and its preparation; run, what is prepared; prepare,
  vocabulary and encoded corpus; pace, options for a time; sizes, parameters and FLOPs; build, the
  model; reading, the texts as batches.
- During: fit, calls of `Model.fit`; checkpoint, history, best epoch, resume; optimizers, row-wise
  SGD, Adagrad, Adam; weight_average, moving average of the weights; shared_spelling, words that
  learn from words with the same character n-grams; distribution, tf.distribute
  strategies; worker_connections, waits for absent workers.
- After: background, the n-gram model beside a network; tensorboard, charts, report: what users see.
- Without Keras or TensorFlow: estimate, n-gram models, ARPA import; methods, how each n-gram model
  is estimated, and how to add one; mix, mixtures and caches.

Several machines: start the same command on each, with `TF_CONFIG` as TensorFlow documents it. Each
worker prints for whom it waits, and gives up after `worker_timeout`. If a worker is lost, the
others end with exit status 1. Start all again to resume from the last checkpoint.

A checkpoint is written between two calls of `Model.fit`: after ten minutes of training, after each
epoch, after its validation, and after an interruption. What an interruption leaves, from which the
same command resumes to the same weights, bit for bit:

- Before training: the stages that are made, and the shards of an unfinished text. The command
  continues with the next one; see `keras_nplm.io.stages`.
- Ctrl-C, SIGTERM or SIGHUP in training: a checkpoint after the present batch. Nothing is lost.
- The same in validation: the checkpoint of the trained epoch. Validation is repeated.
- A second signal, an error, SIGKILL or a power failure: the last checkpoint. At most ten minutes of
  training and one validation are lost.
- The same while a file is written: the file before, whole. A damaged `last.npz` is replaced by
  `previous.npz`.
- A signal to one of several workers: all end within 50 updates with a checkpoint, in validation
  after it. A worker that waits for a lost one ends alone, after a second: the last checkpoint.
- After training: the network. The command evaluates the model, or writes the report.
"""
