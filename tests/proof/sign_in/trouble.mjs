// Meets errors of the service on the page. After each error, prints what the page shows: the message, the typed text and
// the chosen option.
import { cookies, signIn, tell, titles } from "./browser.mjs";

const { LOGIN, MEMBER, ORIGIN, TOKEN, WORKSPACE } = process.env;
await tell(async (browser) => {
  const page = await browser.newPage();
  const shown = () =>
    page.evaluate(() => {
      const find = (selector) => document.querySelector(selector);
      const [chosen] = find("select").selectedOptions;
      return [find("[role=alert]").textContent, find("[name=title]").value, chosen?.text, find("form button").disabled];
    });
  const told = () => page.waitForFunction(() => document.querySelector("[role=alert]").textContent);
  const asOwner = (method, path, body) =>
    page.evaluate(
      async (token, method, path, body) => {
        const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
        return (await fetch(`/api${path}`, { method, headers, body })).status;
      },
      TOKEN, method, path, body && JSON.stringify(body),
    );
  const seen = {};
  await signIn(page, LOGIN);
  await told();
  seen.list = await shown();
  await page.reload({ waitUntil: "networkidle0" });
  await page.type("[name=title]", "Once");
  for (const name of ["limited", "unavailable"]) {
    await page.click("form button");
    await told();
    seen[name] = await shown();
  }
  await page.click("form button");
  await page.waitForSelector("li");
  seen.once = [...(await shown()), await titles(page)];
  await page.type("[name=title]", "Kept");
  const members = `/workspaces/${WORKSPACE}/members`;
  seen.owner = [await asOwner("DELETE", `${members}/${MEMBER}`)];
  await page.click("form button");
  await told();
  seen.removed = await shown();
  seen.owner.push(await asOwner("POST", members, { email: LOGIN }));
  await page.reload({ waitUntil: "networkidle0" });
  seen.again = await shown();
  await page.select("select", WORKSPACE);
  await page.waitForSelector("li");
  seen.chosen = [...(await shown()), await titles(page)];
  seen.active = await page.evaluate(async () => (await (await fetch("/api/me")).json()).workspace?.id);
  await page.type("[name=title]", "Typed");
  await page.deleteCookie({ name: "session", path: "/api", domain: new URL(ORIGIN).hostname });
  await Promise.all([page.waitForNavigation({ waitUntil: "networkidle0" }), page.click("form button")]);
  await page.waitForSelector("li");
  seen.ended = await shown();
  await page.$eval("[name=title]", (field) => (field.value = ""));
  await page.click("#out");
  await told();
  seen.stays = [...(await shown()), (await cookies(browser)).length];
  await page.click("#out");
  await page.waitForSelector("[name=logout]");
  return seen;
});
