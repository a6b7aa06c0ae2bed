// An OpenID provider for the proof of docs/sign-in.md. It accepts every address with any password. A login is an address;
// after a question mark, it may have claims as JSON.
import { Provider } from "oidc-provider";

const { PORT, CALLBACK, CLIENT_ID, CLIENT_SECRET } = process.env;
const provider = new Provider(`http://127.0.0.1:${PORT}`, {
  clients: [
    {
      client_id: CLIENT_ID,
      client_secret: CLIENT_SECRET,
      redirect_uris: [CALLBACK],
      post_logout_redirect_uris: [new URL("/", CALLBACK).href],
    },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
  findAccount: (_, id) => {
    const [email, more] = id.split("?");
    const claims = { sub: id, email, email_verified: true, ...JSON.parse(more ?? "{}") };
    return { accountId: id, claims: () => claims };
  },
  cookies: { keys: ["of the proof"] },
});
provider.listen(Number(PORT), "127.0.0.1");
