// Certificates of deleted tenants: signed statements of what was destroyed. Begun with the deletion, issued when no row is left.
import { certificateSeed, vaultIdOf } from '../../platform/crypto/digest.ts';
import { type LogSigningKey, openDocument, signDocument, signingKeyOfSeed } from '../../platform/crypto/signed-note.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { noteTampered } from '../../platform/db/signed-rows.ts';
import type { DeletedTenant } from './rows/tenants.ts';
import { findSweptDeletions, keepCertificate } from './rows/erasure-certificates.ts';
import type { Work } from './work.ts';

const DELETION = 'strongroom tenant deletion/1';
export const CERTIFICATE = 'strongroom erasure certificate/1';

type Signing = Pick<Platform, 'pepper' | 'environment'>;

/** Derived from the pepper, which the database has only wrapped: a writer of the database cannot sign. */
export const certificateKeyOf = ({ pepper }: Pick<Platform, 'pepper'>): LogSigningKey =>
  signingKeyOfSeed(certificateSeed(pepper));

/** What the transaction of the deletion stores: from then on no one can change who deleted what. */
export const signDeletion = (ctx: Signing, work: Work, tenant: DeletedTenant, deleted_at: Date) =>
  signDocument(certificateKeyOf(ctx), {
    type: DELETION,
    vault_id: vaultIdOf(ctx.pepper),
    environment: ctx.environment,
    tenant_id: work.tenant_id,
    tenant_created_at: tenant.created_at.toISOString(),
    deleted_at: deleted_at.toISOString(),
    deleted_by: { type: work.actor_type, id: work.actor_id },
    keys_destroyed: tenant.keys.map(({ id, purpose, created_at }) => ({
      id,
      purpose,
      created_at: created_at.toISOString(),
    })),
  });

/**
 * Issues the certificates of tenants of which the sweep has deleted every row. One whose deletion was changed in the database
 * gets none. @throws unavailable.
 */
export const issueCertificates = async (
  ctx: Signing & Pick<Platform, 'db' | 'now' | 'log' | 'metrics'>,
): Promise<void> => {
  const found = await findSweptDeletions(ctx.db);
  if (found.length === 0) return;
  const key = certificateKeyOf(ctx);
  for (const { tenant_id, deletion, rows_deleted } of found) {
    const document = openDocument(key.publicKey, deletion);
    if (document?.['type'] !== DELETION || document['tenant_id'] !== tenant_id) {
      noteTampered(ctx, { table: 'erasure_certificates', tenant_id, row_id: tenant_id });
      // So that the alarm is raised once. `{}` does not verify as a certificate.
      await keepCertificate(ctx.db, tenant_id, {});
      continue;
    }
    const rows_gone_at = ctx.now().toISOString();
    const certificate = signDocument(key, { ...document, type: CERTIFICATE, rows_deleted, rows_gone_at });
    await keepCertificate(ctx.db, tenant_id, certificate);
    ctx.log.info({ tenant_id }, 'an erasure certificate was issued');
  }
};
