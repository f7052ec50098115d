// A real OpenID provider of tests, in which one person logs in and consents without being asked.
//
//   node server.mjs     ends when its standard input does; the environment says more:
//
//   OIDC_MODULES the node_modules that have oidc-provider; default: those beside this file
//   ACCOUNT      who logs in where no `login_hint` says another; default home@example.org
//   ACCESS_TTL   life of access tokens in seconds; default 3600
//   DEVICE_TTL   life of device codes in seconds; default 600
//   INTERVAL     seconds between two questions of a device; default 1, the standard's is 5
//
// The first line that it prints is JSON: {"port", "issuer"}. There are two clients: `household`, without a secret, and
// `household-secret` with the secret `secret-of-the-client` in a header. Redirects go to http://127.0.0.1/ at any port. Each
// use of a refresh token replaces it, and who shows a replaced one ends the grant.
//
// GET /auth answers with the last redirect at once, as a browser would end there: no cookies, no pages in between.
// POST /introspect with `token` (or GET /introspect?token=) tells {"active", "username", "email", "scope", …} to anybody, as
// Dovecot's passdb `oauth2` asks for it. A test steers by:
//
//   POST /control/revoke                                  all grants end, and what was given for them
//   POST /control/end_access                              all access tokens end before their time; the grants stay
//   POST /control/hold_back {"scope"}                     the person gives all but this, from now on
//   GET  /control/given                                   all access and refresh tokens that were ever given
//   POST /control/fail {"status", "times", "after"}       the next token requests are answered with this status, and with
//                                                         `after` as Retry-After; with status 0 they are carried out, and
//                                                         the answer is lost
//   POST /control/refuse {"times"}                        the person says no so many times
//   POST /control/approve_device {"user_code", "account", "refuse"}
//   GET  /control/counts                                  {"requests": {grant type: n}, "failed": n, "reused": n}; `reused`
//                                                         counts refresh tokens that were shown after they were used

import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const modules = process.env.OIDC_MODULES ?? join(dirname(fileURLToPath(import.meta.url)), 'node_modules');
const require = createRequire(join(modules, 'resolve.cjs'));
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));

const ACCOUNT = process.env.ACCOUNT ?? 'home@example.org';
const seconds = (name, usual) => Number(process.env[name] ?? usual);
// Says that the request comes from here: a browser of its own.
const INSIDE = crypto.randomUUID();
const JUDGE = { client_id: 'judge', client_secret: crypto.randomUUID() };

let provider;
let issuer;
const grants = new Set();
const used = new Set();
const given = new Set();
let heldBack;
const counts = { requests: {}, failed: 0, reused: 0 };
let failures = [];
let refusals = 0;

function configuration() {
  const client = {
    application_type: 'native',
    grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
    redirect_uris: ['http://127.0.0.1/'],
  };
  const secret = { client_secret: 'secret-of-the-client', token_endpoint_auth_method: 'client_secret_basic' };
  return {
    clients: [
      { ...client, client_id: 'household', token_endpoint_auth_method: 'none' },
      { ...client, client_id: 'household-secret', ...secret },
      { ...JUDGE, grant_types: [], redirect_uris: [], response_types: [] },
    ],
    scopes: ['openid', 'offline_access', 'email', 'mail', ...['calendar', 'contacts'].map((what) => `https://www.googleapis.com/auth/${what}`)],
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    cookies: { keys: [crypto.randomUUID()] },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    // What Dovecot asks for stands in the provider's own introspection.
    extraTokenClaims: (_, token) => ({ username: token.accountId, email: token.accountId }),
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: id, email_verified: true }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    ttl: {
      AccessToken: seconds('ACCESS_TTL', 3600), AuthorizationCode: 60, DeviceCode: seconds('DEVICE_TTL', 600),
      Grant: 1e6, IdToken: 3600, Interaction: 600, RefreshToken: 1e6, Session: 600,
    },
    features: {
      devInteractions: { enabled: false },
      deviceFlow: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true, allowedPolicy: (_, client, token) => client.clientId === token.clientId },
    },
    renderError: (ctx, out) => { ctx.body = out; },
  };
}

/** What the person gives: all that was asked for, but what they hold back. */
async function grant(accountId, clientId, scope) {
  const agreed = new provider.Grant({ accountId, clientId });
  agreed.addOIDCScope(scope.split(' ').filter((one) => one !== heldBack).join(' '));
  if (heldBack) agreed.rejectOIDCScope(heldBack);
  const id = await agreed.save();
  grants.add(id);
  return id;
}

async function interact(req, res) {
  const { params } = await provider.interactionDetails(req, res);
  if (refusals > 0) {
    refusals -= 1;
    const error = { error: 'access_denied', error_description: 'the person said no' };
    return provider.interactionFinished(req, res, error);
  }
  const accountId = params.login_hint ?? ACCOUNT;
  const grantId = await grant(accountId, params.client_id, params.scope);
  return provider.interactionFinished(req, res, { login: { accountId }, consent: { grantId } });
}

/** Walks as a browser does, until it would leave this server. */
async function walk(path, res) {
  let url = new URL(path, issuer);
  const jar = new Map();
  for (let steps = 0; steps < 10; steps += 1) {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(url, { redirect: 'manual', headers: { cookie, 'x-inside': INSIDE } });
    for (const set of answer.headers.getSetCookie()) {
      const [, name, value] = set.match(/^([^=]+)=([^;]*)/);
      if (value) jar.set(name, value); else jar.delete(name);
    }
    const next = answer.headers.get('location');
    if (!next) return res.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
    url = new URL(next, url);
    if (url.origin !== issuer) return res.writeHead(303, { location: url.href }).end();
  }
  throw new Error(`no end of ${path}`);
}

async function read(req) {
  const pieces = [];
  for await (const piece of req) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

function say(res, body, status = 200) {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function token(req, res) {
  const form = new URLSearchParams(await read(req));
  const type = form.get('grant_type');
  counts.requests[type] = (counts.requests[type] ?? 0) + 1;
  const failure = failures.shift();
  if (failure?.status) {
    counts.failed += 1;
    if (failure.after) res.setHeader('retry-after', failure.after);
    return say(res, { error: 'server_error' }, failure.status);
  }
  if (used.has(form.get('refresh_token'))) counts.reused += 1;
  if (failure) {
    counts.failed += 1;
    res.end = () => req.socket.destroy();
  }
  // What was read can't be read again.
  req.body = Object.fromEntries(form);
  return provider.callback()(req, res);
}

async function introspect(req, res, query) {
  const asked = req.method === 'POST' ? new URLSearchParams(await read(req)) : query;
  const login = Buffer.from(`${JUDGE.client_id}:${JUDGE.client_secret}`).toString('base64');
  const answer = await fetch(`${issuer}/token/introspection`, {
    method: 'POST',
    headers: { authorization: `Basic ${login}` },
    body: new URLSearchParams({ token: asked.get('token') ?? asked.get('access_token') ?? '' }),
  });
  return say(res, answer.ok ? await answer.json() : { active: false });
}

async function revoke() {
  const kinds = ['AccessToken', 'AuthorizationCode', 'DeviceCode', 'RefreshToken'];
  for (const id of grants) {
    await (await provider.Grant.find(id))?.destroy();
    for (const kind of kinds) await provider[kind].revokeByGrantId(id);
  }
  const ended = grants.size;
  grants.clear();
  return { ended };
}

async function endAccess() {
  for (const token of given) await (await provider.AccessToken.find(token))?.destroy();
  return {};
}

async function approve({ user_code: shown, account = ACCOUNT, refuse = false }) {
  const code = await provider.DeviceCode.findByUserCode(shown.replace(/[^A-Za-z0-9]/g, '').toUpperCase());
  if (!code) throw new Error(`no device waits with ${shown}`);
  if (refuse) {
    Object.assign(code, { error: 'access_denied', errorDescription: 'the person said no' });
  } else {
    const { scope } = code.params;
    const grantId = await grant(account, code.clientId, scope);
    Object.assign(code, { accountId: account, grantId, scope, authTime: Math.floor(Date.now() / 1000) });
  }
  await code.save();
  return {};
}

const control = {
  revoke,
  end_access: endAccess,
  given: () => [...given],
  hold_back({ scope }) {
    heldBack = scope;
    return {};
  },
  approve_device: approve,
  fail({ status, times = 1, after }) {
    failures = Array(times).fill({ status, after });
    return {};
  },
  refuse({ times = 1 }) {
    refusals = times;
    return {};
  },
  counts: () => counts,
};

const server = createServer(async (req, res) => {
  const { pathname, searchParams } = new URL(req.url, issuer);
  try {
    if (pathname.startsWith('/control/')) {
      const text = await read(req);
      return say(res, await control[pathname.slice(9)](text ? JSON.parse(text) : {}));
    }
    if (pathname.startsWith('/interaction/')) return await interact(req, res);
    if (pathname === '/introspect') return await introspect(req, res, searchParams);
    if (pathname === '/token' && req.method === 'POST') return await token(req, res);
    if (pathname === '/auth' && req.headers['x-inside'] !== INSIDE) return await walk(req.url, res);
    return await provider.callback()(req, res);
  } catch (error) {
    return say(res, { error: String(error) }, 500);
  }
});

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  issuer = `http://127.0.0.1:${port}`;
  provider = new Provider(issuer, configuration());
  provider.use(async (ctx, next) => {
    await next();
    if (ctx.oidc?.route === 'device_authorization' && ctx.body?.user_code) ctx.body.interval = seconds('INTERVAL', 1);
  });
  provider.on('grant.success', (ctx) => {
    if (ctx.oidc.params.refresh_token) used.add(ctx.oidc.params.refresh_token);
    for (const name of ['access_token', 'refresh_token']) if (ctx.body?.[name]) given.add(ctx.body[name]);
  });
  console.log(JSON.stringify({ port, issuer }));
});
process.stdin.on('end', () => process.exit(0)).resume();
