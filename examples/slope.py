"""Run one function in a sandbox: plain data in, plain data out."""

import stockade


def slope(points):
    import statistics

    return statistics.linear_regression(*zip(*points, strict=True)).slope


print(stockade.call(slope, [[0, 1], [1, 3], [2, 5]], timeout=5))
