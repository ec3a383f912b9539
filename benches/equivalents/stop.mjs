// What the gate answers in the phase `triage`, as a Node script would: no lock, no journal.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const payload = JSON.parse(readFileSync(0, 'utf8'));
const folder = join(payload.cwd, '.phasegate/triage');
const name = readdirSync(folder).find((name) => name.endsWith('_triage.json'));
const state = JSON.parse(readFileSync(join(folder, name), 'utf8'));
const pending = state.entries.filter((entry) => entry.status === 'pending');
const answer = pending.length > 0
  ? { decision: 'block', reason: `${pending.length} entries are pending.` }
  : {};
console.log(JSON.stringify(answer));
