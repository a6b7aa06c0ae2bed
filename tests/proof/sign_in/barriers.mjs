// Opens both example pages with a task, by day and by night, on a phone and on a screen. Prints the serious barriers for
// people with disabilities that axe-core finds there.
import { readFileSync } from "node:fs";
import { add, signIn, tell } from "./browser.mjs";

const { ORIGIN, TOKEN } = process.env;
const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
await tell(async (browser) => {
  const page = await browser.newPage();
  const found = {};
  const look = async (name) => {
    for (const width of [390, 1280]) {
      for (const value of ["light", "dark"]) {
        await page.setViewport({ width, height: 844 });
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
        await page.evaluate(axe);
        const { passes, violations } = await page.evaluate("axe.run()");
        const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
        const places = serious.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target}`));
        found[`${name}, ${width}, ${value}`] = [passes.length > 10, places];
      }
    }
  };
  await page.goto(`${ORIGIN}/assets/tasks.html`);
  await look("entrance");
  await page.$eval("#service", (field, url) => (field.value = url), ORIGIN);
  await page.type("#token", TOKEN);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#create", { visible: true });
  for (const title of ["Late", "Open"]) {
    await page.type("#create [name=title]", title);
    await page.$eval("#create [name=dueDate]", (field) => (field.value = "2020-01-01"));
    await page.keyboard.press("Enter");
    await page.waitForSelector(`[aria-label="Done: ${title}"]`);
  }
  await page.click("[data-name=Done]");
  await page.waitForSelector("#undo", { visible: true });
  await look("tasks");
  await signIn(page, "alice@example.com");
  await add(page, "From a browser");
  await look("sign-in");
  return found;
});
