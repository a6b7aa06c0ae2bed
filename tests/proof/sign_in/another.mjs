// Signs in as LOGIN, whom the login page refuses, and then as OTHER. Prints what the page of the refusal has, whether the
// provider asks for the account, and where the person gets to.
import { cookies, signIn, tell } from "./browser.mjs";

const { LOGIN, OTHER, ORIGIN, WANTED } = process.env;
await tell(async (browser) => {
  const seen = { asked: [] };
  const asks = async (page) => seen.asked.push((await page.$("[name=login]")) !== null);
  // One person opens the page again, another one follows the link of the refusal.
  const [again, page] = [await browser.createBrowserContext(), await browser.createBrowserContext()];
  const first = await again.newPage();
  await signIn(first, LOGIN, WANTED);
  await first.goto(`${ORIGIN}/login`, { waitUntil: "networkidle2" });
  await asks(first);
  const second = await page.newPage();
  await signIn(second, LOGIN, WANTED);
  seen.page = await second.evaluate(() => {
    const { scrollWidth, lang } = document.documentElement;
    return [document.title, lang, innerWidth === scrollWidth];
  });
  await Promise.all([second.waitForNavigation(), second.click("a")]);
  await asks(second);
  await second.type("[name=login]", OTHER);
  await second.type("[name=password]", "any");
  const submit = () =>
    Promise.all([second.waitForNavigation({ waitUntil: "networkidle2" }), second.click("[type=submit]")]);
  await submit();
  // The provider may also ask what the page may know.
  if (await second.$("[value=consent]")) await submit();
  return { ...seen, url: second.url(), sessions: (await cookies(page)).length };
});
