// Grants: an application never gets more than its creator holds.
import { type AccessRule } from './access-rule.ts';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AppError } from '../../platform/base/errors.ts';
import { checkGrants, type Grants } from './grants.ts';
import type { Caller } from './caller.ts';
import type { Permission } from './permissions.ts';
import { wouldDecide } from './rules.ts';

type Scope = string | NonNullable<AccessRule['conditions']>;

/** A rule in the order of a sentence: at this priority, on this, shown so, for these. */
const rule = (
  priority: number,
  scope: Scope,
  transform: AccessRule['transform'],
  ...permissions: Permission[]
): AccessRule => ({
  description: '',
  priority,
  ...(typeof scope === 'string' ? { container: scope } : { conditions: scope }),
  transform,
  permissions: permissions.length > 0 ? permissions : ['token:read'],
});

const having = (permissions: Permission[], ...rules: AccessRule[]): Grants => ({ permissions, rules });

/** The permission that the refusal names; undefined where there is none. */
const refusalOf = (caller: Grants, grants: Grants, before?: Grants): string | undefined => {
  try {
    checkGrants({ caller }, grants, before);
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    expect((error as AppError).status).toBe(403);
    return /The permission (\S+) is needed/.exec((error as AppError).message)?.[1];
  }
};

const id = (operator: 'equals' | 'starts_with', value: string): Scope => [{ attribute: 'id', operator, value }];
const inContainer = (operator: 'equals' | 'starts_with', value: string): Scope => [
  { attribute: 'container', operator, value },
];

const read = having(['token:read']);
const readAndUse = having(['token:read', 'token:use']);
const pciRevealed = having([], rule(1, '/pci/', 'reveal'));
const mostRedacted = having([], rule(1, '/pci/', 'redact'), rule(2, '/', 'reveal'));
const plainButRedacted = having(['token:read'], rule(1, '/pci/', 'redact'));

type Case = [name: string, caller: Grants, grants: Grants, refused?: Permission];

describe('a plain permission', () => {
  const cases: Case[] = [
    ['goes to who gets it from one that holds it', read, read],
    ['is refused without it', read, having(['token:read', 'proxy:create']), 'proxy:create'],
    ['is refused to rules that come to the same', having([], rule(1, '/', 'reveal')), read, 'token:read'],
    ['is refused where a rule holds its creator back', plainButRedacted, read, 'token:read'],
    ['goes along with the rule that holds its creator back', plainButRedacted, plainButRedacted],
    [
      'shows what has no mask: a masking rule is less',
      having(['token:read'], rule(1, '/', 'mask')),
      read,
      'token:read',
    ],
    [
      'to create shows a masked value at most',
      having(['token:create'], rule(1, '/', 'mask', 'token:create')),
      having(['token:create']),
    ],
    [
      'to use reveals: a masking rule is less',
      having(['token:use'], rule(1, '/pci/', 'mask', 'token:use')),
      having(['token:use']),
      'token:use',
    ],
    ['is named first where several are missing', read, having(['log:read', 'proxy:read']), 'log:read'],
  ];
  test.each(cases)('%s', (_name, caller, grants, refused) => {
    expect(refusalOf(caller, grants)).toBe(refused);
  });
});

describe('a rule', () => {
  const cases: Case[] = [
    ['that reveals goes on from one that reveals', pciRevealed, pciRevealed],
    ['that shows less goes on from one that shows more', pciRevealed, having([], rule(1, '/pci/', 'mask'))],
    ['may reach less far', pciRevealed, having([], rule(1, '/pci/high/', 'reveal'))],
    ['may not reach further', pciRevealed, having([], rule(1, '/', 'redact')), 'token:read'],
    ['may not reach elsewhere', pciRevealed, having([], rule(1, '/bank/', 'redact')), 'token:read'],
    [
      'may not be for another permission',
      pciRevealed,
      having([], rule(1, '/pci/', 'mask', 'token:search')),
      'token:search',
    ],
    ['may mask by a plain permission', read, having([], rule(1, '/pci/', 'mask'))],
    ['may not reveal by a plain permission', read, having([], rule(1, '/pci/', 'reveal')), 'token:read'],
    ['may reveal to who uses what it reads', readAndUse, having([], rule(1, '/pci/', 'reveal'))],
    [
      'may not reveal to who is kept from using it',
      having(['token:read', 'token:use'], rule(1, '/pci/high/', 'mask', 'token:use')),
      having([], rule(1, '/pci/', 'reveal')),
      'token:read',
    ],
    ['may reveal for use by plain use', having(['token:use']), having([], rule(1, '/', 'reveal', 'token:use'))],
    [
      'may name any transform where none shows more',
      having(['token:create', 'token:delete']),
      having([], rule(1, '/', 'reveal', 'token:create', 'token:delete')),
    ],
    [
      'names the first of its permissions that is missing',
      read,
      having([], rule(1, '/', 'mask', 'token:read', 'token:search', 'token:delete')),
      'token:search',
    ],
    ['is held back by one in front that reaches a part', mostRedacted, having([], rule(1, '/', 'mask')), 'token:read'],
    [
      'is not held back by one in front that reaches nothing of it',
      mostRedacted,
      having([], rule(1, '/bank/', 'reveal')),
    ],
    [
      'is not held back by one behind',
      having([], rule(1, '/', 'reveal'), rule(2, '/pci/', 'redact')),
      having([], rule(1, '/pci/', 'reveal')),
    ],
    [
      'counts by priority, not by place',
      having([], rule(2, '/pci/', 'redact'), rule(1, '/', 'reveal')),
      having([], rule(1, '/pci/', 'reveal')),
    ],
    ['goes on behind the rule that held its creator back', mostRedacted, mostRedacted],
    [
      'goes on behind a stronger hold than its creator has',
      mostRedacted,
      having([], rule(1, '/p', 'redact'), rule(2, '/', 'reveal')),
    ],
    [
      'does not go on before the rule that held its creator back',
      mostRedacted,
      having([], rule(2, '/pci/', 'redact'), rule(1, '/', 'reveal')),
      'token:read',
    ],
    [
      'does not go on behind a rule for something else',
      mostRedacted,
      having([], rule(1, '/pci/', 'redact', 'token:search'), rule(2, '/', 'reveal')),
      'token:search',
    ],
  ];
  test.each(cases)('%s', (_name, caller, grants, refused) => {
    expect(refusalOf(caller, grants)).toBe(refused);
  });
});

describe('conditions', () => {
  const revealing = (scope: Scope) => having([], rule(1, scope, 'reveal'));
  const cases: [name: string, caller: Scope, granted: Scope, isRefused: boolean][] = [
    ['are handed on as they are', id('equals', 'a'), id('equals', 'a'), false],
    ['on an id go on from a prefix of it', id('starts_with', 'order-'), id('equals', 'order-1'), false],
    ['go on from a shorter prefix', id('starts_with', 'o'), id('starts_with', 'order-'), false],
    ['do not go on from a longer prefix', id('starts_with', 'order-'), id('starts_with', 'o'), true],
    ['do not go on from one id to all that begin so', id('equals', 'a'), id('starts_with', 'a'), true],
    ['on an id tell it by its case', id('equals', 'A'), id('equals', 'a'), true],
    ['on a container do not', inContainer('equals', '/PCI/'), inContainer('equals', '/pci/'), false],
    ['on a container go on from a container', '/pci/', inContainer('equals', '/pci/high/'), false],
    ['on a container become a container', inContainer('starts_with', '/pci/'), '/pci/high/', false],
    ['on one container do not reach those below', inContainer('equals', '/pci/'), '/pci/', true],
    ['on an id do not become a container', id('starts_with', 'a'), '/pci/', true],
    ['on an id go on from a container that is everything', '/', id('equals', 'a'), false],
    ['on an id do not go on from a container', '/pci/', id('equals', 'a'), true],
    ['of both go on from either', '/pci/', [...id('equals', 'a'), ...inContainer('equals', '/pci/')] as Scope, false],
    ['that nothing meets give nothing', '/bank/', inContainer('starts_with', 'pci'), false],
    ['that exclude each other give nothing', '/bank/', [...id('equals', 'a'), ...id('equals', 'b')] as Scope, false],
  ];
  test.each(cases)('%s', (_name, caller, granted, isRefused) => {
    expect(refusalOf(revealing(caller), revealing(granted))).toBe(isRefused ? 'token:read' : undefined);
  });

  test('of a rule that nothing meets do not hold another back', () => {
    const caller = having([], rule(1, inContainer('equals', 'pci'), 'redact'), rule(2, '/', 'reveal'));
    expect(refusalOf(caller, having([], rule(1, '/', 'reveal')))).toBeUndefined();
  });
});

describe('hosts', () => {
  const narrowed = (hosts: string[] | undefined, ...permissions: Permission[]): Grants => ({
    ...having(permissions),
    allowed_hosts: hosts,
  });
  const anywhere = undefined;
  const lists: [name: string, caller: string[] | undefined, granted: string[] | undefined, isGiven: boolean][] = [
    ['are narrowed by a caller without hosts', anywhere, ['a.example'], true],
    ['are left open by a caller without hosts', anywhere, anywhere, true],
    ['are not left open by a caller with hosts', ['a.example'], anywhere, false],
    ['are handed on as they are', ['a.example', '*.b.example'], ['*.b.example', 'a.example'], true],
    ['may be fewer', ['a.example', 'b.example'], ['b.example'], true],
    ['may not be others', ['a.example'], ['a.example', 'b.example'], false],
    [
      'go on from a wildcard to what lies below',
      ['*.a.example'],
      ['x.a.example', 'x.y.a.example', '*.x.a.example'],
      true,
    ],
    ['do not go on from a wildcard to the name itself', ['*.a.example'], ['a.example'], false],
    ['do not go on from a name to what lies below', ['a.example'], ['x.a.example'], false],
    ['do not go on from a name to a wildcard', ['a.example', 'x.a.example'], ['*.a.example'], false],
    ['do not go on to a longer label', ['*.a.example'], ['xa.example', '*.xa.example'], false],
  ];
  test.each(lists)('%s', (_name, caller, granted, isGiven) => {
    const check = () => checkGrants({ caller: narrowed(caller, 'token:use') }, narrowed(granted, 'token:use'));
    if (isGiven) check();
    else expect(check).toThrow('allowed_hosts');
  });

  test('of an application may stay for any caller, and do not widen by what the caller holds', () => {
    const before = narrowed(['a.example'], 'token:use');
    const caller = narrowed(['b.example'], 'application:update');
    expect(refusalOf(caller, before, before)).toBeUndefined();
    expect(() => checkGrants({ caller }, narrowed(['a.example', 'b.example'], 'token:use'), before)).toThrow(
      'allowed_hosts',
    );
    // It may use tokens, and the caller may reach there: neither may use tokens there.
    expect(refusalOf(caller, narrowed(['b.example'], 'token:use'), before)).toBe('token:use');
    expect(refusalOf(narrowed(anywhere), narrowed(anywhere, 'token:use'), before)).toBe('token:use');
    expect(refusalOf(narrowed(anywhere, 'token:use'), narrowed(anywhere, 'token:use'), before)).toBeUndefined();
    // And what the caller holds at some hosts, it does not give for more.
    const open = narrowed(anywhere, 'log:read');
    expect(refusalOf(narrowed(['b.example'], 'token:use'), narrowed(anywhere, 'token:use', 'log:read'), open)).toBe(
      'token:use',
    );
  });
});

describe('what an application has already', () => {
  const nothing = having(['application:update']);

  test('may stay for any caller', () => {
    const before = having(['log:read', 'token:read'], rule(1, '/pci/', 'redact'), rule(2, '/', 'reveal'));
    expect(refusalOf(nothing, before, before)).toBeUndefined();
    expect(refusalOf(nothing, having(['token:read'], ...before.rules), before)).toBeUndefined();
    expect(refusalOf(nothing, having([], before.rules[0] as AccessRule), before)).toBeUndefined();
  });

  test('does not let more in beside it', () => {
    expect(refusalOf(nothing, having(['log:read', 'proxy:read']), having(['log:read']))).toBe('proxy:read');
    expect(refusalOf(nothing, having([], rule(1, '/', 'reveal')), pciRevealed)).toBe('token:read');
  });

  test('is not widened by taking away the rule that held it back', () => {
    const withoutFirst = having([], mostRedacted.rules[1] as AccessRule);
    expect(refusalOf(nothing, withoutFirst, mostRedacted)).toBe('token:read');
    expect(refusalOf(mostRedacted, withoutFirst, mostRedacted)).toBe('token:read');
    expect(refusalOf(plainButRedacted, read, plainButRedacted)).toBe('token:read');
    expect(refusalOf(having([], rule(1, '/', 'reveal')), withoutFirst, mostRedacted)).toBeUndefined();
  });

  test('is not widened by another order of equal priorities', () => {
    const [redact, reveal] = [rule(1, '/pci/', 'redact'), rule(1, '/', 'reveal')];
    expect(refusalOf(nothing, having([], redact, reveal), having([], redact, reveal))).toBeUndefined();
    expect(refusalOf(nothing, having([], reveal, redact), having([], redact, reveal))).toBe('token:read');
  });
});

describe('for any rules', () => {
  const values = ['/', '/p', '/pci/', '/pci/high/', '/bank/', 'a', 'ab'];
  const named: Permission[] = ['token:create', 'token:read', 'token:use'];
  const condition = fc.record({
    attribute: fc.constantFrom('id' as const, 'container' as const),
    operator: fc.constantFrom('equals' as const, 'starts_with' as const),
    value: fc.constantFrom(...values),
  });
  const scope = fc.oneof(
    fc.constantFrom('/', '/pci/', '/pci/high/', '/bank/'),
    fc.array(condition, { minLength: 1, maxLength: 2 }),
  );
  const anyRule = fc
    .tuple(
      fc.integer({ min: 1, max: 3 }),
      scope,
      fc.constantFrom('redact' as const, 'mask' as const, 'reveal' as const),
      fc.subarray(named, { minLength: 1 }),
    )
    .map(([priority, on, transform, permissions]) => rule(priority, on, transform, ...permissions));
  const anything = fc
    .tuple(fc.subarray(named), fc.array(anyRule, { maxLength: 4 }))
    .map(([permissions, rules]) => having(permissions, ...rules));

  const targets = ['/', '/pci/', '/pci/high/', '/bank/', '/other/'].flatMap((container) =>
    [undefined, 'a', 'ab', 'b'].map((tokenId) => (tokenId === undefined ? { container } : { id: tokenId, container })),
  );

  /** How much is shown in the end: to the eye, or, for use, to whom it is sent. */
  const shownTo = (grants: Grants, permission: Permission, target: (typeof targets)[number]): number => {
    const caller: Caller = {
      tenant_id: '',
      actor_id: '',
      actor_type: 'application',
      permissions: new Set(grants.permissions),
      rules: grants.rules.toSorted((one, other) => one.priority - other.priority),
      deduplicate_tokens: false,
    };
    const transform = wouldDecide(caller, permission, target);
    if (transform === undefined) return -1;
    const strength = ['redact', 'mask', 'default', 'reveal'].indexOf(transform);
    if (permission === 'token:create') return Math.min(strength, 1);
    return permission === 'token:use' && transform === 'default' ? 3 : strength;
  };

  /** Strength that the holder can reach: what it may read plainly it can have revealed by use. */
  const reachOf = (grants: Grants, permission: Permission, target: (typeof targets)[number]): number => {
    const shown = shownTo(grants, permission, target);
    const uses = permission === 'token:read' && shown >= 0 && shownTo(grants, 'token:use', target) === 3;
    return uses ? 3 : shown;
  };

  test('who holds something may hand on exactly that', () => {
    fc.assert(
      fc.property(anything, (grants) => refusalOf(grants, grants) === undefined),
      { numRuns: 1_000 },
    );
  });

  test('no caller grants more of a token than the caller, or the application before, can see', () => {
    let allowed = 0;
    fc.assert(
      fc.property(anything, anything, fc.option(anything, { nil: undefined }), (caller, grants, before) => {
        if (refusalOf(caller, grants, before) !== undefined) return;
        allowed += 1;
        for (const permission of named)
          for (const target of targets) {
            const held = [caller, ...(before ? [before] : [])].map((each) => reachOf(each, permission, target));
            expect(shownTo(grants, permission, target)).toBeLessThanOrEqual(Math.max(...held));
          }
      }),
      { numRuns: 5_000 },
    );
    expect(allowed).toBeGreaterThan(200);
  });
});
