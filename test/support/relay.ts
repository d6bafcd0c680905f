// A TCP relay in front of a database: the connection for notices can go silent, and another database can take its place.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { NOTICES_NAME } from '../../src/platform/db/application-names.ts';
import { type DatabaseAddress, urlOf } from '../../src/platform/dev-postgres/connection.ts';

export type Relay = {
  /** The database behind the relay. */
  url: string;
  /** While true, connections for notices are kept open, new ones are accepted, and no byte passes. */
  goSilent(silent: boolean): void;
  /** New connections reach another database, and the others end. */
  pointTo(address: DatabaseAddress): void;
  close(): Promise<void>;
};

export const startRelay = async (address: DatabaseAddress): Promise<Relay> => {
  let { host, port: databasePort } = address;
  let isSilent = false;
  const silenced = new Set<Socket>();
  const ofNotices = new Set<Socket>();
  const sockets: Socket[] = [];
  const relay = createServer((client) => {
    const upstream = connect(databasePort, host);
    sockets.push(client, upstream);
    client.on('data', (bytes) => {
      // In the first packet of the connection, which is not encrypted here.
      if (bytes.includes(NOTICES_NAME)) {
        ofNotices.add(client);
        if (isSilent) silenced.add(client);
      }
      if (!silenced.has(client)) upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      if (!silenced.has(client)) client.write(bytes);
    });
    for (const socket of [client, upstream]) socket.on('error', () => undefined);
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  const { port } = relay.address() as AddressInfo;
  return {
    url: urlOf({ ...address, host: '127.0.0.1', port }),
    goSilent: (silent) => {
      isSilent = silent;
      // A connection that has gone silent stays so.
      if (silent) for (const client of ofNotices) silenced.add(client);
    },
    pointTo: (next) => {
      ({ host, port: databasePort } = next);
      for (const socket of sockets) socket.destroy();
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      relay.close();
      await once(relay, 'close');
    },
  };
};
