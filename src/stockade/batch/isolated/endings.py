"""Values and exit statuses by which the test's sandbox reports how it ended."""

PASSED = "passed"
"""Value of the last line: the test ran to its end, and every check passed."""
NOT_TESTED = "not tested: "
"""Beginning of the value if the test ran to its end and tested nothing; the reason follows."""
GONE = 3
"""Exit status: the answer's sandbox ended before the test did."""
NONSENSE = 4
"""Exit status: the answer sent an invalid reply."""
NOT_PLAIN = 5
"""Exit status: the test passed a value that cannot cross; the last line of standard error names it."""
NOT_RETURNED = 6
"""Exit status: the answer returned a value that cannot cross; the last line of standard error names it."""
UNEQUAL = 7
"""Exit status: the answer returned a value with a comparison of its own; standard error's last line names it."""
