// Tests of webchat and the status page from the point of view of a person. The host is the built one, the agent is
// `echo`. Screenshots are in target/browser; a failure saves one too.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Browser } from "./cdp.mjs";
import { Host } from "./host.mjs";

const SHOTS = join("target", "browser");
const only = process.argv[2] ?? "";
const tests = [];
const test = (name, run) => tests.push({ name, run });

const INPUT = `document.querySelector("#input")`;
const answers = `[...document.querySelectorAll(".msg.agent:not(.live) .body")].map((node) => node.innerText.trim())`;
const mine = `[...document.querySelectorAll(".msg.me .body")].map((node) => node.innerText.trim())`;
const says = (text) => `${answers}.includes(${JSON.stringify(text)})`;

async function say(page, text) {
  await page.evaluate(`${INPUT}.focus()`);
  await page.type(text);
  await page.press("Enter");
}

/** Sends a message and waits for its echo. */
async function talk(page, text, answer = text) {
  await say(page, text);
  await page.until(says(answer), `the answer ${answer}`);
}

test("the link opens the page and leaves the address bar", async ({ page, link }) => {
  await page.until(`!document.querySelector("#welcome").hidden`);
  assert.equal(await page.evaluate("location.search"), "");
  assert.equal(await page.evaluate("document.cookie"), "", "a script can read the key");
  assert.ok(!(await page.evaluate("document.documentElement.outerHTML")).includes(new URL(link).searchParams.get("token")));
});

test("a stranger's browser is shown the way in and nothing else", async ({ browser, link }) => {
  const { browserContextId } = await browser.send("Target.createBrowserContext");
  const { targetId } = await browser.send("Target.createTarget", { url: "about:blank", browserContextId });
  const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => browser.send(method, params, sessionId);
  await send("Page.navigate", { url: new URL("/", link).href });
  const look = `new Promise((resolve) => { const look = () => document.querySelector("h1") ? resolve(document.querySelector("h1").innerText) : setTimeout(look, 25); look(); })`;
  const { result } = await send("Runtime.evaluate", { expression: look, awaitPromise: true, returnByValue: true });
  assert.equal(result.value, "Open this page with its link");
  await browser.send("Target.disposeBrowserContext", { browserContextId });
});

test("a message is delivered, and its answer streams", async ({ page }) => {
  await say(page, "/slow 120 one two three four five six");
  await page.until(`document.querySelector(".msg.me .status")?.innerText === "sent"`);
  // The message grows before it is complete.
  await page.until(`/^one/.test(document.querySelector(".msg.live .body")?.innerText ?? "")`, "a piece of the answer");
  assert.ok(await page.evaluate(`!document.querySelector("#stop").hidden`));
  await page.until(says("one two three four five six"));
  assert.equal(await page.evaluate(`document.querySelectorAll(".msg.live").length`), 0, "the streamed text stays beside the answer");
  assert.equal(await page.evaluate(`document.querySelectorAll(".msg.agent").length`), 1);
  assert.ok(await page.evaluate(`document.querySelector("#stop").hidden`));
});

test("a reload in the middle of an answer loses none of it", async ({ page }) => {
  const words = Array.from({ length: 14 }, (_, n) => `word${n}`).join(" ");
  await say(page, `/slow 150 ${words}`);
  await page.until(`/word3/.test(document.querySelector(".msg.live .body")?.innerText ?? "")`, "a piece of the answer");
  await page.reload();
  await page.until(`/^word0 .*word7/.test(document.querySelector(".msg.live .body")?.innerText ?? "")`, "the answer going on from its beginning");
  await page.until(says(words));
  assert.equal(await page.evaluate(`document.querySelectorAll(".msg.agent").length`), 1);
});

test("Shift+Enter makes a line and Enter sends it", async ({ page }) => {
  await page.evaluate(`${INPUT}.focus()`);
  await page.type("first");
  await page.press("Enter", { shift: true });
  assert.equal(await page.evaluate(`document.querySelectorAll(".msg.me").length`), 0);
  await page.type("\nsecond");
  await page.press("Enter");
  await page.until(`${mine}.some((text) => /first\\s+second/.test(text))`);
});

test("Esc stops a turn", async ({ page }) => {
  await say(page, "/hang for ever");
  await page.until(`/for ever/.test(document.querySelector(".msg.live .body")?.innerText ?? "")`, "the text before it hangs");
  await page.press("Escape");
  await page.until(`document.querySelector("#stop").hidden && !document.querySelector(".msg.live .dots")`, "the turn to end");
  await talk(page, "still there");
});

test("two conversations are kept apart, and a reload keeps both", async ({ page }) => {
  await talk(page, "apples");
  await page.click("#new");
  await page.until(`!document.querySelector("#welcome").hidden`);
  await talk(page, "pears");
  assert.deepEqual(await page.evaluate(mine), ["pears"]);
  await page.reload();
  await page.until(says("pears"), "the history after a reload");
  const names = await page.evaluate(`[...document.querySelectorAll(".conversations a .name")].map((node) => node.innerText)`);
  assert.deepEqual(names.slice(0, 2), ["pears", "apples"]);
  await page.press("k", { ctrl: true });
  await page.until(`document.querySelector("#palette").open`);
  await page.type("appl");
  await page.until(`document.querySelectorAll("#palette-list li").length === 1`);
  await page.press("Enter");
  await page.until(says("apples"));
  assert.deepEqual(await page.evaluate(mine), ["apples"]);
});

test("markup is shown, and nothing in it runs", async ({ page }) => {
  const hostile = '<img src=x onerror="window.hit=1"> [go](javascript:window.hit=2) <script>window.hit=3</script>';
  await say(page, `${hostile} **bold** [site](https://example.org/) \`code\``);
  await page.until(`document.querySelector(".msg.agent:not(.live) strong")?.innerText === "bold"`);
  const seen = await page.evaluate(`(() => { const body = document.querySelector(".msg.agent:not(.live) .body");
    return { images: body.querySelectorAll("img, script").length, links: [...body.querySelectorAll("a")].map((a) => [a.href, a.rel]), code: body.querySelector("code").innerText, text: body.innerText, hit: window.hit ?? null }; })()`);
  assert.equal(seen.images, 0);
  assert.deepEqual(seen.links, [["https://example.org/", "noopener noreferrer"]]);
  assert.equal(seen.code, "code");
  assert.ok(seen.text.includes("<script>window.hit=3</script>"), seen.text);
  assert.equal(seen.hit, null);
});

test("markup of a running answer is shown as it arrives, and nothing in it runs", async ({ page }) => {
  await say(page, "/slow 250 <img src=x onerror=window.hit=1> **in bold** `co de` and the rest of it");
  await page.until(`document.querySelector(".msg.live .body strong")?.innerText === "in bold"`, "the bold words of the running answer");
  assert.equal(await page.evaluate(`document.querySelectorAll(".msg.live .body :is(img, script)").length`), 0);
  await page.until(`document.querySelector(".msg.agent:not(.live) .body code")?.innerText === "co de"`);
  assert.equal(await page.evaluate("window.hit ?? null"), null);
});

test("code can be copied, and a spoiler is shown on request", async ({ page }) => {
  await say(page, "```rust\nlet a = 1;\n```\n\n||hidden||");
  await page.until(`document.querySelector(".msg.agent:not(.live) figcaption")?.innerText.startsWith("rust")`);
  await page.evaluate(`navigator.clipboard.writeText = async (text) => { window.copied = text; }`);
  await page.click(".msg.agent:not(.live) .copy");
  await page.until(`window.copied === "let a = 1;" && document.querySelector(".copy").innerText === "Copied"`, "the copied code");
  await page.click(".msg.agent:not(.live) .spoiler");
  assert.ok(await page.evaluate(`document.querySelector(".msg.agent:not(.live) .spoiler").classList.contains("shown")`));
});

test("no text breaks the page", async ({ page }) => {
  // The last letter shows that the whole text was read; tests of hermes-markup have more of the kind.
  for (const piece of ["> ", "*a ", "[a](", "`", "<u>", "|", "&#99999999;", "\\", "<script>", "```\n"]) {
    await say(page, `${piece.repeat(800)}\n\nz`);
    await page.until(`[...document.querySelectorAll(".msg.agent:not(.live) .body")].pop()?.innerText.trimEnd().endsWith("z") && !document.querySelector(".msg.live")`, `the answer to ${piece}`);
    await page.click("#new");
    await page.until(`!document.querySelector("#welcome").hidden`);
  }
});

test("a file goes along", async ({ page, host }) => {
  const path = join(host.folder, "notes.txt");
  writeFileSync(path, "some notes");
  const { root } = await page.send("DOM.getDocument");
  const { nodeId } = await page.send("DOM.querySelector", { nodeId: root.nodeId, selector: "#files" });
  await page.send("DOM.setFileInputFiles", { files: [path], nodeId });
  await page.until(`/10 B/.test(document.querySelector("#uploads li")?.innerText ?? "")`, "the uploaded file");
  await say(page, "look at this");
  await page.until(`document.querySelector(".msg.me a.file")?.innerText.includes("notes.txt")`);
  await page.until(`${answers}.some((text) => text.includes("[notes.txt]"))`);

  writeFileSync(path, "x".repeat(100_001));
  await page.send("DOM.setFileInputFiles", { files: [path], nodeId });
  await page.until(`/larger than/.test(document.querySelector("#uploads li.bad")?.innerText ?? "")`, "the refusal of a large file");
});

test("a host that comes back finds its page waiting", async ({ page, host }) => {
  await talk(page, "before");
  await host.stop("SIGKILL");
  await page.until(`document.querySelector("#banner").innerText.includes("cannot be reached")`);
  await host.start();
  await page.until(`document.querySelector("#banner").hidden`, "the banner to go");
  await talk(page, "after");
  assert.deepEqual(await page.evaluate(answers), ["before", "after"]);
  page.complaints = page.complaints.filter((text) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/.test(text));
});

test("a conversation is renamed and deleted", async ({ page }) => {
  await talk(page, "old name");
  await page.click("#rename");
  await page.until(`document.querySelector("#ask").open`);
  await page.type("New name");
  await page.press("Enter");
  await page.until(`document.querySelector("#title").innerText === "New name"`);
  await page.click("#delete");
  await page.until(`document.querySelector("#ask").open`);
  await page.click("#ask-yes");
  await page.until(`!document.querySelector("#welcome").hidden && !document.querySelector(".conversations").innerText.includes("New name")`);
});

test("the theme follows the system, and a choice is kept", async ({ page }) => {
  const ground = `getComputedStyle(document.body).backgroundColor`;
  await talk(page, "in the dark");
  const light = await page.evaluate(ground);
  await page.dark(true);
  const dark = await page.evaluate(ground);
  assert.notEqual(dark, light);
  await page.shot(join(SHOTS, "dark.png"));
  await page.click("#theme");
  assert.equal(await page.evaluate(ground), light);
  await page.reload();
  assert.equal(await page.evaluate(ground), light);
  await page.evaluate("localStorage.clear()");
});

/**
 * Returns every control and text on the page with a contrast that is too low (WCAG AA: 4.5, large text: 3), in
 * its normal, hovered and disabled states. Colours are the computed ones, over all layers behind them.
 */
const LOW_CONTRAST = `(${function () {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = "#000";
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const linear = (part) => (part /= 255) <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (node) => {
    const layers = [];
    for (let one = node; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
  };
  const opacity = (node) => node ? Number(getComputedStyle(node).opacity) * opacity(node.parentElement) : 1;
  const ratio = (node) => {
    const ground = behind(node), colour = rgba(getComputedStyle(node).color);
    const ink = over([...colour.slice(0, 3), colour[3] * opacity(node)], ground);
    const [high, low] = [light(ink), light(ground)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const low = [];
  const judge = (node, how) => {
    const style = getComputedStyle(node), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const found = ratio(node);
    if (found < (large ? 3 : 4.5)) low.push(node.tagName.toLowerCase() + (node.id ? "#" + node.id : "." + node.className) + " \u201c" + (node.innerText || node.title || "").slice(0, 20) + "\u201d " + how + ": " + found.toFixed(2));
  };
  const shown = [...document.querySelectorAll("button, a, input, textarea, select, kbd, small, label, h1, h2, p, [role=option], .status, .body")]
    // Elements that appear only on hover are checked with their own colour there.
    .filter((node) => node.checkVisibility() && !node.closest(".copy-message, .skip"));
  for (const node of shown) {
    judge(node, window.contrastState);
    if (node.tagName === "BUTTON" && !node.disabled) {
      node.disabled = true;
      judge(node, "disabled");
      node.disabled = false;
    }
  }
  return { low: [...new Set(low)], judged: shown.length };
}})()`;

/**
 * Resolves once no element was added or removed for half a second, because the list of conversations is rendered
 * again after an answer.
 */
const STANDS_STILL = `new Promise((resolve) => {
  const watch = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(end, 500); });
  const end = () => { watch.disconnect(); resolve(true); };
  let timer = setTimeout(end, 500);
  watch.observe(document.body, { childList: true, subtree: true });
})`;

async function contrast(page, state) {
  await page.evaluate(`window.contrastState = ${JSON.stringify(state)}`);
  // A colour transition would otherwise take time.
  await page.evaluate(`document.getAnimations().forEach((one) => one.finish?.call && one.effect?.getComputedTiming().iterations !== Infinity && one.finish())`);
  return page.evaluate(LOW_CONTRAST);
}

test("every control can be read, in light and dark, under the pointer and disabled", async ({ page }) => {
  await talk(page, "a text with `code` and [a link](https://example.org)", "a text with code and a link");
  // A question of the host, with one choice of each style; one of the questions was answered.
  await page.evaluate(`(() => {
    const choices = (chosen) => '<article class="msg notice"><div class="body">Run this?</div><div class="choices" role="group">'
      + ["primary", "", "danger"].map((style) => '<button type="button" class="' + style + (chosen === style ? " chosen" : "") + '"'
        + (chosen === null ? "" : " disabled") + '>' + (style || "plain") + '</button>').join("")
      + '<small>This question is closed.</small></div></article>';
    const place = document.querySelector(".msg.agent").parentElement;
    for (const chosen of [null, "none of them", "primary", "danger"]) place.insertAdjacentHTML("beforeend", choices(chosen));
  })()`);
  assert.equal(await page.evaluate(`document.querySelectorAll(".choices .danger").length`), 4);
  await page.send("DOM.enable");
  await page.send("CSS.enable");
  const low = [];
  for (const dark of [false, true]) {
    await page.dark(dark);
    await page.evaluate(STANDS_STILL);
    const theme = dark ? "dark" : "light";
    const plain = await contrast(page, `${theme}, plain`);
    assert.ok(plain.judged > 15, `only ${plain.judged} controls were found`);
    low.push(...plain.low);
    const { root } = await page.send("DOM.getDocument", { depth: 0 });
    const { nodeIds } = await page.send("DOM.querySelectorAll", { nodeId: root.nodeId, selector: "button, a, input, textarea" });
    for (const forced of ["hover", "focus-visible", "active"]) {
      for (const nodeId of nodeIds) await page.send("CSS.forcePseudoState", { nodeId, forcedPseudoClasses: [forced] });
      low.push(...(await contrast(page, `${theme}, ${forced}`)).low);
    }
    for (const nodeId of nodeIds) await page.send("CSS.forcePseudoState", { nodeId, forcedPseudoClasses: [] });
    await page.shot(join(SHOTS, `contrast-${theme}.png`));
  }
  assert.deepEqual(low, []);
});

test("it fits a telephone", async ({ page }) => {
  await page.size(360, 740);
  await say(page, `| a | b |\n|---|---|\n| ${"wide ".repeat(30)} | ${"x".repeat(80)} |`);
  await page.until(`document.querySelector(".msg.agent:not(.live) table")`);
  await page.until(`!document.querySelector(".msg.live")`, "the streamed text to go");
  assert.ok(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the screen");
  await page.until(`getComputedStyle(document.querySelector("#sidebar")).visibility === "hidden"`);
  await page.shot(join(SHOTS, "narrow.png"));
  await page.click("#menu");
  await page.until(`getComputedStyle(document.querySelector("#sidebar")).visibility === "visible"`);
});

test("commands are offered and answered", async ({ page }) => {
  await page.evaluate(`${INPUT}.focus()`);
  await page.type("/stat");
  await page.until(`document.querySelector("#commands li strong")?.innerText === "/status"`, "the menu of commands");
  await page.press("Tab");
  await page.press("Enter");
  await page.until(`document.querySelectorAll(".msg.agent:not(.live), .msg.notice").length > 0`, "an answer of the host");
});

const listed = `[...document.querySelectorAll(".conversations a .name")].map((node) => node.innerText)`;

test("the words behind a command are offered, and Enter sends what is whole", async ({ page }) => {
  await page.evaluate(`${INPUT}.focus()`);
  await page.type("/bus");
  await page.until(`document.querySelector("#commands li strong")?.innerText === "/busy"`);
  await page.press("Tab");
  await page.until(`document.querySelectorAll("#commands li").length === 4`, "the words of /busy");
  await page.type("q");
  await page.until(`document.querySelector("#commands li strong")?.innerText === "/busy queue"`);
  await page.press("Enter");
  assert.equal(await page.evaluate(`${INPUT}.value.trim()`), "/busy queue");
  await page.press("Enter");
  await page.until(`${mine}.includes("/busy queue") && ${answers}.length > 0`, "the answer to /busy queue");
  await page.type("/title ");
  await page.press("Enter");
  await page.until(`${mine}.includes("/title")`, "a bare command is sent");
});

test("a message that waits says so, and an answer that was cut short is marked", async ({ page }) => {
  await say(page, "/hang half of it");
  await page.until(`/half of it/.test(document.querySelector(".msg.live .body")?.innerText ?? "")`, "the text before it hangs");
  await say(page, "/queue and then this");
  await page.until(`document.querySelector(".msg.me .status.waiting")?.innerText === "waiting"`, "the message that waits");
  assert.equal(await page.evaluate(`document.querySelectorAll(".msg.live").length`), 1, "what waits has no place of its own");
  await page.shot(join(SHOTS, "waiting.png"));
  await page.press("Escape");
  await page.until(says("and then this"));
  await page.until(`!document.querySelector(".status.waiting")`, "nothing waits any more");
  const cut = `document.querySelector(".msg.agent:not(.live) .interrupted")?.parentNode.innerText`;
  assert.match(await page.evaluate(cut), /half of it\s+interrupted/);
  await page.reload();
  await page.until(cut, "the mark after a reload");
});

test("a title is the host's, wherever it is given", async ({ page }) => {
  await talk(page, "the seven hills");
  await page.until(`document.querySelector("#title").innerText === "the seven hills"`);
  await say(page, "/title Hills of Rome");
  await page.until(`document.querySelector("#title").innerText === "Hills of Rome" && ${listed}.includes("Hills of Rome")`, "the title of /title");
  await page.click("#new");
  await page.until(`!document.querySelector("#welcome").hidden`);
  await talk(page, "other hills");
  await page.until(`document.querySelector("#title").innerText === "other hills"`);
  await page.click("#rename");
  await page.until(`document.querySelector("#ask").open`);
  await page.type("Hills of Rome");
  await page.press("Enter");
  await page.until(`document.querySelector("#title").innerText === "Hills of Rome #2"`, "a number behind a taken title");
});

test("what was left by a branch is listed, read, and goes on with the next message", async ({ page }) => {
  await talk(page, "the way in");
  await page.until(`document.querySelector("#title").innerText === "the way in"`);
  await say(page, "/branch");
  const former = `document.querySelector('.conversations a[href^="#s."]')`;
  await page.until(`${former}?.innerText === "the way in"`, "the former conversation in the list");
  await page.evaluate(`${former}.click()`);
  await page.until(says("the way in"), "what was said in it");
  assert.ok(await page.evaluate(`!document.querySelector("#past").hidden`));
  await talk(page, "and on from here");
  await page.until(`document.querySelector("#past").hidden && !${former}`, "it is open here");
  assert.deepEqual(await page.evaluate(mine), ["the way in", "and on from here"]);
  assert.ok(await page.evaluate(`/^#c_/.test(location.hash)`));
});

test("words of a conversation are found", async ({ page }) => {
  await talk(page, "a heading\nand a xylophone far below it");
  await page.click("#new");
  await page.press("k", { ctrl: true });
  await page.until(`document.querySelector("#palette").open`);
  await page.type("xylophone");
  await page.until(`document.querySelector("#palette-list mark")?.innerText === "xylophone"`, "the place");
  await page.press("Enter");
  await page.until(`${mine}.some((text) => text.includes("xylophone"))`, "the conversation");
});

test("a picture from the agent is shown and a file is offered", async ({ page, host }) => {
  const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgAAIAAAAEAAEnNCcKAAAAAElFTkSuQmCC";
  writeFileSync(join(host.folder, "dot.png"), Buffer.from(png, "base64"));
  writeFileSync(join(host.folder, "list.txt"), "one\ntwo\n");
  await say(page, `look\nMEDIA:${join(host.folder, "dot.png")}\nMEDIA:${join(host.folder, "list.txt")}`);
  await page.until(`document.querySelector(".msg.agent .files img")?.naturalWidth === 1`, "the picture");
  await page.until(`document.querySelector(".msg.agent a.file")?.download === "list.txt"`, "the file");
});

test("two pages on one conversation show the same", async ({ page, browser, link }) => {
  await talk(page, "from the first");
  const other = await browser.open(new URL(await page.evaluate("location.hash"), link).href);
  await other.until(says("from the first"));
  await say(other, "/slow 500 from the second one and on");
  await page.until(`/^from/.test(document.querySelector(".msg.live .body")?.innerText ?? "")`, "the answer grows on the first page too");
  await page.until(says("from the second one and on"));
  await other.until(says("from the second one and on"));
  assert.deepEqual(await page.evaluate(answers), await other.evaluate(answers));
  assert.deepEqual(other.complaints, []);
  await other.close();
});

test("long words, code and commands fit a telephone", async ({ page }) => {
  await page.size(360, 740);
  await talk(page, "short");
  await say(page, "x".repeat(400) + "\n\n```\n" + "y".repeat(300) + "\n```");
  await page.until(`document.querySelector(".msg.agent:not(.live) pre")`, "the code");
  await say(page, "/title " + "longtitlewithoutanyspace".repeat(4));
  await page.until(`document.querySelector("#title").innerText.startsWith("longtitle")`);
  await page.type("/");
  await page.until(`!document.querySelector("#commands").hidden`);
  assert.ok(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the screen");
  const inside = `[...document.querySelectorAll(".bar button:not([hidden]), .field button:not([hidden]), #commands li")].every((node) => { const box = node.getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth; })`;
  assert.ok(await page.evaluate(inside), "something lies outside of the screen");
  await page.shot(join(SHOTS, "narrow-menu.png"));
});

test("the status page opens", async ({ browser, host }) => {
  const page = await browser.open(`http://127.0.0.1:${host.status}/`);
  await page.until(`/webchat/.test(document.body.innerText) && /online/i.test(document.body.innerText)`, "webchat online");
  assert.ok(!(await page.evaluate("document.documentElement.outerHTML")).includes("token="));
  await page.shot(join(SHOTS, "status.png"));
  assert.deepEqual(page.complaints, []);
  await page.close();
});

/** Runs every test on a host with one isolation mode; returns the number of failures. */
async function round(browser, isolation) {
  const host = await Host.make(isolation);
  let failed = 0;
  try {
    const link = await host.start();
    for (const { name, run } of tests.filter((one) => one.name.includes(only))) {
      const page = await browser.open(link);
      try {
        await page.until(`document.querySelector("#input") && !document.querySelector("#welcome").hidden`, "the page");
        await run({ page, browser, host, link });
        assert.deepEqual(page.complaints, [], "the page complains");
        console.log(`ok    ${isolation}: ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAIL  ${isolation}: ${name}\n${error.stack}`);
        await page.shot(join(SHOTS, `failed-${isolation}-${failed}.png`)).catch(() => { /* The browser itself may be what failed. */ });
      }
      await page.close();
    }
  } finally {
    await host.stop();
    if (failed) console.log(`the host said:\n${host.said.replace(/token=[\w-]+/g, "token=…").slice(-4000)}`);
    host.forget();
  }
  return failed;
}

mkdirSync(SHOTS, { recursive: true });
const browser = await Browser.start();
let failed = 0;
try {
  for (const isolation of ["in-process", "process"]) failed += await round(browser, isolation);
} finally {
  await browser.close();
}
console.log(failed ? `${failed} failed` : "all passed");
process.exitCode = failed ? 1 : 0;
