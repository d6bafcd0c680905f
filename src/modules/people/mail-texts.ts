// The texts of mails, as plain text and HTML. Names of tenants cannot break lines or markup.
import { escapeMarkup } from '../../platform/http/html.ts';

/** @param base_url where people reach this server, without a slash at its end. */
export const invitationLink = (base_url: string, secret: string): string => `${base_url}/join/${secret}`;

/** The page of a link that resets a password: the secret comes after it. */
export const RESET_PATH = '/console/sign-in/reset';

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

export type MailWords = { subject: string; text: string; html: string };

type Mail = { subject: string; title: string; before: string[]; link?: string; after: string[] };

/** @param mail.link of this server: an origin and a path of letters and digits, on a line of its own. */
const wordMail = ({ subject, title, before, link, after }: Mail): MailWords => {
  const links = link === undefined ? [] : [link];
  const paragraphs = [
    ...before.map(escapeMarkup),
    ...links.map((each) => `<a href="${escapeMarkup(each)}">${escapeMarkup(each)}</a>`),
    ...after.map(escapeMarkup),
  ];
  return {
    subject,
    text: `${[...before.map(wrap), ...links, ...after.map(wrap)].join('\n\n')}\n`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>${title}</title></head>
<body style="font: 16px/1.5 sans-serif; max-width: 36em">
${paragraphs.map((paragraph) => `<p>${paragraph}</p>`).join('\n')}
</body>
</html>
`,
  };
};

const untilText = (expires_at: Date): string => `${expires_at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;

/** @param invitation.base_url as for `invitationLink`. */
export const wordInvitation = (invitation: {
  tenant_name: string;
  base_url: string;
  secret: string;
  expires_at: Date;
}): MailWords => {
  const { tenant_name, base_url, secret, expires_at } = invitation;
  const name = inLine(tenant_name, NAME_MAX);
  return wordMail({
    subject: `Join "${inLine(tenant_name, NAME_IN_SUBJECT_MAX)}" in Strongroom`,
    title: 'Invitation',
    before: [
      `You are invited to join "${name}" in Strongroom, a vault for card, bank and personal data.`,
      'To accept, open this link:',
    ],
    link: invitationLink(base_url, secret),
    after: [
      `The link works once, until ${untilText(expires_at)}. Anyone who has it can join: do not pass it on.`,
      'If you did not expect this mail, ignore it: only sending the form behind the link makes you a member.',
    ],
  });
};

/** @param reset.base_url as for `invitationLink`. */
export const wordReset = (reset: { base_url: string; secret: string; expires_at: Date }): MailWords =>
  wordMail({
    subject: 'Choose a new password in Strongroom',
    title: 'New password',
    before: [
      'Strongroom, a vault for card, bank and personal data, was asked to reset the password of your account.',
      'To choose a new password, open this link:',
    ],
    link: `${reset.base_url}${RESET_PATH}/${reset.secret}`,
    after: [
      `The link works once, until ${untilText(reset.expires_at)}, and only the newest one works. Anyone who has it can choose your password: do not pass it on.`,
      'If you did not ask for it, ignore this mail: your password stays as it is.',
    ],
  });

/** Without a link: a mail that looks like it must lead to no false page. */
export const wordWasReset = (): MailWords =>
  wordMail({
    subject: 'Your password in Strongroom was reset',
    title: 'Password reset',
    before: [
      'The password of your account in Strongroom was reset by a link that was sent to this address. All of your sessions ended.',
      'If it was not you, tell an administrator of your tenant or the operator of the vault at once: another person can read your mails.',
    ],
    after: [],
  });

/** Without a link, as above. @param webhook.name of the webhook. */
export const wordWebhookPaused = (webhook: { tenant_name: string; name: string }): MailWords =>
  wordMail({
    subject: 'A webhook in Strongroom was paused',
    title: 'Webhook paused',
    before: [
      `The webhook "${inLine(webhook.name, NAME_MAX)}" of "${inLine(webhook.tenant_name, NAME_MAX)}" was paused: no event could be delivered for five days, or too many wait.`,
      'No new events are kept for it. Its page in the console shows what failed, and resumes it.',
    ],
    after: [],
  });
