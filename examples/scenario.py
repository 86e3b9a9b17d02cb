"""Run a scenario in the simulator from Python, and show the publications that went around a congested link."""

from pathlib import Path

from octopia.scenario import load_scenario
from octopia.settings import Algorithm
from octopia.simulator.run import run_scenario

CITIES = Path(__file__).with_name("cities.toml")


def main() -> None:
    """Compare static and dynamic routing on the scenario of the tutorial."""
    scenario = load_scenario(CITIES)
    for algorithm in (Algorithm.STATIC, Algorithm.DYNAMIC):
        run = run_scenario(scenario.with_algorithm(algorithm), check=True)
        assert run.complaints() == []
        deliveries = [each for each in run.recorder.deliveries if each.client == "fund"]
        longest_ms = max(each.delay_ms for each in deliveries)
        print(f"{algorithm}: {len(deliveries)} deliveries to the fund, the longest took {longest_ms:g} ms")
        for path in sorted({each.path for each in deliveries}):
            count = sum(each.path == path for each in deliveries)
            print(f"  {count} over {' > '.join(map(str, path))}")


main()
