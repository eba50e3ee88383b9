// Scenes of pages that others have made, over our server.
import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";

const KINDS = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

export const partnerScenes = ({ browser, url, values }) => ({
  /** Agent-lightning's dashboard, whose files are in DIRECTORY, with its data from the server: each of its lists. */
  async agentlightning() {
    const directory = values[0];
    const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
    const page = await context.newPage();
    const failed = [];
    page.on("pageerror", (error) => failed.push(error.message));
    page.on("response", (response) => {
      if (response.status() >= 400)
        failed.push(`${response.status()} ${response.request().method()} ${response.url()}`);
    });
    await page.route(`${url}/**`, async (route) => {
      const { pathname } = new URL(route.request().url());
      // What is no file of theirs and none of the server's routes is their page.
      const path = join(directory, pathname);
      if (pathname.startsWith("/assets/") && existsSync(path)) {
        await route.fulfill({ body: readFileSync(path), contentType: KINDS[extname(path)] });
      } else if (route.request().resourceType() === "document") {
        await route.fulfill({ body: readFileSync(join(directory, "index.html")), contentType: KINDS[".html"] });
      } else {
        await route.continue();
      }
    });
    const seen = { failed };
    for (const list of ["rollouts", "traces", "runners", "resources"]) {
      await page.goto(`${url}/${list}`);
      await page.waitForSelector("table tbody tr");
      // Rows of a skeleton come first.
      await page.waitForFunction(() => /\w/.test(document.querySelector("table tbody")?.innerText ?? ""));
      seen[list] = await page.locator("table tbody tr").allInnerTexts();
      if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/agentlightning-${list}.png` });
    }
    return seen;
  },
});
