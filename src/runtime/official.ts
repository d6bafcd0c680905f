// Official formulas: what the project brings along in formulas/official, put into a vault by the operator's command and
// by nothing else. They are no tenant's, so that no tenant's log tells of it.
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { Context } from '../context.ts';
import type { InstalledFormula, OfficialFormula } from '../db/formulas.ts';
import { StartError } from '../errors.ts';
import { formulaFields } from './formula-fields.ts';
import { formulaStatuses } from './formulas.ts';

const OFFICIAL_DIR = fileURLToPath(new URL('../../formulas/official/', import.meta.url));

/** Its id stays for good: reactors refer to it. */
const officialFormula = z.object({ ...formulaFields, id: z.uuid(), status: z.enum(formulaStatuses) });

const readOne = async (folder: string): Promise<OfficialFormula> => {
  const [description, code] = await Promise.all([
    readFile(`${folder}/formula.json`, 'utf8'),
    readFile(`${folder}/code.js`, 'utf8'),
  ]).catch(() => {
    throw new StartError(
      `The formula ${folder} lacks its formula.json or its code.js. Put the release in place again: git checkout -- formulas, or build the image anew.`,
    );
  });
  let json: unknown;
  try {
    json = JSON.parse(description);
  } catch {
    throw new StartError(`The file ${folder}/formula.json is not JSON. Put it back: git checkout -- formulas`);
  }
  const parsed = officialFormula.safeParse({ ...(Object(json) as object), code });
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
    throw new StartError(`The formula ${folder} is not valid: ${problems.join('; ')}`);
  }
  const { description: words, icon, ...rest } = parsed.data;
  return { ...rest, description: words ?? null, icon: icon ?? null };
};

/** What the folder has, by the names of its folders. @throws StartError naming the one that is not whole. */
export const readOfficialFormulas = async (directory = OFFICIAL_DIR): Promise<OfficialFormula[]> => {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => {
    throw new StartError(
      `The official formulas are not at ${directory}, so this installation is incomplete. Put the release in place again: git checkout -- formulas, or build the image anew.`,
    );
  });
  const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  return Promise.all(names.toSorted().map((name) => readOne(`${directory.replace(/\/$/, '')}/${name}`)));
};

/** Brings the vault's official formulas to those of the project, all or none; what is as it was is not touched. */
export const installOfficialFormulas = async (
  ctx: Pick<Context, 'db' | 'now'>,
  directory?: string,
): Promise<InstalledFormula[]> => ctx.db.installFormulas(await readOfficialFormulas(directory), ctx.now());

/** Reads the folder of the release once, for as long as the process runs. What could not be read is tried again. */
export const createOfficialReader = (directory?: string): (() => Promise<OfficialFormula[]>) => {
  let read: Promise<OfficialFormula[]> | undefined;
  return () =>
    (read ??= readOfficialFormulas(directory).catch((error: unknown) => {
      read = undefined;
      throw error;
    }));
};
