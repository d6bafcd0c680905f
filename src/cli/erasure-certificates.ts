// The commands that list, print and verify certificates of deleted tenants.
import { readFileSync } from 'node:fs';
import { CERTIFICATE, certificateKeyOf } from '../modules/access/erasure-certificates.ts';
import {
  findCertificate,
  findCertificatesAfter,
  type ListedCertificate,
} from '../modules/access/rows/erasure-certificates.ts';
import type { Context } from '../modules.ts';
import { openDocument, parsePublicKey, publicKeyText } from '../platform/crypto/signed-note.ts';
import { StartError } from '../platform/base/errors.ts';
import { DELETED_TENANT_GRACE_MS } from '../platform/base/times.ts';
import { UsageError } from './command.ts';

/** A certificate has some hundred bytes, and a line for each key. */
const FILE_BYTES_MAX = 16 * 1024 * 1024;

const isSigned = (ctx: Context, { tenant_id, certificate }: ListedCertificate): boolean => {
  const document = openDocument(certificateKeyOf(ctx).publicKey, certificate);
  return document?.['type'] === CERTIFICATE && document['tenant_id'] === tenant_id;
};

/** State of the deletion of a tenant. Refused: its row was changed in the database. */
type DeletionState = 'deleting' | 'issued' | 'refused';
const deletionTexts: Record<DeletionState, string> = {
  deleting: 'rows are being deleted',
  issued: 'certificate issued',
  refused: 'refused: changed in the database',
};

export const deletionText = (state: DeletionState): string => deletionTexts[state];

type ListedDeletion = { tenant_id: string; deleted_at: Date; state: DeletionState };

/** @param found called for each deleted tenant, the oldest first. */
export const listCertificates = async (ctx: Context, found: (one: ListedDeletion) => void): Promise<void> => {
  for (let after: ListedCertificate | undefined; ;) {
    const slice = await findCertificatesAfter(ctx.db, after);
    if (slice.length === 0) return;
    for (const row of slice) {
      const { tenant_id, deleted_at, certificate } = row;
      const ended = isSigned(ctx, row) ? 'issued' : 'refused';
      found({ tenant_id, deleted_at, state: certificate === null ? 'deleting' : ended });
    }
    after = slice.at(-1);
  }
};

/** @returns the certificate as JSON. @throws StartError where there is none, or the one in the database was not signed by this vault. */
export const certificateOf = async (ctx: Context, tenant_id: string): Promise<string> => {
  const row = await findCertificate(ctx.db, tenant_id);
  if (!row)
    throw new StartError(
      `No tenant with this id was deleted since certificates exist. List those that were: erasures list`,
    );
  if (!row.certificate)
    throw new StartError(
      `The rows of this tenant are still being deleted. Its certificate follows, ${DELETED_TENANT_GRACE_MS / 60_000} minutes after the deletion at the earliest.`,
    );
  if (!isSigned(ctx, row))
    throw new StartError('The certificate in the database was changed: this vault did not sign it.');
  return JSON.stringify(row.certificate, undefined, 2);
};

export const certificatePublicKey = (ctx: Context): string => publicKeyText(certificateKeyOf(ctx).publicKey);

/** Verifies a file without a vault. @param key its public key, as `erasures key` prints it. @throws StartError; UsageError. */
export const verifyCertificate = (file: string, key: string): { tenant_id: unknown; deleted_at: unknown } => {
  const publicKey = parsePublicKey(key);
  if (!publicKey) throw new UsageError('The option --public-key must be what erasures key prints: 32 bytes in base64.');
  let document: unknown;
  try {
    const bytes = readFileSync(file);
    if (bytes.length > FILE_BYTES_MAX) throw new RangeError('too large');
    document = JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new StartError(`${file} cannot be read as JSON.`);
  }
  const certificate = openDocument(publicKey, document);
  if (certificate?.['type'] !== CERTIFICATE)
    throw new StartError(`${file} is no certificate of the vault with this public key, or it was changed.`);
  return { tenant_id: certificate['tenant_id'], deleted_at: certificate['deleted_at'] };
};
