// Runs scenarios of the public MCP conformance suite against one butler, and prints what each found as JSON:
// {"ping": {"exit": 0, "checks": [{"id": "...", "status": "SUCCESS", "error": null}]}, ...}
//
// The suite can't send a token, so it talks to a proxy that adds one. The first line printed is that proxy's origin,
// {"origin": "http://localhost:PORT"}, for the daemon's allowed origins; then one line is read from standard input:
// {"url": "http://127.0.0.1:PORT/mcp", "token": "..."}.
//
//   BUTLERD_TEST_CONFORMANCE  dist/index.js of the package @modelcontextprotocol/conformance
//   arguments                 the scenarios; with `--list` alone, the names of all for servers are printed instead

import { spawn } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';

import { authProxy } from './auth_proxy.mjs';

const suite = process.env.BUTLERD_TEST_CONFORMANCE;
if (!suite) throw new Error('BUTLERD_TEST_CONFORMANCE is not set');

function run(...args) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [suite, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data));
    child.on('error', reject).on('close', (exit) => resolve({ exit, output }));
  });
}

/** The suite's names of its server scenarios: lines such as `  - ping [2025-06-18,2025-11-25]`. */
async function allScenarios() {
  const { output } = await run('list');
  const server = output.split(/^Client scenarios/m)[0];
  return [...server.matchAll(/^\s+- (\S+)/gm)].map((match) => match[1]);
}

// A server that never answers must not hold up the tests for ever. All scenarios together take some 10 s.
setTimeout(() => {
  console.error('conformance.mjs: not done within 5 minutes');
  process.exit(1);
}, 300_000).unref();

const scenarios = process.argv.slice(2);
if (scenarios[0] === '--list') {
  console.log(JSON.stringify(await allScenarios()));
  process.exit(0);
}
const butler = {};
const proxy = await authProxy(butler);
console.log(JSON.stringify({ origin: `http://localhost:${proxy.port}` }));
const input = createInterface({ input: process.stdin });
for await (const line of input) {
  Object.assign(butler, JSON.parse(line));
  break;
}
// Open, it would keep this process alive.
process.stdin.destroy();
if (!butler.url) throw new Error('no address of a butler on standard input');

const report = {};
for (const scenario of scenarios) {
  const out = await mkdtemp(join(tmpdir(), 'butlerd-conformance-'));
  const url = `http://localhost:${proxy.port}/mcp`;
  const { exit, output } = await run('server', '--url', url, '--scenario', scenario, '--output-dir', out);
  const entries = await readdir(out, { recursive: true });
  const file = entries.find((entry) => entry.endsWith('checks.json'));
  const checks = file ? JSON.parse(await readFile(join(out, file), 'utf8')) : [];
  await rm(out, { recursive: true });
  report[scenario] = {
    exit,
    checks: checks.map(({ id, status, errorMessage }) => ({ id, status, error: errorMessage ?? null })),
    // Only where it says something that the checks don't.
    ...(checks.length === 0 ? { output } : {}),
  };
}
proxy.close();
console.log(JSON.stringify(report));
