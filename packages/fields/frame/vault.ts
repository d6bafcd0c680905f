// Requests of a frame to the vault that served it, under the key of its own session.
import type { FieldProblems, FieldsErrorCode, FromFrame } from '../src/protocol.ts';

/** A vault that has not answered by then is treated as one that is not reached. */
const ANSWER_MS_MAX = 30_000;

const codeOf = (status: number): FieldsErrorCode => {
  if (status === 401) return 'session_expired';
  if (status === 403) return 'session_refused';
  if (status === 429) return 'rate_limited';
  return status >= 500 ? 'server' : 'refused';
};

export const failed = (code: FieldsErrorCode, errors?: FieldProblems): FromFrame => ({ kind: 'failed', code, errors });

/** `public_id` is that of the key of the session that the frame belongs to, as the vault has written it into the document. */
export type FrameSession = { id: string; public_id: string };

/**
 * A script of the page may add frames and give each of them any key. So values leave only under the key of the session that the
 * frame belongs to. The vault checks the key against the header again.
 */
export const isKeyOf = ({ public_id }: FrameSession, session_key: string): boolean =>
  session_key.startsWith(`svc_sess_${public_id}_`);

/** @returns what the page is told. @param done makes it of the answer of the vault. */
export const postToVault = async <Answer>(
  { id }: FrameSession,
  session_key: string,
  { path, body, done }: { path: string; body: unknown; done: (answer: Answer) => FromFrame },
): Promise<FromFrame> => {
  try {
    const response = await fetch(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'svc-api-key': session_key, 'svc-fields-session': id },
      body: JSON.stringify(body),
      credentials: 'omit',
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    return response.ok ? done((await response.json()) as Answer) : failed(codeOf(response.status));
  } catch {
    return failed('network');
  }
};
