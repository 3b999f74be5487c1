// A headless Chromium, controlled through its own protocol over a pipe. Needs no installation besides the browser,
// and supports only what the tests need.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb", "--lang=en", "--remote-debugging-pipe",
];
const PATIENCE_MS = 15_000;

export class Browser {
  static async start(executable = process.env.CHROMIUM || "/usr/bin/chromium") {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), "browser-"));
    browser.child = spawn(executable, [...FLAGS, `--user-data-dir=${browser.profile}`, "about:blank"], {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    });
    browser.waiting = new Map();
    browser.pages = new Map();
    browser.next = 1;
    let rest = "";
    browser.child.stdio[4].setEncoding("utf8").on("data", (piece) => {
      const messages = (rest + piece).split("\0");
      rest = messages.pop();
      for (const message of messages) browser.take(JSON.parse(message));
    });
    browser.child.on("exit", () => {
      for (const { reject } of browser.waiting.values()) reject(new Error("the browser ended"));
    });
    await browser.send("Browser.getVersion");
    return browser;
  }

  take(message) {
    if (message.id) {
      const waiting = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) waiting?.reject(new Error(message.error.message));
      else waiting?.resolve(message.result);
    } else {
      this.pages.get(message.sessionId)?.take(message);
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method} took too long`)), PATIENCE_MS);
      this.waiting.set(id, {
        resolve: (result) => { clearTimeout(timer); resolve(result); },
        reject: (error) => { clearTimeout(timer); reject(error); },
      });
      this.child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    });
  }

  /** Opens a page; `complaints` collects the messages of its console and its policy. */
  async open(url, { width = 1280, height = 800, dark = false } = {}) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    this.pages.set(sessionId, page);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.send(`${domain}.enable`);
    await page.size(width, height);
    await page.dark(dark);
    await page.go(url);
    return page;
  }

  async close() {
    await this.send("Browser.close").catch(() => { /* It may be gone before it answers. */ });
    await new Promise((resolve) => (this.child.exitCode !== null ? resolve() : this.child.on("exit", resolve)));
    rmSync(this.profile, { recursive: true, force: true });
  }
}

class Page {
  constructor(browser, sessionId, targetId) {
    Object.assign(this, { browser, sessionId, targetId, complaints: [], loaded: () => {} });
  }

  take({ method, params }) {
    if (method === "Page.loadEventFired") this.loaded();
    if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.level === "error") this.complaints.push(`${params.entry.text} ${params.entry.url || ""}`);
  }

  send(method, params = {}) {
    return this.browser.send(method, params, this.sessionId);
  }

  async go(url) {
    const loaded = new Promise((resolve) => { this.loaded = resolve; });
    await this.send("Page.navigate", { url });
    await loaded;
  }

  async reload() {
    const loaded = new Promise((resolve) => { this.loaded = resolve; });
    await this.send("Page.reload");
    await loaded;
  }

  size(width, height) {
    return this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
  }

  dark(on) {
    return this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: on ? "dark" : "light" }] });
  }

  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  }

  /** Waits until an expression of the page is true, with a check in every frame. */
  async until(expression, what = expression) {
    const watched = `new Promise((resolve) => {
      const end = Date.now() + ${PATIENCE_MS - 2000};
      const look = () => { const found = (${expression}); if (found || Date.now() > end) resolve(found || null); else setTimeout(look, 25); };
      look();
    })`;
    const found = await this.evaluate(watched);
    if (!found) throw new Error(`never: ${what}\npage says: ${await this.evaluate("document.body.innerText.slice(0, 1500)")}`);
    return found;
  }

  async type(text) {
    await this.send("Input.insertText", { text });
  }

  async press(key, { ctrl = false, shift = false } = {}) {
    const codes = { Enter: 13, Escape: 27, Tab: 9, ArrowDown: 40, ArrowUp: 38, k: 75 };
    const event = { key, code: key.length === 1 ? `Key${key.toUpperCase()}` : key, windowsVirtualKeyCode: codes[key], modifiers: (ctrl ? 2 : 0) | (shift ? 8 : 0) };
    if (key === "Enter") event.text = "\r";
    await this.send("Input.dispatchKeyEvent", { type: event.text ? "keyDown" : "rawKeyDown", ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
  }

  click(selector) {
    return this.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
  }

  offline(on) {
    return this.send("Network.emulateNetworkConditions", { offline: on, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  }

  async shot(path) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" });
    writeFileSync(path, Buffer.from(data, "base64"));
  }

  close() {
    this.browser.pages.delete(this.sessionId);
    return this.browser.send("Target.closeTarget", { targetId: this.targetId });
  }
}
