// Opens the page WANTED, signs in as EMAIL, adds tasks, with two workspaces in a tab each, and signs out; prints what
// the browser has had, as JSON.
import puppeteer from "puppeteer-core";

const { CHROMIUM, EMAIL, ORIGIN, WANTED } = process.env;
const args = ["--no-sandbox", "--disable-gpu", "--no-first-run"];
const browser = await puppeteer.launch({ executablePath: CHROMIUM, args, acceptInsecureCerts: true });
try {
  const page = await browser.newPage();
  const seen = {};
  await page.goto(ORIGIN + WANTED);
  await page.waitForSelector("[name=login]", { timeout: 10000 }).catch(async () => {
    throw new Error(`${page.url()}: ${await page.content()}`);
  });
  await page.type("[name=login]", EMAIL);
  await page.type("[name=password]", "any");
  await Promise.all([page.waitForNavigation(), page.click("[type=submit]")]);
  await Promise.all([page.waitForNavigation({ waitUntil: "networkidle0" }), page.click("[type=submit]")]);
  seen.url = page.url();
  const cookies = async () => (await browser.cookies()).filter(({ name }) => name === "session");
  const [cookie] = await cookies();
  if (cookie && (await page.$("[name=title]"))) {
    const { path, httpOnly, secure, sameSite } = cookie;
    seen.cookie = { path, httpOnly, secure, sameSite };
    seen.script = await page.evaluate("document.cookie");
    const titles = (tab) => tab.$$eval("li", (items) => items.map((item) => item.textContent));
    const add = async (tab, title) => {
      await tab.type("[name=title]", title);
      await tab.click("form button");
      await tab.waitForFunction((text) => document.querySelector("li")?.textContent === text, {}, title);
      await tab.$eval("form", (form) => form.reset());
    };
    await add(page, "From a browser");
    seen.tasks = await titles(page);
    if (await page.$("option:not(:checked)")) {
      const other = await browser.newPage();
      await other.goto(`${ORIGIN}/`, { waitUntil: "networkidle0" });
      await other.select("select", await other.$eval("option:not(:checked)", ({ value }) => value));
      await other.waitForFunction(() => !document.querySelector("li"));
      await add(other, "From the other tab");
      await page.bringToFront();
      await add(page, "Again");
      await page.reload({ waitUntil: "networkidle0" });
      await other.reload({ waitUntil: "networkidle0" });
      seen.tabs = [await titles(page), await titles(other)];
    }
    await page.click("#out");
    // The provider asks whether to end its session, and then who comes next.
    await page.waitForSelector("[name=logout]");
    seen.left = (await cookies()).length;
    await page.click("[name=logout]");
    await page.waitForSelector("[name=login]");
  }
  seen.text = await page.evaluate("document.body.textContent");
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
