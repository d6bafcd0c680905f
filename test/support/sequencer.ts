// Runs the slowest test files first, so that no long file is left for the end, when other workers have nothing to do.
import { basename } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files of more than twenty seconds on two cores, the slowest first: the end of a run prints them. */
const SLOWEST: string[] = [
  'proxy-transforms',
  'processes',
  'mail',
  'proxy-review',
  'sign-in',
  'members',
  'proxy-hostile',
  'tenancy',
  'fields',
  'console-token-pages',
  'provable-log',
  'proxy-timeouts',
  'sweep',
  'passwords',
  'tracing',
  'react-calls',
  'password-alone',
  'react-idempotency',
  'single-sign-on',
];

const rankOf = ({ moduleId }: TestSpecification): number => {
  const at = SLOWEST.indexOf(basename(moduleId, '.test.ts'));
  return at === -1 ? SLOWEST.length : at;
};

export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // Files of one project stay together: a worker is reused within a project only.
    return files.toSorted((a, b) => {
      const byProject = a.project.name.localeCompare(b.project.name);
      return byProject !== 0 ? byProject : rankOf(a) - rankOf(b) || a.moduleId.localeCompare(b.moduleId);
    });
  }
}
