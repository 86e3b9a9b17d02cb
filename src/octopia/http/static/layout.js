// The geometry of the map: where brokers are, and the curve of every lane.
//
// Regions and clusters are the columns and rows of a grid; many regions are its rows, so that it fits a page. Links
// between columns run along their row, with one lane per direction. Links between rows are arcs beside their column:
// those that lead down are on the right, those that lead up on the left, and longer ones bulge further out. So no two
// lanes share a curve.

const ROOMY = { boxW: 150, boxH: 86, gapX: 244, gapY: 74, left: 70, top: 34, lane: 7, box: "rows" };
const DENSE = { boxW: 98, boxH: 54, gapX: 112, gapY: 26, left: 58, top: 30, lane: 4, box: "rows" };
const TALL = { boxW: 158, boxH: 36, gapX: 146, gapY: 34, left: 64, top: 26, lane: 4, box: "line" };

export function layOut(overlay) {
  const isDense = overlay.brokers.length > 24;
  const isTall = isDense && overlay.regions.length > overlay.clusters;
  const size = isTall ? TALL : isDense ? DENSE : ROOMY;
  const regions = orderedRegions(overlay);
  const brokers = new Map();
  for (const name of overlay.brokers) {
    const [region, cluster] = splitName(name);
    const place = [regions.indexOf(region), cluster];
    const [column, row] = isTall ? place.reverse() : place;
    const x = size.left + size.gapX / 2 + column * (size.boxW + size.gapX);
    const y = size.top + size.gapY / 2 + row * (size.boxH + size.gapY);
    brokers.set(name, { name, region, cluster, column, row, x, y, cx: x + size.boxW / 2, cy: y + size.boxH / 2 });
  }
  const ends = overlay.links.map(([one, other]) => [brokers.get(one), brokers.get(other)]);
  const longest = Math.max(1, ...ends.map(([one, other]) => Math.abs(one.row - other.row)));
  const lanes = new Map();
  for (const [one, other, kind] of overlay.links) {
    for (const [source, target] of [[one, other], [other, one]]) {
      const [from, to] = [brokers.get(source), brokers.get(target)];
      const lane = from.column === to.column ? arc(from, to, longest, size) : along(from, to, size);
      lanes.set(`${source}>${target}`, { name: `${source}>${target}`, source, target, kind, ...lane });
    }
  }
  const clusters = [...Array(overlay.clusters).keys()].map((cluster) => `cluster ${cluster}`);
  const [columns, rows] = isTall ? [clusters, regions.map(titled)] : [regions.map(titled), clusters];
  return {
    isDense, size, brokers, lanes, columns, rows,
    width: size.left + columns.length * (size.boxW + size.gapX) + size.gapX * 0.1,
    height: size.top + rows.length * (size.boxH + size.gapY),
  };
}

function titled(region) {
  return `region ${region}`;
}

function splitName(name) {
  const dot = name.lastIndexOf(".");
  return [name.slice(0, dot), Number(name.slice(dot + 1))];
}

// Neighbouring regions of the tree become neighbouring columns as far as possible: a walk from one of its ends.
function orderedRegions(overlay) {
  const next = new Map(overlay.regions.map((region) => [region, []]));
  for (const [one, other] of overlay.tree) {
    next.get(one).push(other);
    next.get(other).push(one);
  }
  const start = overlay.regions.find((region) => next.get(region).length < 2) ?? overlay.regions[0];
  const order = [];
  const visit = (region) => {
    order.push(region);
    const rest = next.get(region).filter((each) => !order.includes(each));
    rest.sort((one, other) => depth(one, region, next) - depth(other, region, next) || (one < other ? -1 : 1));
    rest.forEach((each) => order.includes(each) || visit(each));
  };
  visit(start);
  return order;
}

function depth(region, from, next) {
  const beyond = next.get(region).filter((each) => each !== from);
  return 1 + Math.max(0, ...beyond.map((each) => depth(each, region, next)));
}

function arc(source, target, longest, size) {
  const span = Math.abs(target.row - source.row);
  const side = target.row > source.row ? 1 : -1;
  const share = longest > 1 ? (span - 1) / (longest - 1) : 0;
  const x = side > 0 ? source.x + size.boxW : source.x;
  const reach = size.gapX / 2 * (0.22 + 0.56 * share);
  const inset = size.boxH / 2 * (0.86 - 0.62 * share);
  const y0 = source.cy + side * inset;
  const y3 = target.cy - side * inset;
  const pull = reach * 4 / 3;
  // The middle of an arc over an even number of rows is where the links along a row cross it: its label is beside them.
  const label = span % 2 ? 0.5 : 0.42;
  return curve([x, y0], [x + side * pull, y0 + side * 4], [x + side * pull, y3 - side * 4], [x, y3], "on", label);
}

function along(source, target, size) {
  const side = target.column > source.column ? 1 : -1;
  const [x0, x3] = side > 0 ? [source.x + size.boxW, target.x] : [source.x, target.x + size.boxW];
  const hops = Math.abs(target.column - source.column);
  const y = source.cy - side * size.lane * (hops === 1 ? 1 : 2);
  if (hops === 1) {
    const third = (x3 - x0) / 3;
    return curve([x0, y], [x0 + third, y], [x3 - third, y], [x3, y], side > 0 ? "above" : "below");
  }
  // It passes the columns in between above their brokers, or below them on the way back.
  const rise = side * (size.boxH / 2 + size.gapY * Math.min(0.44, 0.14 + 0.15 * (hops - 2)) - size.lane * 2) * 4 / 3;
  const reach = side * size.gapX * 0.4;
  return curve([x0, y], [x0 + reach, y - rise], [x3 - reach, y - rise], [x3, y], "on");
}

function curve(p0, p1, p2, p3, anchor, label = 0.5) {
  const number = (value) => Math.round(value * 10) / 10;
  const point = (p) => p.map(number).join(" ");
  const at = (t) => [0, 1].map((axis) =>
    (1 - t) ** 3 * p0[axis] + 3 * (1 - t) ** 2 * t * p1[axis] + 3 * (1 - t) * t * t * p2[axis] + t ** 3 * p3[axis]);
  const mid = at(label);
  // The head is near the end of the lane, where its label is not.
  const [t, s] = [0.84, 0.16];
  const head = at(t);
  const slope = [0, 1].map((axis) => s * s * (p1[axis] - p0[axis]) + 2 * s * t * (p2[axis] - p1[axis]) + t * t * (p3[axis] - p2[axis]));
  const angle = Math.atan2(slope[1], slope[0]) * 180 / Math.PI;
  const d = `M${point(p0)} C${point(p1)} ${point(p2)} ${point(p3)}`;
  return { d, mid: mid.map(number), head: `translate(${point(head)}) rotate(${number(angle)})`, anchor };
}
