// Scenes of a server: what it holds, and its models by hand.
// walk.mjs gives what pages are opened and looked at with.
import { readFileSync } from "node:fs";

export const serverScenes = ({ opened, checked, url, values }) => ({
  /** What a server holds, and the spans of ROLLOUT as a waterfall. */
  async store() {
    const seen = {};
    for (const width of [1280, 390]) {
      const { page, context, wrong } = await opened(width);
      await page.goto(`${url}/`);
      await page.click("nav a[href='#/store']");
      await page.waitForSelector(".counts li");
      await page.waitForSelector("section.resources :is(details, p:not(.quiet))");
      const texts = (of) => page.locator(of).allInnerTexts();
      seen.models = await texts("table.models tbody tr");
      seen.counts = await texts(".counts li");
      seen.workers = await texts("table.workers tbody tr");
      seen.resources = await texts(".resources summary");
      seen.changed = await texts(".resource .added, .resource .removed");
      await checked(page, wrong, `store-${width}`);
      if (values[0]) {
        await page.fill("input[name=rollout]", values[0]);
        await page.click("button:has-text('Show')");
        await page.waitForSelector(".waterfall li");
        seen.spans = await page.locator(".waterfall li").count();
        seen.inside = await page.locator(".waterfall li li").count();
        seen.bars = await page.locator(".waterfall .bar rect").count();
        await page.click(".waterfall summary >> nth=0");
        seen.text = await page.locator(".waterfall details[open] pre").innerText();
        await checked(page, wrong, `waterfall-${width}`);
      }
      if (wrong.length) throw new Error(wrong.join("\n"));
      await context.close();
    }
    return seen;
  },

  /** What is published, and what each of so many servers has of it. */
  async weights() {
    const seen = {};
    for (const width of [1280, 390]) {
      const { page, context, wrong } = await opened(width);
      await page.goto(`${url}/#/store`);
      await page.waitForSelector(`table.servers tbody tr >> nth=${Number(values[0]) - 1}`);
      const section = page.locator("section:has(table.servers)");
      seen.published = await section.locator("p").first().innerText();
      seen.rows = await section.locator("tbody tr").evaluateAll((rows) =>
        rows.map((row) => {
          const cells = [...row.children];
          const failures = cells.flatMap((cell, place) => (cell.classList.contains("failure") ? [place] : []));
          return { cells: cells.map((cell) => cell.innerText.trim()), failures };
        }),
      );
      await checked(page, wrong, `weights-${width}`);
      if (wrong.length) throw new Error(wrong.join("\n"));
      await context.close();
    }
    return seen;
  },

  /** Asks MODEL, makes a task, a reward and, with OTHER beside it, a comparison; KEY is given when it is asked for. */
  async play() {
    const [model, key, other] = values;
    const { page, wrong } = await opened(1280, ["401", "403"]);
    await page.goto(`${url}/#/play`);
    const isIn = page.locator("textarea, p:has-text('No model is served')");
    await page.locator("input[name=key]").or(isIn).first().waitFor();
    if (await page.locator("input[name=key]").count()) {
      await page.fill("input[name=key]", key);
      await page.click("button:has-text('Enter')");
    }
    await isIn.first().waitFor();
    if (!(await page.locator("textarea").count())) return { none: await page.locator("main").innerText() };
    const seen = {};
    await page.selectOption("label:has-text('model') select", model);
    if (other) await page.selectOption("label:has-text('beside') select", other);
    await page.fill("textarea >> nth=0", "Say 17.");
    await page.fill("input[name=most]", "16");
    await page.click("button[name=send]");
    /** A key, if the server wants one now. */
    const keyed = async (until) => {
      await page.locator("form.key input").or(page.locator(until)).first().waitFor();
      if (!(await page.locator("form.key input").count())) return;
      seen.alert = await page.locator("[role=alert]").innerText();
      await checked(page, wrong, "play-key");
      await page.fill("form.key input", key);
      await page.click("form.key button");
    };
    await keyed(".answer");
    await page.waitForSelector(`.answer >> nth=${other ? 1 : 0}`);
    // Until the answers are whole there is a button to stop them in its place.
    await page.waitForSelector("button[name=send]");
    seen.answers = (await page.locator(".answer pre").allInnerTexts()).map((text) => text.trim());
    seen.tokens = await page.locator(".answer >> nth=0 >> .token").count();
    await page.focus(".answer .tokens");
    await page.keyboard.press("ArrowRight");
    seen.text = await page.locator(".answer p.quiet").first().innerText();
    if (other && (await page.locator("button:has-text('The left one')").count())) {
      const kept = page.waitForEvent("download");
      await page.click("button:has-text('The left one')");
      seen.pair = JSON.parse(readFileSync(await (await kept).path(), "utf8"));
    }
    await checked(page, wrong, "play");
    await page.click("button:has-text('Put it on the queue')");
    await page.waitForSelector("[role=status] a");
    seen.task = await page.locator("[role=status] a").innerText();
    await page.click("button:has-text('Give it')");
    await page.waitForSelector("[role=status] >> nth=1");
    seen.rewarded = await page.locator("[role=status] a >> nth=1").innerText();
    await page.setViewportSize({ width: 390, height: 900 });
    await checked(page, wrong, "play-390");
    await page.click("button:has-text('Go on with this answer') >> nth=0");
    seen.messages = await page.locator(".typed textarea").evaluateAll((all) => all.map((one) => one.value));
    seen.stored = await page.evaluate(() => localStorage.length + sessionStorage.length);
    // An answer that does not end by itself.
    await page.evaluate(() => {
      const real = globalThis.fetch;
      globalThis.fetch = (path, options) => {
        if (!String(path).endsWith("/chat/completions")) return real(path, options);
        const piece = (token) => ({ delta: { content: token }, logprobs: { content: [{ token, logprob: -1 }] } });
        const event = (token) => `data: ${JSON.stringify({ choices: [piece(token)] })}\n\n`;
        const bytes = new TextEncoder().encode(event("one") + event(" two"));
        const begin = (stream) => {
          // An event may be cut anywhere.
          stream.enqueue(bytes.slice(0, 30));
          stream.enqueue(bytes.slice(30));
          options.signal.addEventListener("abort", () => stream.error(options.signal.reason));
        };
        return Promise.resolve(new Response(new ReadableStream({ start: begin })));
      };
    });
    await page.locator(".typed textarea").last().fill("Go on.");
    await page.click("button[name=send]");
    await page.waitForSelector(".answer >> nth=0 >> .token >> nth=1");
    seen.growing = await page.locator(".answer pre").first().innerText();
    await page.click("button:has-text('Stop')");
    await page.waitForSelector("button[name=send]");
    seen.stopped = await page.locator(".answer").first().innerText();
    if (wrong.length) throw new Error(wrong.join("\n"));
    return seen;
  },
});
