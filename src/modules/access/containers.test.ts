// Container paths against their vectors: every case has an outcome from a closed list.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { containerCovers, parseContainer } from './containers.ts';

type Case =
  | { kind: 'parse'; path: string; outcome: 'parsed'; expect: string }
  | { kind: 'parse'; path: string; outcome: 'refused' }
  | { kind: 'covers'; granted: string; wanted: string; outcome: 'covered' | 'not_covered' };

const cases = JSON.parse(
  readFileSync(new URL('../../../test/vectors/containers.json', import.meta.url), 'utf8'),
) as readonly Case[];

describe('a container path is read and compared by its grammar', () => {
  test.each(cases)('$kind $path $granted $wanted: $outcome', (each) => {
    if (each.kind === 'covers') {
      expect(['covered', 'not_covered']).toContain(each.outcome);
      expect(containerCovers(each.granted, each.wanted)).toBe(each.outcome === 'covered');
      return;
    }
    expect(each.kind).toBe('parse');
    if (each.outcome === 'parsed') expect(parseContainer(each.path)).toBe(each.expect);
    else {
      expect(each.outcome).toBe('refused');
      expect(parseContainer(each.path)).toBeUndefined();
    }
  });
});
