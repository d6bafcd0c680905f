// Creates the token from what the frames hold, with one request to the vault that served them.
import { fieldsOfForm } from '../src/protocol.ts';
import type { Brand, FieldName, FieldProblems, FieldsErrorCode, FromFrame } from '../src/protocol.ts';
import { type Sibling, siblingsOf } from './siblings.ts';

/** A vault that has not answered by then is treated as one that is not reached. */
const ANSWER_MS_MAX = 30_000;

const codeOf = (status: number): FieldsErrorCode => {
  if (status === 401) return 'session_expired';
  if (status === 403) return 'session_refused';
  if (status === 429) return 'rate_limited';
  return status >= 500 ? 'server' : 'refused';
};

/** The data of a token, from the values by field. */
const dataOf = (type: string, values: Partial<Record<FieldName, unknown>>): unknown => {
  if (type === 'bank') return values;
  if (type !== 'card') return values.value;
  const { number, cvc, name, expiry } = values;
  const { month, year } = (expiry ?? {}) as { month?: number; year?: number };
  return { number, expiration_month: month, expiration_year: year, cvc, cardholder_name: name };
};

const failed = (code: FieldsErrorCode, errors?: FieldProblems): FromFrame => ({ kind: 'failed', code, errors });

/** `public_id` is that of the key of the session that the frame belongs to, as the vault has written it into the document. */
export type FrameSession = { id: string; public_id: string };

/**
 * A script of the page may add frames and give each of them any key. So values leave only under the key of the session that the
 * frame belongs to. The vault checks the key against the header again.
 * @param asked the fields of the mount. @returns what the page is told.
 */
export const createToken = async (
  own: Sibling,
  session: FrameSession,
  asked: readonly FieldName[],
  { session_key, metadata, brand }: { session_key: string; metadata: unknown; brand: Brand | undefined },
): Promise<FromFrame> => {
  const { type } = own;
  if (!session_key.startsWith(`svc_sess_${session.public_id}_`)) return failed('session_refused');
  // The first field of a form creates the token, from one frame for each field.
  const [leader] = fieldsOfForm(type);
  const fields = fieldsOfForm(type).filter((field) => asked.includes(field));
  const siblings = siblingsOf(own).filter(({ field }) => fields.includes(field));
  const isOneOfEach = new Set(siblings.map(({ field }) => field)).size === siblings.length;
  if (own.field !== leader || fields.length < asked.length || siblings.length < fields.length || !isOneOfEach)
    return failed('frame_missing');
  const problems = siblings.flatMap((each) => {
    const problem = each.check();
    return problem ? [[each.field, problem] as const] : [];
  });
  if (problems.length > 0) return failed('invalid_fields', Object.fromEntries(problems));
  const data = dataOf(type, Object.fromEntries(siblings.map((each) => [each.field, each.data()])));
  let status = 0;
  try {
    const response = await fetch('/tokens', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'svc-api-key': session_key, 'svc-fields-session': session.id },
      body: JSON.stringify({ type, data, metadata }),
      credentials: 'omit',
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    ({ status } = response);
    if (!response.ok) return failed(codeOf(status));
    const { id, mask } = (await response.json()) as { id: string; mask?: unknown };
    for (const each of siblings) each.clear();
    return { kind: 'token', token: { id, type, mask, brand } };
  } catch {
    return failed('network');
  }
};
