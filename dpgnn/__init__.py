"""dpgnn: differentially private graph learning, reproduced, made sound and compared."""

__version__ = "0.1.0"
