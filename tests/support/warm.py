"""Compares cold and warm runs of one program."""

import re


def seen(result):
    """Return everything that a program reported, without addresses and line numbers of the agent."""
    reported = (result.stdout, result.stderr, result.value_repr, str(result.error))
    text = [re.sub(r"0x[0-9a-f]+|(?<=agent.py\", line )\d+", "#", str(each)) for each in reported]
    return result.outcome, result.exit_code, result.signal, *text
