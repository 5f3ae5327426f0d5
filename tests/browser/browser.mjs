// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests of the dashboard: Debian's chromium as the browser, and results as TAP.

import { createRequire } from "node:module";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const { chromium } = createRequire(join(process.env.DIVVY_BROWSER, "node_modules/"))("playwright-core");

const OUT = join(process.env.DIVVY_SOURCE ?? ".", "out/web");
export const PATIENCE_MS = 60_000; // timeout of each wait; no test measures the speed by it

export const DESKTOP = { width: 1280, height: 900 };
export const PHONE = { width: 390, height: 844 };

// Opens a browser with an empty page. `wrong` collects errors on the page's console, such as a violation of its
// content security policy; a test must fail if `wrong` is not empty. expects: returns true for expected errors.
export async function open({ viewport = DESKTOP, colorScheme = "light", expects = () => false } = {}) {
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"],
  });
  const context = await browser.newContext({
    viewport, colorScheme, ignoreHTTPSErrors: true, isMobile: viewport === PHONE, hasTouch: viewport === PHONE, deviceScaleFactor: viewport === PHONE ? 2 : 1,
  });
  const page = await context.newPage(), wrong = [];
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("console", (m) => { if (m.type() === "error" && !expects(m.text())) wrong.push(m.text()); });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("dialog", (d) => { wrong.push(`a dialog: ${d.message()}`); d.dismiss(); });
  return { browser, context, page, wrong };
}

export async function signIn(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

export async function picture(page, name) {
  mkdirSync(OUT, { recursive: true });
  await page.screenshot({ path: join(OUT, `${name}.png`) });
}

// Returns the page's own time measurements in ms: {first: first rendering, shown: when it ended,
// updates: [later ones], paint}.
export function times(page) {
  return page.evaluate(() => ({
    first: performance.getEntriesByName("divvy-first").at(-1)?.duration,
    shown: performance.getEntriesByName("divvy-first").map((e) => e.startTime + e.duration).at(-1),
    updates: performance.getEntriesByName("divvy-update").map((e) => e.duration),
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  }));
}

export function check(is, what) {
  if (!is) throw new Error(what);
}

export async function main(tests) {
  let failed = 0;
  console.log(`1..${tests.length}`);
  for (const [i, test] of tests.entries()) {
    const name = test.name.replaceAll("_", " ");
    try {
      await test();
      console.log(`ok ${i + 1} - ${name}`);
    } catch (error) {
      failed++;
      console.log(`# ${String(error.stack ?? error).replaceAll("\n", "\n# ")}`);
      console.log(`not ok ${i + 1} - ${name}`);
    }
  }
  return failed ? 1 : 0;
}
