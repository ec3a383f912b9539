// The official TypeScript SDK against both transports: node sdk-client.mjs PHASEGATE PROJECT
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [command, project] = process.argv.slice(2);
const token = 'sdk-token';
const env = { ...process.env, PHASEGATE_HTTP_TOKEN: token };

async function check(label, run, transport) {
  const client = new Client({ name: 'sdk', version: '0.0.0' });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const named = Object.fromEntries(tools.map((tool) => [tool.name, tool]));
  assert.equal(named.get_phase_status.annotations.readOnlyHint, true);
  assert.equal(named.deploy_headless_agent.annotations.readOnlyHint, false);
  assert.equal(named.submit_review_verdict, undefined);
  assert.deepEqual(named.deploy_headless_agent.inputSchema.required, ['prompt']);

  const phases = [{ name: 'Design' }, { name: 'Build' }];
  const made = await client.callTool({ name: 'create_task', arguments: { title: run, phases } });
  assert.equal(made.structuredContent.run, `phases/${run}`);
  assert.deepEqual(JSON.parse(made.content[0].text), made.structuredContent);
  assert.equal(made.structuredContent.guidance.status, 'ACTIVE');

  const refused = await client.callTool({ name: 'advance_to_next_phase', arguments: { run } });
  assert.equal(refused.isError, true);
  assert.equal(refused.structuredContent.code, 'phase_not_approved');
  assert.equal(refused.structuredContent.guidance.status, 'ACTIVE');
  await assert.rejects(client.callTool({ name: 'nope' }), { code: -32602 });

  const { resources } = await client.listResources();
  assert.deepEqual(resources.map((r) => r.uri), ['phasegate://status', 'phasegate://diagram']);
  const read = await client.readResource({ uri: 'phasegate://status' });
  assert.ok(JSON.parse(read.contents[0].text).runs.some((row) => row.run === `phases/${run}`));
  await assert.rejects(client.readResource({ uri: 'phasegate://nope' }), { code: -32002 });

  // A whole phase, with scripted agents.
  let told = (await client.callTool({ name: 'deploy_headless_agent', arguments: { run, prompt: 'x' } })).structuredContent;
  assert.deepEqual(told.agents, ['worker-1']);
  for (let i = 0; i < 60 && told.guidance.status !== 'APPROVED'; i++) {
    const args = { run, since: told.revision, seconds: 10 };
    told = (await client.callTool({ name: 'wait_for_change', arguments: args })).structuredContent;
  }
  assert.equal(told.guidance.status, 'APPROVED');
  assert.equal(told.review.final_verdict, 'approved');

  // The majority has decided; the last agents still end, and each end is a change.
  while (told.changed) {
    const args = { run, since: told.revision, seconds: 2 };
    told = (await client.callTool({ name: 'wait_for_change', arguments: args })).structuredContent;
  }
  // A wait that is given up ends. One that something happens in meanwhile has done its work: then again.
  let given_up = false;
  for (let i = 0; i < 5 && !given_up; i++) {
    const abort = new AbortController();
    const wait = { name: 'wait_for_change', arguments: { run, seconds: 50 } };
    const long = client.callTool(wait, undefined, { signal: abort.signal });
    setTimeout(() => abort.abort(), 200);
    const early = await long.catch(() => null);
    given_up = early === null;
    if (early) console.log(`early: ${JSON.stringify(early).slice(0, 300)}`);
  }
  assert.ok(given_up);
  await client.close();
  console.log(`ok ${label}`);
}

const args = ['-C', project, 'mcp'];
await check('stdio', 'sdk-stdio', new StdioClientTransport({ command, args, env, stderr: 'inherit' }));

const server = spawn(command, [...args, '--http', '127.0.0.1:0'], { env, stdio: ['ignore', 'ignore', 'pipe'] });
let log = '';
server.stderr.setEncoding('utf8').on('data', (text) => (log += text));
while (!/listening on \S+\n/.test(log)) await once(server.stderr, 'data');
const url = new URL(/listening on (\S+)/.exec(log)[1]);
try {
  const stranger = new Client({ name: 'stranger', version: '0' });
  await assert.rejects(stranger.connect(new StreamableHTTPClientTransport(url)), /401|Unauthorized/);
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await check('http', 'sdk-http', new StreamableHTTPClientTransport(url, { requestInit }));
} finally {
  server.kill('SIGTERM');
  assert.deepEqual(await once(server, 'exit'), [0, null]);
}
