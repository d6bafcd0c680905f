// Writes the .env that docker compose takes its secrets from. Every value is random, the file is its owner's alone, and
// one that exists is never touched.
import { writeFileSync } from 'node:fs';
import { randomBase62 } from '../crypto/digest.ts';
import { randomBytesFromKernel } from '../crypto/random.ts';
import { StartError } from '../errors.ts';

const ROOT_KEY_BYTES = 32;
/** Base62 only, 190 bits: the passwords are parts of URLs. */
const PASSWORD_LENGTH = 32;

const newPassword = (): string => randomBase62(PASSWORD_LENGTH, randomBytesFromKernel);

/** @param path where `.env` goes. @throws StartError for a file that is there already, or a place that cannot be written. */
export const setup = (path: string): void => {
  const text = `# Written by npm run setup for docker compose. Keep a copy of MASTER_KEY in your secret manager:
# without it nothing in the vault opens again.
MASTER_KEY=${randomBytesFromKernel(ROOT_KEY_BYTES).toString('base64')}
POSTGRES_PASSWORD=${newPassword()}
OWNER_PASSWORD=${newPassword()}
SERVER_PASSWORD=${newPassword()}
`;
  try {
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(
      code === 'EEXIST'
        ? `${path} exists and stays as it is: another MASTER_KEY would not open what is sealed under this one. If nothing is, remove it and try again: rm ${path} && npm run setup`
        : `${path} cannot be written (${code}). Run this as the owner of the directory: npm run setup`,
    );
  }
};
