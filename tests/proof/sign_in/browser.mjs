// The browser for the proof of docs/sign-in.md, and what a person does in the browser.
import puppeteer from "puppeteer-core";

const { CHROMIUM, ORIGIN } = process.env;

// Run a story in a browser, and print the result of the story as JSON.
export async function tell(story) {
  const args = ["--no-sandbox", "--disable-gpu", "--no-first-run"];
  const browser = await puppeteer.launch({ executablePath: CHROMIUM, args, acceptInsecureCerts: true });
  try {
    console.log(JSON.stringify(await story(browser)));
  } finally {
    await browser.close();
  }
}

export async function signIn(page, login, wanted = "/") {
  await page.goto(ORIGIN + wanted);
  await page.waitForSelector("[name=login]", { timeout: 10000 }).catch(async () => {
    throw new Error(`${page.url()}: ${await page.content()}`);
  });
  await page.type("[name=login]", login);
  await page.type("[name=password]", "any");
  await Promise.all([page.waitForNavigation(), page.click("[type=submit]")]);
  await Promise.all([page.waitForNavigation({ waitUntil: "networkidle2" }), page.click("[type=submit]")]);
}

export const cookies = async (context) => (await context.cookies()).filter(({ name }) => name === "session");
export const text = (page) => page.evaluate("document.body.textContent");
export const titles = (page) => page.$$eval("li", (items) => items.map((item) => item.textContent));

export async function add(page, title) {
  await page.type("[name=title]", title);
  await page.click("form button");
  await page.waitForFunction((text) => document.querySelector("li")?.textContent === text, {}, title);
}
