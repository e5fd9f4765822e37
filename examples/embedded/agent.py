"""An agent's tool calls: the model writes code that calls tools, and sees the value, the output or the error."""

import json

from stockade.embedded import Caps, ResourceExhausted, Runtime, ScriptError

WEATHER = {"Oslo": -3, "Lima": 19, "Cairo": 28}
TURNS = [
    "cities = ['Oslo', 'Lima', 'Cairo']\nreport = {city: weather(city) for city in cities}\nreport",
    "max(report, key=report.get)",
    "weather('Atlantis')",
    "while True: pass",
]


def answer(runtime: Runtime, code: str) -> str:
    try:
        value = runtime.run(code, filename="turn.py")
    except (ScriptError, ResourceExhausted) as error:
        return json.dumps(error.as_json())
    return json.dumps({"value": value, "output": runtime.stdout})


def main() -> list[str]:
    def weather(city: str) -> int:
        return WEATHER[city]

    runtime = Runtime(Caps(fuel=200_000, deadline=5.0, value_bytes=100_000))
    runtime.register("weather", weather)
    answers = []
    for code in TURNS:
        answers.append(answer(runtime, code))
        if runtime.is_dead:
            runtime = runtime.fresh()
    runtime.close()
    return answers


if __name__ == "__main__":
    print(*main(), sep="\n")
