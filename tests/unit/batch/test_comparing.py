import pytest

from stockade.batch.comparing import difference
from stockade.batch.records import Case


def differs(compare, expected, output, tolerance=1e-6):
    return difference(Case("1", expected=expected, compare=compare, tolerance=tolerance), output)


@pytest.mark.parametrize(
    ("compare", "expected", "output"),
    [
        ("exact", "a\n", "a\n"),
        ("exact", "", ""),
        ("lines", "a\nb", "a  \nb\t\n\n\n"),
        ("lines", "a\r\nb\r\n", "a\nb\n"),
        ("lines", "", "\n \n"),
        ("tokens", "1 2\n3", "1\n2   3"),
        ("floats", "1.0 x", "1.0000001 x"),
        ("floats", "1e9", "1000000000.0"),
        ("floats", "5", "5.0"),
        ("floats", "nan -inf", "NaN -inf"),
        ("floats", "0.0", "-1e-9"),
    ],
)
def test_difference_equal_output_is_empty(compare, expected, output):
    assert differs(compare, expected, output) == ""


@pytest.mark.parametrize(
    ("compare", "expected", "output", "reason"),
    [
        ("exact", "a\n", "a", r"character 2 is nothing, expected '\n'"),
        ("exact", "a", "a\n", r"character 2 is '\n', expected nothing"),
        ("lines", "a\nb", "a\nc", "line 2 is 'c', expected 'b'"),
        ("lines", "a", "a\nb", "line 2 is 'b', expected missing"),
        ("lines", "a", " a", "line 1 is ' a', expected 'a'"),
        ("lines", "a", "\na", "line 1 is nothing, expected 'a'"),
        ("tokens", "1 2", "1", "token 2 is missing, expected '2'"),
        ("floats", "1.0", "1.1", "token 1 is '1.1', expected '1.0' within 1e-06"),
        ("floats", "1000000", "1000001", "token 1 is '1000001', expected '1000000' within 1e-06"),
        ("floats", "1.0", "1_0", "token 1 is '1_0', expected '1.0' within 1e-06"),
        ("floats", "1.0", "nan", "token 1 is 'nan', expected '1.0' within 1e-06"),
        ("floats", "10.0", "１０", "token 1 is '１０', expected '10.0' within 1e-06"),
        ("floats", "x", "y", "token 1 is 'y', expected 'x' within 1e-06"),
        ("floats", "2e400", "1e400", "token 1 is '1e400', expected '2e400' within 1e-06"),
        ("floats", "1e309", "inf", "token 1 is 'inf', expected '1e309' within 1e-06"),
    ],
)
def test_difference_names_first_mismatch(compare, expected, output, reason):
    assert differs(compare, expected, output) == reason


def test_difference_without_expectation_is_empty():
    assert difference(Case("1"), "whatever") == ""


def test_difference_of_long_output_is_short():
    assert len(differs("lines", "a", "x" * 10_000)) < 200
