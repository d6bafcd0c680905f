// The types of the client for Python, as mypy reads them: in the package, in the programs of the guides, and for a caller's mistakes.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { blocksOf, pagesWithCommands } from '../support/pages.ts';
import { root } from '../support/process.ts';
import { findProgram, isInstalled } from '../support/programs.ts';

const callers = `
from strongroom import AsyncStrongroom, Strongroom, ref
from strongroom.types import CardData, CardTokenRequest, Token

vault = Strongroom(api_key="key", base_url="http://127.0.0.1:8080")
data: CardData = {"number": "4242424242424242"}
request: CardTokenRequest = {"type": "card", "data": data}
card: Token = vault.tokens.create(request)
number: str = card["id"]
next_page: str = vault.tokens.list({"type": ["card"], "metadata.order": "4711"}).page()["pagination"]["next"]
codes: list[str] = vault.tokens.tokenize(["a"], partial=True)["codes"]["[0]"]
vault.proxy.request("POST", "https://api.example.com", json={"number": ref(card).path("number")})

async def read(vault: AsyncStrongroom) -> int:
    return len([token["id"] async for token in vault.tokens.search({"query": "type:card"})])

vault.tokens.create({"type": "card", "data": {}})  # type: ignore
vault.tokens.get()  # type: ignore
vault.tokens.get("id", retry=1)  # type: ignore
vault.tokens.get(7)  # type: ignore
vault.tokens.list().page()["total"]  # type: ignore
vault.tokens.tokenize(["a"], partial=True)["error"]  # type: ignore
vault.proxy.request("POST", "https://api.example.com", jsn={})  # type: ignore
card["numbr"]  # type: ignore
`;

describe.runIf(isInstalled('python3-mypy'))('mypy', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'strongroom-python-types-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** @returns what mypy prints. It has a failure, or the number of files. */
  const check = async (options: string[], paths: string[]): Promise<string> => {
    const given = ['-m', 'mypy', '--no-color-output', `--cache-dir=${folder}/cache`, ...options, ...paths];
    const env = { ...process.env, MYPYPATH: join(root, 'sdk/python') };
    const python = findProgram('python3-mypy') as string;
    return (await promisify(execFile)(python, given, { cwd: folder, env }).catch((error) => error)).stdout;
  };
  const write = (name: string, code: string): string => {
    writeFileSync(join(folder, name), code);
    return name;
  };

  test('the package has no error', async () => {
    expect(await check(['--strict'], [join(root, 'sdk/python/strongroom')])).toMatch(/^Success/);
  });

  test('a caller has the types, and mistakes are errors', async () => {
    expect(await check(['--strict'], [write('callers.py', callers)])).toMatch(/^Success/);
  });

  test('the programs of the guides have no error', async () => {
    const programs = pagesWithCommands.flatMap((page) =>
      blocksOf(page)
        .filter(({ language }) => language === 'python')
        .map(({ code }, at) => write(`${page.replaceAll(/\W/g, '_')}_${at}.py`, code)),
    );
    expect(programs.length).toBeGreaterThanOrEqual(9);
    expect(await check(['--check-untyped-defs'], programs)).toMatch(/^Success/);
  });
});
