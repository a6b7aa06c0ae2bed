// Opens both example pages in each of their states, and the page of the login page, by day and by night, on a phone and
// on a screen. Prints the serious barriers for people with disabilities that axe-core finds there, and what is too faint.
import { readFileSync } from "node:fs";
import { add, signIn, tell } from "./browser.mjs";

const { ORIGIN, PICTURES, TOKEN } = process.env;
const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
// axe-core does not look at placeholders.
const faint = () => {
  const light = (color) => {
    const parts = color.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const contrast = (field) => {
    const pair = [getComputedStyle(field, "::placeholder").color, getComputedStyle(field).backgroundColor].map(light);
    return Math.max(...pair) / Math.min(...pair);
  };
  const fields = [...document.querySelectorAll("[placeholder]")].filter((field) => field.checkVisibility());
  return fields.filter((field) => contrast(field) < 4.5).map((field) => `${field.placeholder} ${contrast(field)}`);
};
await tell(async (browser) => {
  let page = await browser.newPage();
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
        const wide = await page.evaluate("document.documentElement.scrollWidth");
        if (wide > width) places.push(`${wide} px wide`);
        found[`${name}, ${width}, ${value}`] = [passes.length > 10, [...places, ...(await page.evaluate(faint))]];
        if (PICTURES) await page.screenshot({ path: `${PICTURES}/${name}-${width}-${value}.png` });
      }
    }
  };
  const failing = async (status) => {
    await page.evaluate((status) => {
      window.real ??= window.fetch;
      const error = { message: "raw", requestId: "0190163d-8694-739b-aea5-966c26f8ad91" };
      window.fetch = status ? async () => new Response(JSON.stringify(error), { status }) : window.real;
    }, status);
  };
  const told = () => page.waitForFunction(() => document.querySelector("[role=alert]").textContent);
  await page.goto(`${ORIGIN}/assets/tasks.html`);
  await look("tasks-entrance");
  await page.$eval("#service", (field, url) => (field.value = url), ORIGIN);
  await page.type("#token", "unknown");
  await page.keyboard.press("Enter");
  await told();
  await look("tasks-refused");
  await page.$eval("#token", (field) => (field.value = ""));
  await page.type("#token", TOKEN);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#empty", { visible: true });
  await look("tasks-empty");
  const texts = ["Late", "Open", "A long title that does not fit into one line of a phone, nor into two"];
  for (const [number, title] of texts.entries()) {
    await page.type("#create [name=title]", title);
    if (number < 2) await page.$eval("#create [name=dueDate]", (field) => (field.value = "2020-01-01"));
    await page.keyboard.press("Enter");
    await page.waitForSelector(`[aria-label="Done: ${title}"]`);
  }
  await page.click("[data-name=Done]");
  await page.waitForSelector("#undo", { visible: true });
  await page.$eval("#more", (button) => (button.hidden = false));
  await look("tasks");
  await failing(500);
  await page.click("[data-name=Done]");
  await told();
  await look("tasks-failed");
  // A browser without the session of the person below.
  page = await (await browser.createBrowserContext()).newPage();
  await signIn(page, "nobody@example.com");
  await look("login-refused");
  page = await browser.newPage();
  await signIn(page, "alice@example.com");
  await page.select("select", await page.$eval("option:not(:disabled)", ({ value }) => value));
  await add(page, "From a browser");
  await page.$eval("#more", (button) => (button.hidden = false));
  await look("sign-in");
  await failing(500);
  await page.type("[name=title]", "More");
  await page.click("form button");
  await told();
  await look("sign-in-failed");
  return found;
});
