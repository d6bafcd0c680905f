// Prints, after a run: the slowest files, unstable tests, and what was left out for want of which program. Tells test/run.ts.
import { relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';
import { findMissingPrograms } from './programs.ts';

const FILES_SHOWN = 10;

export default class Summary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const files = modules
      .map((module) => ({
        name: relative(process.cwd(), module.moduleId),
        seconds: (module.diagnostic().duration + module.diagnostic().collectDuration) / 1000,
      }))
      .toSorted((a, b) => b.seconds - a.seconds);
    console.log('Slowest files, with their imports:');
    for (const { name, seconds } of files.slice(0, FILES_SHOWN))
      console.log(`${seconds.toFixed(1).padStart(8)} s  ${name}`);
    for (const module of modules)
      for (const test of module.children.allTests('passed'))
        if (test.diagnostic()?.flaky === true)
          console.log(`Passed at the second try: ${relative(process.cwd(), module.moduleId)}: ${test.fullName}`);
    for (const { program, tests } of findMissingPrograms())
      console.log(`Left out, because ${program} is not installed: ${tests}`);
    process.send?.('ended');
  }
}
