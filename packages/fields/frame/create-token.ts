// Creates the token from what the frames hold, with one request to the vault that served them.
import { type Brand, type FieldName, fieldsOfForm, type FromFrame } from '../src/protocol.ts';
import { type Sibling, siblingsOf } from './siblings.ts';
import { failed, type FrameSession, isKeyOf, postToVault } from './vault.ts';

/** The data of a token, from the values by field. */
const dataOf = (type: string, values: Partial<Record<FieldName, unknown>>): unknown => {
  if (type === 'bank') return values;
  if (type !== 'card') return values.value;
  const { number, cvc, name, expiry } = values;
  const { month, year } = (expiry ?? {}) as { month?: number; year?: number };
  return { number, expiration_month: month, expiration_year: year, cvc, cardholder_name: name };
};

/** @param asked the fields of the mount. @returns what the page is told. */
export const createToken = async (
  own: Sibling,
  session: FrameSession,
  asked: readonly FieldName[],
  { session_key, metadata, brand }: { session_key: string; metadata: unknown; brand: Brand | undefined },
): Promise<FromFrame> => {
  const { type } = own;
  if (!isKeyOf(session, session_key)) return failed('session_refused');
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
  return postToVault<{ id: string; mask?: unknown }>(session, session_key, {
    path: '/tokens',
    body: { type, data, metadata },
    done: ({ id, mask }) => {
      for (const each of siblings) each.clear();
      return { kind: 'token', token: { id, type, mask, brand } };
    },
  });
};
