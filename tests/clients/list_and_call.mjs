// The official TypeScript SDK against one butler: lists its tools, sets a state and reads it, and prints what came as
// JSON: {"protocol": "2025-11-25", "tools": [...names], "set": {...}, "get": {...}}
//
//   BUTLERD_TEST_MCP_URL       http://127.0.0.1:PORT/mcp
//   BUTLERD_TEST_MCP_TOKEN     a token for this butler
//   BUTLERD_TEST_MCP_TS        the node_modules directory that has the SDK
//   BUTLERD_TEST_MCP_PROTOCOL  `v1`: the SDK's first generation; `legacy`, `auto` or a version such as 2026-07-28:
//                              the second one, told to speak that

import { createRequire } from 'node:module';
import { join } from 'node:path';

const setting = (name) => {
  if (process.env[name]) return process.env[name];
  throw new Error(`${name} is not set`);
};

const url = new URL(setting('BUTLERD_TEST_MCP_URL'));
const requestInit = { headers: { Authorization: `Bearer ${setting('BUTLERD_TEST_MCP_TOKEN')}` } };
const protocol = setting('BUTLERD_TEST_MCP_PROTOCOL');
// The SDK lies outside of the repository, where a plain import doesn't look.
const require = createRequire(join(setting('BUTLERD_TEST_MCP_TS'), 'here.js'));
const who = { name: 'butlerd-test', version: '1.0.0' };

function connect() {
  if (protocol === 'v1') {
    const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
    return [new Client(who), new StreamableHTTPClientTransport(url, { requestInit })];
  }
  const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
  const mode = ['legacy', 'auto'].includes(protocol) ? protocol : { pin: protocol };
  return [new Client(who, { versionNegotiation: { mode } }), new StreamableHTTPClientTransport(url, { requestInit })];
}

const [client, transport] = connect();
await client.connect(transport);
const { tools } = await client.listTools();
async function call(name, args) {
  const result = await client.callTool({ name, arguments: args });
  if (result.isError) throw new Error(`${name}: ${JSON.stringify(result.content)}`);
  return JSON.parse(result.content[0].text);
}
const key = `list-and-call-ts-${protocol}`;
const set = await call('state_set', { key, value: { from: 'TypeScript', grüße: [1, 2.5, null] } });
const get = await call('state_get', { key });
await client.close();

const negotiated = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? null;
console.log(JSON.stringify({ protocol: negotiated, tools: tools.map((tool) => tool.name), set, get }));
