// The drawing of the map: one group per broker and one per lane, made once, then only changed.

const SVG = "http://www.w3.org/2000/svg";

export const HEAD = "M-3.4 -4.2 L4.4 0 L-3.4 4.2 Z";

export function element(name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

export function rateText(rate) {
  if (rate < 0.05) return "0/s";
  if (rate < 9.95) return `${rate.toFixed(1)}/s`;
  return `${count(Math.round(rate))}/s`;
}

export function count(number) {
  if (number < 10_000) return number.toLocaleString("en");
  return Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(number);
}

// The state of a lane, shown by its colour and its pattern. The feed decides what is congested, as in the sentence.
export function stateOf(link) {
  if (!link) return "unknown";
  if (!link.up) return "down";
  if (link.congested) return "congested";
  if (link.rates.rerouted >= 0.5) return "rerouted";
  return link.rates.sent >= 0.05 ? "busy" : "idle";
}

export class Drawing {
  constructor(svg, layout, onLane) {
    this.layout = layout;
    this.lanes = new Map();
    this.boxes = new Map();
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
    svg.dataset.dense = layout.isDense;
    svg.append(this.headings());
    for (const lane of layout.lanes.values()) svg.append(this.makeLane(lane, onLane));
    for (const broker of layout.brokers.values()) svg.append(this.makeBox(broker));
    this.top = element("g", { class: "labels", "aria-hidden": "true" });
    for (const made of this.lanes.values()) this.top.append(made.label);
    svg.append(this.top);
  }

  headings() {
    const { size, columns, rows, brokers } = this.layout;
    const group = element("g", { class: "headings", "aria-hidden": "true" });
    const placed = [...brokers.values()];
    columns.forEach((title, column) => {
      const { cx } = placed.find((broker) => broker.column === column);
      group.append(element("text", { x: cx, y: size.top - 10, "text-anchor": "middle" }, title));
    });
    rows.forEach((title, row) => {
      const { cy } = placed.find((broker) => broker.row === row);
      group.append(element("text", { x: 4, y: cy + 4 }, title));
    });
    return group;
  }

  makeLane(lane, onLane) {
    const group = element("g", { class: "lane", role: "button", tabindex: "-1", "data-link": lane.name, "data-kind": lane.kind });
    const parts = {
      casing: element("path", { class: "casing", d: lane.d }),
      base: element("path", { class: "base", d: lane.d }),
      over: element("path", { class: "over", d: lane.d }),
    };
    const head = element("path", { class: "head", d: HEAD, transform: lane.head });
    const title = element("title");
    group.append(title, element("path", { class: "hit", d: lane.d }), ...Object.values(parts), head);
    group.addEventListener("click", () => onLane(lane.name));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        onLane(lane.name);
      }
    });
    const label = element("text", { class: "lane-label", "data-for": lane.name, ...labelPlace(lane, this.layout.isDense) });
    this.lanes.set(lane.name, { group, ...parts, head, title, label, width: -1 });
    return group;
  }

  makeBox(broker) {
    const { boxW, boxH } = this.layout.size;
    const group = element("g", { class: "broker", "data-broker": broker.name, transform: `translate(${broker.x} ${broker.y})` });
    group.append(element("rect", { width: boxW, height: boxH, rx: 7 }));
    const dense = this.layout.isDense, inLine = this.layout.size.box === "line";
    const name = element("text", { class: "name", x: 9, y: dense ? 15 : 21 }, broker.name);
    const clients = element("text", { class: "clients", x: boxW - 9, y: dense ? 15 : 21, "text-anchor": "end" });
    group.append(name, clients);
    const rows = {};
    ["published", "delivered", "rerouted"].forEach((field, index) => {
      const y = inLine ? 29 : (dense ? 28 : 41) + index * (dense ? 10.5 : 16.5);
      const third = (boxW - 12) / 3;
      const [x, end] = inLine ? [7 + index * third, (index + 1) * third] : [9, boxW - 9];
      group.append(element("text", { class: "field", x, y }, inLine ? field.slice(0, 3) : field));
      rows[field] = element("text", { class: `value ${field}`, x: end, y, "text-anchor": "end" });
      group.append(rows[field]);
    });
    const problem = element("text", { class: "problem", x: boxW / 2, y: boxH * 0.75, "text-anchor": "middle" });
    group.append(problem);
    this.boxes.set(broker.name, { group, clients, rows, problem });
    return group;
  }

  update(feed) {
    const busiest = Math.max(20, ...[...feed.links.values()].map((link) => link.rates.sent));
    for (const [name, made] of this.lanes) this.updateLane(name, made, feed.links.get(name), busiest);
    for (const [name, made] of this.boxes) this.updateBox(made, feed.brokers.get(name));
  }

  updateLane(name, made, link, busiest) {
    const state = stateOf(link);
    const rates = link?.rates ?? { sent: 0, rerouted: 0, congested_ms: 0 };
    const data = made.group.dataset;
    data.state = state;
    data.rate = rates.sent.toFixed(1);
    data.rerouted = rates.rerouted.toFixed(1);
    data.queue = link?.queue ?? "";
    data.limit = link?.rate ?? "";
    data.cut = link?.cut ?? "";
    made.label.dataset.state = state;
    const widest = this.layout.isDense ? 6.5 : 11;
    const width = rates.sent < 0.05 ? 1 : 1.6 + (widest - 1.6) * Math.sqrt(rates.sent / busiest);
    if (Math.abs(width - made.width) > 0.05) {
      made.width = width;
      made.base.setAttribute("stroke-width", width.toFixed(2));
      made.casing.setAttribute("stroke-width", (width + 4).toFixed(2));
      made.over.setAttribute("stroke-width", Math.max(1.4, width * 0.72).toFixed(2));
      const grown = Math.max(0.9, 0.75 + width / 7).toFixed(2);
      made.head.setAttribute("transform", `${this.layout.lanes.get(name).head} scale(${grown})`);
    }
    const said = this.describe(name, link, state);
    if (made.title.textContent !== said) {
      made.title.textContent = said;
      made.group.setAttribute("aria-label", said);
    }
    if (state === "rerouted") {
      // The share of the orange dashes is that of the rerouted publications.
      const dash = Math.max(2.5, Math.min(11, 14 * rates.rerouted / Math.max(rates.sent, 1)));
      made.over.setAttribute("stroke-dasharray", `${dash.toFixed(1)} ${(14 - dash).toFixed(1)}`);
    }
    this.updateLabel(name, made, laneText(link, state, this.layout.isDense));
    if (made.isGrave !== (state === "congested")) {
      made.isGrave = state === "congested";
      if (made.isGrave) this.top.append(made.label);
    }
  }

  // Labels on arcs have a line for each part, those along aLinks have one line.
  updateLabel(name, made, parts) {
    const text = parts.join(" · ");
    if (made.label.dataset.text === text) return;
    made.label.dataset.text = text;
    const lane = this.layout.lanes.get(name);
    if (lane.anchor !== "on") {
      made.label.textContent = text;
      return;
    }
    const height = this.layout.isDense ? 9.5 : 13;
    const y = lane.mid[1] + 4 - (parts.length - 1) * height / 2;
    made.label.replaceChildren(...parts.map((part, index) =>
      element("tspan", { x: lane.mid[0], y: y + index * height }, part)));
  }

  describe(name, link, state) {
    const [source, target] = name.split(">");
    if (!link) return `${source} to ${target}: unknown`;
    const parts = [`${source} to ${target}: ${state === "down" && link.cut ? "cut" : state}`, `${rateText(link.rates.sent)}`];
    if (link.rates.rerouted >= 0.5) parts.push(`${rateText(link.rates.rerouted)} of them rerouted`);
    if (link.queue) parts.push(`queue ${count(link.queue)}`);
    if (link.rate) parts.push(`limited to ${link.rate}/s`);
    return parts.join(", ");
  }

  updateBox(made, broker) {
    const isRunning = Boolean(broker?.running);
    made.group.dataset.running = broker ? isRunning : "unknown";
    made.clients.textContent = isRunning && broker.clients ? `${count(broker.clients)} client${broker.clients === 1 ? "" : "s"}` : "";
    made.problem.textContent = isRunning ? "" : broker ? shortened(broker.problem ?? "not running") : "elsewhere";
    for (const [field, text] of Object.entries(made.rows)) {
      const rate = isRunning ? broker.rates[field] : 0;
      text.textContent = isRunning ? (this.layout.size.box === "line" ? rateText(rate).slice(0, -2) : rateText(rate)) : "";
      text.classList.toggle("some", rate >= 0.5);
      made.group.dataset[field] = rate.toFixed(1);
    }
  }

  select(name) {
    for (const [each, made] of this.lanes) {
      const isSelected = each === name;
      made.group.classList.toggle("selected", isSelected);
      made.label.classList.toggle("selected", isSelected);
    }
  }
}

function labelPlace(lane, isDense) {
  const [x, y] = lane.mid;
  const far = isDense ? 5 : 9;
  switch (lane.anchor) {
    case "on": return { x, y: y + 4, "text-anchor": "middle" };
    case "above": return { x, y: y - far, "text-anchor": "middle" };
    default: return { x, y: y + far + (isDense ? 7 : 9), "text-anchor": "middle" };
  }
}

function laneText(link, state, isDense) {
  if (!link) return [];
  if (state === "down") return [link.cut ? "✕ cut" : "✕ down"];
  const parts = [];
  const isNotable = state === "congested" || state === "rerouted" || link.rate;
  if (link.rates.sent >= 0.5 && (isNotable || !isDense)) parts.push(rateText(link.rates.sent));
  if (state === "rerouted") parts[0] = `↷ ${parts[0] ?? rateText(link.rates.rerouted)}`;
  if (link.rate) parts.push(`≤${link.rate}/s`);
  if (link.queue >= (state === "congested" ? 1 : 5)) parts.push(`queue ${count(link.queue)}`);
  if (state === "congested") parts[0] = `⚠ ${parts[0] ?? "congested"}`;
  return parts;
}

function shortened(text) {
  return text.length > 22 ? `${text.slice(0, 21)}…` : text;
}
