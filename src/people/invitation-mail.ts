// What a mail of an invitation says, as text and as HTML. Pure. Whatever a tenant calls itself stays one piece of one line:
// it ends no header, no sentence's line and no markup, and is no link. Nothing in it is loaded from elsewhere.
import { escapeMarkup } from '../markup.ts';

/** Where a link leads. @param base_url where people reach this server, without a slash at its end. */
export const invitationLink = (base_url: string, secret: string): string => `${base_url}/join/${secret}`;

/** Subjects are read in lists, a line each. */
const NAME_IN_SUBJECT_MAX = 60;
/** Enough to know it by. */
const NAME_MAX = 120;

/** RFC 2045: lines up to here need no encoding, and a link is one line in the mail's source too. */
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

/** Mail programs make a link of `scheme:rest` and of `name.name`. The dots are those that a browser reads as one (UTS 46). */
const linkSigns = /[:.\u3002\uff0e\uff61](?=\S)/gu;

/** As one piece of a line: nothing that breaks it, turns its direction or looks like a link, and cut between characters. */
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

/** @param invitation.link ours: an origin and a path of letters and digits. */
export const wordInvitation = (invitation: {
  tenant_name: string;
  link: string;
  expires_at: Date;
}): InvitationWords => {
  const { tenant_name, link, expires_at } = invitation;
  const name = inLine(tenant_name, NAME_MAX);
  const until = `${expires_at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const invited = `You are invited to join "${name}" in Strongroom, a vault for card, bank and personal data.`;
  const once = `The link works once, until ${until}. Whoever has it can join: do not pass it on.`;
  const unexpected =
    'If you did not expect this mail, ignore it: nobody joins unless the form behind the link is sent.';
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
