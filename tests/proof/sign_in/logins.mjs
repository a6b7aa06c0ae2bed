// Signs in with each of LOGINS in a browser without cookies. Prints what the page then says and how many session cookies
// the browser has.
import { cookies, signIn, tell, text } from "./browser.mjs";

await tell(async (browser) => {
  const seen = [];
  for (const login of JSON.parse(process.env.LOGINS)) {
    const context = await browser.createBrowserContext();
    const page = await context.newPage();
    await signIn(page, login);
    seen.push([(await text(page)).trim(), (await cookies(context)).length]);
    await context.close();
  }
  return seen;
});
