"""HumanEval, judged in sandboxes: 164 reference solutions, and answers that try not to be judged."""
