// SPDX-License-Identifier: Apache-2.0
// The dashboard: turns the items that the controller sends as server-sent events into elements of the page.
// Text from the cluster is only ever inserted as text, never as markup.

const SILENCE_MS = 25_000;      // without an event for so long the connection counts as lost; the controller sends a heartbeat every 10 s
const RETRY_MS = [1000, 2000, 5000, 10_000];
const WAITING_SHOWN = 6;
const LOADED_MAX = 100;         // nodes of a large cluster whose devices stay on the page after they were scrolled away
const GIB = 2 ** 30;
const SVG = "http://www.w3.org/2000/svg";

const $ = (id) => document.getElementById(id);
const order = new Intl.Collator("en", { numeric: true }).compare;
const counted = new Intl.NumberFormat("en");

// name -> {name, data, use, element, devices}. In a large cluster each node has a summary (web-view.h), and only the nodes that are
// or were on the screen have data and use, which the page then requests.
const nodes = new Map();
let isLarge = false;
const waiting = new Map();      // "namespace/name" -> item of a waiting pod (web-view.h)
let totals = {};
let clockOffset = 0;            // the controller's clock minus the browser's clock, in s

// ---- text

const percent = (permille) => `${Math.round(permille / 10)}%`;
const gib = (bytes) => {
  const n = bytes / GIB;
  return n >= 10_240 ? `${Math.round(n / 1024)} TiB` : n >= 10 ? `${counted.format(Math.round(n))} GiB` : n >= 0.95 ? `${+n.toFixed(1)} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`;
};
const many = (n, one, more = one + "s") => `${counted.format(n)} ${n === 1 ? one : more}`;

function age(since) {
  const s = Math.max(0, Math.round(Date.now() / 1000 + clockOffset - since));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  return `${Math.floor(s / 86400)} d`;
}

// ---- elements

// Makes an element, for example make("p", {className: "note"}, "text", child, null); null adds nothing.
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (key.includes("-") || key === "role" || key === "scope") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const CLASSES = ["latency", "standard", "opportunistic"];
function colour(tenant) {
  if (tenant.mode === "exclusive") return "exclusive";
  return CLASSES.includes(tenant.class) ? tenant.class : "standard";
}

// ---- the state of a device

// The tenants of each device of the node: [[{tenant, at, request, bytes, used, usedBytes}]]; at: index in node.data.tenants.
function shares(node) {
  const all = node.data.devices.map(() => []);
  node.data.tenants.forEach((tenant, at) => tenant.devices.forEach((place, k) => {
    const use = node.use?.[at];
    all[place]?.push({
      tenant, at, request: tenant.request ?? 0, bytes: tenant.bytes?.[k] ?? 0,
      used: use?.[2 * k] ?? null, usedBytes: use?.[2 * k + 1] ?? null,
    });
  }));
  return all;
}

const sum = (list, key) => list.reduce((n, item) => n + (item[key] ?? 0), 0);

const notReady = (node) => node.data.trouble.find((t) => t.what === "Ready");

function whyClosed(node, device) {
  if (!node.data.alive) return "divvyd of its node is silent";
  if (notReady(node)) return `its node is not ready: ${notReady(node).reason ?? "?"}`;
  if (device.health && device.health !== "Healthy") return `${device.health.toLowerCase()}${device.why ? ": " + device.why : ""}`;
  if (device.cordoned !== undefined) return `cordoned${device.cordoned ? ": " + device.cordoned : ""}`;
  if (device.owner === "native" || device.owner === "user") return `owned by ${device.owner === "native" ? "another device plugin" : "a user's daemon"}`;
  return "";
}

// Without any measurement of the device's tenants their use is unknown.
const usedWords = (list) => list.length && list.every((s) => s.used === null) ? "usage unknown" : `${percent(sum(list, "used"))} used`;

// The reason of whyClosed() in a word, for the small view of a device.
function closedWord(node, device) {
  if (!node.data.alive) return "silent";
  if (notReady(node)) return "not ready";
  if (device.health && device.health !== "Healthy") return device.health.toLowerCase();
  return device.cordoned !== undefined ? "cordoned" : "not managed";
}

const isTrouble = (node, device) => !node.data.alive || (device.health && device.health !== "Healthy") || node.data.trouble.length > 0;

const memoryWords = (list, device) => `${gib(sum(list, "bytes"))} of ${gib(device.bytes ?? 0)}`;

// ---- a device's bars

function bar(className, list, widthOf) {
  const element = make("span", { className: `bar ${className}` });
  for (const share of list) {
    const segment = make("i", { className: colour(share.tenant) });
    segment.style.width = widthOf(share);
    element.append(segment);
  }
  return element;
}

// Makes three bars of a device: the granted and the used share of its time, and its memory.
function bars(list, device) {
  const whole = Math.max(1000, sum(list, "request")), bytes = Math.max(1, device.bytes ?? 0, sum(list, "bytes"));
  const granted = bar("granted", list, (s) => `calc(${100 * s.request / whole}% - 1px)`);
  list.forEach((share, i) => { granted.children[i].dataset.tenant = share.at; });
  return { granted, whole, used: bar("used", list, () => "0"), memory: bar("memory", list, (s) => `calc(${100 * s.bytes / bytes}% - 1px)`) };
}

const memoryOf = (share) => (share.usedBytes === null ? "" : `${gib(share.usedBytes)} of `) + gib(share.bytes);

const nameOf = (t) => `${t.namespace}/${t.pod} (${t.container})`;

function describe(share) {
  const t = share.tenant;
  return `${nameOf(t)}: ${percent(share.request)}`
    + (t.limit !== t.request ? ` up to ${percent(t.limit)}` : "")
    + (share.used === null ? "" : `, uses ${percent(share.used)}`);
}

function showUse(shown, list) {
  list.forEach((share, i) => {
    shown.used.children[i].style.width = `${100 * (share.used ?? 0) / shown.whole}%`;
    shown.granted.children[i].title = describe(share);
    shown.memory.children[i].style.setProperty("--full", `${share.bytes ? 100 * (share.usedBytes ?? 0) / share.bytes : 0}%`);
    shown.memory.children[i].title = `${nameOf(share.tenant)}: ${memoryOf(share)}`;
  });
}

function deviceLabel(node, device, list, closed) {
  return `${node.name} device ${device.index}, ${device.model}, ${many(list.length, "tenant")}, `
    + `${percent(sum(list, "request"))} granted, ${usedWords(list)}`
    + (closed ? `, no new tenants: ${closed}` : "") + `, memory: ${memoryWords(list, device)} granted`;
}

function deviceElement(node, place, list) {
  const device = node.data.devices[place], closed = whyClosed(node, device), shown = bars(list, device);
  const state = closed ? make("span", { className: "bad-text", title: closed }, closedWord(node, device)) : null, right = make("span");
  const element = make("button", { type: "button", className: closed ? "device closed" : "device", tabIndex: -1 },
    make("span", { className: "line", "aria-hidden": "true" },
      make("span", {}, make("b", {}, device.index ?? "?"), ...(oneModel(node) ? [] : [` ${device.model ?? "?"}`])), state, right),
    shown.granted, shown.used, shown.memory);
  element.dataset.node = node.name;
  element.dataset.place = place;
  return { element, right, closed, shown, text: searchText(node, device, list) };
}

function refreshUse(node) {
  const all = shares(node);
  node.devices.forEach((d, place) => {
    const list = all[place], device = node.data.devices[place];
    showUse(d.shown, list);
    d.right.textContent = list.length ? `${percent(sum(list, "request"))} granted, ${usedWords(list)}` : d.closed ? "" : "free";
    d.element.setAttribute("aria-label", deviceLabel(node, device, list, d.closed));
  });
}

function searchText(node, device, list) {
  const words = [node.name, device.model, device.uuid];
  for (const { tenant } of list) words.push(`${tenant.namespace}/${tenant.pod}`, tenant.container, colour(tenant));
  return words.join(" ").toLowerCase();
}

// ---- nodes

// Returns the model of all devices of the node; "": they have several models.
function oneModel(node) {
  const model = node.data.devices[0]?.model ?? "";
  return node.data.devices.every((d) => d.model === model) ? model : "";
}

function nodeSummary(node) {
  const { summary } = node;
  if (summary) {
    return `${summary.model && summary.n ? `${summary.n} × ${summary.model}` : many(summary.n, "device")}, ${many(summary.tenants, "tenant")}`
      + (summary.n ? `, ${percent(summary.granted / summary.n)} granted` + (summary.used === undefined ? "" : `, ${percent(summary.used / summary.n)} used`) : "");
  }
  const n = node.data.devices.length, model = oneModel(node);
  return `${model && n ? `${n} × ${model}` : many(n, "device")}, ${many(node.data.tenants.length, "tenant")}`;
}

// The time is shown by the browser's clock. A time of 1 means that the node's divvyd was never heard.
function silentSinceOf({ since }) {
  if (!(since > 1)) return "";
  const at = new Date(1000 * (since - clockOffset));
  return ` since ${Date.now() - at < 86_400_000 ? at.toLocaleTimeString() : at.toLocaleString()}`;
}

function nodeChips(node) {
  const chips = [], its = node.summary ?? node.data;
  if (!its.alive) chips.push(make("span", { className: "chip is-bad", title: "divvyd has not renewed its Lease in time" }, `silent${silentSinceOf(its)}`));
  for (const t of its.trouble)
    chips.push(make("span", { className: "chip is-bad", title: t.message ?? "" }, t.what === "Ready" ? `not ready: ${t.reason ?? "?"}` : t.reason ?? t.what));
  if (its.simulated) chips.push(make("span", { className: "chip" }, "simulated"));
  return chips;
}

function nodeTop(node, id) {
  return [make("h3", { id }, node.name), make("span", { className: "note" }, nodeSummary(node)), ...nodeChips(node)];
}

function renderNode(node) {
  const all = node.data ? shares(node) : [], focused = node.element?.contains(document.activeElement) && document.activeElement.dataset.place;
  const id = `node-${node.name}`;
  node.devices = all.map((list, place) => deviceElement(node, place, list));
  const top = make("div", { className: "node-top" }, ...nodeTop(node, id)), grid = make("div", { className: "grid" }, ...node.devices.map((d) => d.element));
  if (node.data) refreshUse(node);
  if (node.element) {
    node.element.replaceChildren(top, grid);
  } else {
    node.element = make("section", { className: "node", "aria-labelledby": id }, top, grid);
    node.element.dataset.name = node.name;
    if (isLarge) onScreen.observe(node.element);
  }
  if (focused) node.devices[focused]?.element.focus();
}

// ---- the devices of a large cluster's nodes

const loaded = new Set();       // names of nodes with devices, those that were requested last at the end
const onScreen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const node = nodes.get(target.dataset.name);
    if (!node) continue;
    node.isOnScreen = isIntersecting;
    if (isIntersecting) load(node);
  }
}, { rootMargin: "400px" });

async function load(node) {
  if (node.isLoading) { node.isOutdated = true; return; }
  node.isLoading = true;
  node.isOutdated = false;
  try {
    const answer = await fetch(`nodes/${encodeURIComponent(node.name)}`, { cache: "no-store" });
    if (answer.ok && nodes.get(node.name) === node) {
      const told = await answer.json();
      node.data = told.node;
      node.use = told.use;
      loaded.delete(node.name);
      loaded.add(node.name);
      dirty.nodes.add(node.name);
      dirty.frame ||= requestAnimationFrame(show);
      unloadSome();
    }
  } catch { // the connection is lost, which the event stream reports
  } finally {
    node.isLoading = false;
    if (node.isOutdated && node.isOnScreen) load(node);
  }
}

function unloadSome() {
  for (const name of loaded) {
    const node = nodes.get(name);
    if (loaded.size <= LOADED_MAX) return;
    if (node?.isOnScreen || name === detail.name) continue;
    loaded.delete(name);
    if (node) { node.data = node.use = null; dirty.nodes.add(name); }
  }
}

function showSummary(node) {
  if (node.element) node.element.firstElementChild.replaceChildren(...nodeTop(node, `node-${node.name}`));
  else renderNode(node);
  if (node.isOnScreen) load(node);
}

function placeNodes() {
  const sorted = [...nodes.values()].filter((n) => n.element).sort((a, b) => order(a.name, b.name)), box = $("nodes");
  let next = box.firstElementChild;
  const fresh = document.createDocumentFragment();
  for (const node of sorted) {
    if (node.element === next) next = next.nextElementSibling;
    else if (!next) fresh.append(node.element);
    else box.insertBefore(node.element, next);
  }
  box.append(fresh);
}

// ---- finding

function matches(node, place, terms, which) {
  const d = node.devices[place], device = node.data.devices[place], tenants = d.shown.granted.childElementCount;
  if (!terms.every((t) => d.text.includes(t))) return false;
  switch (which) {
    case "room": return !d.closed && sum(shares(node)[place], "request") < 1000;
    case "idle": return !tenants;
    case "busy": return tenants > 0;
    case "trouble": return isTrouble(node, device);
    default: return true;
  }
}

const SEARCH_MS = 3000;   // least time between two searches for the same words
const found = { words: "", names: null, fault: "", timer: 0 };   // the answer of the controller to a search in a large cluster

// A changed node may match now, or no longer.
function searchAgainSoon() {
  if (!found.words || found.fault || found.timer) return;
  found.timer = setTimeout(() => { found.timer = 0; if (found.words) search(found.words, true); }, SEARCH_MS);
}

// In a large cluster the controller searches, and nodes are found, not devices.
async function search(words, isAgain) {
  if (words === found.words && !isAgain) return;
  found.words = words;
  found.names = words ? found.names ?? new Set() : null;
  found.fault = "";
  if (!words) return;
  try {
    const answer = await fetch(`find?words=${encodeURIComponent(words)}`, { cache: "no-store" });
    if (answer.ok && words === found.words) { found.names = new Set(await answer.json()); filterNodes(); return; }
    if (answer.status === 400 && words === found.words) { found.fault = await answer.text(); filterNodes(); return; }
  } catch { // the connection is lost, which the event stream reports
  }
  if (words === found.words) found.words = null;   // the next change asks again
}

function hasOne(summary, which) {
  switch (which) {
    case "room": return summary.room > 0;
    case "idle": return summary.idle > 0;
    case "busy": return summary.tenants > 0;
    case "trouble": return !summary.alive || summary.bad > 0 || summary.trouble.length > 0;
    default: return true;
  }
}

function filterNodes() {
  const which = $("which").value, isFiltered = found.names || which !== "all";
  let shown = 0;
  for (const node of nodes.values()) {
    const is = node.summary && (!found.names || found.names.has(node.name)) && hasOne(node.summary, which);
    if (node.element && node.element.hidden === Boolean(is)) node.element.hidden = !is;
    shown += is ? 1 : 0;
  }
  $("found").textContent = found.fault || (isFiltered ? `${counted.format(shown)} of ${many(nodes.size, "node")}` : "");
  showEmpty(isFiltered && !shown);
  keepOneInTabOrder();
}

function filter() {
  const terms = $("find").value.toLowerCase().split(/\s+/).filter(Boolean), which = $("which").value;
  if (isLarge) { search(terms.join(" ")); filterNodes(); return; }
  let shown = 0, all = 0;
  for (const node of nodes.values()) {
    if (!node.data) continue;
    let here = 0;
    node.devices.forEach((d, place) => {
      const is = matches(node, place, terms, which);
      d.element.hidden = !is;
      here += is;
    });
    // A node without devices has no device to match. It is shown if all devices are, or for the filter "trouble" if it has trouble.
    const bare = !node.devices.length && (terms.every((t) => node.name.includes(t)))
      && (which === "all" || (which === "trouble" && (node.data.trouble.length > 0 || !node.data.alive)));
    node.element.hidden = !here && !bare;
    shown += here;
    all += node.devices.length;
  }
  const isFiltered = terms.length > 0 || which !== "all";
  $("found").textContent = isFiltered ? `${counted.format(shown)} of ${many(all, "device")}` : "";
  showEmpty(isFiltered && !shown);
  keepOneInTabOrder();
}

function showEmpty(isNothingFound) {
  const box = $("empty"), isNone = ![...nodes.values()].some((n) => n.data || n.summary);
  box.hidden = !isNone && !isNothingFound;
  $("devices").classList.toggle("bare", isNone);
  box.replaceChildren();
  if (isNone) {
    box.append(make("h3", {}, "No node shares its GPUs yet"), make("p", {}, "To share the GPUs of a node, an administrator labels the node:"),
      make("pre", {}, make("code", {}, "kubectl label node NODE divvy.gpu/owner=divvy")));
  } else if (isNothingFound) {
    const clear = make("button", { type: "button", className: "quiet" }, "Show all devices");
    clear.addEventListener("click", () => { $("find").value = ""; $("which").value = "all"; filter(); $("find").focus(); });
    box.append(make("h3", {}, "No device matches"), clear);
  }
}

// ---- totals and waiting pods

function total(title, value, small, permille, isBad) {
  const meter = permille === undefined ? null : make("div", { className: "meter", "aria-hidden": "true" }, make("i"));
  if (meter) meter.firstChild.style.width = `${Math.min(100, permille / 10)}%`;
  return make("div", isBad ? { className: "is-bad" } : {}, make("dt", {}, title), make("dd", {}, value, small ? make("small", {}, small) : null, meter));
}

function showTotals() {
  let devices = 0, tenants = 0, granted = 0, used = 0, bytes = 0, given = 0, trouble = 0;
  for (const node of nodes.values()) {
    const { summary } = node;
    if (summary) {
      devices += summary.n;
      tenants += summary.tenants;
      trouble += hasOne(summary, "trouble") ? 1 : 0;
      bytes += summary.bytes;
      granted += summary.granted ?? 0;
      used += summary.used ?? 0;
      given += summary.given ?? 0;
      continue;
    }
    if (!node.data) continue;
    devices += node.data.devices.length;
    tenants += node.data.tenants.length;
    trouble += !node.data.alive || node.data.trouble.length > 0 || node.data.devices.some((d) => isTrouble(node, d)) ? 1 : 0;
    for (const d of node.data.devices) bytes += d.bytes ?? 0;
    for (const list of shares(node)) { granted += sum(list, "request"); used += sum(list, "used"); given += sum(list, "bytes"); }
  }
  const of = (n, all) => all ? 1000 * n / all : 0;
  $("totals").replaceChildren(
    total("Devices", counted.format(devices), `on ${many([...nodes.values()].filter((n) => n.data || n.summary).length, "node")}`),
    total("Granted", percent(of(granted, devices * 1000)), `to ${many(tenants, "tenant")}`, of(granted, devices * 1000)),
    total("Used now", percent(of(used, devices * 1000)), "of the devices' time", of(used, devices * 1000)),
    total("Memory granted", percent(of(given, bytes)), `of ${gib(bytes)}`, of(given, bytes)),
    total("Waiting", counted.format(totals.waiting?.n ?? waiting.size), "pods"),
    total("In trouble", counted.format(trouble), trouble === 1 ? "node" : "nodes", undefined, trouble > 0));
}

let showsAllWaiting = false;

function waitingRow([key, pod]) {
  const slash = key.indexOf("/"), space = key.slice(0, slash), name = key.slice(slash + 1);
  const asks = pod.milli ? `${pod.milli / 1000} GPU` : "GPU time";
  const why = pod.why ?? (pod.node ? "bound, starting" : "not scheduled yet");
  const reason = pod.reason && pod.reason !== "Unschedulable" ? `${pod.reason}: ` : "";
  return make("tr", {},
    make("td", {}, make("span", { className: "space" }, space + "/"), name),
    make("td", { className: "much" }, asks + (pod.mib ? `, ${gib(pod.mib * 2 ** 20)}` : "")),
    make("td", { className: "when" }, age(pod.since)),
    make("td", {}, (pod.node ? `on ${pod.node}: ` : "") + reason + why));
}

function showWaiting() {
  const all = [...waiting].sort((a, b) => a[1].since - b[1].since || order(a[0], b[0]));
  const shown = showsAllWaiting ? all : all.slice(0, WAITING_SHOWN), beyond = (totals.waiting?.n ?? 0) - all.length;
  $("waiting").hidden = !all.length;
  $("waiting-rows").replaceChildren(...shown.map(waitingRow));
  $("waiting-more").hidden = all.length <= WAITING_SHOWN;
  $("waiting-more").textContent = showsAllWaiting ? "Show fewer" : `Show ${counted.format(all.length - WAITING_SHOWN)} more`;
  $("waiting-rest").hidden = beyond <= 0;
  $("waiting-rest").textContent = `${counted.format(beyond)} more are not listed here: kubectl get pods -A`;
}

// ---- events from the controller

const dirty = { nodes: new Set(), use: new Set(), summaries: new Set(), isWaiting: false, isOrder: false, frame: 0 };

function nodeOf(name) {
  if (!nodes.has(name)) nodes.set(name, { name, data: null, use: null, element: null, devices: [] });
  return nodes.get(name);
}

function forget(node) {
  if (node.element) onScreen.unobserve(node.element);
  node.element?.remove();
  loaded.delete(node.name);
  nodes.delete(node.name);
  dirty.isOrder = true;
}

function takeIn(told) {
  if (told.all && isLarge !== Boolean(told.summary)) {
    for (const node of [...nodes.values()]) forget(node);
    isLarge = !isLarge;
    $("nodes").classList.toggle("large", isLarge);
    $("find").placeholder = isLarge ? "Find nodes by name, model, namespace, pod  ( / )" : "Find node, model, namespace, pod  ( / )";
  }
  if (told.all && isLarge) {
    for (const name of [...nodes.keys()]) if (!told.summary[name]) forget(nodes.get(name));
  } else if (told.all) {
    for (const name of [...nodes.keys()]) if (!told.nodes?.[name]) forget(nodes.get(name));
  }
  if (told.all) {
    waiting.clear();
    totals = {};
    dirty.isWaiting = dirty.isOrder = true;
  }
  for (const [name, summary] of Object.entries(told.summary ?? {})) {
    const node = nodeOf(name);
    if (!summary) forget(node);
    else { node.summary = summary; dirty.summaries.add(name); dirty.isOrder ||= !node.element; }
  }
  for (const [name, data] of Object.entries(told.nodes ?? {})) {
    const node = nodeOf(name);
    if (!data) forget(node);
    else { node.data = data; dirty.nodes.add(name); dirty.isOrder ||= !node.element; }
  }
  for (const [name, use] of Object.entries(told.use ?? {})) {
    if (nodes.has(name)) { nodes.get(name).use = use; dirty.use.add(name); }
  }
  for (const [key, pod] of Object.entries(told.waiting ?? {})) {
    if (pod) waiting.set(key, pod); else waiting.delete(key);
    dirty.isWaiting = true;
  }
  Object.assign(totals, told.totals);
  dirty.isWaiting ||= Boolean(told.totals);
  dirty.frame ||= requestAnimationFrame(show);
}

function show() {
  const before = performance.now(), isFirst = !$("nodes").childElementCount;
  dirty.frame = 0;
  for (const name of dirty.nodes) if (nodes.get(name)?.data || nodes.get(name)?.summary) renderNode(nodes.get(name));
  for (const name of dirty.summaries) if (nodes.get(name) && !dirty.nodes.has(name)) showSummary(nodes.get(name));
  for (const name of dirty.use) if (!dirty.nodes.has(name) && nodes.get(name)?.data) refreshUse(nodes.get(name));
  if (dirty.isOrder) placeNodes();
  if (dirty.isWaiting) showWaiting();
  showTotals();
  if (dirty.nodes.size || dirty.summaries.size || dirty.isOrder) filter();
  if (isLarge && (dirty.summaries.size || dirty.isOrder)) searchAgainSoon();
  if (detail.name && (dirty.nodes.has(detail.name) || dirty.use.has(detail.name) || dirty.isOrder)) showDetail();
  dirty.nodes.clear();
  dirty.use.clear();
  dirty.summaries.clear();
  dirty.isWaiting = dirty.isOrder = false;
  performance.measure(isFirst ? "divvy-first" : "divvy-update", { start: before });
}

// ---- the connection

let source = null, lastId = "", watchdog = 0, retry = 0, retryTimer = 0, heardAt = null;
let silentSince = null;         // time of the API server's last answer if it is silent; else null

function setLink(text, kind) {
  $("link").textContent = text;
  $("link").className = `link ${kind}`;
}

function connect() {
  clearTimeout(retryTimer);
  source?.close();
  source = new EventSource(`events/${lastId}`);
  source.addEventListener("state", (event) => { lastId = event.lastEventId; heard(); takeIn(JSON.parse(event.data)); });
  source.addEventListener("beat", (event) => beat(...event.data.split(" ").map(Number)));
  source.addEventListener("again", connect);   // the new connection checks the viewer's rights again; lastId prevents a gap
  source.addEventListener("error", lost);
  watch();
}

function watch() {
  clearTimeout(watchdog);
  watchdog = setTimeout(lost, SILENCE_MS);
}

function heard() {
  heardAt = new Date();
  retry = 0;
  watch();
  $("enter").hidden = true;
  $("cluster").hidden = $("leave").hidden = false;
  showLink();
}

function showLink() {
  $("lost").hidden = !silentSince;
  document.body.classList.toggle("stale", Boolean(silentSince));
  setLink(silentSince ? "No cluster" : "Live", silentSince ? "lost-now" : "live");
  const text = silentSince ? `The API server has not answered the controller since ${silentSince.toLocaleTimeString()}. The page shows the state of that time.` : "";
  if ($("lost").textContent !== text) $("lost").textContent = text;
}

function beat(time, silence) {
  clockOffset = time - Date.now() / 1000;
  silentSince = silence ? silentSince ?? new Date(Date.now() - 1000 * silence) : null;
  heard();
}

// The connection was closed or is silent. Shows this at once, and calls enter() after a pause, which finds the reason.
// EventSource's own reconnection would not show the reason.
function lost() {
  source?.close();
  clearTimeout(watchdog);
  const wait = RETRY_MS[Math.min(retry++, RETRY_MS.length - 1)];
  if (heardAt) {
    document.body.classList.add("stale");
    setLink("Not connected", "lost-now");
    $("lost").textContent = `The connection is lost. The page shows the state of ${heardAt.toLocaleTimeString()} and reconnects.`;
    $("lost").hidden = false;
  }
  clearTimeout(retryTimer);
  retryTimer = setTimeout(enter, wait);
}

// Connects if the cookie is valid; otherwise asks the user for a token.
async function enter() {
  try {
    const answer = await fetch("session", { cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) return leave(answer.status === 403 ? await answer.text() : "");
    if (!answer.ok) throw new Error(await answer.text());
    connect();
  } catch (error) {
    if (!heardAt) {
      setLink("", "");
      $("lost").textContent = `The controller does not answer (${error.message.trim()}). The page tries again.`;
      $("lost").hidden = false;
    }
    lost();
  }
}

function leave(why) {
  source?.close();
  clearTimeout(watchdog);
  clearTimeout(retryTimer);
  heardAt = silentSince = null;
  lastId = "";
  for (const node of [...nodes.values()]) forget(node);
  waiting.clear();
  $("detail").close();
  $("lost").hidden = $("cluster").hidden = $("leave").hidden = true;
  document.body.classList.remove("stale");
  setLink("", "");
  $("enter").hidden = false;
  $("enter-error").textContent = why;
  $("token").focus();
}

async function signIn(event) {
  const button = event.target.querySelector("button");
  event.preventDefault();
  button.disabled = true;
  $("enter-error").textContent = "";
  try {
    const answer = await fetch("session", {
      method: "POST", headers: { Authorization: `Bearer ${$("token").value.trim()}` },
    });
    if (answer.ok) { $("token").value = ""; connect(); }
    else $("enter-error").textContent = await answer.text();
  } catch (error) {
    $("enter-error").textContent = `The controller does not answer: ${error.message}`;
  }
  button.disabled = false;
}

// ---- details

const detail = { name: "", place: 0, key: "", range: "fine", history: null };

const tenantKey = (tenant) => `${tenant.uid}/${tenant.container}`;

function openDetail(element, at) {
  const node = nodes.get(element.dataset.node);
  Object.assign(detail, { name: node.name, place: Number(element.dataset.place), key: "", history: null });
  const list = shares(node)[detail.place], chosen = list.find((s) => String(s.at) === at) ?? (list.length === 1 ? list[0] : null);
  if (chosen) choose(chosen.tenant);
  showDetail();
  $("detail").showModal();
}

function choose(tenant) {
  detail.key = tenantKey(tenant);
  detail.history = null;
  ask();
}

async function ask() {
  const key = detail.key;
  try {
    const answer = await fetch(`history/${key.split("/").map(encodeURIComponent).join("/")}`, { cache: "no-store" });
    const history = answer.ok ? await answer.json() : { error: await answer.text() };
    if (key === detail.key) { detail.history = history; detail.askedAt = Date.now(); showDetail(); }
  } catch (error) {
    if (key === detail.key) { detail.history = { error: error.message }; showDetail(); }
  }
}

function facts(pairs) {
  return make("dl", { className: "facts" }, ...pairs.filter(([, value]) => value)
    .flatMap(([title, value]) => [make("dt", {}, title), make("dd", {}, value)]));
}

// A narrow screen hides the table's header; the style sheet then shows the title in each cell.
function cell(title, text) {
  const element = make("td", {}, text);
  element.dataset.title = title;
  return element;
}

function tenantRow(share) {
  const t = share.tenant, button = make("button", { type: "button" }, `${t.namespace}/${t.pod}`);
  button.dataset.key = tenantKey(t);
  return make("tr", { "aria-selected": String(detail.key === tenantKey(t)) },
    make("td", {}, make("i", { className: `swatch ${colour(t)}` }), button, ` ${t.container}`),
    cell("Granted", percent(share.request) + (t.limit !== t.request ? ` – ${percent(t.limit)}` : "")),
    cell("Used now", share.used === null ? "–" : percent(share.used)),
    cell("Memory", memoryOf(share)));
}

function tenantTable(list) {
  if (!list.length) return make("p", { className: "note" }, "No tenants.");
  return make("div", { className: "scroll" }, make("table", { className: "tenants" },
    make("thead", {}, make("tr", {}, ...["Tenant", "Granted", "Used now", "Memory"].map((t) => make("th", { scope: "col" }, t)))),
    make("tbody", {}, ...list.map(tenantRow))));
}

function showDetail() {
  const node = nodes.get(detail.name), device = node?.data?.devices[detail.place], body = $("detail-body");
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  if (!device) { body.replaceChildren(make("p", {}, "The device no longer exists.")); return; }
  const list = shares(node)[detail.place], shown = bars(list, device), chosen = list.find((s) => tenantKey(s.tenant) === detail.key);
  showUse(shown, list);
  $("detail-title").textContent = `${node.name}, device ${device.index}`;
  body.replaceChildren(
    make("div", { "aria-hidden": "true", className: whyClosed(node, device) ? "closed" : "" }, shown.granted, shown.used, shown.memory),
    facts([
      ["Model", device.model + (node.data.simulated ? " (simulated)" : "")], ["Memory", `${memoryWords(list, device)} granted`],
      ["Share", `${percent(sum(list, "request"))} granted, ${usedWords(list)} now`],
      ["No new tenants", whyClosed(node, device)], ["UUID", make("code", {}, device.uuid ?? "")], ["divvyd", node.data.version],
      ...node.data.trouble.map((t) => [t.what, `${t.reason ?? ""} ${t.message ?? ""}`])]),
    tenantTable(list), chosen ? tenantDetail(chosen) : "");
  if (focused) body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  if (chosen && detail.askedAt < Date.now() - 9000 && detail.history && !detail.history.error) ask();
}

function rangeButton(range, text) {
  const button = make("button", { type: "button", className: "quiet", "aria-pressed": String(detail.range === range) }, text);
  button.dataset.key = `range-${range}`;
  button.addEventListener("click", () => { detail.range = range; showDetail(); });
  return button;
}

function tenantDetail(share) {
  const t = share.tenant, history = detail.history;
  const charts = !history ? [make("p", { className: "note", role: "status" }, "…")]
    : history.error ? [make("p", { className: "error" }, history.error)]
      : [chart(history[detail.range], "share", t), chart(history[detail.range], "mib", t)];
  return make("section", { className: "tenant", "aria-label": `${t.namespace}/${t.pod}` },
    make("div", { className: "tenant-top" }, make("h3", {}, `${t.namespace}/${t.pod}`),
      make("div", { className: "ranges", role: "group", "aria-label": "Time shown" }, rangeButton("fine", "Last hour"), rangeButton("coarse", "Last day"))),
    ...charts,
    facts([["Container", t.container], ["Class", `${t.class ?? "?"}${t.priority === undefined ? "" : `, priority ${t.priority}`}`],
      ["Granted", `${percent(t.request)}, up to ${percent(t.limit)}${t.devices.length > 1 ? `, on each of ${t.devices.length} devices` : ""}`],
      ["Mode", t.mode], ["Note", t.note], ["Pod's UID", make("code", {}, t.uid ?? "")]]));
}

// ---- curves

const WIDE = 560, HIGH = 130, LEFT = 44, BELOW = 18;

function curve(values, x, y) {
  let path = "", isOpen = false;
  values.forEach((v, i) => {
    if (v === null) { isOpen = false; return; }
    path += `${isOpen ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}${isOpen ? "" : "h0"}`; // h0: draws a single value as a dot
    isOpen = true;
  });
  return path;
}

function area(values, x, y) {
  let path = "", from = -1;
  [...values, null].forEach((v, i) => {
    if (v !== null) { path += from < 0 ? `M${x(i).toFixed(1)} ${y(0)}L${x(i).toFixed(1)} ${y(v).toFixed(1)}` : `L${x(i).toFixed(1)} ${y(v).toFixed(1)}`; from = from < 0 ? i : from; }
    else if (from >= 0) { path += `L${x(i - 1).toFixed(1)} ${y(0)}Z`; from = -1; }
  });
  return path;
}

// Returns the horizontal lines of a chart as [value, label]: the granted amount, and the limit if it differs.
function marksOf(kind, tenant) {
  const n = tenant.devices.length;
  if (kind === "mib") return [[sum((tenant.bytes ?? []).map((b) => ({ b })), "b") / 2 ** 20, "granted"]];
  return tenant.limit === tenant.request ? [[n * tenant.request, "granted"]] : [[n * tenant.request, "granted"], [n * tenant.limit, "limit"]];
}

function chart(series, kind, tenant) {
  const values = series[kind], heard = values.filter((v) => v !== null), words = kind === "mib" ? (v) => gib(v * 2 ** 20) : percent;
  const n = Math.round((series.step === 10 ? 3600 : 86400) / series.step), marks = marksOf(kind, tenant);
  const top = Math.max(1, ...heard, ...marks.map(([v]) => v)) * 1.08;
  const x = (i) => LEFT + (WIDE - LEFT - 4) * (n - values.length + i) / (n - 1), y = (v) => 6 + (HIGH - BELOW - 6) * (1 - v / top);
  const title = kind === "mib" ? "Memory" : "Share of a device";
  const said = heard.length ? `now ${words(heard.at(-1))}, median ${words([...heard].sort((a, b) => a - b)[heard.length >> 1])}, at most ${words(Math.max(...heard))}` : "no measurements yet";
  const svg = draw("svg", { class: "chart", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${title}: ${said}` });
  svg.append(draw("line", { class: "axis", x1: LEFT, x2: WIDE - 4, y1: y(0), y2: y(0) }),
    draw("text", { x: LEFT, y: HIGH - 4 }, series.step === 10 ? "1 h ago" : "1 day ago"), draw("text", { x: WIDE - 4, y: HIGH - 4, "text-anchor": "end" }, "now"));
  marks.forEach(([v, word]) => svg.append(draw("line", { class: "mark", x1: LEFT, x2: WIDE - 4, y1: y(v), y2: y(v) }),
    draw("text", { class: "of-mark", x: LEFT + 6, y: y(v) + (y(v) > 20 ? -4 : 12) }, `${word} ${words(v)}`)));
  svg.append(draw("text", { x: LEFT - 5, y: y(0), "text-anchor": "end" }, "0"), draw("text", { x: LEFT - 5, y: y(marks.at(-1)[0]) + 4, "text-anchor": "end" }, words(marks.at(-1)[0])),
    draw("path", { class: "area", d: area(values, x, y) }), draw("path", { class: "curve", d: curve(values, x, y) }));
  const last = values.findLastIndex((v) => v !== null);
  if (last >= 0) svg.append(draw("circle", { class: "end", cx: x(last), cy: y(values[last]), r: 3 }));
  return make("figure", {}, make("figcaption", {}, `${title}: ${said}`), svg);
}

// ---- keys

const visible = () => [...$("nodes").querySelectorAll(".device")].filter((d) => !d.hidden && !d.closest(".node").hidden);

// Keeps exactly one device in the tab order; the arrow keys lead from there to the others.
function keepOneInTabOrder() {
  const now = $("nodes").querySelector(".device[tabindex='0']");
  if (now && !now.hidden && !now.closest(".node").hidden) return;
  if (now) now.tabIndex = -1;
  const first = $("nodes").querySelector(".node:not([hidden]) .device:not([hidden])");
  if (first) first.tabIndex = 0;
}

function focusDevice(element) {
  const before = $("nodes").querySelector(".device[tabindex='0']");
  if (before) before.tabIndex = -1;
  element.tabIndex = 0;
  element.focus();
}

// Returns the nearest device in the next row below (isDown) or above, by the positions on the screen.
function neighbour(all, from, isDown) {
  const here = from.getBoundingClientRect(), step = isDown ? 1 : -1;
  let best = null, top = null;
  for (let i = all.indexOf(from) + step; i >= 0 && i < all.length; i += step) {
    const there = all[i].getBoundingClientRect();
    if (isDown ? there.top <= here.top + 2 : there.top >= here.top - 2) continue;
    if (top !== null && Math.abs(there.top - top) > 2) break;
    top ??= there.top;
    if (!best || Math.abs(there.left - here.left) < Math.abs(best.getBoundingClientRect().left - here.left)) best = all[i];
  }
  return best;
}

function onArrow(event) {
  const from = event.target.closest(".device");
  if (!from) return;
  const all = visible(), at = all.indexOf(from);
  const to = {
    ArrowRight: () => all[at + 1], ArrowLeft: () => all[at - 1], Home: () => all[0], End: () => all.at(-1),
    ArrowDown: () => neighbour(all, from, true), ArrowUp: () => neighbour(all, from, false),
  }[event.key]?.();
  if (!to) return;
  event.preventDefault();
  focusDevice(to);
}

function onKey(event) {
  if (event.key !== "/" || event.target.matches("input, select") || $("detail").open || $("cluster").hidden) return;
  event.preventDefault();
  $("find").focus();
}

// ---- the start

$("enter-form").addEventListener("submit", signIn);
$("leave").addEventListener("click", async () => { await fetch("session", { method: "DELETE" }).catch(() => {}); leave(""); });
$("find").addEventListener("input", filter);
$("which").addEventListener("change", filter);
$("waiting-more").addEventListener("click", () => { showsAllWaiting = !showsAllWaiting; showWaiting(); });
$("nodes").addEventListener("click", (event) => {
  const device = event.target.closest(".device");
  if (device) { focusDevice(device); openDetail(device, event.target.dataset.tenant); }
});
$("nodes").addEventListener("keydown", onArrow);
$("detail-close").addEventListener("click", () => $("detail").close());
$("detail").addEventListener("close", () => { detail.name = detail.key = ""; });
$("detail").addEventListener("click", (event) => {
  const key = event.target.dataset?.key;
  if (event.target === $("detail")) $("detail").close();
  else if (key?.includes("/")) { const t = nodes.get(detail.name)?.data?.tenants.find((one) => tenantKey(one) === key); if (t) { choose(t); showDetail(); } }
});
document.addEventListener("keydown", onKey);
setInterval(() => { if (!$("waiting").hidden) showWaiting(); }, 30_000);
enter();
