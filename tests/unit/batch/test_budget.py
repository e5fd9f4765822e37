from stockade.batch.budget import Amount, Budget

MIB = 1 << 20


def test_budget_taken_amount_is_unavailable():
    budget = Budget(Amount(jobs=4, memory=300 * MIB, tasks=100, descriptors=100))
    need = Amount(jobs=1, memory=128 * MIB, tasks=10, descriptors=20)
    budget.take(need)
    assert budget.fits(need)
    budget.take(need)
    assert not budget.fits(need)
    budget.give(need)
    assert budget.fits(need)


def test_budget_each_resource_bounds_programs():
    need = Amount(jobs=1, memory=10, tasks=10, descriptors=10)
    for capacity, count, word in (
        (Amount(2, 100, 100, 100), 2, "programs at a time"),
        (Amount(9, 30, 100, 100), 3, "memory"),
        (Amount(9, 100, 45, 100), 4, "processes"),
        (Amount(9, 100, 100, 59), 5, "open files"),
    ):
        budget = Budget(capacity)
        assert budget.at_a_time(need) == (count, word)
        for _ in range(count):
            assert budget.fits(need)
            budget.take(need)
        assert not budget.fits(need)


def test_refusal_need_above_capacity_names_resource():
    budget = Budget(Amount(jobs=2, memory=256 * MIB, tasks=5, descriptors=50))
    assert budget.refusal(Amount(1, 512 * MIB, 1, 1)).startswith(
        "may need 512 MiB of memory; the batch may use 256 MiB: "
    )
    assert budget.refusal(Amount(1, MIB, 6, 1)).startswith("may need 6 processes; the batch may use 5: ")
    assert budget.refusal(Amount(1, MIB, 5, 51)).endswith(": let this process open more files (ulimit -n)")
    assert budget.refusal(Amount(1, MIB, 5, 50)) == ""
