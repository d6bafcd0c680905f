// POST /access/review/attestations: a person has read a review. The entry of the log names the file by its digest.
import { invalidField } from '../../platform/base/errors.ts';
import { ACCESS_ATTESTED, logRow } from '../../platform/db/audit-record.ts';
import type { Work } from '../access/work.ts';
import type { AnswersContext } from './context.ts';

/** A sentence and a name of a ticket. */
export const NOTE_LENGTH_MAX = 200;

/** The log holds no value: a note must not have what could be a number of a card, an account or a person. */
const numberLike = /\d(?:[\s.-]?\d){6}/;

export type Attestation = { digest: string; note: string | undefined };

export type AttestationRecord = Attestation & { attested_by: string; attested_at: string };

/** @throws invalidField for a note that has a long number. */
export const attestReview = async (
  ctx: AnswersContext,
  work: Work,
  { digest, note }: Attestation,
): Promise<AttestationRecord> => {
  if (note !== undefined && numberLike.test(note))
    throw invalidField('note', 'must not have a number of seven digits or more');
  const row = logRow(ctx, work, {
    operation: 'create',
    entity_type: 'access_review',
    entity_ids: [digest],
    message: note === undefined ? ACCESS_ATTESTED : `${ACCESS_ATTESTED}: ${note}`,
  });
  await work.log([row]);
  return { digest, note, attested_by: work.actor_id, attested_at: row.created_at };
};
