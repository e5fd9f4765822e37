import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade.core.units import MAX_SIZE, format_size, parse_cores, parse_count, parse_seconds, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MiB", 64 << 20),
        ("1.5KiB", 1536),
        ("1.1MiB", 1153433),
        ("10", 10),
        (10, 10),
        (0, 0),
        ("2 GB", 2 * 10**9),
        ("4k", 4096),
        (1.0, 1),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("1.5s", 1.5), ("250ms", 0.25), (2, 2), ("2min", 120), ("1h", 3600), (0.5, 0.5)]
)
def test_durations(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("parse", [parse_size, parse_count, parse_seconds, parse_cores])
@pytest.mark.parametrize(
    "nonsense", [-1, "", "  ", "123bogus", 2**70, math.nan, math.inf, True, None, [], "1e9", "-5", "٣", "0x10", b"1"]
)
def test_nonsense_is_refused(parse, nonsense):
    with pytest.raises(ValueError, match=r"\w"):
        parse(nonsense)


@pytest.mark.parametrize("parse", [parse_size, parse_count, parse_seconds, parse_cores])
def test_unlimited_is_the_only_way_to_lift(parse):
    assert parse("unlimited") == "unlimited"
    with pytest.raises(ValueError, match="expected"):
        parse("Unlimited")


@pytest.mark.parametrize("value", [1.5, "1.5", "0.3B"])
def test_a_size_is_whole(value):
    with pytest.raises(ValueError, match="whole"):
        parse_size(value)


@given(st.integers(0, MAX_SIZE))
def test_any_size_comes_through(size):
    assert parse_size(size) == parse_size(str(size)) == parse_size(f"{size}B") == size


@given(st.integers(0, 2**20))
def test_exact_sizes_are_written_so_that_they_read_back(kib):
    assert parse_size(format_size(kib * 1024).replace(" ", "")) == pytest.approx(kib * 1024, rel=0.06)
