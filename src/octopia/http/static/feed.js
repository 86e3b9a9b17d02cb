// The feed: keeps the state of the overlay, and makes rates from counters.

const RATE_MS = 2000;
// The close code of a feed whose token has expired or was revoked.
const DENIED = 1008;

export class Feed {
  constructor(handlers) {
    this.handlers = handlers;
    this.brokers = new Map();
    this.links = new Map();
    this.hello = null;
    this.asked = new Map();
    this.ref = 0;
    this.wait_ms = 500;
    this.connect();
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(`${scheme}//${location.host}/feed`);
    this.socket.onmessage = (message) => this.receive(JSON.parse(message.data));
    this.socket.onclose = async (closed) => {
      this.handlers.onConnection(closed.code === DENIED ? "denied" : "lost");
      for (const settle of this.asked.values()) settle({ ok: false, problem: "the connection was lost" });
      this.asked.clear();
      if (closed.code === DENIED) return;
      if (await isDenied()) {
        this.handlers.onConnection("denied");
        return;
      }
      setTimeout(() => this.connect(), this.wait_ms);
      this.wait_ms = Math.min(8000, this.wait_ms * 2);
    };
  }

  receive(message) {
    switch (message.type) {
      case "hello":
        this.wait_ms = 500;
        this.hello = message;
        this.handlers.onHello(message);
        this.handlers.onConnection("live");
        break;
      case "tick":
        this.apply(message);
        this.handlers.onTick(message);
        break;
      case "event":
        this.handlers.onEvent(message);
        break;
      case "done":
        this.asked.get(message.ref)?.(message);
        this.asked.delete(message.ref);
        break;
    }
  }

  apply(tick) {
    if (tick.whole) {
      this.brokers.clear();
      this.links.clear();
    }
    merge(this.brokers, tick.brokers);
    merge(this.links, tick.links);
    for (const broker of this.brokers.values()) measure(broker, tick.t, ["published", "delivered", "rerouted"]);
    for (const link of this.links.values()) measure(link, tick.t, ["sent", "rerouted", "congested_ms"]);
  }

  // Send a command, and return a promise of its answer.
  do(command) {
    if (this.socket.readyState !== WebSocket.OPEN) return Promise.resolve({ ok: false, problem: "not connected" });
    this.ref += 1;
    const ref = this.ref;
    this.socket.send(JSON.stringify({ type: "do", ref, ...command }));
    return new Promise((settle) => this.asked.set(ref, settle));
  }
}

// A WebSocket does not say why its handshake was refused, so ask for a small file with the same token.
async function isDenied() {
  try {
    return (await fetch("/icon.svg", { method: "HEAD", cache: "no-store" })).status === 401;
  } catch {
    return false;
  }
}

function merge(known, changes) {
  for (const [name, fields] of Object.entries(changes)) {
    if (fields === null) {
      known.delete(name);
      continue;
    }
    if (!known.has(name)) known.set(name, { history: [], rates: {} });
    const entry = known.get(name);
    for (const [field, value] of Object.entries(fields)) {
      if (value === null && field !== "rate" && field !== "delay_ms") delete entry[field];
      else entry[field] = value;
    }
  }
}

// Rates over the last two seconds; a counter that has shrunk belongs to a broker that was restarted.
function measure(entry, t, fields) {
  const now = fields.map((field) => entry[field] ?? 0);
  const history = entry.history;
  if (history.length && now.some((value, index) => value < history[history.length - 1].values[index])) history.length = 0;
  history.push({ t, values: now });
  while (history.length > 2 && t - history[1].t >= RATE_MS) history.shift();
  const first = history[0];
  const elapsed = t - first.t;
  fields.forEach((field, index) => {
    entry.rates[field] = elapsed > 0 ? (now[index] - first.values[index]) * 1000 / elapsed : 0;
  });
}
