// Writes a Bruno collection of all operations from the OpenAPI document, for a release: a file for each operation, in a folder for
// each of its tags. Usage: npm run -s bruno [-- DIRECTORY]
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isNode, type Node, nodeOf, readReference, textOf } from '../src/modules/docs/reference.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/** What a file of Bruno cannot have in a name. */
const fileName = (text: string): string => text.replaceAll(/[^\w ().,-]/g, ' ').trim();

const indented = (text: string): string =>
  text
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');

const block = (name: string, lines: readonly string[]): string => `${name} {\n${indented(lines.join('\n'))}\n}\n`;

const valueOf = ({ example, schema }: Node): string => {
  const { examples } = nodeOf(schema);
  const value = example ?? (Array.isArray(examples) ? examples[0] : undefined);
  return value === undefined || isNode(value) ? '' : String(value);
};

/** @returns the files of the collection by path. Each is the same for the same document. */
export const brunoFiles = (document: Node): Map<string, string> => {
  const files = new Map<string, string>();
  const reference = readReference(document);
  const ignored = { name: 'Strongroom', version: reference.version };
  files.set(
    'bruno.json',
    `${JSON.stringify({ version: '1', name: ignored.name, type: 'collection', ignore: ['node_modules'] }, null, 2)}\n`,
  );
  files.set('environments/Local.bru', `${block('vars', ['url: http://127.0.0.1:8080'])}vars:secret [\n  key\n]\n`);
  for (const chapter of reference.groups.flatMap(({ chapters }) => chapters))
    for (const [at, operation] of chapter.operations.entries()) {
      const { method, path, summary, description, parameters, body, permissions } = operation;
      const of = (place: string): Node[] => parameters.filter((each) => each['in'] === place);
      const line = (each: Node): string =>
        `${each['required'] === true || place(each) === 'path' ? '' : '~'}${textOf(each['name'])}: ${valueOf(each)}`;
      const place = (each: Node): string => textOf(each['in']);
      const headers = [...(permissions === undefined ? [] : ['SVC-API-KEY: {{key}}']), ...of('header').map(line)];
      const example = method === 'GET' ? undefined : body?.examples[0]?.value;
      const parts = [
        block('meta', [`name: ${summary}`, 'type: http', `seq: ${at + 1}`]),
        block(method.toLowerCase(), [
          `url: {{url}}${path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
          `body: ${example === undefined ? 'none' : 'json'}`,
          'auth: none',
        ]),
        ...(of('path').length > 0 ? [block('params:path', of('path').map(line))] : []),
        ...(of('query').length > 0 ? [block('params:query', of('query').map(line))] : []),
        ...(headers.length > 0 ? [block('headers', headers)] : []),
        ...(example === undefined
          ? []
          : [
              block(
                'body:json',
                (typeof example === 'string' ? JSON.stringify(example) : JSON.stringify(example, null, 2)).split('\n'),
              ),
            ]),
        ...(description === '' ? [] : [block('docs', description.split('\n'))]),
      ];
      files.set(`${chapter.name}/${fileName(summary)}.bru`, parts.join('\n'));
    }
  return files;
};

if (import.meta.main) {
  const [directory = join(root, 'bruno')] = process.argv.slice(2);
  const files = brunoFiles(JSON.parse(readFileSync(join(root, 'openapi/openapi.json'), 'utf8')) as Node);
  rmSync(directory, { recursive: true, force: true });
  for (const [path, text] of files) {
    mkdirSync(join(directory, path, '..'), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  console.log(`${files.size} files in ${directory}`);
}
