"""What the test's sandbox says at its end."""

PASSED = "passed"
"""Value of the last line: the test was run to its end and was content."""
GONE = 3
"""Exit status: the answer's sandbox ended before the test did."""
NONSENSE = 4
"""Exit status: what came as a reply is none."""
NOT_PLAIN = 5
"""Exit status: the test called a function with something that is no plain data."""
