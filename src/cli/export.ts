// `strongroom admin export`: writes all tokens of a tenant to a file that is encrypted with age, as lines of JSON.
import { existsSync } from 'node:fs';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { type ExportedToken, exportTokens } from '../modules/tokens/export-tokens.ts';
import type { TokensContext } from '../modules/tokens/context.ts';
import { createSha256 } from '../platform/crypto/digest.ts';
import { writeNewFile } from '../platform/base/files.ts';
import { version } from '../platform/base/version.ts';
import { checkTenant } from './import.ts';
import { createAgeEncryption } from '../platform/crypto/age-file.ts';
import { throwUsage, UsageError } from './command.ts';

export type ExportCounts = { tokens: number; by_type: Record<string, number>; sha256: string };

const encryptionTo = (recipient: string) => {
  try {
    return createAgeEncryption(recipient);
  } catch (error) {
    return throwUsage(error);
  }
};

/**
 * Exports a tenant. The first line is a manifest; the last one has counts, and the SHA-256 of all lines before it. Security
 * codes are left out. A file that is not complete is removed.
 * @throws UsageError before anything is written; StartError for a file that cannot be written.
 */
export const exportFile = async (
  ctx: TokensContext,
  tenant_id: string,
  { file, to }: { file: string; to: string },
): Promise<ExportCounts> => {
  const encrypt = encryptionTo(to);
  if (existsSync(file)) throw new UsageError(`${file} exists, and is not overwritten. Name another file.`);
  await checkTenant(ctx, tenant_id);
  const sha256 = createSha256();
  const counts: ExportCounts = { tokens: 0, by_type: {}, sha256: '' };
  const plain = new PassThrough();
  // The database waits for the disk: a page is read when the last one is encrypted.
  const put = async (text: string): Promise<void> => {
    if (plain.destroyed) throw plain.errored;
    if (!plain.write(text)) await once(plain, 'drain');
  };
  const digested = (value: unknown): string => {
    const line = `${JSON.stringify(value)}\n`;
    sha256.update(Buffer.from(line));
    return line;
  };
  const lineOf = (token: ExportedToken): string => {
    counts.tokens += 1;
    counts.by_type[token.type] = (counts.by_type[token.type] ?? 0) + 1;
    return digested(token);
  };
  // A failure of either side ends the other.
  const stop = (error: unknown): never => {
    plain.destroy(error as Error);
    throw error;
  };
  plain.on('error', () => undefined);
  const writing = encrypt(plain)
    .then((sealed) => writeNewFile(file, sealed))
    .catch(stop);
  const manifest = { format: 'strongroom-export', format_version: 1, version, tenant_id };
  const left_out = ['security codes', 'expired tokens'];
  const reading = (async () => {
    await put(digested({ manifest: { ...manifest, exported_at: ctx.now().toISOString(), left_out } }));
    await exportTokens(ctx, tenant_id, (page) => put(page.map(lineOf).join('')));
    counts.sha256 = sha256.hex();
    await put(`${JSON.stringify({ end: counts })}\n`);
    plain.end();
  })().catch(stop);
  // What the write says comes first: it has the sentence, and the reading ends with the bare error of the system.
  for (const end of await Promise.allSettled([writing, reading])) if (end.status === 'rejected') throw end.reason;
  return counts;
};
