// Official formulas: reads them from formulas/official and installs them by the operator's command.
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { CodeContext } from './context.ts';
import { installFormulas, type InstalledFormula, type OfficialFormula } from './rows/formulas.ts';
import { StartError } from '../../platform/base/errors.ts';
import { formulaFields } from './formula-fields.ts';
import { formulaStatuses } from './formulas.ts';

const OFFICIAL_DIR = fileURLToPath(new URL('../../../formulas/official/', import.meta.url));

/** The id of a formula never changes: reactors refer to it. */
const officialFormula = z.object({ ...formulaFields, id: z.uuid(), status: z.enum(formulaStatuses) });

const readOne = async (folder: string): Promise<OfficialFormula> => {
  const [description, code] = await Promise.all([
    readFile(`${folder}/formula.json`, 'utf8'),
    readFile(`${folder}/code.js`, 'utf8'),
  ]).catch(() => {
    throw new StartError(
      `The formula ${folder} lacks its formula.json or its code.js. Restore the release: git checkout -- formulas, or build the image again.`,
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
  const { description: text, icon, ...rest } = parsed.data;
  return { ...rest, description: text ?? null, icon: icon ?? null };
};

/** Reads all formulas of a folder, by name. @throws StartError naming one that is incomplete or not valid. */
const readOfficialFormulas = async (directory = OFFICIAL_DIR): Promise<OfficialFormula[]> => {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => {
    throw new StartError(
      `The official formulas are not at ${directory}, so this installation is incomplete. Restore the release: git checkout -- formulas, or build the image again.`,
    );
  });
  const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  return Promise.all(names.toSorted().map((name) => readOne(`${directory.replace(/\/$/, '')}/${name}`)));
};

/** Adds and changes the official formulas of the vault as the release has them, all or none. They belong to no tenant: no log has a row. */
export const installOfficialFormulas = async (
  ctx: Pick<CodeContext, 'db' | 'now'>,
  directory?: string,
): Promise<InstalledFormula[]> => installFormulas(ctx.db, await readOfficialFormulas(directory), ctx.now());

/** Reads the folder of the release once in the life of the process. After an error it tries again. */
export const createOfficialReader = (directory?: string): (() => Promise<OfficialFormula[]>) => {
  let read: Promise<OfficialFormula[]> | undefined;
  return () =>
    (read ??= readOfficialFormulas(directory).catch((error: unknown) => {
      read = undefined;
      throw error;
    }));
};
