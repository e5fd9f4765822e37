"""Many programs to verdicts: what to run and what to expect, the runner, the file of verdicts, the figures."""
