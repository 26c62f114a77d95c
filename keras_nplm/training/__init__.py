"""Training: from a corpus and options to a model directory, with checkpoints and early stopping.

Read first: options, what a run can be told; configurations, named options; adaptive_default, the
default by the size of a text; parts, the parts of a network and their costs; train, the whole run.

- Before: request, what is asked for, and its preparation; run, what is prepared; prepare,
  vocabulary and encoded corpus; pace, options for a time; sizes, parameters and FLOPs; build, model
  and optimiser; targets, their counts; reading, the texts as batches.
- During: fit, `Model.fit` with its callbacks; checkpoint, history, best epoch, resume; optimizers,
  row-wise SGD, Adagrad, Adam; weight_average, moving average of the weights; distribution,
  tf.distribute strategies; worker_connections, waits for absent workers.
- After: background, the n-gram model beside a network; tensorboard, charts, report: what users see.
- Without Keras or TensorFlow: estimate, n-gram models, ARPA import; estimators and ngram_options,
  the methods of n-gram models; mix, mixtures and caches.

An option of your own is a field in options. A layer, a head or an objective has a class in parts, a
method of n-gram models one in estimators.

Several machines: start the same command on each, with `TF_CONFIG` as TensorFlow documents it. Each
worker prints for whom it waits, and gives up after `worker_timeout`. If a worker is lost, the
others end with exit status 1. Start all again to resume from the last checkpoint. SIGTERM and
Ctrl-C end a worker at any moment. If the chief waits for another worker at that moment, it writes
no further checkpoint.
"""
