// SPDX-License-Identifier: Apache-2.0
// Tests the dashboard in a browser: what it shows, what a user can do, and what it protects from. The
// objects go to web-server (web-server.c) as commands.

import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { DESKTOP, PHONE, check, main, open, picture, signIn, times } from "../../browser/browser.mjs";

const PROGRAM = join(process.env.DIVVY_BUILD ?? "build", "tests/component/web/web-server");
const GIB = 2 ** 30;
const NASTY = "<img src=/x onerror=alert(1)>";

// ---- the server

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

class Server {
  async start(port, ...more) {
    this.port = port ?? await freePort();
    this.process = spawn(PROGRAM, [String(this.port), ...more], { stdio: ["pipe", "pipe", "inherit"] });
    this.ended = new Promise((resolve) => this.process.on("exit", resolve));
    this.process.stdin.on("error", () => {});
    await new Promise((resolve, reject) => {
      this.process.stdout.once("data", resolve);
      this.ended.then((code) => reject(new Error(`web-server has ended with ${code}`)));
    });
    return this;
  }

  get url() { return `http://localhost:${this.port}/`; }

  tell(kind, name, object, namespace) {
    this.process.stdin.write(`${JSON.stringify({ kind, name, namespace, object })}\n`);
  }

  async stop(signal = "SIGTERM") {
    this.process.kill(signal);
    await this.ended;
  }
}

// ---- a cluster

const uuid = (node, i) => `GPU-${node}-${i}`;

function tenant(node, devices, pod, more = {}) {
  return {
    podUID: `uid-${pod}`, namespace: "research", pod, container: "main", slot: "1", devices: devices.map((i) => uuid(node, i)),
    request: 300, limit: 600, memoryBytes: devices.map(() => 20 * GIB), class: "standard", priority: 50, mode: "local", epoch: 1, ...more,
  };
}

function gpuNode(name, nDevices, tenants = [], more = {}) {
  return {
    metadata: { name }, spec: more.spec ?? {}, status: {
      devices: Array.from({ length: nDevices }, (_, i) => ({
        uuid: uuid(name, i), index: i, model: "H200-141Gi", memoryBytes: 141 * GIB, health: "Healthy", owner: "divvy", ...more.devices?.[i],
      })),
      tenants, versions: { divvyd: "0.1.0" }, conditions: more.conditions ?? [{ type: "Ready", status: "True", reason: "Serving" }],
    },
  };
}

// Makes a Lease with measurements. uses: [[pod, [share, GiB] of each of its devices, ...]]
function lease(uses, ageS = 0) {
  const measured = uses.map(([pod, ...pairs]) => `uid-${pod}/main=${pairs.map(([share, gib]) => `${share}:${Math.round(gib * GIB)}`).join(",")}`).join(" ");
  return {
    metadata: { annotations: { "divvy.gpu/measured": measured } },
    spec: { leaseDurationSeconds: 40, renewTime: new Date(Date.now() - ageS * 1000 + Math.random()).toISOString() },
  };
}

function pod(why, more = {}) {
  return {
    metadata: { labels: { "divvy.gpu/tenant": "true" }, creationTimestamp: new Date(Date.now() - 754_000).toISOString() },
    spec: { containers: [{ resources: { limits: { "divvy.gpu/milli": "500", "divvy.gpu/memory-mib": "40960" } } }], ...more },
    status: { phase: "Pending", conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: why }] },
  };
}

function tellSmall(server) {
  server.tell("node", "gpu-1", gpuNode("gpu-1", 4, [
    tenant("gpu-1", [0], "serve-7f9c", { class: "latency", request: 250, limit: 1000 }),
    tenant("gpu-1", [0], "train-resnet-0", { request: 500, limit: 500, memoryBytes: [80 * GIB] }),
    tenant("gpu-1", [0], "sweep-12", { class: "opportunistic", request: 100, limit: 1000, memoryBytes: [10 * GIB] }),
    tenant("gpu-1", [1, 2], "llama-tune", { request: 1000, limit: 1000, mode: "exclusive", memoryBytes: [141 * GIB, 141 * GIB] }),
    tenant("gpu-1", [3], NASTY, { note: "<b>limit</b> stays at 0.6: it exceeds the policy" }),
  ]));
  server.tell("lease", "gpu-1", lease([["serve-7f9c", [410, 12]], ["train-resnet-0", [480, 71]], ["sweep-12", [90, 4]],
    ["llama-tune", [930, 120], [880, 118]], [NASTY, [10, 1]]]));
  server.tell("node", "gpu-2", gpuNode("gpu-2", 3, [tenant("gpu-2", [0], "notebook-eva", { request: 200, limit: 1000 })], {
    spec: { cordoned: [{ uuid: uuid("gpu-2", 1), reason: "fan is replaced" }] }, devices: { 2: { health: "Unhealthy", reason: "the driver does not answer for it" } } }));
  server.tell("lease", "gpu-2", lease([["notebook-eva", [0, 0.4]]]));
  server.tell("node", "gpu-3", gpuNode("gpu-3", 2, [], { conditions: [{ type: "Ready", status: "False", reason: "KubeletUnreachable", message: "no socket" }] }));
  server.tell("lease", "gpu-3", lease([], 3600));
  server.tell("pod", "big-job-4", pod("0/3 nodes: 2 no GPU with 0.5 free, 1 node silent"), "research");
  server.tell("pod", "<i>x</i>", pod("<script>alert(2)</script>"), "team-b");
  server.tell("pod", "pulls", pod("", { nodeName: "gpu-1" }), "team-b");
}

function tellLarge(server, nNodes, change = 0, nTenants = 32, nWaiting = 1500) {
  const classes = ["standard", "latency", "opportunistic"];
  for (let n = 0; n < nNodes; n++) {
    const name = `gpu-${n}`, tenants = [], uses = [];
    for (let k = 0; k < nTenants; k++) {
      const id = `job-${n}-${k}`;
      tenants.push(tenant(name, [k >> 2], id, { request: 100 + 50 * (k % 4), limit: 1000, class: classes[(n + k) % 3], memoryBytes: [(10 + k % 5) * GIB] }));
      uses.push([id, [(37 * k + 11 * n + change) % 250, 5]]);
    }
    if (!change) server.tell("node", name, gpuNode(name, 8, tenants));
    server.tell("lease", name, lease(uses));
  }
  if (!change) for (let i = 0; i < nWaiting; i++) server.tell("pod", `waits-${i}`, pod("0/125 nodes: 125 no GPU with 0.5 free"), "batch");
}

// ---- helpers of the tests

let server;

async function visit(options, told = tellSmall) {
  const view = await open({ expects: (text) => /401|403|Failed to load resource/.test(text), ...options });
  told?.(server);
  await view.page.goto(server.url);
  return view;
}

async function inside(options, told) {
  const view = await visit(options, told);
  await signIn(view.page, "good");
  await view.page.locator("#link.live").waitFor();
  return view;
}

async function end({ browser, wrong }) {
  await browser.close();
  check(!wrong.length, `on the console: ${wrong.join("; ")}`);
}

// Returns the test as a function that runs it with a new server.
const withServer = (test) => Object.defineProperty(async () => {
  server = await new Server().start();
  try { await test(); } finally { await server.stop(); }
}, "name", { value: test.name });

const device = (page, name) => page.getByRole("button", { name, exact: false });

// ---- the tests

async function without_a_token_nothing_is_served() {
  tellSmall(server);
  for (const [path, token, wanted] of [["events/", "", 401], ["history/uid-a/main", "", 401], ["session", "", 401], ["events/", "bad", 401],
    ["events/", "poor", 403], ["history/uid-a/main", "poor", 403], ["session", "good", 204], ["history/uid-none/main", "good", 404]]) {
    const answer = await fetch(server.url + path, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
    check(answer.status === wanted, `${path} with '${token}': ${answer.status}`);
    check(!(await answer.text()).includes("gpu-1"), `${path} names a node`);
  }
  for (const method of ["POST", "PUT", "HEAD"]) {
    const answer = await fetch(`${server.url}events/`, { method, headers: { Authorization: "Bearer good" } });
    check(answer.status === 405, `${method}: ${answer.status}`);
  }
}

// Returns the text of an event stream, up to and including the first event that contains `part`.
async function heard(path, part) {
  const answer = await fetch(server.url + path, { headers: { Authorization: "Bearer good" } }), decoder = new TextDecoder();
  let text = "";
  for await (const bytes of answer.body) {
    text += decoder.decode(bytes, { stream: true });
    if (text.includes(part)) break;
  }
  return text;
}

async function a_stream_sends_all_objects_once() {
  server.tell("node", "gpu-1", gpuNode("gpu-1", 1));
  const told = heard("events/", "gpu-2");
  server.tell("node", "gpu-2", gpuNode("gpu-2", 1));
  const text = await told, [id] = text.match(/[0-9a-f]{16}-\d+/);
  check(text.split('"all":true').length === 2, `told all ${text.split('"all":true').length - 1} times`);
  server.tell("node", "gpu-3", gpuNode("gpu-3", 1));
  check(!(await heard(`events/${id}`, "gpu-3")).includes('"all":true'), "who comes back is told all");
}

async function a_controller_that_starts_gives_no_partial_answer() {
  await server.stop();
  server = await new Server().start(undefined, "starting");
  server.tell("node", "gpu-1", gpuNode("gpu-1", 1));
  for (const path of ["events/", "nodes/gpu-1", "nodes/gpu-2", "find?words=gpu"]) {
    const answer = await fetch(server.url + path, { headers: { Authorization: "Bearer good" } });
    check(answer.status === 503, `${path}: ${answer.status}`);
  }
}

async function files_come_with_a_strict_policy() {
  for (const path of ["", "web.js", "web.css"]) {
    const answer = await fetch(server.url + path), policy = answer.headers.get("content-security-policy");
    check(answer.ok && policy.includes("default-src 'none'") && !policy.includes("unsafe"), `${path}: ${policy}`);
    check(answer.headers.get("x-content-type-options") === "nosniff", path);
    const again = await fetch(server.url + path, { headers: { "If-None-Match": answer.headers.get("etag") } });
    check(again.status === 304, `${path}: ${again.status} with its own tag`);
  }
  check((await fetch(`${server.url}nothing`)).status === 404, "another path");
}

async function scripts_cannot_read_the_cookie() {
  for (const [token, wanted] of [["good", 204], ["bad", 401]]) {
    const answer = await fetch(`${server.url}session`, { method: "POST", headers: { Authorization: `Bearer ${token}` } });
    check(answer.status === wanted, `${token}: ${answer.status}`);
    const cookie = answer.headers.get("set-cookie");
    if (wanted !== 204) check(!cookie, `a cookie for ${token}: ${cookie}`);
    else for (const word of ["__Host-divvy-token=good", "Path=/", "Secure", "HttpOnly", "SameSite=Strict"]) check(cookie.includes(word), `${word}: ${cookie}`);
  }
  const out = await fetch(`${server.url}session`, { method: "DELETE" });
  check(out.headers.get("set-cookie").includes("Max-Age=0"), "signing out leaves the cookie");
}

async function signs_in_and_out() {
  const view = await visit(), { page } = view;
  for (const [token, says] of [["bad", "the token is not valid"], ["poor", "you may not get /metrics"]]) {
    await signIn(page, token);
    await page.getByText(says).waitFor();
  }
  await picture(page, "sign-in");
  await signIn(page, "good");
  await page.getByRole("heading", { name: "gpu-1" }).waitFor();
  check(await page.evaluate(() => document.cookie) === "", "a script reads the cookie");
  await page.reload();
  await page.getByRole("heading", { name: "gpu-1" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  check(await page.locator(".device").count() === 0, "devices are left on the page");
  await page.reload();
  await page.getByLabel("Token").waitFor();
  await end(view);
}

async function devices_and_tenants_are_shown() {
  const view = await inside(), { page } = view;
  await device(page, "gpu-1 device 0, H200-141Gi, 3 tenants, 85% granted, 98% used").waitFor();
  await device(page, "gpu-1 device 1, H200-141Gi, 1 tenant, 100% granted, 93% used").waitFor();
  await device(page, "gpu-2 device 1, H200-141Gi, 0 tenants, 0% granted, 0% used, no new tenants: cordoned: fan is replaced").waitFor();
  await device(page, "gpu-2 device 2, H200-141Gi, 0 tenants, 0% granted, 0% used, no new tenants: unhealthy: the driver does not answer for it").waitFor();
  await page.getByText("not ready: KubeletUnreachable").waitFor();
  await page.locator(".chip", { hasText: "silent" }).waitFor();
  await page.getByText("0/3 nodes: 2 no GPU with 0.5 free, 1 node silent").waitFor();
  await page.getByText("on gpu-1: bound, starting").waitFor();
  const width = await page.locator("[aria-label^='gpu-1 device 0'] .bar.granted i").nth(1).evaluate((e) => e.getBoundingClientRect().width / e.parentElement.getBoundingClientRect().width);
  check(Math.abs(width - 0.5) < 0.02, `a tenant of 0.5 is ${width} of the bar`);
  const memory = await page.locator("[aria-label^='gpu-1 device 0'] .bar.memory").evaluate((e) => [...e.children].map((i) => i.getBoundingClientRect().width / e.getBoundingClientRect().width));
  check(memory.length === 3 && memory.every((w) => w > 0 && w < 1), `of its memory the tenants have ${memory}`);
  await device(page, "98% used, memory: ").waitFor();
  await picture(page, "desktop-light");
  await end(view);
}

async function markup_is_text() {
  const view = await inside(), { page } = view, asked = [];
  page.on("request", (r) => asked.push(r.url()));
  await page.getByText("<script>alert(2)</script>").waitFor();
  await page.getByText("<i>x</i>").waitFor();
  await device(page, "gpu-1 device 3").click();
  await page.getByRole("heading", { name: `research/${NASTY}` }).waitFor();
  await page.getByText("<b>limit</b> stays at 0.6").waitFor();
  check(await page.locator("main img, main script, dialog img, dialog b, main td i").count() === 0, "markup of a name has become elements");
  check(!asked.some((url) => url.endsWith("/x")), `asked for ${asked}`);
  await end(view);
}

async function changes_appear_on_the_page() {
  const view = await inside(), { page } = view;
  await device(page, "gpu-2 device 0").waitFor();
  server.tell("lease", "gpu-2", lease([["notebook-eva", [730, 9]]]));
  await device(page, "gpu-2 device 0, H200-141Gi, 1 tenant, 20% granted, 73% used").waitFor();
  await device(page, "gpu-3 device 0, H200-141Gi, 0 tenants, 0% granted, 0% used, no new tenants: divvyd of its node is silent").waitFor();
  server.tell("lease", "gpu-3", lease([]));
  await device(page, "gpu-3 device 0, H200-141Gi, 0 tenants, 0% granted, 0% used, no new tenants: its node is not ready: KubeletUnreachable").waitFor();
  server.tell("node", "gpu-10", gpuNode("gpu-10", 1));
  await page.getByRole("heading", { name: "gpu-10" }).waitFor();
  check((await page.locator(".node h3").allTextContents()).join() === "gpu-1,gpu-2,gpu-3,gpu-10", "not in order");
  server.tell("node", "gpu-3", null);
  await page.getByRole("heading", { name: "gpu-3" }).waitFor({ state: "detached" });
  server.tell("pod", "big-job-4", null, "research");
  await page.getByText("big-job-4").waitFor({ state: "detached" });
  await end(view);
}

async function a_silent_api_server_is_shown() {
  const view = await inside(), { page } = view;
  await page.getByText("Live").waitFor();
  server.tell("silence", "35");
  await page.getByText(/^The API server has not answered the controller since .*The page shows the state of that time\.$/).waitFor();
  check(await page.locator("#link").textContent() === "No cluster", "it says that it is live");
  server.tell("silence", "0");
  await page.getByText("Live").waitFor();
  check(await page.locator("#lost").isHidden(), "still said");
  await end(view);
}

async function keys_reach_everything() {
  const view = await inside(), { page } = view;
  const at = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.id);
  await page.keyboard.press("/");
  check(await at() === "find", `/ leads to ${await at()}`);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  check((await at()).startsWith("gpu-1 device 0"), `Tab leads to ${await at()}`);
  await page.keyboard.press("ArrowRight");
  check((await at()).startsWith("gpu-1 device 1"), `right leads to ${await at()}`);
  await page.keyboard.press("ArrowDown");
  check((await at()).startsWith("gpu-2 device 1"), `down leads to ${await at()}`);
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "gpu-1, device 0" }).waitFor();
  await page.getByRole("button", { name: "research/train-resnet-0" }).press("Enter");
  await page.getByRole("img", { name: /^Share of a device: now 48%/ }).waitFor();
  await page.getByRole("img", { name: /^Memory: now 71 GiB/ }).waitFor();
  await page.keyboard.press("Escape");
  check((await at()).startsWith("gpu-1 device 0"), `the focus is on ${await at()}`);
  await end(view);
}

async function screen_readers_get_names() {
  const view = await inside(), { page } = view;
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, [role=img]")]
    .filter((e) => !e.closest("[hidden]") && e.checkVisibility())
    .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.[0]?.textContent.trim()))
    .map((e) => e.outerHTML.slice(0, 80)));
  check(!nameless.length, `without a name: ${nameless}`);
  await page.getByRole("region", { name: "gpu-1" }).waitFor();
  await page.getByRole("table").first().waitFor();
  await end(view);
}

// Makes one hour of a tenant's use, with some minutes without a measurement.
function past() {
  const share = Array.from({ length: 360 }, (_, i) => i > 200 && i < 230 ? null : i === 359 ? 90 : Math.round(250 + 200 * Math.sin(i / 17) * Math.sin(i / 3)));
  const series = (step) => ({ step, ago: 3, share, mib: share.map((v) => v && 4000 + 10 * v) });
  return { fine: series(10), coarse: series(300) };
}

// WCAG's contrast of each text with its background must be at least 4.5.
async function text_can_be_read(scheme) {
  const view = await inside({ colorScheme: scheme }), { page } = view;
  await page.route("**/history/**", (route) => route.fulfill({ json: past() }));
  await device(page, "gpu-1 device 0").click();
  await page.getByRole("button", { name: "research/sweep-12" }).click();
  await page.getByRole("img", { name: /^Share of a device: now 9%, median 2\d%, at most 45%$/ }).waitFor();
  check((await page.locator(".curve").first().getAttribute("d")).split("M").length === 3, "not two pieces with a gap between");
  const poor = await page.evaluate(() => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
    const rgba = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
    const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
      .reduce((n, v, i) => n + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255]; };
    const found = new Set();
    for (const e of document.querySelectorAll("body *")) {
      if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
      const style = getComputedStyle(e), [a, b] = [light(rgba(e.namespaceURI.endsWith("svg") ? style.fill : style.color)), light(behind(e))].sort((x, y) => y - x);
      if ((a + 0.05) / (b + 0.05) < 4.5) found.add(`${e.tagName}.${e.className} ${((a + 0.05) / (b + 0.05)).toFixed(2)} '${e.textContent.slice(0, 20)}'`);
    }
    return [...found];
  });
  check(!poor.length, `hard to read: ${poor.join("; ")}`);
  await picture(page, `detail-${scheme}`);
  await end(view);
}
const text_has_contrast_by_day = () => text_can_be_read("light");
const text_has_contrast_by_night = () => text_can_be_read("dark");

async function search_finds_devices_and_tenants() {
  const view = await inside(), { page } = view, shown = () => page.locator(".device:visible").count();
  await device(page, "gpu-2 device 0").waitFor();
  await page.getByRole("searchbox").fill("research/notebook");
  await page.getByText("1 of 9 devices").waitFor();
  check(await shown() === 1, `${await shown()} devices`);
  await page.getByRole("searchbox").fill("nothing has this name");
  await page.getByRole("button", { name: "Show all devices" }).click();
  check(await shown() === 9, `${await shown()} devices`);
  for (const [which, wanted] of [["room", 3], ["idle", 4], ["trouble", 3], ["busy", 5]]) {
    await page.getByLabel("Which devices").selectOption(which);
    check(await shown() === wanted, `${which}: ${await shown()} devices`);
  }
  await end(view);
}

async function an_empty_cluster_says_what_to_do() {
  const view = await inside({}, () => {}), { page } = view;
  await page.getByText("kubectl label node NODE divvy.gpu/owner=divvy").waitFor();
  await picture(page, "empty");
  server.tell("node", "gpu-1", gpuNode("gpu-1", 1));
  await page.getByRole("heading", { name: "gpu-1" }).waitFor();
  check(!await page.getByText("No node shares its GPUs yet").isVisible(), "still empty");
  await end(view);
}

async function a_lost_connection_is_shown_and_restored() {
  const view = await inside({ expects: () => true }), { page } = view, { port } = server;
  await page.getByRole("heading", { name: "gpu-3" }).waitFor();
  await server.stop("SIGKILL");
  await page.getByText("The connection is lost.").waitFor();
  await page.getByText("Not connected").waitFor();
  check(await page.getByRole("heading", { name: "gpu-3" }).isVisible(), "what was known is gone");
  await picture(page, "lost");
  server = await new Server().start(port);
  server.tell("node", "gpu-1", gpuNode("gpu-1", 1));
  await page.locator("#link.live").waitFor();
  await page.getByRole("heading", { name: "gpu-3" }).waitFor({ state: "detached" });
  check(!await page.getByText("The connection is lost.").isVisible(), "still said to be lost");
  await end(view);
}

async function rights_are_checked_again_and_no_change_is_lost() {
  const view = await inside(), { page } = view, asked = [];
  page.on("request", (r) => { if (r.url().includes("/events/")) asked.push(r.url()); });
  await page.getByRole("heading", { name: "gpu-3" }).waitFor();
  server.tell("later", "5m");
  server.tell("node", "gpu-4", gpuNode("gpu-4", 1));
  await page.getByRole("heading", { name: "gpu-4" }).waitFor();
  check(asked.length === 1 && /events\/[0-9a-f]{16}-\d+$/.test(asked[0]), `asked for ${asked}`);
  check(!await page.locator("#lost").isVisible(), "it is said to be lost");
  server.tell("revoke", "good");
  server.tell("later", "5m");
  await page.getByLabel("Token").waitFor();
  check(await page.locator(".device").count() === 0, "devices are left on the page");
  await end(view);
}

async function the_page_fits_a_phone_by_night() {
  const phone = await inside({ viewport: PHONE });
  await device(phone.page, "gpu-1 device 0").waitFor();
  const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(wide <= 0, `${wide} pixels wider than the phone`);
  await picture(phone.page, "phone-light");
  await phone.page.locator("#devices-title").scrollIntoViewIfNeeded();
  await picture(phone.page, "phone-devices");
  await device(phone.page, "gpu-1 device 0").tap();
  await phone.page.getByRole("button", { name: "research/serve-7f9c" }).tap();
  await phone.page.getByRole("img", { name: /^Share/ }).waitFor();
  await picture(phone.page, "phone-detail");
  await end(phone);
  const night = await inside({ colorScheme: "dark" });
  await device(night.page, "gpu-1 device 0").waitFor();
  await picture(night.page, "desktop-dark");
  await end(night);
}

async function a_thousand_devices_are_shown() {
  const view = await inside({ viewport: DESKTOP }, (s) => tellLarge(s, 125)), { page } = view;
  await page.waitForFunction(() => document.querySelectorAll(".device").length === 1000);
  await page.getByText("500 more are not listed here").waitFor();
  check(await page.locator("#waiting-rows tr").count() === 6, "not some of those that wait");
  await picture(page, "thousand");
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll(".device").length === 1000);
  const before = (await times(page)).updates.length;
  tellLarge(server, 125, 7);
  await page.waitForFunction((n) => performance.getEntriesByName("divvy-update").length > n, before);
  server.tell("lease", "gpu-5", lease([["job-5-0", [777, 1]]]));
  await device(page, "gpu-5 device 0, H200-141Gi, 4 tenants, 70% granted, 78% used").waitFor();
  const { first, updates, paint } = await times(page), sorted = [...updates].sort((a, b) => a - b);
  const search = await page.evaluate(() => { const t = performance.now(); const f = document.getElementById("find"); f.value = "job-77-3"; f.dispatchEvent(new Event("input")); return performance.now() - t; });
  await page.getByText("1 of 1,000 devices").waitFor({ timeout: 5000 }).catch(() => {});
  console.log(`# 1,000 devices, 4,000 tenants: first paint of the page ${paint?.toFixed(0)} ms, all devices made in ${first.toFixed(0)} ms; `
    + `updates ${sorted[0].toFixed(1)} to ${sorted.at(-1).toFixed(1)} ms; a search ${search.toFixed(1)} ms`);
  await end(view);
}

async function forty_thousand_devices_are_summed_up() {
  const view = await inside({ viewport: DESKTOP }, (s) => tellLarge(s, 5000, 0, 6, 10)), { page } = view;
  await page.getByText("on 5,000 nodes").waitFor();
  await device(page, "gpu-0 device 0").waitFor();
  check(await page.locator(".node").count() === 5000, "not all nodes");
  check(await page.locator(".device").count() < 400, "devices that are not on the screen were sent");
  await picture(page, "forty-thousand");
  await page.reload();
  await device(page, "gpu-0 device 0").waitFor();
  const { first, shown, paint } = await times(page);
  server.tell("lease", "gpu-1", lease([["job-1-0", [777, 1]]]));
  await device(page, "gpu-1 device 0, H200-141Gi, 4 tenants, 70% granted, 78% used").waitFor();
  await page.locator("[data-name='gpu-1']").getByText("8 × H200-141Gi, 6 tenants, 12% granted, 10% used").waitFor();
  await page.evaluate(() => document.querySelector("[data-name='gpu-4321']").scrollIntoView());
  await device(page, "gpu-4321 device 0").waitFor();
  await device(page, "gpu-4321 device 0").click();
  await page.getByRole("button", { name: "research/job-4321-0" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#find").fill("job-77-3 h200");
  await page.getByText("1 of 5,000 nodes").waitFor();
  check(await page.locator(".node:visible").count() === 1, "other nodes are shown");
  server.tell("node", "gpu-9", gpuNode("gpu-9", 8, [], { devices: [{ model: "H200 of job-77-3" }] }));
  await page.getByText("2 of 5,000 nodes").waitFor();
  await page.locator("#find").fill("1 2 3 4 5 6 7 8 9");
  await page.getByText("the search has more than 8 words").waitFor();
  await page.locator("#find").fill("no-such");
  await page.getByText("No device matches").waitFor();
  await page.getByRole("button", { name: "Show all devices" }).click();
  await page.locator("#which").selectOption("trouble");
  await page.getByText("0 of 5,000 nodes").waitFor();
  server.tell("node", "gpu-7", gpuNode("gpu-7", 8, [], { devices: [{ health: "Lost" }] }));
  await page.getByText("1 of 5,000 nodes").waitFor();
  await page.locator("#which").selectOption("all");
  const { updates } = await times(page), sorted = [...updates].sort((a, b) => a - b);
  console.log(`# 40,000 devices, 30,000 tenants: first paint of the page ${paint?.toFixed(0)} ms, all nodes made in ${first.toFixed(0)} ms, `
    + `${shown.toFixed(0)} ms after the start; updates ${sorted[0].toFixed(1)} to ${sorted.at(-1).toFixed(1)} ms`);
  for (let n = 250; n < 5000; n++) server.tell("node", `gpu-${n}`, null);
  await page.waitForFunction(() => document.querySelectorAll(".device").length === 2000);
  await end(view);
}

const tests = [without_a_token_nothing_is_served, a_stream_sends_all_objects_once,
  a_controller_that_starts_gives_no_partial_answer, files_come_with_a_strict_policy,
  scripts_cannot_read_the_cookie, signs_in_and_out, devices_and_tenants_are_shown, markup_is_text, changes_appear_on_the_page,
  a_silent_api_server_is_shown, keys_reach_everything, screen_readers_get_names, text_has_contrast_by_day, text_has_contrast_by_night,
  search_finds_devices_and_tenants, an_empty_cluster_says_what_to_do, a_lost_connection_is_shown_and_restored,
  rights_are_checked_again_and_no_change_is_lost, the_page_fits_a_phone_by_night, a_thousand_devices_are_shown,
  forty_thousand_devices_are_summed_up];
const only = process.argv[2];
process.exit(await main(tests.filter((t) => !only || t.name.includes(only)).map(withServer)));
