// What a person looks at on the pages of runs and rollouts; what was seen goes into `seen`.

/** The charts of a run, and what stands beside them. */
export async function looksAtRun(page, seen) {
  await page.waitForSelector(".chart canvas");
  await page.waitForSelector(".ledger li");
  await page.waitForSelector(".alarms");
  // What changed is nothing where the run has no held-out tasks.
  const isRequested = () =>
    performance.getEntriesByType("resource").some((entry) => entry.name.endsWith("/changed") && entry.responseEnd > 0);
  await page.waitForFunction(isRequested);
  await page.waitForTimeout(200);
  seen.charts = await page.locator(".chart").count();
  seen.ledger = await page.locator(".ledger li").count();
  seen.stacked = await page.locator(".stacked > *").count();
  seen.groups = await page.locator("main h2").allInnerTexts();
  seen.alarms = await page.locator(".finding").count();
  seen.changed = await page.locator("table.changed tbody tr").count();
  seen.mark = await page.locator(".mark").innerText();
  const chart = page.locator(".chart [role=img]").first();
  await chart.focus();
  for (const key of ["ArrowRight", "ArrowRight", "+"]) await page.keyboard.press(key);
  seen.pointed = await page.locator(".chart .pointed").first().innerText();
  await page.keyboard.press("Escape");
  await page.focus("input[name=smoothing]");
  for (let index = 0; index < 4; index += 1) await page.keyboard.press("ArrowRight");
  seen.smoothing = await page.locator("output").innerText();
  await page.check("input[name=log]");
  seen.logarithmic = await page.locator(".chart figcaption:has-text('logarithmic')").count();
  if (await page.locator("select[name=seeds]").count()) await page.selectOption("select[name=seeds]", "band");
}

/** The list of runs, with other runs drawn than at first. */
export async function looksAtRuns(page, seen) {
  await page.waitForSelector("table.runs tbody a");
  seen.runs = await page.locator("table.runs tbody tr").count();
  const first = page.locator("table.runs input[type=checkbox]").first();
  await first.uncheck();
  seen.drawn = await page.locator("table.runs input:checked").count();
  await first.check();
  for (const over of ["seconds", "tokens", "cost", "updates"]) {
    await page.selectOption("select[name=over]", over);
    await page.waitForSelector(".chart canvas, main section p.quiet");
  }
  await page.waitForSelector(".chart canvas");
  seen.lines = await page.locator(".parallel path").count();
}

/** The rollout that a click into the picture opens: clicked from its left end on until a point is hit. */
async function opensPoint(page) {
  await page.locator(".scatter canvas").scrollIntoViewIfNeeded();
  const address = await page.locator(".scatter canvas").evaluate((canvas) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const before = location.hash;
    for (let x = 50; x < width && location.hash === before; x += 10) {
      for (let y = 5; y < height && location.hash === before; y += 10) {
        canvas.dispatchEvent(new MouseEvent("click", { clientX: left + x, clientY: top + y, bubbles: true }));
      }
    }
    return location.hash;
  });
  await page.waitForSelector("h1:has-text('Rollout ')");
  await page.goBack();
  await page.waitForSelector(".scrolled tbody a");
  return address;
}

/** Rollouts, narrowed down by expressions that are right and wrong. */
export async function looksAtRollouts(page, seen) {
  const rows = async () => Number(await page.getAttribute(".scrolled table", "aria-rowcount"));
  await page.waitForSelector(".scrolled tbody a");
  seen.rollouts = await rows();
  if (await page.locator(".scatter canvas").count()) seen.point = await opensPoint(page);
  await page.fill("input[name=where]", "reward >=");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#where-failure");
  seen.refused = await page.locator("#where-failure").innerText();
  await page.fill("input[name=where]", "mode = train");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".scrolled tbody a");
  seen.filtered = await rows();
  await page.click("button:has-text('Clear')");
  await page.waitForSelector(".scrolled tbody a");
}
