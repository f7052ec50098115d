// A browser for tests: reads a command a line, answers with a line. Chromium is the system's; nothing is downloaded.
//
// MODULES names node_modules with playwright-core and axe-core, CHROMIUM the program.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

const require = createRequire(`${process.env.MODULES}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});
let context, page;
let problems = [];
// Every request that leaves the page, by where it goes.
const hosts = new Set();

async function open(options) {
  await context?.close();
  context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(20_000);
  page = await context.newPage();
  page.on("console", (message) => { if (message.type() === "error") problems.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => hosts.add(new URL(request.url()).host));
}

const taken = () => { const told = problems; problems = []; return told; };

// What goes beyond its page or its own box, and which controls lie upon each other.
function boxes() {
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const over = [];
  const scrolls = (node) => { for (; node; node = node.parentElement) if (/auto|scroll/.test(getComputedStyle(node).overflowX)) return true; return false; };
  if (wide > 0) {
    for (const node of document.querySelectorAll("body *")) {
      const box = node.getBoundingClientRect();
      if (box.width && box.right > document.documentElement.clientWidth + 1 && !scrolls(node.parentElement)) over.push(`${node.tagName} ${(node.textContent || "").trim().slice(0, 40)}`);
    }
  }
  // Text that is wider than its box lies upon whatever is beside it.
  const spills = [...document.querySelectorAll("main *:not(svg, svg *)")].filter((node) => {
    const style = getComputedStyle(node);
    return node.clientWidth && node.scrollWidth > node.clientWidth + 2 && style.overflowX === "visible" && !scrolls(node.parentElement);
  }).map((node) => `${node.tagName}.${node.className} ${(node.textContent || "").trim().slice(0, 60)}`);
  const seen = [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary")].filter((node) => {
    const style = getComputedStyle(node);
    return node.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true }) && node.getClientRects().length === 1 && style.visibility !== "hidden" && !node.classList.contains("skip") && node.offsetParent;
  });
  const on = [];
  const at = seen.map((node) => node.getBoundingClientRect());
  for (let i = 0; i < seen.length; i++) {
    for (let j = i + 1; j < seen.length; j++) {
      if (seen[i].contains(seen[j]) || seen[j].contains(seen[i])) continue;
      const [a, b] = [at[i], at[j]];
      const [w, h] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
      if (w > 2 && h > 2) on.push(`${seen[i].textContent.trim().slice(0, 30)} / ${seen[j].textContent.trim().slice(0, 30)}`);
    }
  }
  return { wide, over: over.slice(0, 5), on: on.slice(0, 5), spills: spills.slice(0, 5) };
}

async function look({ path, width, scheme, shot }) {
  await page.setViewportSize({ width, height: width < 600 ? 740 : 900 });
  await page.emulateMedia({ colorScheme: scheme });
  // Without a path it is the page that is open.
  const answer = path ? await page.goto(path, { waitUntil: "load" }) : null;
  const closed = await page.evaluate(boxes);
  if (shot) await page.screenshot({ path: shot, fullPage: true });
  // What is folded away is looked at as well.
  await page.evaluate(() => document.querySelectorAll("main details").forEach((node) => { node.open = true; }));
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const bad = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  const told = bad.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`);
  const open = await page.evaluate(boxes);
  // That a page itself was refused, the browser tells on its console.
  const refused = answer && !answer.ok();
  const problems = taken().filter((problem) => !refused || !problem.startsWith("console: Failed to load resource"));
  const both = { wide: Math.max(closed.wide, open.wide), over: [...closed.over, ...open.over], on: [...closed.on, ...open.on], spills: [...closed.spills, ...open.spills] };
  return { status: answer?.status() ?? null, axe: told, problems, ...both };
}

// What has this role and name: within what a selector finds, if one is given. With `part` its name begins or ends otherwise.
function find({ role, name, nth, within, part }) {
  const root = within ? page.locator(within) : page;
  const all = role === "summary" ? root.locator("summary").filter({ hasText: name })
    : role === "password" ? root.getByLabel(name, { exact: true }) : root.getByRole(role, { name, exact: !part });
  return all.nth(nth ?? 0);
}

// Moves by the keyboard alone until something of this role and name has the focus. From the top it takes the way past the
// menu that each page offers.
async function focus(what) {
  const wanted = find(what);
  await wanted.waitFor();
  const there = () => wanted.evaluate((node) => node === document.activeElement);
  const [top, inside] = await wanted.evaluate((node) => [document.activeElement === document.body, !!node.closest("main")]);
  if (top && inside) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement.matches("a.skip"))) await page.keyboard.press("Enter");
  }
  for (let n = 0; n < 400; n++) {
    if (await there()) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`no way to ${what.role} ${what.name} by the keyboard`);
}

// One step of an action, by mouse or by the keyboard alone.
async function step(what, keyboard) {
  const wanted = find(what);
  if (!keyboard) {
    if (what.text !== undefined) return wanted.fill(what.text);
    if (what.value !== undefined) return wanted.selectOption(what.value);
    return wanted.click();
  }
  await focus(what);
  if (what.text !== undefined) {
    await page.keyboard.press("ControlOrMeta+a");
    return page.keyboard.insertText(what.text);
  }
  if (what.value !== undefined) {
    await page.keyboard.press("Home");
    for (let n = 0; n < 100; n++) {
      if (await wanted.evaluate((node, value) => node.value === value, what.value)) return;
      await page.keyboard.press("ArrowDown");
    }
    throw new Error(`${what.name} has no ${what.value} that the keyboard reaches`);
  }
  await page.keyboard.press(what.role === "checkbox" ? "Space" : "Enter");
}

// What a page holds after all that can be thrown away is: nodes, listeners and bytes.
async function held() {
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  await session.detach();
  const of = (name) => metrics.find((metric) => metric.name === name).value;
  return { nodes: of("Nodes"), listeners: of("JSEventListeners"), heap: of("JSHeapUsedSize") };
}

// The page's own streams, so that a test may say what the daemon says.
const STREAMS = () => {
  const Real = window.EventSource;
  window.streams = [];
  window.EventSource = class extends Real { constructor(...with_) { super(...with_); window.streams.push(this); } };
};

const commands = {
  open: (options) => open(options),
  goto: async ({ path }) => ({ status: (await page.goto(path, { waitUntil: "load" })).status() }),
  click: ({ role, name, nth }) => page.getByRole(role, { name, exact: true }).nth(nth ?? 0).click(),
  press: async (what) => { await focus(what); await page.keyboard.press(what.key ?? "Enter"); },
  type: async ({ role, name, text, keyboard, nth }) => {
    if (!keyboard) return page.getByRole(role, { name }).nth(nth ?? 0).fill(text);
    await focus({ role, name, nth });
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText(text);
  },
  choose: ({ name, value }) => page.getByRole("combobox", { name }).selectOption(value),
  keys: ({ keys }) => page.keyboard.press(keys),
  sees: ({ text }) => page.getByText(text, { exact: false }).first().waitFor(),
  sees_no: ({ text }) => page.getByText(text, { exact: false }).first().waitFor({ state: "hidden" }),
  waits: () => page.locator("body.waits").waitFor(),
  value: async ({ name }) => ({ value: await page.getByRole("textbox", { name }).first().inputValue() }),
  look,
  text: async () => ({ url: page.url(), text: await page.locator("body").innerText(), problems: taken() }),
  // A whole action: from a page on, by mouse or keyboard, until what it shows is there.
  acts: async ({ path, width, keyboard, scheme, steps, sees }) => {
    await page.setViewportSize({ width, height: width < 600 ? 740 : 900 });
    if (scheme) await page.emulateMedia({ colorScheme: scheme });
    if (path) await page.goto(path, { waitUntil: "load" });
    for (const what of steps) await step(what, keyboard);
    await page.getByText(sees, { exact: false }).filter({ visible: true }).first().waitFor();
    return { url: page.url(), problems: taken(), wide: (await page.evaluate(boxes)).wide };
  },
  count_streams: () => context.addInitScript(STREAMS),
  // Has the page renew itself so many times, as if the daemon had told of changes, without waiting for the clock.
  renews: async ({ times }) => {
    for (let n = 0; n < times; n++) {
      const answer = page.waitForResponse((response) => response.request().resourceType() === "fetch");
      await page.evaluate(() => {
        document.querySelector("main").firstElementChild.dataset.mark = "";
        window.streams.findLast((stream) => stream.readyState !== 2).dispatchEvent(new MessageEvent("changed"));
      });
      await page.clock.runFor(1100);
      await (await answer).finished();
      await page.locator("main [data-mark]").waitFor({ state: "detached" });
    }
  },
  // Whether the page is the one that was marked the last time; marks it.
  marks: async () => ({ marked: await page.evaluate(() => { const was = window.marked === true; window.marked = true; return was; }) }),
  lost: ({ lost }) => page.locator(lost ? "body.lost" : "body:not(.lost)").waitFor(),
  fake_clock: () => page.clock.install(),
  held: () => held(),
  links: async () => ({ links: await page.evaluate(() => [...document.querySelectorAll("a[href]:not([download])")].map((a) => new URL(a.getAttribute("href"), location)).filter((u) => u.origin === location.origin).map((u) => u.pathname + u.search)) }),
  cookies: async () => ({ cookies: await context.cookies() }),
  nodes: async () => ({ nodes: await page.evaluate(() => document.querySelectorAll("*").length), heap: await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0) }),
  loaded: async () => ({ bytes: await page.evaluate(() => [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")].reduce((sum, e) => sum + e.transferSize, 0)) }),
  hosts: () => ({ hosts: [...hosts] }),
};

console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...rest } = JSON.parse(line);
  try {
    console.log(JSON.stringify({ ok: true, ...((await commands[command](rest)) ?? {}) }));
  } catch (error) {
    const shown = page ? (await page.locator("body").innerText().catch(() => "")).slice(0, 3000) : "";
    console.log(JSON.stringify({ ok: false, error: String(error.message ?? error), at: page?.url(), shown, problems: taken() }));
  }
}
await browser.close();
