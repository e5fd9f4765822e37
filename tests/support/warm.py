"""What runs of one program, in a fresh interpreter and in a copy of a warm one, are compared by."""

import re


def seen(result):
    """All that a program had to say, without addresses and without where in the agent a line stands."""
    said = (result.stdout, result.stderr, result.value_repr, str(result.error))
    text = [re.sub(r"0x[0-9a-f]+|(?<=agent.py\", line )\d+", "#", str(each)) for each in said]
    return result.outcome, result.exit_code, result.signal, *text
