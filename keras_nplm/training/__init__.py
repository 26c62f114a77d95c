"""Training: from a corpus and a configuration to a model directory, with checkpoints, early stopping and a report.

configuration: options and named configurations. sizes: parameters and FLOPs. prepare: vocabulary and encoded corpus.
build: model and optimiser. train: the whole run. fit: `Model.fit` with its callbacks. checkpoint: history, best epoch,
resume. weight_average: moving average of the weights. optimizers: row-wise SGD, Adagrad, Adam. distribution:
tf.distribute strategies. background: the n-gram model beside a short-list. tensorboard, charts, report: what users
look at. estimate: n-gram models, ARPA import and mixtures, without Keras or TensorFlow.
"""
