// MACs of rows of the log: rows that were written before a column was added keep theirs.
import { expect, test } from 'vitest';
import { prepareDigestKey } from '../crypto/digest.ts';
import { createLogMacs } from './log-macs.ts';

const tenant_id = '0193a5f0-0000-4000-8000-000000000000';
const application_id = '0193a5f0-bbbb-4000-8000-000000000000';
const row = {
  id: '0193a5f0-aaaa-7000-8000-000000000000',
  actor_id: application_id,
  actor_type: 'application',
  entity_type: 'card',
  entity_ids: ['b', 'a'],
  operation: 'read',
  message: 'Token retrieved',
  created_at: '2026-11-24T12:00:00.100Z',
  disclosure: 'masked',
  outcome: 'success',
  trace_id: 't',
  ip: '203.0.113.7',
  reactor_id: '0193a5f0-cccc-4000-8000-000000000000',
};

test('a row without the columns that were added later has the MAC that it always had', () => {
  const macs = createLogMacs();
  macs.open(prepareDigestKey('key', Buffer.alloc(32, 7)));
  // Pinned: with another one, archives and exports of before would hold rows that no server wrote.
  expect(macs.macOf(tenant_id, row)).toBe('c973dfc7-89cc-09dd-1a27-81389bbf9aa7');
  const line = JSON.stringify({
    ...row,
    tenant_id,
    created_at: '2026-11-24T12:00:00.1+00:00',
    is_list: false,
    mac: 'c973dfc7-89cc-09dd-1a27-81389bbf9aa7',
  });
  expect(macs.isIntact(line)).toBe(true);
  for (const name of ['application_id', 'code_application_id', 'reason'] as const) {
    const named = { ...row, [name]: application_id };
    expect(macs.macOf(tenant_id, named)).not.toBe(macs.macOf(tenant_id, row));
    expect(macs.isIntact(line.replace('"mac"', `"${name}":"${application_id}","mac"`))).toBe(false);
  }
});
