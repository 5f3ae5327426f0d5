// SPDX-License-Identifier: Apache-2.0
// look.mjs URL NAME DEVICES: signs in with the token from standard input, waits until the page shows that many
// devices, and takes pictures NAME-*.png. Prints the devices, nodes and times that it found as JSON.

import { readFileSync } from "node:fs";
import { PHONE, check, open, picture, signIn, times } from "./browser.mjs";

const [url, name, devices] = process.argv.slice(2), token = readFileSync(0, "utf8").trim();

async function lookOnce(how, options) {
  const { browser, page, wrong } = await open({ ...options, expects: (text) => text.includes("401") });
  try {
    await page.goto(url);
    await signIn(page, token);
    await page.waitForFunction((n) => document.querySelectorAll(".device").length === n, Number(devices));
    await picture(page, `${name}-${how}`);
    return { devices: await page.locator(".device").count(), nodes: await page.locator(".node h3").allTextContents(), times: await times(page) };
  } finally {
    await browser.close();
    check(!wrong.length, `on the console: ${wrong.join("; ")}`);
  }
}

// A network interface that appears or disappears, for example of another test's node, makes a browser's new
// connections fail with ERR_NETWORK_CHANGED; then the look is repeated.
async function look(how, options) {
  for (let left = 4; ; left--) {
    try {
      return await lookOnce(how, options);
    } catch (error) {
      if (!left || !String(error).includes("ERR_NETWORK_CHANGED")) throw error;
    }
  }
}

const seen = await look("desktop", {});
await look("dark", { colorScheme: "dark" });
await look("phone", { viewport: PHONE });
console.log(JSON.stringify(seen));
