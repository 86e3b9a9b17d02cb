// The live map: puts the feed, the drawing and the controls together.

import { Chart, delayText, drawLegend } from "./chart.js";
import { count, Drawing, rateText, stateOf } from "./draw.js";
import { Feed } from "./feed.js";
import { layOut } from "./layout.js";

const MOST_EVENTS = 12;
const CONNECTIONS = {
  live: "live",
  lost: "connection lost, trying again",
  denied: "the token has expired or was revoked: open /?token=TOKEN with a valid one",
};
const by = (id) => document.getElementById(id);

const map = by("map");
const chart = new Chart(by("chart"));
drawLegend(by("legend"));

let drawing = null;
let selected = null;
let order = [];

const feed = new Feed({ onHello, onTick, onEvent, onConnection });

function onHello(hello) {
  const { overlay, can } = hello;
  document.title = `${overlay.name} – OctopiA`;
  by("overlay-name").textContent = overlay.name;
  const layout = layOut(overlay);
  drawing = new Drawing(map, layout, openLink);
  order = [...layout.lanes.keys()].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  drawing.lanes.get(order[0])?.group.setAttribute("tabindex", "0");
  for (const button of by("link-form").querySelectorAll("button")) button.hidden = !can.includes(button.dataset.verb);
  by("link-form").hidden = can.length === 0;
  showChoices(overlay, can.includes("route"));
  if (selected) openLink(selected, false);
}

function onConnection(state) {
  by("connection").dataset.state = state;
  by("connection").textContent = CONNECTIONS[state];
}

function onTick(tick) {
  drawing?.update(feed);
  const story = by("story");
  if (story.textContent !== tick.story.text) story.textContent = tick.story.text;
  story.dataset.congested = tick.story.congested.join(" ");
  story.dataset.carriers = tick.story.carriers.join(" ");
  chart.add(tick);
  const { minute } = tick.delays;
  by("p50").textContent = delayText(minute.p50_ms);
  by("p99").textContent = delayText(minute.p99_ms);
  by("p99").dataset.ms = minute.p99_ms ?? "";
  showTotals();
  showRouting();
  if (selected) showLink();
}

function showTotals() {
  const brokers = [...feed.brokers.values()], links = [...feed.links.values()];
  const rate = (field) => rateText(brokers.reduce((sum, broker) => sum + broker.rates[field], 0));
  by("total-published").textContent = rate("published");
  by("total-delivered").textContent = rate("delivered");
  by("total-rerouted").textContent = rate("rerouted");
  by("total-queue").textContent = count(links.reduce((sum, link) => sum + link.queue, 0));
  const lost = brokers.reduce((sum, broker) => sum + (broker.lost ?? 0), 0);
  by("total-lost").textContent = count(lost);
  by("total-lost").classList.toggle("bad", lost > 0);
}

function onEvent(event) {
  const list = by("events");
  list.querySelector(".none")?.remove();
  const item = document.createElement("li");
  item.dataset.kind = event.kind;
  const time = document.createElement("time");
  time.textContent = new Date(event.t).toLocaleTimeString("en-GB");
  item.append(time, " ", event.text);
  list.prepend(item);
  while (list.children.length > MOST_EVENTS) list.lastChild.remove();
}

// Lanes by keyboard: one lane is the tab stop, and the arrow keys move it.

map.addEventListener("keydown", (event) => {
  const at = order.indexOf(event.target.closest?.("[data-link]")?.dataset.link);
  const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: order.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  focusLane(order[(to + order.length) % order.length]);
});

map.addEventListener("focusin", (event) => {
  const name = event.target.closest?.("[data-link]")?.dataset.link;
  if (name) makeTabStop(name);
});

function makeTabStop(name) {
  for (const { group } of drawing.lanes.values()) group.setAttribute("tabindex", "-1");
  drawing.lanes.get(name).group.setAttribute("tabindex", "0");
}

function focusLane(name) {
  makeTabStop(name);
  drawing.lanes.get(name).group.focus();
}

// The selected link.

function openLink(name, takeFocus = true) {
  selected = name;
  drawing.select(name);
  by("link").hidden = false;
  by("link").dataset.link = name;
  by("link-answer").textContent = "";
  showLink();
  const rate = feed.links.get(name)?.rate;
  if (rate) by("link-rate").value = rate;
  if (takeFocus) by("link-form").querySelector("button:not([hidden])")?.focus();
}

function closeLink() {
  const name = selected;
  selected = null;
  by("link").hidden = true;
  drawing.select(null);
  if (name) focusLane(name);
}

function showLink() {
  const [source, target] = selected.split(">");
  const link = feed.links.get(selected);
  const state = stateOf(link);
  by("link-name").textContent = `${source} → ${target}`;
  by("link-state").textContent = link?.cut ? "cut" : state;
  by("link-state").dataset.state = state;
  const facts = link && {
    rate: rateText(link.rates.sent),
    rerouted: rateText(link.rates.rerouted),
    queue: count(link.queue),
    congested: `${Math.min(100, Math.round(link.rates.congested_ms / 10))}%`,
    limit: link.rate ? `${link.rate}/s` : "none",
    "total sent": count(link.sent),
    lost: count(link.dropped),
  };
  by("link-facts").replaceChildren(...Object.entries(facts ?? {}).map(([name, value]) => {
    const row = document.createElement("div");
    const [term, detail] = [document.createElement("dt"), document.createElement("dd")];
    [term.textContent, detail.textContent] = [name, value];
    row.append(term, detail);
    return row;
  }));
  const buttons = Object.fromEntries([...by("link-form").querySelectorAll("button")].map((each) => [each.dataset.verb, each]));
  buttons.lift.disabled = !link?.rate;
  buttons.cut.disabled = Boolean(link?.cut);
  buttons.heal.disabled = !link?.cut;
}

by("link-close").addEventListener("click", closeLink);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && selected) closeLink();
});
by("link-form").addEventListener("submit", (event) => {
  event.preventDefault();
  command({ verb: "throttle", link: selected, rate: Number(by("link-rate").value) });
});
for (const button of by("link-form").querySelectorAll("button[type=button]")) {
  button.addEventListener("click", () => command({ verb: button.dataset.verb, link: selected }));
}

async function command(what) {
  const answer = by("link-answer");
  answer.textContent = "…";
  const done = await feed.do(what);
  answer.textContent = done.ok ? "done" : done.problem;
  answer.dataset.ok = done.ok;
}

// The routing algorithm.

function showChoices(overlay, canSwitch) {
  by("routing").hidden = false;
  const names = ["static", "dynamic", "adaptive"];
  const shown = overlay.choices.some((each) => names.includes(each)) ? names : overlay.choices;
  by("routing-choices").replaceChildren(...shown.map((name) => {
    const label = document.createElement("label");
    const radio = document.createElement("input");
    Object.assign(radio, { type: "radio", name: "algorithm", value: name });
    radio.disabled = !canSwitch || !overlay.choices.includes(name);
    if (radio.disabled) label.title = why(overlay);
    radio.addEventListener("change", () => route(name));
    label.append(radio, name);
    return label;
  }));
  by("routing-note").textContent = why(overlay);
}

function why({ algorithm, choices }) {
  if (algorithm === "adaptive") {
    return "This overlay was started with adaptive routing, which goes around every congested link. It can change while it runs: static routing ignores congestion, and dynamic routing goes around congested links between clusters only. Dead links are always avoided.";
  }
  if (choices.length > 1) {
    return `This overlay was started with ${algorithm} routing and can change between ${choices.join(" and ")} while it runs. Adaptive routing uses different tables and headers, so the overlay must be started with it.`;
  }
  return `This overlay was started with ${algorithm} routing, which cannot change while it runs.`;
}

async function route(algorithm) {
  const done = await feed.do({ verb: "route", algorithm });
  if (!done.ok) by("routing-note").textContent = done.problem;
  by("routing-note").hidden = done.ok;
}

function showRouting() {
  const routings = new Set([...feed.brokers.values()].map((broker) => broker.routing).filter(Boolean));
  by("routing").dataset.now = [...routings].sort().join(" ");
  for (const radio of by("routing-choices").querySelectorAll("input")) {
    const isOn = routings.size === 1 && routings.has(radio.value);
    if (radio.checked !== isOn) radio.checked = isOn;
  }
}

by("routing-why").addEventListener("click", () => {
  const note = by("routing-note");
  note.hidden = !note.hidden;
  by("routing-why").setAttribute("aria-expanded", String(!note.hidden));
});
