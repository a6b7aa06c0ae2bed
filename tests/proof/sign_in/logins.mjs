// Signs in with each of LOGINS, each in a browser without cookies; prints what the page then says, and the number of sessions.
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
