"""The path of five years of stock prices, on machines that have them."""

import os
from pathlib import Path


def real_data() -> Path:
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    return Path(os.environ.get("OCTOPIA_DATA", beside)) / "sp500_5yr.parquet"
