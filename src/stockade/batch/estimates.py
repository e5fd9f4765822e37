"""The unbiased estimator of pass@k."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """Return the probability that at least one of ``k`` samples passes, drawn without replacement from ``samples``.

    This is the unbiased estimator ``1 - C(n - c, k) / C(n, k)`` of Chen et al., "Evaluating Large Language Models
    Trained on Code" (2021), section 2.1. It is computed as a product, which does not overflow. Raises ``ValueError``
    unless 1 <= k <= samples.
    """
    if not (1 <= k <= samples and 0 <= passed <= samples):
        raise ValueError(
            f"pass@{k} of {samples} samples with {passed} passed: k must be from 1 to the number of samples"
        )
    if samples - passed < k:
        return 1.0
    return 1.0 - prod(1.0 - k / n for n in range(samples - passed + 1, samples + 1))


def mean_pass_at_k(counts: Iterable[tuple[int, int]], k: int) -> float | None:
    """Return the mean over problems of (samples, passed); ``None`` if a problem has fewer than ``k`` samples."""
    problems = list(counts)
    if not problems or any(samples < k for samples, _ in problems):
        return None
    return sum(pass_at_k(samples, passed, k) for samples, passed in problems) / len(problems)
