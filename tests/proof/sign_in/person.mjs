// Opens the page WANTED, signs in as LOGIN, adds tasks in two tabs with a workspace each, and signs out. Prints what the
// browser has shown and stored.
import { add, cookies, signIn, tell, text, titles } from "./browser.mjs";

const { LOGIN, ORIGIN, WANTED } = process.env;
await tell(async (browser) => {
  const page = await browser.newPage();
  await signIn(page, LOGIN, WANTED);
  const seen = { url: page.url() };
  const [cookie] = await cookies(browser);
  if (cookie && (await page.$("[name=title]"))) {
    const { path, httpOnly, secure, sameSite } = cookie;
    seen.cookie = { path, httpOnly, secure, sameSite };
    seen.script = await page.evaluate("document.cookie");
    await add(page, "From a browser");
    seen.tasks = await titles(page);
    const elsewhere = "option:not(:checked):not(:disabled)";
    if (await page.$(elsewhere)) {
      const other = await browser.newPage();
      await other.goto(`${ORIGIN}/`, { waitUntil: "networkidle0" });
      await other.select("select", await other.$eval(elsewhere, ({ value }) => value));
      await other.waitForFunction(() => !document.querySelector("li"));
      await add(other, "From the other tab");
      await page.bringToFront();
      await add(page, "Again");
      await page.reload({ waitUntil: "networkidle0" });
      await other.reload({ waitUntil: "networkidle0" });
      seen.tabs = [await titles(page), await titles(other)];
    }
    await page.click("#out");
    // The provider asks whether to end its session, and then shows its form for the next person.
    await page.waitForSelector("[name=logout]");
    seen.left = (await cookies(browser)).length;
    await page.click("[name=logout]");
    await page.waitForSelector("[name=login]");
  }
  return { ...seen, text: await text(page) };
});
