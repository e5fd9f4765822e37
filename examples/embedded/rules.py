"""Rules of a shop, written by its owner: each order is priced by a function of the script."""

from stockade.embedded import Caps, ResourceExhausted, Runtime, ScriptError

RULES = """
def discount(order):
    total = sum(item['price'] * item['count'] for item in order['items'])
    match order:
        case {'customer': {'vip': True}}:
            return round(total * 0.2, 2)
        case {'items': [_, _, _, *_]}:
            return round(total * 0.1, 2)
    return 0.0
"""
ORDERS = [
    {"customer": {"vip": True}, "items": [{"price": 10.0, "count": 2}]},
    {"customer": {"vip": False}, "items": [{"price": 1.5, "count": 1}] * 3},
    {"customer": {"vip": False}, "items": []},
]


def discounts(rules: str) -> list[object]:
    with Runtime(Caps(fuel=100_000, deadline=5.0, frames=64, value_bytes=100_000)) as runtime:
        try:
            runtime.run(rules, filename="rules.py")
            return [runtime.call("discount", order) for order in ORDERS]
        except (ScriptError, ResourceExhausted) as error:
            return [str(error)]


if __name__ == "__main__":
    print(discounts(RULES))
    print(discounts(RULES.replace("total * 0.2", "total * rate")))
    print(discounts("def discount(order):\n    while True: pass"))
