// The text of an invitation mail, as plain text and HTML. Names of tenants cannot break lines or markup.
import { escapeMarkup } from '../../platform/http/html.ts';

/** @param base_url where people reach this server, without a slash at its end. */
export const invitationLink = (base_url: string, secret: string): string => `${base_url}/join/${secret}`;

/** Mail programs list subjects on one line. */
const NAME_IN_SUBJECT_MAX = 60;
const NAME_MAX = 120;

/** RFC 2045: lines up to this length need no encoding, so that a link is one line in the source too. */
const LINE_MAX = 76;

const wrap = (paragraph: string): string => {
  const lines: string[] = [];
  for (const word of paragraph.split(' ')) {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > LINE_MAX) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines.join('\n');
};

/** Mail programs turn `scheme:rest` and `name.name` into links. These characters count as dots in host names (UTS 46). */
const linkSigns = /[:.\u3002\uff0e\uff61](?=\S)/gu;

/** Removes what breaks a line, changes its direction or looks like a link, and truncates between characters. */
const inLine = (name: string, most: number): string => {
  const plain = name
    .toWellFormed()
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\s]+/gu, ' ')
    .replace(linkSigns, '$& ')
    .trim();
  const characters = [...plain];
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : plain;
};

export type InvitationWords = { subject: string; text: string; html: string };

/** @param invitation.link of this server: an origin and a path of letters and digits. */
export const wordInvitation = (invitation: {
  tenant_name: string;
  link: string;
  expires_at: Date;
}): InvitationWords => {
  const { tenant_name, link, expires_at } = invitation;
  const name = inLine(tenant_name, NAME_MAX);
  const until = `${expires_at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const invited = `You are invited to join "${name}" in Strongroom, a vault for card, bank and personal data.`;
  const once = `The link works once, until ${until}. Anyone who has it can join: do not pass it on.`;
  const unexpected =
    'If you did not expect this mail, ignore it: only sending the form behind the link makes you a member.';
  return {
    subject: `Join "${inLine(tenant_name, NAME_IN_SUBJECT_MAX)}" in Strongroom`,
    text: `${[invited, 'To accept, open this link:', link, once, unexpected].map(wrap).join('\n\n')}\n`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Invitation</title></head>
<body style="font: 16px/1.5 sans-serif; max-width: 36em">
<p>${escapeMarkup(invited)}</p>
<p>To accept, open this link:</p>
<p><a href="${escapeMarkup(link)}">${escapeMarkup(link)}</a></p>
<p>${escapeMarkup(once)}</p>
<p>${escapeMarkup(unexpected)}</p>
</body>
</html>
`,
  };
};
