// Looks at the page as a person does, in a real browser.
//
//     node tests/page/walk.mjs SCENE URL [VALUE...]     with NODE_MODULES and CHROMIUM in the environment
//
// Prints what it saw as one line of JSON. Pictures go to PICTURES, if that is set. It fails on an error in the console,
// on a request that leaves the server, and on what axe-core finds.
import { readFileSync } from "node:fs";
import { partnerScenes } from "./partner_scenes.mjs";
import { rolloutScenes } from "./rollout_scenes.mjs";
import { serverScenes } from "./server_scenes.mjs";
import { createRequire } from "node:module";
import process from "node:process";
import { looksAtRollouts, looksAtRun, looksAtRuns } from "./looks.mjs";

const require = createRequire(`${process.env.NODE_MODULES}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [scene, url, ...values] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});

/** A page at a width, which fails where it should not have asked or said anything. */
async function opened(width, expected = []) {
  const context = await browser.newContext({ viewport: { width, height: 900 } });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !expected.some((known) => text.includes(known))) wrong.push(`console: ${text}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:"))
      wrong.push(`left the server: ${request.url()}`);
  });
  return { page, context, wrong };
}

/** What everything that is shown has to keep. */
async function checked(page, wrong, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) wrong.push(`${name} is ${wide} pixels too wide`);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  for (const found of violations) {
    wrong.push(
      `${name}: ${found.id}: ${found.help}: ${found.nodes
        .slice(0, 2)
        .map((node) => node.html.slice(0, 200))
        .join(" | ")}`,
    );
  }
  if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/${name}.png`, fullPage: true });
}

/** What is said on standard input, once it is asked for. */
async function answered() {
  console.log(JSON.stringify({ ready: true }));
  await new Promise((resolve) => process.stdin.once("data", resolve));
}

const scenes = {
  /** From the runs to the tokens of a rollout, by clicks. */
  async run() {
    const seen = {};
    for (const width of [1280, 390]) {
      const { page, context, wrong } = await opened(width, ["400"]);
      await page.goto(`${url}/`);
      await page.click("table.runs tbody a");
      await looksAtRun(page, seen);
      await checked(page, wrong, `run-${width}`);
      await page.click("nav a[href='#/runs']");
      await looksAtRuns(page, seen);
      await checked(page, wrong, `runs-${width}`);
      await page.click("nav a[href='#/rollouts']");
      await looksAtRollouts(page, seen);
      await checked(page, wrong, `rollouts-${width}`);
      await page.selectOption("select[name=order]", "reward");
      await page.click(".scrolled tbody a");
      await page.waitForSelector(".message.sampled");
      seen.answer = await page.locator(".message.sampled pre").first().innerText();
      await checked(page, wrong, `rollout-${width}`);
      await page.click("button:has-text('Tokens')");
      await page.waitForSelector(".token");
      seen.tokens = (await page.locator(".token").allInnerTexts()).join("");
      seen.sampled = await page.locator(".token:not(.given)").count();
      await page.focus(".tokens");
      for (let index = 0; index < 3; index += 1) await page.keyboard.press("ArrowRight");
      seen.text = await page.locator(".token-facts").innerText();
      await checked(page, wrong, `tokens-${width}`);
      await page.click("nav a[href='#/rollouts']");
      await page.selectOption("select[name=mode]", "train");
      await page.click(".scrolled td a[href^='#/groups']");
      await page.waitForSelector("main tbody a");
      seen.members = await page.locator("main tbody tr").count();
      await page.locator(".member").first().scrollIntoViewIfNeeded();
      await page.waitForSelector(".member p:has-text('token')");
      seen.parts_at = await page.locator(".parts-at").allInnerTexts();
      await checked(page, wrong, `group-${width}`);
      await page.click("a:has-text('compare')");
      seen.difference = await page.locator(".difference").innerText();
      // Blocks of tokens are drawn once they come into view.
      await page.waitForSelector(".token.marked >> nth=1");
      seen.marked = await page.locator(".token.marked").allInnerTexts();
      await checked(page, wrong, `compare-${width}`);
      if (wrong.length) throw new Error(wrong.join("\n"));
      await context.close();
    }
    return seen;
  },

  /** A key that is wrong, one that is right, and what the cookie alone may do. */
  async login() {
    const [wrongKey, rightKey] = values;
    const { page, context, wrong } = await opened(1280, ["401", "403"]);
    await page.goto(`${url}/`);
    await page.fill("input[name=key]", wrongKey);
    await page.click("button");
    const refused = await page.locator("[role=alert]").innerText();
    await checked(page, wrong, "login");
    await page.fill("input[name=key]", rightKey);
    await page.click("button");
    await page.waitForSelector("h1:has-text('Runs')");
    const [cookie] = await context.cookies();
    const post = await page.evaluate(async () => {
      const body = JSON.stringify({ rollouts: [{ input: 1 }] });
      const headers = { "content-type": "application/json" };
      const answer = await fetch("/v1/agl/queues/rollouts/enqueue", { method: "POST", body, headers });
      return { status: answer.status, text: await answer.text(), cookie: document.cookie };
    });
    if (wrong.length) throw new Error(wrong.join("\n"));
    return { refused, cookie: { httpOnly: cookie.httpOnly, sameSite: cookie.sameSite, name: cookie.name }, post };
  },

  /** An answer that is a script, at ROLLOUT. */
  async hostile() {
    const { page, wrong } = await opened(1280);
    for (const address of ["#/rollouts", `#/rollouts/${values[0]}`]) {
      await page.goto(`${url}/${address}`);
      await page.waitForSelector("main h1");
      await page.waitForFunction(() => document.body.innerText.includes("<script>"));
    }
    const isRun = await page.evaluate(() => "hacked" in globalThis);
    if (wrong.length) throw new Error(wrong.join("\n"));
    return { isRun, text: await page.locator("main").innerText() };
  },

  /** The file of a report: its runs, then the run RUN with all that is folded opened. */
  async report() {
    const seen = {};
    for (const width of [1280, 390]) {
      const { page, context, wrong } = await opened(width);
      await page.goto(url);
      await page.waitForSelector(".chart canvas");
      seen.runs = await page.locator("table.runs tbody tr").count();
      seen.lines = await page.locator(".parallel path").count();
      seen.curves = await page.locator("select[name=curve] option").allInnerTexts();
      await checked(page, wrong, `report-${width}`);
      await page.click(`table.runs a:text-is("${values[0]}")`);
      await page.waitForSelector(".ledger li");
      await page.waitForSelector("table.facts");
      await page.evaluate(() => {
        for (const folded of document.querySelectorAll("details")) folded.open = true;
      });
      seen.charts = await page.locator(".chart").count();
      seen.changed = await page.locator("table.changed tbody tr").count();
      seen.text = await page.locator("main").innerText();
      seen.links = await page.locator("nav a").count();
      seen.isRun = await page.evaluate(() => "hacked" in globalThis);
      await checked(page, wrong, `report-run-${width}`);
      if (wrong.length) throw new Error(wrong.join("\n"));
      await context.close();
    }
    return seen;
  },

  /** What is not there, and a server that goes away: a line on standard input says that it has gone. */
  async missing() {
    const { page } = await opened(1280);
    const pages = [];
    for (const address of ["#/runs/none", "#/rollouts/none", "#/nowhere"]) {
      await page.goto(`${url}/${address}`);
      await page.waitForSelector("[role=alert], h1:has-text('no such page')");
      pages.push(await page.locator("main").innerText());
    }
    await page.goto(`${url}/#/runs`);
    await page.waitForSelector("h1:has-text('Runs')");
    await answered();
    await page.waitForSelector("[role=alert]:has-text('does not answer')");
    return { pages, offline: await page.locator("main").innerText() };
  },

  /**
   * The list and the run RUN while updates come: says ready, waits for a line, then for one more update in both. With a
   * second value, `polling`, the stream of events is not to be had.
   */
  async live() {
    const [run, how] = values;
    const { page: list, wrong } = await opened(1280, ["ERR_FAILED"]);
    const { page, wrong: wrongToo } = await opened(1280, ["ERR_FAILED"]);
    if (how === "polling") {
      for (const one of [list, page]) await one.route("**/ui/data/events", (route) => route.abort());
    }
    await list.goto(`${url}/#/runs`);
    await page.goto(`${url}/#/runs/${run}`);
    await page.waitForSelector(".chart canvas");
    await list.waitForSelector("table.runs tbody a");
    const row = list.locator("table.runs tr", { has: list.locator(`a:text-is("${run}")`) }).locator(".updates");
    const counts = async () => ({
      row: Number.parseInt(await row.innerText(), 10),
      points: Math.max(
        ...(await page.locator(".chart").evaluateAll((charts) => charts.map((chart) => Number(chart.dataset.points)))),
      ),
    });
    // What is zoomed stays where it is.
    const chart = page.locator(".chart [role=img]").first();
    const box = await chart.locator(".u-over").boundingBox();
    await page.mouse.move(box.x + box.width * 0.2, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 4 });
    await page.mouse.up();
    const zoomed = [await chart.getAttribute("data-range")];
    for (const one of [list, page]) await one.waitForSelector(`.mark.${how ?? "live"}`);
    const marks = [await list.locator(".mark").innerText(), await page.locator(".mark").innerText()];
    const before = await counts();
    await answered();
    let after = before;
    const until = Date.now() + 60_000;
    while ((after.row <= before.row || after.points <= before.points) && Date.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      after = await counts();
    }
    if (wrong.length + wrongToo.length) throw new Error([...wrong, ...wrongToo].join("\n"));
    zoomed.push(await chart.getAttribute("data-range"));
    return { marks, before, after, zoomed };
  },

  /** Ten thousand rollouts: as many as ROWS are asked for, and scrolled through to the end. */
  async many() {
    const most = Number(values[0] ?? 10_000);
    const { page, wrong } = await opened(1280);
    await page.goto(`${url}/#/rollouts`);
    await page.waitForSelector(".scrolled tbody a");
    const rows = async () => Number(await page.getAttribute(".scrolled table", "aria-rowcount"));
    const pagingStart = Date.now();
    while ((await rows()) < most && (await page.locator("button.older").count())) {
      const before = await rows();
      await page.click("button.older:not([disabled])");
      await page.waitForFunction(
        (before) =>
          Number(document.querySelector(".scrolled table").getAttribute("aria-rowcount")) > before ||
          !document.querySelector("button.older"),
        before,
      );
    }
    const rowcount = await rows();
    const scrollStart = Date.now();
    await page.locator(".scrolled").evaluate((region) => (region.scrollTop = region.scrollHeight));
    await page.waitForSelector(`.scrolled tr[aria-rowindex="${rowcount}"]`);
    const ms = Date.now() - scrollStart;
    await checked(page, wrong, "many");
    if (wrong.length) throw new Error(wrong.join("\n"));
    return {
      rowcount,
      drawn: await page.locator(".scrolled tbody tr").count(),
      ms,
      paging_ms: scrollStart - pagingStart,
    };
  },
};

const tools = { opened, checked, answered, url, values };
Object.assign(scenes, rolloutScenes(tools), serverScenes(tools), partnerScenes({ browser, url, values }));

try {
  console.log(JSON.stringify(await scenes[scene]()));
} finally {
  await browser.close();
}
process.exit(0);
