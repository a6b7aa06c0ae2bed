// Signs in as EMAIL, adds a task and signs out; prints what the browser has had, as JSON.
import puppeteer from "puppeteer-core";

const { CHROMIUM, EMAIL, ORIGIN } = process.env;
const args = ["--no-sandbox", "--disable-gpu", "--no-first-run"];
const browser = await puppeteer.launch({ executablePath: CHROMIUM, args, acceptInsecureCerts: true });
try {
  const page = await browser.newPage();
  const seen = {};
  await page.goto(`${ORIGIN}/`);
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
  if (cookie) {
    const { path, httpOnly, secure, sameSite } = cookie;
    seen.cookie = { path, httpOnly, secure, sameSite };
    seen.script = await page.evaluate("document.cookie");
    await page.type("[name=title]", "From a browser");
    await page.click("form button");
    await page.waitForSelector("li");
    seen.tasks = await page.$$eval("li", (items) => items.map((item) => item.textContent));
    await page.click("#out");
    await page.waitForFunction(() => document.body.textContent.includes("signed out"));
    seen.left = (await cookies()).length;
    seen.after = await page.evaluate(async () => (await fetch("/api/me")).status);
  }
  seen.text = await page.evaluate("document.body.textContent");
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
