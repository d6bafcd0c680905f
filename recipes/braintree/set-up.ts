// Makes the address that a sender of webhooks gets. Its cards become tokens before your backend sees them.
import { readFileSync } from 'node:fs';
import type { Strongroom } from '@strongroom/node';

const code = readFileSync(new URL('./transform.js', import.meta.url), 'utf8');

/** @returns the path and query of the address. @param keys `{ PUBLIC_KEY, PRIVATE_KEY }`, shared with the sender. */
export const setUp = async (
  vault: Strongroom,
  backendUrl: string,
  keys: { PUBLIC_KEY: string; PRIVATE_KEY: string },
): Promise<string> => {
  const application = await vault.applications.create({
    name: 'Webhooks',
    type: 'private',
    permissions: ['token:create'],
  });
  const proxy = await vault.proxies.create({
    name: 'Webhooks',
    destination_url: backendUrl,
    // The sender has no key of the vault, and braces in what it sends are data.
    require_auth: false,
    expressions: 'off',
    application: { id: application.id },
    configuration: keys,
    request_transform: { code },
  });
  return `/proxy?svc-proxy-key=${proxy.key}`;
};
