// Scenes of one rollout: its conversations, and its tokens.
// walk.mjs gives what pages are opened and looked at with.

export const rolloutScenes = ({ opened, checked, answered, url, values }) => ({
  /** A rollout with conversations inside others, at ROLLOUT: how they are nested, and what the time line says. */
  async tree() {
    const seen = {};
    for (const width of [1280, 390]) {
      const { page, context, wrong } = await opened(width);
      await page.goto(`${url}/#/rollouts/${values[0]}`);
      await page.waitForSelector(".thread .call");
      seen.threads = await page.locator(".thread").count();
      seen.nested = await page.locator(".thread .thread").count();
      seen.calls = await page.locator(".thread .call").count();
      seen.headings = await page.locator(".thread > h3").allInnerTexts();
      seen.seams = await page.locator(".seam").allInnerTexts();
      seen.tools = await page.locator(".tool-call").allInnerTexts();
      seen.bars = await page.locator(".timeline rect").count();
      await page.focus(".timeline");
      await page.keyboard.press("ArrowRight");
      seen.text = await page.locator(".timeline p").innerText();
      await page.keyboard.press("Enter");
      seen.focused = await page.evaluate(() => document.activeElement?.getAttribute("data-event"));
      await checked(page, wrong, `tree-${width}`);
      if (wrong.length) throw new Error(wrong.join("\n"));
      await context.close();
    }
    return seen;
  },

  /** ROLLOUT, which has a call, before and after it has another. */
  async grows() {
    const { page, wrong } = await opened(1280);
    await page.goto(`${url}/#/rollouts/${values[0]}`);
    await page.waitForSelector(".thread .call");
    const before = await page.locator(".thread .call").count();
    await answered();
    await page.waitForSelector(".thread .call >> nth=1");
    const after = await page.locator(".thread .call").count();
    if (wrong.length) throw new Error(wrong.join("\n"));
    return { before, after };
  },

  /** The tokens of ROLLOUT, which was trained, in the colours of what its update made of them. */
  async trained() {
    const seen = {};
    for (const width of [1280, 390]) {
      const { page, context, wrong } = await opened(width);
      await page.goto(`${url}/#/rollouts/${values[0]}?as=tokens`);
      await page.waitForSelector(".token");
      seen.legends = {};
      for (const colour of ["advantage", "ratio", "entropy", "verdict"]) {
        await page.selectOption("label:has-text('colour') select", colour);
        seen.legends[colour] = (await page.locator(".legend li").allInnerTexts()).map((words) => words.trim());
        await checked(page, wrong, `trained-${colour}-${width}`);
      }
      await page.selectOption("label:has-text('colour') select", "ratio");
      const sampled = page.locator(".token:not(.given)").first();
      await sampled.dispatchEvent("mouseover");
      await page.waitForSelector(".token.chosen");
      seen.ratio = await sampled.getAttribute("class");
      seen.text = await page.locator(".token-facts").innerText();
      await page.selectOption("label:has-text('colour') select", "entropy");
      seen.entropy = await sampled.getAttribute("class");
      if (wrong.length) throw new Error(wrong.join("\n"));
      await context.close();
    }
    return seen;
  },

  /** The conversation of ROLLOUT by what rendered it and by RENDERER, from the rollout's own page. */
  async renderings() {
    const seen = {};
    for (const width of [1280, 390]) {
      const { page, context, wrong } = await opened(width, ["400"]);
      await page.goto(`${url}/#/rollouts/${values[0]}`);
      await page.click("a:has-text('under two renderers')");
      const right = page.locator("label:has-text('renderer B') select");
      await page.waitForSelector("label:has-text('renderer B') select:not([disabled])");
      await checked(page, wrong, `renderings-none-${width}`);
      seen.offered = await right.locator("option").evaluateAll((all) => all.map((one) => one.value));
      await right.selectOption(values[1]);
      await page.waitForSelector(".difference");
      seen.difference = await page.locator(".difference").innerText();
      const other = page.locator("section[aria-label='Renderer B']");
      await other.locator(".token.marked").scrollIntoViewIfNeeded();
      seen.marked = await other.locator(".token.marked").evaluateAll((all) => all.map((one) => one.dataset.at));
      seen.differing = await other.locator(".token.differs").count();
      await checked(page, wrong, `renderings-${width}`);
      await page.goto(`${url}/#/compare?conversation=${values[0]}&right=nobody`);
      await page.waitForSelector("[role=alert]");
      seen.refused = await page.locator("[role=alert]").innerText();
      await checked(page, wrong, `renderings-refused-${width}`);
      if (wrong.length) throw new Error(wrong.join("\n"));
      await context.close();
    }
    return seen;
  },

  /** The same where no model's tokenizer is at hand, from the form of the comparison's page. */
  async renderings_alone() {
    const { page, wrong } = await opened(1280);
    await page.goto(`${url}/#/compare`);
    await page.fill("input[name=conversation]", values[0]);
    await page.click("button:has-text('Render')");
    await page.waitForSelector("[role=alert]");
    const text = await page.locator("[role=alert]").innerText();
    const disabled = await page.locator("select[disabled]").count();
    await checked(page, wrong, "renderings-alone");
    if (wrong.length) throw new Error(wrong.join("\n"));
    return { text, disabled };
  },

  /** The tokens of ROLLOUT, from the first to the last by scrolling, in each choice of colours. */
  async tokens64k() {
    const { page, wrong } = await opened(1280);
    await page.goto(`${url}/#/rollouts/${values[0]}?as=tokens`);
    const began = Date.now();
    await page.waitForSelector(".token");
    const drawn = Date.now() - began;
    const tokens = Number.parseInt(await page.locator(".token-facts").innerText(), 10);
    const scrolled = await page.evaluate(async () => {
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const root = document.documentElement;
      let [frames, slowest, most, last] = [0, 0, 0, performance.now()];
      const start = last;
      while (root.scrollTop + root.clientHeight < root.scrollHeight - 2 && frames < 2000) {
        root.scrollTop += 600;
        await frame();
        const now = performance.now();
        [frames, slowest, last] = [frames + 1, Math.max(slowest, now - last), now];
        most = Math.max(most, document.getElementsByTagName("*").length);
      }
      return { frames, slowest: Math.round(slowest), ms: Math.round(last - start), nodes: most };
    });
    const end = await page.locator(".token").last().getAttribute("data-at");
    await page.focus(".tokens");
    const pressed = Date.now();
    await page.keyboard.press("p");
    await page.waitForSelector(".token.chosen");
    const jumped = { ms: Date.now() - pressed, text: await page.locator(".token-facts").innerText() };
    const colours = {};
    for (const colour of await page
      .locator("select >> nth=0 >> option")
      .evaluateAll((all) => all.map((one) => one.value))) {
      const changed = Date.now();
      await page.selectOption("select >> nth=0", colour);
      await page.waitForSelector(".token.chosen");
      colours[colour] = { ms: Date.now() - changed, legend: await page.locator(".legend li").allInnerTexts() };
    }
    // A picture of all of it would be no picture: of one call's sampled tokens it is.
    await page.evaluate(() => {
      for (const call of [...document.querySelectorAll(".tokens section")].slice(0, -1)) call.remove();
    });
    await checked(page, wrong, "tokens64k");
    if (wrong.length) throw new Error(wrong.join("\n"));
    return { tokens, drawn, ...scrolled, last: Number(end), jumped, colours };
  },
});
