// The checks of a request that an explanation and a dry run name. Pure.
import { type By, type Decision, isOnTokens } from './explain-decision.ts';
import type { Permission } from './permissions.ts';

export const checkNames = [
  'rule',
  'token',
  'expiry',
  'proxy.allowed_hosts',
  'application.allowed_hosts',
  'operator',
  'bound_to',
  'daily_uses',
  'daily_reveals',
] as const;

export type Check = { name: (typeof checkNames)[number]; ok: boolean; detail: string };

const shown = { value: 'its value', masked: 'its mask', nothing: 'nothing of its value' } as const;

const nouns: Record<Exclude<By['kind'], 'nothing'>, string> = {
  rule: 'An access rule',
  permission: 'The permission',
  role: 'The role',
};

export const ruleCheck = ({ by, shows }: Decision, permission: Permission): Check => {
  if (by.kind === 'nothing')
    return { name: 'rule', ok: false, detail: `Nothing gives the permission ${permission} here.` };
  const gives = isOnTokens(permission) ? `, and gives ${shown[shows]}` : '';
  return { name: 'rule', ok: true, detail: `${nouns[by.kind]} allows it${gives}.` };
};

export const tokenChecks = (token: { container: string; expires_at: Date | null }, now: Date): Check[] => {
  const isOver = token.expires_at !== null && token.expires_at <= now;
  return [
    { name: 'token', ok: true, detail: `The token is in ${token.container}.` },
    { name: 'expiry', ok: !isOver, detail: isOver ? 'The token has expired.' : 'The token has not expired.' },
  ];
};
