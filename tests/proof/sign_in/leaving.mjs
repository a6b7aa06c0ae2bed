// Signs in, opens the page in two tabs, and signs out in the first tab while that is still loading its list. Prints the
// sign that the first tab showed before, and what both tabs then show.
import { cookies, signIn, tell, text } from "./browser.mjs";

const { LOGIN, ORIGIN, POLLS } = process.env;
await tell(async (browser) => {
  const page = await browser.newPage();
  await signIn(page, LOGIN);
  const other = await browser.newPage();
  await other.goto(`${ORIGIN}/`, { waitUntil: "domcontentloaded" });
  await other.waitForSelector("option");
  await page.bringToFront();
  const lists = (request) => request.method() === "GET" && request.url().endsWith("/api/tasks");
  const added = page.waitForResponse((response) => response.request().method() === "POST");
  await page.type("[name=title]", "Held");
  await page.click("form button");
  await added;
  await page.waitForRequest(lists);
  const sign = await page.$eval("[role=status]", ({ textContent }) => textContent);
  await page.click("#out");
  const asked = (tab) => tab.waitForSelector("[name=logout], [name=login]", { timeout: 10000 });
  await asked(page).catch(() => null);
  if (POLLS) await asked(other).catch(() => null);
  return { sign, tabs: [await text(page), await text(other)], left: (await cookies(browser)).length };
});
