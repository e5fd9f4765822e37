"""The command line. Modules import ``click`` and little else; slow imports are inside of the commands."""
