"""Several subscribers with different filters: each receives exactly the publications that match."""

import asyncio

import octopia

FILTERS = {
    "everything": "price > 0",
    "expensive": "price > 100",
    "tech": "symbol IN ('IBM', 'SAP') AND price BETWEEN 100 AND 200",
    "big trades": "volume >= 1000",  # a publication without a volume does not match
    "no volume": "volume IS NULL AND price > 0",
}
PRICES = [
    {"symbol": "IBM", "price": 131.25, "volume": 700},
    {"symbol": "SAP", "price": 120.5},
    {"symbol": "XOM", "price": 99.0, "volume": 5000},
]
DELIVERIES = 9


async def main() -> None:
    """Connect one subscriber per filter, each to its own broker, and publish three prices in London."""
    received: dict[str, list[str]] = {name: [] for name in FILTERS}
    async with octopia.Overlay.local(tree="nyc-lon, lon-tok", clusters=3) as overlay:
        places = zip(FILTERS, overlay.brokers, strict=False)
        clients = [await overlay.connect(broker, name=name) for name, broker in places]
        for client in clients:
            symbols = received[client.name]
            await client.subscribe(FILTERS[client.name], callback=lambda each, to=symbols: to.append(each["symbol"]))

        async with overlay.connect("lon.0") as exchange:
            await exchange.advertise("symbol IS NOT NULL AND price > 0 AND volume >= 0")
            await exchange.publish_many(PRICES)
            try:
                await exchange.publish({"symbol": "IBM", "price": -1.0})
            except octopia.RequestRefused as refusal:
                print("refused:", refusal)

        while sum(map(len, received.values())) < DELIVERIES:
            await asyncio.sleep(0.01)
        for client in clients:
            await client.close()
    for name, symbols in received.items():
        print(f"{name}: {', '.join(sorted(symbols))}")


asyncio.run(main())
