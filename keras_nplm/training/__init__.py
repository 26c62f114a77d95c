"""Training: from a corpus and options to a model directory, with checkpoints and early stopping.

To read in this order: options, what a run can be told; configurations, named options;
adaptive_default, the default by the size of a text; parts, the parts of a network and their costs;
train, the whole run. request: what is asked for, and its preparation. run: what is prepared.
prepare: vocabulary and encoded corpus. pace: options for a time. sizes: parameters and FLOPs.
build: model and optimiser. targets: their counts. reading: the texts as batches. fit: `Model.fit`
with its callbacks. checkpoint: history, best epoch, resume. weight_average: moving average of the
weights. optimizers: row-wise SGD, Adagrad, Adam. distribution: tf.distribute strategies.
worker_connections: waits for absent workers. background: the n-gram model beside a network.
tensorboard, charts, report: what users look at. estimate: n-gram models, ARPA import; estimators:
the methods of n-gram models; mix: mixtures and caches; all three without Keras or TensorFlow.

Several machines: start the same command on each, with `TF_CONFIG` as TensorFlow documents it. Each
worker prints for whom it waits, and gives up after `--worker-timeout`. If a worker is lost, the
others end with exit status 1. Start all again to resume from the last checkpoint. SIGTERM and
Ctrl-C end a worker at any moment. If the chief waits for another worker at that moment, it writes
no further checkpoint.
"""
