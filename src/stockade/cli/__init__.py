"""The command line. Modules import ``click`` and little else at first; what is heavy waits inside the commands."""
