// Routes of /fields: the scripts of each version, the documents of the frames, and the digests of all scripts.
import { readFileSync } from 'node:fs';
import { html } from '../../platform/http/html.ts';
import { findFrameSessionBeforeCaller, type FrameSession } from '../sessions/rows.ts';
import { notFound } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import { asset, serveAsset } from '../../platform/http/assets.ts';
import type { SessionsContext } from '../sessions/context.ts';
import { codeLengthOf, findCard } from '../tokens/security-codes.ts';

// The document of one field, which a page of a merchant frames: it has no content of its own, and its script makes the input.

/** No other origin may be loaded, no form sent, and only pages of the session may frame it. */
const framePolicy = ({ allowed_origins }: Pick<FrameSession, 'allowed_origins'>): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    `frame-ancestors ${allowed_origins.join(' ')}`,
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');

/**
 * Scripts of released versions read the three attributes: they must stay. The public id lets a frame refuse the key of another session.
 * `isExpired`: the script then tells the page so. `codeLength`: of the security code that the session collects, by the brand of the card.
 */
const framePage = (
  { allowed_origins, public_id }: Pick<FrameSession, 'allowed_origins' | 'public_id'>,
  version: string,
  { isExpired, codeLength }: { isExpired: boolean; codeLength: number | undefined },
): string =>
  String(html`<!doctype html>
<html lang="en" data-origins="${allowed_origins.join(' ')}" data-key="${public_id}"${isExpired && html` data-expired=""`}${codeLength !== undefined && html` data-code-length="${codeLength}"`}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Strongroom</title>
<link rel="stylesheet" href="/fields/${version}/frame.css">
<script src="/fields/${version}/frame.js" defer></script>
</head>
<body></body>
</html>
`);

// The files of every version of the fields library that this server has, as the build left them.

/** The script for pages, and script and style of the frames. */
const FILE_NAMES = ['fields.js', 'frame.js', 'frame.css'] as const;

type Integrity = {
  current: string;
  /** Digests by version and file, as the attribute `integrity` has them. */
  versions: Record<string, Record<string, string>>;
};

const read = (path: string): Buffer => readFileSync(new URL(`../../generated/fields/${path}`, import.meta.url));

const readIntegrity = (): Integrity => JSON.parse(read('integrity.json').toString()) as Integrity;

const readFile = (version: string, name: (typeof FILE_NAMES)[number]): Buffer => read(`${version}/${name}`);

const open = { config: { permission: null }, schema: { hide: true } } as const;

/** What a frame may be. The library has the same list. */
const fieldNames: ReadonlySet<string> = new Set([
  'number',
  'expiry',
  'cvc',
  'name',
  'routing_number',
  'account_number',
  'value',
]);

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Any page may load these, and compare them with a digest of its own. */
const forAllPages = {
  'access-control-allow-origin': '*',
  'cross-origin-resource-policy': 'cross-origin',
};

const serveFiles = (app: App, integrity: Integrity): void => {
  app.addHook('onRequest', async (_request, reply) => void reply.headers(forAllPages));
  for (const version of Object.keys(integrity.versions))
    for (const name of FILE_NAMES)
      serveAsset(app, { ...asset('', name, readFile(version, name)), path: `/fields/${version}/${name}` });
  app.get('/fields/integrity.json', open, async (_request, reply) => {
    reply.header('cache-control', 'no-cache');
    return integrity;
  });
};

export const fieldsRoutes = async (app: App, ctx: SessionsContext): Promise<void> => {
  const integrity = readIntegrity();
  await app.register(async (scope: App) => serveFiles(scope, integrity));

  /** The frame learns the brand's length from the vault, and not from the page. */
  const codeLengthOfSession = async ({ tenant_id, token_id }: FrameSession): Promise<number | undefined> => {
    const card = token_id === null ? undefined : await findCard(ctx, { tenant_id, token_id });
    return card && codeLengthOf(card);
  };

  app.get<{ Params: { version: string; session: string; field: string } }>(
    '/fields/:version/frame/:session/:field',
    open,
    async ({ params: { version, session: id, field } }, reply) => {
      const isKnown = Object.hasOwn(integrity.versions, version) && fieldNames.has(field) && uuid.test(id);
      const session = isKnown && (await findFrameSessionBeforeCaller(ctx.db, id));
      // The same as for any unknown path.
      if (!session) throw notFound('resource');
      reply.headers({
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': framePolicy(session),
        // For pages that isolate themselves: each of their frames must then do so too.
        'cross-origin-embedder-policy': 'require-corp',
        'cross-origin-resource-policy': 'cross-origin',
        'referrer-policy': 'no-referrer',
      });
      const isExpired = session.expires_at <= ctx.now();
      const codeLength = field === 'cvc' && !isExpired ? await codeLengthOfSession(session) : undefined;
      return framePage(session, version, { isExpired, codeLength });
    },
  );
};
