"""ProGAP: stages of training, each on one more noisy aggregate of what the stage before learnt."""
