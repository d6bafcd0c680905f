// Before each test file with a database: a test that fails prints the logs of the servers that it used.
import { afterEach } from 'vitest';
import { runningServers } from './process.ts';
import { openLogs } from './server.ts';

/** The end of a log says what went wrong; a whole one hides it. */
const LINES_SHOWN = 40;

afterEach(({ task }) => {
  if (task.result?.state !== 'fail') return;
  const logs = [...openLogs, ...[...runningServers].map((server) => server.output().split('\n'))];
  for (const [index, lines] of logs.entries())
    console.error(
      `Log of server ${index + 1}:\n${lines
        .slice(-LINES_SHOWN)
        .map((line) => line.trimEnd())
        .join('\n')}`,
    );
});
