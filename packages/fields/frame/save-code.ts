// Sends the security code of a stored card from its frame, with one request to the vault that served it.
import type { FromFrame, SavedCode } from '../src/protocol.ts';
import type { Sibling } from './siblings.ts';
import { failed, type FrameSession, isKeyOf, postToVault } from './vault.ts';

/** @returns what the page is told: the card, and when the code is gone. */
export const saveCode = async (own: Sibling, session: FrameSession, session_key: string): Promise<FromFrame> => {
  if (!isKeyOf(session, session_key)) return failed('session_refused');
  const problem = own.check();
  if (problem) return failed('invalid_fields', { cvc: problem });
  return postToVault<SavedCode>(session, session_key, {
    path: `/sessions/${session.id}/cvc`,
    body: { cvc: own.data() },
    done: ({ id, cvc_expires_at }) => {
      own.clear();
      return { kind: 'saved', saved: { id, cvc_expires_at } };
    },
  });
};
