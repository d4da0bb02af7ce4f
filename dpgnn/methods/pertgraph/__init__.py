"""PertGraph: training on a graph whose edges were perturbed."""
