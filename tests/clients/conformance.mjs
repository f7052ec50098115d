// Runs scenarios of the public MCP conformance suite against one butler, and prints what each found as JSON:
// {"ping": {"exit": 0, "checks": [{"id": "...", "status": "SUCCESS", "error": null}]}, ...}
//
//   BUTLERD_TEST_MCP_URL      http://localhost:PORT/mcp (the suite wants `localhost`)
//   BUTLERD_TEST_MCP_TOKEN    a token for this butler; the suite itself can't send one
//   BUTLERD_TEST_CONFORMANCE  dist/index.js of the package @modelcontextprotocol/conformance
//   arguments                 the scenarios; without any, all that the suite has for servers

import { spawn } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { authProxy } from './auth_proxy.mjs';

const setting = (name) => process.env[name] ?? fail(`${name} is not set`);
function fail(message) {
  console.error(`conformance.mjs: ${message}`);
  process.exit(2);
}

const suite = setting('BUTLERD_TEST_CONFORMANCE');
const proxy = await authProxy(setting('BUTLERD_TEST_MCP_URL'), setting('BUTLERD_TEST_MCP_TOKEN'));
// The suite needs no token, so its process gets none.
const { BUTLERD_TEST_MCP_TOKEN: _, ...environment } = process.env;

function run(...args) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [suite, ...args], { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
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

const scenarios = process.argv.length > 2 ? process.argv.slice(2) : await allScenarios();
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
console.log(JSON.stringify(report, null, 2));
