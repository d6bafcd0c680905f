// The order of the guides: every page of docs/ by the role of its reader. A page that is missing here fails a test.

export type Role = { name: string; summary: string; pages: readonly string[] };

/** Decisions are found from their index and the pages that name them. */
export const roles: readonly Role[] = [
  {
    name: 'Start',
    summary: 'From a clone to a stored card, and the words that the other pages use.',
    pages: ['docs/guides/start.md', 'docs/features.md', 'docs/glossary.md'],
  },
  {
    name: 'Developer',
    summary: 'Store values, use them through the proxy and reactors, and write clients.',
    pages: [
      'docs/guides/tokenize.md',
      'docs/guides/search-and-logs.md',
      'docs/guides/proxy.md',
      'docs/guides/reactors.md',
      'docs/guides/collect-cards.md',
      'docs/guides/card-on-file.md',
      'docs/guides/bound-values.md',
      'docs/guides/delegated-payments.md',
      'docs/guides/receive-card-data.md',
      'docs/guides/charge-once.md',
      'docs/guides/fingerprints.md',
      'docs/guides/cursors.md',
      'docs/guides/node.md',
      'docs/guides/python.md',
      'docs/guides/command-line.md',
      'docs/guides/move.md',
      'docs/test-your-code.md',
      'docs/api.md',
      'docs/proxy.md',
      'docs/proxy-rules.md',
      'docs/reactors.md',
      'docs/reactors-rules.md',
      'docs/parts-of-values.md',
      'docs/current-clients.md',
      'docs/earlier-clients.md',
      'docs/troubleshooting.md',
    ],
  },
  {
    name: 'Operator',
    summary: 'Run it in production: install, configure, watch, back up and upgrade.',
    pages: [
      'docs/operations/production.md',
      'docs/operations/docker.md',
      'docs/operations/configuration.md',
      'docs/operations/commands.md',
      'docs/operations/database.md',
      'docs/operations/database-roles.md',
      'docs/operations/keys.md',
      'docs/operations/backup.md',
      'docs/operations/upgrade.md',
      'docs/operations/high-availability.md',
      'docs/operations/logs.md',
      'docs/operations/log-lines.md',
      'docs/operations/metrics.md',
      'docs/operations/traces.md',
      'docs/operations/sizing.md',
      'docs/operations/limits.md',
      'docs/operations/times.md',
      'docs/operations/processes.md',
      'docs/operations/citus.md',
      'docs/operations/releases.md',
      'docs/guides/import-and-export.md',
      'docs/guides/people-and-console.md',
      'docs/console.md',
    ],
  },
  {
    name: 'Security',
    summary: 'What it protects from and what it does not, and how to prove what happened.',
    pages: [
      'docs/security.md',
      'docs/threat-model.md',
      'docs/pci-responsibilities.md',
      'docs/operations/provable-log.md',
      'docs/operations/single-sign-on.md',
      'docs/guides/rotate-a-key.md',
      'docs/guides/access-answers.md',
      'docs/guides/echo-guard.md',
      'docs/guides/webhooks.md',
    ],
  },
  {
    name: 'Contributor',
    summary: 'How the code is built, and why. Users need none of it.',
    pages: ['docs/architecture.md', 'docs/decisions/0001-decisions-have-pages.md'],
  },
];

/** The folders that hold pages. */
export const folders = ['docs', 'docs/guides', 'docs/operations', 'docs/decisions'];

/** Pages that are served, and not in the menu. */
export const isUnlisted = (file: string): boolean => file.startsWith('docs/decisions/');
