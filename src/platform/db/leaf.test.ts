// The canonical form of a log row: one for each row, and the same in every spelling that PostgreSQL may write.
import { expect, test } from 'vitest';
import { canonicalText, leafOfLine, openLine } from './leaf.ts';

const row = {
  tenant_id: '0193a5f0-0000-4000-8000-000000000000',
  id: '0193a5f0-aaaa-7000-8000-000000000000',
  entity_ids: ['b', 'a'],
  message: 'quoted "x" \\ ü\u2028',
  created_at: '2026-11-24T12:00:00.1+00:00',
  is_list: false,
};

test('names are in order, and the time is in one form', () => {
  expect(canonicalText(JSON.stringify(row))).toBe(
    '{"created_at":"2026-11-24T12:00:00.100Z","entity_ids":["b","a"],"id":"0193a5f0-aaaa-7000-8000-000000000000","is_list":false,"message":"quoted \\"x\\" \\\\ ü\u2028","tenant_id":"0193a5f0-0000-4000-8000-000000000000"}',
  );
  const same = JSON.stringify(
    Object.fromEntries(Object.entries({ ...row, created_at: '2026-11-24T12:00:00.100+00:00' }).toReversed()),
  );
  expect(leafOfLine(same)).toEqual(leafOfLine(JSON.stringify(row)));
  // Pinned: a release that hashes in another way would refuse every log of before.
  expect(leafOfLine(same).toString('hex')).toBe('e8ecf9a2dce0cff359e7097b8811d948536e923cf7f175718c70037979c2dead');
});

test('rows that differ, and lines that others may read in another way, have another form', () => {
  const line = JSON.stringify(row);
  const others = [
    { ...row, is_list: true },
    { ...row, is_list: 'false' },
    { ...row, entity_ids: ['a', 'b'] },
    { ...row, entity_ids: 'b,a' },
    { ...row, created_at: '2026-11-24T12:00:00.101+00:00' },
    { ...row, created_at: '2026-11-24T12:00:00.1001+00:00' },
    { ...row, created_at: 'infinity' },
    { ...row, created_at: '2026-11-24T13:00:00.1+01:00' },
    { ...row, created_at: '2026-02-30T12:00:00+00:00' },
    { ...row, created_at: '2026-03-02T12:00:00+00:00' },
    { ...row, ip: '' },
  ].map((each) => JSON.stringify(each));
  const spelled = [
    line.replace('{', '{"message":"another",'),
    line.replace(':', ': '),
    line.replace('quoted', '\\u0071uoted'),
    `${line} `,
    line.replace('{', '{"__proto__":"x",'),
    line.slice(1),
  ];
  const forms = [line, ...others, ...spelled].map(canonicalText);
  expect(new Set(forms).size).toBe(forms.length);
});

test('the text of a MAC is the row without it, its entities in order, whatever its values hold', () => {
  const mac = '0193a5f0-cccc-7000-8000-000000000000';
  for (const message of ['plain', `,"mac":"${mac}"`, `","mac":"${mac}","`, `\\","mac":"${mac}"`]) {
    const { mac: found, macText } = openLine(JSON.stringify({ ...row, message, mac }));
    const { entity_ids, ...rest } = { ...row, message };
    expect([found, macText]).toEqual([
      mac,
      canonicalText(JSON.stringify({ ...rest, entity_ids: entity_ids.toSorted() })),
    ]);
    expect(openLine(JSON.stringify({ ...row, message })).macText).toBe(macText);
  }
  expect(openLine('{"mac":1').macText).toBeUndefined();
});
