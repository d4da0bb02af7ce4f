"""LPGNet: perceptrons on features and on noisy numbers of neighbours in each predicted class."""
