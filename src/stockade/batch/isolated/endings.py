"""What the test's sandbox says at its end."""

PASSED = "passed"
"""Value of the last line: the test was run to its end and was content."""
NOT_TESTED = "not tested: "
"""Beginning of the value where the test came to its end and tested nothing; the reason follows."""
GONE = 3
"""Exit status: the answer's sandbox ended before the test did."""
NONSENSE = 4
"""Exit status: what came as a reply is none."""
NOT_PLAIN = 5
"""Exit status: the test called a function with a value that cannot cross; the last line of stderr says which."""
NOT_RETURNED = 6
"""Exit status: the answer returned a value that cannot cross; the last line of stderr says which."""
UNEQUAL = 7
"""Exit status: the answer returned a value with a comparison of its own; the last line of stderr says which."""
