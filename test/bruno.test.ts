// The Bruno collection of a release: a file for each operation of the OpenAPI document, with its example.
import { expect, test } from 'vitest';
import { brunoFiles } from '../release/bruno.ts';
import { readReference } from '../src/modules/docs/reference.ts';
import { document } from './support/document.ts';

const files = brunoFiles(document);
const texts = [...files].filter(([path]) => path.endsWith('.bru') && !path.startsWith('environments/'));

/** The lines of a block, without their indent. A line of a block never begins with a brace, which would end it. */
const blockOf = (text: string, name: string): string | undefined =>
  new RegExp(`^${name} \\{\\n([\\s\\S]*?)^\\}$`, 'm').exec(text)?.[1]?.replaceAll(/^ {2}/gm, '');

test('the collection has each operation once, with its method, path and example', () => {
  const operations = readReference(document).groups.flatMap(({ chapters }) =>
    chapters.flatMap((each) => each.operations),
  );
  expect(operations.length).toBeGreaterThan(100);
  expect(texts).toHaveLength(operations.length);
  for (const { method, path, summary, body, permissions } of operations) {
    const url = `url: {{url}}${path.replaceAll(/\{(\w+)\}/g, ':$1')}\n`;
    const found = texts.find(
      ([, text]) => text.includes(`name: ${summary}\n`) && blockOf(text, method.toLowerCase())?.startsWith(url),
    );
    expect(found, `${method} ${path}`).toBeDefined();
    const [, text = ''] = found ?? [];
    expect(text.includes('SVC-API-KEY: {{key}}'), summary).toBe(permissions !== undefined);
    const example = method === 'GET' ? undefined : body?.examples[0]?.value;
    if (example !== undefined) expect(JSON.parse(blockOf(text, 'body:json') ?? ''), summary).toEqual(example);
  }
});

test('the collection is the same for the same document, and has no key', () => {
  expect([...brunoFiles(document)]).toEqual([...files]);
  expect(JSON.parse(files.get('bruno.json') ?? '')).toMatchObject({ name: 'Strongroom', type: 'collection' });
  for (const [path, text] of files) expect(text, path).not.toMatch(/svc_(?:test|live)_|undefined/);
});
