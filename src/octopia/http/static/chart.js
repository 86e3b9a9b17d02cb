// The curve of delays over the last minute, on a logarithmic scale, and the legend of lanes.

import { element, HEAD } from "./draw.js";

const MINUTE_MS = 60_000;
const WIDTH = 300, HEIGHT = 150, LEFT = 44, BOTTOM = 18, TOP = 8, RIGHT = 6;
const LEAST_MS = 0.1, MOST_MS = 100_000;

export function delayText(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms >= 1000) return `${(ms / 1000).toPrecision(2)} s`;
  return ms < 9.95 ? `${ms.toPrecision(2)} ms` : `${Math.round(ms)} ms`;
}

export class Chart {
  constructor(svg) {
    this.points = [];
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.replaceChildren();
    for (let ms = LEAST_MS; ms <= MOST_MS * 1.01; ms *= 10) {
      const y = this.y(ms);
      svg.append(element("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }));
      const text = ms >= 1000 ? `${Math.round(ms / 1000)} s` : `${Number(ms.toPrecision(1))} ms`;
      svg.append(element("text", { class: "tick", x: LEFT - 6, y: y + 3.5, "text-anchor": "end" }, text));
    }
    svg.append(element("text", { class: "tick", x: LEFT, y: HEIGHT - 3 }, "60 s ago"));
    svg.append(element("text", { class: "tick", x: WIDTH - RIGHT, y: HEIGHT - 3, "text-anchor": "end" }, "now"));
    this.p50 = element("path", { class: "p50" });
    this.p99 = element("path", { class: "p99" });
    svg.append(this.p99, this.p50);
  }

  y(ms) {
    const share = Math.log10(Math.max(LEAST_MS, Math.min(MOST_MS, ms)) / LEAST_MS) / Math.log10(MOST_MS / LEAST_MS);
    return TOP + (1 - share) * (HEIGHT - BOTTOM - TOP);
  }

  add(tick) {
    if (tick.curve) this.points = tick.curve.map(([t, p50, p99]) => ({ t, p50, p99 }));
    const { p50_ms: p50, p99_ms: p99 } = tick.delays.recent;
    this.points.push({ t: tick.t, p50, p99 });
    this.points = this.points.filter((point) => tick.t - point.t <= MINUTE_MS);
    this.p50.setAttribute("d", this.path("p50", tick.t));
    this.p99.setAttribute("d", this.path("p99", tick.t));
  }

  path(field, now) {
    let d = "", isOn = false;
    for (const point of this.points) {
      const value = point[field];
      if (value === null) {
        isOn = false;
        continue;
      }
      const x = LEFT + (1 - (now - point.t) / MINUTE_MS) * (WIDTH - LEFT - RIGHT);
      d += `${isOn ? "L" : "M"}${x.toFixed(1)} ${this.y(value).toFixed(1)}`;
      isOn = true;
    }
    return d;
  }
}

export function drawLegend(svg) {
  const rows = [
    ["busy", "publications: wider is more"],
    ["rerouted", "some rerouted from another link  ↷"],
    ["congested", "congested  ⚠"],
    ["down", "down or cut  ✕"],
    ["idle", "no traffic"],
  ];
  svg.setAttribute("viewBox", `0 0 300 ${rows.length * 22}`);
  svg.replaceChildren();
  rows.forEach(([state, text], index) => {
    const y = index * 22 + 11;
    const group = element("g", { class: "lane legend", "data-state": state });
    const d = `M4 ${y} H64`;
    group.append(element("path", { class: "casing", d, "stroke-width": 10 }), element("path", { class: "base", d, "stroke-width": state === "idle" ? 1 : 5 }),
      element("path", { class: "over", d, "stroke-width": 3.4 }), element("path", { class: "head", d: HEAD, transform: `translate(54 ${y}) scale(1.4)` }));
    svg.append(group, element("text", { class: "legend-text", x: 76, y: y + 4 }, text));
  });
}
