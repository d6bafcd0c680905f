// The process with the PKCS #11 library: opens the token at the first message, then answers requests one by one.
import type { Opening, Reply, WrapRequest } from './messages.ts';
import { faultOf, openToken, type Token } from './token.ts';

// The server decides when it ends: a signal to all processes of a terminal or a service must not end it before.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);

let token: Promise<Token> | undefined;

process.on('message', (message: Opening | WrapRequest) => {
  void answer(message).then((reply) => {
    process.send?.(reply);
    // The message is written by now: it is a copy.
    if ('result' in reply) reply.result.fill(0);
  });
});

// The server closed the connection, or ended. A session that is closed is not counted by the HSM any more.
process.on('disconnect', () => {
  const end = (): never => process.exit();
  if (!token) end();
  else void token.then((opened) => opened.close()).then(end, end);
});

const answer = async (message: Opening | WrapRequest): Promise<Reply> => {
  const id = 'id' in message ? message.id : 0;
  try {
    if (!('id' in message)) {
      token = openToken(message);
      return { id: 0, root_key_ids: (await token).root_key_ids };
    }
    if (!token) throw new Error('no token was opened');
    const { action, key, iv, aad, data } = message;
    try {
      return { id, result: (await token)[action](key, { iv, aad, data }) };
    } finally {
      data.fill(0);
    }
  } catch (error) {
    return { id, fault: faultOf(error) };
  }
};
