// A certified implementation of OpenID Connect, for tests: node provider.mjs DIRECTORY PORT
// DIRECTORY has node_modules/oidc-provider. Whoever types a name at its log-in page is that person, with these claims.
import { pathToFileURL } from "node:url";
import path from "node:path";

const [directory, port] = process.argv.slice(2);
const entry = path.join(path.resolve(directory), "node_modules", "oidc-provider", "lib", "index.js");
const { Provider } = await import(pathToFileURL(entry));
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "wms",
      client_secret: "not-a-secret-of-anybody",
      grant_types: ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"],
      redirect_uris: ["https://testserver/accounts/oidc/cern/callback/"],
      response_types: ["code"],
    },
  ],
  claims: { openid: ["sub"], profile: ["preferred_username"], "wlcg.groups": ["wlcg.groups"] },
  cookies: { keys: ["only for tests"] },
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, "wlcg.groups": ["/lhcb"] }),
  }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log(`listening at ${issuer}`));
