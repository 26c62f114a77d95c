"""Training: from a corpus and a configuration to a model directory, with checkpoints, early stopping and a report.

configuration: options and named configurations. sizes: parameters and FLOPs. prepare: vocabulary and encoded corpus.
build: model and optimiser. targets: their counts. reading: the texts as batches. train: the whole run. fit: `Model.fit`
with its callbacks. checkpoint: history, best epoch, resume. weight_average: moving average of the weights. optimizers:
row-wise SGD, Adagrad, Adam. distribution: tf.distribute strategies. worker_connections: waits for absent workers.
background: the n-gram model beside a short-list. tensorboard, charts, report: what users look at. estimate:
n-gram models, ARPA import; mix: mixtures and caches; both without Keras or TensorFlow.

Several machines: start the same command on each, with `TF_CONFIG` as TensorFlow documents it. Each worker prints for
whom it waits, and gives up after `--worker-timeout`. If a worker is lost, the others end with exit status 1. Start all
again to resume from the last checkpoint. SIGTERM and Ctrl-C end a worker at any moment. If the chief waits for another
worker at that moment, it writes no further checkpoint.
"""
