// The document of one field, which a page of a merchant frames: it has no content of its own, and its script makes the input.
import { html } from '../../platform/http/html.ts';
import type { FrameSession } from '../sessions/rows.ts';

/** No other origin may be loaded, no form sent, and only pages of the session may frame it. */
export const framePolicy = ({ allowed_origins }: Pick<FrameSession, 'allowed_origins'>): string =>
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
export const framePage = (
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
