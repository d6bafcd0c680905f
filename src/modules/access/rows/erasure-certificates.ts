// Rows of erasure certificates: begun by the deletion of a tenant, counted up by the sweep, signed at its end.
import type { Database } from '../../../platform/db/database.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import type { JsonDocument, SignedDocument } from '../../../platform/crypto/signed-note.ts';

/** Certificates that one round issues, and the command line lists. */
const SLICE = 1_000;

/** In the transaction that deletes the tenant. @param rows_deleted what that transaction deletes, by table. */
export const insertDeletion = async (
  { prisma, tenant_id }: PrismaTransaction,
  row: { deleted_at: Date; deletion: SignedDocument; rows_deleted: Record<string, number> },
): Promise<void> => {
  await prisma.erasure_certificates.create({ data: { tenant_id, ...row } });
};

const FIND_SWEPT = `
SELECT tenant_id, deletion, rows_deleted FROM erasure_certificates c
WHERE certificate IS NULL AND NOT EXISTS (SELECT FROM deleted_tenants d WHERE d.id = c.tenant_id) LIMIT ${SLICE}`;

/** Deletions without a certificate whose tenants have no row left. */
export const findSweptDeletions = async ({ statements }: Pick<Database, 'statements'>) =>
  (await statements.query(undefined, FIND_SWEPT, [])) as {
    tenant_id: string;
    deletion: unknown;
    rows_deleted: JsonDocument;
  }[];

const KEEP = 'UPDATE erasure_certificates SET certificate = $2 WHERE tenant_id = $1 AND certificate IS NULL';

export const keepCertificate = async (
  { statements }: Pick<Database, 'statements'>,
  tenant_id: string,
  certificate: JsonDocument,
): Promise<void> => {
  await statements.query(undefined, KEEP, [tenant_id, JSON.stringify(certificate)]);
};

export type ListedCertificate = { tenant_id: string; deleted_at: Date; certificate: unknown };

/** The oldest first. */
export const findCertificatesAfter = async (
  { prisma }: Pick<Database, 'prisma'>,
  after: { tenant_id: string; deleted_at: Date } | undefined,
): Promise<ListedCertificate[]> =>
  prisma((client) =>
    client.erasure_certificates.findMany({
      select: { tenant_id: true, deleted_at: true, certificate: true },
      ...(after && {
        where: {
          OR: [
            { deleted_at: { gt: after.deleted_at } },
            { deleted_at: after.deleted_at, tenant_id: { gt: after.tenant_id } },
          ],
        },
      }),
      orderBy: [{ deleted_at: 'asc' }, { tenant_id: 'asc' }],
      take: SLICE,
    }),
  );

export const findCertificate = async (
  { prisma }: Pick<Database, 'prisma'>,
  tenant_id: string,
): Promise<ListedCertificate | undefined> =>
  (await prisma((client) =>
    client.erasure_certificates.findFirst({
      where: { tenant_id },
      select: { tenant_id: true, deleted_at: true, certificate: true },
    }),
  )) ?? undefined;
